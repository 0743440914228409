/*!
The index: `search.db` beside the archive. Everything in it can be made again from the archive, so it is thrown away if it is
damaged or of another version.

Words are in FTS5 tables without content (`tables`). The index also has an excerpt of each entry ([`excerpt`]), so nothing has to
be unpacked to show it, and its vectors (`vectors`). An entry is indexed with the start of its hash, so growth is noticed. The
filter is evaluated on the archive's tables, which are attached.
*/

mod candidate_source;
mod entries;
pub mod excerpt;
mod lexical;
mod lexical_query;
mod opening;
mod scored;
mod tables;
mod vectors;
mod words;

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OptionalExtension, params_from_iter};

use super::SearchError;
use super::filter::Filter;
use super::tokens::Tokenizer;
use crate::store::StoreError;
use ctxbridge_vectors::Matrix;
use ctxbridge_vectors::ann::AnnFile;
use entries::HASH_BYTES;
pub use entries::{Document, UnindexedEntry};
use excerpt::Excerpt;
pub(super) use lexical::{BM25_K1, SMOOTHING, idf};
pub use lexical_query::{LexicalQuery, QueryTerm};
use scored::ScoredEntries;
pub use tables::OWN_COLUMNS;
pub(super) use tables::{TABLES, WordTable};
pub use vectors::ANN_FILE;

/// The name of the file in the data folder.
pub const FILE: &str = "search.db";

/// Time to wait for another process that writes.
pub const INDEX_WRITE_TIMEOUT: Duration = Duration::from_secs(2);

/// Pages of the word index that are merged at once after something was added.
const MERGED_PAGES: i64 = 500;

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
    scored: ScoredEntries,
    /// Vectors with an id above this, once they were read.
    matrix: Option<(i64, Matrix)>,
    /// The vectors up to that id.
    nearest: Option<AnnFile>,
    is_replaced: bool,
}

impl SearchIndex {
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
            self.note_frequent_words()?;
            self.db.query_row("PRAGMA main.wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
        };
        self.wrap_error(work())
    }

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
            self.drop_frequent_words()?;
            self.db.execute_batch("VACUUM main")?;
            self.db.query_row("PRAGMA main.wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, bool>(0))
        };
        match self.wrap_error(work())? {
            true => Err(SearchError::Busy { path: self.path.clone() }),
            false => Ok(()),
        }
    }
}

fn failed(path: &Path, cause: rusqlite::Error) -> SearchError {
    match cause.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => SearchError::Busy { path: path.to_owned() },
        _ => SearchError::Index { path: path.to_owned(), cause },
    }
}

impl From<StoreError> for SearchError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}
