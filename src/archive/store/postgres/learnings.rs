//! What was learned: kept once, with each place where it was said.

use super::compactions::{IN_PATH, in_path};
use super::connection::Connection;
use super::error::PostgresError;
use super::line::{Line, clean, cleaned, limit};
use super::words::{Weight, Words, query};
use super::write::Session;
use crate::archive::search::tokens::Tokenizer;
use crate::archive::store::{StoredFix, StoredLearning, Wanted};
use crate::digest;
use crate::learn::{Fix, Id, Kind, Learning, Lesson, Progress, Tally, Watcher};

/// Places of words in a sentence.
const PLACES: u16 = 2_000;

pub(super) fn progress(db: &mut Connection, transcript: i64) -> Result<Option<Progress>, PostgresError> {
    let sql =
        "SELECT p.generation, p.bytes, p.patterns, p.watcher FROM ctxbridge.transcripts t JOIN ctxbridge.learning_progress p
            ON p.tenant = t.tenant AND p.session = t.session AND p.owner = t.owner AND p.transcript = t.id
        WHERE t.tenant = $1 AND t.id = $2";
    let found = db.first(sql, &[&transcript])?;
    let progress = |row: Line| {
        Ok(Progress { generation: row.small(0)?, bytes: row.unsigned(1)?, patterns: row.text(2)?, watcher: row.json(3)? })
    };
    found.map(progress).transpose()
}

/// All of a lesson; what is known already is known once.
pub(super) fn learn(db: &mut Connection, transcript: i64, lesson: &Lesson, progress: &Progress) -> Result<usize, PostgresError> {
    let row = db.one(
        "SELECT s.id, s.audience, s.folder, t.agent FROM ctxbridge.transcripts t
            JOIN ctxbridge.sessions s ON s.tenant = t.tenant AND s.id = t.session AND s.owner = t.owner
         WHERE t.tenant = $1 AND t.id = $2 AND t.owner = session_user::text FOR UPDATE OF s",
        &[&transcript],
    )?;
    let session = Session { id: row.get(0)?, audience: row.get(1)? };
    let (folder, agent): (Option<String>, Option<String>) = (row.some_text(2)?, row.some_text(3)?);
    let tokenizer = Tokenizer::default();
    let mut new = 0;
    for learning in &lesson.learnings {
        new += usize::from(add(db, &tokenizer, &session, folder.as_deref(), learning)?);
    }
    for (old, by) in &lesson.superseded {
        db.execute(
            "UPDATE ctxbridge.learnings SET superseded_by =
                (SELECT id FROM ctxbridge.learnings WHERE tenant = $1 AND owner = session_user::text AND handle = $3)
             WHERE tenant = $1 AND owner = session_user::text AND handle = $2 AND handle <> $3",
            &[&&old.0[..], &&by.0[..]],
        )?;
    }
    for Fix { tool, call, error, changed, failed_ms, fixed_ms, turn } in &lesson.fixes {
        db.execute(
            "INSERT INTO ctxbridge.fixes (tenant, session, audience, uuid, tool, call, call_sha256, error, changed, failed_ms, fixed_ms)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) ON CONFLICT (tenant, session, owner, uuid, tool, call_sha256) DO NOTHING",
            &[
                &session.id,
                &session.audience,
                &&turn[..],
                &clean(tool),
                &clean(call),
                &&digest::sha256(call.as_bytes())[..],
                &clean(error),
                &to_json(changed),
                failed_ms,
                fixed_ms,
            ],
        )?;
    }
    for (turn, files) in &lesson.changed {
        db.execute(
            "INSERT INTO ctxbridge.changed_files (tenant, session, audience, uuid, files) VALUES ($1, $2, $3, $4, $5)
             ON CONFLICT (tenant, session, owner, uuid) DO UPDATE SET files = excluded.files",
            &[&session.id, &session.audience, &&turn[..], &to_json(files)],
        )?;
    }
    db.execute(
        "INSERT INTO ctxbridge.learning_progress (tenant, session, audience, transcript, agent, generation, bytes, patterns, watcher)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
         ON CONFLICT (tenant, session, owner, transcript) DO UPDATE SET generation = excluded.generation, bytes = excluded.bytes,
            patterns = excluded.patterns, watcher = excluded.watcher",
        &[
            &session.id,
            &session.audience,
            &transcript,
            &cleaned(agent.as_deref()),
            &progress.generation.cast_signed(),
            &progress.bytes.cast_signed(),
            &clean(&progress.patterns),
            &to_json(&progress.watcher),
        ],
    )?;
    Ok(new)
}

