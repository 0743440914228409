/*!
What the user can set, and where each value came from.

Layers, each over the one before: defaults, the user's `config.toml`, the project's `.ctxbridge/config.toml`, the environment, flags.
Loading never fails, since hooks run with it: what cannot be read or makes no sense becomes a [`Problem`], and the value of the layer
below stands. A project's file comes with a repository that somebody else wrote: it cannot set what decides about the user's data or
about blocking the client ([`Key::by_project`]).

Every key is one entry of [`KEYS`], from which help, `config show` and the loading come.
*/

mod keys;
mod layers;
mod pattern;
mod raw;
mod server;
mod settings;

use std::fmt;
use std::path::PathBuf;

use serde_json::Value;

use ctxbridge_prune as prune;

pub use keys::WINDOWS;
pub use keys::{Alias, KEYS, Key};
pub use layers::Sources;
pub use pattern::{PatternError, compile};
pub use raw::plain;
pub use server::{Postgres, Secret, Ssl, StoreKind, Visibility};
pub use settings::{Archive, Autopilot, Bundle, Events, Gate, Hooks, Recall, Redact, Say};

/// The settings in force.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Config {
    /// `archive.*`
    pub archive: Archive,
    /// `prune.*`
    pub prune: prune::Settings,
    /// `autopilot.*`
    pub autopilot: Autopilot,
    /// `recall.*`
    pub recall: Recall,
    /// `bundle.*`
    pub bundle: Bundle,
    /// `hooks.*`
    pub hooks: Hooks,
    /// `event.*`
    pub event: Events,
    /// `postgres.*`
    pub postgres: Postgres,
    /// `redact.*`
    pub redact: Redact,
    /// What was passed over, in the order of the layers.
    pub problems: Vec<Problem>,
    /// Who set what; what is not here is as by default. In the order of the layers, so the last one counts.
    set_by: Vec<(&'static str, Source)>,
}

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// Nobody set it.
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

/// A setting that was passed over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The key; empty when it is about a whole file.
    pub key: String,
    /// Where it stands.
    pub source: Source,
    /// What is wrong, and what holds instead. One line without control characters, whatever the file contains.
    pub message: String,
}

/// A key with its value, for people and JSON.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting {
    /// The key.
    pub key: &'static Key,
    /// The value in force; null when there is none.
    pub value: Value,
    /// Who set it.
    pub source: Source,
}

impl Config {
    /// Every key with its value, in the order of [`KEYS`].
    pub fn settings(&self) -> Vec<Setting> {
        KEYS.iter().map(|key| Setting { key, value: (key.get)(self), source: self.source(key.name) }).collect()
    }

    /// Whether the user means to have a server: what other programs are told of one (`PG*`) is not enough to send anything there.
    pub fn has_server(&self) -> bool {
        let is_meant = |key: &str| match self.source(key) {
            Source::Default => false,
            Source::Variable(variable) => !KEYS.iter().any(|key| key.otherwise == Some(variable)),
            Source::User(_) | Source::Project(_) | Source::Flag => true,
        };
        self.archive.store == StoreKind::Postgres || is_meant("postgres.url") || is_meant("postgres.host")
    }

    /// Who set a key.
    pub fn source(&self, key: &str) -> Source {
        let last = self.set_by.iter().rev().find(|(name, _)| *name == key);
        last.map_or(Source::Default, |(_, source)| source.clone())
    }
}

impl Source {
    /// A word for it that is stable: `default`, `user`, `project`, `environment` or `flag`.
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

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::User(path) | Self::Project(path) => f.write_str(&raw::plain(&path.display().to_string())),
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
