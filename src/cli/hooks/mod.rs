//! `ctxbridge hooks …`

mod install;
mod status;
mod uninstall;
mod verify;

use clap::{Subcommand, ValueEnum};
use semver::Version;

use super::{CommandOutcome, Output, output::short};
use crate::hook::settings::HookSettingsError;
use crate::hook::settings::clients::Readers;
use crate::hook::settings::scope::{SettingsPaths, SettingsScope};
use crate::hook::settings::wiring::{UnsupportedEvent, events_for};
use crate::hook::{Event, supported_events};
use ctxbridge_common::paths;

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  ctxbridge hooks install")]
pub(super) struct HooksArgs {
    #[command(subcommand)]
    command: HooksCommand,
}

#[derive(Debug, Subcommand)]
enum HooksCommand {
    /// Install the hooks in Claude Code's settings
    Install(install::HooksInstallArgs),
    /// Remove the hooks from Claude Code's settings
    Uninstall(uninstall::HooksUninstallArgs),
    /// Show which hooks are installed, and if they can run
    Status(status::HooksStatusArgs),
    /// Test each hook with sample input in a scratch folder
    Verify(verify::HooksVerifyArgs),
}

/// Settings file to work on.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum ScopeArg {
    /// Your settings for all projects: ~/.claude/settings.json
    User,
    /// Settings shared by everyone on this project: .claude/settings.json
    Project,
    /// Your settings for this project: .claude/settings.local.json
    Local,
}

impl From<ScopeArg> for SettingsScope {
    fn from(scope: ScopeArg) -> Self {
        match scope {
            ScopeArg::User => Self::User,
            ScopeArg::Project => Self::Project,
            ScopeArg::Local => Self::Local,
        }
    }
}

/// Clients that the hooks must be compatible with.
#[derive(Debug, clap::Args)]
struct ClientArg {
    /// Claude Code version to install for [default: all installed clients]
    #[arg(long, value_name = "VERSION")]
    client_version: Option<Version>,
}

impl ClientArg {
    fn readers(&self, places: &SettingsPaths, output: &Output) -> Readers {
        if let Some(version) = &self.client_version {
            return Readers::named(version.clone());
        }
        output.progress("looking for clients");
        let readers = Readers::discover(Some(&places.project));
        output.clear_progress();
        readers
    }
}

impl HooksArgs {
    pub fn run(&self, output: &mut Output) -> anyhow::Result<CommandOutcome> {
        match &self.command {
            HooksCommand::Install(args) => args.run(output),
            HooksCommand::Uninstall(args) => args.run(output),
            HooksCommand::Status(args) => args.run(output),
            HooksCommand::Verify(args) => args.run(output),
        }
    }
}

/// Places of the client's settings around the current folder.
pub(super) fn places() -> anyhow::Result<SettingsPaths> {
    let config_dir = std::env::var_os("CLAUDE_CONFIG_DIR").map(Into::into);
    Ok(SettingsPaths::new(paths::home_dir(), config_dir, &std::env::current_dir()?))
}

/// Scopes to look at: one, or all.
fn scopes(named: Option<ScopeArg>) -> Vec<SettingsScope> {
    named.map_or_else(|| SettingsScope::ALL.to_vec(), |scope| vec![scope.into()])
}

/// Events to install for these clients, and those to leave out.
fn events(readers: &Readers) -> (Vec<Event>, Vec<UnsupportedEvent>) {
    events_for(&readers.clients, &supported_events)
}

/// Like [`events`], but fails without a client or an event.
fn events_of_some(readers: &Readers) -> Result<(Vec<Event>, Vec<UnsupportedEvent>), HookSettingsError> {
    if readers.clients.is_empty() {
        return Err(HookSettingsError::NoClient(readers.unknown.clone()));
    }
    let (wanted, left_out) = events(readers);
    if wanted.is_empty() {
        let because_of = left_out.first().map(|left| left.because_of.clone()).unwrap_or_default();
        return Err(HookSettingsError::TooOld(because_of));
    }
    Ok((wanted, left_out))
}

fn names(events: &[Event]) -> String {
    events.iter().map(|event| event.name()).collect::<Vec<_>>().join(", ")
}
