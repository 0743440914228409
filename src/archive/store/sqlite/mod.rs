/*!
The archive in one SQLite file: `archive.db`, in WAL mode.

Commits are not synced: after a power failure the last of them may be missing, but the cursor is missing with them, and the next
pass reads the same bytes again. Where a user waits, a lock is waited for at most a quarter of a second. Hooks that nobody waits
for wait longer, and checkpoint the log into the database.
*/

mod changes;
mod columns;
mod compactions;
mod cycle;
mod folders;
mod forget;
mod imported;
mod learnings;
mod memory;
mod pins;
mod reread;
mod rewinds;
mod rows;
mod salvage;
mod schema;
mod segment_check;
mod segments;
mod sense;
pub(crate) mod session_list;
mod sessions;
mod tiers;
mod turns;
mod write;

pub(crate) use forget::RemovedRows;
pub use salvage::{Hole, LostLayout, LostTranscript, SalvageError, SalvageReport, SoundPage, salvage};
pub use segment_check::{SegmentKey, SegmentUse, bytes_of_file};
pub use tiers::{KnownSession, RepackCandidate, Repacked};

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};

use super::{ArchiveTotals, ImportedUsage, StoreError};
use crate::forget::{Blanks, TombstoneWatch, Tombstones};
use crate::store::{ProjectStore, Store, StoreReader};
use ctxbridge_common::digest;
use ctxbridge_common::sqlite::{self, DatabaseLog, DatabaseOpenError, DatabaseOptions};
use ctxbridge_config::StoreKind;
use segments::Unpacker;

