//! Pruning: old text leaves the request before the client would have to compact.
//!
//! The message array of Claude Code's query loop goes in, the array that is sent comes out. Two
//! twins implement this: the Rust here, for previews and simulations, and [`RUNTIME`], the
//! JavaScript that is injected into the client. `tests/prune.rs` runs both on the same generated
//! conversations, 10,000 for each property, and demands the same result; a rule that changes in
//! one has to change in the other.
//!
//! # The policy
//!
//! Settings come from the environment, at every request ([`PruneSettings`]). The patch was applied with values for those that are not set
//! there. [`PrunePolicy::Fold`] is the default: whole old rounds become lines of a [digest](fold). [`PrunePolicy::Reference`] is the
//! [designs' own](mod@reference).
//!
//! Foreign data is never an error: a message that is not of the expected shape stays as it is. Flags count when they are truthy in
//! JavaScript's sense, as they do in the client.
//!
//! # Units
//!
//! A *char* is a UTF-16 code unit, the unit in which JavaScript measures strings, never a byte or a
//! Unicode scalar.

pub mod compaction;
pub mod fold;
mod handle;
mod message;
pub mod reference;
mod runtime;
mod settings;
pub mod simulate;
mod size;
mod text;
pub mod window;

pub use handle::{HANDLE_DIGITS, Handle, HandleParseError, RangeHandle};
pub use message::{DIGEST_BEGIN, text_at};
pub use runtime::{PATCH, RUNTIME, RUNTIME_FUNCTION};
pub use settings::{
    COMPACT_WINDOW_VAR, DEFAULT_KEEP_TURNS, DEFAULT_MAX_CHARS, DEFAULT_THRESHOLD_TOKENS, KEEP_TOKENS_VAR, KEEP_VAR,
    MAX_CHARS_VAR, POLICY_VAR, PrunePolicy, PruneSettings, SWITCH_VAR, SettingParseError, THRESHOLD_VAR, WINDOW_VAR,
    glob_expression,
};
pub use size::{CHARS_PER_TOKEN, ConversationSize, TOKENS_PER_MEDIA_BLOCK};

use std::borrow::Cow;

use serde_json::Value;

/// Prunes a conversation, an array of Claude Code's internal messages (`{type, message: {role, content, …}, uuid, …}`), as in a request at
/// its end. Borrowed if nothing changes.
pub fn prune<'a>(messages: &'a [Value], settings: &PruneSettings) -> Cow<'a, [Value]> {
    match settings.policy {
        _ if !settings.enabled => Cow::Borrowed(messages),
        PrunePolicy::Fold => fold::fold(messages, settings),
        PrunePolicy::Reference => reference::prune(messages, settings),
    }
}
