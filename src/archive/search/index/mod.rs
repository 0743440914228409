/*!
The index: `search.db` beside the archive. Everything in it can be made again from the archive, so it is thrown away if it is
damaged or of another version.

Words are in FTS5 tables without content (`tables`). The index also has an excerpt of each entry ([`excerpt`]), so nothing has to
be unpacked to show it, and its vectors (`vectors`). An entry is indexed with the start of its hash, so growth is noticed. The
filter is evaluated on the archive's tables, which are attached.
*/

mod candidate_source;
pub mod excerpt;
mod lexical;
mod tables;
mod vectors;
mod words;

use std::collections::HashSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, Row, ffi, params, params_from_iter};

use super::SearchError;
use super::filter::Filter;
use super::tokens::{self, Tokenizer};
use crate::store::StoreError;
use crate::store::sqlite::SqliteStore;
use ctxbridge_common::files;
use ctxbridge_common::sqlite::{self, DatabaseOptions};
use ctxbridge_transcript::SearchableText;
use ctxbridge_vectors::Matrix;
use ctxbridge_vectors::ann::AnnFile;
use excerpt::Excerpt;
pub(super) use lexical::{BM25_K1, SMOOTHING, idf};
pub use lexical::{LexicalQuery, QueryTerm};
pub use tables::OWN_COLUMNS;
pub(super) use tables::{TABLES, WordTable};
pub use vectors::ANN_FILE;

/// The name of the file in the data folder.
pub const FILE: &str = "search.db";

/// Name of the lock that is held while a broken index is removed.
const INDEX_LOCK_FILE: &str = "search.lock";

/// Number of bytes of an entry's hash that are kept.
const HASH_BYTES: u8 = 8;

/// Time to wait for another process that writes.
pub const INDEX_WRITE_TIMEOUT: Duration = Duration::from_secs(2);

/// Size of SQLite's page cache, in KiB (which the minus says to SQLite). A common word is in some thousand pages. Mapping the file
/// instead gains nothing for a process that ends after one search: the pages that it has touched have to be unmapped.
const CACHE_SIZE: i64 = -32_000;

/// Pages of the word index that are merged at once after something was added.
const MERGED_PAGES: i64 = 500;

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

/// SQL for the entries that are not in the index as they are in the archive.
const MISSING: &str =
    "FROM archive.entries LEFT JOIN docs ON docs.entry = entries.id AND docs.sha256 = substr(entries.sha256, 1, ?1)
        AND docs.side_revision = entries.side_revision
    WHERE docs.entry IS NULL";

/// The indexed texts of an entry.
#[derive(Clone, Debug, Default)]
pub struct Document {
    /// The entry.
    pub entry: i64,
    /// SHA-256 of its content.
    pub sha256: Vec<u8>,
    /// Number of times that a side file came later than a turn which points to it.
    pub side_revision: i64,
    /// The texts of a turn.
    pub fields: SearchableText,
    /// Its files.
    pub files: Vec<String>,
    /// The text, when it is a compaction's summary.
    pub summary: String,
    /// The texts before a short turn.
    pub before: String,
    /// A one-line summary.
    pub line: String,
    /// `true` if its bytes are damaged, so that its text is not known.
    pub is_unreadable: bool,
}

impl Document {
    /// Returns the text of a column, `files` being that of its files.
    pub(super) fn text<'d>(&'d self, column: &str, files: &'d str) -> &'d str {
        match column {
            "prompt" => &self.fields.prompt,
            "answer" => &self.fields.answer,
            "input" => &self.fields.input,
            "output" => &self.fields.output,
            "files" => files,
            "summary" => &self.summary,
            "before" => &self.before,
            _ => "",
        }
    }
}

/// An entry that is to be indexed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnindexedEntry {
    /// Its id.
    pub entry: i64,
    /// SHA-256 of its content.
    pub sha256: Vec<u8>,
    /// Number of times that a side file came later than a turn which points to it.
    pub side_revision: i64,
    /// The text, when it is a compaction's summary.
    pub summary: Option<String>,
}

