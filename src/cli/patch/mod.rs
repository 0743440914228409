//! `ctxbridge patch …`

mod apply;
mod backups;
mod check;
mod keep;
mod list;
mod locate;
mod revert;
mod verify;

use std::path::PathBuf;

use clap::Subcommand;

use super::{CommandOutcome, Output, configuration, with_windows};
use ctxbridge_common::paths;
use ctxbridge_patch::catalog::Catalog;
use ctxbridge_patch::install::Target;
use ctxbridge_patch::patcher::Patcher;
use ctxbridge_prune as prune;

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  ctxbridge patch apply")]
pub(super) struct PatchArgs {
    /// Use the patches in this folder instead of the built-in ones
    #[arg(long, global = true, value_name = "DIR")]
    catalog: Option<PathBuf>,
    #[command(subcommand)]
    command: PatchCommand,
}

#[derive(Debug, Subcommand)]
enum PatchCommand {
    /// List the installed clients
    List(list::PatchListArgs),
    /// Show the code locations that each patch would edit
    Locate(locate::LocateArgs),
    /// Patch a client
    Apply(apply::ApplyArgs),
    /// Check that a client is patched by ctxbridge and intact
    Verify(verify::PatchVerifyArgs),
    /// Restore the original client
    Revert(revert::RevertArgs),
    /// List the originals that are kept, or remove those that nothing needs
    Backups(backups::BackupsArgs),
    /// Patch what `claude` runs now, if it is an upgrade of a patched client
    #[command(hide = true)]
    Keep(keep::KeepArgs),
    /// Check that the signatures match releases, for CI
    Check(check::CheckArgs),
}

/// Client that a command works on.
#[derive(Debug, clap::Args)]
struct TargetArg {
    /// Client to work on: an executable, cli.js, package folder, link or launcher [default: `claude` on the PATH]
    #[arg(value_name = "TARGET")]
    target: Option<PathBuf>,
}

impl TargetArg {
    fn resolve(&self) -> anyhow::Result<Target> {
        Ok(Target::resolve(self.target.as_deref())?)
    }
}

impl PatchArgs {
    pub fn run(&self, output: &mut Output) -> anyhow::Result<CommandOutcome> {
        let catalog = match &self.catalog {
            Some(folder) => Catalog::load(folder)?,
            None => configured(output)?,
        };
        match &self.command {
            PatchCommand::List(args) => args.run(catalog, output),
            PatchCommand::Locate(args) => args.run(&catalog, output),
            PatchCommand::Apply(args) => args.run(catalog, output),
            PatchCommand::Verify(args) => args.run(catalog, output),
            PatchCommand::Revert(args) => args.run(catalog, output),
            PatchCommand::Backups(args) => args.run(output),
            PatchCommand::Keep(args) => args.run(catalog, output),
            PatchCommand::Check(args) => args.run(&catalog, output),
        }
    }
}

/// Returns the built-in catalog with the user's settings. A patched client prunes by them, unless its environment overrides them.
fn configured(output: &Output) -> anyhow::Result<Catalog> {
    let mut catalog = Catalog::embedded()?;
    let config = configuration(output);
    if let Some(patch) = catalog.patch_mut(prune::PATCH) {
        patch.set_constants(&with_windows(config.prune).constants())?;
    }
    Ok(catalog)
}

/// Calls `work` with a patcher for the user's data directory, which reports its progress to `output`.
fn with_patcher<T>(catalog: Catalog, output: &Output, work: impl FnOnce(&Patcher<'_>) -> anyhow::Result<T>) -> anyhow::Result<T> {
    let notice = |text: &str| output.note(text);
    let progress = |step: &str| output.progress(step);
    let result = work(&Patcher::new(&paths::data_dir()?, catalog, &notice).with_progress(&progress));
    output.clear_progress();
    result
}
