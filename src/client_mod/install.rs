/*!
Installs the plugin with the client's own commands, and takes it out again.

The client writes its settings anew in its own form. So they are kept as they were, and put back to the byte when nothing else was changed since.
*/

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use semver::Version;
use serde::Serialize;
use serde_json::Value;

use super::plugin::{Marketplace, NAME, PluginValues, THRESHOLD_NAME};
use crate::hook::settings::subprocess;
use ctxbridge_common::{files, paths};
use ctxbridge_patch::install::Target;

/// The first release that asks plugins before it compacts.
pub const FIRST_RELEASE: Version = Version::new(2, 1, 295);
/// The first one that does so with [`ENABLING_VARIABLE`].
pub const FIRST_WITH_VARIABLE: Version = Version::new(2, 1, 271);
/// Switches modules on in releases before [`FIRST_RELEASE`].
pub const ENABLING_VARIABLE: &str = "CLAUDE_CODE_ENABLE_FUNCTION_HOOKS";

/// Time limit for a command of the client.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(60);

/// Settings that the client adds for a plugin.
const ADDED: [&str; 2] = ["enabledPlugins", "extraKnownMarketplaces"];

/// Treatment of modules by a release of the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReleaseSupport {
    /// It knows none.
    No,
    /// It runs them where [`ENABLING_VARIABLE`] is set.
    WithVariable,
    /// It runs them, or its maker switched it off for this account.
    Yes,
}

impl ReleaseSupport {
    /// That of a release.
    pub fn of(version: &Version) -> Self {
        match version {
            version if *version >= FIRST_RELEASE => Self::Yes,
            version if *version >= FIRST_WITH_VARIABLE => Self::WithVariable,
            _ => Self::No,
        }
    }
}

/// Errors from installing the plugin, or taking it out.
#[derive(Debug, thiserror::Error)]
pub enum ModInstallError {
    /// The client is too old.
    #[error(
        "Claude Code {0} asks no plugin before it compacts; update it to {FIRST_RELEASE} or newer, or use `ctxbridge patch apply`"
    )]
    TooOld(String),
    /// Its version cannot be told.
    #[error("the version of {} is not known, so whether it asks plugins is not, either; name another client", .0.display())]
    UnknownVersion(PathBuf),
    /// A file of ours cannot be written or removed.
    #[error("cannot write {}: {cause}; make room or give yourself the right to, and try again", path.display())]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// The error from the system.
        cause: io::Error,
    },
    /// A command of the client did not run.
    #[error("cannot run `{command}`: {cause}; check that the client starts, and try again")]
    Run {
        /// The command.
        command: String,
        /// The error from the system.
        cause: io::Error,
    },
    /// A command of the client failed.
    #[error("`{command}` failed: {said}; `claude plugin list` shows what is installed")]
    Failed {
        /// The command.
        command: String,
        /// Its output.
        said: String,
    },
}

/// The client, our folder, and the client's settings.
#[derive(Debug)]
pub struct ModInstaller<'a> {
    /// Our data folder.
    pub data: &'a Path,
    /// The client.
    pub target: &'a Target,
    /// The client's settings of the user.
    pub settings: &'a Path,
}

/// Outcome of [`ModInstaller::install`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InstalledPlugin {
    /// It was not there.
    New,
    /// It was there, as another version or with another path, and was replaced.
    Updated,
    /// Nothing was to be done.
    Unchanged,
}

