//! What is cut: first the plan, then the conversation without it.

use std::borrow::Cow;

use serde_json::Value;

use super::boundary::{Boundaries, Boundary};
use super::marker::{self, Handle, marker};
use super::message;
use super::settings::{Scope, Settings};
use super::text::{self, utf16_len};

/// UTF-16 code units that a cut saves at least: for less, nobody should have to ask for the rest.
pub const MIN_SAVED_CHARS: u64 = 100;

/// One text that is shortened. Sizes are UTF-16 code units.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cut {
    /// Index of the message in the conversation.
    pub message_index: usize,
    /// Index of the block in the message's content, 0 where the content is a string.
    pub block_index: usize,
    /// Which of the texts of that block, where it may have several: the index of a block inside a tool result, or the number of an
    /// argument: `content` is 0, `old_string` 1, `new_string` 2, `new_source` 3, and those of `edits` go on from there.
    pub part: Option<usize>,
    /// Size of the text before.
    pub original_chars: u64,
    /// Size of the start that stays, without the marker.
    pub kept_chars: u64,
    /// With which it can be recalled.
    pub handle: Option<Handle>,
}

impl Cut {
    /// What stands in place of the rest.
    pub fn marker(&self) -> String {
        marker(self.original_chars, self.handle.as_ref())
    }

    /// By how much the text gets shorter.
    pub fn saved_chars(&self) -> u64 {
        self.original_chars - self.kept_chars - utf16_len(&self.marker())
    }

    /// A text that may be cut; nothing when it was cut before, or too little would be saved.
    fn of(
        text: &str,
        message_index: usize,
        (block_index, part): Place,
        handle: Option<Handle>,
        settings: &Settings,
    ) -> Option<Self> {
        if marker::parse(text).is_some() {
            return None;
        }
        let (original_chars, kept_chars) = (utf16_len(text), utf16_len(text::prefix(text, settings.max_chars)));
        let cut = Self { message_index, block_index, part, original_chars, kept_chars, handle };
        let remains = kept_chars + utf16_len(&cut.marker());
        (remains + MIN_SAVED_CHARS <= original_chars).then_some(cut)
    }
}

/// Index of a block and of a text in it.
type Place = (usize, Option<usize>);

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
            *text = format!("{}{}", text::prefix(text, cut.kept_chars), cut.marker());
        }
    }
    Pruned { messages: Cow::Owned(pruned), cuts }
}

/// Says what [`prune`] would cut, in the order of the conversation, and copies nothing.
pub fn plan(messages: &[Value], settings: &Settings) -> Vec<Cut> {
    if !settings.enabled {
        return Vec::new();
    }
    let mut boundaries = Boundaries::new(settings);
    messages.iter().for_each(|message| boundaries.push(message));
    let boundary = boundaries.now();
    let old = messages[..boundary.tools.max(boundary.text)].iter().enumerate();
    let old = old.filter(|(index, _)| !boundaries.is_kept(*index));
    old.flat_map(|(index, message)| cuts(index, message, boundary, settings)).collect()
}

/// What is cut of one message, where the boundary is known, and that its turn is not [kept](Boundaries::is_kept).
pub fn cuts(message_index: usize, message: &Value, boundary: Boundary, settings: &Settings) -> Vec<Cut> {
    let with_text = settings.scope != Scope::Tools && message_index < boundary.text;
    let with_tools = settings.scope != Scope::Text && message_index < boundary.tools;
    if !(settings.enabled && (with_text || with_tools)) || message::is_synthetic(message) {
        return Vec::new();
    }
    let uuid = message.get("uuid").and_then(Value::as_str).filter(|_| settings.handles);
    let cut = |text: &str, place: Place| Cut::of(text, message_index, place, Handle::of(uuid, place.0, place.1), settings);
    match message::conversation_content(message) {
        Some(Value::String(text)) if with_text => cut(text, (0, None)).into_iter().collect(),
        Some(Value::Array(blocks)) => {
            let blocks = blocks.iter().enumerate();
            let texts = blocks.flat_map(|(index, block)| {
                let of_block = message::texts_of_block(block, with_text, with_tools).into_iter();
                of_block.map(move |(part, text)| ((index, part), text))
            });
            texts.filter_map(|(place, text)| cut(text, place)).collect()
        }
        _ => Vec::new(),
    }
}

/// Where the text of a cut stands.
pub fn place<'a>(messages: &'a mut [Value], cut: &Cut) -> Option<&'a mut Value> {
    let content = messages.get_mut(cut.message_index)?.get_mut("message")?.get_mut("content")?;
    if content.is_string() {
        return Some(content);
    }
    message::text_in_block(content.get_mut(cut.block_index)?, cut.part)
}

/// A text of a message.
pub fn text_at(message: &Value, block_index: usize, part: Option<usize>) -> Option<&str> {
    match message::conversation_content(message)? {
        Value::String(text) => (block_index == 0 && part.is_none()).then_some(text),
        Value::Array(blocks) => {
            let mut texts = message::texts_of_block(blocks.get(block_index)?, true, true).into_iter();
            texts.find(|(number, _)| *number == part).map(|(_, text)| text)
        }
        _ => None,
    }
}
