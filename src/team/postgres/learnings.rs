//! Reading learnings: each with the turn where it was said last.

use super::PostgresStore;
use super::error::PostgresError;
use super::folders::folders_in;
use super::row::{PostgresRow, escape_nul, escape_nul_in, row_limit};
use super::tsvector::to_tsquery;
use ctxbridge_archive::learn::{Fix, LearningCursor, LearningId, LearningKind, ToolStats, Watcher};
use ctxbridge_archive::project::ProjectScope;
use ctxbridge_archive::store::{LearningQuery, LearningReader, StoreError, StoredFix, StoredLearning};

/// Start of the query for learnings: selects the best, and then the turn where each was said last.
const SELECT_LEARNINGS: &str = "
    SELECT l.handle, l.kind, l.sentence, l.confidence, l.folder, l.first_ms, l.last_ms, l.times,
        (SELECT newer.handle FROM ctxbridge.learnings newer WHERE newer.tenant = $1 AND newer.owner = l.owner AND newer.id = l.superseded_by
            AND EXISTS (SELECT FROM ctxbridge.learned n WHERE n.tenant = $1 AND n.owner = l.owner AND n.learning = newer.id AND NOT n.is_rewound)),
        told.session, last.uuid, last.before, last.after, last.agent, last.tools, l.is_rewound
    FROM (SELECT l.owner, l.id, l.handle, l.kind, l.sentence, l.confidence, l.folder, l.superseded_by, said.first_ms, said.last_ms, said.times, said.is_rewound,";
const FROM_LEARNINGS: &str = "
    FROM ctxbridge.learnings l
    JOIN (SELECT owner, learning, min(at_ms) AS first_ms, max(at_ms) AS last_ms, count(*) AS times, bool_and(is_rewound) AS is_rewound
          FROM ctxbridge.learned WHERE tenant = $1 AND ($2::bigint IS NULL OR session = $2) AND ($8 OR NOT is_rewound)
              AND ($11::bytea IS NULL OR uuid = $11)
          GROUP BY owner, learning) AS said
        ON said.owner = l.owner AND said.learning = l.id
    WHERE l.tenant = $1 AND ($3::text IS NULL OR l.kind = $3) AND ($4::text IS NULL OR l.folder = $4)
        AND ($5::text[] IS NULL OR l.folder = ANY ($5))
        AND ($6::bigint IS NULL OR said.last_ms >= $6) AND starts_with(encode(l.handle, 'hex'), $7)
        AND ($8 OR NOT EXISTS (SELECT FROM ctxbridge.learned n WHERE n.tenant = $1 AND n.owner = l.owner
            AND n.learning = l.superseded_by AND NOT n.is_rewound))";
const ORDER_LEARNINGS: &str = "
    ORDER BY rank DESC, said.last_ms DESC, l.id DESC LIMIT $10) AS l
    JOIN LATERAL (SELECT * FROM ctxbridge.learned one WHERE one.tenant = $1 AND one.owner = l.owner AND one.learning = l.id
        AND one.at_ms = l.last_ms AND ($2 IS NULL OR one.session = $2) AND ($8 OR NOT one.is_rewound)
        AND ($11 IS NULL OR one.uuid = $11) ORDER BY one.uuid LIMIT 1) AS last ON true
    JOIN ctxbridge.sessions told ON told.tenant = $1 AND told.owner = l.owner AND told.id = last.session
    ORDER BY l.rank DESC, l.last_ms DESC, l.id DESC";

/// A learning from a row; `None` if this version does not know its kind.
fn learning(row: &PostgresRow) -> Result<Option<StoredLearning>, PostgresError> {
    let Some(kind) = LearningKind::named(&row.get::<String>(1)?) else { return Ok(None) };
    let superseded_by: Option<Vec<u8>> = row.get(8)?;
    Ok(Some(StoredLearning {
        id: LearningId(row.byte_array(0)?),
        kind,
        sentence: row.text(2)?,
        confidence: row.get(3)?,
        folder: row.optional_text(4)?,
        first_ms: row.get(5)?,
        last_ms: row.get(6)?,
        said: u32::try_from(row.unsigned(7)?).unwrap_or(u32::MAX),
        superseded_by: superseded_by.map(|_| row.byte_array(8)).transpose()?.map(LearningId),
        session: row.text(9)?,
        turn: row.byte_array(10)?,
        around: (row.text(11)?, row.text(12)?),
        agent: row.optional_text(13)?,
        tools: row.json(14)?,
        is_rewound: row.get(15)?,
    }))
}

