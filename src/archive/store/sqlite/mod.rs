/*!
The archive in one SQLite file: `archive.db`, in WAL mode.

Commits are not synced: after a power failure the last of them may be missing, but the cursor is missing with them, and the next
pass reads the same bytes again. Where a user waits, a lock is waited for at most a quarter of a second. Hooks that nobody waits
for wait longer, and checkpoint the log into the database.
*/

mod changes;
mod compactions;
mod cycle;
mod imported;
mod learnings;
mod memory;
mod pins;
mod read;
mod rows;
mod schema;
mod segments;
mod tiers;
mod turns;
mod write;

pub use tiers::{KnownSession, RepackCandidate, Repacked};

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};

use super::{
    AppendOutcome, ArchiveTotals, Batch, Changes, ColdFolder, Compaction, Cursor, EVERYTHING, ImportedEmbedding, ImportedUsage,
    LearningQuery, Session, SessionStats, Snapshot, Store, StoreError, StoredCompaction, StoredFix, StoredLearning,
    StoredSummary, StoredTranscript, StoredTurn, TierSize, TurnLocation, TurnSelection,
};
use crate::learn::{LearningBatch, LearningCursor, ToolStats};
use crate::maintenance::{ArchiveStats, MaintenanceMode, MaintenancePlan, MaintenanceReport};
use crate::segment::SegmentCheck;
use crate::tier::Tier;
use ctxbridge_common::digest;
use ctxbridge_common::sqlite::{self, DatabaseOpenError, DatabaseOptions};
use ctxbridge_config::StoreKind;
use ctxbridge_transcript::{CompactSummary, FirstContext};
use segments::{SegmentPosition, Unpacker};

/// Number of retries of a write that was blocked by another process for longer than its timeout, and the first pause; each
/// further one is twice as long.
const RETRIES: u32 = 3;
const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// Pages of the log (4 KiB each) after which a commit moves them into the database. Every process that is the only one at the time
/// reads the log first, so it is kept short.
const CHECKPOINT_PAGES: u32 = 200;
/// The same while a user waits: only in case nobody else ever does it.
const LATE_CHECKPOINT_PAGES: u32 = 2_000;

/// Time that a reader waits while a writer restarts the log; nobody else blocks a reader.
const READER_BUSY_TIMEOUT: Duration = Duration::from_secs(1);

/// Kind of use, which decides how long a lock is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockPolicy {
    /// The user waits for the answer: work that cannot be done soon is left to the next hook.
    Interactive,
    /// The client waits, but data would be lost otherwise.
    Background,
}

impl LockPolicy {
    /// Time to wait for a process that moves a damaged archive.
    pub fn lock_timeout(self) -> Duration {
        match self {
            Self::Interactive => Duration::from_millis(500),
            Self::Background => Duration::from_secs(30),
        }
    }
}

/// An archive in a SQLite file.
#[derive(Debug)]
pub struct SqliteStore {
    db: Connection,
    path: PathBuf,
    /// Cache of the last segment read.
    unpacked: Option<(digest::Sha256Digest, Vec<u8>)>,
    unpacker: Unpacker,
    /// Released when the database is closed.
    _presence: Option<File>,
}

impl SqliteStore {
    /// The name of the file in the data folder.
    pub const FILE: &str = "archive.db";

    /// Opens or creates the archive in a folder.
    ///
    /// # Errors
    /// If it cannot be opened, is damaged, or was written by a newer version.
    pub fn open(folder: &Path, patience: LockPolicy) -> Result<Self, StoreError> {
        let path = folder.join(Self::FILE);
        let manners = match patience {
            LockPolicy::Interactive => DatabaseOptions {
                busy_timeout: Duration::from_millis(250),
                is_durable: false,
                wal_autocheckpoint: Some(LATE_CHECKPOINT_PAGES),
            },
            LockPolicy::Background => DatabaseOptions {
                busy_timeout: Duration::from_secs(1),
                is_durable: false,
                wal_autocheckpoint: Some(CHECKPOINT_PAGES),
            },
        };
        let opened = retrying(|| {
            sqlite::open(&path, schema::MIGRATIONS, manners).map_err(|cause| match cause {
                DatabaseOpenError::Sqlite(cause) => explain(&path, cause),
                newer @ DatabaseOpenError::Newer { .. } => StoreError::Open { path: path.clone(), cause: newer },
            })
        });
        Ok(Self { db: opened?, path, unpacked: None, unpacker: Unpacker::default(), _presence: None })
    }

