//! `ctxbridge uninstall`

mod wired;

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};

use serde_json::json;

use super::output::{BAD, BOLD, DIM, GOOD, Output, OutputOptions, count, short, size, styled};
use super::setup::ask;
use super::{CommandOutcome, UsageError, archives, run_typed};
use crate::bundle::PROJECT_DATA_FOLDER;
use crate::hook::settings::editor::{Editor, UninstalledState};
use ctxbridge_archive::store::sqlite::LockPolicy;
use ctxbridge_common::{files, paths};
use ctxbridge_patch::catalog::Catalog;
use ctxbridge_patch::install::{Target, TargetError, discover};
use ctxbridge_patch::patcher::{Patcher, RevertedState};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ctxbridge uninstall                 out of Claude Code; all data stays
  ctxbridge uninstall --dry-run       say what is there
  ctxbridge uninstall --purge         data, cache and settings of ctxbridge as well

Work logs in projects (.ctxbridge) and folders of your own choice (archive.jsonl_folder, archive.cold_folder) are listed and never \
removed. The program itself \
stays; remove it the way you installed it.")]
pub(super) struct UninstallArgs {
    /// Remove the archive, backups, cache and settings of ctxbridge as well
    #[arg(long)]
    purge: bool,
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
    /// Say what is there, and change nothing
    #[arg(long)]
    dry_run: bool,
}

/// A folder of ours.
struct OwnFolder {
    what: &'static str,
    path: PathBuf,
    bytes: u64,
    /// Beginnings of the names of what is ours in it.
    names: &'static [&'static str],
}

/// A folder that stays.
struct KeptFolder {
    what: &'static str,
    path: PathBuf,
    bytes: u64,
}

/// Beginnings of the names of our files and folders in the data folder.
const DATA_NAMES: &[&str] = &[
    "archive.",
    "archive-jsonl",
    "autopilot",
    "backups",
    "bin",
    "brought",
    "dashboard.html",
    "damaged",
    "forgotten",
    "hooks",
    "locks",
    "logs",
    "lock",
    "metrics",
    "mod",
    "model-windows",
    "models",
    "owed",
    "patch-keep",
    "projects",
    "recalled",
    "repairs.jsonl",
    "savings.json",
    "search.",
    "spool",
    "state.db",
    "sync",
    "tiers",
    "told",
    "trouble.json",
    "withheld",
];
/// The same in the cache folder: releases, and what the tests of ctxbridge fetch.
const CACHE_NAMES: &[&str] = &["releases", "postgres", "models"];
/// The same in the folder of settings.
const CONFIG_NAMES: &[&str] = &["config.toml", "learnings.toml"];

/// A step of the uninstall with its result.
struct Removed {
    name: String,
    result: Result<bool, String>,
}

