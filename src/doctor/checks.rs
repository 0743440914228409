//! The checks.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use semver::Version;

use super::{Environment, HealthCheck, HealthStatus};
use crate::client_mod::install::{ReleaseSupport, is_enabled};
use crate::client_mod::status::mod_status;
use crate::hook::settings::clients::Readers;
use crate::hook::settings::scope::{SettingsPaths, SettingsScope};
use crate::hook::settings::status::status;
use crate::hook::settings::wiring::events_for;
use crate::hook::{Event, supported_events};
use ctxbridge_archive::heal::{self, CheckExtent, SegmentCheckReport};
use ctxbridge_archive::open::Location;
use ctxbridge_archive::recovery::{self, Repair};
use ctxbridge_archive::search::Searcher;
use ctxbridge_archive::search::index;
use ctxbridge_archive::store::jsonl::JsonlStore;
use ctxbridge_archive::store::sqlite::{LockPolicy, SqliteStore};
use ctxbridge_archive::store::{ArchiveTotals, StoreError, StoreReader};
#[cfg(not(unix))]
use ctxbridge_common::paths;
use ctxbridge_config::{Config, StoreKind};
use ctxbridge_patch::catalog::Catalog;
use ctxbridge_patch::inspect::TargetState;
use ctxbridge_patch::install::{Installation, Target, discover};
use ctxbridge_patch::patcher::Patcher;
use ctxbridge_picker::text::count;
use ctxbridge_prune::PATCH;
use ctxbridge_vectors::embed::install;

/// Free disk space, in bytes, below which transcripts and patches soon cannot be stored.
const LOW_DISK_BYTES: u64 = 1 << 30;

/// Time limit for checking what is archived.
const CHECKING: Duration = Duration::from_secs(15);

/// Days for which a repair is told.
const REPAIRS_TOLD_DAYS: i64 = 30;

pub(super) const DAY_MS: i64 = 24 * 60 * 60 * 1_000;

/// Checks that the data folder exists, is writable and is private.
pub fn data_folder(data: &Path) -> HealthCheck {
    let check = |status, told: &str, next: Option<&str>| {
        HealthCheck::new("data_folder", status, format!("{}{told}", data.display()), next)
    };
    let metadata = match fs::metadata(data) {
        Ok(metadata) if metadata.is_dir() => metadata,
        Ok(_) => {
            return check(HealthStatus::Failed, " is no folder", Some("move it away, or set CTXBRIDGE_DATA_DIR to a folder"));
        }
        Err(error) => {
            return check(
                HealthStatus::Failed,
                &format!(" cannot be read: {error}"),
                Some("set CTXBRIDGE_DATA_DIR to a folder that you may use"),
            );
        }
    };
    #[cfg(unix)]
    let (is_writable, is_private) = {
        use std::os::unix::fs::PermissionsExt;
        let access = rustix::fs::access(data, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK);
        (access.is_ok(), metadata.permissions().mode() & 0o077 == 0)
    };
    // On Windows, a folder in the user's profile has its rights; what another one has, only a list of them says.
    #[cfg(not(unix))]
    let (is_writable, is_private) = (!metadata.permissions().readonly(), is_in_profile(data));
    match (is_writable, is_private) {
        (false, _) => check(
            HealthStatus::Failed,
            " cannot be written to",
            Some("give yourself the right to write there, or set CTXBRIDGE_DATA_DIR"),
        ),
        (_, false) if cfg!(unix) => {
            let next = format!("to fix it, run `chmod 700 '{}'`", data.display());
            check(HealthStatus::Warning, " is accessible to other users", Some(&next))
        }
        (_, false) => {
            let next = "make sure that only you may read it, or set CTXBRIDGE_DATA_DIR to a folder in your profile";
            check(HealthStatus::Warning, " is not in your profile, so other users may have access", Some(next))
        }
        _ => check(HealthStatus::Ok, " is writable, and yours alone", None),
    }
}

/// `true` for a folder in the user's profile, to which the system gives no other user access.
#[cfg(not(unix))]
fn is_in_profile(data: &Path) -> bool {
    let real = |path: &Path| paths::real(path).ok();
    paths::home_dir().is_some_and(|home| real(data).zip(real(&home)).is_some_and(|(data, home)| data.starts_with(home)))
}

