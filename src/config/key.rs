//! A configuration key.

use serde_json::Value;

use super::Config;
use super::raw::WrittenValue;

type Set = fn(&mut Config, WrittenValue<'_>) -> Result<(), String>;
type Get = fn(&Config) -> Value;

/// A configuration key: its names, and how its value is read.
pub struct Key {
    /// `section.name`, as in files.
    pub name: &'static str,
    /// The environment variable.
    pub variable: &'static str,
    /// Environment variables from the designs, which are accepted as well.
    pub also: &'static [EnvAlias],
    /// Environment variable of other programs. It is used where no server is configured.
    pub fallback_env: Option<&'static str>,
    /// `true` if a project's file may set it. `false` where it affects data outside of the project, or safety.
    pub project_may_set: bool,
    /// One line of help.
    pub doc: &'static str,
    /// Reads a value into the settings.
    pub(super) set: Set,
    /// The value; null when there is none.
    pub get: Get,
}

/// Another environment variable for a key.
#[derive(Debug)]
pub struct EnvAlias {
    /// Its name.
    pub variable: &'static str,
    /// Pairs of its values and ours, where they differ.
    pub value_aliases: &'static [(&'static str, &'static str)],
}

impl EnvAlias {
    /// Creates one with the values of its key.
    pub(super) const fn new(variable: &'static str) -> Self {
        Self { variable, value_aliases: &[] }
    }
}

impl Key {
    /// Creates a key that a project's file may not set.
    pub(super) const fn new(name: &'static str, variable: &'static str, doc: &'static str, set: Set, get: Get) -> Self {
        Self { name, variable, also: &[], fallback_env: None, project_may_set: false, doc, set, get }
    }

    /// Accepts environment variables from the designs as well.
    pub(super) const fn also(self, also: &'static [EnvAlias]) -> Self {
        Self { also, ..self }
    }

    /// Uses another program's environment variable where no server is configured.
    pub(super) const fn fallback(self, variable: &'static str) -> Self {
        Self { fallback_env: Some(variable), ..self }
    }

    /// Lets a project's file set it.
    pub(super) const fn for_projects(self) -> Self {
        Self { project_may_set: true, ..self }
    }

    /// The default value; null when there is none.
    pub fn default(&self) -> Value {
        (self.get)(&Config::default())
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}
