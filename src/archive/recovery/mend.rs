/*!
Mends a damaged archive while nobody uses it, with as little loss as can be.

Single flipped bits are turned back first, page by page. Pages that another program wrote without checksums are accepted if all of
the archive makes sense with them. Otherwise what can still be read is saved into a new file, page by page, which then takes the
place of the damaged one; that one is kept beside it.
*/

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::repair::{Repair, now_ms};
use super::reread::reread;
use super::{MARKER, beside, with_suffix};
use crate::heal::{self, CheckExtent};
use crate::store::sqlite::session_list::{self, ListedSession};
use crate::store::sqlite::{LockPolicy, SqliteStore};
use crate::store::{MaintenanceStore, StoreError};
use ctxbridge_common::sqlite::{DatabaseLog, page_sum, pages};

/// Mends the archive of a data folder; `None` if it is whole. The caller holds the lock that keeps others out.
///
/// # Errors
/// If it cannot be read, written or moved.
pub(super) fn mend(data: &Path) -> Result<Option<Repair>, StoreError> {
    let path = data.join(SqliteStore::FILE);
    let failed = |cause: io::Error| StoreError::Quarantine { path: path.clone(), cause };
    let mut repair = Repair { at_ms: now_ms(), ..Repair::default() };
    let is_empty = fs::metadata(&path).is_ok_and(|metadata| metadata.is_file() && metadata.len() == 0);
    let mut has_sums = false;
    if !is_empty {
        let lost_frames = if path.is_file() { mend_log(&path, &mut repair).map_err(failed)? } else { 0 };
        let found = if path.is_file() { pages::damaged_pages(&path).map_err(failed)? } else { None };
        has_sums = found.is_some();
        let damaged = found.unwrap_or_default();
        let mut left = pages::correct_pages(&path, &damaged).map_err(failed)?;
        repair.corrected_pages += (damaged.len() - left.len()) as u64;
        if !left.is_empty() && makes_sense(data) {
            let cut_off = pages::reseal_pages(&path, &left).map_err(failed)?;
            repair.resealed_pages = (left.len() - cut_off.len()) as u64;
            left = cut_off;
        }
        repair.lost_pages = (left.len() + lost_frames) as u64;
        match SqliteStore::open(data, LockPolicy::Background).and_then(|mut store| store.integrity_check()) {
            Ok(()) if left.is_empty() && lost_frames == 0 => {
                return Ok((repair.corrected_pages + repair.resealed_pages > 0).then_some(repair));
            }
            Err(error) if !error.is_damage() => return Err(error),
            Ok(()) | Err(_) => {}
        }
    }
    // What cannot be saved is no reason to leave a damaged archive in place: it is kept beside the new one.
    let saved = if is_empty || !path.is_file() { None } else { save(data, &path, has_sums, &mut repair).unwrap_or_default() };
    let (saved, there) = saved.unzip();
    repair.quarantined =
        quarantine(&path, saved.as_ref().map(|folder: &TempDir| folder.path().join(SqliteStore::FILE)).as_deref())
            .map_err(failed)?;
    let there = there.unwrap_or_default();
    repair.lost_sessions = lost_sessions(data, &there);
    if saved.is_some() {
        session_list::write(data, &there).ok();
    } else {
        fs::remove_file(data.join(MARKER)).ok();
    }
    Ok(Some(repair))
}

/// Turns flipped bits of the log back, and returns the number of damaged frames that are left and matter.
fn mend_log(path: &Path, repair: &mut Repair) -> io::Result<usize> {
    let Some(mut log) = DatabaseLog::open(path)? else { return Ok(0) };
    let damaged = log.damaged();
    let left = log.correct()?;
    let is_dropped = left > 0 && log.drop_if_copied(path)?;
    repair.corrected_pages += if is_dropped { damaged } else { damaged - left } as u64;
    Ok(if is_dropped { 0 } else { left })
}

/// Sessions of the list that are not there any more. Those whose transcripts still exist are archived again.
fn lost_sessions(data: &Path, there: &BTreeSet<ListedSession>) -> Vec<ListedSession> {
    let ids: BTreeSet<&str> = there.iter().map(|listed| listed.session.as_str()).collect();
    let is_lost = |listed: &ListedSession| !ids.contains(listed.session.as_str()) && !Path::new(&listed.path).is_file();
    session_list::listed(data).into_iter().filter(is_lost).collect()
}

/// Saves what can be read of a damaged archive into a new one, in a folder of its own; returns also the sessions that it has. `None` if
/// nothing can be read.
fn save(
    data: &Path,
    damaged: &Path,
    has_sums: bool,
    repair: &mut Repair,
) -> Result<Option<(TempDir, BTreeSet<ListedSession>)>, StoreError> {
    let failed = |cause: io::Error| StoreError::File { path: damaged.to_owned(), cause };
    let folder = tempfile::Builder::new().prefix("salvage-").tempdir_in(data).map_err(failed)?;
    let mut store = SqliteStore::open(folder.path(), LockPolicy::Background)?;
    let is_sound = |_: u32, page: &[u8]| !has_sums || page_sum::is_sound(page);
    let report = store.salvage_from(damaged, &is_sound).map_err(|error| failed(io::Error::other(error.to_string())))?;
    let rows = |table: &str| report.rows.get(table).copied().unwrap_or_default();
    if rows("transcripts") == 0 && report.lost_transcripts.is_empty() {
        return Ok(None);
    }
    reread(&mut store, &report)?;
    store.checkpoint()?;
    store.integrity_check()?;
    repair.lost_pages = repair.lost_pages.max(report.bad_pages.len() as u64 + u64::from(report.missing_pages));
    repair.saved_rows = Some(report.rows.values().sum());
    Ok(Some((folder, store.sessions_to_list()?)))
}

/// `true` if the archive is whole but for the checksums of its pages.
fn makes_sense(data: &Path) -> bool {
    let look = || -> Result<bool, StoreError> {
        let mut store = SqliteStore::open_unverified(data)?;
        store.integrity_check()?;
        Ok(store.texts_make_sense()? && heal::look_at_segments(&mut store, CheckExtent::All)?.lost.is_empty())
    };
    look().unwrap_or(false)
}

/// Moves the database and its companions aside, and the one that was saved from it in its place; returns the new path.
fn quarantine(path: &Path, saved: Option<&Path>) -> io::Result<Option<PathBuf>> {
    let Some(aside) = (1_u32..).map(|number| beside(path, number)).find(|aside| !aside.exists()) else { return Ok(None) };
    // The log first: one that lies beside a file that is new is deleted.
    for companion in ["-wal", "-shm"] {
        match fs::rename(with_suffix(path, companion), with_suffix(&aside, companion)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    let Some(saved) = saved else {
        fs::rename(path, &aside)?;
        return Ok(Some(aside));
    };
    // With two names for a moment, there is an archive whenever this is interrupted. Not every file system has that.
    if fs::hard_link(path, &aside).is_err() {
        fs::rename(path, &aside)?;
    }
    fs::rename(saved, path)?;
    Ok(Some(aside))
}
