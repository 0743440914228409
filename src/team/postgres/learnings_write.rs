/*!
Writing learnings: each is stored once, with every turn where it was said.

A batch may have thousands of learnings, so each table is written by one statement.
*/

use std::collections::{HashMap, HashSet};

use super::connection::Connection;
use super::error::PostgresError;
use super::row::{escape_nul, escape_nul_in};
use super::session_row::SessionRow;
use super::tsvector::{TsVector, Weight};
use super::{PostgresStore, maintenance};
use ctxbridge_archive::learn::{Fix, Learning, LearningBatch, LearningCursor, LearningId};
use ctxbridge_archive::search::tokens::Tokenizer;
use ctxbridge_archive::store::{LearningWriter, StoreError};
use ctxbridge_common::digest;

/// Maximum number of word positions of a sentence.
const MAX_SENTENCE_POSITIONS: u16 = 2_000;

/// Inserts learnings, and returns the number of new ones. Known ones become visible to the audience of this session as well.
pub(super) fn insert_learnings(
    db: &mut Connection,
    session: &SessionRow,
    folder: Option<&str>,
    learnings: &[Learning],
) -> Result<usize, PostgresError> {
    if learnings.is_empty() {
        return Ok(0);
    }
    let mut seen = HashSet::new();
    let different: Vec<&Learning> = learnings.iter().filter(|learning| seen.insert(learning.id)).collect();
    let handles: Vec<&[u8]> = different.iter().map(|learning| &learning.id.0[..]).collect();
    let kinds: Vec<&str> = different.iter().map(|learning| learning.kind.name()).collect();
    let sentences: Vec<String> = different.iter().map(|learning| escape_nul(&learning.sentence)).collect();
    let confidences: Vec<f64> = different.iter().map(|learning| learning.confidence).collect();
    let tokenizer = Tokenizer::default();
    let words = |learning: &&Learning| {
        let mut words = TsVector::default();
        words.add(&tokenizer, &learning.sentence, Weight::A, MAX_SENTENCE_POSITIONS);
        words
    };
    let words: Vec<TsVector> = different.iter().map(words).collect();
    // A distributed server counts those that were there already among those that it wrote, and does not return them.
    let new = db.all(
        "INSERT INTO ctxbridge.learnings (tenant, audience, folder, handle, kind, sentence, confidence, words)
         SELECT $1, $2, $3, l.handle, l.kind, l.sentence, l.confidence, l.words
         FROM unnest($4::bytea[], $5::text[], $6::text[], $7::double precision[], $8::tsvector[])
            AS l (handle, kind, sentence, confidence, words)
         ON CONFLICT (tenant, owner, handle) DO NOTHING RETURNING id",
        &[&session.audience, &escape_nul_in(folder), &handles, &kinds, &sentences, &confidences, &words],
    )?;
    if session.audience.is_some() {
        db.one("SELECT ctxbridge.show_learnings($1, $2, $3)", &[&session.id, &handles])?;
    }
    Ok(new.len())
}

/// Row ids of all learnings of a batch. A join could find them as well,
/// but a server without table statistics would compare each row with each.
pub(super) fn learning_rows(db: &mut Connection, batch: &LearningBatch) -> Result<HashMap<LearningId, i64>, PostgresError> {
    let taken_back = batch.superseded.iter().flat_map(|(old, by)| [*old, *by]);
    let all: HashSet<LearningId> = batch.learnings.iter().map(|learning| learning.id).chain(taken_back).collect();
    if all.is_empty() {
        return Ok(HashMap::new());
    }
    let handles: Vec<&[u8]> = all.iter().map(|id| &id.0[..]).collect();
    let sql = "SELECT handle, id FROM ctxbridge.learnings WHERE tenant = $1 AND owner = session_user::text AND handle = ANY ($2)";
    db.all(sql, &[&handles])?.iter().map(|row| Ok((LearningId(row.byte_array(0)?), row.get(1)?))).collect()
}

