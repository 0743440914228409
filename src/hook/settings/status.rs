//! Status of the installed hooks.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::PathBuf;

use serde::Serialize;

use super::command::runs;
use super::document::{FoundHook, SettingsDocument, decode};
use super::file::SettingsFile;
use super::scope::{SettingsPaths, SettingsScope};
use super::wiring::{UnsupportedEvent, wiring};
use super::{DocumentError, HookSettingsError, plugin};
use crate::hook::Event;

/// Status of the hooks in all scopes that were checked.
#[derive(Debug, Serialize)]
pub struct HooksStatus {
    /// `true` if every event is installed in active settings with a program that runs, and nothing keeps the client from reading
    /// them.
    pub wired: bool,
    /// Events that should be installed, but are not in any active settings.
    pub missing: Vec<Event>,
    /// Events that are left out because a client does not support them.
    pub left_out: Vec<UnsupportedEvent>,
    /// `true` if the settings together disable all hooks.
    pub disabled: bool,
    /// Events that are installed in more than one scope, so that the client runs them twice.
    pub twice: Vec<Event>,
    /// `true` if the plugin, which installs all events, is enabled.
    pub plugin: bool,
    /// `true` if the program that the plugin calls exists; `None` if the plugin is not enabled.
    pub plugin_runs: Option<bool>,
    /// Status of each scope.
    pub scopes: Vec<ScopeStatus>,
}

/// Status of the hooks in one settings file.
#[derive(Debug, Serialize)]
pub struct ScopeStatus {
    /// The scope.
    pub scope: SettingsScope,
    /// Its file.
    pub file: PathBuf,
    /// `true` if the file exists.
    pub exists: bool,
    /// Our hooks in it.
    pub hooks: Vec<WiredHook>,
    /// Events that should be installed, but are not in this file.
    pub missing: Vec<Event>,
    /// Events of our hooks that an installed client does not support: it ignores the whole file.
    pub unknown: Vec<UnsupportedEvent>,
    /// Flags in the file that enable the plugin, by its name and marketplace.
    pub plugins: BTreeMap<String, bool>,
    /// Value of `disableAllHooks` in the file.
    pub disable_all_hooks: Option<bool>,
    /// `true` if the client trusts this project, and so uses its settings; `None` for the user's own settings, or if unknown.
    pub trusted: Option<bool>,
    /// Commands that contain ctxbridge and do more: they are the user's.
    pub related: Vec<String>,
    /// Reason why we or the client cannot read the file.
    pub problem: Option<String>,
}

/// Installed hook of ours.
#[derive(Debug, Serialize)]
pub struct WiredHook {
    /// The event.
    pub event: Event,
    /// Its command.
    pub command: String,
    /// The program in it.
    pub program: String,
    /// `true` if the program can be run; `None` if only a shell can resolve it.
    pub runs: Option<bool>,
    /// `true` if it is under its own event.
    pub in_place: bool,
    /// Its matcher.
    pub matcher: Option<String>,
    /// The matcher that it should have, if it differs.
    pub matcher_wanted: Option<&'static str>,
    /// Timeout of the client, in seconds.
    pub timeout_s: Option<f64>,
}

impl WiredHook {
    /// `true` if the client runs it when it should.
    pub fn is_sound(&self) -> bool {
        self.in_place && self.runs != Some(false) && self.matcher_wanted.is_none()
    }
}

impl ScopeStatus {
    /// `true` if the client uses it.
    fn counts(&self) -> bool {
        self.exists && self.problem.is_none() && self.unknown.is_empty() && self.trusted != Some(false)
    }

    /// `true` if an event is installed so that it runs.
    fn has(&self, event: Event) -> bool {
        self.hooks.iter().any(|hook| hook.event == event && hook.is_sound())
    }
}

