/*!
Recovery of a damaged archive: it is mended in place, or moved aside and a new one is started with what can be read of it.

Nothing is deleted: transcripts that still exist are archived again, and the damaged file is kept. Every user of
the archive holds a shared lock. The archive is moved only while nobody does: a file and its log that are moved under an open
connection would take those of the new one with them.
*/

mod mend;
mod repair;
mod reread;

pub use crate::store::sqlite::session_list::ListedSession;
pub(crate) use repair::note_corrected_lines;
pub use repair::{Repair, repairs};

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::store::StoreError;
use super::store::sqlite::{LockPolicy, SqliteStore, session_list};
use ctxbridge_common::files;
use ctxbridge_common::sqlite::{DatabaseLog, pages};

/// Lock file: shared by users of the archive, exclusive while it is moved.
const LOCK: &str = "archive.lock";

/// File that says that there is an archive: one of 0 bytes beside it has lost its content.
const MARKER: &str = session_list::FILE;

/// Maximum wait for other users before the archive is moved: longer than a hook takes.
const MOVE_LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// Opens the archive of a data folder. A damaged one is replaced by a new one, and its new path is returned too.
///
/// # Errors
/// If it cannot be opened, or a damaged one cannot be moved.
pub fn open_or_recover(data: &Path, policy: LockPolicy) -> Result<(SqliteStore, Option<PathBuf>), StoreError> {
    match present(data, policy) {
        Err(error) if error.is_damage() => {
            let aside = mend_if_damaged(data)?;
            present(data, policy).map(|store| (store, aside))
        }
        opened => opened.map(|store| (store, None)),
    }
}

/// Mends the archive if it is really damaged and nobody else has mended it; returns the new path of the damaged file, if it could not
/// be mended in place. The caller has closed it.
///
/// # Errors
/// If it cannot be mended or moved, or others do not stop using it.
pub fn mend_if_damaged(data: &Path) -> Result<Option<PathBuf>, StoreError> {
    let _alone = lock(data, File::try_lock, MOVE_LOCK_TIMEOUT)?;
    // Whoever had the lock before may have put a good one in its place.
    let Some(repair) = mend::mend(data)? else { return Ok(None) };
    repair.note(data);
    Ok(repair.quarantined)
}

/// Reads all pages of the archive, and mends it if their checksums do not fit; returns the new path of the damaged file, if it could
/// not be mended in place.
///
/// # Errors
/// If it cannot be read, mended or moved, or others do not stop using it.
pub fn verify_pages(data: &Path) -> Result<Option<PathBuf>, StoreError> {
    if damaged_pages(data)? > 0 { mend_if_damaged(data) } else { Ok(None) }
}

/// Returns the number of pages of the archive whose checksums do not fit, in its file and in its log. A file that was emptied counts as
/// one.
///
/// # Errors
/// If it cannot be read.
pub fn damaged_pages(data: &Path) -> Result<usize, StoreError> {
    let path = data.join(SqliteStore::FILE);
    if was_emptied(data) {
        return Ok(1);
    }
    let in_file = pages::damaged_pages(&path).map(|found| found.unwrap_or_default().len());
    match in_file.and_then(|found| Ok(found + damaged_log_frames(&path)?)) {
        Ok(found) => Ok(found),
        Err(cause) if cause.kind() == io::ErrorKind::NotFound || path.is_dir() => Ok(0),
        Err(cause) => Err(StoreError::File { path, cause }),
    }
}

fn damaged_log_frames(database: &Path) -> io::Result<usize> {
    Ok(DatabaseLog::open(database)?.map_or(0, |log| log.damaged()))
}

/// `true` if there was an archive in this data folder, and there is none.
pub fn is_gone(data: &Path) -> bool {
    !data.join(SqliteStore::FILE).exists() && data.join(MARKER).exists()
}

/// `true` if the archive has 0 bytes, and had more: SQLite would take it for a new one.
pub fn was_emptied(data: &Path) -> bool {
    fs::metadata(data.join(SqliteStore::FILE)).is_ok_and(|metadata| metadata.is_file() && metadata.len() == 0)
        && data.join(MARKER).exists()
}

/// Message for the user about an archive that was moved aside.
pub fn quarantine_message(aside: &Path) -> String {
    format!(
        "the archive was damaged and is now {}; the new one has what could be read of it, and `ctxbridge archive import` adds what \
         transcripts still have",
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
    if was_emptied(data) {
        return Err(StoreError::Damaged { path: data.join(SqliteStore::FILE), cause: "it has 0 bytes".to_owned() });
    }
    let store = SqliteStore::open(data, policy)?;
    let marker = data.join(MARKER);
    if !marker.exists() {
        // Without it, an emptied archive would be taken for a new one, and that is no reason to fail.
        files::private().create_new(true).open(marker).ok();
    }
    Ok(store.holding(presence))
}

/// `None` if no lock is possible: the database reports that problem too.
fn lock(data: &Path, way: fn(&File) -> Result<(), TryLockError>, timeout: Duration) -> Result<Option<File>, StoreError> {
    let Ok(file) = files::open_lock(data.join(LOCK)) else { return Ok(None) };
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
