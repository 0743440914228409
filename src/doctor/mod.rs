/*!
Health checks of all parts of ctxbridge, each with the code that the command for that part uses.

Nothing is repaired: each check says what to do next.
*/

mod backups;
mod bundles;
mod checks;
mod cleanup;
mod client_mod;
mod git_bash;
mod hook_logs;
#[cfg(feature = "team")]
mod server;

use std::path::PathBuf;

use serde::Serialize;

use crate::hook::settings::scope::SettingsPaths;
use ctxbridge_common::paths;
use ctxbridge_config::{Config, ConfigSources};

/// Result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum HealthStatus {
    /// No problem.
    Ok,
    /// Works, but something is missing or worth a look.
    Warning,
    /// Does not work.
    Failed,
}

/// A check with its result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HealthCheck {
    /// Its name, which is stable.
    pub id: &'static str,
    /// The result.
    pub status: HealthStatus,
    /// Finding, on one line without control characters.
    pub detail: String,
    /// Next step for the user, if any.
    pub next: Option<String>,
}

/// Environment of the checks. Everything from outside comes in here, so that a test can replace it.
#[derive(Debug)]
pub struct Environment {
    /// Our data folder.
    pub data: PathBuf,
    /// The settings.
    pub config: Config,
    /// The folder that the command runs in.
    pub current: PathBuf,
    /// The user's home.
    pub home: Option<PathBuf>,
    /// `$CLAUDE_CONFIG_DIR`
    pub client_config: Option<PathBuf>,
    /// `$PATH` of the user's shell.
    pub path_variable: Option<std::ffi::OsString>,
    /// `true` unless the settings or a variable switch pruning off.
    pub is_pruning_on: bool,
    /// Milliseconds since 1970.
    pub now_ms: i64,
}

impl Environment {
    /// Collects the environment of this process, which runs in the folder `current`.
    pub fn of_process(data: PathBuf, current: PathBuf) -> Self {
        let config = Config::load(&ConfigSources::of_process(Some(&current)));
        Self {
            data,
            is_pruning_on: config.prune.clone().with_env(|name| std::env::var(name).ok()).enabled,
            config,
            current,
            home: paths::home_dir(),
            client_config: std::env::var_os("CLAUDE_CONFIG_DIR").map(Into::into),
            path_variable: std::env::var_os("PATH"),
            now_ms: jiff::Timestamp::now().as_millisecond(),
        }
    }

    /// The places of the client's settings.
    fn settings_paths(&self) -> SettingsPaths {
        SettingsPaths::new(self.home.clone(), self.client_config.clone(), &self.current)
    }
}

/// Runs all checks; `progress` receives the name of each step.
pub fn run_checks(at: &Environment, progress: &dyn Fn(&str)) -> Vec<HealthCheck> {
    let mut found = vec![checks::data_folder(&at.data)];
    found.extend(checks::disk(&at.data));
    found.push(checks::configuration(&at.config));
    progress("looking for clients");
    let clients = checks::clients(at, progress);
    let command = clients.command;
    found.extend(clients.checks);
    found.extend(git_bash::git_bash());
    found.extend(backups::backups(&at.data));
    let module = client_mod::ModOnThisMachine::of(at, command.as_ref());
    found.extend(module.check());
    let hooks = checks::hooks(at);
    let way = module.way(hooks.status == HealthStatus::Ok);
    found.push(hooks);
    found.extend(way);
    progress("reading the archive");
    found.extend(checks::archive(&at.data, &at.config));
    found.extend(cleanup::cleanup(at));
    found.extend(bundles::bundles(at));
    progress("reading the model");
    #[cfg(feature = "team")]
    found.extend(server::check_server(&at.data, &at.config));
    found.push(checks::model(&at.data));
    found.push(hook_logs::hooks_log(&at.data, at.now_ms));
    found.extend(hook_logs::recall(&at.data, at.now_ms));
    found.extend(hook_logs::spool(&at.data));
    found
}

impl HealthCheck {
    fn new(id: &'static str, status: HealthStatus, detail: impl Into<String>, next: Option<&str>) -> Self {
        // Paths and messages have names of files in them.
        Self { id, status, detail: ctxbridge_config::escape_controls(&detail.into()), next: next.map(str::to_owned) }
    }
}
