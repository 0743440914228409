//! What is wired, and whether it works.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::document::{Document, Found, decode};
use super::file::SettingsFile;
use super::scope::{Places, Scope};
use super::wiring::{BARE, LeftOut, wiring};
use super::{DocumentError, SettingsError, plugin};
use crate::hook::Event;

/// What is wired in all scopes that were looked at.
#[derive(Debug, Serialize)]
pub struct Status {
    /// Whether every event is wired in settings that count, to a program that runs, and nothing keeps the client from reading them.
    pub wired: bool,
    /// The events that are to be wired and are not, in any settings that count.
    pub missing: Vec<Event>,
    /// What is not wired since a client does not know it.
    pub left_out: Vec<LeftOut>,
    /// Whether the settings together switch all hooks off.
    pub disabled: bool,
    /// Events that are wired in more than one scope, so that the client runs them twice.
    pub twice: Vec<Event>,
    /// Whether the plugin, which wires all events, is enabled.
    pub plugin: bool,
    /// Whether what the plugin calls is there; nothing when it is not enabled.
    pub plugin_runs: Option<bool>,
    /// Each scope.
    pub scopes: Vec<ScopeStatus>,
}

/// What is wired in one settings file.
#[derive(Debug, Serialize)]
pub struct ScopeStatus {
    /// The scope.
    pub scope: Scope,
    /// Its file.
    pub file: PathBuf,
    /// Whether it is there.
    pub exists: bool,
    /// The hooks of ours.
    pub hooks: Vec<Wired>,
    /// Events to be wired that are not, in this file.
    pub missing: Vec<Event>,
    /// Keys with a hook of ours that an installed client does not know: it ignores the whole file.
    pub unknown: Vec<LeftOut>,
    /// What the file says about the plugin, by its name and marketplace: whether it is enabled.
    pub plugins: BTreeMap<String, bool>,
    /// What the file says about all hooks.
    pub disable_all_hooks: Option<bool>,
    /// Whether the client heeds this project's settings; nothing for the user's own, or when that cannot be told.
    pub trusted: Option<bool>,
    /// Commands that name ctxbridge and do more: they are the user's.
    pub related: Vec<String>,
    /// Why the file cannot be read, by us or by the client.
    pub problem: Option<String>,
}

/// A hook of ours.
#[derive(Debug, Serialize)]
pub struct Wired {
    /// The event.
    pub event: Event,
    /// Its command.
    pub command: String,
    /// The program in it.
    pub program: String,
    /// Whether that is there and can be run; nothing when only a shell knows what it is.
    pub runs: Option<bool>,
    /// Whether it stands under its own event.
    pub in_place: bool,
    /// What it is restricted to.
    pub matcher: Option<String>,
    /// What it is to be restricted to, where that is something else.
    pub matcher_wanted: Option<&'static str>,
    /// Seconds that the client waits for it.
    pub timeout_s: Option<f64>,
}

impl Wired {
    /// Whether the client runs it when it should.
    pub fn is_sound(&self) -> bool {
        self.in_place && self.runs != Some(false) && self.matcher_wanted.is_none()
    }
}

impl ScopeStatus {
    /// Whether the client reads it.
    fn counts(&self) -> bool {
        self.exists && self.problem.is_none() && self.unknown.is_empty() && self.trusted != Some(false)
    }

    /// Whether an event is wired so that it runs.
    fn has(&self, event: Event) -> bool {
        self.hooks.iter().any(|hook| hook.event == event && hook.is_sound())
    }
}

/// Looks at these scopes. `wanted` is to be wired, `left_out` must not be; `path` is where a shell looks for programs.
///
/// # Errors
/// When there is no place for a scope. A file that cannot be read is a problem of its scope.
pub fn status(
    places: &Places,
    scopes: &[Scope],
    (wanted, left_out): (&[Event], &[LeftOut]),
    path: Option<&OsStr>,
) -> Result<Status, SettingsError> {
    let mut found = Vec::new();
    for &scope in scopes {
        let file = match places.file(scope) {
            Ok(file) => file,
            // One of several, there is nothing to say about it.
            Err(SettingsError::ProjectIsHome(_)) if scopes.len() > 1 => continue,
            Err(error) => return Err(error),
        };
        let trusted = if scope == Scope::User { None } else { places.is_trusted() };
        found.push(of_file(scope, file, trusted, (wanted, left_out), path));
    }
    let counting: Vec<_> = found.iter().filter(|scope| scope.counts()).collect();
    // A later scope has the last word.
    let plugins: BTreeMap<_, _> = counting.iter().flat_map(|scope| &scope.plugins).collect();
    let plugin = plugins.values().any(|enabled| **enabled);
    let plugin_runs = plugin.then(|| runs(BARE, path) != Some(false));
    let has = |event| plugin_runs == Some(true) || counting.iter().any(|scope| scope.has(event));
    let missing: Vec<_> = wanted.iter().copied().filter(|event| !has(*event)).collect();
    let twice = Event::ALL.into_iter().filter(|event| counting.iter().filter(|scope| scope.has(*event)).count() > 1).collect();
    let disabled = counting.iter().filter_map(|scope| scope.disable_all_hooks).next_back().unwrap_or(false);
    let hooks = || found.iter().flat_map(|scope| &scope.hooks);
    let sound = hooks().all(Wired::is_sound) && found.iter().all(|scope| scope.unknown.is_empty());
    let wired = missing.is_empty() && !disabled && sound;
    Ok(Status { wired, missing, left_out: left_out.to_vec(), disabled, twice, plugin, plugin_runs, scopes: found })
}

fn of_file(
    scope: Scope,
    file: PathBuf,
    trusted: Option<bool>,
    (wanted, left_out): (&[Event], &[LeftOut]),
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

fn read(status: &mut ScopeStatus, bytes: &[u8], left_out: &[LeftOut], path: Option<&OsStr>) -> Result<(), DocumentError> {
    let document = Document::parse(decode(bytes)?.1)?;
    let ours = document.ours();
    let is_unknown = |left: &&LeftOut| ours.iter().any(|found| found.under == left.event.name());
    status.unknown = left_out.iter().filter(is_unknown).cloned().collect();
    status.hooks = ours.into_iter().map(|found| wired(found, path)).collect();
    status.plugins = plugin::said(&document);
    status.disable_all_hooks = document.flag("disableAllHooks");
    status.related = document.related();
    document.check_shape()
}

fn wired(found: Found, path: Option<&OsStr>) -> Wired {
    let matcher = found.matcher.map(|(matcher, _)| matcher).filter(|matcher| !matcher.is_empty() && matcher != "*");
    let wanted = wiring(found.event).and_then(|wiring| wiring.matcher);
    Wired {
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

/// Whether a shell would find the program.
pub(super) fn runs(program: &str, path: Option<&OsStr>) -> Option<bool> {
    if program.contains('$') || program.starts_with('~') {
        return None;
    }
    if program.contains(['/', '\\']) {
        return Some(is_executable(Path::new(program)));
    }
    let folders = path.map(|path| std::env::split_paths(path).collect::<Vec<_>>()).unwrap_or_default();
    let names = [program.to_owned(), format!("{program}{}", std::env::consts::EXE_SUFFIX)];
    Some(folders.iter().any(|folder| names.iter().any(|name| is_executable(&folder.join(name)))))
}

fn is_executable(path: &Path) -> bool {
    let Ok(metadata) = path.metadata() else { return false };
    #[cfg(unix)]
    let may_run = std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o111 != 0;
    #[cfg(not(unix))]
    let may_run = true;
    metadata.is_file() && may_run
}
