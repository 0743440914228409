//! Search on the server: the words and vectors of what the asker may read, and nothing of the rest.

use super::compactions::in_path;
use super::connection::Connection;
use super::content::Said;
use super::error::PostgresError;
use super::line::{Line, clean, cleaned};
use super::words::{Words, alternatives, query};
use ctxbridge_archive::search::filter::Filter;
use ctxbridge_archive::store::Batch;
use ctxbridge_common::digest;

/// Vectors that go to the server at once: each takes it about a millisecond.
const VECTORS_AT_ONCE: usize = 500;

/// What was found: an entry, and how well it fits; the more the better.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hit {
    /// The entry.
    pub entry: i64,
    /// By words, what the server's ranking says, which is only to be compared with others of the same query; by vectors, 1 for the
    /// same and 0 for the unrelated.
    pub score: f32,
}

/// What an entry says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    /// The entry.
    pub entry: i64,
    /// Its content, or the begin of it; of a compaction, its summary.
    pub text: String,
    /// Files, as the tools were told.
    pub files: Vec<String>,
}

/// Keeps the words of turns (by their places in the batch) in a session.
pub(super) fn put_texts(
    db: &mut Connection,
    session: i64,
    turns: &[usize],
    entries: &[i64],
    batch: &Batch,
    said: &[Said],
) -> Result<(), PostgresError> {
    if turns.is_empty() {
        return Ok(());
    }
    let ids: Vec<i64> = turns.iter().map(|at| entries[*at]).collect();
    let started: Vec<i64> = turns.iter().map(|at| batch.turns[*at].started_ms).collect();
    let lines = |names: &[String]| (!names.is_empty()).then(|| clean(&names.join("\n")));
    let tools: Vec<Option<String>> = turns.iter().map(|at| lines(&batch.turns[*at].tools)).collect();
    let files: Vec<Option<String>> = turns.iter().map(|at| lines(&batch.turns[*at].files)).collect();
    let words: Vec<_> = turns.iter().map(|at| &said[*at].words).collect();
    let sql = "SELECT ctxbridge.put_texts($1, $2, $3, $4, $5, $6, $7)";
    db.all(sql, &[&session, &ids, &started, &tools, &files, &words]).map(drop)
}

/// Keeps the words of a summary in a session.
pub(super) fn put_summary(
    db: &mut Connection,
    session: i64,
    (entry, at_ms): (i64, i64),
    words: &Words,
) -> Result<(), PostgresError> {
    let none: [Option<String>; 1] = [None];
    let sql = "SELECT ctxbridge.put_texts($1, $2, $3, $4, $5, $6, $7)";
    db.all(sql, &[&session, &&[entry][..], &&[at_ms][..], &&none[..], &&none[..], &&[words][..]]).map(drop)
}

/// Forgets the words of entries that a session has no more.
pub(super) fn forget_texts(db: &mut Connection, session: i64, entries: &[i64]) -> Result<(), PostgresError> {
    if entries.is_empty() {
        return Ok(());
    }
    db.all("SELECT ctxbridge.forget_texts($1, $2, $3)", &[&session, &entries]).map(drop)
}

/// Forgets the words of all that a session has no longer.
pub(super) fn forget_all_texts(db: &mut Connection, session: i64) -> Result<(), PostgresError> {
    db.all("SELECT ctxbridge.forget_texts($1, $2, NULL)", &[&session]).map(drop)
}

/// Forgets the vectors of entries whose content is another one now.
pub(super) fn forget_vectors(db: &mut Connection, entries: &[i64]) -> Result<(), PostgresError> {
    db.all("SELECT ctxbridge.forget_vectors($1, $2)", &[&entries]).map(drop)
}

/// What stands for a filter in a search function.
struct Limits {
    session: Option<String>,
    below_folder: Option<String>,
    in_folder: Option<String>,
    since_ms: Option<i64>,
    until_ms: Option<i64>,
    tool: Option<String>,
    file: Option<String>,
}

