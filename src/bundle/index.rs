/*!
The words of a project's bundles, so that a prompt need not wait until thousands of files are read.

A database in the data folder, one for each project. It is a cache: it can be deleted at any time, and is rebuilt if it is
damaged. The tokenizer and the weights of words are the archive's, so scores compare with those of the archive.

Hooks bring it up to date within a deadline. The rest is read in the background.
*/

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use rusqlite::{Connection, OptionalExtension, Transaction, params};

use super::bundle_paths::{hour_prefix, session_of};
use super::read::{self, BundleFile, Skipped};
use super::{BundlePathError, Bundles, Episode};
use ctxbridge_archive::search::query::QueryTerms;
use ctxbridge_archive::search::tokens::Tokenizer;
use ctxbridge_common::digest;
use ctxbridge_common::paths;
use ctxbridge_common::sqlite::{self, DatabaseOpenError, DatabaseOptions};

/// The folder of these databases in the data folder.
pub(crate) const CACHE_FOLDER: &str = "bundles";

/// Number of files that are read between two checks of the deadline.
const FILES_PER_DEADLINE_CHECK: usize = 8;

/// Pages (4 KiB each) in the write-ahead log after which a commit checkpoints. Closing does not, so that a prompt does not wait for the
/// disk; but every prompt reads the log first, so it is kept short.
const CHECKPOINT_PAGES: u32 = 200;

/// A change of what is kept, or of how the tokenizer cuts words, is a new entry that forgets all files.
const MIGRATIONS: [&str; 3] = [
    "
CREATE TABLE notes (key TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT;
CREATE TABLE files (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, bytes INTEGER NOT NULL, changed INTEGER NOT NULL,
    skipped INTEGER NOT NULL
) STRICT;
CREATE TABLE episodes (
    id INTEGER PRIMARY KEY, file INTEGER NOT NULL REFERENCES files, session TEXT NOT NULL, at INTEGER, data TEXT NOT NULL
) STRICT;
CREATE INDEX episodes_of_file ON episodes (file);
CREATE VIRTUAL TABLE words USING fts5(text, content = '', contentless_delete = 1, tokenize = \"ascii tokenchars '_'\");
",
    "
DELETE FROM words;
DELETE FROM episodes;
DELETE FROM files;
DELETE FROM notes;
ALTER TABLE episodes ADD COLUMN telling INTEGER NOT NULL DEFAULT 1;
CREATE INDEX telling_episodes ON episodes (id) WHERE telling = 1;
",
    // Words of all languages.
    "
DELETE FROM words;
DELETE FROM episodes;
DELETE FROM files;
DELETE FROM notes;
",
];

/// An index that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// The bundles cannot be read.
    #[error(transparent)]
    Place(#[from] BundlePathError),
    /// The cache cannot be opened or written.
    #[error("the cache of bundles {}: {cause}; it can be deleted", path.display())]
    Cache {
        /// The file.
        path: PathBuf,
        /// The cause.
        cause: DatabaseOpenError,
    },
}

/// The files that a refresh checks for changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefreshScope {
    /// All files.
    All,
    /// Files that were added or removed, and those of this hour and the one before, which may still be written. For callers that
    /// must not wait.
    Newest,
}

/// Report on a refresh.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BundleRefreshReport {
    /// Files that were read.
    pub read: usize,
    /// Files that remain to be read.
    pub left: usize,
}

/// The index of one project.
pub struct BundleIndex {
    path: PathBuf,
    db: Connection,
    tokenizer: Tokenizer,
}

impl std::fmt::Debug for BundleIndex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Index").field("path", &self.path).finish_non_exhaustive()
    }
}

impl BundleIndex {
    /// Opens the index of these bundles in a data folder, or creates it.
    ///
    /// # Errors
    /// If it can be neither opened nor rebuilt.
    pub fn open(data: &Path, bundles: &Bundles, timeout: Duration) -> Result<Self, IndexError> {
        let folder = data.join(CACHE_FOLDER);
        let name = digest::of_bytes(bundles.folder().as_os_str().as_encoded_bytes())[..32].to_owned();
        let path = folder.join(name).with_extension("db");
        let failed = |cause| IndexError::Cache { path: path.clone(), cause };
        paths::create_private_dir(&folder).map_err(|error| failed(DatabaseOpenError::Sqlite(as_sqlite(&error))))?;
        // Whatever is lost in a crash is read again.
        let options = DatabaseOptions {
            busy_timeout: timeout,
            is_durable: false,
            wal_autocheckpoint: Some(CHECKPOINT_PAGES),
            refuses_damaged_log: false,
        };
        let db = match sqlite::open(&path, &MIGRATIONS, options) {
            Err(error) if must_be_rebuilt(&error) => {
                for end in ["", "-wal", "-shm"] {
                    fs::remove_file(format!("{}{end}", path.display())).ok();
                }
                sqlite::open(&path, &MIGRATIONS, options).map_err(failed)?
            }
            opened => opened.map_err(failed)?,
        };
        Ok(Self { path, db, tokenizer: Tokenizer::default() })
    }