impl UninstallArgs {
    pub fn run(&self, output: &mut Output) -> anyhow::Result<CommandOutcome> {
        output.reports();
        output.progress("looking at what is there");
        let folders = own_folders();
        let kept = kept_folders();
        let wired = wired::wired(output);
        output.clear_progress();
        if !self.yes && !self.dry_run {
            if output.json || !io::stdin().is_terminal() {
                let told = "uninstall asks, and nobody can answer here; --yes does it, --dry-run only says what is there";
                return Err(UsageError(told.to_owned()).into());
            }
            let question = if self.purge {
                "Take ctxbridge out of Claude Code, and remove all its data?"
            } else {
                "Take ctxbridge out of Claude Code? Data stays"
            };
            tell_wired(&wired, output)?;
            tell_folders(&folders, &kept, self.purge, output)?;
            // Who presses Enter without reading loses nothing.
            if !ask(question, !self.purge)? {
                output.prose(2, "Nothing was changed.")?;
                return Ok(CommandOutcome::No);
            }
        } else if !output.json {
            if self.dry_run {
                tell_wired(&wired, output)?;
            }
            tell_folders(&folders, &kept, self.purge, output)?;
        }
        let mut removed = Vec::new();
        if !self.dry_run {
            // The patch first, since its backup is in our data; then the settings, the newest change first.
            let failed = |error: anyhow::Error| vec![Removed { name: "patches".to_owned(), result: Err(error.to_string()) }];
            removed.extend(revert_all(output).unwrap_or_else(failed));
            for (name, command) in [
                ("status line", &["statusline", "uninstall"][..]),
                ("hooks", &["hooks", "uninstall"]),
                ("hooks of the project", &["hooks", "uninstall", "--scope", "project"]),
                ("your hooks of the project", &["hooks", "uninstall", "--scope", "local"]),
                ("plugin", &["mod", "uninstall"]),
            ] {
                removed.push(take_out(name, command));
            }
            removed.extend(hooks_of_other_projects(output)?);
        }
        let is_clean = removed.iter().all(|one| one.result.is_ok());
        // What is needed to put a client back is not removed while one still wants it.
        let purges = self.purge && !self.dry_run && is_clean;
        // Looked for once more: the steps may have left something in a folder that was not there.
        let to_remove = if purges { own_folders() } else { Vec::new() };
        let gone: Vec<Removed> = to_remove
            .iter()
            .map(|folder| Removed { name: short(&folder.path), result: remove_own(folder).map(|()| true) })
            .collect();
        if output.json {
            let steps = removed.iter().chain(&gone).map(|one| {
                json!({ "what": one.name, "removed": one.result.as_ref().is_ok_and(|was| *was), "error": one.result.as_ref().err() })
            });
            output.value(&json!({
                "dry_run": self.dry_run, "wired": wired, "steps": steps.collect::<Vec<_>>(),
                "folders": folders.iter().map(|folder| json!({ "what": folder.what, "path": folder.path, "bytes": folder.bytes })).collect::<Vec<_>>(),
                "kept": kept.iter().map(|folder| json!({ "what": folder.what, "path": folder.path, "bytes": folder.bytes })).collect::<Vec<_>>(),
            }))?;
        } else {
            for one in removed.iter().chain(&gone) {
                let (mark, said) = match &one.result {
                    Ok(true) => (styled(GOOD, "✓"), "removed".to_owned()),
                    Ok(false) => (styled(DIM, "–"), styled(DIM, "was not there")),
                    Err(error) => (styled(BAD, "✗"), error.clone()),
                };
                output.prose(2, format!("{mark} {}: {said}", one.name))?;
            }
            if self.dry_run {
                output.prose(2, "Nothing was changed.")?;
            } else if !self.purge && !folders.is_empty() {
                output.prose(2, styled(DIM, "The data stays. `ctxbridge uninstall --purge` removes it."))?;
            }
        }
        let failed = removed.iter().chain(&gone).filter(|one| one.result.is_err()).count();
        if failed > 0 {
            let kept = if self.purge && !is_clean { "; the data stays, since backups may be needed" } else { "" };
            anyhow::bail!("{} failed{kept}", count(failed as u64, "step"));
        }
        Ok(CommandOutcome::Yes)
    }
}

/// Puts every client back that is patched.
fn revert_all(output: &Output) -> anyhow::Result<Vec<Removed>> {
    let Some(mut clients) = wired::patched_clients(output)? else { return Ok(Vec::new()) };
    let data = paths::data_path()?;
    let notice = |text: &str| output.note(text);
    let catalog = Catalog::embedded()?;
    let patcher = Patcher::new(&data, catalog, &notice);
    // Besides those that are known to be patched, those at the usual places, should the journal have been lost.
    let found = discover(std::env::current_dir().ok().as_deref());
    clients.extend(found.into_iter().filter_map(|found| Some(found.client.ok()?.path)));
    let mut seen = BTreeSet::new();
    clients.retain(|path| seen.insert(paths::real(path).unwrap_or_else(|_| path.clone())));
    let mut removed = Vec::new();
    for path in clients {
        output.progress(&format!("looking at {}", short(&path)));
        let reverted = Target::at(&path).map_err(|error| error.to_string());
        let reverted = reverted.and_then(|target| patcher.revert(&target, false).map_err(|error| error.to_string()));
        let result = reverted.map(|reverted| reverted.state == RevertedState::Reverted);
        removed.push(Removed { name: format!("patch of {}", short(&path)), result });
    }
    output.clear_progress();
    Ok(removed)
}