    /// Opens the archive in a folder read-only, if there is one: nothing is written, not even a newer schema.
    ///
    /// # Errors
    /// If it cannot be opened, is damaged, or is of another version.
    pub fn open_read_only(folder: &Path) -> Result<Option<Self>, StoreError> {
        let path = folder.join(Self::FILE);
        if !path.exists() {
            return Ok(None);
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let opened = Connection::open_with_flags(&path, flags).and_then(|db| {
            db.busy_timeout(READER_BUSY_TIMEOUT)?;
            let version = db.pragma_query_value(None, "user_version", |row| row.get::<_, u32>(0))?;
            Ok((db, version))
        });
        let (db, found) = opened.map_err(|cause| explain(&path, cause))?;
        let known = schema::MIGRATIONS.len() as u32;
        match found {
            // Nobody has written anything.
            0 => Ok(None),
            older if older < known => Err(StoreError::Older { path }),
            newer if newer > known => Err(StoreError::Open { path, cause: DatabaseOpenError::Newer { found, known } }),
            _ => Ok(Some(Self { db, path, unpacked: None, unpacker: Unpacker::default(), _presence: None })),
        }
    }

    /// Holds a lock while the archive is open.
    pub fn holding(self, presence: Option<File>) -> Self {
        Self { _presence: presence, ..self }
    }

    /// Skips cold files, as if they were missing. For hooks: a mounted bucket may be slow.
    pub fn leaving_cold(mut self) -> Self {
        self.unpacker.leaves_cold = true;
        self
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Checks the whole file for damage.
    ///
    /// # Errors
    /// If there is some.
    pub fn integrity_check(&mut self) -> Result<(), StoreError> {
        let found: String = self.read(|db| db.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0)))?;
        if found == "ok" { Ok(()) } else { Err(StoreError::Damaged { path: self.path.clone(), cause: found }) }
    }

    /// Checks the file for damage, but does not compare indexes with tables, which is faster.
    ///
    /// # Errors
    /// If there is some.
    pub fn quick_check(&mut self) -> Result<(), StoreError> {
        let found: String = self.read(|db| db.query_row("PRAGMA quick_check(1)", [], |row| row.get(0)))?;
        if found == "ok" { Ok(()) } else { Err(StoreError::Damaged { path: self.path.clone(), cause: found }) }
    }

    /// Returns the usage of turns' entries that were restored, or whose confidence differs from that of a new one, by the hash of
    /// their content.
    pub(crate) fn entry_usage(&mut self) -> Result<Vec<(digest::Sha256Digest, ImportedUsage)>, StoreError> {
        self.read(imported::entry_usage)
    }

    /// Returns the usage of the turns' entry with this content.
    pub(crate) fn usage_of(&mut self, content: &digest::Sha256Digest) -> Result<Option<ImportedUsage>, StoreError> {
        self.read(|db| imported::usage_of(db, content))
    }

    fn read<T>(&mut self, work: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        work(&self.db).map_err(|cause| explain(&self.path, cause))
    }

    /// Runs an immediate transaction, and retries it if another process is in the way; or joins the open one.
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

    fn location(&self) -> String {
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
        let at = SegmentPosition { transcript, start };
        let bytes = unpacker.unpack((db, path), (&data, bytes, &sha256), dictionary, at)?;
        Ok(Some((start, bytes)))
    }

    fn segment_index(&mut self, path: &str) -> Result<Vec<(u64, u32, digest::Sha256Digest)>, StoreError> {
        self.read(|db| read::layout(db, path))
    }

    fn turn_at(&mut self, path: &str, byte: u64) -> Result<Option<(u64, u32)>, StoreError> {
        self.read(|db| read::turn_at(db, path, byte))
    }

    fn append(&mut self, batch: &Batch) -> Result<AppendOutcome, StoreError> {
        self.write(|db| write::append(db, batch))
    }

