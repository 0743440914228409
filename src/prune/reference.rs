//! The reference design's own prune, for whoever wants it and for comparison: at each request, text before the newest messages of people
//! is cut. Tool results count as such messages, and stay whole.

use std::borrow::Cow;

use serde_json::Value;

use super::message;
use super::settings::PruneSettings;
use super::size::ConversationSize;
use super::text::{self, utf16_len};

/// Text behind what is left of a text.
pub const MARKER: &str = " [earlier context pruned]";

/// Prunes a conversation, an array of Claude Code's internal messages. Borrowed if nothing changes.
///
/// If the conversation has [`PruneSettings::threshold_tokens`], texts before the newest [`PruneSettings::keep_turns`] messages of type `user`
/// become their first [`PruneSettings::max_chars`] code units and [`MARKER`], where that is shorter.
pub fn prune<'a>(messages: &'a [Value], settings: &PruneSettings) -> Cow<'a, [Value]> {
    let size = messages.iter().map(ConversationSize::of).fold(ConversationSize::default(), |sum, size| sum + size);
    let users = messages.iter().enumerate().filter(|(_, message)| message::is_type(message, "user")).map(|(index, _)| index);
    let users: Vec<usize> = users.collect();
    let keep = usize::try_from(settings.keep_turns).unwrap_or(usize::MAX);
    let mut pruned = Cow::Borrowed(messages);
    let Some(older) = users.len().checked_sub(keep).filter(|older| *older > 0) else { return pruned };
    if size.tokens() < settings.threshold_tokens {
        return pruned;
    }
    for (index, message) in messages.iter().enumerate().take(users[older]) {
        for (block, text) in cuttable_texts(message) {
            if let Some(short) = shortened(text, settings.max_chars) {
                message::set_plain_text(&mut pruned.to_mut()[index], block, short);
            }
        }
    }
    pruned
}

/// The texts of a message that may be cut, by the index of their block.
pub(crate) fn cuttable_texts(message: &Value) -> Vec<(usize, &str)> {
    if message::is_synthetic(message) { Vec::new() } else { message::plain_texts(message) }
}

/// A text with its first code units and the marker, if that is shorter.
pub(crate) fn shortened(text: &str, max_chars: u64) -> Option<String> {
    let kept = text::prefix(text, max_chars);
    (utf16_len(kept) + utf16_len(MARKER) < utf16_len(text)).then(|| format!("{kept}{MARKER}"))
}
