/*!
Taking what was archived in JSON Lines, while there could be no database, back into the database.

Transcripts go through the ordinary reader, generation by generation, so that it can be interrupted anywhere and begun again, and nothing is there twice:
what the database has by now, because a hook archived the transcript again from its begin, is left out. Then what hooks and the user told, and, while nobody
writes to the folder, how often entries were restored. At last the folder is moved aside, if nobody has added to it; else it goes round again.
*/

use std::cell::RefCell;
use std::fs::{File, TryLockError};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tempfile::SpooledTempFile;

use super::cycle::TOLERANCE;
use super::facts::{Facts, Keeps};
use super::ingest::{AfterPass, archive, archive_from};
use super::open::{Location, has_no_database};
use super::reader::{Comparison, ReadError, Source};
use super::same;
use super::store::jsonl::JsonlStore;
use super::store::sqlite::{Patience, SqliteStore};
use super::store::{Adopted, EVERYTHING, Session, Store, StoreError, StoredTranscript, Transcript};
use super::{FIRST_CONFIDENCE, heal};
use ctxbridge_common::files;

/// The lock in the data folder: held by the one who merges.
const LOCK: &str = "merge.lock";

/// How long to wait for another: it is over in a moment, or will be long.
const PATIENCE: Duration = Duration::from_millis(200);

/// How often to go round again because somebody wrote meanwhile. The next run goes on.
const ROUNDS: u32 = 8;

/// Bytes of one transcript that are held in memory; more than that waits in a file without a name.
const IN_MEMORY: usize = 64 << 20;

/// What was merged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Merged {
    /// Sessions in the folder.
    pub sessions: usize,
    /// Bytes of transcripts that are new in the database.
    pub bytes: u64,
    /// Turns that are new there, or have grown.
    pub turns: u64,
    /// Sessions that could not be merged, and why: their bytes cannot be read.
    pub failed: Vec<(String, String)>,
    /// Where the folder is now; nothing where it has to stay for the next run.
    pub aside: Option<PathBuf>,
}

/// Merges what waits, if anything does, there can be a database again, and nobody else is at it. `after` is called after each transcript.
///
/// # Errors
/// When one of both cannot be read or written. What was merged before stays, and the next run goes on.
pub fn merge(
    location: &Location,
    deadline: Option<Instant>,
    now_ms: i64,
    after: AfterPass<'_>,
) -> Result<Option<Merged>, StoreError> {
    let Some(folder) = location.waiting() else { return Ok(None) };
    let mut to = match heal::open(location.data(), Patience::Patient) {
        Ok((to, _)) => to,
        Err(error) if has_no_database(&error) => return Ok(None),
        Err(error) => return Err(error),
    };
    let Some(_alone) = lock(location.data())? else { return Ok(None) };
    if !JsonlStore::is_in(folder) {
        // Who had the lock before has done it.
        return Ok(None);
    }
    let mut from = JsonlStore::open(folder, Patience::Patient)?;
    let mut merged = Merged::default();
    for _ in 0..ROUNDS {
        let mark = from.mark()?;
        let Some(failed) = round(&mut from, &mut to, &mut merged, deadline, now_ms, after)? else { break };
        merged.failed = failed;
        if !merged.failed.is_empty() {
            break;
        }
        // The folder is as good as gone: what replaces it has to be on the disk.
        to.settle()?;
        merged.aside = from.move_merged_aside(&mark, &mut |from| add_uses(from, &mut to))?;
        if merged.aside.is_some() {
            break;
        }
    }
    Ok(Some(merged))
}

/// All sessions once; says which of them failed, or nothing when time was up.
fn round(
    from: &mut JsonlStore,
    to: &mut SqliteStore,
    merged: &mut Merged,
    deadline: Option<Instant>,
    now_ms: i64,
    after: AfterPass<'_>,
) -> Result<Option<Vec<(String, String)>>, StoreError> {
    let mut failed = Vec::new();
    let sessions = from.sessions("", None, usize::MAX)?;
    merged.sessions = sessions.len();
    for session in &sessions {
        if deadline.is_some_and(|deadline| Instant::now() > deadline) {
            return Ok(None);
        }
        match merge_session(from, to, session, merged, now_ms, after) {
            // The others can be merged.
            Err(error) if error.is_of_one() => failed.push((session.session.clone(), error.to_string())),
            done => done?,
        }
    }
    Ok(Some(failed))
}