/// Checks the free disk space.
pub fn disk(data: &Path) -> Option<HealthCheck> {
    let free = fs4::available_space(data).ok()?;
    let detail = format!("{:.1} GB free", free as f64 / 1e9);
    Some(match free {
        LOW_DISK_BYTES.. => HealthCheck::new("disk", HealthStatus::Ok, detail, None),
        0 => HealthCheck::new("disk", HealthStatus::Failed, "the disk is full", Some("make room: nothing can be archived")),
        _ => {
            HealthCheck::new("disk", HealthStatus::Warning, detail, Some("make room: when the disk is full, nothing is archived"))
        }
    })
}

pub fn configuration(config: &Config) -> HealthCheck {
    let set = config.settings().iter().filter(|setting| setting.source.kind() != "default").count();
    let Some(first) = config.problems.first() else {
        let told = if set == 0 { "all settings at their defaults".to_owned() } else { format!("{set} set, no problems") };
        return HealthCheck::new("configuration", HealthStatus::Ok, told, None);
    };
    let more = config.problems.len() - 1;
    let more = if more == 0 { String::new() } else { format!(" (and {more} more)") };
    // Already without control characters, as `config show` says it.
    HealthCheck::new(
        "configuration",
        HealthStatus::Warning,
        format!("{first}{more}"),
        Some("correct it; `ctxbridge config show` says what holds instead"),
    )
}

/// The installed clients.
#[derive(Default)]
pub struct InstalledClients {
    /// A check of each.
    pub checks: Vec<HealthCheck>,
    /// The one that the user's shell runs, else the first.
    pub command: Option<CommandClient>,
}

/// A client that the user runs.
pub struct CommandClient {
    /// Its version, if known.
    pub version: Option<Version>,
    /// `true` if it prunes; `None` if it cannot be told.
    pub prunes: Option<bool>,
}

/// Checks each installed client and the state of our patch in it.
pub fn clients(at: &Environment, progress: &dyn Fn(&str)) -> InstalledClients {
    let failed = |check: HealthCheck| InstalledClients { checks: vec![check], command: None };
    let installations = discover(Some(&at.current));
    if installations.is_empty() {
        return failed(HealthCheck::new(
            "patch",
            HealthStatus::Warning,
            "no client found",
            Some("install Claude Code; `ctxbridge patch verify PATH` looks at one elsewhere"),
        ));
    }
    let catalog = match Catalog::embedded() {
        Ok(catalog) => catalog,
        Err(error) => {
            return failed(HealthCheck::new("patch", HealthStatus::Failed, error.to_string(), Some("reinstall ctxbridge")));
        }
    };
    // What it says besides comes out of its result as well.
    let patcher = Patcher::new(&at.data, catalog, &|_| {});
    let mut found = InstalledClients::default();
    for installation in installations {
        progress(&format!("reading {}", installation.path.display()));
        let version = installation.client.as_ref().ok().and_then(|target| target.version.clone());
        let (check, prunes) = client(at, installation, &patcher);
        found.checks.push(check);
        // The one on the PATH comes first.
        found.command.get_or_insert(CommandClient { version, prunes });
    }
    found
}

/// Checks a client. Says as well whether it prunes, if that can be told.
fn client(at: &Environment, installation: Installation, patcher: &Patcher<'_>) -> (HealthCheck, Option<bool>) {
    let path = installation.path.display().to_string();
    // What the shell does not run disturbs nobody.
    let bad = if installation.on_path { HealthStatus::Failed } else { HealthStatus::Warning };
    let target = match installation.client {
        Ok(target) => target,
        Err(error) => {
            let next = Some("`ctxbridge patch list` shows the clients");
            return (HealthCheck::new("patch", bad, error.to_string(), next), None);
        }
    };
    let place = format!("{} {path}", target.version_text());
    let verified = match patcher.verify(&target) {
        Ok(verified) => verified,
        Err(error) => {
            let next = Some("`ctxbridge patch verify` says more");
            return (HealthCheck::new("patch", bad, format!("{place}: {error}"), next), None);
        }
    };
    let apply = format!("`ctxbridge patch apply '{path}'` patches it");
    let (status, state, next) = match verified.state {
        TargetState::Patched => (HealthStatus::Ok, "patched", None),
        // Nothing is missing.
        TargetState::Unpatched if has_mod(at, &target, installation.on_path) => {
            (HealthStatus::Ok, "unpatched; the mod answers its compactions", None)
        }
        TargetState::Unpatched => (HealthStatus::Warning, "unpatched", Some(apply.as_str())),
        TargetState::Upgraded => (HealthStatus::Warning, "upgraded since it was patched", Some(apply.as_str())),
        TargetState::Modified => (bad, "patched, and changed since", Some("reinstall the client, then patch it")),
        TargetState::Foreign => {
            (HealthStatus::Warning, "patched by another tool", Some("undo that with the other tool, then patch it"))
        }
    };
    let prunes = verified.state == TargetState::Patched && verified.patches.iter().any(|patch| patch == PATCH);
    (HealthCheck::new("patch", status, format!("{place}: {state}"), next), Some(prunes))
}

