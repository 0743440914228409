//! The texts of a turn that get a vector each: as much as the model reads at once, and the prompt with each of them.

use super::around::is_short;
use super::vectors::to_length_one;
use crate::quote::head;
use ctxbridge_transcript::Fields;

/// Characters of a passage: about 200 of the 256 tokens that the model reads.
const PASSAGE_CHARS: usize = 900;
/// Of these, the prompt's begin in the first passage, and in those that follow.
const PROMPT_CHARS: usize = 400;
const REMINDER_CHARS: usize = 150;
/// Passages of a turn at most.
const MOST_PASSAGES: usize = 6;

/// What is made into the vectors of a turn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Texts {
    /// Its passages.
    pub own: Vec<String>,
    /// A short one's passage with what is around it.
    pub around: Option<String>,
}

impl Texts {
    /// Those of a turn; what was said before and after it is asked for where it is short.
    pub fn of<E>(fields: &Fields, beside: impl FnOnce() -> Result<[String; 2], E>) -> Result<Self, E> {
        let own = of(fields);
        let [passage] = &own[..] else { return Ok(Self { own, around: None }) };
        if !is_short(fields) {
            return Ok(Self { own, around: None });
        }
        let [before, after] = beside()?;
        let all = [&before, passage, &after].into_iter().filter(|text| !text.is_empty());
        let around = all.map(String::as_str).collect::<Vec<_>>().join("\n");
        Ok(Self { around: (around != *passage).then_some(around), own })
    }

    /// All of them, as [`Self::vectors`] wants them.
    pub fn all(&self) -> impl Iterator<Item = &str> {
        self.own.iter().chain(&self.around).map(String::as_str)
    }

    /// From the vectors of these texts, those of the turn.
    pub fn vectors(&self, mut made: Vec<Vec<f32>>) -> Vec<Vec<f32>> {
        if self.around.is_some() && made.len() > self.own.len() {
            let around = made.pop().unwrap_or_default();
            if let Some(own) = made.last_mut() {
                own.iter_mut().zip(around).for_each(|(own, around)| *own += around);
                to_length_one(own);
            }
        }
        made
    }
}

/// What was said in a turn, in pieces. What tools were told and returned is left to words: to a model of sentences it is noise.
fn of(fields: &Fields) -> Vec<String> {
    let prompt = fields.prompt.trim();
    let (mut rest, mut passages) = (fields.answer.trim(), Vec::new());
    // A long prompt is looked at on its own.
    let mut pieces = cut(prompt, PASSAGE_CHARS);
    if pieces.len() == 1 && prompt.chars().count() <= PROMPT_CHARS {
        pieces.clear();
    }
    passages.extend(pieces.into_iter().map(str::to_owned).take(MOST_PASSAGES / 2));
    let mut begin = head(prompt, PROMPT_CHARS);
    while passages.len() < MOST_PASSAGES && !(rest.is_empty() && begin.is_empty()) {
        let room = PASSAGE_CHARS - begin.chars().count();
        let piece = cut(rest, room).first().copied().unwrap_or_default();
        rest = rest[piece.len()..].trim_start();
        passages.push(format!("{begin}\n{piece}").trim().to_owned());
        if rest.is_empty() {
            break;
        }
        begin = head(prompt, REMINDER_CHARS);
    }
    passages.dedup();
    passages
}

/// Pieces of at most so many characters; each ends with a paragraph, a sentence or at least a word, where there is one.
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

    fn fields(prompt: &str, answer: &str) -> Fields {
        Fields { prompt: prompt.into(), answer: answer.into(), ..Fields::default() }
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
        let texts = Texts::of(&fields("The second.", ""), beside).expect("texts");
        assert_eq!(texts.all().collect::<Vec<_>>(), ["The second.", "Which one?\nThe second."]);
        let mixed = texts.vectors(vec![vec![1.0, 0.0], vec![0.0, 1.0]]);
        assert_eq!(mixed, [[std::f32::consts::FRAC_1_SQRT_2; 2]]);
        let alone = Texts::of(&fields("The second.", ""), || Ok::<_, ()>(Default::default())).expect("texts");
        assert_eq!((alone.around.as_ref(), alone.vectors(vec![vec![1.0, 0.0]])), (None, vec![vec![1.0, 0.0]]));
        let long = Texts::of(&fields("The second.", &"And. ".repeat(90)), beside).expect("texts");
        assert_eq!(long.around, None);
    }

    proptest! {
        #[test]
        fn passages_are_short_and_leave_nothing_out(prompt in "[a-zé .\n]{0,600}", answer in "[a-zé .\n]{0,2000}") {
            let passages = of(&fields(&prompt, &answer));
            prop_assert!(passages.len() <= MOST_PASSAGES);
            prop_assert!(passages.iter().all(|passage| passage.chars().count() <= PASSAGE_CHARS + 1 && !passage.is_empty()));
            let all: String = passages.concat().split_whitespace().collect();
            for word in answer.split_whitespace().filter(|word| word.len() < 400) {
                prop_assert!(all.contains(word), "{word} in {passages:?}");
            }
        }
    }
}
