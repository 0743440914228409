//! `ctxbridge archive follow`

use std::path::PathBuf;

use crate::cli::CommandOutcome;
use crate::cli::archives;
use crate::cli::output::Output;
use crate::hook;

/// Arguments of the command that hooks start in the background.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  ctxbridge archive follow ~/src/app")]
pub(super) struct FollowArgs {
    /// Folder of the project
    folder: PathBuf,
    /// Run detached from the terminal at low priority, as hooks start it
    #[arg(long, hide = true)]
    background: bool,
}

impl FollowArgs {
    pub fn run(&self, output: &mut Output) -> anyhow::Result<CommandOutcome> {
        if self.background {
            hook::detach_and_renice();
        }
        let location = archives::location(&archives::settings())?;
        let folder = std::path::absolute(&self.folder)?;
        let moved = hook::look_at_project(&location, &folder, jiff::Timestamp::now().as_millisecond())?;
        if let Some(moved) = moved.filter(|_| !self.background) {
            output.note(&moved.to_string());
        }
        Ok(CommandOutcome::Yes)
    }
}