/// `true` if the mod answers the compactions of a client.
fn has_mod(at: &Environment, target: &Target, is_command: bool) -> bool {
    let Ok(settings) = at.settings_paths().file(SettingsScope::User) else { return false };
    target.version.as_ref().is_some_and(|version| {
        mod_status(&at.data, &settings, Some(version)).is_in_force_in(ReleaseSupport::of(version), is_command)
    })
}

pub fn hooks(at: &Environment) -> HealthCheck {
    let places = at.settings_paths();
    let readers = Readers::discover(Some(&places.project));
    let (wanted, left_out) = events_for(&readers.clients, &supported_events);
    let found = match status(&places, &SettingsScope::ALL, (&wanted, &left_out), at.path_variable.as_deref()) {
        Ok(found) => found,
        Err(error) => {
            return HealthCheck::new(
                "hooks",
                HealthStatus::Failed,
                error.to_string(),
                Some("`ctxbridge hooks status` says more"),
            );
        }
    };
    let names = |events: &[Event]| events.iter().map(|event| event.name()).collect::<Vec<_>>().join(", ");
    let why = Some("`ctxbridge hooks status` says why");
    if let Some((file, problem)) = found.scopes.iter().find_map(|scope| Some((&scope.file, scope.problem.as_ref()?))) {
        return HealthCheck::new("hooks", HealthStatus::Failed, format!("{}: {problem}", file.display()), why);
    }
    match found.scopes.iter().map(|scope| scope.hooks.len()).sum::<usize>() {
        0 if !found.plugin => HealthCheck::new(
            "hooks",
            HealthStatus::Warning,
            "not wired: nothing is archived",
            Some("`ctxbridge hooks install` wires them"),
        ),
        _ if found.disabled => HealthCheck::new("hooks", HealthStatus::Failed, "wired, but `disableAllHooks` is set", why),
        // Its hooks have the path of the program, which need not be on the PATH.
        0 if found.wired || is_mod_enabled(&places) => HealthCheck::new("hooks", HealthStatus::Ok, "wired by the plugin", None),
        0 => {
            let told = "wired by the plugin, which does not find `ctxbridge` on the PATH";
            HealthCheck::new("hooks", HealthStatus::Failed, told, why)
        }
        wired if found.wired && !wanted.is_empty() && found.twice.is_empty() => {
            HealthCheck::new("hooks", HealthStatus::Ok, format!("{wired} wired"), None)
        }
        _ if !found.twice.is_empty() => {
            HealthCheck::new("hooks", HealthStatus::Warning, format!("wired twice: {}", names(&found.twice)), why)
        }
        _ if !found.missing.is_empty() => {
            HealthCheck::new("hooks", HealthStatus::Failed, format!("not in effect: {}", names(&found.missing)), why)
        }
        _ => HealthCheck::new("hooks", HealthStatus::Failed, "wired, and some cannot run", why),
    }
}

/// `true` if `ctxbridge mod install` has installed the plugin.
fn is_mod_enabled(places: &SettingsPaths) -> bool {
    places.file(SettingsScope::User).is_ok_and(|settings| is_enabled(&settings))
}

/// Checks the archive and its search index.
pub fn archive(data: &Path, config: &Config) -> Vec<HealthCheck> {
    let location = Location::of(data, &config.archive);
    let has_database = location.kind() == StoreKind::Sqlite && data.join(SqliteStore::FILE).exists();
    let mut found = match location.kind() {
        StoreKind::Jsonl => vec![lines(&location)],
        _ if !has_database && location.folder_to_merge().is_some() => vec![lines(&location)],
        _ => database(data),
    };
    if !has_database {
        found.extend(repaired(data));
    }
    if let Some(folder) = location.folder_to_merge() {
        let told = format!("{} has what was archived without the database", folder.display());
        let next = Some("`ctxbridge archive optimize` merges it");
        found.push(HealthCheck::new("jsonl", HealthStatus::Warning, told, next));
    }
    found
}

