/*!
Simulation of pruning: the API calls of a session are replayed under several policies.

[`conversation`] reads the calls from a transcript. [`weigh`] computes the tokens of each block, and [`policy`] decides which of
them are cut, and when. [`cache`] models what a request then costs, and [`replay()`] runs it call by call, at the rates in
[`prices`]. All of it takes values and returns values; files are opened elsewhere.

The live tests hold the results within 5 % of what the stub counted.

A replay cannot know one thing: without the text that was cut, the model might have answered differently, or asked for it again.
*/

pub mod cache;
pub mod conversation;
pub mod plot;
pub mod policy;
pub mod prices;
pub mod replay;
pub mod weigh;

pub use conversation::{LineCounts, ReplayConversation};
pub use policy::Policy;
pub use replay::{ReplayOutcome, ReplayTerms, ReplayTotals, replay};
pub use weigh::WeighedConversation;

/// Default tokens of the context window, for transcripts that do not record it.
pub const DEFAULT_WINDOW_TOKENS: u64 = 200_000;
/// The model whose prices are used for transcripts without one.
pub const DEFAULT_PRICED_MODEL: &str = "claude-sonnet-4-5";
/// Tokens of the larger window of some models. It is assumed if a request did not fit into the default one.
pub const LARGE_WINDOW: u64 = 1_000_000;
/// Number of tokens before the end of the window at which the client compacts.
pub const COMPACTION_RESERVE: u64 = 13_000;

/// The context window of a session: as recorded, or as its requests need.
pub fn window_tokens_of(conversation: &ReplayConversation) -> u64 {
    let largest = conversation.calls.iter().filter_map(|call| call.context_tokens).max().unwrap_or(0);
    conversation.window.unwrap_or(if largest > DEFAULT_WINDOW_TOKENS { LARGE_WINDOW } else { DEFAULT_WINDOW_TOKENS })
}

/// The size of the context at which the client compacts.
pub fn compaction_threshold(window: u64) -> u64 {
    window.saturating_sub(COMPACTION_RESERVE)
}
