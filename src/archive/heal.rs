/*!
A damaged archive is moved aside and a new one begun.

Nothing of it is deleted: transcripts that still exist are archived again, and what only the damaged file had may be saved from it.
Whoever uses the archive shows presence by a shared lock; it is moved while nobody does, since a file and its log that are moved under
an open connection would take those of the new one with them.
*/

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::cycle::{self, Outcome, Run, Settings};
use super::store::jsonl::{Finding, JsonlStore};
use super::store::sqlite::{Patience, SqliteStore};
use super::store::{Store, StoreError};
use ctxbridge_common::files;

/// The lock: shared by those who use the archive, held alone by the one who moves it.
const LOCK: &str = "archive.lock";

/// How long a healer waits for the others to be done: longer than a hook takes.
const HEALERS_PATIENCE: Duration = Duration::from_secs(5);

/// Opens the archive of a data folder, anew where it is damaged; then also says where the damaged one is.
///
/// # Errors
/// When it cannot be opened, or a damaged one cannot be moved.
pub fn open(data: &Path, patience: Patience) -> Result<(SqliteStore, Option<PathBuf>), StoreError> {
    match present(data, patience) {
        Err(error) if error.is_damage() => {
            let aside = move_aside(data)?;
            present(data, patience).map(|store| (store, aside))
        }
        opened => opened.map(|store| (store, None)),
    }
}

/// Moves the archive aside if it is damaged indeed and nobody else has done so; says where to. The caller has closed it.
///
/// # Errors
/// When it cannot be moved, or others do not stop using it.
pub fn move_aside(data: &Path) -> Result<Option<PathBuf>, StoreError> {
    let path = data.join(SqliteStore::FILE);
    let failed = |cause: io::Error| StoreError::Aside { path: path.clone(), cause };
    let _alone = lock(data, File::try_lock, HEALERS_PATIENCE)?;
    // Whoever had the lock before may have put a good one in its place.
    match SqliteStore::open(data, Patience::Patient).and_then(|mut store| store.look_through()) {
        Ok(()) => return Ok(None),
        Err(error) if !error.is_damage() => return Err(error),
        Err(_) => {}
    }
    let Some(aside) = (1_u32..).map(|number| beside(&path, number)).find(|aside| !aside.exists()) else { return Ok(None) };
    // The log first: one that lies beside a file that is new is deleted.
    for companion in ["-wal", "-shm"] {
        match fs::rename(with_suffix(&path, companion), with_suffix(&aside, companion)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
    }
    fs::rename(&path, &aside).map_err(failed)?;
    Ok(Some(aside))
}

/// What people are told of an archive that was moved aside.
pub fn told(aside: &Path) -> String {
    format!(
        "the archive was damaged and is now {}; `ctxbridge archive import` fills the new one from the transcripts that still exist",
        aside.display()
    )
}

/// What tidying came to.
#[derive(Clone, Debug, Default)]
pub struct Tidied {
    /// The optimise cycle; none in an archive that is damaged or not there.
    pub outcome: Option<Outcome>,
    /// Where a damaged archive is now.
    pub damaged: Option<PathBuf>,
    /// What is damaged in one in JSON Lines, which goes on without it.
    pub findings: Vec<Finding>,
}

/// Looks for damage, runs an optimise cycle and tidies up.
///
/// # Errors
/// When it cannot be opened or written, or a damaged one cannot be moved.
pub fn tidy(data: &Path, settings: &Settings, now_ms: i64) -> Result<Tidied, StoreError> {
    let (mut store, aside) = open(data, Patience::Patient)?;
    let mut work = || {
        store.look_through()?;
        let outcome = cycle::run(&mut store, settings, Run::Real, now_ms)?;
        store.optimise().map(|()| outcome)
    };
    match work() {
        Err(error) if error.is_damage() => {
            drop(store);
            move_aside(data).map(|damaged| Tidied { damaged, ..Tidied::default() })
        }
        done => done.map(|outcome| Tidied { outcome: Some(outcome), damaged: aside, ..Tidied::default() }),
    }
}

/// What [`tidy`] would do. Nothing is written; a damaged archive stays where it is.
///
/// # Errors
/// When it cannot be opened or read.
pub fn preview(data: &Path, settings: &Settings, now_ms: i64) -> Result<Tidied, StoreError> {
    let path = data.join(SqliteStore::FILE);
    if !path.exists() {
        return Ok(Tidied::default());
    }
    let _presence = presence(data, Patience::Patient)?;
    let work = || {
        let Some(mut store) = SqliteStore::open_read_only(data)? else { return Ok(None) };
        store.look_through()?;
        cycle::run(&mut store, settings, Run::Dry, now_ms).map(Some)
    };
    match work() {
        Err(error) if error.is_damage() => Ok(Tidied { damaged: Some(path), ..Tidied::default() }),
        done => done.map(|outcome| Tidied { outcome, ..Tidied::default() }),
    }
}

/// The same for an archive in JSON Lines.
///
/// # Errors
/// As [`tidy`].
pub fn tidy_lines(folder: &Path, settings: &Settings, now_ms: i64) -> Result<Tidied, StoreError> {
    let work = || {
        let mut store = JsonlStore::open(folder, Patience::Patient)?;
        let findings = store.look_through()?;
        let outcome = cycle::run(&mut store, settings, Run::Real, now_ms)?;
        store.optimise().map(|()| Tidied { outcome: Some(outcome), damaged: None, findings })
    };
    match work() {
        Err(error) if error.is_damage() => {
            let damaged = JsonlStore::move_damaged_aside(folder)?;
            Ok(Tidied { outcome: None, damaged, findings: Vec::new() })
        }
        done => done,
    }
}

/// What [`tidy_lines`] would do.
///
/// # Errors
/// As [`preview`].
pub fn preview_lines(folder: &Path, settings: &Settings, now_ms: i64) -> Result<Tidied, StoreError> {
    let work = || -> Result<Tidied, StoreError> {
        let Some(mut store) = JsonlStore::open_read_only(folder)? else { return Ok(Tidied::default()) };
        let findings = store.look_through()?;
        let outcome = cycle::run(&mut store, settings, Run::Dry, now_ms)?;
        Ok(Tidied { outcome: Some(outcome), damaged: None, findings })
    };
    match work() {
        Err(error) if error.is_damage() => Ok(Tidied { damaged: Some(folder.to_owned()), ..Tidied::default() }),
        done => done,
    }
}

/// Shows that the archive is in use, until what is handed over is dropped: it stays where it is.
///
/// # Errors
/// When it is being moved.
pub fn presence(data: &Path, patience: Patience) -> Result<Option<File>, StoreError> {
    lock(data, File::try_lock_shared, patience.of_a_lock())
}

fn present(data: &Path, patience: Patience) -> Result<SqliteStore, StoreError> {
    let presence = presence(data, patience)?;
    Ok(SqliteStore::open(data, patience)?.holding(presence))
}

/// Nothing where there can be no lock: what is wrong then, the database says as well.
fn lock(data: &Path, way: fn(&File) -> Result<(), TryLockError>, patience: Duration) -> Result<Option<File>, StoreError> {
    let Ok(file) = files::private().create(true).append(true).open(data.join(LOCK)) else { return Ok(None) };
    match files::lock_within(&file, way, patience) {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Err(StoreError::Busy { path: data.join(SqliteStore::FILE) }),
        // Some network drives have none.
        Err(TryLockError::Error(_)) => Ok(None),
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn beside(path: &Path, number: u32) -> PathBuf {
    path.with_file_name(format!("{}.damaged-{number}", SqliteStore::FILE))
}
