/*!
The index: `search.db` beside the archive. Everything in it can be made again from the archive, so it is thrown away where it is
damaged or of another version.

Words are in an FTS5 table without content: what is found is read from the archive. An entry is indexed with the begin of its hash, so
that one that grew since is noticed. Which entries may be found is decided where the archive's tables are, which are attached.
*/

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, params, params_from_iter};

use super::SearchError;
use super::filter::{Filter, Kind};
use super::query::Terms;
use super::tokens::Tokenizer;
use super::vectors::{Matrix, Quantized};
use crate::archive::store::StoreError;
use crate::archive::store::sqlite::SqliteStore;
use crate::sqlite::{self, Manners};
use crate::transcript::Fields;

/// The name of the file in the data folder.
pub const FILE: &str = "search.db";

/// How the index is made. With another one, it is made anew.
const VERSION: &str = "1";

/// The columns, and how much a word in each of them weighs: chosen with `cargo xtask bench retrieval`.
const COLUMNS: [(&str, f64); 6] =
    [("prompt", 2.0), ("answer", 2.0), ("input", 1.0), ("output", 1.0), ("files", 1.5), ("summary", 1.5)];

/// The constant of BM25 that says how soon more of the same word counts no more, and the least that a word counts: those of FTS5.
const K1: f64 = 1.2;
const LEAST_IDF: f64 = 1e-6;

/// Bytes of an entry's hash that are kept.
const HASH_BYTES: u8 = 8;

const SCHEMA: &str = "
CREATE TABLE notes (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
-- `model` made the vectors; NULL while there are none.
CREATE TABLE docs (entry INTEGER PRIMARY KEY, sha256 BLOB NOT NULL, model TEXT) STRICT;
CREATE INDEX docs_without_vectors ON docs (entry) WHERE model IS NULL;
CREATE VIRTUAL TABLE words USING fts5(
    prompt, answer, input, output, files, summary,
    content = '', contentless_delete = 1, tokenize = \"ascii tokenchars '_'\"
);
CREATE VIRTUAL TABLE vocabulary USING fts5vocab(words, row);
CREATE TABLE vectors (entry INTEGER NOT NULL, part INTEGER NOT NULL, data BLOB NOT NULL, PRIMARY KEY (entry, part)) STRICT;
";

/// The entries that are not in the index as they are in the archive.
const MISSING: &str =
    "FROM archive.entries LEFT JOIN docs ON docs.entry = entries.id AND docs.sha256 = substr(entries.sha256, 1, ?1)
    WHERE docs.entry IS NULL";

/// What is indexed of an entry.
#[derive(Clone, Debug, Default)]
pub struct Document {
    /// The entry.
    pub entry: i64,
    /// SHA-256 of its content.
    pub sha256: Vec<u8>,
    /// What a turn says.
    pub fields: Fields,
    /// Its files.
    pub files: Vec<String>,
    /// The text, when it is a compaction's summary.
    pub summary: String,
}

/// An entry that is to be indexed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// Its id.
    pub entry: i64,
    /// SHA-256 of its content.
    pub sha256: Vec<u8>,
    /// The text, when it is a compaction's summary.
    pub summary: Option<String>,
}

/// An open index.
#[derive(Debug)]
pub struct Index {
    db: Connection,
    path: PathBuf,
    tokenizer: Tokenizer,
    /// The vectors, once they were read, and of which model.
    matrix: Option<(String, Matrix)>,
}

impl Index {
    /// Opens the index of a data folder, or begins one; a damaged one is thrown away.
    ///
    /// # Errors
    /// When it cannot be opened, or the archive beside it cannot.
    pub fn open(data: &Path) -> Result<Self, SearchError> {
        let path = data.join(FILE);
        match Self::attempt(data, &path) {
            Err(SearchError::Index { cause, .. }) if is_damage(&cause) => {
                for suffix in ["", "-wal", "-shm"] {
                    let mut name = path.clone().into_os_string();
                    name.push(suffix);
                    fs::remove_file(PathBuf::from(name)).ok();
                }
                Self::attempt(data, &path)
            }
            opened => opened,
        }
    }

