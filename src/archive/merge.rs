/*!
Merges an archive in JSON Lines, written while there could be no database, back into the database.

Sessions are copied through the ordinary reader, and so a merge can be interrupted anywhere and run again without duplicates, even of
bytes that the database has by now because a hook archived the transcript again from its start. Then come the records of hooks and of
the user. While nobody writes to the folder, the use counts of entries are added. At last the folder is moved aside, if nobody has added to
it; otherwise there is another round.
*/

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::annotations::SessionAnnotations;
use super::copy::{CopyReport, SessionCopy};
use super::ingest::AfterPass;
use super::maintenance::CONFIDENCE_TOLERANCE;
use super::open::{Location, has_no_database};
use super::store::jsonl::JsonlStore;
use super::store::sqlite::{LockPolicy, SqliteStore};
use super::store::{FolderStore, ImportedUsage, StoreError};
use super::{INITIAL_CONFIDENCE, recovery};
use crate::store::{MaintenanceStore, SessionReader, UsageWriter};
use ctxbridge_common::files;

/// Lock file in the data folder: held by the merging process.
const LOCK: &str = "merge.lock";

/// Maximum wait for another merge: it ends in a moment, or takes long.
const MERGE_LOCK_TIMEOUT: Duration = Duration::from_millis(200);

/// Maximum number of rounds if others write meanwhile. The next run continues.
const MAX_MERGE_ROUNDS: u32 = 8;

/// Result of a merge.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MergeReport {
    /// Sessions in the folder.
    pub sessions: usize,
    /// Bytes of transcripts that are new in the database.
    pub bytes: u64,
    /// Turns that are new there or have grown.
    pub turns: u64,
    /// Sessions that could not be merged because their bytes cannot be read, with the reason.
    pub failed: Vec<(String, String)>,
    /// New path of the folder; `None` if it has to stay for the next run.
    pub moved_to: Option<PathBuf>,
}

/// Merges the folder, if there is one, a database is possible again, and no other process is merging. `after` is called after each
/// transcript.
///
/// # Errors
/// If one of both cannot be read or written. Earlier results stay, and the next run continues.
pub fn merge(
    location: &Location,
    deadline: Option<Instant>,
    now_ms: i64,
    after: AfterPass<'_>,
) -> Result<Option<MergeReport>, StoreError> {
    let Some(folder) = location.folder_to_merge() else { return Ok(None) };
    let mut to = match recovery::open_or_recover(location.data(), LockPolicy::Background) {
        Ok((to, _)) => to.keeping_private(location.keeps_private()),
        Err(error) if has_no_database(&error) => return Ok(None),
        Err(error) => return Err(error),
    };
    let Some(_alone) = lock(location.data())? else { return Ok(None) };
    if !JsonlStore::is_in(folder) {
        // Who had the lock before has done it.
        return Ok(None);
    }
    let mut from = JsonlStore::open(folder, LockPolicy::Background)?.noting_repairs(location.data());
    let mut merged = MergeReport::default();
    for _ in 0..MAX_MERGE_ROUNDS {
        let mark = from.read_position()?;
        let Some(failed) = round(&mut from, &mut to, &mut merged, deadline, now_ms, after)? else { break };
        merged.failed = failed;
        if !merged.failed.is_empty() {
            break;
        }
        // The folder is as good as gone: what replaces it has to be on the disk.
        to.checkpoint()?;
        merged.moved_to = from.move_merged_aside(&mark, &mut |from| merge_entry_usage(from, &mut to))?;
        if merged.moved_to.is_some() {
            break;
        }
    }
    Ok(Some(merged))
}

/// Merges all sessions once; returns those that failed, or `None` if the time ran out.
fn round(
    from: &mut JsonlStore,
    to: &mut SqliteStore,
    merged: &mut MergeReport,
    deadline: Option<Instant>,
    now_ms: i64,
    after: AfterPass<'_>,
) -> Result<Option<Vec<(String, String)>>, StoreError> {
    let mut failed = Vec::new();
    let sessions = from.sessions("", None, usize::MAX)?;
    merged.sessions = sessions.len();
    from.folder_facts()?.iter().try_for_each(|facts| to.note_folder(facts))?;
    for session in &sessions {
        if deadline.is_some_and(|deadline| Instant::now() > deadline) {
            return Ok(None);
        }
        let facts = SessionAnnotations::of(from, session, None, &mut Default::default())?;
        let mut copy = SessionCopy { from, to, after, now_ms, report: CopyReport::default() };
        let copied = copy.session(session, &facts);
        merged.bytes += copy.report.bytes;
        merged.turns += copy.report.turns;
        match copied {
            // The others can be merged.
            Err(error) if error.is_session_local() => failed.push((session.session.clone(), error.to_string())),
            done => done?,
        }
    }
    Ok(Some(failed))
}

/// Adds the folder's records about entries: number and time of restores, and confidence.
fn merge_entry_usage(from: &mut JsonlStore, to: &mut SqliteStore) -> Result<(), StoreError> {
    let mut adopted = Vec::new();
    for (content, here) in from.entry_usage()? {
        let Some(there) = to.usage_of(&content)? else { continue };
        let is_new = there.access_count == 0
            && there.accessed_ms.is_none()
            && there.confidence > INITIAL_CONFIDENCE - CONFIDENCE_TOLERANCE;
        // Restored there before and here afterwards; or all of it was added before.
        let is_added = there.accessed_ms >= here.accessed_ms;
        let access_count = if is_added { here.access_count } else { here.access_count.saturating_add(there.access_count) };
        adopted.push(ImportedUsage { entry: there.entry, access_count, is_new, ..here });
    }
    to.merge_usage(&adopted).map(drop)
}

/// `None` if another process has the lock. On drives without locks everybody continues: even then nothing is archived twice.
fn lock(data: &Path) -> Result<Option<Option<File>>, StoreError> {
    let path = data.join(LOCK);
    let file = files::open_lock(&path).map_err(|cause| StoreError::File { path, cause })?;
    match files::lock_within(&file, File::try_lock, MERGE_LOCK_TIMEOUT) {
        Ok(()) => Ok(Some(Some(file))),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(_)) => Ok(Some(None)),
    }
}
