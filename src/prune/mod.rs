//! Pruning: old text leaves the request before the client would have to compact.
//!
//! The message array of Claude Code's query loop goes in, the array that is sent comes out. Two
//! twins implement this: the Rust here, for previews and simulations, and [`RUNTIME`], the
//! JavaScript that is injected into the client. `tests/prune.rs` runs both on the same generated
//! conversations and demands the same result; a rule that changes in one has to change in the
//! other.
//!
//! # The policy
//!
//! 1. **Settings** come from the environment, at every request ([`Settings`]).
//! 2. **Turns.** A human turn starts at a message of type `user` that is neither `isMeta` nor
//!    `isCompactSummary` and whose content is a string, or blocks without a `tool_result` among
//!    them (tool results are user messages too).
//! 3. **Boundary.** The last [`Settings::keep_turns`] turns are never touched. Without an older
//!    turn nothing happens.
//! 4. **Threshold.** Below [`Settings::threshold_tokens`] nothing happens. [`estimate_tokens`]
//!    defines the estimate.
//! 5. **Cut.** Before the boundary, in user and assistant messages that are neither `isMeta` nor
//!    `isCompactSummary`, each string content and each `text` block beyond [`Settings::max_chars`]
//!    becomes its first characters and [`MARKER`], if that is shorter. A surrogate pair is never
//!    split: the cut then falls one unit earlier.
//!
//! Nothing else changes: tool calls and their results, thinking, images, documents, ids, usage,
//! roles, order and length stay as they are, and so does a message that is not of the expected
//! shape. Flags count when they are truthy in JavaScript's sense, as they do in the client.
//!
//! # Units
//!
//! A *char* is a UTF-16 code unit, the unit in which JavaScript measures strings, never a byte or a
//! Unicode scalar.

mod estimate;
mod message;
mod policy;
mod runtime;
mod settings;
mod text;

pub use estimate::{CHARS_PER_TOKEN, TOKENS_PER_MEDIA_BLOCK, estimate_tokens};
pub use policy::{Cut, Pruned, plan, prune};
pub use runtime::{RUNTIME, RUNTIME_FUNCTION};
pub use settings::{
    DEFAULT_KEEP_TURNS, DEFAULT_MAX_CHARS, DEFAULT_THRESHOLD_TOKENS, KEEP_VAR, MAX_CHARS_VAR, SWITCH_VAR, Settings, THRESHOLD_VAR,
};
pub use text::MARKER;
