//! Entries in the index: those that are missing, adding and dropping.

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::excerpt::Excerpt;
use super::tables::{TABLES, WordTable};
use super::{SearchError, SearchIndex, words};
use ctxbridge_transcript::SearchableText;

/// Number of bytes of an entry's hash that are kept.
pub(super) const HASH_BYTES: u8 = 8;

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
    pub(in crate::search) fn text<'d>(&'d self, column: &str, files: &'d str) -> &'d str {
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

impl SearchIndex {
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
}

/// Drops all data of an entry, except that it is indexed; returns the number of vectors it had.
fn forget(db: &Connection, entry: i64) -> rusqlite::Result<usize> {
    for WordTable { name, .. } in TABLES {
        db.prepare_cached(&format!("DELETE FROM {name} WHERE rowid = ?1"))?.execute([entry])?;
    }
    db.prepare_cached("DELETE FROM excerpts WHERE entry = ?1")?.execute([entry])?;
    db.prepare_cached("DELETE FROM vectors WHERE entry = ?1")?.execute([entry])
}
