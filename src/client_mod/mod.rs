/*!
The mod: a module of our plugin that answers a compaction in the client, without a patch.

New clients ask plugins before they compact, and take a list of messages in the place of a summary. Our module (`plugin/hooks/register.ts`) hands what the
client gives it to [`answer`] and returns what comes back; all rules are here and in [`ctxbridge_prune::compaction`]. Whatever fails, the client compacts
by itself, as if there was no plugin.

[`plugin`] has the plugin's files, [`install`] gives them to the client with the client's own commands, and [`status`] says what came of it.
[`proof`] runs a client to see that it asks, and [`way`] says which of the patch and the mod is in force. What the module told of itself is in
[`mod_state`](crate::hook::mod_state), which hooks ask as well.
*/

mod answer;
pub mod install;
pub mod plugin;
pub mod proof;
pub mod status;
pub mod way;

pub use answer::{AnswerError, CompactionRequest, answer, transcript_of};