/// Records the turns where learnings were said. A superseded learning that is said again later holds again.
pub(super) fn insert_occurrences(
    db: &mut Connection,
    session: &SessionRow,
    learnings: &[Learning],
    keys: &HashMap<LearningId, i64>,
) -> Result<(), PostgresError> {
    let learnings: Vec<(&Learning, i64)> =
        learnings.iter().filter_map(|learning| Some((learning, *keys.get(&learning.id)?))).collect();
    if learnings.is_empty() {
        return Ok(());
    }
    let (learnings, known): (Vec<&Learning>, Vec<i64>) = learnings.into_iter().unzip();
    let turns: Vec<&[u8]> = learnings.iter().map(|learning| &learning.turn[..]).collect();
    let times: Vec<i64> = learnings.iter().map(|learning| learning.at_ms).collect();
    let before: Vec<String> = learnings.iter().map(|learning| escape_nul(&learning.before)).collect();
    let after: Vec<String> = learnings.iter().map(|learning| escape_nul(&learning.after)).collect();
    let agents: Vec<Option<String>> = learnings.iter().map(|learning| escape_nul_in(learning.agent.as_deref())).collect();
    let tools: Vec<String> = learnings.iter().map(|learning| to_json(&learning.tools)).collect();
    let added = db.all(
        "INSERT INTO ctxbridge.learned (tenant, audience, session, learning, uuid, at_ms, before, after, agent, tools, is_rewound)
         SELECT $1, $2, $3, t.learning, t.uuid, t.at_ms, t.before, t.after, t.agent, t.tools,
            EXISTS (SELECT FROM ctxbridge.turns u WHERE u.tenant = $1 AND u.session = $3 AND u.owner = session_user::text
                AND u.uuid = t.uuid AND u.superseded = -1)
         FROM unnest($4::bigint[], $5::bytea[], $6::bigint[], $7::text[], $8::text[], $9::text[], $10::text[])
            AS t (learning, uuid, at_ms, before, after, agent, tools)
         ON CONFLICT (tenant, owner, learning, uuid) DO NOTHING RETURNING learning, at_ms",
        &[&session.audience, &session.id, &known, &turns, &times, &before, &after, &agents, &tools],
    )?;
    let mut newest: HashMap<i64, i64> = HashMap::new();
    for row in &added {
        let (learning, at_ms): (i64, i64) = (row.get(0)?, row.get(1)?);
        newest.entry(learning).and_modify(|newest| *newest = at_ms.max(*newest)).or_insert(at_ms);
    }
    let (said, times): (Vec<i64>, Vec<i64>) = newest.into_iter().unzip();
    db.execute(
        "UPDATE ctxbridge.learnings l SET superseded_by = NULL FROM unnest($2::bigint[], $3::bigint[]) AS again (learning, at_ms)
         WHERE l.tenant = $1 AND l.owner = session_user::text AND l.id = again.learning AND l.superseded_by IS NOT NULL
            AND again.at_ms > (SELECT max(said.at_ms) FROM ctxbridge.learned said
                WHERE said.tenant = $1 AND said.owner = session_user::text AND said.learning = l.superseded_by)",
        &[&said, &times],
    )
    .map(drop)
}

/// Marks learnings as superseded; the last successor counts.
fn mark_superseded(
    db: &mut Connection,
    all: &[(LearningId, LearningId)],
    keys: &HashMap<LearningId, i64>,
) -> Result<(), PostgresError> {
    let last: HashMap<i64, i64> =
        all.iter().filter(|(old, by)| old != by).filter_map(|(old, by)| Some((*keys.get(old)?, *keys.get(by)?))).collect();
    if last.is_empty() {
        return Ok(());
    }
    let (old, by): (Vec<i64>, Vec<i64>) = last.into_iter().unzip();
    db.execute(
        "UPDATE ctxbridge.learnings l SET superseded_by = taken.by FROM unnest($2::bigint[], $3::bigint[]) AS taken (learning, by)
         WHERE l.tenant = $1 AND l.owner = session_user::text AND l.id = taken.learning",
        &[&old, &by],
    )
    .map(drop)
}

