//! Opening the index, and replacing one that cannot be used.

use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, OpenFlags, ffi};

use super::scored::ScoredEntries;
use super::tables::{TABLES, WordTable};
use super::{FILE, INDEX_WRITE_TIMEOUT, SearchError, SearchIndex, failed};
use crate::search::tokens::{self, Tokenizer};
use crate::store::sqlite::SqliteStore;
use ctxbridge_common::files;
use ctxbridge_common::sqlite::{self, DatabaseOptions};

/// Name of the lock that is held while a broken index is removed.
const INDEX_LOCK_FILE: &str = "search.lock";

/// Size of SQLite's page cache, in KiB (which the minus says to SQLite). A common word is in some thousand pages. Mapping the file
/// instead gains nothing for a process that ends after one search: the pages that it has touched have to be unmapped.
const CACHE_SIZE: i64 = -32_000;

/// Steps of SQLite's virtual machine between two checks of the deadline.
const DEADLINE_CHECK_STEPS: i32 = 2_000;

const SCHEMA: &str = "
CREATE TABLE notes (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
INSERT INTO notes (key, value) VALUES ('identity', lower(hex(randomblob(16))));
CREATE TABLE docs (
    entry INTEGER PRIMARY KEY,
    sha256 BLOB NOT NULL,
    side_revision INTEGER NOT NULL,
    is_embedded INTEGER NOT NULL DEFAULT 0
) STRICT;
-- To count them at every search would mean to read them all.
INSERT INTO notes (key, value) VALUES ('docs', '0');
CREATE TRIGGER doc_added AFTER INSERT ON docs BEGIN UPDATE notes SET value = value + 1 WHERE key = 'docs'; END;
CREATE TRIGGER doc_gone AFTER DELETE ON docs BEGIN UPDATE notes SET value = value - 1 WHERE key = 'docs'; END;
CREATE INDEX docs_without_vectors ON docs (entry) WHERE is_embedded = 0;
CREATE TABLE excerpts (entry INTEGER PRIMARY KEY, data BLOB NOT NULL) STRICT;
-- An id is never given away twice, so that what is derived from vectors knows which are new.
CREATE TABLE vectors (id INTEGER PRIMARY KEY AUTOINCREMENT, entry INTEGER NOT NULL, data BLOB NOT NULL) STRICT;
CREATE INDEX vectors_by_entry ON vectors (entry);
";

impl SearchIndex {
    /// Opens the index of a data folder, or creates one. An index that is damaged or of another version is replaced.
    ///
    /// # Errors
    /// If it cannot be opened, or the archive beside it cannot.
    pub fn open(data: &Path) -> Result<Self, SearchError> {
        match Self::try_open(data) {
            Err(error) if is_broken(&error) => {
                let _alone = lock(data);
                // Whoever had the lock before may have made a new one.
                match Self::try_open(data) {
                    Err(error) if is_broken(&error) => {
                        remove(data);
                        Self::try_open(data).map(|index| Self { is_replaced: true, ..index })
                    }
                    opened => opened,
                }
            }
            opened => opened,
        }
    }

    /// Opens the index of a data folder for reading, if there is a usable one; nothing is written.
    ///
    /// # Errors
    /// If another process has it locked.
    pub fn open_existing(data: &Path, timeout: Duration) -> Result<Option<Self>, SearchError> {
        let path = data.join(FILE);
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let work = || {
            let mut db = sqlite::open_file(&path, flags)?;
            sqlite::wait_for_locks(&mut db, timeout)?;
            let mut index = Self::of(db, &path)?;
            index.begin(data).map(|()| index)
        };
        match work().map_err(|cause| failed(&path, cause)) {
            Ok(index) => Ok(Some(index)),
            Err(busy @ SearchError::Busy { .. }) => Err(busy),
            Err(_) => Ok(None),
        }
    }

    fn of(db: Connection, path: &Path) -> rusqlite::Result<Self> {
        let scored = ScoredEntries::of(&db)?;
        let path = path.to_owned();
        Ok(Self { db, path, tokenizer: Tokenizer::default(), scored, matrix: None, nearest: None, is_replaced: false })
    }

    /// `true` if an unusable index was replaced when this one was opened; `true` only once.
    pub fn take_is_replaced(&mut self) -> bool {
        std::mem::take(&mut self.is_replaced)
    }

    /// To be called after an error of this index: replaces it by a new one if it is broken. Returns `None` if it is not, and
    /// something else failed.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn replace_if_broken(self, data: &Path, error: &SearchError) -> Result<Option<Self>, SearchError> {
        let is_broken = is_broken(error) && !(is_corrupt(error) && self.is_sound());
        let identity = self.note("identity").ok().flatten();
        drop(self);
        if !is_broken {
            return Ok(None);
        }
        let alone = lock(data);
        let now = Self::try_open(data).ok().and_then(|index| index.note("identity").ok().flatten());
        // Another process has met the same, and was first.
        if now.is_none() || now == identity {
            remove(data);
        }
        drop(alone);
        Self::open(data).map(Some)
    }

    fn try_open(data: &Path) -> Result<Self, SearchError> {
        let path = data.join(FILE);
        let failed = |cause| failed(&path, cause);
        let options = DatabaseOptions {
            busy_timeout: INDEX_WRITE_TIMEOUT,
            is_durable: false,
            wal_autocheckpoint: None,
            refuses_damaged_log: false,
        };
        let db = sqlite::open(&path, &[SCHEMA], options).map_err(|error| match error {
            sqlite::DatabaseOpenError::Sqlite(cause) => failed(cause),
            // A newer version's index is no use to this one.
            sqlite::DatabaseOpenError::Newer { .. } | sqlite::DatabaseOpenError::DamagedLog => failed(damage()),
        })?;
        let mut index = Self::of(db, &path).map_err(failed)?;
        index.begin(data).map_err(failed)?;
        Ok(index)
    }

    fn begin(&mut self, data: &Path) -> rusqlite::Result<()> {
        self.db.pragma_update(None, "cache_size", CACHE_SIZE)?;
        self.attach_archive(data)?;
        let ranks = TABLES.map(WordTable::rank);
        let tables = TABLES.map(WordTable::schema).concat();
        let version =
            format!("{} {:08x}", tokens::VERSION, crc32fast::hash(format!("{SCHEMA}{tables}{}", ranks.join(" ")).as_bytes()));
        match self.note("version")? {
            Some(found) if found == version => Ok(()),
            None if !self.db.is_readonly("main")? => {
                self.db.execute_batch(&tables)?;
                for (WordTable { name, .. }, rank) in TABLES.into_iter().zip(ranks) {
                    self.db.execute(&format!("INSERT INTO {name} ({name}, rank) VALUES ('rank', ?1)"), [rank])?;
                }
                self.set_note("version", &version)
            }
            _ => Err(damage()),
        }
    }

    fn attach_archive(&self, data: &Path) -> rusqlite::Result<()> {
        let archive = data.join(SqliteStore::FILE);
        // SQLite would make one, and let everybody read it.
        if !archive.exists() {
            return Err(rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_CANTOPEN), None));
        }
        sqlite::refuse_pipes(&archive)?;
        self.db.execute("ATTACH DATABASE ?1 AS archive", [archive.to_string_lossy()]).map(drop)
    }

    /// `true` if SQLite finds nothing wrong with the file; the damage is then in the archive.
    fn is_sound(&self) -> bool {
        let checked = self.db.query_row("PRAGMA main.quick_check(1)", [], |row| row.get::<_, String>(0));
        checked.is_ok_and(|said| said == "ok")
    }

    /// Checks the integrity of the word index and of the file.
    ///
    /// # Errors
    /// If it is damaged.
    pub fn check_integrity(&mut self) -> Result<(), SearchError> {
        let work = || {
            for WordTable { name, .. } in TABLES {
                self.db.execute(&format!("INSERT INTO {name} ({name}) VALUES ('integrity-check')"), [])?;
            }
            if self.is_sound() { Ok(()) } else { Err(damage()) }
        };
        self.wrap_error(work())
    }

    /// Detaches the archive, for a process that keeps the index open while it is idle: a damaged archive is only moved while nobody
    /// has it open. Only [`Self::attach`] makes sense then.
    ///
    /// # Errors
    /// As everything here: if the index cannot be read or written.
    pub fn detach(&mut self) -> Result<(), SearchError> {
        self.wrap_error(self.db.execute_batch("DETACH DATABASE archive"))
    }

    /// Attaches the archive again; it may be another one now.
    ///
    /// # Errors
    /// As [`Self::detach`].
    pub fn attach(&mut self, data: &Path) -> Result<(), SearchError> {
        self.wrap_error(self.attach_archive(data))
    }

    /// Sets a deadline for all later work, which fails after it; for a caller that cannot wait.
    ///
    /// # Errors
    /// As [`Self::detach`].
    pub fn set_deadline(&mut self, deadline: Option<Instant>) -> Result<(), SearchError> {
        let is_late = deadline.map(|deadline| move || Instant::now() > deadline);
        let set = self.db.progress_handler(DEADLINE_CHECK_STEPS, is_late);
        self.wrap_error(set)
    }
}

