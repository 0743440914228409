//! `ctxbridge completions` and `ctxbridge man`.

use clap_complete::Shell;

use super::{Answer, Output};

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  ctxbridge completions bash > ~/.local/share/bash-completion/completions/ctxbridge")]
pub(super) struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

impl CompletionsArgs {
    pub fn run(&self, command: &mut clap::Command, output: &mut Output) -> anyhow::Result<Answer> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, command, "ctxbridge", &mut script);
        output.text(script)?;
        Ok(Answer::Yes)
    }
}

pub(super) fn man(command: clap::Command, output: &mut Output) -> anyhow::Result<Answer> {
    let mut page = Vec::new();
    clap_mangen::Man::new(command).render(&mut page)?;
    output.text(page)?;
    Ok(Answer::Yes)
}