fn merge_session(
    from: &mut JsonlStore,
    to: &mut SqliteStore,
    session: &Session,
    merged: &mut Merged,
    now_ms: i64,
    after: AfterPass<'_>,
) -> Result<(), StoreError> {
    let facts = Facts::of(from, session, None, &mut Default::default())?;
    facts.announce(to, &session.session)?;
    for transcript in from.transcripts(session.key)? {
        merge_transcript(from, to, (session, &transcript), merged, after)?;
    }
    if to.session(&session.session)?.is_none()
        && let Some((reason, at_ms)) = session.end_reason.as_ref().zip(session.last_ms)
    {
        to.end_session(&session.session, reason, at_ms)?;
    }
    facts.tell(to, &session.session, now_ms, Keeps::Added)
}

/// All generations that the database does not have, in order. What it had last stays last, where it is the newer one.
fn merge_transcript(
    from: &mut JsonlStore,
    to: &mut SqliteStore,
    (session, transcript): (&Session, &StoredTranscript),
    merged: &mut Merged,
    after: AfterPass<'_>,
) -> Result<(), StoreError> {
    let named = Transcript { path: transcript.path.clone(), session: session.session.clone(), agent: transcript.agent.clone() };
    let known = known_transcript(to, &named)?;
    let mut was_rewritten = false;
    let mut is_behind = false;
    for generation in 0..=transcript.generation {
        let mut bytes = SpooledTempFile::new(IN_MEMORY);
        from.raw(transcript.key, generation, EVERYTHING, &mut bytes)?;
        let length = bytes.stream_position()?;
        let had_in = match &known {
            Some(known) => same::first_with(to, known.key, (0..=known.generation).rev(), (&mut bytes, length))?,
            None => None,
        };
        is_behind = had_in.is_some() && had_in == known.as_ref().map(|known| known.generation);
        if had_in.is_none() {
            was_rewritten |= send(to, &named, (&bytes_of(bytes), length), merged, after)?;
        }
    }
    let path = Path::new(&transcript.path);
    if was_rewritten && path.is_file() {
        // What else may be wrong with the file, the next hook sees.
        match archive(to, &named, path) {
            Ok(pass) => after(to, &named, &pass)?,
            Err(ReadError::Store(error)) => return Err(error),
            Err(_) => {}
        }
    } else if was_rewritten
        && is_behind
        && let Some(known) = known
    {
        let mut bytes = SpooledTempFile::new(IN_MEMORY);
        to.raw(known.key, known.generation, EVERYTHING, &mut bytes)?;
        let length = bytes.stream_position()?;
        send(to, &named, (&bytes_of(bytes), length), merged, after)?;
    }
    Ok(())
}

fn bytes_of(bytes: SpooledTempFile) -> RefCell<SpooledTempFile> {
    RefCell::new(bytes)
}

/// Archives what a transcript was; says whether that is another one than the database had.
fn send(
    to: &mut SqliteStore,
    named: &Transcript,
    (bytes, length): (&RefCell<SpooledTempFile>, u64),
    merged: &mut Merged,
    after: AfterPass<'_>,
) -> Result<bool, StoreError> {
    let passed = archive_from(to, named, Comparison::Whole, &mut || (Box::new(Shared(bytes)), length));
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

/// What was known in the folder of entries: how often they were restored, when, and how far they are trusted.
fn add_uses(from: &mut JsonlStore, to: &mut SqliteStore) -> Result<(), StoreError> {
    let mut adopted = Vec::new();
    for (content, here) in from.uses()? {
        let Some(there) = to.use_of(&content)? else { continue };
        let is_new = there.access_count == 0 && there.accessed_ms.is_none() && there.confidence > FIRST_CONFIDENCE - TOLERANCE;
        // Restored there before and here afterwards; or all of it was added before.
        let is_added = there.accessed_ms >= here.accessed_ms;
        let access_count = if is_added { here.access_count } else { here.access_count.saturating_add(there.access_count) };
        adopted.push(Adopted { entry: there.entry, access_count, is_new, ..here });
    }
    to.adopt(&adopted).map(drop)
}

/// Bytes that are read again where a pass begins again.
struct Shared<'b>(&'b RefCell<SpooledTempFile>);

impl Source for Shared<'_> {
    fn read(&mut self, start: u64, length: u64, bytes: &mut Vec<u8>) -> io::Result<()> {
        let mut file = self.0.borrow_mut();
        file.seek(SeekFrom::Start(start))?;
        Read::take(&mut *file, length).read_to_end(bytes).map(drop)
    }
}

/// Nothing where another process has it. On drives without locks, everybody goes on: nothing is there twice even so.
fn lock(data: &Path) -> Result<Option<Option<File>>, StoreError> {
    let path = data.join(LOCK);
    let file = files::private().create(true).append(true).open(&path).map_err(|cause| StoreError::File { path, cause })?;
    match files::lock_within(&file, File::try_lock, PATIENCE) {
        Ok(()) => Ok(Some(Some(file))),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(_)) => Ok(Some(None)),
    }
}
