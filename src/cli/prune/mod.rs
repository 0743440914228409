//! `ctxbridge prune`

mod outcome;
mod preview;
mod sessions;
mod simulate;

use clap::Subcommand;

use super::CommandOutcome;
use super::output::Output;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ctxbridge prune preview session.jsonl      what the newest request would fold
  ctxbridge prune simulate 0b9e              effect on compactions, tokens and cost
  ctxbridge prune simulate --all             the same, over all archived sessions

Transcripts are in ~/.claude/projects; `ctxbridge sessions` lists archived sessions.")]
pub(super) struct PruneArgs {
    #[command(subcommand)]
    command: PruneCommand,
}

#[derive(Debug, Subcommand)]
enum PruneCommand {
    /// Show what would be folded in a request, with sizes before and after
    Preview(preview::PreviewArgs),
    /// Replay sessions without and with pruning: compactions, tokens, cost, what stays
    Simulate(simulate::SimulateArgs),
}

impl PruneArgs {
    pub fn run(&self, output: &mut Output) -> anyhow::Result<CommandOutcome> {
        match &self.command {
            PruneCommand::Preview(args) => args.run(output),
            PruneCommand::Simulate(args) => args.run(output),
        }
    }
}
