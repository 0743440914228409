/*!
Forgets what a plan says, of which there are tombstones by now, so that nothing comes back: first the archive, then the search index.

In the database, sessions are removed and copied anew without what goes, in one transaction. A folder of JSON Lines is copied without
it, and replaced. Interrupted anywhere, the archive is as before or done, and the same command does the rest: a file says that there is
some, for what is left in free pages belongs to no session any more.
*/

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::plan::{ForgetPlan, all_turns};
use super::tombstones::Tombstones;
use crate::annotations::SessionAnnotations;
use crate::copy::{CopyReport, SessionCopy};
use crate::ingest::NO_FOLLOW_UP;
use crate::open::Location;
use crate::recovery;
use crate::search::{SearchError, Searcher};
use crate::store::jsonl::{DAMAGED, JsonlStore, MERGED};
use crate::store::sqlite::{LockPolicy, RemovedRows, SqliteStore};
use crate::store::{FolderStore, Session, SessionReader, Store, StoreError};
use ctxbridge_common::files;

/// Time that another process may go on using the archive or its index before it is given up to overwrite what is left in free pages.
const OTHERS_END_TIMEOUT: Duration = Duration::from_secs(20);
/// File in the data folder while something is being forgotten.
const UNFINISHED_FILE: &str = "forgotten.unfinished";

const PAUSE: Duration = Duration::from_millis(200);

/// Result of forgetting.
#[derive(Debug, Default)]
pub struct ForgetReport {
    /// Damaged, merged or replaced archives that were set aside, and are gone.
    pub removed: Vec<PathBuf>,
    /// Files that could not be removed, or that still have what was removed in their free pages, with the reason.
    pub left: Vec<(PathBuf, String)>,
}

/// Forgets what a plan says. `progress` receives the steps.
///
/// # Errors
/// If the archive cannot be read or written. What it has is then as before, and nothing of it is archived anew.
pub fn forget(
    location: &Location,
    plan: &ForgetPlan,
    now_ms: i64,
    progress: &mut dyn FnMut(&str),
) -> Result<ForgetReport, StoreError> {
    let data = location.data();
    let mark = data.join(UNFINISHED_FILE);
    let unfinished = files::read(&mark).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let mut cold_files: Vec<PathBuf> = unfinished.unwrap_or_default();
    write_mark(&mark, &cold_files)?;
    let mut report = ForgetReport::default();
    // Of interrupted runs, not of one that is at work.
    let replaced = JsonlStore::replaced_beside(location.folder());
    if JsonlStore::is_in(location.folder()) {
        progress("copying the archive without it");
        in_folder(location, plan, now_ms)?;
    }
    if data.join(SqliteStore::FILE).exists() {
        progress("removing it from the archive");
        let (store, _) = recovery::open_or_recover(data, LockPolicy::Background)?;
        let mut store = store.keeping_private(location.keeps_private());
        in_database(&mut store, location, plan, now_ms, (&mark, &mut cold_files))?;
        // Of those of an interrupted run, some may be needed still.
        let needed = store.cold_paths()?;
        for file in cold_files.into_iter().filter(|file| !needed.contains(file)) {
            if let Err(error) = files::gone(fs::remove_file(&file)) {
                report.left.push((file, error.to_string()));
            }
        }
        store.renew_session_list()?;
        progress("removing it from the search index");
        in_index(data, &mut store, &mut report);
        progress("overwriting what is left of it");
        if let Err(error) = patiently(&mut || store.scrub(), StoreError::is_busy) {
            report.left.push((data.join(SqliteStore::FILE), error.to_string()));
        }
    }
    // Whoever only finishes what was interrupted did not ask for more than what this left.
    let aside = if plan.is_empty() { Vec::new() } else { set_aside(location) };
    for aside in replaced.into_iter().chain(aside) {
        let removed = if aside.is_dir() { fs::remove_dir_all(&aside) } else { fs::remove_file(&aside) };
        match removed {
            Ok(()) => report.removed.push(aside),
            Err(error) => report.left.push((aside, error.to_string())),
        }
    }
    if report.left.is_empty() {
        fs::remove_file(&mark).map_err(|cause| StoreError::File { path: mark, cause })?;
    }
    Ok(report)
}

/// `true` if something was forgotten, and files may still have what is left of it: [`forget`] with an empty plan overwrites that.
pub fn is_unfinished(data: &Path) -> bool {
    data.join(UNFINISHED_FILE).exists()
}