/// Checks these scopes. `wanted` should be installed, `left_out` must not be; `path` is the `PATH` of a shell.
///
/// # Errors
/// If the path of a scope is unknown. A file that cannot be read is a problem of its scope.
pub fn status(
    places: &SettingsPaths,
    scopes: &[SettingsScope],
    (wanted, left_out): (&[Event], &[UnsupportedEvent]),
    path: Option<&OsStr>,
) -> Result<HooksStatus, HookSettingsError> {
    let mut found = Vec::new();
    for &scope in scopes {
        let file = match places.file(scope) {
            Ok(file) => file,
            // One of several, there is nothing to say about it.
            Err(HookSettingsError::ProjectIsHome(_)) if scopes.len() > 1 => continue,
            Err(error) => return Err(error),
        };
        let trusted = if scope == SettingsScope::User { None } else { places.is_trusted() };
        found.push(of_file(scope, file, trusted, (wanted, left_out), path));
    }
    let counting: Vec<_> = found.iter().filter(|scope| scope.counts()).collect();
    // A later scope has the last word.
    let plugins: BTreeMap<_, _> = counting.iter().flat_map(|scope| &scope.plugins).collect();
    let plugin = plugins.values().any(|enabled| **enabled);
    let plugin_runs = plugin.then(|| plugin::finds_program(path));
    let has = |event| plugin_runs == Some(true) || counting.iter().any(|scope| scope.has(event));
    let missing: Vec<_> = wanted.iter().copied().filter(|event| !has(*event)).collect();
    let twice = Event::ALL.into_iter().filter(|event| counting.iter().filter(|scope| scope.has(*event)).count() > 1).collect();
    let disabled = counting.iter().filter_map(|scope| scope.disable_all_hooks).next_back().unwrap_or(false);
    let hooks = || found.iter().flat_map(|scope| &scope.hooks);
    let sound = hooks().all(WiredHook::is_sound) && found.iter().all(|scope| scope.unknown.is_empty());
    let wired = missing.is_empty() && !disabled && sound;
    Ok(HooksStatus { wired, missing, left_out: left_out.to_vec(), disabled, twice, plugin, plugin_runs, scopes: found })
}

fn of_file(
    scope: SettingsScope,
    file: PathBuf,
    trusted: Option<bool>,
    (wanted, left_out): (&[Event], &[UnsupportedEvent]),
    path: Option<&OsStr>,
) -> ScopeStatus {
    let mut status = ScopeStatus {
        scope,
        exists: true,
        hooks: Vec::new(),
        missing: Vec::new(),
        unknown: Vec::new(),
        plugins: BTreeMap::new(),
        disable_all_hooks: None,
        trusted,
        related: Vec::new(),
        problem: None,
        file,
    };
    match SettingsFile::read(&status.file) {
        Err(error) => status.problem = Some(error.to_string()),
        Ok(SettingsFile { content: None, .. }) => status.exists = false,
        Ok(SettingsFile { content: Some(bytes), .. }) => {
            if let Err(error) = read(&mut status, &bytes, left_out, path) {
                status.problem = Some(error.to_string());
            }
        }
    }
    status.missing = wanted.iter().copied().filter(|event| !status.has(*event)).collect();
    status
}

fn read(
    status: &mut ScopeStatus,
    bytes: &[u8],
    left_out: &[UnsupportedEvent],
    path: Option<&OsStr>,
) -> Result<(), DocumentError> {
    let document = SettingsDocument::parse(decode(bytes)?.1)?;
    let ours = document.ours();
    let is_unknown = |left: &&UnsupportedEvent| ours.iter().any(|found| found.under == left.event.name());
    status.unknown = left_out.iter().filter(is_unknown).cloned().collect();
    status.hooks = ours.into_iter().map(|found| wired(found, path)).collect();
    status.plugins = plugin::enabled_plugins(&document);
    status.disable_all_hooks = document.flag("disableAllHooks");
    status.related = document.related();
    document.check_shape()
}

fn wired(found: FoundHook, path: Option<&OsStr>) -> WiredHook {
    let matcher = found.matcher.map(|(matcher, _)| matcher).filter(|matcher| !matcher.is_empty() && matcher != "*");
    let wanted = wiring(found.event).and_then(|wiring| wiring.matcher);
    WiredHook {
        event: found.event,
        runs: runs(&found.program, path),
        in_place: found.under == found.event.name(),
        command: found.command,
        program: found.program,
        matcher_wanted: wanted.filter(|wanted| matcher.as_deref() != Some(wanted)),
        matcher,
        timeout_s: found.timeout.map(|(seconds, _)| seconds),
    }
}