impl Limits {
    fn of(filter: &Filter) -> Self {
        let (mut below_folder, mut in_folder) = (None, None);
        if let Some(project) = &filter.project {
            let project = project.replace('\\', "/");
            let path = project.trim_matches('/');
            let is_drive = path.as_bytes().get(1) == Some(&b':');
            match (project.starts_with('/'), path) {
                // Everything is below the root.
                (true, "") => below_folder = Some(String::new()),
                (true, path) => below_folder = Some(clean(&format!("/{path}/"))),
                (false, path) if is_drive => below_folder = Some(clean(&format!("{path}/"))),
                (false, path) => in_folder = Some(in_path(path)),
            }
        }
        Self {
            session: cleaned(filter.session.as_deref()),
            below_folder,
            in_folder,
            since_ms: filter.since_ms,
            until_ms: filter.until_ms,
            tool: cleaned(filter.tool.as_deref()),
            file: cleaned(filter.file.as_deref()),
        }
    }
}

/// The best entries with these words, in the index's language.
pub(super) fn words(db: &mut Connection, words: &str, filter: &Filter, most: usize) -> Result<Vec<Hit>, PostgresError> {
    let Some(query) = query(words) else { return Ok(Vec::new()) };
    let terms = alternatives(words);
    let limits = Limits::of(filter);
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
pub(super) fn near(
    db: &mut Connection,
    model: &str,
    vector: &[f32],
    filter: &Filter,
    most: usize,
) -> Result<Vec<Hit>, PostgresError> {
    let limits = Limits::of(filter);
    let sql = "SELECT entry, score FROM ctxbridge.find_near($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)";
    let found = db.all(
        sql,
        &[
            &model,
            &written(vector),
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

fn hit(row: &Line) -> Result<Hit, PostgresError> {
    Ok(Hit { entry: row.get(0)?, score: row.get(1)? })
}

/// Keeps vectors of entries, instead of those that they had of this model.
pub(super) fn put_vectors(db: &mut Connection, model: &str, vectors: &[(i64, Vec<Vec<f32>>)]) -> Result<(), PostgresError> {
    for some in vectors.chunks(VECTORS_AT_ONCE) {
        let all = || {
            some.iter().flat_map(|(entry, passages)| passages.iter().enumerate().map(move |(at, vector)| (*entry, at, vector)))
        };
        let entries: Vec<i64> = all().map(|(entry, ..)| entry).collect();
        let passages: Vec<i16> = all().map(|(_, at, _)| i16::try_from(at).unwrap_or(i16::MAX)).collect();
        let texts: Vec<String> = all().map(|(.., vector)| written(vector)).collect();
        if !entries.is_empty() {
            db.all("SELECT ctxbridge.put_vectors($1, $2, $3, $4, $5)", &[&model, &entries, &passages, &texts])?;
        }
    }
    Ok(())
}

/// One's own entries below an id that have no vectors of a model, the newest first, each with its hash.
pub(super) fn without_vectors(
    db: &mut Connection,
    (model, dimensions): (&str, usize),
    below: i64,
    most: usize,
) -> Result<Vec<(i64, digest::Bytes)>, PostgresError> {
    let sql = "SELECT e.entry, e.sha256 FROM ctxbridge.without_vectors($1, $2, $3, $4, $5) AS e";
    let found = db.all(sql, &[&model, &small(dimensions), &below, &small(most)])?;
    found.iter().map(|row| Ok((row.get(0)?, row.bytes(1)?))).collect()
}

/// What entries say, each up to so many characters.
pub(super) fn texts_of(db: &mut Connection, entries: &[i64], chars: usize) -> Result<Vec<Text>, PostgresError> {
    let sql = "SELECT id, left(coalesce(summary, content, ''), $3), files FROM ctxbridge.entries
        WHERE tenant = $1 AND id = ANY ($2) ORDER BY array_position($2, id)";
    let text = |row: &Line| Ok(Text { entry: row.get(0)?, text: row.text(1)?, files: row.names(2)? });
    db.all(sql, &[&entries, &small(chars)])?.iter().map(text).collect()
}

/// A vector as pgvector reads it.
fn written(vector: &[f32]) -> String {
    let numbers: Vec<String> = vector.iter().map(f32::to_string).collect();
    format!("[{}]", numbers.join(","))
}

fn small(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}