    fn read_bytes(
        &mut self,
        transcript: i64,
        generation: u32,
        range: (u64, u64),
        sink: &mut dyn std::io::Write,
    ) -> Result<(), StoreError> {
        let check = if range == EVERYTHING { SegmentCheck::Sha256 } else { SegmentCheck::Checksum };
        let Self { db, path, unpacked, unpacker, .. } = self;
        let failed = |cause| explain(path, cause);
        // All of it as it is now: another process may join the last piece with what follows it.
        let mut snapshot = db.unchecked_transaction().map_err(failed)?;
        for (start, id, sha256) in read::segments(&snapshot, transcript, generation, range).map_err(failed)? {
            let at = SegmentPosition { transcript, start };
            // Turns come one after the other, and many of them are in one segment.
            let bytes = match unpacked.take() {
                Some((known, bytes)) if known == sha256 && check == SegmentCheck::Checksum => bytes,
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

    fn totals(&mut self) -> Result<ArchiveTotals, StoreError> {
        self.read(read::totals)
    }

    fn session(&mut self, session: &str) -> Result<Option<Session>, StoreError> {
        self.read(|db| read::session(db, session))
    }

    fn session_stats(&mut self, session: i64) -> Result<SessionStats, StoreError> {
        self.read(|db| read::size(db, session))
    }

    fn sessions(&mut self, prefix: &str, folder: Option<&str>, limit: usize) -> Result<Vec<Session>, StoreError> {
        self.read(|db| read::sessions(db, prefix, folder, limit))
    }

    fn transcripts(&mut self, session: i64) -> Result<Vec<StoredTranscript>, StoreError> {
        self.read(|db| read::transcripts(db, session))
    }

    fn turns(&mut self, session: i64, which: TurnSelection) -> Result<Vec<StoredTurn>, StoreError> {
        self.read(|db| turns::turns(db, session, which))
    }

    fn turns_by_id(&mut self, prefix: &str) -> Result<Vec<StoredTurn>, StoreError> {
        self.read(|db| turns::turns_by_id(db, prefix))
    }

    fn turn_locations(&mut self, entries: &[i64]) -> Result<Vec<TurnLocation>, StoreError> {
        self.read(|db| turns::places(db, entries))
    }

    fn turn(&mut self, transcript: i64, index: u32) -> Result<Option<StoredTurn>, StoreError> {
        self.read(|db| turns::turn(db, transcript, index))
    }

    fn turn_by_location(&mut self, place: &TurnLocation) -> Result<Option<StoredTurn>, StoreError> {
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

    fn search_compactions(
        &mut self,
        words: &str,
        project: Option<&str>,
        limit: usize,
    ) -> Result<Vec<StoredCompaction>, StoreError> {
        self.read(|db| compactions::compactions_with(db, words, project, limit))
    }

    fn locate_compactions(
        &mut self,
        transcript: i64,
        summaries: &[CompactSummary],
        contexts: &[FirstContext],
    ) -> Result<(), StoreError> {
        self.write(|db| compactions::locate_compactions(db, transcript, summaries, contexts))
    }

    fn save_snapshot(&mut self, compaction: i64, snapshot: &Snapshot) -> Result<(), StoreError> {
        self.write(|db| compactions::keep_snapshot(db, compaction, snapshot))
    }

    fn set_pinned(&mut self, turn: &[u8; 16], is_kept: bool, now_ms: i64) -> Result<(), StoreError> {
        self.write(|db| pins::set_pinned(db, turn, is_kept, now_ms))
    }

    fn pinned(&mut self, limit: usize) -> Result<Vec<StoredTurn>, StoreError> {
        self.read(|db| turns::pinned(db, limit))
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

    fn merge_usage(&mut self, adopted: &[ImportedUsage]) -> Result<usize, StoreError> {
        self.write(|db| imported::merge_usage(db, adopted))
    }

    fn keep_embeddings(&mut self, embeddings: &[ImportedEmbedding]) -> Result<usize, StoreError> {
        self.write(|db| imported::keep(db, embeddings))
    }

    fn imported_embeddings(&mut self, after: i64, limit: usize) -> Result<Vec<(i64, ImportedEmbedding)>, StoreError> {
        self.read(|db| imported::list(db, after, limit))
    }

    fn record_compaction(&mut self, session: &str, compaction: &Compaction) -> Result<(), StoreError> {
        self.write(|db| compactions::record_compaction(db, session, compaction))
    }

    fn add_summary(&mut self, session: &str, text: &str, now_ms: i64) -> Result<(), StoreError> {
        self.write(|db| compactions::hooked_summary(db, session, text, now_ms))
    }

    fn end_session(&mut self, session: &str, reason: &str, now_ms: i64) -> Result<(), StoreError> {
        self.write(|db| write::end_session(db, session, reason, now_ms))
    }

    fn checkpoint(&mut self) -> Result<(), StoreError> {
        // Readers may be in the way of the last pages: that is no error, and the next time gets them.
        self.read(|db| db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())))
    }

    fn run_maintenance(
        &mut self,
        run: MaintenanceMode,
        plan: &dyn Fn(&ArchiveStats) -> MaintenancePlan,
    ) -> Result<MaintenanceReport, StoreError> {
        let work = |db: &Connection| {
            let facts = cycle::facts(db)?;
            cycle::run(db, run, &facts, plan(&facts))
        };
        match run {
            MaintenanceMode::Apply => self.write(work),
            // All of it as it is now; what is begun here is never committed.
            MaintenanceMode::DryRun => self.read(|db| work(&*db.unchecked_transaction()?)),
        }
    }

    fn changes(&mut self, since: Option<&str>) -> Result<Changes, StoreError> {
        // In one transaction, or the number might be newer than the list.
        self.read(|db| changes::since(&*db.unchecked_transaction()?, since))
    }

    fn learning_cursor(&mut self, transcript: i64) -> Result<Option<LearningCursor>, StoreError> {
        self.read(|db| learnings::progress(db, transcript))
    }

    fn add_learnings(&mut self, transcript: i64, lesson: &LearningBatch, progress: &LearningCursor) -> Result<usize, StoreError> {
        self.write(|db| learnings::add_learnings(db, transcript, lesson, progress))
    }

    fn learnings(&mut self, wanted: &LearningQuery) -> Result<Vec<StoredLearning>, StoreError> {
        self.read(|db| learnings::learnings(db, wanted))
    }

    fn tool_stats(&mut self, session: i64) -> Result<Vec<(Option<String>, ToolStats)>, StoreError> {
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

    fn optimize(&mut self) -> Result<(), StoreError> {
        self.write(changes::forget)?;
        self.checkpoint()?;
        self.read(|db| db.execute_batch("PRAGMA optimize"))
    }
}