/// Archives that were set aside, damaged or merged: nobody can forget a part of them.
pub fn set_aside(location: &Location) -> Vec<PathBuf> {
    let places = [location.data().join(SqliteStore::FILE), location.folder().to_owned()];
    let mut found: Vec<PathBuf> =
        places.iter().flat_map(|place| [DAMAGED, MERGED].map(|why| JsonlStore::set_aside(place, why))).flatten().collect();
    found.sort_unstable();
    found
}

fn in_database(
    store: &mut SqliteStore,
    location: &Location,
    plan: &ForgetPlan,
    now_ms: i64,
    (mark, cold_files): (&Path, &mut Vec<PathBuf>),
) -> Result<(), StoreError> {
    // It goes on reading what was there when the transaction began.
    let Some(mut before) = SqliteStore::open_read_only(location.data())? else { return Ok(()) };
    store.atomically(|store| {
        let mut removed = RemovedRows::default();
        for (id, part) in &plan.parts {
            store.remove_session(id, &mut removed)?;
            if !part.is_whole {
                copy(&mut before, store, &part.session, plan, now_ms)?;
            }
        }
        store.remove_orphans(&removed)?;
        cold_files.append(&mut removed.cold_files);
        // Afterwards nobody knows of them.
        write_mark(mark, cold_files)?;
        Tombstones::touch(location.data())
    })?;
    Tombstones::touch(location.data())
}

/// Notes what is to be removed once the archive does not need it any more.
fn write_mark(mark: &Path, cold_files: &[PathBuf]) -> Result<(), StoreError> {
    let bytes = serde_json::to_vec(cold_files).unwrap_or_default();
    files::replace(mark, &bytes).map_err(|cause| StoreError::File { path: mark.to_owned(), cause })
}

/// Copies a session, without what goes, from one archive to another.
fn copy(from: &mut dyn Store, to: &mut dyn Store, session: &Session, plan: &ForgetPlan, now_ms: i64) -> Result<(), StoreError> {
    let Some(session) = from.session(&session.session)? else { return Ok(()) };
    let mut facts = SessionAnnotations::of(from, &session, None, &mut Default::default())?;
    facts.retain_summaries(|text| !plan.covers(&session.session, text));
    facts.lower_turns(|at_ms| plan.turns_before(&session.session, at_ms));
    SessionCopy { from, to: &mut *to, after: NO_FOLLOW_UP, now_ms, report: CopyReport::default() }.session(&session, &facts)?;
    // A short turn is found by the words of the one before it, too.
    if let Some(copied) = to.session(&session.session)? {
        let entries: Vec<i64> = all_turns(to, copied.key)?.iter().map(|turn| turn.entry).collect();
        to.reindex(&entries)?;
    }
    Ok(())
}

fn in_folder(location: &Location, plan: &ForgetPlan, now_ms: i64) -> Result<(), StoreError> {
    let replacement = JsonlStore::begin_replacement(location.folder())?;
    let mut from = JsonlStore::open(location.folder(), LockPolicy::Background)?.noting_repairs(location.data());
    let to = JsonlStore::open(&replacement.path, LockPolicy::Background)?.noting_repairs(location.data());
    let mut to = to.keeping_private(location.keeps_private());
    from.folder_facts()?.iter().try_for_each(|facts| to.note_folder(facts))?;
    for session in from.sessions("", None, usize::MAX)? {
        if !plan.parts.get(&session.session).is_some_and(|part| part.is_whole) {
            copy(&mut from, &mut to, &session, plan, now_ms)?;
        }
    }
    to.add_usage_of(&mut from)?;
    drop((from, to));
    replacement.finish()
}

/// Removes it from the index, which otherwise learns of it by the next search.
fn in_index(data: &Path, store: &mut SqliteStore, report: &mut ForgetReport) {
    let work = &mut || Searcher::new(data.to_owned()).forget(store);
    if let Err(error) = patiently(work, |error| matches!(error, SearchError::Busy { .. })) {
        report.left.push((data.join(crate::search::INDEX_FILE), error.to_string()));
    }
}

/// Tries again while others are in the way, for a while.
fn patiently<E>(work: &mut dyn FnMut() -> Result<(), E>, is_busy: impl Fn(&E) -> bool) -> Result<(), E> {
    let begun = Instant::now();
    loop {
        match work() {
            Err(error) if is_busy(&error) && begun.elapsed() < OTHERS_END_TIMEOUT => std::thread::sleep(PAUSE),
            done => return done,
        }
    }
}