/// Locks the index. Where locks are not possible, there is none: two processes that start at the same time make the same index.
fn lock(data: &Path) -> Option<File> {
    let file = files::open_lock(data.join(INDEX_LOCK_FILE)).ok()?;
    files::lock_within(&file, File::try_lock, INDEX_WRITE_TIMEOUT).ok()?;
    Some(file)
}

/// Removes the index. If that fails, the error shows when it is opened again.
fn remove(data: &Path) {
    for suffix in ["", "-wal", "-shm"] {
        fs::remove_file(data.join(format!("{FILE}{suffix}"))).ok();
    }
}

fn damage() -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_NOTADB), None)
}

/// `true` if an index with this error has to be replaced. All statements are fixed, so one that is not understood means that a
/// table has changed.
fn is_broken(error: &SearchError) -> bool {
    let SearchError::Index { cause, .. } = error else { return false };
    match cause {
        rusqlite::Error::SqliteFailure(code, _) => {
            sqlite::is_damage(cause) || matches!(code.code, ErrorCode::Unknown | ErrorCode::TypeMismatch)
        }
        rusqlite::Error::SqlInputError { .. } => true,
        other => other.sqlite_error_code().is_none(),
    }
}

/// `true` if the damage may be in the archive, which is attached. Damage that the word index finds in itself is not.
fn is_corrupt(error: &SearchError) -> bool {
    let SearchError::Index { cause: cause @ rusqlite::Error::SqliteFailure(code, _), .. } = error else { return false };
    sqlite::is_damage(cause) && code.code != ErrorCode::NotADatabase && code.extended_code != ffi::SQLITE_CORRUPT_VTAB
}
