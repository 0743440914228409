//! How large a conversation is, without a tokenizer.

use serde_json::Value;

use super::message;
use super::text::utf16_len;

/// UTF-16 code units that make a token. A rule of thumb for English prose and code, from the
/// compaction-bridge design; it only has to tell a small conversation from a large one.
pub const CHARS_PER_TOKEN: f64 = 3.5;

/// Tokens of an image or a document, whatever its size: their base64 says nothing about what the
/// API will charge.
pub const TOKENS_PER_MEDIA_BLOCK: u64 = 2_000;

/// Estimated tokens of a conversation: `ceil(chars / 3.5) + media * 2000` ([`CHARS_PER_TOKEN`],
/// [`TOKENS_PER_MEDIA_BLOCK`]), over the `message.content` of every message of type `user` or
/// `assistant`, meta messages and summaries included.
///
/// *chars* are the UTF-16 code units of
/// - a content that is a string,
/// - `text` of `text` blocks and `thinking` of `thinking` blocks,
/// - `input` of `tool_use` blocks: all strings and all keys of objects in it, at any depth.
///   Numbers, literals and punctuation count nothing. (Its length as JSON would hang on how a
///   language writes numbers, and cost more.)
/// - `content` of `tool_result` blocks, by these same rules.
///
/// *media* is the number of `image` and `document` blocks, those inside of tool results included.
/// Blocks of any other type count nothing.
pub fn estimate_tokens(messages: &[Value]) -> u64 {
    let mut size = Size::default();
    for content in messages.iter().filter_map(message::conversation_content) {
        size.add_content(content);
    }
    size.tokens()
}

#[derive(Default)]
struct Size {
    chars: u64,
    media_blocks: u64,
}

impl Size {
    fn add_content(&mut self, content: &Value) {
        match content {
            Value::Array(blocks) => blocks.iter().for_each(|block| self.add_block(block)),
            other => self.chars += string_len(other),
        }
    }

    fn add_block(&mut self, block: &Value) {
        let field = |name| block.get(name).unwrap_or(&Value::Null);
        match field("type").as_str() {
            Some("text") => self.chars += string_len(field("text")),
            Some("thinking") => self.chars += string_len(field("thinking")),
            Some("tool_use") => self.chars += nested_len(field("input")),
            Some("tool_result") => self.add_content(field("content")),
            Some("image" | "document") => self.media_blocks += 1,
            _ => {}
        }
    }

    fn tokens(&self) -> u64 {
        // Exact up to 2^53, as in JavaScript, whose numbers are the same doubles.
        let text_tokens = (self.chars as f64 / CHARS_PER_TOKEN).ceil() as u64;
        text_tokens + self.media_blocks * TOKENS_PER_MEDIA_BLOCK
    }
}

fn string_len(value: &Value) -> u64 {
    value.as_str().map_or(0, utf16_len)
}

fn nested_len(value: &Value) -> u64 {
    match value {
        Value::Array(items) => items.iter().map(nested_len).sum(),
        Value::Object(entries) => entries.iter().map(|(key, value)| utf16_len(key) + nested_len(value)).sum(),
        other => string_len(other),
    }
}
