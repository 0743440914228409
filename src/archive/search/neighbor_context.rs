/*!
Context of short turns. "Yes, the second one" does not say what it is about; the turns before it do.

So the words before a short turn count a little for the turn itself, and its vector is mixed with one of the whole. Both were chosen
with `cargo xtask bench retrieval`. The idea is known as contextual retrieval (Anthropic 2024, "Introducing Contextual Retrieval"),
where a model writes the context.
*/

use std::collections::HashMap;

use super::{SearchError, SearchIndex};
use crate::quote::head;
use crate::store::{StoreReader, TurnLocation};
use crate::turn_text;
use ctxbridge_transcript::SearchableText;

/// Characters of prompt and answer up to which a turn is short.
const MAX_SHORT_TURN_CHARS: usize = 400;
/// Characters of a prompt, and of an answer, that are kept for neighboring turns.
const MAX_CONTEXT_CHARS: usize = 250;
/// Number of turns before a short one whose words count for it.
const CONTEXT_TURNS_BEFORE: u32 = 2;

/// `true` if a turn is short: its prompt and answer have at most 400 characters together.
pub fn is_short_turn(fields: &SearchableText) -> bool {
    fields.prompt.chars().chain(fields.answer.chars()).nth(MAX_SHORT_TURN_CHARS).is_none()
}

/// Text that a turn contributes to its neighbors.
pub fn context_text(prompt: &str, answer: &str) -> String {
    let [prompt, answer] = [prompt, answer].map(|text| head(text.trim(), MAX_CONTEXT_CHARS));
    format!("{prompt}\n{answer}").trim().to_owned()
}

/// Returns the texts before a turn, oldest first. `known` has the texts of some entries, and an index may have others.
///
/// # Errors
/// If the archive or the index cannot be read.
pub fn context_before(
    store: &mut dyn StoreReader,
    index: Option<&SearchIndex>,
    place: &TurnLocation,
    known: &HashMap<i64, String>,
) -> Result<String, SearchError> {
    let mut all = Vec::new();
    for distance in (1..=CONTEXT_TURNS_BEFORE).rev() {
        all.extend(at(store, index, place, place.index.checked_sub(distance), known)?);
    }
    Ok(all.join("\n"))
}

/// Returns the texts just before a turn and just after it.
///
/// # Errors
/// As [`context_before`].
pub fn adjacent_contexts(
    store: &mut dyn StoreReader,
    index: &SearchIndex,
    place: &TurnLocation,
) -> Result<[String; 2], SearchError> {
    let known = HashMap::new();
    let before = at(store, Some(index), place, place.index.checked_sub(1), &known)?;
    let after = at(store, Some(index), place, place.index.checked_add(1), &known)?;
    Ok([before, after].map(Option::unwrap_or_default))
}

fn at(
    store: &mut dyn StoreReader,
    index: Option<&SearchIndex>,
    place: &TurnLocation,
    number: Option<u32>,
    known: &HashMap<i64, String>,
) -> Result<Option<String>, SearchError> {
    // What is no longer part of the conversation stands beside nothing.
    let Some(number) = number.filter(|_| !place.is_superseded) else { return Ok(None) };
    let Some(turn) = store.turn(place.transcript, number)? else { return Ok(None) };
    if let Some(known) = known.get(&turn.entry) {
        return Ok(Some(known.clone()));
    }
    let excerpt = index.map_or(Ok(None), |index| index.excerpt(turn.entry))?;
    Ok(Some(match excerpt {
        Some(excerpt) => context_text(&excerpt.prompt, &excerpt.answer),
        None => turn_text::fields(store, &turn).map(|fields| context_text(&fields.prompt, &fields.answer)).unwrap_or_default(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(prompt: &str, answer: &str) -> SearchableText {
        SearchableText { prompt: prompt.into(), answer: answer.into(), ..SearchableText::default() }
    }

    #[test]
    fn characters_count() {
        let long = "é".repeat(MAX_SHORT_TURN_CHARS);
        assert!(is_short_turn(&fields(&long, "")) && is_short_turn(&fields("", "")));
        assert!(!is_short_turn(&fields(&long, "!")));
        assert_eq!(context_text(" a ", ""), "a");
        assert_eq!(context_text("a", "b"), "a\nb");
        assert_eq!(context_text("", &long).chars().count(), MAX_CONTEXT_CHARS);
    }
}
