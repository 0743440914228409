//! `ctxbridge bundle`

mod compact;
mod search;
mod show;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use clap::Subcommand;
use serde_json::{Value, json};

use super::Answer;
use super::output::Output;
use crate::bundle::{Bundles, Episode, FOLDER, Folded, Index, Project, Task, Thoroughness};
use crate::cli::archive::printable;
use crate::cli::output::{BOLD, DIM, styled};
use crate::hook;
use ctxbridge_archive::quote;
use ctxbridge_common::paths;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ctxbridge bundle show --since yesterday
  ctxbridge bundle search parser empty lines

Bundles are small files in .ctxbridge/bundles of a project in git: what was asked, and which files, commands and agents it took. Hooks write them;
commit them, and a clone knows what was worked on.")]
pub(super) struct BundleArgs {
    #[command(subcommand)]
    command: BundleCommand,
}

#[derive(Debug, Subcommand)]
enum BundleCommand {
    /// What was done in this project
    Show(show::ShowArgs),
    /// Find what was done by its words
    Search(search::SearchArgs),
    /// Fold old bundles into one file a month
    Compact(compact::CompactArgs),
    /// Read what is new into the cache
    #[command(hide = true)]
    Index(IndexArgs),
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  ctxbridge bundle index .

Hooks start it where a clone or a pull brought more than they may wait for.")]
struct IndexArgs {
    /// The project
    project: PathBuf,
    /// Leave the terminal and step back, as hooks start it
    #[arg(long, hide = true)]
    background: bool,
}

/// How long to wait for another process that writes the cache.
const PATIENCE: Duration = Duration::from_secs(10);

impl BundleArgs {
    pub fn run(&self, output: &mut Output) -> anyhow::Result<Answer> {
        match &self.command {
            BundleCommand::Show(args) => args.run(output),
            BundleCommand::Search(args) => args.run(output),
            BundleCommand::Compact(args) => args.run(output),
            BundleCommand::Index(args) => {
                if args.background {
                    hook::settle();
                }
                let project = args.project.canonicalize().with_context(|| format!("cannot find {}", args.project.display()))?;
                opened(&bundles_around(&project)?)?;
                Ok(Answer::Yes)
            }
        }
    }
}

/// The bundles of the project that one is in.
fn bundles() -> anyhow::Result<Bundles> {
    bundles_around(&std::env::current_dir()?)
}

fn bundles_around(folder: &Path) -> anyhow::Result<Bundles> {
    let project = Project::around(folder, paths::home_dir().as_deref());
    let project = project.with_context(|| {
        format!(
            "{} is in no project: there is no repository around it, and no {FOLDER}; go to one, or make one with `git init`",
            folder.display()
        )
    })?;
    Ok(Bundles::of(&project))
}

/// The index of them, up to date.
fn opened(bundles: &Bundles) -> anyhow::Result<Index> {
    let mut index = Index::open(&paths::data_dir()?, bundles, PATIENCE)?;
    index.refresh(bundles, Thoroughness::All, None, None)?;
    Ok(index)
}

/// What could not be read of them.
fn tell_skipped(index: &Index, bundles: &Bundles, output: &Output) -> anyhow::Result<()> {
    let (_, _, lines) = index.totals()?;
    if lines > 0 {
        output
            .note(&format!("note: lines in {} that are none of a bundle were passed over: {lines}", bundles.folder().display()));
    }
    Ok(())
}

fn as_json(episode: &Episode) -> Value {
    let Folded { session, prompt, changed, read, commands, tasks } = &episode.said;
    json!({
        "timestamp": episode.at.map(|at| at.to_string()), "session": session, "prompt": prompt, "changed": changed, "read": read,
        "commands": commands,
        "tasks": tasks.iter().map(|task| json!({ "what": task.what, "agent": task.agent })).collect::<Vec<_>>(),
    })
}

fn tell(episode: &Episode, output: &mut Output) -> anyhow::Result<()> {
    let Folded { session, prompt, changed, read, commands, tasks } = &episode.said;
    let at = episode.at.map(|at| at.strftime("%Y-%m-%d %H:%M").to_string()).unwrap_or_default();
    let session: String = session.chars().take(8).collect();
    // Anybody may have written it: it is on one line, and what hides text is gone.
    let shown = |text: &str| printable(&quote::line(text)).to_string();
    let prompt = if prompt.is_empty() { styled(DIM, "(before the first prompt)") } else { styled(BOLD, shown(prompt)) };
    let with_agent = |task: &Task| task.agent.as_ref().map_or(task.what.clone(), |agent| format!("{} ({agent})", task.what));
    let tasks: Vec<String> = tasks.iter().map(with_agent).collect();
    output.line(format!("{}  {prompt}", styled(DIM, format!("{at} {}", printable(&session)))))?;
    for (what, names) in [("changed", changed), ("read", read), ("ran", commands), ("agents", &tasks)] {
        for (number, name) in names.iter().enumerate() {
            output.line(format!("  {:<8} {}", if number == 0 { what } else { "" }, shown(name)))?;
        }
    }
    Ok(())
}