/// Checks an archive in JSON Lines.
fn lines(location: &Location) -> HealthCheck {
    let read = || -> Result<HealthCheck, StoreError> {
        let Some(mut store) = JsonlStore::open_read_only(location.folder())? else { return Ok(none_yet()) };
        if let Some(finding) = store.integrity_check()?.first() {
            let next = "`ctxbridge archive optimize` says all that is damaged";
            return Ok(HealthCheck::new("archive", HealthStatus::Failed, finding.to_string(), Some(next)));
        }
        let totals = store.totals()?;
        let (turns, sessions) = (count(totals.turns, "turn"), count(totals.sessions, "session"));
        Ok(HealthCheck::new("archive", HealthStatus::Ok, format!("whole, in JSON Lines, with {turns} of {sessions}"), None))
    };
    read().unwrap_or_else(|error| failed(&error))
}

fn none_yet() -> HealthCheck {
    let next = Some("to create one from existing transcripts, run `ctxbridge archive import`");
    HealthCheck::new("archive", HealthStatus::Warning, "no archive yet", next)
}

fn failed(error: &StoreError) -> HealthCheck {
    let next = match error.is_damage() {
        true => "`ctxbridge archive import` also fills the new one",
        false => "close what uses it, and try again",
    };
    HealthCheck::new("archive", HealthStatus::Failed, error.to_string(), Some(next))
}

fn database(data: &Path) -> Vec<HealthCheck> {
    let read = || -> Result<Option<(SqliteStore, SegmentCheckReport, ArchiveTotals)>, StoreError> {
        let Some(store) = SqliteStore::open_read_only(data)? else { return Ok(None) };
        let mut store = store.holding(recovery::lock_in_use(data, LockPolicy::Background)?);
        store.quick_check()?;
        let segments = heal::look_at_segments(&mut store, CheckExtent::Until(Instant::now() + CHECKING))?;
        let totals = store.totals()?;
        Ok(Some((store, segments, totals)))
    };
    match recovery::damaged_pages(data) {
        Ok(0) => {}
        _ if recovery::was_emptied(data) => {
            let next = "`ctxbridge archive import` begins a new one from the transcripts that still exist";
            return vec![HealthCheck::new(
                "archive",
                HealthStatus::Failed,
                "archive.db is empty, and was not before",
                Some(next),
            )];
        }
        Ok(pages) => {
            let told = format!("damaged: {} of archive.db", count(pages as u64, "page"));
            let next = "`ctxbridge archive optimize --verify` mends it";
            return vec![HealthCheck::new("archive", HealthStatus::Failed, told, Some(next))];
        }
        Err(error) => return vec![failed(&error)],
    }
    match read() {
        Ok(None) if recovery::is_gone(data) => {
            let next =
                "put archive.db back; or `ctxbridge archive import` begins a new one from the transcripts that still exist";
            vec![HealthCheck::new("archive", HealthStatus::Failed, "archive.db is gone", Some(next))]
        }
        Ok(None) => vec![none_yet()],
        Ok(Some((mut store, segments, totals))) => {
            let mut found = vec![database_check(&segments, &totals), search(data, &mut store)];
            found.extend(cold(&mut store));
            found.extend(repaired(data));
            found
        }
        Err(error) => vec![failed(&error)],
    }
}

/// Reports damaged segments.
fn database_check(segments: &SegmentCheckReport, totals: &ArchiveTotals) -> HealthCheck {
    let (turns, sessions) = (count(totals.turns, "turn"), count(totals.sessions, "session"));
    let Some(first) = segments.lost.first() else {
        let part =
            if segments.is_partial { " (a part was checked; `ctxbridge archive optimize --verify` checks all)" } else { "" };
        return HealthCheck::new("archive", HealthStatus::Ok, format!("whole, with {turns} of {sessions}{part}"), None);
    };
    let told = format!(
        "{} damaged, the first of session {} from byte {} on",
        count(segments.lost.len() as u64, "piece"),
        first.session,
        first.start
    );
    let next = "`ctxbridge archive optimize --verify` puts back what is still elsewhere, and lists the rest";
    HealthCheck::new("archive", HealthStatus::Failed, told, Some(next))
}