    /// Reads new and changed files, the newest first, until a deadline. The files of the session `but` may be left for later,
    /// since a session is not shown its own work.
    ///
    /// # Errors
    /// If the bundles cannot be listed, or the cache cannot be written.
    pub fn refresh(
        &mut self,
        bundles: &Bundles,
        thoroughness: RefreshScope,
        deadline: Option<Instant>,
        but: Option<&str>,
    ) -> Result<BundleRefreshReport, IndexError> {
        let folder = fs::metadata(bundles.folder()).and_then(|metadata| metadata.modified()).map_or(0, read::nanoseconds);
        let is_thorough = thoroughness == RefreshScope::All;
        let is_known = !is_thorough && self.note("folder")? == Some(folder);
        let mut stale = if is_thorough { self.stale(bundles, deadline.is_none())? } else { self.recently_written(bundles, but)? };
        if !is_thorough && !is_known {
            stale.extend(self.unknown(bundles)?);
        }
        stale.sort_by(|one, other| other.changed.cmp(&one.changed).then_with(|| other.name.cmp(&one.name)));
        let mut refreshed = BundleRefreshReport { read: 0, left: stale.len() };
        if stale.is_empty() && is_known {
            return Ok(refreshed);
        }
        let (path, tokenizer) = (self.path.clone(), &self.tokenizer);
        let failed = |cause: rusqlite::Error| IndexError::Cache { path: path.clone(), cause: cause.into() };
        let transaction = self.db.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).map_err(failed)?;
        for some in stale.chunks(FILES_PER_DEADLINE_CHECK) {
            if deadline.is_some_and(|deadline| Instant::now() > deadline) {
                break;
            }
            for file in some {
                // One that went meanwhile, or may not be read, is no reason to have none.
                let bundle = read::read(bundles, &file.name).unwrap_or_default();
                take_in(&transaction, tokenizer, file, bundle).map_err(failed)?;
            }
            refreshed.read += some.len();
            refreshed.left -= some.len();
        }
        // Files are looked at again where some are missing, and where one may have come while this looked.
        let noted = if refreshed.left == 0 { folder } else { 0 };
        transaction
            .execute("INSERT INTO notes (key, value) VALUES ('folder', ?1) ON CONFLICT (key) DO UPDATE SET value = ?1", [noted])
            .map_err(failed)?;
        transaction.commit().map_err(failed)?;
        if deadline.is_none() {
            // Nobody waits for this one. The log of many files is long, and stays until somebody writes again.
            self.db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).ok();
        }
        Ok(refreshed)
    }

    /// Files of this hour and the one before that were written since they were read. Those of the session `but` may be left for
    /// later.
    fn recently_written(&self, bundles: &Bundles, but: Option<&str>) -> Result<Vec<BundleFile>, IndexError> {
        let now = Timestamp::now();
        let mut known = HashMap::new();
        for at in [now, now - SignedDuration::from_hours(1)] {
            known.extend(self.files(&hour_prefix(at))?);
        }
        let wanted = known.keys().filter(|name| but.is_none() || session_of(name) != but);
        let now = wanted.filter_map(|name| BundleFile::now(bundles, name));
        Ok(now.filter(|file| known.get(&file.name) != Some(&(file.bytes, file.changed))).collect())
    }

    /// Files with unknown names. Files that are gone are removed from the index. Only names are compared, since checking each
    /// file takes long.
    fn unknown(&mut self, bundles: &Bundles) -> Result<Vec<BundleFile>, IndexError> {
        let mut known = self.files("")?;
        let mut unknown = Vec::new();
        for name in read::names(bundles)? {
            if known.remove(&name).is_none() {
                unknown.extend(BundleFile::now(bundles, &name));
            }
        }
        self.forget_all(known.into_keys()).map(|()| unknown)
    }

    /// All files that changed since they were read. Files that are gone are removed from the index.
    fn stale(&mut self, bundles: &Bundles, must_forget: bool) -> Result<Vec<BundleFile>, IndexError> {
        let mut known = self.files("")?;
        let mut stale = read::list(bundles)?;
        stale.retain(|file| known.remove(&file.name) != Some((file.bytes, file.changed)));
        match self.forget_all(known.into_keys()) {
            Err(error) if must_forget => Err(error),
            _ => Ok(stale),
        }
    }

    fn forget_all(&mut self, mut names: impl ExactSizeIterator<Item = String>) -> Result<(), IndexError> {
        if names.len() == 0 {
            return Ok(());
        }
        let mut work = || -> rusqlite::Result<()> {
            let transaction = self.db.transaction()?;
            names.try_for_each(|name| forget(&transaction, &name))?;
            transaction.commit()
        };
        let done = work();
        self.try_to(done)
    }

    /// The known files whose names begin with a prefix, with their bytes and times of change.
    fn files(&self, begin: &str) -> Result<HashMap<String, (u64, i64)>, IndexError> {
        let work = || {
            let mut statement = self
                .db
                .prepare_cached("SELECT name, bytes, changed FROM files WHERE name >= ?1 AND name < ?1 || char(0x10ffff)")?;
            let rows =
                statement.query_map([begin], |row| Ok((row.get(0)?, (row.get::<_, i64>(1)?.cast_unsigned(), row.get(2)?))))?;
            rows.collect()
        };
        self.try_to(work())
    }

    fn note(&self, key: &str) -> Result<Option<i64>, IndexError> {
        self.try_to(self.db.query_row("SELECT value FROM notes WHERE key = ?1", [key], |row| row.get(0)).optional())
    }

    /// Numbers of files, episodes, and lines that could not be read.
    ///
    /// # Errors
    /// If the cache cannot be read, as everywhere below.
    pub fn totals(&self) -> Result<(u64, u64, u64), IndexError> {
        let sql = "SELECT count(*), (SELECT count(*) FROM episodes), coalesce(sum(skipped), 0) FROM files";
        let number = |row: &rusqlite::Row<'_>, at| row.get::<_, i64>(at).map(i64::cast_unsigned);
        self.try_to(self.db.query_row(sql, [], |row| Ok((number(row, 0)?, number(row, 1)?, number(row, 2)?))))
    }

    /// Number of episodes that say something.
    ///
    /// # Errors
    /// As [`Self::totals`].
    pub fn count(&self) -> Result<u64, IndexError> {
        let sql = "SELECT count(*) FROM episodes WHERE telling = 1";
        self.try_to(self.db.query_row(sql, [], |row| row.get(0).map(i64::cast_unsigned)))
    }

    /// At most `most` episodes that have a word, as the tokenizer cuts it.
    ///
    /// # Errors
    /// As [`Self::totals`].
    pub fn episodes_with_word(&self, word: &str, most: usize) -> Result<Vec<i64>, IndexError> {
        let work = || {
            let mut statement = self.db.prepare_cached("SELECT rowid FROM words WHERE words MATCH ?1 LIMIT ?2")?;
            let rows = statement.query_map(params![format!("\"{word}\""), most as i64], |row| row.get(0))?;
            rows.collect()
        };
        self.try_to(work())
    }

    /// These episodes, with the scores that these words give them.
    ///
    /// # Errors
    /// As [`Self::totals`].
    pub fn scored(&self, terms: &QueryTerms, of: &[i64]) -> Result<Vec<(i64, Episode, f64)>, IndexError> {
        let Some(expression) = terms.expression(&[]) else { return Ok(Vec::new()) };
        let work = || -> rusqlite::Result<Vec<(i64, Episode, f64)>> {
            // The plus keeps SQLite from looking for each of them on its own.
            let mut statement = self.db.prepare_cached(
                "SELECT session, at, data, -rank, words.rowid FROM words JOIN episodes ON id = words.rowid
                 WHERE words MATCH ?1 AND +words.rowid IN (SELECT value FROM json_each(?2))",
            )?;
            let mut rows = statement.query(params![expression, serde_json::to_string(of).unwrap_or_default()])?;
            let mut found = Vec::new();
            while let Some(row) = rows.next()? {
                if let Some(episode) = episode(row)? {
                    found.push((row.get(4)?, episode, row.get(3)?));
                }
            }
            Ok(found)
        };
        self.try_to(work())
    }

    /// The best episodes by words, with their scores (BM25; more is better), the best first.
    ///
    /// # Errors
    /// As [`Self::totals`].
    pub fn search(&self, terms: &QueryTerms, limit: usize) -> Result<Vec<(Episode, f64)>, IndexError> {
        let Some(expression) = terms.expression(&[]) else { return Ok(Vec::new()) };
        let work = || -> rusqlite::Result<Vec<(Episode, f64)>> {
            let mut statement = self.db.prepare_cached(
                "SELECT session, at, data, -rank FROM words JOIN episodes ON id = words.rowid WHERE words MATCH ?1 ORDER BY rank LIMIT ?2",
            )?;
            let mut rows = statement.query(params![expression, limit as i64])?;
            let mut found = Vec::new();
            while let Some(row) = rows.next()? {
                found.extend(episode(row)?.map(|episode| row.get(3).map(|score| (episode, score))).transpose()?);
            }
            Ok(found)
        };
        self.try_to(work())
    }

    /// All episodes, in order of time, of sessions whose id begins with `session`, and not before a time.
    ///
    /// # Errors
    /// As [`Self::totals`].
    pub fn episodes(&self, session: &str, since: Option<Timestamp>) -> Result<Vec<Episode>, IndexError> {
        let work = || -> rusqlite::Result<Vec<Episode>> {
            let mut statement = self.db.prepare_cached(
                "SELECT session, at, data FROM episodes WHERE substr(session, 1, length(?1)) = ?1 AND (?2 IS NULL OR at >= ?2)",
            )?;
            let mut rows = statement.query(params![session, since.map(Timestamp::as_second)])?;
            let mut found = Vec::new();
            while let Some(row) = rows.next()? {
                found.extend(episode(row)?);
            }
            Ok(found)
        };
        self.try_to(work()).map(Episode::unique)
    }

    /// The tokenizer.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    fn try_to<T>(&self, result: rusqlite::Result<T>) -> Result<T, IndexError> {
        result.map_err(|cause| IndexError::Cache { path: self.path.clone(), cause: cause.into() })
    }
}

