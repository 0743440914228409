/*!
The archive in one SQLite file: `archive.db`, in WAL mode.

Commits are not synced: after a power failure the last of them may be missing, but the cursor is missing with them, and the next
pass reads the same bytes again. The log is moved into the database by hooks that nobody waits for.
*/

mod changes;
mod compactions;
mod cycle;
mod imported;
mod kept;
mod learnings;
mod memory;
mod read;
mod rows;
mod schema;
mod segments;
mod tiers;
mod turns;
mod write;

pub use tiers::{Candidate, KnownSession, Repacked};

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};

use super::{
    Adopted, Appended, Batch, Changes, ColdFolder, Compaction, Cursor, EVERYTHING, ImportedEmbedding, Place, Session, Size,
    Snapshot, Store, StoreError, StoredCompaction, StoredFix, StoredLearning, StoredSummary, StoredTranscript, StoredTurn,
    TierSize, Totals, Turns, Wanted,
};
use crate::cycle::{Facts, Outcome, Plan, Run};
use crate::learn::{Lesson, Progress, Tally};
use crate::segment::Check;
use crate::tier::Tier;
use ctxbridge_common::digest;
use ctxbridge_common::sqlite::{self, Manners, OpenError};
use ctxbridge_config::StoreKind;
use ctxbridge_transcript::{CompactSummary, FirstContext};
use segments::{Unpacker, Whereabouts};

/// Times that a write is tried again when another process was in the way for longer than its patience, and the first pause; each
/// further one is twice as long.
const RETRIES: u32 = 3;
const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// Pages of the log (4 KiB each) after which a commit moves them into the database. Every process that is the only one at the time
/// reads the log first, so it is kept short.
const CHECKPOINT_PAGES: u32 = 200;
/// The same where a user is waiting: only if nobody else ever does it.
const LATE_CHECKPOINT_PAGES: u32 = 2_000;

/// How long who only looks waits for who makes the log anew: nobody else is in the way of a reader.
const READERS_PATIENCE: Duration = Duration::from_secs(1);

/// Who uses the archive, and so how long it may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// The user waits for the answer: what cannot be done soon is left to the next hook.
    Hurried,
    /// The client waits, but it is worth it: before something is lost.
    Patient,
}

impl Patience {
    /// How long to wait for one who moves a damaged archive.
    pub fn of_a_lock(self) -> Duration {
        match self {
            Self::Hurried => Duration::from_millis(500),
            Self::Patient => Duration::from_secs(30),
        }
    }
}

/// An archive in a SQLite file.
#[derive(Debug)]
pub struct SqliteStore {
    db: Connection,
    path: PathBuf,
    /// The segment that was read last.
    unpacked: Option<(digest::Bytes, Vec<u8>)>,
    unpacker: Unpacker,
    /// Given back when the database is closed.
    _presence: Option<File>,
}

impl SqliteStore {
    /// The name of the file in the data folder.
    pub const FILE: &str = "archive.db";

    /// Opens or creates the archive in a folder.
    ///
    /// # Errors
    /// When it cannot be opened, is damaged, or was written by a newer version.
    pub fn open(folder: &Path, patience: Patience) -> Result<Self, StoreError> {
        let path = folder.join(Self::FILE);
        let manners = match patience {
            Patience::Hurried => {
                Manners { patience: Duration::from_millis(250), is_durable: false, checkpoint_pages: Some(LATE_CHECKPOINT_PAGES) }
            }
            Patience::Patient => {
                Manners { patience: Duration::from_secs(1), is_durable: false, checkpoint_pages: Some(CHECKPOINT_PAGES) }
            }
        };
        let opened = retrying(|| {
            sqlite::open(&path, schema::MIGRATIONS, manners).map_err(|cause| match cause {
                OpenError::Sqlite(cause) => explain(&path, cause),
                newer @ OpenError::Newer { .. } => StoreError::Open { path: path.clone(), cause: newer },
            })
        });
        Ok(Self { db: opened?, path, unpacked: None, unpacker: Unpacker::default(), _presence: None })
    }

