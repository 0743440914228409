//! `ctxbridge bundle`

mod check;
mod compact;
mod init;
mod search;
mod show;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use clap::Subcommand;
use serde_json::{Value, json};

use super::CommandOutcome;
use super::output::Output;
use crate::bundle::{BundleIndex, Bundles, Episode, EpisodeSummary, PROJECT_DATA_FOLDER, Project, RefreshScope, Task};
use crate::cli::output::{BOLD, DIM, styled};
use crate::hook;
use ctxbridge_archive::quote;
use ctxbridge_archive::quote::printable;
use ctxbridge_common::paths;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ctxbridge bundle init
  ctxbridge bundle show --since yesterday
  ctxbridge bundle search parser empty lines

Bundles are small files in .ctxbridge/bundles of a git project. They record prompts with the files, commands and agents that \
were used. Hooks write them in projects where `bundle init` was run; commit them to share the work log with every clone.")]
pub(super) struct BundleArgs {
    #[command(subcommand)]
    command: BundleCommand,
}

#[derive(Debug, Subcommand)]
enum BundleCommand {
    /// Start a work log in this project
    Init(init::BundleInitArgs),
    /// Show the work log of this project
    Show(show::BundleShowArgs),
    /// Search the work log
    Search(search::BundleSearchArgs),
    /// Look for secrets in bundles before they are committed
    Check(check::BundleCheckArgs),
    /// Fold old bundles into one file a month
    Compact(compact::CompactArgs),
    /// Index new bundles
    #[command(hide = true)]
    Index(IndexArgs),
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  ctxbridge bundle index .

Hooks start it after a clone or pull with too many new bundles to read at once.")]
struct IndexArgs {
    /// Folder of the project
    project: PathBuf,
    /// Run detached from the terminal at low priority, as hooks start it
    #[arg(long, hide = true)]
    background: bool,
}

/// Time to wait for another process that writes the cache.
const CACHE_LOCK_TIMEOUT: Duration = Duration::from_secs(10);

impl BundleArgs {
    pub fn run(&self, output: &mut Output) -> anyhow::Result<CommandOutcome> {
        match &self.command {
            BundleCommand::Init(args) => args.run(output),
            BundleCommand::Show(args) => args.run(output),
            BundleCommand::Search(args) => args.run(output),
            BundleCommand::Check(args) => args.run(output),
            BundleCommand::Compact(args) => args.run(output),
            BundleCommand::Index(args) => {
                if args.background {
                    hook::detach_and_renice();
                }
                let project = paths::real(&args.project).with_context(|| format!("cannot find {}", args.project.display()))?;
                opened(&bundles_around(&project)?)?;
                Ok(CommandOutcome::Yes)
            }
        }
    }
}

/// Bundles of the current project.
fn bundles() -> anyhow::Result<Bundles> {
    bundles_around(&std::env::current_dir()?)
}

fn bundles_around(folder: &Path) -> anyhow::Result<Bundles> {
    Ok(Bundles::of(&project_around(folder)?))
}

fn project_around(folder: &Path) -> anyhow::Result<Project> {
    let project = Project::around(folder, paths::home_dir().as_deref());
    project.with_context(|| {
        format!(
            "{} is in no project: there is no repository around it, and no {PROJECT_DATA_FOLDER}; go to one, or make one with `git init`",
            folder.display()
        )
    })
}

/// Opens the index of bundles and brings it up to date.
fn opened(bundles: &Bundles) -> anyhow::Result<BundleIndex> {
    let mut index = BundleIndex::open(&paths::data_dir()?, bundles, CACHE_LOCK_TIMEOUT)?;
    index.refresh(bundles, RefreshScope::All, None, None)?;
    Ok(index)
}

/// Notes the lines that could not be read.
fn tell_skipped(index: &BundleIndex, bundles: &Bundles, output: &Output) -> anyhow::Result<()> {
    let (_, _, lines) = index.totals()?;
    if lines > 0 {
        output
            .note(&format!("note: lines in {} that are none of a bundle were passed over: {lines}", bundles.folder().display()));
    }
    Ok(())
}

fn as_json(episode: &Episode) -> Value {
    let EpisodeSummary { session, prompt, changed, read, commands, tasks } = &episode.summary;
    json!({
        "timestamp": episode.at.map(|at| at.to_string()), "session": session, "prompt": prompt, "changed": changed, "read": read,
        "commands": commands,
        "tasks": tasks.iter().map(|task| json!({ "what": task.description, "agent": task.agent })).collect::<Vec<_>>(),
    })
}

fn tell(episode: &Episode, output: &mut Output) -> anyhow::Result<()> {
    let EpisodeSummary { session, prompt, changed, read, commands, tasks } = &episode.summary;
    let at = episode.at.map(|at| at.strftime("%Y-%m-%d %H:%M").to_string()).unwrap_or_default();
    let session: String = session.chars().take(8).collect();
    // Anybody may have written it: it is on one line, and what hides text is gone.
    let shown = |text: &str| printable(&quote::line(text)).to_string();
    let prompt = if prompt.is_empty() { styled(DIM, "(before the first prompt)") } else { styled(BOLD, shown(prompt)) };
    let with_agent =
        |task: &Task| task.agent.as_ref().map_or(task.description.clone(), |agent| format!("{} ({agent})", task.description));
    let tasks: Vec<String> = tasks.iter().map(with_agent).collect();
    output.row(format!("{}  {prompt}", styled(DIM, format!("{at} {}", printable(&session)))))?;
    for (what, names) in [("changed", changed), ("read", read), ("ran", commands), ("agents", &tasks)] {
        for (number, name) in names.iter().enumerate() {
            output.row(format!("  {:<8} {}", if number == 0 { what } else { "" }, shown(name)))?;
        }
    }
    Ok(())
}
