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
mod needs;
pub mod plot;
pub mod policy;
pub mod prices;
pub mod references;
pub mod replay;
pub mod weigh;

pub use conversation::{LineCounts, ReplayConversation};
pub use needs::NeedsCount;
pub use policy::Policy;
pub use references::References;
pub use replay::{ReplayOutcome, ReplayTerms, ReplayTotals, replay};
pub use weigh::WeighedConversation;

/// Default tokens of the context window, for transcripts that do not record it.
pub const DEFAULT_WINDOW_TOKENS: u64 = 200_000;
/// The model whose prices are used for transcripts without one.
pub const DEFAULT_PRICED_MODEL: &str = "claude-sonnet-4-5";
/// Tokens of the larger window of some models. It is assumed if a request did not fit into the default one.
pub const LARGE_WINDOW: u64 = 1_000_000;
/// Number of tokens before the end of the window at which the client compacts: 20,000 for an answer, and 13,000.
pub const COMPACTION_RESERVE: u64 = 33_000;
/// The same up to 2.1.24, which kept 32,000 for an answer.
const OLDER_COMPACTION_RESERVE: u64 = 45_000;
const FIRST_WITH_NEWER_RESERVE: [u32; 3] = [2, 1, 25];

/// The context window of a session: as recorded, or as its requests need.
pub fn window_tokens_of(conversation: &ReplayConversation) -> u64 {
    let largest = conversation.calls.iter().filter_map(|call| call.context_tokens).max().unwrap_or(0);
    conversation.window.unwrap_or(if largest > DEFAULT_WINDOW_TOKENS { LARGE_WINDOW } else { DEFAULT_WINDOW_TOKENS })
}

/// The size of the context at which a release of the client compacts: of 93 compactions on record, half were at 155,000 of 200,000 tokens
/// up to 2.1.24, and at 167,000 later. An unknown release is a new one.
pub fn compaction_threshold(window: u64, version: Option<&str>) -> u64 {
    let numbers =
        |version: &str| version.split(['.', '-']).map(|number| number.parse().unwrap_or(0)).take(3).collect::<Vec<u32>>();
    let is_older = version.is_some_and(|version| numbers(version) < FIRST_WITH_NEWER_RESERVE.to_vec());
    window.saturating_sub(if is_older { OLDER_COMPACTION_RESERVE } else { COMPACTION_RESERVE })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_threshold_is_that_of_the_release() {
        for (version, threshold) in [
            (None, 167_000),
            (Some("2.0.76"), 155_000),
            (Some("2.1.9"), 155_000),
            (Some("2.1.24"), 155_000),
            (Some("2.1.25"), 167_000),
            (Some("2.1.331"), 167_000),
            (Some("3.0.0-beta"), 167_000),
        ] {
            assert_eq!(compaction_threshold(200_000, version), threshold, "{version:?}");
        }
    }
}
