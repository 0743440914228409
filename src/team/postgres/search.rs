//! Search on the server: by words and by vectors, among the entries that this user may read.
//!
//! Words and vectors are in tables that only SQL functions read, since no index serves a search below row-level security.

use super::compactions::project_with_slashes;
use super::connection::Connection;
use super::content::TurnContent;
use super::error::PostgresError;
use super::row::{PostgresRow, escape_nul, escape_nul_in};
use super::tsvector::{TsVector, alternatives, to_tsquery};
use ctxbridge_archive::search::filter::Filter;
use ctxbridge_archive::store::Batch;
use ctxbridge_common::digest;

/// Vectors that are sent to the server at once: each takes it about a millisecond.
const VECTOR_BATCH_SIZE: usize = 500;

/// An entry that was found, and its score; higher is better.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EntryHit {
    /// The entry.
    pub entry: i64,
    /// For words, the server's rank, comparable only within one
    /// query. For vectors, 1 for equal and 0 for unrelated.
    pub score: f32,
}

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
    below_folder: Option<String>,
    in_folder: Option<String>,
    since_ms: Option<i64>,
    until_ms: Option<i64>,
    tool: Option<String>,
    file: Option<String>,
}

impl FilterParams {
    fn of(filter: &Filter) -> Self {
        let (mut below_folder, mut in_folder) = (None, None);
        if let Some(project) = &filter.project {
            let project = project.replace('\\', "/");
            let path = project.trim_matches('/');
            let is_drive = path.as_bytes().get(1) == Some(&b':');
            match (project.starts_with('/'), path) {
                // Everything is below the root.
                (true, "") => below_folder = Some(String::new()),
                (true, path) => below_folder = Some(escape_nul(&format!("/{path}/"))),
                (false, path) if is_drive => below_folder = Some(escape_nul(&format!("{path}/"))),
                (false, path) => in_folder = Some(project_with_slashes(path)),
            }
        }
        Self {
            session: escape_nul_in(filter.session.as_deref()),
            below_folder,
            in_folder,
            since_ms: filter.since_ms,
            until_ms: filter.until_ms,
            tool: escape_nul_in(filter.tool.as_deref()),
            file: escape_nul_in(filter.file.as_deref()),
        }
    }
}

/// The best entries that match an expression in the index's language.
pub(super) fn words(db: &mut Connection, words: &str, filter: &Filter, most: usize) -> Result<Vec<EntryHit>, PostgresError> {
    let Some(query) = to_tsquery(words) else { return Ok(Vec::new()) };
    let terms = alternatives(words);
    let limits = FilterParams::of(filter);
    let sql = "SELECT entry, score FROM ctxbridge.find_words($1, $2::text::tsquery, $3, $4, $5, $6, $7, $8, $9, $10,
        $11::text[]::tsquery[])";
    let found = db.all(
        sql,
        &[
            &query,
            &small(most),
            &limits.session,
            &limits.below_folder,
            &limits.in_folder,
            &limits.since_ms,
            &limits.until_ms,
            &limits.tool,
            &limits.file,
            &terms,
        ],
    )?;
    found.iter().map(hit).collect()
}

/// The entries nearest to a vector of a model.
pub(super) fn search_nearest(
    db: &mut Connection,
    model: &str,
    vector: &[f32],
    filter: &Filter,
    most: usize,
) -> Result<Vec<EntryHit>, PostgresError> {
    let limits = FilterParams::of(filter);
    let sql = "SELECT entry, score FROM ctxbridge.find_near($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)";
    let found = db.all(
        sql,
        &[
            &model,
            &vector_literal(vector),
            &small(most),
            &limits.session,
            &limits.below_folder,
            &limits.in_folder,
            &limits.since_ms,
            &limits.until_ms,
            &limits.tool,
            &limits.file,
        ],
    )?;
    found.iter().map(hit).collect()
}

fn hit(row: &PostgresRow) -> Result<EntryHit, PostgresError> {
    Ok(EntryHit { entry: row.get(0)?, score: row.get(1)? })
}

/// Stores vectors of entries. They replace those of the same model.
pub(super) fn put_vectors(db: &mut Connection, model: &str, vectors: &[(i64, Vec<Vec<f32>>)]) -> Result<(), PostgresError> {
    for some in vectors.chunks(VECTOR_BATCH_SIZE) {
        let all = || {
            some.iter().flat_map(|(entry, passages)| passages.iter().enumerate().map(move |(at, vector)| (*entry, at, vector)))
        };
        let entries: Vec<i64> = all().map(|(entry, ..)| entry).collect();
        let passages: Vec<i16> = all().map(|(_, at, _)| i16::try_from(at).unwrap_or(i16::MAX)).collect();
        let texts: Vec<String> = all().map(|(.., vector)| vector_literal(vector)).collect();
        if !entries.is_empty() {
            db.all("SELECT ctxbridge.put_vectors($1, $2, $3, $4, $5)", &[&model, &entries, &passages, &texts])?;
        }
    }
    Ok(())
}

/// This user's entries below an id without vectors of a model, the newest first, each with its content hash.
pub(super) fn without_vectors(
    db: &mut Connection,
    (model, dimensions): (&str, usize),
    below: i64,
    most: usize,
) -> Result<Vec<(i64, digest::Sha256Digest)>, PostgresError> {
    let sql = "SELECT e.entry, e.sha256 FROM ctxbridge.without_vectors($1, $2, $3, $4, $5) AS e";
    let found = db.all(sql, &[&model, &small(dimensions), &below, &small(most)])?;
    found.iter().map(|row| Ok((row.get(0)?, row.byte_array(1)?))).collect()
}

/// Texts of entries, each cut at `chars` characters.
pub(super) fn texts_of(db: &mut Connection, entries: &[i64], chars: usize) -> Result<Vec<EntryText>, PostgresError> {
    let sql = "SELECT id, left(coalesce(summary, content, ''), $3), files FROM ctxbridge.entries
        WHERE tenant = $1 AND id = ANY ($2) ORDER BY array_position($2, id)";
    let text = |row: &PostgresRow| Ok(EntryText { entry: row.get(0)?, text: row.text(1)?, files: row.names(2)? });
    db.all(sql, &[&entries, &small(chars)])?.iter().map(text).collect()
}

/// A vector in pgvector's text format.
fn vector_literal(vector: &[f32]) -> String {
    let numbers: Vec<String> = vector.iter().map(f32::to_string).collect();
    format!("[{}]", numbers.join(","))
}

fn small(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}
