//! Excerpts: the text of a found entry that is shown. Reading it from the archive would mean to unpack some megabytes for each hit.
//! That is done only if the excerpt does not show why the entry was found.

use std::cell::RefCell;

use serde::{Deserialize, Serialize};
use zstd::bulk::Decompressor;

use super::Document;
use crate::quote::head;
use ctxbridge_common::digest;

/// Characters that are kept of the prompt, the answer, the input of tools, and their output.
const MAX_FIELD_CHARS: [usize; 4] = [1_000, 2_000, 500, 1_000];

/// zstd's level: for texts this short, a higher one gains nothing.
const EXCERPT_COMPRESSION_LEVEL: i32 = 3;
/// Maximum number of bytes that an excerpt unpacks to.
const MAX_EXCERPT_BYTES: usize = 64 << 10;

/// The start of each text of an entry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Excerpt {
    /// The prompt that a human typed.
    pub prompt: String,
    /// The model's answer.
    pub answer: String,
    /// The input of tools.
    pub input: String,
    /// The output of tools.
    pub output: String,
    /// The text of a compaction's summary.
    pub summary: String,
    /// A one-line summary.
    pub line: String,
    /// `true` if nothing was cut off.
    pub is_whole: bool,
    /// Hash of prompt, answer and summary. Entries with the same texts have the same hash; spaces do not count.
    pub said: u64,
}

/// A text of at most so many characters; of a longer one, the begin and more of the end, where the model says what came of it.
fn begin_and_end(text: &str, chars: usize) -> String {
    let count = text.chars().count();
    if count <= chars {
        return text.to_owned();
    }
    let begin = head(text, chars / 3);
    let end = &text[head(text, count - (chars - chars / 3)).len()..];
    format!("{begin}\n…\n{end}")
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
        let [prompt, answer, input, output] = MAX_FIELD_CHARS;
        Self {
            prompt: begin(&fields.prompt, prompt),
            answer: begin_and_end(&fields.answer, answer),
            input: begin(&fields.input, input),
            output: begin(&fields.output, output),
            summary: begin(&document.summary, answer),
            line: document.line.clone(),
            said: normalized_hash(&[&fields.prompt, &fields.answer, &document.summary]),
            is_whole: is_whole && head(&fields.answer, answer).len() == fields.answer.len(),
        }
    }

    /// `true` if all its texts are empty.
    pub fn is_empty(&self) -> bool {
        [&self.prompt, &self.answer, &self.input, &self.output, &self.summary].into_iter().all(String::is_empty)
    }

    /// Encodes the excerpt for the database.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let json = serde_json::to_vec(self).unwrap_or_default();
        zstd::bulk::compress(&json, EXCERPT_COMPRESSION_LEVEL).unwrap_or_default()
    }

    /// Decodes a stored excerpt; `None` if it is damaged.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(&unpack(bytes)?).ok()
    }
}

/// Unpacks with one decompressor: a prompt reads a dozen excerpts, and to make one takes as long as to use it.
fn unpack(bytes: &[u8]) -> Option<Vec<u8>> {
    thread_local! {
        static DECOMPRESSOR: RefCell<Option<Decompressor<'static>>> = RefCell::new(Decompressor::new().ok());
    }
    DECOMPRESSOR.with_borrow_mut(|decompressor| decompressor.as_mut()?.decompress(bytes, MAX_EXCERPT_BYTES).ok())
}

fn normalized_hash(texts: &[&str]) -> u64 {
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
    use ctxbridge_transcript::SearchableText;

    fn document(prompt: &str, answer: &str) -> Document {
        Document {
            fields: SearchableText { prompt: prompt.into(), answer: answer.into(), ..SearchableText::default() },
            ..Document::default()
        }
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
            prop_assert_eq!(excerpt.is_whole, prompt.chars().count() <= MAX_FIELD_CHARS[0]);
            prop_assert!(prompt.starts_with(&excerpt.prompt) && excerpt.answer == answer);
            prop_assert_eq!(Excerpt::from_bytes(&excerpt.to_bytes()), Some(excerpt));
        }

        #[test]
        fn noise_is_no_excerpt(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert_eq!(Excerpt::from_bytes(&bytes), None);
        }

        #[test]
        fn what_is_cut_off_is_no_excerpt(prompt in ".{0,300}", cut in any::<prop::sample::Index>()) {
            let bytes = Excerpt::of(&document(&prompt, "")).to_bytes();
            prop_assert_eq!(Excerpt::from_bytes(&bytes[..cut.index(bytes.len())]), None);
        }
    }
}
