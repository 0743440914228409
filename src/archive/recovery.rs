/*!
Recovery of a damaged archive: it is moved aside and a new one is started.

Nothing is deleted: transcripts that still exist are archived again, and the rest may be saved from the damaged file. Every user of
the archive holds a shared lock. The archive is moved only while nobody does: a file and its log that are moved under an open
connection would take those of the new one with them.
*/

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::store::StoreError;
use super::store::sqlite::{LockPolicy, SqliteStore};
use ctxbridge_common::files;

/// Lock file: shared by users of the archive, exclusive while it is moved.
const LOCK: &str = "archive.lock";

/// Maximum wait for other users before the archive is moved: longer than a hook takes.
const MOVE_LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// Opens the archive of a data folder. A damaged one is replaced by a new one, and its new path is returned too.
///
/// # Errors
/// If it cannot be opened, or a damaged one cannot be moved.
pub fn open_or_recover(data: &Path, policy: LockPolicy) -> Result<(SqliteStore, Option<PathBuf>), StoreError> {
    match present(data, policy) {
        Err(error) if error.is_damage() => {
            let aside = quarantine_if_damaged(data)?;
            present(data, policy).map(|store| (store, aside))
        }
        opened => opened.map(|store| (store, None)),
    }
}

/// Moves the archive aside if it is really damaged and nobody else has moved it; returns its new path. The caller has closed it.
///
/// # Errors
/// If it cannot be moved, or others do not stop using it.
pub fn quarantine_if_damaged(data: &Path) -> Result<Option<PathBuf>, StoreError> {
    let path = data.join(SqliteStore::FILE);
    let failed = |cause: io::Error| StoreError::Quarantine { path: path.clone(), cause };
    let _alone = lock(data, File::try_lock, MOVE_LOCK_TIMEOUT)?;
    // Whoever had the lock before may have put a good one in its place.
    match SqliteStore::open(data, LockPolicy::Background).and_then(|mut store| store.integrity_check()) {
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

/// Message for the user about an archive that was moved aside.
pub fn quarantine_message(aside: &Path) -> String {
    format!(
        "the archive was damaged and is now {}; `ctxbridge archive import` fills the new one from the transcripts that still exist",
        aside.display()
    )
}

/// Takes the shared lock that marks the archive as in use. It is not moved until the returned file is dropped.
///
/// # Errors
/// If it is being moved.
pub fn lock_in_use(data: &Path, policy: LockPolicy) -> Result<Option<File>, StoreError> {
    lock(data, File::try_lock_shared, policy.lock_timeout())
}

fn present(data: &Path, policy: LockPolicy) -> Result<SqliteStore, StoreError> {
    let presence = lock_in_use(data, policy)?;
    Ok(SqliteStore::open(data, policy)?.holding(presence))
}

/// `None` if no lock is possible: the database reports that problem too.
fn lock(data: &Path, way: fn(&File) -> Result<(), TryLockError>, timeout: Duration) -> Result<Option<File>, StoreError> {
    let Ok(file) = files::private().create(true).append(true).open(data.join(LOCK)) else { return Ok(None) };
    match files::lock_within(&file, way, timeout) {
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
