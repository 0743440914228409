/*!
Merges an archive in JSON Lines, written while there could be no database, back into the database.

Transcripts go through the ordinary reader, generation by generation. So a merge can be interrupted anywhere and run again without
duplicates: bytes that the database has by now, because a hook archived the transcript again from its start, are left out
([`generation_match`]). Then come the records of hooks and of the user. While nobody writes to the folder, the use counts of entries
are added. At last the folder is moved aside, if nobody has added to it; otherwise there is another round.
*/

use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::annotations::{PinPolicy, SessionAnnotations};
use super::generation_match;
use super::ingest::{AfterPass, ingest, ingest_from};
use super::maintenance::CONFIDENCE_TOLERANCE;
use super::open::{Location, has_no_database};
use super::reader::{Comparison, ReadError};
use super::spooled::SpooledBytes;
use super::store::jsonl::JsonlStore;
use super::store::sqlite::{LockPolicy, SqliteStore};
use super::store::{FolderStore, ImportedUsage, Session, StoreError, StoredTranscript, Transcript};
use super::{INITIAL_CONFIDENCE, recovery};
use crate::store::{MaintenanceStore, SessionReader, TranscriptAppender, UsageWriter};
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
        Ok((to, _)) => to,
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
        match merge_session(from, to, session, merged, now_ms, after) {
            // The others can be merged.
            Err(error) if error.is_session_local() => failed.push((session.session.clone(), error.to_string())),
            done => done?,
        }
    }
    Ok(Some(failed))
}

fn merge_session(
    from: &mut JsonlStore,
    to: &mut SqliteStore,
    session: &Session,
    merged: &mut MergeReport,
    now_ms: i64,
    after: AfterPass<'_>,
) -> Result<(), StoreError> {
    let facts = SessionAnnotations::of(from, session, None, &mut Default::default())?;
    facts.record_compactions(to, &session.session)?;
    let mut transcripts = from.transcripts(session.key)?;
    // A turn's words include those of the side files that it points to.
    transcripts.sort_by_key(|transcript| transcript.part.is_transcript());
    for transcript in transcripts {
        merge_transcript(from, to, (session, &transcript), merged, after)?;
    }
    if to.session(&session.session)?.is_none()
        && let Some((reason, at_ms)) = session.end_reason.as_ref().zip(session.last_ms)
    {
        to.end_session(&session.session, reason, at_ms)?;
    }
    facts.apply_to(to, &session.session, now_ms, PinPolicy::Merge)
}

/// Merges all generations that the database does not have, in order. The database's last generation stays last if it is the newer
/// one.
fn merge_transcript(
    from: &mut JsonlStore,
    to: &mut SqliteStore,
    (session, transcript): (&Session, &StoredTranscript),
    merged: &mut MergeReport,
    after: AfterPass<'_>,
) -> Result<(), StoreError> {
    let named = Transcript { path: transcript.path.clone(), session: session.session.clone(), part: transcript.part.clone() };
    let known = known_transcript(to, &named)?;
    let mut was_rewritten = false;
    let mut is_behind = false;
    for generation in 0..=transcript.generation {
        let bytes = SpooledBytes::of_generation(from, transcript.key, generation)?;
        let had_in = match &known {
            Some(known) => {
                let (mut file, length) = bytes.file();
                generation_match::find_matching_generation(to, known.key, (0..=known.generation).rev(), (&mut *file, length))?
            }
            None => None,
        };
        is_behind = had_in.is_some() && had_in == known.as_ref().map(|known| known.generation);
        if had_in.is_none() {
            was_rewritten |= ingest_generation(to, &named, &bytes, merged, after)?;
        }
    }
    let path = Path::new(&transcript.path);
    if was_rewritten && path.is_file() {
        // What else may be wrong with the file, the next hook sees.
        match ingest(to, &named, path) {
            Ok(pass) => after(to, &named, &pass)?,
            Err(ReadError::Store(error)) => return Err(error),
            Err(_) => {}
        }
    } else if was_rewritten
        && is_behind
        && let Some(known) = known
    {
        let bytes = SpooledBytes::of_generation(to, known.key, known.generation)?;
        ingest_generation(to, &named, &bytes, merged, after)?;
    }
    Ok(())
}

/// Archives one generation of a transcript; returns `true` if it differs from the database's.
fn ingest_generation(
    to: &mut SqliteStore,
    named: &Transcript,
    bytes: &SpooledBytes,
    merged: &mut MergeReport,
    after: AfterPass<'_>,
) -> Result<bool, StoreError> {
    let passed = ingest_from(to, named, Comparison::Whole, &mut || bytes.source());
    let pass = passed.map_err(|error| match error {
        ReadError::Store(error) => error,
        other => StoreError::Sink(io::Error::other(other.to_string())),
    })?;
    after(to, named, &pass)?;
    merged.bytes += pass.bytes;
    merged.turns += pass.turns;
    Ok(pass.was_rewritten)
}

fn known_transcript(to: &mut SqliteStore, named: &Transcript) -> Result<Option<StoredTranscript>, StoreError> {
    let Some(session) = to.session(&named.session)? else { return Ok(None) };
    Ok(to.transcripts(session.key)?.into_iter().find(|transcript| transcript.path == named.path))
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
    let file = files::private().create(true).append(true).open(&path).map_err(|cause| StoreError::File { path, cause })?;
    match files::lock_within(&file, File::try_lock, MERGE_LOCK_TIMEOUT) {
        Ok(()) => Ok(Some(Some(file))),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(_)) => Ok(Some(None)),
    }
}