/// Number of retries of a write that was blocked by another process for longer than its timeout, and the first pause; each
/// further one is twice as long.
const RETRIES: u32 = 3;
const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// Pages of the log (4 KiB each) after which a commit moves them into the database. Every process that is the only one at the time
/// reads the log first, so it is kept short.
const CHECKPOINT_PAGES: u32 = 200;
/// The same while a user waits: only in case nobody else ever does it.
const LATE_CHECKPOINT_PAGES: u32 = 500;

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
    /// `true` if what the user marked as private is archived.
    keeps_private: bool,
    watch: TombstoneWatch,
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
    pub fn open(folder: &Path, policy: LockPolicy) -> Result<Self, StoreError> {
        let path = folder.join(Self::FILE);
        let (busy_timeout, checkpoint_pages) = match policy {
            LockPolicy::Interactive => (Duration::from_millis(250), LATE_CHECKPOINT_PAGES),
            LockPolicy::Background => (Duration::from_secs(1), CHECKPOINT_PAGES),
        };
        let options = DatabaseOptions {
            busy_timeout,
            is_durable: false,
            wal_autocheckpoint: Some(checkpoint_pages),
            refuses_damaged_log: true,
        };
        let opened = retrying(|| {
            sqlite::open(&path, schema::MIGRATIONS, options).map_err(|cause| match cause {
                DatabaseOpenError::Sqlite(cause) => explain(&path, cause),
                log @ DatabaseOpenError::DamagedLog => StoreError::Damaged { path: path.clone(), cause: log.to_string() },
                newer @ DatabaseOpenError::Newer { .. } => StoreError::Open { path: path.clone(), cause: newer },
            })
        });
        Ok(Self::of(opened?, path))
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
        refuse_damaged_log(&path)?;
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let opened = sqlite::open_file(&path, flags).and_then(|mut db| {
            sqlite::wait_for_locks(&mut db, READER_BUSY_TIMEOUT)?;
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
            _ => Ok(Some(Self::of(db, path))),
        }
    }

    /// Opens the archive in a folder read-only, whatever the checksums of its pages say.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn open_unverified(folder: &Path) -> Result<Self, StoreError> {
        let path = folder.join(Self::FILE);
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let db = sqlite::open_unverified(&path, flags).map_err(|cause| explain(&path, cause))?;
        Ok(Self::of(db, path))
    }

    fn of(db: Connection, path: PathBuf) -> Self {
        Self {
            db,
            path,
            unpacked: None,
            unpacker: Unpacker::default(),
            keeps_private: false,
            watch: TombstoneWatch::default(),
            _presence: None,
        }
    }

    /// Holds a lock while the archive is open.
    pub fn holding(self, presence: Option<File>) -> Self {
        Self { _presence: presence, ..self }
    }

    /// Archives what the user marked as private, or not.
    pub fn keeping_private(self, keeps_private: bool) -> Self {
        Self { keeps_private, ..self }
    }

    /// Skips cold files, as if they were missing. For hooks: a mounted bucket may be slow.
    pub fn leaving_cold(mut self) -> Self {
        self.unpacker.leaves_cold = true;
        self
    }

    /// `false` for an archive in memory.
    fn is_in_file(&self) -> bool {
        self.db.path().is_some_and(|path| !path.is_empty())
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Gives the pages of an archive from before there were checksums theirs, by rewriting it. Does nothing where others are using it.
    ///
    /// # Errors
    /// If it cannot be rewritten.
    pub fn add_page_sums(&mut self) -> Result<bool, StoreError> {
        match self.query(sqlite::add_sums) {
            Err(StoreError::Busy { .. } | StoreError::Full { .. }) => Ok(false),
            done => done,
        }
    }

    /// Checks the whole file for damage.
    ///
    /// # Errors
    /// If there is some.
    pub fn integrity_check(&mut self) -> Result<(), StoreError> {
        let found: String = self.query(|db| db.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0)))?;
        if found == "ok" { Ok(()) } else { Err(StoreError::Damaged { path: self.path.clone(), cause: found }) }
    }

    /// Checks the file for damage, but does not compare indexes with tables, which is faster.
    ///
    /// # Errors
    /// If there is some.
    pub fn quick_check(&mut self) -> Result<(), StoreError> {
        let found: String = self.query(|db| db.query_row("PRAGMA quick_check(1)", [], |row| row.get(0)))?;
        if found == "ok" { Ok(()) } else { Err(StoreError::Damaged { path: self.path.clone(), cause: found }) }
    }

    /// Returns the usage of turns' entries that were restored, or whose confidence differs from that of a new one, by the hash of
    /// their content.
    pub(crate) fn entry_usage(&mut self) -> Result<Vec<(digest::Sha256Digest, ImportedUsage)>, StoreError> {
        self.query(imported::entry_usage)
    }

    /// Returns the usage of the turns' entry with this content.
    pub(crate) fn usage_of(&mut self, content: &digest::Sha256Digest) -> Result<Option<ImportedUsage>, StoreError> {
        self.query(|db| imported::usage_of(db, content))
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

/// SQLite would take a damaged frame of the log for its end, and write over what follows.
fn refuse_damaged_log(path: &Path) -> Result<(), StoreError> {
    match DatabaseLog::open(path) {
        Ok(Some(log)) if log.damaged() > 0 => {
            Err(StoreError::Damaged { path: path.to_owned(), cause: DatabaseOpenError::DamagedLog.to_string() })
        }
        // What cannot be read here cannot be opened either, and that is told better there.
        Ok(_) | Err(_) => Ok(()),
    }
}

fn retrying<T>(mut work: impl FnMut() -> Result<T, StoreError>) -> Result<T, StoreError> {
    let mut pause = FIRST_PAUSE;
    for _ in 0..RETRIES {
        match work() {
            Err(error) if error.is_busy() && !ctxbridge_common::lock_deadline::has_passed() => std::thread::sleep(pause),
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
        _ if sqlite::is_page_damage(&cause) => {
            StoreError::Damaged { path, cause: "the checksum of a page does not fit".to_owned() }
        }
        _ if sqlite::is_damage(&cause) => StoreError::Damaged { path, cause: cause.to_string() },
        // Who replaced the file by a folder has to be told the same.
        Some(ErrorCode::CannotOpen) if path.is_dir() => StoreError::Damaged { path, cause: "it is a folder".to_owned() },
        Some(ErrorCode::DiskFull) => StoreError::Full { path },
        Some(ErrorCode::SystemIoFailure) => StoreError::Disk { path, cause },
        _ => StoreError::Sqlite { path, cause },
    }
}

/// A store whose tables are in an open SQLite database. It reads from there, whatever its writes do.
pub trait SqliteQueries {
    /// Runs a query.
    ///
    /// # Errors
    /// If the database cannot be read.
    fn query<T>(&mut self, work: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, StoreError>;
}

impl SqliteQueries for SqliteStore {
    fn query<T>(&mut self, work: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        work(&self.db).map_err(|cause| explain(&self.path, cause))
    }
}

impl ProjectStore for SqliteStore {}

impl Store for SqliteStore {}

impl StoreReader for SqliteStore {
    fn kind(&self) -> StoreKind {
        StoreKind::Sqlite
    }

    fn location(&self) -> String {
        self.path.display().to_string()
    }

    fn blanks(&mut self) -> Result<Blanks, StoreError> {
        // One in memory answers for another store.
        let folder = self.path.parent().filter(|_| self.is_in_file());
        if let Some(folder) = folder {
            self.watch.begin(folder);
        }
        let tombstones = folder.map_or_else(|| Ok(Tombstones::default()), Tombstones::read)?;
        Ok(Blanks { tombstones, keeps_private: self.keeps_private })
    }

    fn totals(&mut self) -> Result<ArchiveTotals, StoreError> {
        self.query(sessions::totals)
    }
}
