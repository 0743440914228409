/*!
The mod: a module of our plugin that answers a compaction in the client, without a patch.

New clients ask plugins before they compact, and take a list of messages in the place of a summary. Our module (`plugin/hooks/register.ts`) hands what the
client gives it to [`answer`] and returns what comes back; all rules are here and in [`ctxbridge_prune::compaction`]. Whatever fails, the client compacts
by itself, as if there was no plugin.

[`plugin`] has the plugin's files, [`install`] gives them to the client with the client's own commands, and [`state`] is what the module told of itself. [`proof`] runs a client to see that it asks.
[`way`] says which of the patch and the mod is in force.
*/

mod answer;
pub mod install;
pub mod plugin;
pub mod proof;
pub mod state;
pub mod status;
pub mod way;

pub use answer::{AnswerError, CompactionRequest, answer, transcript_of};
