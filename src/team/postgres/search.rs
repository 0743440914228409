//! Search on the server: by words and by vectors, among the entries that this user may read.
//!
//! Words and vectors are in tables that only SQL functions read, since no index serves a search below row-level security.

use tokio_postgres::types::ToSql;

use super::PostgresStore;
use super::connection::{Connection, Params};
use super::content::TurnContent;
use super::error::PostgresError;
use super::folders::folders_in;
use super::row::{PostgresRow, escape_nul, escape_nul_in};
use super::tsvector::{TsVector, alternatives, to_tsquery};
use ctxbridge_archive::search::filter::Filter;
use ctxbridge_archive::store::{Batch, SearchBackend, StoreError, VectorStore};
use ctxbridge_common::digest;
use ctxbridge_transcript::Turn;

/// Vectors that are sent to the server at once: each takes it about a millisecond.
const VECTOR_BATCH_SIZE: usize = 500;

/// The text of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryText {
    /// The entry.
    pub entry: i64,
    /// Its content, or the start of it; of a compaction, its summary.
    pub text: String,
    /// Paths of files, as they were given to the tools.
    pub files: Vec<String>,
}

/// Indexes the words of turns, given by their indices in the batch, for a session.
pub(super) fn put_texts(
    db: &mut Connection,
    session: i64,
    turns: &[usize],
    entries: &[i64],
    batch: &Batch,
    said: &[TurnContent],
) -> Result<(), PostgresError> {
    if turns.is_empty() {
        return Ok(());
    }
    let ids: Vec<i64> = turns.iter().map(|at| entries[*at]).collect();
    let started: Vec<i64> = turns.iter().map(|at| batch.turns[*at].started_ms).collect();
    let lines = |names: &[String]| (!names.is_empty()).then(|| escape_nul(&names.join("\n")));
    let tools: Vec<Option<String>> = turns.iter().map(|at| lines(&batch.turns[*at].tools)).collect();
    let files: Vec<Option<String>> = turns.iter().map(|at| lines(&batch.turns[*at].files)).collect();
    let words: Vec<_> = turns.iter().map(|at| &said[*at].words).collect();
    let sql = "SELECT ctxbridge.put_texts($1, $2, $3, $4, $5, $6, $7)";
    db.all(sql, &[&session, &ids, &started, &tools, &files, &words]).map(drop)
}

/// Indexes the words of one turn for a session.
pub(super) fn put_words(
    db: &mut Connection,
    session: i64,
    entry: i64,
    turn: &Turn,
    words: &TsVector,
) -> Result<(), PostgresError> {
    let lines = |names: &[String]| [(!names.is_empty()).then(|| escape_nul(&names.join("\n")))];
    let (tools, files) = (lines(&turn.tools), lines(&turn.files));
    let sql = "SELECT ctxbridge.put_texts($1, $2, $3, $4, $5, $6, $7)";
    db.all(sql, &[&session, &&[entry][..], &&[turn.started_ms][..], &&tools[..], &&files[..], &&[words][..]]).map(drop)
}

/// Indexes the words of a summary for a session.
pub(super) fn put_summary(
    db: &mut Connection,
    session: i64,
    (entry, at_ms): (i64, i64),
    words: &TsVector,
) -> Result<(), PostgresError> {
    let none: [Option<String>; 1] = [None];
    let sql = "SELECT ctxbridge.put_texts($1, $2, $3, $4, $5, $6, $7)";
    db.all(sql, &[&session, &&[entry][..], &&[at_ms][..], &&none[..], &&none[..], &&[words][..]]).map(drop)
}

/// Removes the words of entries that a session no longer has.
pub(super) fn forget_texts(db: &mut Connection, session: i64, entries: &[i64]) -> Result<(), PostgresError> {
    if entries.is_empty() {
        return Ok(());
    }
    db.all("SELECT ctxbridge.forget_texts($1, $2, $3)", &[&session, &entries]).map(drop)
}

/// Removes the words of all entries that a session no longer has.
pub(super) fn forget_all_texts(db: &mut Connection, session: i64) -> Result<(), PostgresError> {
    db.all("SELECT ctxbridge.forget_texts($1, $2, NULL)", &[&session]).map(drop)
}

/// Removes the vectors of entries whose content changed.
pub(super) fn forget_vectors(db: &mut Connection, entries: &[i64]) -> Result<(), PostgresError> {
    db.all("SELECT ctxbridge.forget_vectors($1, $2)", &[&entries]).map(drop)
}

/// A filter as parameters of the SQL search functions.
struct FilterParams {
    session: Option<String>,
    /// A parameter that no version uses any more.
    below_folder: Option<String>,
    /// A JSON array.
    in_folders: Option<String>,
    since_ms: Option<i64>,
    until_ms: Option<i64>,
    tool: Option<String>,
    file: Option<String>,
}

impl FilterParams {
    fn of(db: &mut Connection, filter: &Filter) -> Result<Self, PostgresError> {
        let folders = folders_in(db, "sessions", filter.project.as_ref())?;
        Ok(Self {
            session: escape_nul_in(filter.session.as_deref()),
            below_folder: None,
            in_folders: folders.map(|folders| serde_json::Value::from(folders).to_string()),
            since_ms: filter.since_ms,
            until_ms: filter.until_ms,
            tool: escape_nul_in(filter.tool.as_deref()),
            file: escape_nul_in(filter.file.as_deref()),
        })
    }

    /// The parameters of a search: those before the filter, the filter, and those after it.
    fn between<'p>(&'p self, before: Params<'p>, after: Params<'p>) -> Vec<&'p (dyn ToSql + Sync)> {
        let filter: [&(dyn ToSql + Sync); 7] =
            [&self.session, &self.below_folder, &self.in_folders, &self.since_ms, &self.until_ms, &self.tool, &self.file];
        [before, &filter, after].concat()
    }
}

