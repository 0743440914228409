//! Size of a conversation, without a tokenizer.

use std::ops::{Add, AddAssign};

use serde_json::Value;

use super::message;
use super::text::utf16_len;

/// UTF-16 code units per token. A rule of thumb for English prose and code, from the
/// compaction-bridge design; it only has to tell a small conversation from a large one.
pub const CHARS_PER_TOKEN: f64 = 3.5;

/// Tokens of an image or a document, whatever its size: their base64 says nothing about what the
/// API will charge.
pub const TOKENS_PER_MEDIA_BLOCK: u64 = 2_000;

/// Size of messages.
///
/// `chars` are the UTF-16 code units, over `message.content` of messages of type `user` or `assistant` (meta messages and summaries
/// included), of
/// - a content that is a string,
/// - `text` of `text` blocks and `thinking` of `thinking` blocks,
/// - `input` of `tool_use` blocks: all strings and all keys of objects in it, at any depth.
///   Numbers, literals and punctuation count nothing. (Its length as JSON would hang on how a
///   language writes numbers, and cost more.)
/// - `content` of `tool_result` blocks, by these same rules.
///
/// A text that was cut counts with its length before. So a conversation has the same size before and after pruning, and decisions
/// on the size are the same, too.
///
/// `media_blocks` is the number of `image` and `document` blocks, those inside of tool results included.
/// Blocks of any other type count nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ConversationSize {
    /// UTF-16 code units.
    pub chars: u64,
    /// Images and documents.
    pub media_blocks: u64,
}

impl ConversationSize {
    /// The size of one message.
    pub fn of(message: &Value) -> Self {
        message::conversation_content(message).map_or_else(Self::default, Self::of_content)
    }

    /// Estimated tokens: `ceil(chars / 3.5) + media_blocks * 2000` ([`CHARS_PER_TOKEN`], [`TOKENS_PER_MEDIA_BLOCK`]).
    pub fn tokens(self) -> u64 {
        // Exact up to 2^53, as in JavaScript, whose numbers are the same doubles.
        let text_tokens = (self.chars as f64 / CHARS_PER_TOKEN).ceil() as u64;
        text_tokens + self.media_blocks * TOKENS_PER_MEDIA_BLOCK
    }

    fn of_content(content: &Value) -> Self {
        match content {
            Value::Array(blocks) => blocks.iter().map(Self::of_block).fold(Self::default(), Add::add),
            other => Self::of_string(other),
        }
    }

    /// The size of a block of a message.
    pub fn of_block(block: &Value) -> Self {
        let field = |name| block.get(name).unwrap_or(&Value::Null);
        match field("type").as_str() {
            Some("text") => Self::of_string(field("text")),
            Some("thinking") => Self::of_string(field("thinking")),
            Some("tool_use") => Self::of_nested(field("input")),
            Some("tool_result") => Self::of_content(field("content")),
            Some("image" | "document") => Self { media_blocks: 1, ..Self::default() },
            _ => Self::default(),
        }
    }

    /// The size of all strings in a value, keys included.
    pub fn of_nested(value: &Value) -> Self {
        match value {
            Value::Array(items) => items.iter().map(Self::of_nested).fold(Self::default(), Add::add),
            Value::Object(entries) => {
                let sizes = entries.iter().map(|(key, value)| Self::of_text(key) + Self::of_nested(value));
                sizes.fold(Self::default(), Add::add)
            }
            other => Self::of_string(other),
        }
    }

    fn of_string(value: &Value) -> Self {
        value.as_str().map_or_else(Self::default, Self::of_text)
    }

    fn of_text(text: &str) -> Self {
        Self { chars: utf16_len(text), media_blocks: 0 }
    }
}

impl Add for ConversationSize {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self { chars: self.chars + other.chars, media_blocks: self.media_blocks + other.media_blocks }
    }
}

impl AddAssign for ConversationSize {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}
