//! Learnings: each is stored once, with every turn that said it.

use rusqlite::{Connection, OptionalExtension, Result, Row, named_params, params};

use super::columns::{folders_in, from_json, to_json, unsigned};
use super::{SqliteQueries, SqliteStore};
use crate::learn::{Fix, Learning, LearningBatch, LearningCursor, LearningId, LearningKind, ToolStats};
use crate::project_scope::ProjectScope;
use crate::search::tokens::Tokenizer;
use crate::store::{LearningQuery, LearningReader, LearningWriter, StoreError, StoredFix, StoredLearning};

/// Adds a learning, and returns `true` if it is new.
pub(super) fn add(
    db: &Connection,
    tokenizer: &Tokenizer,
    session: i64,
    folder: Option<&str>,
    learning: &Learning,
) -> Result<bool> {
    let Learning { id, kind, sentence, confidence, at_ms, turn, before, after, agent, tools } = learning;
    let added = db
        .prepare_cached(
            "INSERT INTO learnings (handle, kind, folder, sentence, confidence) VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT DO NOTHING",
        )?
        .execute(params![id.0, kind.name(), folder, sentence, confidence])?;
    let key: i64 = db.prepare_cached("SELECT id FROM learnings WHERE handle = ?1")?.query_row([id.0], |row| row.get(0))?;
    if added == 1 {
        db.prepare_cached("INSERT INTO learning_words (rowid, text) VALUES (?1, ?2)")?
            .execute(params![key, tokenizer.join(sentence)])?;
    }
    let said_again = db
        .prepare_cached(
            "INSERT INTO learned (learning, uuid, session, at_ms, before, after, agent, tools, is_rewound)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, EXISTS (SELECT 1 FROM turns JOIN transcripts ON transcripts.id = transcript
                WHERE substr(uuid, 1, 4) = substr(?2, 1, 4) AND uuid = ?2 AND superseded = -1 AND transcripts.session = ?3))
             ON CONFLICT DO NOTHING",
        )?
        .execute(params![key, turn, session, at_ms, before, after, agent, to_json(tools)])?;
    // Who comes back to what was taken back has decided so anew.
    if added == 0 && said_again == 1 {
        db.prepare_cached(
            "UPDATE learnings SET superseded_by = NULL WHERE id = ?1 AND superseded_by IS NOT NULL AND ?2 >
             (SELECT max(at_ms) FROM learned WHERE learning = superseded_by)",
        )?
        .execute(params![key, at_ms])?;
    }
    Ok(added == 1)
}

/// Those with the wanted words, ranked once: asked for each learning, the rank is counted anew over all that have the words.
const WITH_WORDS: &str = "SELECT rowid AS learning, rank FROM learning_words WHERE learning_words MATCH :words";
/// Those of a turn, by the index of sessions.
const OF_TURN: &str = "SELECT learning, 0 AS rank FROM learned WHERE session = :session AND uuid = :turn AND :words IS NULL";

/// With where each was said last. `{from}` and `{only}` narrow it to those that were found. SQLite keeps to the order of a `CROSS JOIN`;
/// left to choose, it begins with the sessions, of which there are few, and reads all that any of them said.
const LEARNINGS: &str = "
    SELECT handle, kind, sentence, confidence, learnings.folder, said.first_ms, said.last_ms, said.times,
        (SELECT handle FROM learnings AS newer WHERE newer.id = learnings.superseded_by AND EXISTS
            (SELECT 1 FROM learned WHERE learning = newer.id AND NOT is_rewound)),
        sessions.session, last.uuid, last.before, last.after, last.agent, last.tools, said.is_rewound
    FROM {from} (SELECT learning, min(at_ms) AS first_ms, max(at_ms) AS last_ms, count(*) AS times, min(is_rewound) AS is_rewound FROM learned
          WHERE (:session IS NULL OR session = :session) AND (:with_superseded OR NOT is_rewound)
              AND (:turn IS NULL OR uuid = :turn) {only}
          GROUP BY learning) AS said ON said.learning = learnings.id
    CROSS JOIN learned AS last ON last.learning = learnings.id AND last.uuid = (
        SELECT uuid FROM learned WHERE learning = learnings.id AND at_ms = said.last_ms AND (:with_superseded OR NOT is_rewound)
        AND (:session IS NULL OR session = :session) AND (:turn IS NULL OR uuid = :turn) ORDER BY uuid LIMIT 1)
    CROSS JOIN sessions ON sessions.id = last.session
    WHERE (:kind IS NULL OR kind = :kind) AND (:folder IS NULL OR learnings.folder = :folder)
        AND (:folders IS NULL OR learnings.folder IN (SELECT value FROM json_each(:folders)))
        AND (:since IS NULL OR said.last_ms >= :since) AND substr(lower(hex(handle)), 1, length(:id)) = :id
        AND (:with_superseded OR NOT EXISTS (SELECT 1 FROM learned WHERE learning = superseded_by AND NOT is_rewound))";

