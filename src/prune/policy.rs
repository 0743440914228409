//! What is cut: first the plan, then the conversation without it.

use std::borrow::Cow;

use serde_json::Value;

use super::estimate::estimate_tokens;
use super::message;
use super::settings::Settings;
use super::text::{self, MARKER, utf16_len};

/// One text that is shortened. Sizes are UTF-16 code units.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cut {
    /// Index of the message in the conversation.
    pub message_index: usize,
    /// Index of the text block in the message's content, `None` where the content is a string.
    pub block_index: Option<usize>,
    /// Size of the text before.
    pub original_chars: u64,
    /// Size of the start that stays, without the marker.
    pub kept_chars: u64,
}

/// A conversation after pruning.
#[derive(Debug, Clone, PartialEq)]
pub struct Pruned<'a> {
    /// What is sent. Borrowed from the input where nothing was cut.
    pub messages: Cow<'a, [Value]>,
    /// What was cut, in the order of the conversation.
    pub cuts: Vec<Cut>,
}

/// Prunes a conversation, an array of Claude Code's internal messages (`{type, message: {role,
/// content, …}, uuid, …}`), by the [policy](super).
pub fn prune<'a>(messages: &'a [Value], settings: &Settings) -> Pruned<'a> {
    let cuts = plan(messages, settings);
    if cuts.is_empty() {
        return Pruned { messages: Cow::Borrowed(messages), cuts };
    }
    let mut pruned = messages.to_vec();
    for cut in &cuts {
        if let Some(Value::String(text)) = place(&mut pruned, cut) {
            *text = format!("{}{MARKER}", text::prefix(text, cut.kept_chars));
        }
    }
    Pruned { messages: Cow::Owned(pruned), cuts }
}

/// Says what [`prune`] would cut, in the order of the conversation, and copies nothing.
pub fn plan(messages: &[Value], settings: &Settings) -> Vec<Cut> {
    if !settings.enabled {
        return Vec::new();
    }
    let Some(boundary) = boundary(messages, settings.keep_turns) else {
        return Vec::new();
    };
    if estimate_tokens(messages) < settings.threshold_tokens {
        return Vec::new();
    }
    let mut cuts = Vec::new();
    for (message_index, message) in messages[..boundary].iter().enumerate() {
        for (block_index, text) in prunable_texts(message) {
            if let Some(kept) = text::excerpt(text, settings.max_chars) {
                cuts.push(Cut { message_index, block_index, original_chars: utf16_len(text), kept_chars: utf16_len(kept) });
            }
        }
    }
    cuts
}

/// Index of the first message that is never touched: the `keep_turns`-th human prompt from the end,
/// if there is an older one. A function of the messages alone, so that the same history is always
/// cut the same.
fn boundary(messages: &[Value], keep_turns: u64) -> Option<usize> {
    let indexed = messages.iter().enumerate().rev();
    let mut prompts = indexed.filter(|(_, message)| message::is_human_prompt(message));
    let newer = usize::try_from(keep_turns).ok()?.checked_sub(1)?;
    let (boundary, _) = prompts.nth(newer)?;
    prompts.next().map(|_| boundary)
}

/// The texts of a message that may be cut when it is old, each with the index of its block.
fn prunable_texts(message: &Value) -> Vec<(Option<usize>, &str)> {
    if message::is_synthetic(message) {
        return Vec::new();
    }
    match message::conversation_content(message) {
        Some(Value::String(text)) => vec![(None, text.as_str())],
        Some(Value::Array(blocks)) => {
            let blocks = blocks.iter().enumerate();
            blocks.filter_map(|(index, block)| Some((Some(index), message::block_text(block)?))).collect()
        }
        _ => Vec::new(),
    }
}

/// Where the text of a cut stands.
fn place<'a>(messages: &'a mut [Value], cut: &Cut) -> Option<&'a mut Value> {
    let content = messages.get_mut(cut.message_index)?.get_mut("message")?.get_mut("content")?;
    match cut.block_index {
        None => Some(content),
        Some(index) => content.get_mut(index)?.get_mut("text"),
    }
}