impl SearchBackend for PostgresStore {
    fn has_vectors(&mut self) -> Result<bool, StoreError> {
        self.read(has_vectors)
    }

    fn search_text(&mut self, expression: &str, filter: &Filter, most: usize) -> Result<Vec<(i64, f32)>, StoreError> {
        let Some(query) = to_tsquery(expression) else { return Ok(Vec::new()) };
        let terms = alternatives(expression);
        let sql = "SELECT entry, score FROM ctxbridge.find_words($1, $2::text::tsquery, $3, $4, $5, $6, $7, $8, $9, $10,
            $11::text[]::tsquery[])";
        let most = small(most);
        self.read(|db| {
            let limits = FilterParams::of(db, filter)?;
            hits(&db.all(sql, &limits.between(&[&query, &most], &[&terms]))?)
        })
    }

    fn search_vectors(
        &mut self,
        model: &str,
        vector: &[f32],
        filter: &Filter,
        most: usize,
    ) -> Result<Vec<(i64, f32)>, StoreError> {
        self.require_vectors()?;
        let vector = vector_literal(vector);
        let sql = "SELECT entry, score FROM ctxbridge.find_near($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)";
        let most = small(most);
        // What is set for a search holds as long as its transaction.
        self.read(|db| {
            let limits = FilterParams::of(db, filter)?;
            db.transaction(|db| hits(&db.all(sql, &limits.between(&[&model, &vector, &most], &[]))?))
        })
    }
}

impl VectorStore for PostgresStore {
    fn unavailable_reason(&mut self) -> Result<Option<String>, StoreError> {
        match self.require_vectors() {
            Ok(()) => Ok(None),
            Err(error) if matches!(PostgresError::of(&error), Some(PostgresError::NoVectors { .. })) => {
                Ok(Some(error.to_string()))
            }
            Err(error) => Err(error),
        }
    }

    fn entries_without_vectors(
        &mut self,
        model: &str,
        dimensions: usize,
        below: i64,
        most: usize,
    ) -> Result<Vec<(i64, digest::Sha256Digest)>, StoreError> {
        self.require_vectors()?;
        let sql = "SELECT e.entry, e.sha256 FROM ctxbridge.without_vectors($1, $2, $3, $4, $5) AS e";
        self.read(|db| {
            let found = db.all(sql, &[&model, &small(dimensions), &below, &small(most)])?;
            found.iter().map(|row| Ok((row.get(0)?, row.byte_array(1)?))).collect()
        })
    }

    fn save_vectors(&mut self, model: &str, vectors: &[(i64, Vec<Vec<f32>>)]) -> Result<(), StoreError> {
        self.require_vectors()?;
        self.write(|db| {
            for some in vectors.chunks(VECTOR_BATCH_SIZE) {
                let all = || {
                    some.iter()
                        .flat_map(|(entry, passages)| passages.iter().enumerate().map(move |(at, vector)| (*entry, at, vector)))
                };
                let entries: Vec<i64> = all().map(|(entry, ..)| entry).collect();
                let passages: Vec<i16> = all().map(|(_, at, _)| i16::try_from(at).unwrap_or(i16::MAX)).collect();
                let texts: Vec<String> = all().map(|(.., vector)| vector_literal(vector)).collect();
                if !entries.is_empty() {
                    db.all("SELECT ctxbridge.put_vectors($1, $2, $3, $4, $5)", &[&model, &entries, &passages, &texts])?;
                }
            }
            Ok(())
        })
    }
}

impl PostgresStore {
    fn require_vectors(&self) -> Result<(), StoreError> {
        if self.read(has_vectors)? {
            return Ok(());
        }
        Err(PostgresError::NoVectors { server: self.pool.settings().server() }.into())
    }
}

/// `true` if semantic search is available: the server has pgvector, and the tables for it.
fn has_vectors(db: &mut Connection) -> Result<bool, PostgresError> {
    db.one_without_tenant("SELECT to_regclass('ctxbridge.embeddings') IS NOT NULL", &[])?.get(0)
}

/// Entries with their scores.
fn hits(rows: &[PostgresRow]) -> Result<Vec<(i64, f32)>, PostgresError> {
    rows.iter().map(|row| Ok((row.get(0)?, row.get(1)?))).collect()
}

/// Texts of entries, each cut at `chars` characters.
pub(super) fn texts_of(db: &mut Connection, entries: &[i64], chars: usize) -> Result<Vec<EntryText>, PostgresError> {
    let sql = "SELECT id, left(coalesce(summary, content, ''), $3), files FROM ctxbridge.entries
        WHERE tenant = $1 AND id = ANY ($2) ORDER BY array_position($2, id)";
    let text = |row: &PostgresRow| Ok(EntryText { entry: row.get(0)?, text: row.text(1)?, files: row.names(2)? });
    db.all(sql, &[&entries, &small(chars)])?.iter().map(text).collect()
}

/// Deletes an unreferenced entry, with the data derived from it.
pub(super) fn delete_entry(db: &mut Connection, entry: i64) -> Result<(), PostgresError> {
    db.execute("DELETE FROM ctxbridge.entries WHERE tenant = $1 AND id = $2 AND owner = session_user::text", &[&entry])?;
    forget_vectors(db, &[entry])
}

/// A vector in pgvector's text format.
fn vector_literal(vector: &[f32]) -> String {
    let numbers: Vec<String> = vector.iter().map(f32::to_string).collect();
    format!("[{}]", numbers.join(","))
}

fn small(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}
