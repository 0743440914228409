//! `ctxbridge hooks …`

mod install;
mod status;
mod uninstall;
mod verify;

use std::path::Path;

use clap::{Subcommand, ValueEnum};
use semver::Version;

use super::{Answer, Output};
use crate::bundle::Project;
use crate::hook::settings::SettingsError;
use crate::hook::settings::clients::Readers;
use crate::hook::settings::scope::{Places, Scope};
use crate::hook::settings::wiring::{LeftOut, events_for};
use crate::hook::{Event, known};
use ctxbridge_common::paths;
use ctxbridge_config::{Config, Sources};

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  ctxbridge hooks install")]
pub(super) struct HooksArgs {
    #[command(subcommand)]
    command: HooksCommand,
}

#[derive(Debug, Subcommand)]
enum HooksCommand {
    /// Wire the hooks in the client's settings
    Install(install::InstallArgs),
    /// Take the hooks out of the client's settings
    Uninstall(uninstall::UninstallArgs),
    /// Say which hooks are wired, and whether they can run
    Status(status::StatusArgs),
    /// Run each hook with a sample input, in a scratch folder
    Verify(verify::VerifyArgs),
}

/// Which settings.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum ScopeArg {
    /// Yours, in all projects: ~/.claude/settings.json
    User,
    /// Those of all who work on this project: .claude/settings.json
    Project,
    /// Yours, in this project: .claude/settings.local.json
    Local,
}

impl From<ScopeArg> for Scope {
    fn from(scope: ScopeArg) -> Self {
        match scope {
            ScopeArg::User => Self::User,
            ScopeArg::Project => Self::Project,
            ScopeArg::Local => Self::Local,
        }
    }
}

/// Which clients the hooks have to suit.
#[derive(Debug, clap::Args)]
struct ClientArg {
    /// The version of the client that reads the settings [default: those of the installed clients]
    #[arg(long, value_name = "VERSION")]
    client_version: Option<Version>,
}

impl ClientArg {
    fn readers(&self, places: &Places, output: &Output) -> Readers {
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
    pub fn run(&self, output: &mut Output) -> anyhow::Result<Answer> {
        match &self.command {
            HooksCommand::Install(args) => args.run(output),
            HooksCommand::Uninstall(args) => args.run(output),
            HooksCommand::Status(args) => args.run(output),
            HooksCommand::Verify(args) => args.run(output),
        }
    }
}

/// The project that one is in, if its work is noted down there.
fn project() -> anyhow::Result<Option<Project>> {
    let current = std::env::current_dir()?;
    let is_wanted = Config::load(&Sources::of_process(Some(&current))).bundle.enabled;
    Ok(Project::around(&current, paths::home_dir().as_deref()).filter(|_| is_wanted))
}

fn places() -> anyhow::Result<Places> {
    let config_dir = std::env::var_os("CLAUDE_CONFIG_DIR").map(Into::into);
    Ok(Places::new(paths::home_dir(), config_dir, &std::env::current_dir()?))
}

/// The scopes to look at: one, or all.
fn scopes(named: Option<ScopeArg>) -> Vec<Scope> {
    named.map_or_else(|| Scope::ALL.to_vec(), |scope| vec![scope.into()])
}

/// What to wire for these clients, and what not.
fn events(readers: &Readers) -> (Vec<Event>, Vec<LeftOut>) {
    events_for(&readers.clients, &known)
}

/// The same, for at least one client and one event.
fn events_of_some(readers: &Readers) -> Result<(Vec<Event>, Vec<LeftOut>), SettingsError> {
    if readers.clients.is_empty() {
        return Err(SettingsError::NoClient(readers.unknown.clone()));
    }
    let (wanted, left_out) = events(readers);
    if wanted.is_empty() {
        let because_of = left_out.first().map(|left| left.because_of.clone()).unwrap_or_default();
        return Err(SettingsError::TooOld(because_of));
    }
    Ok((wanted, left_out))
}

fn names(events: &[Event]) -> String {
    events.iter().map(|event| event.name()).collect::<Vec<_>>().join(", ")
}

/// A path for people, with the home directory short.
fn short(path: &Path) -> String {
    let home = paths::home_dir();
    match home.as_ref().and_then(|home| path.strip_prefix(home).ok()) {
        Some(rest) => format!("~{}{}", std::path::MAIN_SEPARATOR, rest.display()),
        None => path.display().to_string(),
    }
}
