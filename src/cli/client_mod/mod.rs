//! `ctxbridge mod …`

mod called;
mod install;
mod status;
mod verify;

use std::path::{Path, PathBuf};

use clap::Subcommand;

use super::{CommandOutcome, Output};
use crate::hook::settings::scope::{SettingsPaths, SettingsScope};
use ctxbridge_common::paths;
use ctxbridge_patch::install::Target;

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  ctxbridge mod install

New clients ask plugins before they compact. The mod answers with the messages that stay, so that no summary is asked for; what leaves \
has handles. Whatever fails, the client compacts by itself.")]
pub(super) struct ModArgs {
    #[command(subcommand)]
    command: ModCommand,
}

#[derive(Debug, Subcommand)]
enum ModCommand {
    /// Install the plugin with the client's own commands
    Install(install::ModInstallArgs),
    /// Remove the plugin, and restore the client's settings
    Uninstall(install::ModUninstallArgs),
    /// Show whether the client loads the plugin, and how compactions were answered
    Status(status::ModStatusArgs),
    /// Run the client once, offline, to see whether it loads the plugin
    Verify(verify::ModVerifyArgs),
    /// (internal) Answer a compaction, for the plugin
    #[command(hide = true)]
    Answer(called::AnswerArgs),
    /// (internal) Note that the plugin was loaded
    #[command(hide = true)]
    Loaded(called::LoadedArgs),
}

impl ModArgs {
    pub fn run(&self, output: &mut Output) -> anyhow::Result<CommandOutcome> {
        match &self.command {
            ModCommand::Install(args) => args.run(output),
            ModCommand::Uninstall(args) => args.run(output),
            ModCommand::Status(args) => args.run(output),
            ModCommand::Verify(args) => args.run(output),
            ModCommand::Answer(args) => args.run(output),
            ModCommand::Loaded(args) => args.run(output),
        }
    }
}

/// The client that is meant.
#[derive(Debug, clap::Args)]
struct ClientPathArg {
    /// Claude Code to use [default: the `claude` that your shell runs]
    #[arg(value_name = "CLIENT")]
    client: Option<PathBuf>,
}

impl ClientPathArg {
    fn target(&self) -> anyhow::Result<Target> {
        Ok(Target::resolve(self.client.as_deref())?)
    }
}

/// The client's settings of the user.
pub(super) fn user_settings() -> anyhow::Result<PathBuf> {
    let config_dir = std::env::var_os("CLAUDE_CONFIG_DIR").map(Into::into);
    let places = SettingsPaths::new(paths::home_dir(), config_dir, Path::new("/"));
    Ok(places.file(SettingsScope::User)?)
}