/// Whether it was not known.
fn add(
    db: &mut Connection,
    tokenizer: &Tokenizer,
    session: &Session,
    folder: Option<&str>,
    learning: &Learning,
) -> Result<bool, PostgresError> {
    let Learning { id, kind, sentence, confidence, at_ms, turn, before, after, agent, tools } = learning;
    let mut words = Words::default();
    words.add(tokenizer, sentence, Weight::A, PLACES);
    let added = db.execute(
        "INSERT INTO ctxbridge.learnings (tenant, audience, handle, kind, folder, sentence, confidence, words)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (tenant, owner, handle) DO NOTHING",
        &[&session.audience, &&id.0[..], &kind.name(), &cleaned(folder), &clean(sentence), confidence, &words],
    )?;
    let sql = "SELECT id FROM ctxbridge.learnings WHERE tenant = $1 AND owner = session_user::text AND handle = $2";
    let key: i64 = db.one(sql, &[&&id.0[..]])?.get(0)?;
    let said_again = db.execute(
        "INSERT INTO ctxbridge.learned (tenant, audience, learning, uuid, session, at_ms, before, after, agent, tools)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT (tenant, owner, learning, uuid) DO NOTHING",
        &[
            &session.audience,
            &key,
            &&turn[..],
            &session.id,
            at_ms,
            &clean(before),
            &clean(after),
            &cleaned(agent.as_deref()),
            &to_json(tools),
        ],
    )?;
    if added == 0 {
        if let Some(audience) = &session.audience {
            db.execute(
                "UPDATE ctxbridge.learnings SET audience = coalesce(audience, '{}') || $3::text[]
                 WHERE tenant = $1 AND owner = session_user::text AND handle = $2 AND NOT coalesce(audience, '{}') @> $3",
                &[&&id.0[..], audience],
            )?;
        }
        // Who comes back to what was taken back has decided so anew.
        if said_again == 1 {
            db.execute(
                "UPDATE ctxbridge.learnings l SET superseded_by = NULL
                 WHERE l.tenant = $1 AND l.owner = session_user::text AND l.handle = $2 AND l.superseded_by IS NOT NULL AND $3 >
                    (SELECT max(said.at_ms) FROM ctxbridge.learned said WHERE said.tenant = $1 AND said.owner = session_user::text
                     AND said.learning = l.superseded_by)",
                &[&&id.0[..], at_ms],
            )?;
        }
    }
    Ok(added == 1)
}

/// With where each was said last.
const LEARNINGS: &str = "
    SELECT l.handle, l.kind, l.sentence, l.confidence, l.folder, said.first_ms, said.last_ms, said.times,
        (SELECT newer.handle FROM ctxbridge.learnings newer WHERE newer.tenant = $1 AND newer.owner = l.owner AND newer.id = l.superseded_by),
        told.session, last.uuid, last.before, last.after, last.agent, last.tools
    FROM ctxbridge.learnings l
    JOIN (SELECT owner, learning, min(at_ms) AS first_ms, max(at_ms) AS last_ms, count(*) AS times FROM ctxbridge.learned
          WHERE tenant = $1 AND ($2::bigint IS NULL OR session = $2) GROUP BY owner, learning) AS said
        ON said.owner = l.owner AND said.learning = l.id
    JOIN ctxbridge.learned last ON last.tenant = $1 AND last.owner = l.owner AND last.learning = l.id AND last.uuid = (
        SELECT one.uuid FROM ctxbridge.learned one WHERE one.tenant = $1 AND one.owner = l.owner AND one.learning = l.id
        AND one.at_ms = said.last_ms AND ($2 IS NULL OR one.session = $2) ORDER BY one.uuid LIMIT 1)
    JOIN ctxbridge.sessions told ON told.tenant = $1 AND told.owner = l.owner AND told.id = last.session
    WHERE l.tenant = $1 AND ($3::text IS NULL OR l.kind = $3) AND ($4::text IS NULL OR l.folder = $4)
        AND ($5::text IS NULL
            OR strpos('/' || btrim(lower(replace(coalesce(l.folder, ''), '\\', '/')), '/') || '/', $5) > 0)
        AND ($6::bigint IS NULL OR said.last_ms >= $6) AND starts_with(encode(l.handle, 'hex'), $7)
        AND ($8 OR l.superseded_by IS NULL)";

