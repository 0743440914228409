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
//! 1. **Settings** come from the environment, at every request ([`PruneSettings`]). The patch was applied with values for those that
//!    are not set there.
//! 2. **Turns.** A human turn starts at a message of type `user` that is neither `isMeta` nor
//!    `isCompactSummary` and whose content is a string, or blocks without a `tool_result` among
//!    them (tool results are user messages too).
//! 3. **Boundary.** Everything before a boundary is old. The boundary moves in steps, and always leaves the newest tokens alone.
//!    For text it leaves the newest turns alone as well ([`BoundaryTracker`]). In between, the start of the conversation keeps its
//!    bytes and with them the API's cache, from which a token costs a tenth.
//! 4. **Cut.** Before the boundary, in user and assistant messages that are neither `isMeta` nor `isCompactSummary`, each string
//!    content and each `text` block, each text of a tool's result, and the large inputs of tools that write become their first
//!    [`PruneSettings::max_chars`] characters and a [`marker()`], if that saves [`MIN_SAVED_CHARS`]. A surrogate pair is never split:
//!    the cut then falls one unit earlier.
//! 5. **Kept.** A turn whose prompt says `#keep`, as a word of its own, stays whole, what tools returned in it included.
//!
//! Nothing else changes: thinking, images, documents, ids, usage,
//! roles, order and length stay as they are, a call has its result, and so does a message that is not of the expected
//! shape. Flags count when they are truthy in JavaScript's sense, as they do in the client.
//!
//! # Units
//!
//! A *char* is a UTF-16 code unit, the unit in which JavaScript measures strings, never a byte or a
//! Unicode scalar.

mod boundary;
pub mod fold;
mod marker;
mod message;
mod policy;
mod runtime;
mod settings;
pub mod simulate;
mod size;
mod text;

pub use boundary::{Boundary, BoundaryTracker};
pub use marker::{HANDLE_DIGITS, Handle, HandleParseError, marker, parse as parse_marker};
pub use policy::{MIN_SAVED_CHARS, Pruned, TextCut, cuts, plan, prune, text_at, text_of_cut};
pub use runtime::{PATCH, RUNTIME, RUNTIME_FUNCTION};
pub use settings::{
    DEFAULT_KEEP_TURNS, DEFAULT_MAX_CHARS, DEFAULT_STEP, DEFAULT_TAIL_TOKENS, DEFAULT_THRESHOLD_TOKENS, HANDLES_VAR, KEEP_VAR,
    MAX_CHARS_VAR, PruneScope, PruneSettings, SCOPE_VAR, STEP_VAR, SWITCH_VAR, SettingParseError, Step, TAIL_VAR, THRESHOLD_VAR,
};
pub use size::{CHARS_PER_TOKEN, ConversationSize, TOKENS_PER_MEDIA_BLOCK};
