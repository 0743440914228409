//! `ctxbridge patch revert`

use super::{CommandOutcome, Output, TargetArg, with_patcher};
use crate::cli::output::{DIM, GOOD, styled};
use ctxbridge_patch::catalog::Catalog;
use ctxbridge_patch::patcher::RevertedState;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ctxbridge patch revert
  ctxbridge patch revert --force     also if another tool changed the client since

Refuses if the client was changed since it was patched, or the checksum of the backup is wrong. With --force, a changed client is kept \
beside the original as NAME.changed.")]
pub(super) struct RevertArgs {
    /// Put the original back even if another tool changed the client; keep the changed file beside it
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    target: TargetArg,
}

impl RevertArgs {
    pub fn run(&self, catalog: Catalog, output: &mut Output) -> anyhow::Result<CommandOutcome> {
        output.reports();
        let target = self.target.resolve()?;
        let reverted = with_patcher(catalog, output, |patcher| Ok(patcher.revert(&target, self.force)?))?;
        let done = reverted.state == RevertedState::Reverted;
        if output.json {
            output.value(&reverted)?;
        } else if done {
            output.prose(2, format!("{} {} is the original again", styled(GOOD, "reverted:"), reverted.target.display()))?;
            output.prose(2, styled(DIM, format!("SHA-256 {}", reverted.restored_sha256)))?;
            if let Some(kept) = &reverted.kept {
                output.prose(2, format!("kept: {} is the changed file", kept.display()))?;
            }
        } else {
            output.prose(2, format!("not patched: {} has nothing of ctxbridge in it", reverted.target.display()))?;
        }
        Ok(if done { CommandOutcome::Yes } else { CommandOutcome::No })
    }
}
