//! `ctxbridge completions`

use clap_complete::Shell;

use super::{CommandOutcome, Output};

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  source <(ctxbridge completions bash)    # in ~/.bashrc")]
pub(super) struct CompletionsArgs {
    /// Shell to print completions for
    shell: Shell,
}

impl CompletionsArgs {
    pub fn run(&self, command: &mut clap::Command, output: &mut Output) -> anyhow::Result<CommandOutcome> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, command, "ctxbridge", &mut script);
        output.text(script)?;
        Ok(CommandOutcome::Yes)
    }
}