impl UnindexedEntry {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self { entry: row.get(0)?, sha256: row.get(1)?, summary: row.get(2)?, side_revision: row.get(3)? })
    }
}

/// The entries and turns that a filter lets through.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowedIds {
    /// Entries with at least one turn that is let through.
    pub entries: HashSet<i64>,
    /// The keys of the turns ([`crate::store::TurnLocation::key`]).
    pub turns: HashSet<i64>,
}

impl AllowedIds {
    /// Returns its newest entries.
    pub(super) fn newest(&self, most: usize) -> Vec<i64> {
        let mut newest: Vec<i64> = self.entries.iter().copied().collect();
        newest.sort_unstable_by(|one, other| other.cmp(one));
        newest.truncate(most);
        newest
    }
}

/// An open index.
#[derive(Debug)]
pub struct SearchIndex {
    db: Connection,
    path: PathBuf,
    tokenizer: Tokenizer,
    /// Vectors with an id above this, once they were read.
    matrix: Option<(i64, Matrix)>,
    /// The vectors up to that id.
    nearest: Option<AnnFile>,
    is_replaced: bool,
}

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
            let mut index = Self::of(db, &path);
            index.begin(data).map(|()| index)
        };
        match work().map_err(|cause| failed(&path, cause)) {
            Ok(index) => Ok(Some(index)),
            Err(busy @ SearchError::Busy { .. }) => Err(busy),
            Err(_) => Ok(None),
        }
    }

    fn of(db: Connection, path: &Path) -> Self {
        let path = path.to_owned();
        Self { db, path, tokenizer: Tokenizer::default(), matrix: None, nearest: None, is_replaced: false }
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
        let mut index = Self::of(db, &path);
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

    fn note(&self, key: &str) -> rusqlite::Result<Option<String>> {
        self.db.prepare_cached("SELECT value FROM main.notes WHERE key = ?1")?.query_row([key], |row| row.get(0)).optional()
    }

    fn set_note(&self, key: &str, value: &str) -> rusqlite::Result<()> {
        self.db.prepare_cached("INSERT OR REPLACE INTO main.notes (key, value) VALUES (?1, ?2)")?.execute([key, value]).map(drop)
    }

    fn wrap_error<T>(&self, result: rusqlite::Result<T>) -> Result<T, SearchError> {
        result.map_err(|cause| failed(&self.path, cause))
    }

    /// Returns the tokenizer that it was made with.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// Returns the state of the archive ([`crate::store::Changes::revision`]) of which nothing is missing.
    ///
    /// # Errors
    /// As [`Self::detach`].
    pub fn archive_revision(&self) -> Result<Option<String>, SearchError> {
        self.wrap_error(self.note("mark"))
    }

    /// Records that nothing of this state is missing.
    ///
    /// # Errors
    /// As [`Self::detach`].
    pub fn set_archive_revision(&mut self, mark: &str) -> Result<(), SearchError> {
        self.wrap_error(self.set_note("mark", mark))
    }

    /// Returns entries below an id that are not in the index as they are in the archive, the newest first.
    ///
    /// # Errors
    /// As [`Self::detach`].
    pub fn missing(&mut self, below: i64, limit: usize) -> Result<Vec<UnindexedEntry>, SearchError> {
        let work = || -> rusqlite::Result<Vec<UnindexedEntry>> {
            let sql = format!(
                "SELECT entries.id, entries.sha256, text, entries.side_revision {MISSING} AND entries.id < ?2 ORDER BY entries.id DESC LIMIT ?3"
            );
            self.db.prepare_cached(&sql)?.query_map(params![HASH_BYTES, below, limit as i64], UnindexedEntry::read)?.collect()
        };
        self.wrap_error(work())
    }

    /// Returns those of these entries that are not in the index as they are in the archive. Entries that the archive does not have
    /// are dropped.
    ///
    /// # Errors
    /// As [`Self::detach`].
    pub fn missing_among(&mut self, entries: &[i64]) -> Result<Vec<UnindexedEntry>, SearchError> {
        let mut gone = Vec::new();
        let mut work = || -> rusqlite::Result<Vec<UnindexedEntry>> {
            let mut exists = self.db.prepare_cached("SELECT 1 FROM archive.entries WHERE id = ?1")?;
            let sql = format!("SELECT entries.id, entries.sha256, text, entries.side_revision {MISSING} AND entries.id = ?2");
            let mut select = self.db.prepare_cached(&sql)?;
            let mut missing = Vec::new();
            for entry in entries {
                match select.query_row(params![HASH_BYTES, entry], UnindexedEntry::read).optional()? {
                    Some(one) => missing.push(one),
                    None if !exists.exists([entry])? => gone.push(*entry),
                    None => {}
                }
            }
            Ok(missing)
        };
        let missing = work();
        let missing = self.wrap_error(missing)?;
        self.drop_entries(&gone)?;
        Ok(missing)
    }

    /// Number of entries that are not in the index as they are in the archive.
    ///
    /// # Errors
    /// As [`Self::detach`].
    pub fn count_missing(&mut self) -> Result<u64, SearchError> {
        let counted = self.db.query_row(&format!("SELECT count(*) {MISSING}"), [HASH_BYTES], |row| row.get::<_, i64>(0));
        Ok(self.wrap_error(counted)?.cast_unsigned())
    }

    /// Drops entries that the archive no longer has.
    ///
    /// # Errors
    /// As [`Self::detach`].
    pub fn drop_gone(&mut self) -> Result<(), SearchError> {
        let work = || -> rusqlite::Result<Vec<i64>> {
            self.db
                .prepare("SELECT entry FROM docs WHERE NOT EXISTS (SELECT 1 FROM archive.entries WHERE id = docs.entry)")?
                .query_map([], |row| row.get(0))?
                .collect()
        };
        let gone = self.wrap_error(work())?;
        self.drop_entries(&gone)
    }

    fn drop_entries(&mut self, entries: &[i64]) -> Result<(), SearchError> {
        if entries.is_empty() {
            return Ok(());
        }
        self.matrix = None;
        let Self { db, .. } = self;
        let mut work = || -> rusqlite::Result<()> {
            let transaction = db.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
            for entry in entries {
                forget(&transaction, *entry)?;
                transaction.prepare_cached("DELETE FROM docs WHERE entry = ?1")?.execute([entry])?;
            }
            transaction.commit()
        };
        let done = work();
        self.wrap_error(done)
    }

    /// Adds or replaces entries, all or none.
    ///
    /// # Errors
    /// As [`Self::detach`].
    pub fn add(&mut self, documents: &[Document]) -> Result<(), SearchError> {
        let Self { db, tokenizer, .. } = self;
        let mut had_vectors = 0;
        let mut work = || -> rusqlite::Result<()> {
            let transaction = db.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
            for document in documents {
                had_vectors += forget(&transaction, document.entry)?;
                transaction
                    .prepare_cached(
                        "INSERT INTO docs (entry, sha256, side_revision) VALUES (?1, ?2, ?3)
                         ON CONFLICT (entry) DO UPDATE SET sha256 = excluded.sha256, side_revision = excluded.side_revision,
                            is_embedded = 0",
                    )?
                    .execute(params![
                        document.entry,
                        &document.sha256[..usize::from(HASH_BYTES).min(document.sha256.len())],
                        document.side_revision
                    ])?;
                transaction
                    .prepare_cached("INSERT INTO excerpts (entry, data) VALUES (?1, ?2)")?
                    .execute(params![document.entry, Excerpt::of(document).to_bytes()])?;
                words::add(&transaction, tokenizer, document)?;
            }
            transaction.commit()
        };
        let done = work();
        if had_vectors > 0 {
            self.matrix = None;
        }
        self.wrap_error(done)
    }

    /// Returns the excerpt of an entry.
    ///
    /// # Errors
    /// As [`Self::detach`].
    pub fn excerpt(&self, entry: i64) -> Result<Option<Excerpt>, SearchError> {
        let work = || -> rusqlite::Result<Option<Vec<u8>>> {
            self.db.prepare_cached("SELECT data FROM excerpts WHERE entry = ?1")?.query_row([entry], |row| row.get(0)).optional()
        };
        // One that cannot be read is as good as none.
        Ok(self.wrap_error(work())?.and_then(|data| Excerpt::from_bytes(&data)))
    }

    /// Returns the set that a filter lets through; `None` if it lets everything through.
    ///
    /// # Errors
    /// As [`Self::detach`].
    pub fn resolve_filter(&mut self, filter: &Filter) -> Result<Option<AllowedIds>, SearchError> {
        let folders = match filter.project {
            Some(_) => self.wrap_error(self.session_folders())?,
            None => Vec::new(),
        };
        let Some((condition, values)) = filter.to_sql_condition(&folders) else { return Ok(None) };
        let work = || -> rusqlite::Result<AllowedIds> {
            let mut allowed = AllowedIds::default();
            let mut statement = self.db.prepare_cached(&condition)?;
            let mut rows = statement.query(params_from_iter(values))?;
            while let Some(row) = rows.next()? {
                allowed.entries.insert(row.get(0)?);
                allowed.turns.extend(row.get::<_, Option<i64>>(1)?);
            }
            Ok(allowed)
        };
        self.wrap_error(work()).map(Some)
    }

    /// The folders of the archive's sessions.
    fn session_folders(&self) -> rusqlite::Result<Vec<String>> {
        let sql = "SELECT DISTINCT folder FROM archive.sessions WHERE folder IS NOT NULL";
        self.db.prepare_cached(sql)?.query_map([], |row| row.get(0))?.collect()
    }

    /// Moves the write-ahead log into the file and merges some segments of the word index. If `thoroughly`, all are merged, which
    /// writes as much as there is.
    ///
    /// # Errors
    /// As [`Self::detach`].
    pub fn optimize(&mut self, thoroughly: bool) -> Result<(), SearchError> {
        let work = || {
            for WordTable { name, .. } in TABLES {
                match thoroughly {
                    true => self.db.execute(&format!("INSERT INTO {name} ({name}) VALUES ('optimize')"), [])?,
                    false => {
                        self.db.execute(&format!("INSERT INTO {name} ({name}, rank) VALUES ('merge', ?1)"), [MERGED_PAGES])?
                    }
                };
            }
            self.db.query_row("PRAGMA main.wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
        };
        self.wrap_error(work())
    }
}

impl SearchIndex {
    /// Overwrites what is left of dropped entries: in the word lists, in free pages, in the log. The file of the nearest vectors goes;
    /// it is made anew.
    ///
    /// # Errors
    /// As [`Self::detach`].
    pub fn scrub(&mut self) -> Result<(), SearchError> {
        self.nearest = None;
        fs::remove_file(self.path.with_file_name(vectors::ANN_FILE)).ok();
        let work = || {
            for WordTable { name, .. } in TABLES {
                self.db.execute(&format!("INSERT INTO {name} ({name}) VALUES ('optimize')"), [])?;
            }
            self.db.execute_batch("VACUUM main")?;
            self.db.query_row("PRAGMA main.wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, bool>(0))
        };
        match self.wrap_error(work())? {
            true => Err(SearchError::Busy { path: self.path.clone() }),
            false => Ok(()),
        }
    }
}

/// Drops all data of an entry, except that it is indexed; returns the number of vectors it had.
fn forget(db: &Connection, entry: i64) -> rusqlite::Result<usize> {
    for WordTable { name, .. } in TABLES {
        db.prepare_cached(&format!("DELETE FROM {name} WHERE rowid = ?1"))?.execute([entry])?;
    }
    db.prepare_cached("DELETE FROM excerpts WHERE entry = ?1")?.execute([entry])?;
    db.prepare_cached("DELETE FROM vectors WHERE entry = ?1")?.execute([entry])
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

fn failed(path: &Path, cause: rusqlite::Error) -> SearchError {
    match cause.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => SearchError::Busy { path: path.to_owned() },
        _ => SearchError::Index { path: path.to_owned(), cause },
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

impl From<StoreError> for SearchError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}
