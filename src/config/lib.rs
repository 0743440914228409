/*!
The user's configuration, with the source of each value.

Layers, each over the one before: defaults, the user's `config.toml`, the project's `.ctxbridge/config.toml`, the environment,
flags. Loading never fails, since hooks depend on it: an unreadable or invalid value becomes a [`Problem`], and the value of
the layer below is used. A project's file comes with a repository that somebody else wrote. So it cannot set anything that
affects the user's data or blocks the client ([`Key::project_may_set`]).

Every key is one entry of [`KEYS`], which help, `config show` and loading use.
*/

mod choice;
mod key;
mod keys;
mod layers;
mod left_out;
mod pattern;
mod raw;
mod server;
mod settings;

use std::fmt;
use std::path::PathBuf;

use serde_json::Value;

use ctxbridge_prune as prune;

pub use key::{EnvAlias, Key};
pub use keys::{KEYS, WINDOW_RANGE};
pub use layers::ConfigSources;
pub use left_out::LeftOut;
pub use pattern::{InvalidPattern, compile_pattern};
pub use raw::escape_controls;
pub use server::{PostgresSettings, SecretString, StoreKind, TlsSwitch, Visibility};
pub use settings::{
    ArchiveSettings, AutopilotSettings, BundleSettings, Gate, HookSettings, ModSettings, NotifyLevel, PatchSettings, PrivateText,
    RecallSettings, RedactSettings,
};

/// The settings in force.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Config {
    /// `archive.*`
    pub archive: ArchiveSettings,
    /// `prune.*`
    pub prune: prune::PruneSettings,
    /// `patch.*`
    pub patch: PatchSettings,
    /// `autopilot.*`
    pub autopilot: AutopilotSettings,
    /// `mod.*`
    pub client_mod: ModSettings,
    /// `recall.*`
    pub recall: RecallSettings,
    /// `bundle.*`
    pub bundle: BundleSettings,
    /// `hooks.*`
    pub hooks: HookSettings,
    /// `postgres.*`
    pub postgres: PostgresSettings,
    /// `redact.*`
    pub redact: RedactSettings,
    /// Problems with settings that were ignored, in the order of the layers.
    pub problems: Vec<Problem>,
    /// Sources of the values that were set, in the order of the layers, so the last one counts. Other values are defaults.
    set_by: Vec<(&'static str, SettingSource)>,
}

/// Source of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SettingSource {
    /// It is the default.
    Default,
    /// The user's file.
    User(PathBuf),
    /// The project's file.
    Project(PathBuf),
    /// This environment variable.
    Variable(&'static str),
    /// The command line.
    Flag,
}

/// A setting that was ignored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The key; empty when the problem is about a whole file.
    pub key: String,
    /// Its source.
    pub source: SettingSource,
    /// The problem, and the value that is used instead. One line without control characters, whatever the file contains.
    pub message: String,
}

/// A key with its value, for people and JSON.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting {
    /// The key.
    pub key: &'static Key,
    /// The value in force; null when there is none.
    pub value: Value,
    /// Its source.
    pub source: SettingSource,
}

impl Config {
    /// Every key with its value, in the order of [`KEYS`].
    pub fn settings(&self) -> Vec<Setting> {
        KEYS.iter().map(|key| Setting { key, value: (key.get)(self), source: self.source(key.name) }).collect()
    }

    /// `true` if the user configured a server for ctxbridge. Other programs' variables (`PG*`) are not enough to send data there.
    pub fn has_server(&self) -> bool {
        let is_meant = |key: &str| match self.source(key) {
            SettingSource::Default => false,
            SettingSource::Variable(variable) => !KEYS.iter().any(|key| key.fallback_env == Some(variable)),
            SettingSource::User(_) | SettingSource::Project(_) | SettingSource::Flag => true,
        };
        self.archive.store == StoreKind::Postgres || is_meant("postgres.url") || is_meant("postgres.host")
    }

    /// The source of a key's value.
    pub fn source(&self, key: &str) -> SettingSource {
        let last = self.set_by.iter().rev().find(|(name, _)| *name == key);
        last.map_or(SettingSource::Default, |(_, source)| source.clone())
    }
}

impl SettingSource {
    /// A stable word for it: `default`, `user`, `project`, `environment` or `flag`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::User(_) => "user",
            Self::Project(_) => "project",
            Self::Variable(_) => "environment",
            Self::Flag => "flag",
        }
    }
}

impl fmt::Display for SettingSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::User(path) | Self::Project(path) => f.write_str(&raw::escape_controls(&path.display().to_string())),
            Self::Variable(name) => write!(f, "${name}"),
            Self::Flag => f.write_str("command line"),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, source, message } = self;
        let space = if key.is_empty() { "" } else { " " };
        write!(f, "{source}: {key}{space}{message}")
    }
}