fn fixes(db: &mut Connection, session: &SessionRow, fixes: &[Fix]) -> Result<(), PostgresError> {
    if fixes.is_empty() {
        return Ok(());
    }
    let turns: Vec<&[u8]> = fixes.iter().map(|fix| &fix.turn[..]).collect();
    let tools: Vec<String> = fixes.iter().map(|fix| escape_nul(&fix.tool)).collect();
    let calls: Vec<String> = fixes.iter().map(|fix| escape_nul(&fix.call)).collect();
    let hashes: Vec<digest::Sha256Digest> = fixes.iter().map(|fix| digest::sha256(fix.call.as_bytes())).collect();
    let hashes: Vec<&[u8]> = hashes.iter().map(|hash| &hash[..]).collect();
    let errors: Vec<String> = fixes.iter().map(|fix| escape_nul(&fix.error)).collect();
    let changed: Vec<String> = fixes.iter().map(|fix| to_json(&fix.changed)).collect();
    let failed: Vec<i64> = fixes.iter().map(|fix| fix.failed_ms).collect();
    let fixed: Vec<i64> = fixes.iter().map(|fix| fix.fixed_ms).collect();
    db.execute(
        "INSERT INTO ctxbridge.fixes (tenant, session, audience, uuid, tool, call, call_sha256, error, changed, failed_ms, fixed_ms)
         SELECT $1, $2, $3, f.uuid, f.tool, f.call, f.call_sha256, f.error, f.changed, f.failed_ms, f.fixed_ms
         FROM unnest($4::bytea[], $5::text[], $6::text[], $7::bytea[], $8::text[], $9::text[], $10::bigint[], $11::bigint[])
            AS f (uuid, tool, call, call_sha256, error, changed, failed_ms, fixed_ms)
         ON CONFLICT (tenant, session, owner, uuid, tool, call_sha256) DO NOTHING",
        &[&session.id, &session.audience, &turns, &tools, &calls, &hashes, &errors, &changed, &failed, &fixed],
    )
    .map(drop)
}

/// Records the files that turns changed. Each list is complete, so the last one of a turn counts.
fn insert_changed_files(
    db: &mut Connection,
    session: &SessionRow,
    changed: &[([u8; 16], Vec<String>)],
) -> Result<(), PostgresError> {
    let last: HashMap<&[u8], &Vec<String>> = changed.iter().map(|(turn, files)| (&turn[..], files)).collect();
    if last.is_empty() {
        return Ok(());
    }
    let (turns, files): (Vec<&[u8]>, Vec<String>) = last.into_iter().map(|(turn, files)| (turn, to_json(files))).unzip();
    db.execute(
        "INSERT INTO ctxbridge.changed_files (tenant, session, audience, uuid, files)
         SELECT $1, $2, $3, c.uuid, c.files FROM unnest($4::bytea[], $5::text[]) AS c (uuid, files)
         ON CONFLICT (tenant, session, owner, uuid) DO UPDATE SET files = excluded.files",
        &[&session.id, &session.audience, &turns, &files],
    )
    .map(drop)
}

fn to_json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

impl LearningWriter for PostgresStore {
    /// Writes a batch of learnings. Returns the number of new ones.
    fn add_learnings(&mut self, transcript: i64, batch: &LearningBatch, progress: &LearningCursor) -> Result<usize, StoreError> {
        self.write(|db| {
            maintenance::lock_shared(db)?;
            let row = db.first(
                "SELECT s.id, s.audience, s.folder, t.agent FROM ctxbridge.transcripts t
                    JOIN ctxbridge.sessions s ON s.tenant = t.tenant AND s.id = t.session AND s.owner = t.owner
                 WHERE t.tenant = $1 AND t.id = $2 AND t.owner = session_user::text FOR UPDATE OF s",
                &[&transcript],
            )?;
            // It was taken back.
            let Some(row) = row else { return Ok(0) };
            let session = SessionRow { id: row.get(0)?, audience: row.get(1)? };
            let (folder, agent): (Option<String>, Option<String>) = (row.optional_text(2)?, row.optional_text(3)?);
            let new = insert_learnings(db, &session, folder.as_deref(), &batch.learnings)?;
            let keys = learning_rows(db, batch)?;
            insert_occurrences(db, &session, &batch.learnings, &keys)?;
            mark_superseded(db, &batch.superseded, &keys)?;
            fixes(db, &session, &batch.fixes)?;
            insert_changed_files(db, &session, &batch.changed)?;
            db.execute(
                "INSERT INTO ctxbridge.learning_progress (tenant, session, audience, transcript, agent, generation, bytes, patterns, watcher)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
                 ON CONFLICT (tenant, session, owner, transcript) DO UPDATE SET generation = excluded.generation, bytes = excluded.bytes,
                    patterns = excluded.patterns, watcher = excluded.watcher",
                &[
                    &session.id,
                    &session.audience,
                    &transcript,
                    &escape_nul_in(agent.as_deref()),
                    &progress.generation.cast_signed(),
                    &progress.bytes.cast_signed(),
                    &escape_nul(&progress.patterns),
                    &to_json(&progress.watcher),
                ],
            )?;
            Ok(new)
        })
    }
}
