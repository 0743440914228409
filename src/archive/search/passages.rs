//! The texts of a turn that get a vector each: as much as the model reads at once, each with the prompt.

use super::neighbor_context::is_short_turn;
use crate::quote::head;
use ctxbridge_transcript::SearchableText;
use ctxbridge_vectors::normalize;

/// Characters of a passage: about 200 of the 256 tokens that the model reads.
const PASSAGE_CHARS: usize = 900;
/// Characters of the prompt's start in the first passage, and in those that follow.
const PROMPT_CHARS: usize = 400;
const REPEATED_PROMPT_CHARS: usize = 150;
/// Maximum number of passages of a turn, and of those that are of the end of a longer one.
const MAX_PASSAGES: usize = 6;
const END_PASSAGES: usize = 2;

/// The texts of a turn that are made into its vectors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PassageTexts {
    /// Its passages.
    pub own: Vec<String>,
    /// A short turn's passage together with its neighbors.
    pub in_context: Option<String>,
}

impl PassageTexts {
    /// Returns the texts of a turn. `beside` is called if the turn is short, and returns the texts before and after it.
    pub fn of<E>(fields: &SearchableText, beside: impl FnOnce() -> Result<[String; 2], E>) -> Result<Self, E> {
        let own = of(fields);
        let [passage] = &own[..] else { return Ok(Self { own, in_context: None }) };
        if !is_short_turn(fields) {
            return Ok(Self { own, in_context: None });
        }
        let [before, after] = beside()?;
        let all = [&before, passage, &after].into_iter().filter(|text| !text.is_empty());
        let around = all.map(String::as_str).collect::<Vec<_>>().join("\n");
        Ok(Self { in_context: (around != *passage).then_some(around), own })
    }

    /// Returns all texts, in the order that [`Self::vectors`] expects.
    pub fn all(&self) -> impl Iterator<Item = &str> {
        self.own.iter().chain(&self.in_context).map(String::as_str)
    }

    /// Returns the vectors of the turn, made from the vectors of these texts.
    pub fn vectors(&self, mut made: Vec<Vec<f32>>) -> Vec<Vec<f32>> {
        if self.in_context.is_some() && made.len() > self.own.len() {
            let around = made.pop().unwrap_or_default();
            if let Some(own) = made.last_mut() {
                own.iter_mut().zip(around).for_each(|(own, around)| *own += around);
                normalize(own);
            }
        }
        made
    }
}

/// Splits prompt and answer of a turn into passages. Input and output of tools are left to the word index: to a model of sentences
/// they are noise.
fn of(fields: &SearchableText) -> Vec<String> {
    let prompt = fields.prompt.trim();
    let (mut rest, mut passages) = (fields.answer.trim(), Vec::new());
    // A long prompt is looked at on its own.
    let mut pieces = cut(prompt, PASSAGE_CHARS);
    if pieces.len() == 1 && prompt.chars().count() <= PROMPT_CHARS {
        pieces.clear();
    }
    passages.extend(pieces.into_iter().map(str::to_owned).take(MAX_PASSAGES / 2));
    let mut begin = head(prompt, PROMPT_CHARS);
    while passages.len() < MAX_PASSAGES && !(rest.is_empty() && begin.is_empty()) {
        let room = PASSAGE_CHARS - begin.chars().count();
        // Of a long answer, the end says what came of it; what is left out is told on the way.
        let left = MAX_PASSAGES - passages.len();
        if left == END_PASSAGES && !passages.is_empty() {
            let count = rest.chars().count();
            rest = &rest[head(rest, count.saturating_sub(END_PASSAGES * room)).len()..];
        }
        let piece = cut(rest, room).first().copied().unwrap_or_default();
        rest = rest[piece.len()..].trim_start();
        passages.push(format!("{begin}\n{piece}").trim().to_owned());
        if rest.is_empty() {
            break;
        }
        begin = head(prompt, REPEATED_PROMPT_CHARS);
    }
    passages.dedup();
    passages
}

/// Cuts a text into pieces of at most `chars` characters. Each ends with a paragraph, a sentence or at least a word, if there is
/// one.
fn cut(text: &str, chars: usize) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let most = head(rest, chars);
        let end = if most.len() == rest.len() {
            rest.len()
        } else {
            let behind = |mark: &str| most.rfind(mark).map(|at| at + mark.len()).filter(|end| *end > most.len() / 2);
            ["\n\n", "\n", ". ", " "].into_iter().find_map(behind).unwrap_or(most.len())
        };
        pieces.push(&rest[..end]);
        rest = &rest[end..];
    }
    pieces
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn fields(prompt: &str, answer: &str) -> SearchableText {
        SearchableText { prompt: prompt.into(), answer: answer.into(), ..SearchableText::default() }
    }

    #[test]
    fn short_turns_are_one_passage() {
        assert_eq!(of(&fields("Fix it.", "Done.")), ["Fix it.\nDone."]);
        assert_eq!(of(&fields("Fix it.", "")), ["Fix it."]);
        assert_eq!(of(&fields("", "Done.")), ["Done."]);
        assert_eq!(of(&fields("", "")), [""; 0]);
    }

    #[test]
    fn short_turns_stand_among_others() {
        let beside = || Ok::<_, ()>(["Which one?".to_owned(), String::new()]);
        let texts = PassageTexts::of(&fields("The second.", ""), beside).expect("texts");
        assert_eq!(texts.all().collect::<Vec<_>>(), ["The second.", "Which one?\nThe second."]);
        let mixed = texts.vectors(vec![vec![1.0, 0.0], vec![0.0, 1.0]]);
        assert_eq!(mixed, [[std::f32::consts::FRAC_1_SQRT_2; 2]]);
        let alone = PassageTexts::of(&fields("The second.", ""), || Ok::<_, ()>(Default::default())).expect("texts");
        assert_eq!((alone.in_context.as_ref(), alone.vectors(vec![vec![1.0, 0.0]])), (None, vec![vec![1.0, 0.0]]));
        let long = PassageTexts::of(&fields("The second.", &"And. ".repeat(90)), beside).expect("texts");
        assert_eq!(long.in_context, None);
    }

    proptest! {
        #[test]
        fn passages_are_short_and_leave_nothing_out(prompt in "[a-zé .\n]{0,600}", answer in "[a-zé .\n]{0,2000}") {
            let passages = of(&fields(&prompt, &answer));
            prop_assert!(passages.len() <= MAX_PASSAGES);
            prop_assert!(passages.iter().all(|passage| passage.chars().count() <= PASSAGE_CHARS + 1 && !passage.is_empty()));
            let all: String = passages.concat().split_whitespace().collect();
            for word in answer.split_whitespace().filter(|word| word.len() < 400) {
                prop_assert!(all.contains(word), "{word} in {passages:?}");
            }
        }
    }
}
