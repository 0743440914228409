/*!
What is around a short turn. "Yes, the second one" says nothing of what it is about; what was said before it does.

So its words count a little for the turn itself, and its vector is mixed with one of the whole. Both were chosen with `cargo xtask bench
retrieval`; the idea is known as contextual retrieval (Anthropic 2024, "Introducing Contextual Retrieval"), where a model writes the context.
*/

use std::collections::HashMap;

use super::{Index, SearchError};
use crate::quote::head;
use crate::store::{Place, Store};
use crate::words;
use ctxbridge_transcript::Fields;

/// Characters of prompt and answer up to which a turn is short.
const SHORT_CHARS: usize = 400;
/// Characters of a prompt, and of an answer, that are kept for turns around it.
const SAID_CHARS: usize = 250;
/// Turns before a short one whose words count for it.
const BEFORE: u32 = 2;

/// Whether a turn says so little.
pub fn is_short(fields: &Fields) -> bool {
    fields.prompt.chars().chain(fields.answer.chars()).nth(SHORT_CHARS).is_none()
}

/// What a turn says to those around it.
pub fn said(prompt: &str, answer: &str) -> String {
    let [prompt, answer] = [prompt, answer].map(|text| head(text.trim(), SAID_CHARS));
    format!("{prompt}\n{answer}").trim().to_owned()
}

/// What was said before a turn, oldest first; `known` has what some entries say, and so may an index.
///
/// # Errors
/// When the archive or the index cannot be read.
pub fn before(
    store: &mut dyn Store,
    index: Option<&Index>,
    place: &Place,
    known: &HashMap<i64, String>,
) -> Result<String, SearchError> {
    let mut all = Vec::new();
    for distance in (1..=BEFORE).rev() {
        all.extend(at(store, index, place, place.index.checked_sub(distance), known)?);
    }
    Ok(all.join("\n"))
}

/// What was said just before a turn, and just after it.
///
/// # Errors
/// As [`before`].
pub fn beside(store: &mut dyn Store, index: &Index, place: &Place) -> Result<[String; 2], SearchError> {
    let known = HashMap::new();
    let before = at(store, Some(index), place, place.index.checked_sub(1), &known)?;
    let after = at(store, Some(index), place, place.index.checked_add(1), &known)?;
    Ok([before, after].map(Option::unwrap_or_default))
}

fn at(
    store: &mut dyn Store,
    index: Option<&Index>,
    place: &Place,
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
        Some(excerpt) => said(&excerpt.prompt, &excerpt.answer),
        None => words::fields(store, &turn).map(|fields| said(&fields.prompt, &fields.answer)).unwrap_or_default(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(prompt: &str, answer: &str) -> Fields {
        Fields { prompt: prompt.into(), answer: answer.into(), ..Fields::default() }
    }

    #[test]
    fn characters_count() {
        let long = "é".repeat(SHORT_CHARS);
        assert!(is_short(&fields(&long, "")) && is_short(&fields("", "")));
        assert!(!is_short(&fields(&long, "!")));
        assert_eq!(said(" a ", ""), "a");
        assert_eq!(said("a", "b"), "a\nb");
        assert_eq!(said("", &long).chars().count(), SAID_CHARS);
    }
}
