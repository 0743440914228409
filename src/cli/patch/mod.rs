//! `ctxbridge patch …`

mod apply;
mod check;
mod list;
mod locate;
mod revert;
mod verify;

use std::path::PathBuf;

use clap::Subcommand;

use super::{Answer, Output, configuration};
use ctxbridge_common::paths;
use ctxbridge_patch::catalogue::Catalogue;
use ctxbridge_patch::install::Target;
use ctxbridge_patch::patcher::Patcher;
use ctxbridge_prune as prune;

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  ctxbridge patch apply")]
pub(super) struct PatchArgs {
    /// Use the patches in this folder instead of the built-in ones
    #[arg(long, global = true, value_name = "DIR")]
    catalogue: Option<PathBuf>,
    #[command(subcommand)]
    command: PatchCommand,
}

#[derive(Debug, Subcommand)]
enum PatchCommand {
    /// Show the installed clients
    List(list::ListArgs),
    /// Show the sites that each patch would use
    Locate(locate::LocateArgs),
    /// Patch a client
    Apply(apply::ApplyArgs),
    /// Say whether a client is patched, by ctxbridge, and intact
    Verify(verify::VerifyArgs),
    /// Put a client's original back
    Revert(revert::RevertArgs),
    /// Say whether the signatures match these releases, for CI
    Check(check::CheckArgs),
}

/// The client that a command is about.
#[derive(Debug, clap::Args)]
struct TargetArg {
    /// An executable, a cli.js, a package folder, or a link or launcher that leads to one [default: the `claude` on the PATH]
    #[arg(value_name = "TARGET")]
    target: Option<PathBuf>,
}

impl TargetArg {
    fn resolve(&self) -> anyhow::Result<Target> {
        Ok(Target::resolve(self.target.as_deref())?)
    }
}

impl PatchArgs {
    pub fn run(&self, output: &mut Output) -> anyhow::Result<Answer> {
        let catalogue = match &self.catalogue {
            Some(folder) => Catalogue::load(folder)?,
            None => configured(output)?,
        };
        match &self.command {
            PatchCommand::List(args) => args.run(catalogue, output),
            PatchCommand::Locate(args) => args.run(&catalogue, output),
            PatchCommand::Apply(args) => args.run(catalogue, output),
            PatchCommand::Verify(args) => args.run(catalogue, output),
            PatchCommand::Revert(args) => args.run(catalogue, output),
            PatchCommand::Check(args) => args.run(&catalogue, output),
        }
    }
}

/// The built-in catalogue with what the user has set: a patched client prunes by it, unless its environment says otherwise.
fn configured(output: &Output) -> anyhow::Result<Catalogue> {
    let mut catalogue = Catalogue::embedded()?;
    let config = configuration(output);
    if let Some(patch) = catalogue.patch_mut(prune::PATCH) {
        patch.set_constants(&config.prune.constants())?;
    }
    Ok(catalogue)
}

/// Calls `work` with a patcher that works in the user's data directory and tells `output` what goes on.
fn with_patcher<T>(
    catalogue: Catalogue,
    output: &Output,
    work: impl FnOnce(&Patcher<'_>) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let notice = |text: &str| output.note(text);
    let progress = |step: &str| output.progress(step);
    let result = work(&Patcher::new(&paths::data_dir()?, catalogue, &notice).with_progress(&progress));
    output.clear_progress();
    result
}