/// The SQL that answers a query.
fn sql_of(wanted: &LearningQuery) -> String {
    let of = |from: &str, only: &str| LEARNINGS.replace("{from}", from).replace("{only}", only);
    let found = match (&wanted.words, wanted.turn, wanted.session) {
        (Some(_), ..) => WITH_WORDS,
        (None, Some(_), Some(_)) => OF_TURN,
        (None, ..) => {
            let all = of("learnings JOIN", "");
            return format!("{all} AND :words IS NULL ORDER BY said.last_ms DESC, learnings.id DESC LIMIT :limit");
        }
    };
    let narrowed = of(
        "found CROSS JOIN learnings ON learnings.id = found.learning CROSS JOIN",
        "AND learning IN (SELECT learning FROM found)",
    );
    format!(
        "WITH found AS MATERIALIZED ({found}) {narrowed} ORDER BY found.rank, said.last_ms DESC, learnings.id DESC LIMIT :limit"
    )
}

/// Reads a learning; `None` if this version does not know its kind.
fn learning(row: &Row<'_>) -> Result<Option<StoredLearning>> {
    let Some(kind) = LearningKind::named(&row.get::<_, String>(1)?) else { return Ok(None) };
    Ok(Some(StoredLearning {
        id: LearningId(row.get(0)?),
        kind,
        sentence: row.get(2)?,
        confidence: row.get(3)?,
        folder: row.get(4)?,
        first_ms: row.get(5)?,
        last_ms: row.get(6)?,
        said: row.get(7)?,
        superseded_by: row.get::<_, Option<[u8; 8]>>(8)?.map(LearningId),
        session: row.get(9)?,
        turn: row.get(10)?,
        around: (row.get(11)?, row.get(12)?),
        agent: row.get(13)?,
        tools: from_json(14, &row.get::<_, String>(14)?)?,
        is_rewound: row.get(15)?,
    }))
}

impl<S: SqliteQueries> LearningReader for S {
    fn learnings(&mut self, wanted: &LearningQuery) -> Result<Vec<StoredLearning>, StoreError> {
        self.query(|db| {
            let folders = folders_in(db, "learnings", wanted.project.as_ref())?;
            db.prepare_cached(&sql_of(wanted))?
                .query_map(
                    named_params! {
                        ":folders": folders,
                        ":session": wanted.session, ":turn": wanted.turn, ":kind": wanted.kind.map(LearningKind::name), ":folder": wanted.folder,
                        ":since": wanted.since_ms, ":id": wanted.id.to_lowercase(), ":with_superseded": wanted.with_superseded,
                        ":words": wanted.words, ":limit": i64::try_from(wanted.limit).unwrap_or(i64::MAX),
                    },
                    learning,
                )?
                .filter_map(Result::transpose)
                .collect()
        })
    }

    fn learning_cursor(&mut self, transcript: i64) -> Result<Option<LearningCursor>, StoreError> {
        self.query(|db| {
            db.prepare_cached("SELECT generation, bytes, patterns, watcher FROM learning_progress WHERE transcript = ?1")?
                .query_row([transcript], |row| {
                    Ok(LearningCursor {
                        generation: row.get(0)?,
                        bytes: unsigned(row, 1)?,
                        patterns: row.get(2)?,
                        watcher: from_json(3, &row.get::<_, String>(3)?)?,
                    })
                })
                .optional()
        })
    }

    fn tool_stats(&mut self, session: i64) -> Result<Vec<(Option<String>, ToolStats)>, StoreError> {
        self.query(|db| {
            db.prepare_cached(
                "SELECT agent, watcher FROM learning_progress JOIN transcripts ON transcripts.id = transcript
                 WHERE session = ?1 ORDER BY agent IS NOT NULL, transcripts.id",
            )?
            .query_map([session], |row| {
                let watcher: crate::learn::Watcher = from_json(1, &row.get::<_, String>(1)?)?;
                Ok((row.get(0)?, watcher.tally().clone()))
            })?
            .collect()
        })
    }

    fn fixes(&mut self, project: Option<&ProjectScope>, limit: usize) -> Result<Vec<StoredFix>, StoreError> {
        self.query(|db| {
            db.prepare_cached(
                "SELECT sessions.session, uuid, tool, call, error, changed, failed_ms, fixed_ms FROM fixes
                 JOIN sessions ON sessions.id = fixes.session
                 WHERE ?1 IS NULL OR folder IN (SELECT value FROM json_each(?1)) ORDER BY fixed_ms DESC LIMIT ?2",
            )?
            .query_map(params![folders_in(db, "sessions", project)?, i64::try_from(limit).unwrap_or(i64::MAX)], |row| {
                Ok(StoredFix {
                    session: row.get(0)?,
                    fix: Fix {
                        turn: row.get(1)?,
                        tool: row.get(2)?,
                        call: row.get(3)?,
                        error: row.get(4)?,
                        changed: from_json(5, &row.get::<_, String>(5)?)?,
                        failed_ms: row.get(6)?,
                        fixed_ms: row.get(7)?,
                    },
                })
            })?
            .collect()
        })
    }

