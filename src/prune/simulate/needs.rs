//! Counting of what answers needed and no request had any more.

use std::collections::HashSet;
use std::ops::AddAssign;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::conversation::ReplayConversation;
use super::references::{BlockPosition, References};
use crate::message;

/// Content of a simulated summary: the first characters of each prompt, those of the last answers, the paths of all files, and the
/// first characters of the files that were read last. In the 40 answers after it, as much is lost as after real ones (55 % of the
/// references to what was before, against 53 %).
const PROMPT_CHARS: usize = 1_500;
const ANSWERS_CHARS: usize = 10_500;
const FILES: usize = 5;
const FILE_CHARS: usize = 17_500;

/// The part of a block that a request has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remains<'r> {
    /// All of it.
    Whole,
    /// This text.
    Part(&'r str),
    /// Nothing.
    Nothing,
}

/// Counts of the texts that answers needed of those before them, see [`references`](super::references).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NeedsCount {
    /// Number of references.
    pub references: u64,
    /// Number of references to what the request had no more.
    pub lost_references: u64,
    /// Number of edits of text that stood before.
    pub edits: u64,
    /// Number of edits of text that the request had no more.
    pub blind_edits: u64,
}

impl AddAssign for NeedsCount {
    fn add_assign(&mut self, other: Self) {
        self.references += other.references;
        self.lost_references += other.lost_references;
        self.edits += other.edits;
        self.blind_edits += other.blind_edits;
    }
}

/// Counts lost references and blind edits of a replay.
#[derive(Debug)]
pub struct NeedsCounter<'a> {
    conversation: &'a ReplayConversation,
    references: &'a References,
    /// First message that was not compacted.
    first_live: usize,
    /// Words of all summaries.
    summarized: HashSet<usize>,
}

impl<'a> NeedsCounter<'a> {
    /// Starts before the first answer.
    pub fn new(conversation: &'a ReplayConversation, references: &'a References) -> Self {
        Self { conversation, references, first_live: 0, summarized: HashSet::new() }
    }

    /// Notes what the summary of all messages before an index has.
    pub fn compact(&mut self, end: usize) {
        let (mut files, mut left_chars) = (Vec::<&str>::new(), ANSWERS_CHARS);
        for index in (self.first_live..end).rev() {
            let message = &self.conversation.messages[index].value;
            let is_prompt = message::is_human_prompt(message);
            for (block, value) in blocks(message).into_iter().rev() {
                let place = (index, block);
                let text = text_of(value);
                let file = self.references.file(place);
                self.add(file.unwrap_or_default());
                match file.filter(|_| self.references.is_read(place)) {
                    Some(file) if files.len() < FILES && !files.contains(&file) => {
                        files.push(file);
                        self.add(start(&text, FILE_CHARS));
                    }
                    _ if value.is_string() || value["type"] == "text" => {
                        if is_prompt {
                            self.add(start(&text, PROMPT_CHARS));
                        } else if message["type"] == "assistant" && left_chars > 0 {
                            self.add(start(&text, left_chars));
                            left_chars = left_chars.saturating_sub(text.chars().count());
                        }
                    }
                    _ => {}
                }
            }
        }
        self.first_live = end;
    }

    fn add(&mut self, text: &str) {
        self.summarized.extend(self.references.words_of(text));
    }

    /// Counts what an answer needed, after its request was sent; `remains` says what the request had of a block.
    pub fn count<'r>(&self, answer: usize, remains: &dyn Fn(BlockPosition) -> Remains<'r>) -> NeedsCount {
        let mut count = NeedsCount::default();
        let Some(needs) = self.references.answers.get(answer) else { return count };
        let has = |place: &BlockPosition, text: &str| match remains(*place) {
            Remains::Whole => true,
            Remains::Part(part) => part.contains(text),
            Remains::Nothing => false,
        };
        for reference in &needs.references {
            let word = self.references.word(reference.word);
            let is_there = reference.places.iter().any(|place| has(place, word)) || self.summarized.contains(&reference.word);
            count.references += 1;
            count.lost_references += u64::from(!is_there);
        }
        for edit in &needs.edits {
            count.edits += 1;
            count.blind_edits += u64::from(!edit.places.iter().any(|place| has(place, &edit.line)));
        }
        count
    }
}

fn blocks(message: &Value) -> Vec<(usize, &Value)> {
    match message::conversation_content(message) {
        Some(Value::Array(blocks)) => blocks.iter().enumerate().collect(),
        Some(text @ Value::String(_)) => vec![(0, text)],
        _ => Vec::new(),
    }
}

/// The texts of a block, one after another.
fn text_of(block: &Value) -> String {
    if let Value::String(text) = block {
        return text.clone();
    }
    let texts: Vec<&str> = message::texts_of_block(block).into_iter().map(|(_, text)| text).collect();
    texts.join("\n")
}

fn start(text: &str, chars: usize) -> &str {
    text.char_indices().nth(chars).map_or(text, |(end, _)| &text[..end])
}
