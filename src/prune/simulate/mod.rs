/*!
Simulation of pruning: the API calls of a session are replayed under several policies.

[`conversation`] reads the calls from a transcript. [`weigh`] computes the tokens of each block, and [`policy`] decides which of
them are cut, and when. [`cache`] models what a request then costs, and [`replay()`] runs it call by call, at the rates in
[`prices`]. All of it takes values and returns values; files are opened elsewhere.

The live tests hold the results within 5 % of what the stub counted.

A replay cannot know one thing: without the text that was cut, the model might have answered differently, or asked for it again.
*/

pub mod cache;
pub mod compare;
pub mod conversation;
mod micro_compact;
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

use crate::PruneSettings;
use crate::window::window_for;

/// The model whose prices are used for transcripts without one.
pub const DEFAULT_PRICED_MODEL: &str = "claude-sonnet-4-5";
/// The context window of a session: as the user set, as recorded, or as is known of its model, unless its requests need more; and no larger
/// than what the client compacts by.
pub fn window_tokens_of(conversation: &ReplayConversation, settings: &PruneSettings) -> u64 {
    let largest = conversation.calls.iter().filter_map(|call| call.context_tokens).max().unwrap_or(0);
    let of_model = || settings.model_windows.of(conversation.model.as_deref()?);
    let window = settings.window_tokens.unwrap_or_else(|| window_for(conversation.window.or_else(of_model), largest));
    settings.compact_window_tokens.map_or(window, |smaller| window.min(smaller))
}