impl LearningReader for PostgresStore {
    fn learnings(&mut self, wanted: &LearningQuery) -> Result<Vec<StoredLearning>, StoreError> {
        self.read(|db| {
            let words = wanted.words.as_deref().map(to_tsquery);
            // What asks for words, and says none, finds nothing.
            if words == Some(None) {
                return Ok(Vec::new());
            }
            let words = words.flatten();
            let sql = match words {
                Some(_) => {
                    format!(
                        "{SELECT_LEARNINGS} ts_rank(l.words, $9::text::tsquery, 1) AS rank {FROM_LEARNINGS} AND l.words @@ $9::text::tsquery {ORDER_LEARNINGS}"
                    )
                }
                None => format!("{SELECT_LEARNINGS} 0 AS rank {FROM_LEARNINGS} AND $9::text IS NULL {ORDER_LEARNINGS}"),
            };
            let folders = folders_in(db, "learnings", wanted.project.as_ref())?;
            let found = db.all(
                &sql,
                &[
                    &wanted.session,
                    &wanted.kind.map(LearningKind::name),
                    &escape_nul_in(wanted.folder.as_deref()),
                    &folders,
                    &wanted.since_ms,
                    &escape_nul(&wanted.id.to_lowercase()),
                    &wanted.with_superseded,
                    &words,
                    &row_limit(wanted.limit),
                    &wanted.turn.as_ref().map(|turn| &turn[..]),
                ],
            )?;
            found.iter().filter_map(|row| learning(row).transpose()).collect()
        })
    }

    fn learning_cursor(&mut self, transcript: i64) -> Result<Option<LearningCursor>, StoreError> {
        self.read(|db| {
            let sql =
        "SELECT p.generation, p.bytes, p.patterns, p.watcher FROM ctxbridge.transcripts t JOIN ctxbridge.learning_progress p
            ON p.tenant = t.tenant AND p.session = t.session AND p.owner = t.owner AND p.transcript = t.id
        WHERE t.tenant = $1 AND t.id = $2";
            let found = db.first(sql, &[&transcript])?;
            let progress = |row: PostgresRow| {
                Ok(LearningCursor {
                    generation: row.unsigned_32(0)?,
                    bytes: row.unsigned(1)?,
                    patterns: row.text(2)?,
                    watcher: row.json(3)?,
                })
            };
            found.map(progress).transpose()
        })
    }

    fn tool_stats(&mut self, session: i64) -> Result<Vec<(Option<String>, ToolStats)>, StoreError> {
        self.read(|db| {
            let sql = "SELECT agent, watcher FROM ctxbridge.learning_progress WHERE tenant = $1 AND session = $2
             ORDER BY agent IS NOT NULL, transcript";
            let found = db.all(sql, &[&session])?;
            let tally = |row: &PostgresRow| Ok((row.optional_text(0)?, row.json::<Watcher>(1)?.tally().clone()));
            found.iter().map(tally).collect()
        })
    }

    fn fixes(&mut self, project: Option<&ProjectScope>, count: usize) -> Result<Vec<StoredFix>, StoreError> {
        self.read(|db| {
            let sql =
                "SELECT s.session, f.uuid, f.tool, f.call, f.error, f.changed, f.failed_ms, f.fixed_ms FROM ctxbridge.fixes f
                JOIN ctxbridge.sessions s ON s.tenant = f.tenant AND s.id = f.session AND s.owner = f.owner
                WHERE f.tenant = $1 AND ($2::text[] IS NULL OR s.folder = ANY ($2))
                ORDER BY f.fixed_ms DESC, f.session, f.uuid, f.tool, f.call LIMIT $3";
            let fix = |row: &PostgresRow| {
                Ok(StoredFix {
                    session: row.text(0)?,
                    fix: Fix {
                        turn: row.byte_array(1)?,
                        tool: row.text(2)?,
                        call: row.text(3)?,
                        error: row.text(4)?,
                        changed: row.json(5)?,
                        failed_ms: row.get(6)?,
                        fixed_ms: row.get(7)?,
                    },
                })
            };
            let folders = folders_in(db, "sessions", project)?;
            db.all(sql, &[&folders, &row_limit(count)])?.iter().map(fix).collect()
        })
    }

    fn changed_files(&mut self, project: Option<&ProjectScope>, count: usize) -> Result<Vec<Vec<String>>, StoreError> {
        self.read(|db| {
            let sql = "SELECT f.files FROM ctxbridge.changed_files f
                JOIN ctxbridge.sessions s ON s.tenant = f.tenant AND s.id = f.session AND s.owner = f.owner
                WHERE f.tenant = $1 AND ($2::text[] IS NULL OR s.folder = ANY ($2))
                ORDER BY s.last_ms DESC NULLS LAST, f.session, f.uuid LIMIT $3";
            let folders = folders_in(db, "sessions", project)?;
            db.all(sql, &[&folders, &row_limit(count)])?.iter().map(|row| row.json(0)).collect()
        })
    }

    fn learnings_by_kind(&mut self) -> Result<Vec<(String, u64)>, StoreError> {
        self.read(|db| {
            let holds = "EXISTS (SELECT FROM ctxbridge.learned n WHERE n.tenant = $1 AND n.owner = l.owner AND NOT n.is_rewound AND n.learning =";
            let sql = format!(
                "SELECT kind, count(*) AS number FROM ctxbridge.learnings l
                 WHERE tenant = $1 AND owner = session_user::text AND {holds} l.id) AND NOT {holds} l.superseded_by)
                 GROUP BY kind ORDER BY number DESC, kind"
            );
            db.all(&sql, &[])?.iter().map(|row| Ok((row.get(0)?, row.unsigned(1)?))).collect()
        })
    }
}
