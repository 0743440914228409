//! `ctxbridge recall`

use super::Answer;
use super::output::Output;

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  ctxbridge recall ctx:1a2b3c4d

Handles stand in the context that is restored after a compaction, and in `ctxbridge archive show`.")]
pub(super) struct RecallArgs {
    /// The handle of a turn
    handle: String,
}

impl RecallArgs {
    pub fn run(&self, output: &mut Output) -> anyhow::Result<Answer> {
        super::archive::show_handle(&self.handle, output)
    }
}
