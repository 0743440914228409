//! `ctxbridge patch keep`

use super::{CommandOutcome, Output};
use crate::hook;
use ctxbridge_common::paths;
use ctxbridge_patch::catalog::Catalog;
use ctxbridge_patch::keep;
use ctxbridge_patch::patcher::Patcher;

/// Arguments of the command that hooks start in the background.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  ctxbridge patch keep

With `patch.keep`, hooks run this at the start and end of a session. Exits 1 if nothing was done.")]
pub(super) struct KeepArgs {
    /// Run detached from the terminal at low priority, as hooks start it
    #[arg(long, hide = true)]
    background: bool,
}

impl KeepArgs {
    pub fn run(&self, catalog: Catalog, output: &Output) -> anyhow::Result<CommandOutcome> {
        if self.background {
            hook::detach_and_renice();
        }
        let notice = |text: &str| output.note(text);
        let data = paths::data_dir()?;
        let patcher = Patcher::new(&data, catalog, &notice);
        let done = keep::keep(&data, std::env::var_os("PATH").as_deref(), patcher, keep::QUIET_TIME)?;
        output.note(
            done.as_deref()
                .unwrap_or("nothing was done: `claude` is no upgrade of a patched client, or another process is at work on it"),
        );
        Ok(if done.is_some() { CommandOutcome::Yes } else { CommandOutcome::No })
    }
}