    /// Opens the archive in a folder to look at, if there is one: nothing is written, not even a newer schema.
    ///
    /// # Errors
    /// When it cannot be opened, is damaged, or is of another version.
    pub fn open_read_only(folder: &Path) -> Result<Option<Self>, StoreError> {
        let path = folder.join(Self::FILE);
        if !path.exists() {
            return Ok(None);
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let opened = Connection::open_with_flags(&path, flags).and_then(|db| {
            db.busy_timeout(READERS_PATIENCE)?;
            let version = db.pragma_query_value(None, "user_version", |row| row.get::<_, u32>(0))?;
            Ok((db, version))
        });
        let (db, found) = opened.map_err(|cause| explain(&path, cause))?;
        let known = schema::MIGRATIONS.len() as u32;
        match found {
            // Nobody has written anything.
            0 => Ok(None),
            older if older < known => Err(StoreError::Older { path }),
            newer if newer > known => Err(StoreError::Open { path, cause: OpenError::Newer { found, known } }),
            _ => Ok(Some(Self { db, path, unpacked: None, unpacker: Unpacker::default(), _presence: None })),
        }
    }

    /// Holds a lock for as long as the archive is open.
    pub fn holding(self, presence: Option<File>) -> Self {
        Self { _presence: presence, ..self }
    }

    /// Leaves cold files alone: what is in them cannot be read, as if they were not there. For hooks: a mounted bucket may be slow.
    pub fn leaving_cold(mut self) -> Self {
        self.unpacker.leaves_cold = true;
        self
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Looks for damage in the whole file.
    ///
    /// # Errors
    /// When there is some.
    pub fn look_through(&mut self) -> Result<(), StoreError> {
        let found: String = self.read(|db| db.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0)))?;
        if found == "ok" { Ok(()) } else { Err(StoreError::Damaged { path: self.path.clone(), cause: found }) }
    }

    /// Looks for damage faster: whether indexes and tables say the same is left out.
    ///
    /// # Errors
    /// When there is some.
    pub fn quick_check(&mut self) -> Result<(), StoreError> {
        let found: String = self.read(|db| db.query_row("PRAGMA quick_check(1)", [], |row| row.get(0)))?;
        if found == "ok" { Ok(()) } else { Err(StoreError::Damaged { path: self.path.clone(), cause: found }) }
    }

    /// What is known of turns' entries that were restored, or are trusted otherwise than one that is new, by what they say.
    pub(crate) fn uses(&mut self) -> Result<Vec<(digest::Bytes, Adopted)>, StoreError> {
        self.read(imported::uses)
    }

    /// What is known of the turns' entry that says this.
    pub(crate) fn use_of(&mut self, content: &digest::Bytes) -> Result<Option<Adopted>, StoreError> {
        self.read(|db| imported::use_of(db, content))
    }

    fn read<T>(&mut self, work: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        work(&self.db).map_err(|cause| explain(&self.path, cause))
    }

    /// One immediate transaction, tried again when another process is in the way; or a part of the one that goes on.
    fn write<T>(&mut self, work: impl Fn(&Connection) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        let Self { db, path, .. } = self;
        if !db.is_autocommit() {
            return work(db).map_err(|cause| explain(path, cause));
        }
        retrying(|| {
            let mut once = || {
                let transaction = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
                let result = work(&transaction)?;
                transaction.commit()?;
                Ok(result)
            };
            once().map_err(|cause| explain(path, cause))
        })
    }
}

fn retrying<T>(mut work: impl FnMut() -> Result<T, StoreError>) -> Result<T, StoreError> {
    let mut pause = FIRST_PAUSE;
    for _ in 0..RETRIES {
        match work() {
            Err(error) if error.is_busy() => std::thread::sleep(pause),
            result => return result,
        }
        pause *= 2;
    }
    work()
}