    fn changed_files(&mut self, project: Option<&ProjectScope>, limit: usize) -> Result<Vec<Vec<String>>, StoreError> {
        self.query(|db| {
            db.prepare_cached(
                "SELECT files FROM changed_files JOIN sessions ON sessions.id = changed_files.session
                 WHERE ?1 IS NULL OR folder IN (SELECT value FROM json_each(?1)) ORDER BY last_ms DESC LIMIT ?2",
            )?
            .query_map(params![folders_in(db, "sessions", project)?, i64::try_from(limit).unwrap_or(i64::MAX)], |row| {
                from_json(0, &row.get::<_, String>(0)?)
            })?
            .collect()
        })
    }

    fn learnings_by_kind(&mut self) -> Result<Vec<(String, u64)>, StoreError> {
        self.query(|db| {
            let sql =
                "SELECT kind, count(*) AS number FROM learnings WHERE EXISTS (SELECT 1 FROM learned WHERE learning = learnings.id AND NOT is_rewound)
                 AND NOT EXISTS (SELECT 1 FROM learned WHERE learning = superseded_by AND NOT is_rewound)
                 GROUP BY kind ORDER BY number DESC, kind";
            db.prepare_cached(sql)?.query_map([], |row| Ok((row.get(0)?, unsigned(row, 1)?)))?.collect()
        })
    }
}

impl LearningWriter for SqliteStore {
    /// Adds a batch of learnings; known ones are not added again.
    fn add_learnings(&mut self, transcript: i64, batch: &LearningBatch, progress: &LearningCursor) -> Result<usize, StoreError> {
        self.write(|db| {
            let (session, folder): (i64, Option<String>) = db.query_row(
                "SELECT sessions.id, folder FROM transcripts JOIN sessions ON sessions.id = transcripts.session WHERE transcripts.id = ?1",
                [transcript],
                |row| Ok((row.get(0)?, row.get(1)?)),
            )?;
            let tokenizer = Tokenizer::default();
            let mut new = 0;
            for learning in &batch.learnings {
                new += usize::from(add(db, &tokenizer, session, folder.as_deref(), learning)?);
            }
            for (old, by) in &batch.superseded {
                db.prepare_cached(
                    "UPDATE learnings SET superseded_by = (SELECT id FROM learnings WHERE handle = ?2) WHERE handle = ?1 AND handle <> ?2",
                )?
                .execute(params![old.0, by.0])?;
            }
            for Fix { tool, call, error, changed, failed_ms, fixed_ms, turn } in &batch.fixes {
                db.prepare_cached(
                    "INSERT INTO fixes (session, uuid, tool, call, error, changed, failed_ms, fixed_ms) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
                     ON CONFLICT DO NOTHING",
                )?
                .execute(params![session, turn, tool, call, error, to_json(changed), failed_ms, fixed_ms])?;
            }
            for (turn, files) in &batch.changed {
                db.prepare_cached(
                    "INSERT INTO changed_files (session, uuid, files) VALUES (?1, ?2, ?3) ON CONFLICT DO UPDATE SET files = excluded.files",
                )?
                .execute(params![session, turn, to_json(files)])?;
            }
            db.prepare_cached(
                "INSERT INTO learning_progress (transcript, generation, bytes, patterns, watcher) VALUES (?1, ?2, ?3, ?4, ?5)
                 ON CONFLICT DO UPDATE SET generation = ?2, bytes = ?3, patterns = ?4, watcher = ?5",
            )?
            .execute(params![
                transcript,
                progress.generation,
                progress.bytes.cast_signed(),
                progress.patterns,
                to_json(&progress.watcher)
            ])?;
            Ok(new)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::LockPolicy;
    use super::*;

    /// SQLite does not begin with what is not asked for, whatever it knows of the sizes of tables.
    #[test]
    fn what_is_found_is_looked_up_and_nothing_else_is_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = SqliteStore::open(folder.path(), LockPolicy::Background).expect("opens");
        drop(store);
        let db = Connection::open(folder.path().join("archive.db")).expect("opens");
        let sizes =
            "ANALYZE; INSERT INTO sqlite_stat1 VALUES ('sessions', 'sqlite_autoindex_sessions_1', '7 1'); ANALYZE sqlite_schema";
        db.execute_batch(sizes).expect("a database");
        let of_turn = LearningQuery { session: Some(1), turn: Some([0; 16]), ..LearningQuery::default() };
        let with_words = LearningQuery { words: Some("parser".to_owned()), ..LearningQuery::default() };
        for wanted in [of_turn, with_words] {
            let mut plan = db.prepare(&format!("EXPLAIN QUERY PLAN {}", sql_of(&wanted))).expect("SQL");
            let steps: Vec<String> = plan.raw_query().mapped(|row| row.get("detail")).collect::<Result<_>>().expect("a plan");
            let read_whole = ["SCAN sessions", "SCAN learn", "SCAN last"];
            assert!(
                !steps.iter().any(|step| read_whole.iter().any(|whole| step.starts_with(whole) && !step.contains("VIRTUAL"))),
                "{steps:#?}"
            );
        }
    }
}