pub(super) fn learnings(db: &mut Connection, wanted: &Wanted) -> Result<Vec<StoredLearning>, PostgresError> {
    let words = wanted.words.as_deref().map(query);
    // What asks for words, and says none, finds nothing.
    if words == Some(None) {
        return Ok(Vec::new());
    }
    let words = words.flatten();
    let sql = match words {
        Some(_) => format!(
            "{LEARNINGS} AND l.words @@ $9::text::tsquery
             ORDER BY ts_rank(l.words, $9::text::tsquery, 1) DESC, said.last_ms DESC, l.id DESC LIMIT $10"
        ),
        None => format!("{LEARNINGS} AND $9::text IS NULL ORDER BY said.last_ms DESC, l.id DESC LIMIT $10"),
    };
    let found = db.all(
        &sql,
        &[
            &wanted.session,
            &wanted.kind.map(Kind::name),
            &cleaned(wanted.folder.as_deref()),
            &wanted.project.as_deref().map(in_path),
            &wanted.since_ms,
            &clean(&wanted.id.to_lowercase()),
            &wanted.with_superseded,
            &words,
            &limit(wanted.limit),
        ],
    )?;
    found.iter().filter_map(|row| learning(row).transpose()).collect()
}

/// None of a kind that this version does not know.
fn learning(row: &Line) -> Result<Option<StoredLearning>, PostgresError> {
    let Some(kind) = Kind::named(&row.get::<String>(1)?) else { return Ok(None) };
    let superseded_by: Option<Vec<u8>> = row.get(8)?;
    Ok(Some(StoredLearning {
        id: Id(row.bytes(0)?),
        kind,
        sentence: row.text(2)?,
        confidence: row.get(3)?,
        folder: row.some_text(4)?,
        first_ms: row.get(5)?,
        last_ms: row.get(6)?,
        said: u32::try_from(row.unsigned(7)?).unwrap_or(u32::MAX),
        superseded_by: superseded_by.map(|_| row.bytes(8)).transpose()?.map(Id),
        session: row.text(9)?,
        turn: row.bytes(10)?,
        around: (row.text(11)?, row.text(12)?),
        agent: row.some_text(13)?,
        tools: row.json(14)?,
    }))
}

pub(super) fn tallies(db: &mut Connection, session: i64) -> Result<Vec<(Option<String>, Tally)>, PostgresError> {
    let sql = "SELECT agent, watcher FROM ctxbridge.learning_progress WHERE tenant = $1 AND session = $2
        ORDER BY agent IS NOT NULL, transcript";
    let found = db.all(sql, &[&session])?;
    let tally = |row: &Line| Ok((row.some_text(0)?, row.json::<Watcher>(1)?.tally().clone()));
    found.iter().map(tally).collect()
}

pub(super) fn fixes(db: &mut Connection, project: Option<&str>, count: usize) -> Result<Vec<StoredFix>, PostgresError> {
    let sql = format!(
        "SELECT s.session, f.uuid, f.tool, f.call, f.error, f.changed, f.failed_ms, f.fixed_ms FROM ctxbridge.fixes f
            JOIN ctxbridge.sessions s ON s.tenant = f.tenant AND s.id = f.session AND s.owner = f.owner
         WHERE f.tenant = $1 AND ($2::text IS NULL OR strpos({IN_PATH}, $2) > 0)
         ORDER BY f.fixed_ms DESC, f.session, f.uuid, f.tool, f.call LIMIT $3"
    );
    let fix = |row: &Line| {
        Ok(StoredFix {
            session: row.text(0)?,
            fix: Fix {
                turn: row.bytes(1)?,
                tool: row.text(2)?,
                call: row.text(3)?,
                error: row.text(4)?,
                changed: row.json(5)?,
                failed_ms: row.get(6)?,
                fixed_ms: row.get(7)?,
            },
        })
    };
    db.all(&sql, &[&project.map(in_path), &limit(count)])?.iter().map(fix).collect()
}

pub(super) fn changed_files(db: &mut Connection, project: Option<&str>, count: usize) -> Result<Vec<Vec<String>>, PostgresError> {
    let sql = format!(
        "SELECT f.files FROM ctxbridge.changed_files f
            JOIN ctxbridge.sessions s ON s.tenant = f.tenant AND s.id = f.session AND s.owner = f.owner
         WHERE f.tenant = $1 AND ($2::text IS NULL OR strpos({IN_PATH}, $2) > 0)
         ORDER BY s.last_ms DESC NULLS LAST, f.session, f.uuid LIMIT $3"
    );
    db.all(&sql, &[&project.map(in_path), &limit(count)])?.iter().map(|row| row.json(0)).collect()
}

pub(super) fn by_kind(db: &mut Connection) -> Result<Vec<(String, u64)>, PostgresError> {
    let sql = "SELECT kind, count(*) AS number FROM ctxbridge.learnings
        WHERE tenant = $1 AND owner = session_user::text AND superseded_by IS NULL GROUP BY kind ORDER BY number DESC, kind";
    db.all(sql, &[])?.iter().map(|row| Ok((row.get(0)?, row.unsigned(1)?))).collect()
}

fn to_json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