fn take_in(db: &Transaction<'_>, tokenizer: &Tokenizer, file: &BundleFile, bundle: read::ParsedBundle) -> rusqlite::Result<()> {
    forget(db, &file.name)?;
    let Skipped { lines, .. } = bundle.skipped;
    db.prepare_cached("INSERT INTO files (name, bytes, changed, skipped) VALUES (?1, ?2, ?3, ?4)")?.execute(params![
        file.name,
        file.bytes.cast_signed(),
        file.changed,
        lines as i64
    ])?;
    let id = db.last_insert_rowid();
    // Lines without a time are as old as their file.
    let changed = Timestamp::from_nanosecond(file.changed.into()).ok();
    for episode in bundle.episodes {
        let at = episode.at.or(changed);
        let text = episode.texts().map(|text| tokenizer.join(text)).collect::<Vec<_>>().join(" ");
        // What says nothing is shown to whoever looks at all of it, and found by nobody.
        let tells = !episode.is_trivial();
        db.prepare_cached("INSERT INTO episodes (file, session, at, telling, data) VALUES (?1, ?2, ?3, ?4, ?5)")?.execute(
            params![
                id,
                episode.summary.session.clone(),
                at.map(Timestamp::as_second),
                tells,
                Episode { at, ..episode }.to_line().to_json()
            ],
        )?;
        let episode = db.last_insert_rowid();
        if !tells {
            continue;
        }
        db.prepare_cached("INSERT INTO words (rowid, text) VALUES (?1, ?2)")?.execute(params![episode, text])?;
    }
    Ok(())
}

