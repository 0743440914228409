/*!
What pruning would have done to a session: its API calls, made again under several policies.

[`conversation`] reads the calls from a transcript, [`weigh`] says how many tokens each block is, [`policy`] which of them are cut when,
[`cache`] what a request then costs, and [`replay()`] does it call by call. All of it takes values and returns values; files are opened
elsewhere.

What a replay cannot know: the model would have answered otherwise had it not seen what was cut, and might have asked for it again.
*/

pub mod cache;
pub mod conversation;
pub mod plot;
pub mod policy;
pub mod prices;
pub mod replay;
pub mod weigh;

pub use conversation::{Conversation, Reader};
pub use policy::Policy;
pub use replay::{Outcome, Terms, Totals, replay};
pub use weigh::Weighed;

/// Tokens of a window that the transcript does not tell.
pub const USUAL_WINDOW: u64 = 200_000;
/// A model that transcripts without one are priced as.
pub const USUAL_MODEL: &str = "claude-sonnet-4-5";
/// Tokens of the larger window that models have; it must have been this one when a request did not fit into the usual one.
pub const LARGE_WINDOW: u64 = 1_000_000;
/// The client compacts so many tokens before the window ends.
pub const COMPACTION_RESERVE: u64 = 13_000;

/// The window that a session had: as it says, or as its requests need.
pub fn window_of(conversation: &Conversation) -> u64 {
    let largest = conversation.calls.iter().filter_map(|call| call.context_tokens).max().unwrap_or(0);
    conversation.window.unwrap_or(if largest > USUAL_WINDOW { LARGE_WINDOW } else { USUAL_WINDOW })
}

/// The size of the context at which the client compacts.
pub fn threshold_of(window: u64) -> u64 {
    window.saturating_sub(COMPACTION_RESERVE)
}
