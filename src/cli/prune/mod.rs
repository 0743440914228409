//! `ctxbridge prune`

mod preview;
mod simulate;

use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::path::Path;

use anyhow::{Context as _, bail};
use clap::Subcommand;

use super::output::{Output, count};
use super::{CommandOutcome, configuration};
use ctxbridge_archive::quote;
use ctxbridge_prune::PruneSettings;
use ctxbridge_prune::simulate::{LineCounts, ReplayConversation};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ctxbridge prune preview session.jsonl      cuts in the newest request
  ctxbridge prune simulate session.jsonl     effect on tokens, cache and cost

Transcripts are in ~/.claude/projects.")]
pub(super) struct PruneArgs {
    #[command(subcommand)]
    command: PruneCommand,
}

#[derive(Debug, Subcommand)]
enum PruneCommand {
    /// Show what would be cut from a request, with sizes before and after
    Preview(preview::PreviewArgs),
    /// Replay a session under several policies: tokens, cache hits, cost, compactions
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

/// Reads the conversation in a transcript. Returns `None` and notes it if there are no requests in it.
fn read(path: &Path, output: &Output) -> anyhow::Result<Option<ReplayConversation>> {
    let shown = quote::line(&path.to_string_lossy());
    let mut file = match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            bail!("{shown} does not exist; transcripts are in ~/.claude/projects")
        }
        opened => opened.with_context(|| format!("{shown} cannot be opened"))?,
    };
    if file.metadata().is_ok_and(|metadata| metadata.is_dir()) {
        bail!("{shown} is a folder; give the path of a transcript in it");
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).with_context(|| format!("{shown} cannot be read"))?;
    let (conversation, LineCounts { good, bad, first_bad }) = ReplayConversation::read(&bytes);
    if good == 0 && bad > 0 {
        bail!("{shown} is no transcript: none of its {} is a JSON object", count(bad, "line"));
    }
    if bad > 0 {
        output.note(&format!("{shown}: {} could not be read and left out, the first is line {first_bad}", count(bad, "line")));
    }
    if conversation.calls.is_empty() {
        let why = if good == 0 { "it is empty" } else { "the model never answered in it" };
        output.note(&format!("{shown} has no requests to look at: {why}"));
        return Ok(None);
    }
    Ok(Some(conversation))
}

/// Loads the settings that a client patched now and started here would use.
fn settings(output: &Output) -> PruneSettings {
    configuration(output).prune
}
