//! `ctxbridge patch revert`

use super::{CommandOutcome, Output, TargetArg, with_patcher};
use crate::cli::output::{DIM, GOOD, styled};
use ctxbridge_patch::catalog::Catalog;
use ctxbridge_patch::patcher::RevertedState;

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  ctxbridge patch revert

Refuses if the client was changed since it was patched, or the checksum of the backup is wrong.")]
pub(super) struct RevertArgs {
    #[command(flatten)]
    target: TargetArg,
}

impl RevertArgs {
    pub fn run(&self, catalog: Catalog, output: &mut Output) -> anyhow::Result<CommandOutcome> {
        let target = self.target.resolve()?;
        let reverted = with_patcher(catalog, output, |patcher| Ok(patcher.revert(&target)?))?;
        let done = reverted.state == RevertedState::Reverted;
        if output.json {
            output.value(&reverted)?;
        } else if done {
            output.line(format!("{} {} is the original again", styled(GOOD, "reverted:"), reverted.target.display()))?;
            output.line(styled(DIM, format!("SHA-256 {}", reverted.restored_sha256)))?;
        } else {
            output.line(format!("not patched: {} has nothing of ctxbridge in it", reverted.target.display()))?;
        }
        Ok(if done { CommandOutcome::Yes } else { CommandOutcome::No })
    }
}