/// Takes hooks out of the settings of projects that are not the current one.
fn hooks_of_other_projects(output: &Output) -> anyhow::Result<Vec<Removed>> {
    let data = paths::data_path()?;
    let notice = |text: &str| output.note(text);
    let editor = Editor::new(&data, &notice);
    // Those of before are done, and have no record any more.
    let removed = wired::edited_files(&editor).map(|file| {
        let uninstalled = editor.uninstall(&file).map_err(|error| error.to_string());
        let result = uninstalled.map(|uninstalled| uninstalled.state != UninstalledState::NotInstalled);
        Removed { name: format!("hooks in {}", short(&file)), result }
    });
    Ok(removed.collect())
}

/// Runs a command that takes something out.
fn take_out(name: &str, command: &[&str]) -> Removed {
    let mut quiet = Output::new(OutputOptions { json: false, quiet: true, verbose: false, may_page: false });
    quiet.reports();
    let result = match run_typed(command, &mut quiet) {
        Ok(outcome) => Ok(outcome == CommandOutcome::Yes),
        // Without a client there is no plugin in one.
        Err(error) if matches!(error.downcast_ref(), Some(TargetError::NotOnPath)) => Ok(false),
        Err(error) => Err(format!("{error:#}")),
    };
    Removed { name: name.to_owned(), result }
}

/// Our folders that exist.
fn own_folders() -> Vec<OwnFolder> {
    let all = [
        ("archive, backups and logs", paths::data_path().ok(), DATA_NAMES),
        ("cache: releases for the demo and tests", paths::cache_path().ok(), CACHE_NAMES),
        ("settings", paths::config_dir(), CONFIG_NAMES),
    ];
    // A link would be removed in place of what it leads to.
    let real = |path: Option<PathBuf>| paths::real(&path?).ok().filter(|path| path.is_dir());
    let existing = all.into_iter().filter_map(|(what, path, names)| Some((what, real(path)?, names)));
    existing.map(|(what, path, names)| OwnFolder { what, bytes: bytes_below(&path), path, names }).collect()
}

/// Pauses between attempts: what works in the background, as after an import, may write meanwhile.
const REMOVAL_PAUSES_MS: [u64; 5] = [50, 150, 500, 1_000, 2_000];

/// Removes what is ours in a folder, and the folder if nothing else is in it: a variable may have named any folder.
fn remove_own(folder: &OwnFolder) -> Result<(), String> {
    let is_written_to = |error: &io::Error| error.kind() == io::ErrorKind::DirectoryNotEmpty;
    let removed = files::retried(&REMOVAL_PAUSES_MS, || try_remove_own(folder), is_written_to);
    let mut others = removed.map_err(|error| error.to_string())?;
    if others.is_empty() {
        return Ok(());
    }
    others.sort();
    others.truncate(3);
    Err(format!("other files are in it and stay: {}", others.join(", ")))
}

/// Returns names of files that are not ours.
fn try_remove_own(folder: &OwnFolder) -> io::Result<Vec<String>> {
    let mut others = Vec::new();
    for entry in fs::read_dir(&folder.path)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if !folder.names.iter().any(|own| name.starts_with(own)) {
            others.push(name);
            continue;
        }
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let removed = if is_folder { fs::remove_dir_all(entry.path()) } else { fs::remove_file(entry.path()) };
        files::gone(removed).map_err(|error| io::Error::new(error.kind(), format!("{name}: {error}")))?;
    }
    if others.is_empty() {
        files::gone(fs::remove_dir(&folder.path))?;
    }
    Ok(others)
}

