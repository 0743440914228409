//! Long prompts, which are mostly pasted files and logs: of old ones the start is enough, and a handle for the rest.

use serde_json::Value;

use crate::handle::Handle;
use crate::message::plain_texts;
use crate::text::{self, utf16_len};

/// Code units of a text that is long, and what stays of it.
const LONG_PROMPT_UNITS: u64 = 6_000;
const PROMPT_UNITS: u64 = 4_000;

/// Code units that go when a prompt is old.
pub(super) fn long_units(message: &Value) -> i64 {
    let lengths = long_texts(message).into_iter().map(|(_, text)| utf16_len(text) - PROMPT_UNITS);
    lengths.sum::<u64>().cast_signed()
}

/// The long texts of a prompt, by the index of their block.
pub(crate) fn long_texts(message: &Value) -> Vec<(usize, &str)> {
    let mut texts = plain_texts(message);
    texts.retain(|(_, text)| utf16_len(text) > LONG_PROMPT_UNITS);
    texts
}

/// The start of a long text, and the handle of all of it.
pub(crate) fn shortened(message: &Value, block: usize, text: &str) -> String {
    let uuid = message.get("uuid").and_then(Value::as_str);
    let recall = Handle::of(uuid, block, None).map(|handle| format!(", recall {handle}")).unwrap_or_default();
    let start = text::prefix(text, PROMPT_UNITS);
    format!("{start}\n[earlier context folded: the rest of {} characters{recall}]", utf16_len(text))
}