fn explain(path: &Path, cause: rusqlite::Error) -> StoreError {
    let path = path.to_owned();
    match cause.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Busy { path },
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => StoreError::Damaged { path, cause: cause.to_string() },
        // Who replaced the file by a folder has to be told the same.
        Some(ErrorCode::CannotOpen) if path.is_dir() => StoreError::Damaged { path, cause: "it is a folder".to_owned() },
        Some(ErrorCode::DiskFull) => StoreError::Full { path },
        Some(ErrorCode::SystemIoFailure) => StoreError::Disk { path, cause },
        _ => StoreError::Sqlite { path, cause },
    }
}

impl Store for SqliteStore {
    fn kind(&self) -> StoreKind {
        StoreKind::Sqlite
    }

    fn place(&self) -> String {
        self.path.display().to_string()
    }

    fn cursor(&mut self, path: &str) -> Result<Option<Cursor>, StoreError> {
        self.read(|db| read::cursor(db, path))
    }

    fn tail(&mut self, path: &str, below: u32) -> Result<Option<(u64, Vec<u8>)>, StoreError> {
        let Some((transcript, start, bytes, sha256, data, dictionary)) = self.read(|db| read::tail(db, path, below))? else {
            return Ok(None);
        };
        let Self { db, path, unpacker, .. } = self;
        let at = Whereabouts { transcript, start };
        let bytes = unpacker.unpack((db, path), (&data, bytes, &sha256), dictionary, at)?;
        Ok(Some((start, bytes)))
    }

    fn layout(&mut self, path: &str) -> Result<Vec<(u64, u32, digest::Bytes)>, StoreError> {
        self.read(|db| read::layout(db, path))
    }

    fn turn_at(&mut self, path: &str, byte: u64) -> Result<Option<(u64, u32)>, StoreError> {
        self.read(|db| read::turn_at(db, path, byte))
    }

    fn append(&mut self, batch: &Batch) -> Result<Appended, StoreError> {
        self.write(|db| write::append(db, batch))
    }

    fn raw(
        &mut self,
        transcript: i64,
        generation: u32,
        range: (u64, u64),
        sink: &mut dyn std::io::Write,
    ) -> Result<(), StoreError> {
        let check = if range == EVERYTHING { Check::Sha256 } else { Check::Checksum };
        let Self { db, path, unpacked, unpacker, .. } = self;
        let failed = |cause| explain(path, cause);
        // All of it as it is now: another process may join the last piece with what follows it.
        let mut snapshot = db.unchecked_transaction().map_err(failed)?;
        for (start, id, sha256) in read::segments(&snapshot, transcript, generation, range).map_err(failed)? {
            let at = Whereabouts { transcript, start };
            // Turns come one after the other, and many of them are in one segment.
            let bytes = match unpacked.take() {
                Some((known, bytes)) if known == sha256 && check == Check::Checksum => bytes,
                _ => match unpacker.segment((&snapshot, path), id, check, at) {
                    // It may have come back meanwhile. What is cold is not joined with anything, so it is the same segment.
                    Err(cold) if cold.is_cold() => {
                        drop(snapshot);
                        snapshot = db.unchecked_transaction().map_err(failed)?;
                        if !segments::is_there(&snapshot, id, &sha256).map_err(failed)? {
                            return Err(cold);
                        }
                        unpacker.segment((&snapshot, path), id, check, at)?
                    }
                    read => read?,
                },
            };
            let clamp = |byte: u64| byte.saturating_sub(start).min(bytes.len() as u64) as usize;
            sink.write_all(bytes.get(clamp(range.0)..clamp(range.1)).unwrap_or_default())?;
            *unpacked = Some((sha256, bytes));
        }
        Ok(())
    }

    fn totals(&mut self) -> Result<Totals, StoreError> {
        self.read(read::totals)
    }

    fn session(&mut self, session: &str) -> Result<Option<Session>, StoreError> {
        self.read(|db| read::session(db, session))
    }