/// Folders with data that is never removed: those that the user chose, and the work logs of projects.
fn kept_folders() -> Vec<KeptFolder> {
    let kept = |what: &'static str, path: PathBuf| KeptFolder { what, bytes: bytes_below(&path), path };
    let settings = archives::settings();
    let chosen = [
        ("your archive.jsonl_folder", settings.archive.jsonl_folder),
        ("your archive.cold_folder", settings.archive.cold_folder),
    ];
    let chosen = chosen.into_iter().filter_map(|(what, path)| Some((what, path?))).filter(|(_, path)| path.is_dir());
    let logs = work_logs().into_iter().map(|log| ("work log of the project", log));
    chosen.chain(logs).map(|(what, path)| kept(what, path)).collect()
}

/// Work logs in the projects that the archive knows.
fn work_logs() -> Vec<PathBuf> {
    let Ok(location) = archives::location(&archives::settings()) else { return Vec::new() };
    let Ok(Some(mut store)) = location.open_without_repair(LockPolicy::Interactive) else { return Vec::new() };
    let sessions = store.sessions("", None, usize::MAX).unwrap_or_default();
    let mut folders: Vec<PathBuf> = sessions.into_iter().filter_map(|session| session.folder).map(PathBuf::from).collect();
    folders.extend(std::env::current_dir().ok());
    folders.sort();
    folders.dedup();
    folders.into_iter().map(|folder| folder.join(PROJECT_DATA_FOLDER)).filter(|log| log.is_dir()).collect()
}

/// Bytes of all files below a folder. Links are not followed.
fn bytes_below(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| Some((entry.path(), entry.metadata().ok()?)))
        .map(|(path, metadata)| if metadata.is_dir() { bytes_below(&path) } else { metadata.len() })
        .sum()
}

fn tell_wired(wired: &[String], output: &mut Output) -> anyhow::Result<()> {
    if wired.is_empty() {
        output.prose(2, styled(DIM, "Nothing of ctxbridge is in Claude Code."))?;
    } else {
        output.prose(2, styled(BOLD, "To be taken out of Claude Code:"))?;
    }
    wired.iter().try_for_each(|name| output.prose(2, format!("  {name}")).map_err(Into::into))
}

fn tell_folders(folders: &[OwnFolder], kept: &[KeptFolder], purge: bool, output: &mut Output) -> anyhow::Result<()> {
    let row = |bytes: u64, path: &Path, what: &str| {
        format!("{:>10}  {}  {}", size(bytes.cast_signed()), short(path), styled(DIM, what))
    };
    if !folders.is_empty() {
        output.prose(2, styled(BOLD, if purge { "To be removed:" } else { "Stays:" }))?;
    }
    for folder in folders {
        output.prose(2, row(folder.bytes, &folder.path, folder.what))?;
    }
    if !kept.is_empty() {
        output.prose(2, styled(BOLD, "Stays in any case:"))?;
    }
    for folder in kept {
        output.prose(2, row(folder.bytes, &folder.path, folder.what))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn a_folder_that_is_written_to_meanwhile_goes() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("data");
        let archive = path.join("archive");
        fs::create_dir_all(&archive).unwrap();
        for number in 0..200 {
            fs::write(archive.join(number.to_string()), "").unwrap();
        }
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let begin = Instant::now();
                while begin.elapsed() < Duration::from_millis(150) {
                    // Where the folder is gone, nothing is written any more.
                    for number in 0..50 {
                        _ = fs::write(archive.join(format!("more-{number}")), "");
                    }
                }
            });
            remove_own(&OwnFolder { what: "", path: path.clone(), bytes: 0, names: &["archive"] }).unwrap();
        });
        assert!(!path.exists());
    }
}