    /// Opens the index of a data folder if there is one.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn existing(data: &Path) -> Result<Option<Self>, SearchError> {
        let path = data.join(FILE);
        if path.exists() { Self::attempt(data, &path).map(Some) } else { Ok(None) }
    }

    fn attempt(data: &Path, path: &Path) -> Result<Self, SearchError> {
        let failed = |cause| SearchError::Index { path: path.to_owned(), cause };
        let manners = Manners { patience: Duration::from_secs(2), is_durable: false, checkpoint_pages: None };
        let db = sqlite::open(path, &[SCHEMA], manners).map_err(|error| match error {
            sqlite::OpenError::Sqlite(cause) => failed(cause),
            // A newer version's index is no use to this one.
            sqlite::OpenError::Newer { .. } => failed(damage()),
        })?;
        let mut index = Self { db, path: path.to_owned(), tokenizer: Tokenizer::default(), matrix: None };
        index.begin(data).map_err(failed)?;
        Ok(index)
    }

    fn begin(&mut self, data: &Path) -> rusqlite::Result<()> {
        self.attach_archive(data)?;
        match self.note("version")? {
            Some(version) if version == VERSION => Ok(()),
            None => {
                let weights: Vec<String> = COLUMNS.iter().map(|(_, weight)| format!("{weight:?}")).collect();
                let rank = format!("bm25({})", weights.join(", "));
                self.db.execute("INSERT INTO words (words, rank) VALUES ('rank', ?1)", [rank])?;
                self.set_note("version", VERSION)
            }
            Some(_) => Err(damage()),
        }
    }

    fn attach_archive(&self, data: &Path) -> rusqlite::Result<()> {
        let archive = data.join(SqliteStore::FILE);
        self.db.execute("ATTACH DATABASE ?1 AS archive", [archive.to_string_lossy()]).map(drop)
    }

    /// Lets go of the archive, for one who keeps the index open while nothing is asked: a damaged archive is only moved while nobody
    /// has it open. Nothing but [`Self::attach`] makes sense then.
    ///
    /// # Errors
    /// As [`Self::revision`].
    pub fn detach(&mut self) -> Result<(), SearchError> {
        self.try_to(self.db.execute_batch("DETACH DATABASE archive"))
    }

    /// Takes the archive up again, which may be another one now.
    ///
    /// # Errors
    /// As [`Self::revision`].
    pub fn attach(&mut self, data: &Path) -> Result<(), SearchError> {
        self.try_to(self.attach_archive(data))
    }

    fn note(&self, key: &str) -> rusqlite::Result<Option<String>> {
        self.db.prepare_cached("SELECT value FROM main.notes WHERE key = ?1")?.query_row([key], |row| row.get(0)).optional()
    }

    fn set_note(&self, key: &str, value: &str) -> rusqlite::Result<()> {
        self.db.prepare_cached("INSERT OR REPLACE INTO main.notes (key, value) VALUES (?1, ?2)")?.execute([key, value]).map(drop)
    }

    fn try_to<T>(&self, result: rusqlite::Result<T>) -> Result<T, SearchError> {
        result.map_err(|cause| SearchError::Index { path: self.path.clone(), cause })
    }

    /// The cutter of texts that it was made with.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// The archive's revision that all of it is of, when it is of one.
    ///
    /// # Errors
    /// As everything here: when the index cannot be read or written.
    pub fn revision(&self) -> Result<Option<u64>, SearchError> {
        Ok(self.try_to(self.note("revision"))?.and_then(|revision| revision.parse().ok()))
    }

    /// Takes note that nothing of this revision is missing.
    ///
    /// # Errors
    /// As [`Self::revision`].
    pub fn set_revision(&mut self, revision: u64) -> Result<(), SearchError> {
        self.try_to(self.set_note("revision", &revision.to_string()))
    }

    /// Entries below an id that are not in the index as they are in the archive, the newest first.
    ///
    /// # Errors
    /// As [`Self::revision`].
    pub fn missing(&mut self, below: i64, limit: usize) -> Result<Vec<Missing>, SearchError> {
        let work = || -> rusqlite::Result<Vec<Missing>> {
            let sql = format!(
                "SELECT entries.id, entries.sha256, text {MISSING} AND entries.id < ?2 ORDER BY entries.id DESC LIMIT ?3"
            );
            self.db
                .prepare_cached(&sql)?
                .query_map(params![HASH_BYTES, below, limit as i64], |row| {
                    Ok(Missing { entry: row.get(0)?, sha256: row.get(1)?, summary: row.get(2)? })
                })?
                .collect()
        };
        self.try_to(work())
    }

    /// How many there are of these.
    ///
    /// # Errors
    /// As [`Self::revision`].
    pub fn count_missing(&mut self) -> Result<u64, SearchError> {
        let counted = self.db.query_row(&format!("SELECT count(*) {MISSING}"), [HASH_BYTES], |row| row.get::<_, i64>(0));
        Ok(self.try_to(counted)?.cast_unsigned())
    }

    /// Drops what the archive no longer has.
    ///
    /// # Errors
    /// As [`Self::revision`].
    pub fn drop_gone(&mut self) -> Result<(), SearchError> {
        let work = || {
            const GONE: &str = "SELECT entry FROM docs WHERE NOT EXISTS (SELECT 1 FROM archive.entries WHERE id = docs.entry)";
            self.db.execute(&format!("DELETE FROM words WHERE rowid IN ({GONE})"), [])?;
            let vectors = self.db.execute(&format!("DELETE FROM vectors WHERE entry IN ({GONE})"), [])?;
            self.db.execute(&format!("DELETE FROM docs WHERE entry IN ({GONE})"), []).map(|_| vectors)
        };
        let vectors = self.try_to(work())?;
        if vectors > 0 {
            self.matrix = None;
        }
        Ok(())
    }

    /// Adds entries, or replaces them, all or none.
    ///
    /// # Errors
    /// As [`Self::revision`].
    pub fn add(&mut self, documents: &[Document]) -> Result<(), SearchError> {
        let Self { db, tokenizer, .. } = self;
        let mut work = || -> rusqlite::Result<()> {
            let transaction = db.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
            for document in documents {
                transaction.prepare_cached("DELETE FROM words WHERE rowid = ?1")?.execute([document.entry])?;
                transaction.prepare_cached("DELETE FROM vectors WHERE entry = ?1")?.execute([document.entry])?;
                transaction
                    .prepare_cached("INSERT OR REPLACE INTO docs (entry, sha256) VALUES (?1, ?2)")?
                    .execute(params![document.entry, &document.sha256[..usize::from(HASH_BYTES).min(document.sha256.len())]])?;
                let Fields { prompt, answer, input, output } = &document.fields;
                let [prompt, answer, input, output, summary] =
                    [prompt, answer, input, output, &document.summary].map(|text| tokenizer.join(text));
                let files = tokenizer.join(&document.files.join("\n"));
                transaction
                    .prepare_cached(
                        "INSERT INTO words (rowid, prompt, answer, input, output, files, summary) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                    )?
                    .execute(params![document.entry, prompt, answer, input, output, files, summary])?;
            }
            transaction.commit()
        };
        let done = work();
        self.try_to(done)
    }

    /// Entries that have no vectors of this model, the newest first.
    ///
    /// # Errors
    /// As [`Self::revision`].
    pub fn without_vectors(&mut self, model: &str, limit: usize) -> Result<Vec<i64>, SearchError> {
        let work = || -> rusqlite::Result<Vec<i64>> {
            self.db.execute("UPDATE docs SET model = NULL WHERE model <> ?1", [model])?;
            self.db
                .prepare_cached("SELECT entry FROM docs WHERE model IS NULL ORDER BY entry DESC LIMIT ?1")?
                .query_map([limit as i64], |row| row.get(0))?
                .collect()
        };
        self.try_to(work())
    }

    /// How many entries have vectors, and how many there are.
    ///
    /// # Errors
    /// As [`Self::revision`].
    pub fn coverage(&mut self) -> Result<(u64, u64), SearchError> {
        let counted = self.db.query_row("SELECT count(model), count(*) FROM docs", [], |row| {
            Ok((row.get::<_, i64>(0)?.cast_unsigned(), row.get::<_, i64>(1)?.cast_unsigned()))
        });
        self.try_to(counted)
    }

    /// Keeps the vectors of an entry's passages; none is right for one that says nothing.
    ///
    /// # Errors
    /// As [`Self::revision`].
    pub fn set_vectors(&mut self, model: &str, vectors: &[(i64, Vec<Vec<f32>>)]) -> Result<(), SearchError> {
        let Self { db, .. } = self;
        let mut work = || -> rusqlite::Result<()> {
            let transaction = db.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
            for (entry, vectors) in vectors {
                transaction.prepare_cached("DELETE FROM vectors WHERE entry = ?1")?.execute([entry])?;
                let mut insert = transaction.prepare_cached("INSERT INTO vectors (entry, part, data) VALUES (?1, ?2, ?3)")?;
                for (part, vector) in vectors.iter().enumerate() {
                    insert.execute(params![entry, part as i64, Quantized::of(vector).to_bytes()])?;
                }
                transaction.prepare_cached("UPDATE docs SET model = ?2 WHERE entry = ?1")?.execute(params![entry, model])?;
            }
            transaction.commit()
        };
        let done = work();
        self.matrix = None;
        self.try_to(done)
    }

    /// The entries that a filter lets through; nothing when it lets all through.
    ///
    /// # Errors
    /// As [`Self::revision`].
    pub fn allowed(&mut self, filter: &Filter) -> Result<Option<HashSet<i64>>, SearchError> {
        let Some((condition, values)) = filter.condition() else { return Ok(None) };
        let work = || -> rusqlite::Result<HashSet<i64>> {
            self.db.prepare_cached(&condition)?.query_map(params_from_iter(values), |row| row.get(0))?.collect()
        };
        self.try_to(work()).map(Some)
    }

    /// The best of the entries in which these terms stand. The scores are BM25, divided by the most that these terms could give: 1 is
    /// a text that is full of all of them, and a text with one word that is everywhere has next to nothing.
    ///
    /// # Errors
    /// As [`Self::revision`].
    pub fn lexical(
        &mut self,
        terms: &Terms,
        kinds: &[Kind],
        allowed: Option<&HashSet<i64>>,
        limit: usize,
    ) -> Result<Vec<(i64, f64)>, SearchError> {
        let columns: Vec<&str> = kinds.iter().flat_map(|kind| kind.columns()).copied().collect();
        let Some(expression) = terms.expression(&columns) else { return Ok(Vec::new()) };
        let work = || -> rusqlite::Result<Vec<(i64, f64)>> {
            let most = (K1 + 1.0) * self.idf(terms)?;
            let mut statement =
                self.db.prepare_cached("SELECT rowid, -rank FROM words WHERE words MATCH ?1 ORDER BY rank LIMIT ?2")?;
            // With a filter, what it does not let through must not take a place.
            let rows_at_most = if allowed.is_some() { -1 } else { limit as i64 };
            let mut rows = statement.query(params![expression, rows_at_most])?;
            let mut found = Vec::new();
            while let Some(row) = rows.next()? {
                let entry: i64 = row.get(0)?;
                if allowed.is_none_or(|allowed| allowed.contains(&entry)) {
                    found.push((entry, row.get::<_, f64>(1)? / most));
                    if found.len() == limit {
                        break;
                    }
                }
            }
            Ok(found)
        };
        self.try_to(work())
    }

    /// How rare the terms are, together: the sum of their inverse document frequencies, as FTS5 computes them.
    fn idf(&self, terms: &Terms) -> rusqlite::Result<f64> {
        let all: i64 = self.db.prepare_cached("SELECT count(*) FROM docs")?.query_row([], |row| row.get(0))?;
        let mut exact = self.db.prepare_cached("SELECT doc FROM vocabulary WHERE term = ?1")?;
        let mut begin = self.db.prepare_cached("SELECT coalesce(sum(doc), 0) FROM vocabulary WHERE term >= ?1 AND term < ?2")?;
        let mut sum = 0.0;
        let mut add = |docs: i64| {
            let (all, docs) = (all as f64, docs.clamp(0, all) as f64);
            sum += ((all - docs + 0.5) / (docs + 0.5)).ln().max(LEAST_IDF);
        };
        for word in terms.words.iter().chain(terms.phrases.iter().flatten()) {
            add(exact.query_row([word], |row| row.get(0)).optional()?.unwrap_or(0));
        }
        for prefix in &terms.prefixes {
            // Behind every word that begins so.
            add(begin.query_row([prefix.as_str(), &format!("{prefix}\u{10ffff}")], |row| row.get(0))?);
        }
        Ok(sum.max(LEAST_IDF))
    }

    /// The entries whose best passage is nearest to a vector, with the cosine.
    ///
    /// # Errors
    /// As [`Self::revision`].
    pub fn dense(
        &mut self,
        model: &str,
        vector: &[f32],
        allowed: Option<&HashSet<i64>>,
        limit: usize,
    ) -> Result<Vec<(i64, f32)>, SearchError> {
        let matrix = self.vectors(model, vector.len())?;
        let mut best: Vec<(i64, f32)> = Vec::with_capacity(matrix.len());
        for (entry, cosine) in matrix.scan(vector).filter(|(entry, _)| allowed.is_none_or(|allowed| allowed.contains(entry))) {
            // Passages of an entry stand together.
            match best.last_mut() {
                Some((last, highest)) if *last == entry => *highest = highest.max(cosine),
                _ => best.push((entry, cosine)),
            }
        }
        let by_cosine = |one: &(i64, f32), other: &(i64, f32)| other.1.total_cmp(&one.1).then(other.0.cmp(&one.0));
        if best.len() > limit {
            best.select_nth_unstable_by(limit, by_cosine);
            best.truncate(limit);
        }
        best.sort_unstable_by(by_cosine);
        Ok(best)
    }

    /// The cosines of these entries, where they have vectors.
    ///
    /// # Errors
    /// As [`Self::revision`].
    pub fn cosines(&mut self, model: &str, vector: &[f32], entries: &[i64]) -> Result<Vec<(i64, f32)>, SearchError> {
        let work = || -> rusqlite::Result<Vec<(i64, f32)>> {
            let mut select = self.db.prepare_cached(
                "SELECT data FROM vectors WHERE entry = ?1 AND EXISTS (SELECT 1 FROM docs WHERE docs.entry = ?1 AND model = ?2)",
            )?;
            let mut found = Vec::new();
            for entry in entries {
                let mut matrix = Matrix::new(vector.len());
                let mut rows = select.query(params![entry, model])?;
                while let Some(row) = rows.next()? {
                    matrix.add(*entry, row.get_ref(0)?.as_blob()?);
                }
                found.extend(matrix.scan(vector).max_by(|one, other| one.1.total_cmp(&other.1)));
            }
            Ok(found)
        };
        self.try_to(work())
    }

    fn vectors(&mut self, model: &str, dimensions: usize) -> Result<&Matrix, SearchError> {
        if self.matrix.as_ref().is_none_or(|(known, _)| known != model) {
            let read = || -> rusqlite::Result<Matrix> {
                let mut matrix = Matrix::new(dimensions);
                let mut select = self.db.prepare_cached(
                    "SELECT vectors.entry, data FROM vectors JOIN docs ON docs.entry = vectors.entry WHERE model = ?1 ORDER BY vectors.entry",
                )?;
                let mut rows = select.query([model])?;
                while let Some(row) = rows.next()? {
                    matrix.add(row.get(0)?, row.get_ref(1)?.as_blob()?);
                }
                Ok(matrix)
            };
            let matrix = self.try_to(read())?;
            self.matrix = Some((model.to_owned(), matrix));
        }
        match &self.matrix {
            Some((_, matrix)) => Ok(matrix),
            None => Err(SearchError::Index { path: self.path.clone(), cause: damage() }),
        }
    }

    /// Puts what was written where it belongs, and joins the pieces of the word index.
    ///
    /// # Errors
    /// As [`Self::revision`].
    pub fn settle(&mut self) -> Result<(), SearchError> {
        let work = || {
            self.db.execute("INSERT INTO words (words) VALUES ('optimize')", [])?;
            self.db.query_row("PRAGMA main.wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
        };
        self.try_to(work())
    }
}

fn damage() -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT), None)
}

fn is_damage(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
    matches!(error.sqlite_error_code(), Some(DatabaseCorrupt | NotADatabase))
}

impl From<StoreError> for SearchError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}