    fn size(&mut self, session: i64) -> Result<Size, StoreError> {
        self.read(|db| read::size(db, session))
    }

    fn sessions(&mut self, prefix: &str, folder: Option<&str>, limit: usize) -> Result<Vec<Session>, StoreError> {
        self.read(|db| read::sessions(db, prefix, folder, limit))
    }

    fn transcripts(&mut self, session: i64) -> Result<Vec<StoredTranscript>, StoreError> {
        self.read(|db| read::transcripts(db, session))
    }

    fn turns(&mut self, session: i64, which: Turns) -> Result<Vec<StoredTurn>, StoreError> {
        self.read(|db| turns::turns(db, session, which))
    }

    fn turns_by_id(&mut self, prefix: &str) -> Result<Vec<StoredTurn>, StoreError> {
        self.read(|db| turns::turns_by_id(db, prefix))
    }

    fn places(&mut self, entries: &[i64]) -> Result<Vec<Place>, StoreError> {
        self.read(|db| turns::places(db, entries))
    }

    fn turn(&mut self, transcript: i64, index: u32) -> Result<Option<StoredTurn>, StoreError> {
        self.read(|db| turns::turn(db, transcript, index))
    }

    fn turn_of(&mut self, place: &Place) -> Result<Option<StoredTurn>, StoreError> {
        self.read(|db| turns::turn_of(db, place.key))
    }

    fn summary_of(&mut self, entry: i64) -> Result<Option<(String, StoredSummary)>, StoreError> {
        self.read(|db| read::summary_of(db, entry))
    }

    fn summaries(&mut self, session: i64) -> Result<Vec<StoredSummary>, StoreError> {
        self.read(|db| read::summaries(db, session))
    }

    fn compactions(&mut self, session: Option<i64>, since_ms: i64) -> Result<Vec<StoredCompaction>, StoreError> {
        self.read(|db| compactions::compactions(db, session, since_ms))
    }

    fn compactions_with(
        &mut self,
        words: &str,
        project: Option<&str>,
        limit: usize,
    ) -> Result<Vec<StoredCompaction>, StoreError> {
        self.read(|db| compactions::compactions_with(db, words, project, limit))
    }

    fn place_compactions(
        &mut self,
        transcript: i64,
        summaries: &[CompactSummary],
        contexts: &[FirstContext],
    ) -> Result<(), StoreError> {
        self.write(|db| compactions::place(db, transcript, summaries, contexts))
    }

    fn keep_snapshot(&mut self, compaction: i64, snapshot: &Snapshot) -> Result<(), StoreError> {
        self.write(|db| compactions::keep_snapshot(db, compaction, snapshot))
    }

    fn keep(&mut self, turn: &[u8; 16], is_kept: bool, now_ms: i64) -> Result<(), StoreError> {
        self.write(|db| kept::keep(db, turn, is_kept, now_ms))
    }

    fn kept(&mut self, limit: usize) -> Result<Vec<StoredTurn>, StoreError> {
        self.read(|db| turns::kept(db, limit))
    }

    fn contexts(&mut self, session: i64) -> Result<Vec<(i64, u64)>, StoreError> {
        self.read(|db| read::contexts(db, session))
    }

    fn first_entry(&mut self, session: i64) -> Result<Option<i64>, StoreError> {
        self.read(|db| read::first_entry(db, session))
    }

    fn session_cleared(&mut self, transcripts_in: &str, but: &str, since_ms: i64) -> Result<Option<Session>, StoreError> {
        let found = self.read(|db| read::session_cleared(db, transcripts_in, but, since_ms))?;
        found.map_or(Ok(None), |id| self.session(&id))
    }

    fn touch(&mut self, entries: &[i64], now_ms: i64) -> Result<(), StoreError> {
        self.write(|db| cycle::touch(db, entries, now_ms))
    }

