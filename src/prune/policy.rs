//! Cutting: first the plan of all cuts, then the conversation after them.

use std::borrow::Cow;

use serde_json::Value;

use super::boundary::{Boundary, BoundaryTracker};
use super::marker::{self, Handle, marker};
use super::message;
use super::settings::{PruneScope, PruneSettings};
use super::text::{self, utf16_len};

/// Minimum UTF-16 code units that a cut saves. For less, nobody should have to ask for the rest.
pub const MIN_SAVED_CHARS: u64 = 100;

/// A text that is shortened. Sizes are UTF-16 code units.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextCut {
    /// Index of the message in the conversation.
    pub message_index: usize,
    /// Index of the block in the message's content, 0 if the content is a string.
    pub block_index: usize,
    /// Number of the text in that block, if it can have several: the index of a block inside a tool result, or the number of an
    /// argument. `content` is 0, `old_string` 1, `new_string` 2, `new_source` 3, and those of `edits` go on from there.
    pub part: Option<usize>,
    /// Size of the text before.
    pub original_chars: u64,
    /// Size of the start that stays, without the marker.
    pub kept_chars: u64,
    /// The handle for recalling it.
    pub handle: Option<Handle>,
}

impl TextCut {
    /// The marker that replaces the rest.
    pub fn marker(&self) -> String {
        marker(self.original_chars, self.handle.as_ref())
    }

    /// Number of code units that the text gets shorter.
    pub fn saved_chars(&self) -> u64 {
        self.original_chars - self.kept_chars - utf16_len(&self.marker())
    }

    /// Plans the cut of a text; none if it was cut before, or too little would be saved.
    fn of(
        text: &str,
        message_index: usize,
        (block_index, part): TextPosition,
        handle: Option<Handle>,
        settings: &PruneSettings,
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
type TextPosition = (usize, Option<usize>);

/// A conversation after pruning.
#[derive(Debug, Clone, PartialEq)]
pub struct Pruned<'a> {
    /// The messages to send. Borrowed from the input if nothing was cut.
    pub messages: Cow<'a, [Value]>,
    /// The cuts, in the order of the conversation.
    pub cuts: Vec<TextCut>,
}

/// Prunes a conversation, an array of Claude Code's internal messages (`{type, message: {role,
/// content, …}, uuid, …}`), by the [policy](super).
pub fn prune<'a>(messages: &'a [Value], settings: &PruneSettings) -> Pruned<'a> {
    let cuts = plan(messages, settings);
    if cuts.is_empty() {
        return Pruned { messages: Cow::Borrowed(messages), cuts };
    }
    let mut pruned = messages.to_vec();
    for cut in &cuts {
        if let Some(Value::String(text)) = text_of_cut(&mut pruned, cut) {
            *text = format!("{}{}", text::prefix(text, cut.kept_chars), cut.marker());
        }
    }
    Pruned { messages: Cow::Owned(pruned), cuts }
}

/// Plans the cuts that [`prune`] would make, in the order of the conversation, and copies nothing.
pub fn plan(messages: &[Value], settings: &PruneSettings) -> Vec<TextCut> {
    if !settings.enabled {
        return Vec::new();
    }
    let mut boundaries = BoundaryTracker::new(settings);
    messages.iter().for_each(|message| boundaries.push(message));
    let boundary = boundaries.now();
    let old = messages[..boundary.tools.max(boundary.text)].iter().enumerate();
    let old = old.filter(|(index, _)| !boundaries.is_in_pinned_turn(*index));
    old.flat_map(|(index, message)| cuts(index, message, boundary, settings)).collect()
}

/// The cuts of one message before a known boundary, if its turn is not [pinned](BoundaryTracker::is_in_pinned_turn).
pub fn cuts(message_index: usize, message: &Value, boundary: Boundary, settings: &PruneSettings) -> Vec<TextCut> {
    let with_text = settings.scope != PruneScope::Tools && message_index < boundary.text;
    let with_tools = settings.scope != PruneScope::Text && message_index < boundary.tools;
    if !(settings.enabled && (with_text || with_tools)) || message::is_synthetic(message) {
        return Vec::new();
    }
    let uuid = message.get("uuid").and_then(Value::as_str).filter(|_| settings.handles);
    let cut =
        |text: &str, place: TextPosition| TextCut::of(text, message_index, place, Handle::of(uuid, place.0, place.1), settings);
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

/// Returns the value with the text of a cut.
pub fn text_of_cut<'a>(messages: &'a mut [Value], cut: &TextCut) -> Option<&'a mut Value> {
    let content = messages.get_mut(cut.message_index)?.get_mut("message")?.get_mut("content")?;
    if content.is_string() {
        return Some(content);
    }
    message::text_in_block(content.get_mut(cut.block_index)?, cut.part)
}

/// Returns a text of a message.
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
