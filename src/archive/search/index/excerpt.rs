//! What is shown of an entry that was found: to read it from the archive would mean to unpack some megabytes for each hit.

use serde::{Deserialize, Serialize};

use super::Document;
use ctxbridge_common::digest;

/// Characters that are kept of what a human typed, of what the model said, of what tools were told, and of what they returned.
const CHARS: [usize; 4] = [1_000, 2_000, 500, 1_000];

/// zstd's level: for texts this short, a higher one gains nothing.
const LEVEL: i32 = 3;
/// Bytes at most that an excerpt unpacks to.
const MOST_BYTES: usize = 64 << 10;

/// The begin of everything that an entry says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Excerpt {
    /// What a human typed.
    pub prompt: String,
    /// What the model said.
    pub answer: String,
    /// What tools were called with.
    pub input: String,
    /// What they returned.
    pub output: String,
    /// The text of a compaction's summary.
    pub summary: String,
    /// What it was about, in one line.
    pub line: String,
    /// Whether nothing was cut.
    pub is_whole: bool,
    /// Entries in which the same was asked and answered have the same; spaces do not count.
    pub said: u64,
}

impl Excerpt {
    pub(in crate::search) fn of(document: &Document) -> Self {
        let fields = &document.fields;
        let mut is_whole = true;
        let mut begin = |text: &str, chars: usize| match text.char_indices().nth(chars) {
            None => text.to_owned(),
            Some((end, _)) => {
                is_whole = false;
                text[..end].to_owned()
            }
        };
        let [prompt, answer, input, output] = CHARS;
        Self {
            prompt: begin(&fields.prompt, prompt),
            answer: begin(&fields.answer, answer),
            input: begin(&fields.input, input),
            output: begin(&fields.output, output),
            summary: begin(&document.summary, answer),
            line: document.line.clone(),
            said: said(&[&fields.prompt, &fields.answer, &document.summary]),
            is_whole,
        }
    }

    /// Whether it says nothing.
    pub fn is_empty(&self) -> bool {
        [&self.prompt, &self.answer, &self.input, &self.output, &self.summary].into_iter().all(String::is_empty)
    }

    /// As it is stored.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let json = serde_json::to_vec(self).unwrap_or_default();
        zstd::bulk::compress(&json, LEVEL).unwrap_or_default()
    }

    /// From what was stored; nothing where that is damaged.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(&zstd::bulk::decompress(bytes, MOST_BYTES).ok()?).ok()
    }
}

fn said(texts: &[&str]) -> u64 {
    let mut hasher = digest::Hasher::default();
    for text in texts {
        text.split_whitespace().for_each(|word| hasher.update(word.as_bytes()));
        // Between what was asked and what was answered.
        hasher.update(&[0]);
    }
    let bytes = hasher.finish_bytes();
    bytes.first_chunk().map_or(0, |begin| u64::from_le_bytes(*begin))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use ctxbridge_transcript::Fields;

    fn document(prompt: &str, answer: &str) -> Document {
        Document { fields: Fields { prompt: prompt.into(), answer: answer.into(), ..Fields::default() }, ..Document::default() }
    }

    #[test]
    fn the_same_is_what_was_asked_and_answered() {
        let said = |prompt: &str, answer: &str| Excerpt::of(&document(prompt, answer)).said;
        assert_eq!(said("Go on.", "It is  done."), said("Go on.\n", "It is done."));
        assert_ne!(said("Go on.", "It is done."), said("Go on. It", "is done."));
        let long = "the same begin ".repeat(100);
        assert_ne!(said(&long, "one"), said(&long, "another"));
    }

    proptest! {
        #[test]
        fn comes_back(prompt in ".{0,3000}", answer in "[a-z\n\\\\\"\u{1}]{0,300}") {
            let excerpt = Excerpt::of(&document(&prompt, &answer));
            prop_assert_eq!(excerpt.is_whole, prompt.chars().count() <= CHARS[0]);
            prop_assert!(prompt.starts_with(&excerpt.prompt) && excerpt.answer == answer);
            prop_assert_eq!(Excerpt::from_bytes(&excerpt.to_bytes()), Some(excerpt));
        }

        #[test]
        fn damage_is_nothing(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            Excerpt::from_bytes(&bytes);
        }
    }
}