fn forget(db: &Transaction<'_>, name: &str) -> rusqlite::Result<()> {
    let known: Option<i64> =
        db.prepare_cached("SELECT id FROM files WHERE name = ?1")?.query_row([name], |row| row.get(0)).optional()?;
    let Some(id) = known else { return Ok(()) };
    for sql in [
        "DELETE FROM words WHERE rowid IN (SELECT id FROM episodes WHERE file = ?1)",
        "DELETE FROM episodes WHERE file = ?1",
        "DELETE FROM files WHERE id = ?1",
    ] {
        db.prepare_cached(sql)?.execute([id])?;
    }
    Ok(())
}

fn episode(row: &rusqlite::Row<'_>) -> rusqlite::Result<Option<Episode>> {
    let (session, data): (String, String) = (row.get(0)?, row.get(2)?);
    Ok(read::parse(&session, data.as_bytes()).episodes.pop())
}

/// `true` if the database is damaged or of a newer version. It is only a cache, and can be rebuilt.
fn must_be_rebuilt(error: &DatabaseOpenError) -> bool {
    match error {
        DatabaseOpenError::Newer { .. } | DatabaseOpenError::DamagedLog => true,
        DatabaseOpenError::Sqlite(error) => sqlite::is_damage(error),
    }
}

fn as_sqlite(error: &std::io::Error) -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CANTOPEN), Some(error.to_string()))
}