/// Reports that the archive was damaged in the last days, if it was: the disk may be failing.
fn repaired(data: &Path) -> Option<HealthCheck> {
    let since = jiff::Timestamp::now().as_millisecond() - REPAIRS_TOLD_DAYS * DAY_MS;
    let recent: Vec<Repair> =
        recovery::repairs(data).into_iter().filter(|repair| repair.is_of_damage() && repair.at_ms >= since).collect();
    let last = recent.last()?;
    let when = jiff::Timestamp::from_millisecond(last.at_ms).map(|at| at.strftime("%Y-%m-%d").to_string()).unwrap_or_default();
    let lost = match recent.iter().map(|repair| repair.lost_sessions.len()).sum() {
        0 => String::new(),
        1 => "; 1 session was lost".to_owned(),
        lost => format!("; {lost} sessions were lost"),
    };
    let told = format!("the archive was damaged and mended, last on {when}{lost}");
    let next = "check the disk and the memory; `ctxbridge archive import` adds what transcripts still have; repairs.jsonl in the data folder has \
                each repair";
    Some(HealthCheck::new("repairs", HealthStatus::Warning, told, Some(next)))
}

fn search(data: &Path, store: &mut SqliteStore) -> HealthCheck {
    let next = Some("the next `ctxbridge search` makes it");
    if !data.join(index::FILE).exists() {
        return HealthCheck::new("search", HealthStatus::Warning, "there is no index yet", next);
    }
    match Searcher::new(data.to_owned()).backlog(store) {
        Ok(behind) => {
            let mut told = match behind.entries {
                0 => "the index has every entry".to_owned(),
                // Hooks leave that to whoever searches.
                entries => format!("entries that the next search will index: {entries}"),
            };
            if behind.embedded > behind.entries {
                told += &format!("; without vectors so far: {}", behind.embedded - behind.entries);
            }
            HealthCheck::new("search", HealthStatus::Ok, told, None)
        }
        Err(error) => HealthCheck::new(
            "search",
            HealthStatus::Warning,
            error.to_string(),
            Some("the next `ctxbridge search` makes it anew"),
        ),
    }
}

/// Checks that the files of cold sessions exist, if there are any.
fn cold(store: &mut SqliteStore) -> Option<HealthCheck> {
    let files = match store.cold_files() {
        Ok(files) if files.is_empty() => return None,
        Ok(files) => files,
        Err(error) => return Some(HealthCheck::new("cold", HealthStatus::Failed, error.to_string(), None)),
    };
    let is_there = |path: &Path, bytes| fs::metadata(path).is_ok_and(|found| found.is_file() && found.len() == bytes);
    let mut missing = files.iter().filter(|file| !is_there(&file.path(), file.bytes));
    let Some(first) = missing.next() else {
        let told = format!("{} in cold storage, where they should be", count(files.len() as u64, "session"));
        return Some(HealthCheck::new("cold", HealthStatus::Ok, told, None));
    };
    let told = format!(
        "{} of {} in cold storage cannot be read: {} is not there, or has another length",
        1 + missing.count(),
        count(files.len() as u64, "session"),
        first.path().display()
    );
    let next = "mount the folder, or put the files back; where it is another one now, set archive.cold_folder to it and run `ctxbridge archive optimize`";
    Some(HealthCheck::new("cold", HealthStatus::Failed, told, Some(next)))
}

pub fn model(data: &Path) -> HealthCheck {
    let status = install::status(&install::folder_in(data));
    let next = Some("to find more by meaning, run `ctxbridge model install`");
    match status.state {
        install::InstallState::Installed => {
            HealthCheck::new("model", HealthStatus::Ok, format!("{} is whole", status.model), None)
        }
        install::InstallState::Damaged => HealthCheck::new(
            "model",
            HealthStatus::Failed,
            format!("{} is damaged", status.model),
            Some("`ctxbridge model install` replaces it"),
        ),
        install::InstallState::Absent => {
            HealthCheck::new("model", HealthStatus::Warning, "not installed: search finds less by meaning", next)
        }
    }
}