impl ModInstaller<'_> {
    /// Installs the plugin for the user, and the one for a threshold of theirs.
    ///
    /// # Errors
    /// If the client is too old, or one of its commands fails.
    pub fn install(&self, values: PluginValues<'_>) -> Result<(InstalledPlugin, ReleaseSupport), ModInstallError> {
        let support = self.support()?;
        let marketplace = Marketplace::in_dir(self.data);
        let was_installed = self.is_enabled();
        if was_installed && marketplace.is_current(values) {
            return Ok((InstalledPlugin::Unchanged, support));
        }
        if was_installed {
            self.remove_plugins()?;
        } else {
            self.keep_settings()?;
        }
        let write = |cause| ModInstallError::Write { path: marketplace.folder.clone(), cause };
        marketplace.write(values).map_err(write)?;
        self.run(&["plugin", "marketplace", "add", &marketplace.folder.to_string_lossy()])?;
        self.run(&["plugin", "install", &id(NAME)])?;
        if values.threshold_tokens.is_some() {
            self.run(&["plugin", "install", &id(THRESHOLD_NAME)])?;
        }
        Ok((if was_installed { InstalledPlugin::Updated } else { InstalledPlugin::New }, support))
    }

    /// Takes the plugin out. Returns `false` if it was not there.
    ///
    /// # Errors
    /// If a command of the client fails, or the settings cannot be written.
    pub fn uninstall(&self) -> Result<bool, ModInstallError> {
        let marketplace = Marketplace::in_dir(self.data);
        let was_installed = self.is_enabled() || marketplace.folder.exists();
        if was_installed {
            self.remove_plugins()?;
        }
        self.put_settings_back()?;
        marketplace.remove().map_err(|cause| ModInstallError::Write { path: marketplace.folder.clone(), cause })?;
        Ok(was_installed)
    }

    fn remove_plugins(&self) -> Result<(), ModInstallError> {
        for name in [THRESHOLD_NAME, NAME].into_iter().filter(|name| has(self.settings, name)) {
            self.run(&["plugin", "uninstall", &id(name)])?;
        }
        // It may be gone from the client already.
        self.run(&["plugin", "marketplace", "remove", NAME]).ok();
        Ok(())
    }

    /// `true` if the user's settings enable it.
    pub fn is_enabled(&self) -> bool {
        is_enabled(self.settings)
    }

    fn support(&self) -> Result<ReleaseSupport, ModInstallError> {
        let version = self.target.version.as_ref().ok_or_else(|| ModInstallError::UnknownVersion(self.target.path.clone()))?;
        match ReleaseSupport::of(version) {
            ReleaseSupport::No => Err(ModInstallError::TooOld(version.to_string())),
            support => Ok(support),
        }
    }

    fn run(&self, args: &[&str]) -> Result<(), ModInstallError> {
        let command = format!("claude {}", args.join(" "));
        let mut process = Command::new(&self.target.path);
        process.args(args).env("DISABLE_AUTOUPDATER", "1");
        let done = subprocess::run(&mut process, b"", COMMAND_TIMEOUT);
        let done = done.map_err(|cause| ModInstallError::Run { command: command.clone(), cause })?;
        if done.code == Some(0) {
            return Ok(());
        }
        let said = [&done.stderr, &done.stdout].map(|bytes| String::from_utf8_lossy(bytes).trim().to_owned());
        let said = said.into_iter().find(|text| !text.is_empty()).unwrap_or_else(|| "it said nothing".to_owned());
        Err(ModInstallError::Failed { command, said: ctxbridge_archive::quote::line(&said).to_string() })
    }

    /// File with the settings as they were. An empty one stands for none.
    fn kept(&self) -> PathBuf {
        self.data.join("mod").join("settings.before")
    }

    fn keep_settings(&self) -> Result<(), ModInstallError> {
        let (kept, bytes) = (self.kept(), files::read(self.settings).unwrap_or_default());
        let write = || {
            kept.parent().map_or(Ok(()), paths::create_private_dir)?;
            files::replace(&kept, &bytes)
        };
        write().map_err(|cause| ModInstallError::Write { path: kept.clone(), cause })
    }

    fn put_settings_back(&self) -> Result<(), ModInstallError> {
        let kept = self.kept();
        let Ok(before) = files::read(&kept) else { return Ok(()) };
        let now = files::read(self.settings).unwrap_or_default();
        let written = match restored(&before, &now) {
            Restored::Same => Ok(()),
            Restored::Gone => fs::remove_file(self.settings),
            Restored::Bytes(bytes) => fs::write(self.settings, bytes),
        };
        written.map_err(|cause| ModInstallError::Write { path: self.settings.to_owned(), cause })?;
        fs::remove_file(&kept).map_err(|cause| ModInstallError::Write { path: kept.clone(), cause })
    }
}

/// `true` if a settings file enables the plugin.
pub fn is_enabled(settings: &Path) -> bool {
    has(settings, NAME)
}

fn has(settings: &Path, name: &str) -> bool {
    let settings: Value = files::read(settings).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default();
    settings["enabledPlugins"][id(name)] == true
}

/// Name by which the client knows a plugin of ours.
fn id(name: &str) -> String {
    format!("{name}@{NAME}")
}

#[derive(Debug, PartialEq, Eq)]
enum Restored<'b> {
    /// Somebody changed them since, or they are as they were.
    Same,
    /// There were none.
    Gone,
    Bytes(&'b [u8]),
}

/// The settings after the plugin is out: as they were before, if they say the same.
fn restored<'b>(before: &'b [u8], now: &[u8]) -> Restored<'b> {
    let Ok(mut now) = serde_json::from_slice::<Value>(now) else { return Restored::Same };
    let was = if before.is_empty() { Some(Value::Object(serde_json::Map::new())) } else { serde_json::from_slice(before).ok() };
    let Some(was) = was else { return Restored::Same };
    for name in ADDED {
        let is_empty = now[name].as_object().is_some_and(serde_json::Map::is_empty);
        if is_empty
            && was.get(name).is_none()
            && let Some(fields) = now.as_object_mut()
        {
            fields.remove(name);
        }
    }
    match () {
        () if now != was => Restored::Same,
        () if before.is_empty() => Restored::Gone,
        () => Restored::Bytes(before),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_come_back_to_the_byte_unless_somebody_changed_them() {
        let before = b"{\n   \"model\" : \"opus\", \"permissions\": {}\n}";
        let left = br#"{"permissions": {}, "model": "opus", "enabledPlugins": {}, "extraKnownMarketplaces": {}}"#;
        assert_eq!(restored(before, left), Restored::Bytes(before));
        assert_eq!(restored(b"", br#"{"enabledPlugins": {}}"#), Restored::Gone);
        let changed = br#"{"permissions": {}, "model": "sonnet", "enabledPlugins": {}}"#;
        assert_eq!(restored(before, changed), Restored::Same);
        let other = br#"{"permissions": {}, "model": "opus", "enabledPlugins": {"x@y": true}}"#;
        assert_eq!(restored(before, other), Restored::Same, "another plugin was installed since");
        let had = br#"{"enabledPlugins": {}}"#;
        assert_eq!(restored(had, had), Restored::Bytes(had));
        assert_eq!(restored(before, b"no JSON"), Restored::Same);
    }

    #[test]
    fn releases_say_whether_they_ask() {
        for (version, support) in [
            ("2.0.76", ReleaseSupport::No),
            ("2.1.270", ReleaseSupport::No),
            ("2.1.271", ReleaseSupport::WithVariable),
            ("2.1.294", ReleaseSupport::WithVariable),
            ("2.1.295", ReleaseSupport::Yes),
            ("3.0.0", ReleaseSupport::Yes),
        ] {
            assert_eq!(ReleaseSupport::of(&version.parse().expect("a version")), support, "{version}");
        }
    }
}