    fn adopt(&mut self, adopted: &[Adopted]) -> Result<usize, StoreError> {
        self.write(|db| imported::adopt(db, adopted))
    }

    fn keep_embeddings(&mut self, embeddings: &[ImportedEmbedding]) -> Result<usize, StoreError> {
        self.write(|db| imported::keep(db, embeddings))
    }

    fn imported_embeddings(&mut self, after: i64, limit: usize) -> Result<Vec<(i64, ImportedEmbedding)>, StoreError> {
        self.read(|db| imported::list(db, after, limit))
    }

    fn announce(&mut self, session: &str, compaction: &Compaction) -> Result<(), StoreError> {
        self.write(|db| compactions::announce(db, session, compaction))
    }

    fn add_summary(&mut self, session: &str, text: &str, now_ms: i64) -> Result<(), StoreError> {
        self.write(|db| compactions::hooked_summary(db, session, text, now_ms))
    }

    fn end_session(&mut self, session: &str, reason: &str, now_ms: i64) -> Result<(), StoreError> {
        self.write(|db| write::end_session(db, session, reason, now_ms))
    }

    fn settle(&mut self) -> Result<(), StoreError> {
        // Readers may be in the way of the last pages: that is no error, and the next time gets them.
        self.read(|db| db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())))
    }

    fn cycle(&mut self, run: Run, plan: &dyn Fn(&Facts) -> Plan) -> Result<Outcome, StoreError> {
        let work = |db: &Connection| {
            let facts = cycle::facts(db)?;
            cycle::run(db, run, &facts, plan(&facts))
        };
        match run {
            Run::Real => self.write(work),
            // All of it as it is now; what is begun here is never committed.
            Run::Dry => self.read(|db| work(&*db.unchecked_transaction()?)),
        }
    }

    fn changes(&mut self, since: Option<&str>) -> Result<Changes, StoreError> {
        // In one transaction, or the number might be newer than the list.
        self.read(|db| changes::since(&*db.unchecked_transaction()?, since))
    }

    fn progress(&mut self, transcript: i64) -> Result<Option<Progress>, StoreError> {
        self.read(|db| learnings::progress(db, transcript))
    }

    fn learn(&mut self, transcript: i64, lesson: &Lesson, progress: &Progress) -> Result<usize, StoreError> {
        self.write(|db| learnings::learn(db, transcript, lesson, progress))
    }

    fn learnings(&mut self, wanted: &Wanted) -> Result<Vec<StoredLearning>, StoreError> {
        self.read(|db| learnings::learnings(db, wanted))
    }

    fn tallies(&mut self, session: i64) -> Result<Vec<(Option<String>, Tally)>, StoreError> {
        self.read(|db| learnings::tallies(db, session))
    }

    fn fixes(&mut self, project: Option<&str>, limit: usize) -> Result<Vec<StoredFix>, StoreError> {
        self.read(|db| learnings::fixes(db, project, limit))
    }

    fn changed_files(&mut self, project: Option<&str>, limit: usize) -> Result<Vec<Vec<String>>, StoreError> {
        self.read(|db| learnings::changed_files(db, project, limit))
    }

    fn learnings_by_kind(&mut self) -> Result<Vec<(String, u64)>, StoreError> {
        self.read(read::learnings_by_kind)
    }

    fn tiers(&mut self) -> Result<Vec<TierSize>, StoreError> {
        self.read(|db| tiers::tiers(&*db.unchecked_transaction()?))
    }

    fn tier(&mut self, session: i64) -> Result<Tier, StoreError> {
        self.read(|db| tiers::tier(db, session))
    }

    fn cold_folders(&mut self) -> Result<Vec<ColdFolder>, StoreError> {
        self.read(tiers::cold_folders)
    }

    fn optimise(&mut self) -> Result<(), StoreError> {
        self.write(changes::forget)?;
        self.settle()?;
        self.read(|db| db.execute_batch("PRAGMA optimize"))
    }
}
