//! Sessions, their transcripts, and how far these are archived.

use rusqlite::{Connection, OptionalExtension, Result, Row, params};

use super::SqliteQueries;
use super::columns::{IS_IMPORTED, IS_SIDE_FILE, folders_in, from_json, optional, unsigned};
use crate::project_scope::ProjectScope;
use crate::search::tokens::fold_text;
use crate::store::{
    ArchiveTotals, Cursor, CursorReader, FullerGeneration, Session, SessionFolder, SessionPart, SessionReader, SessionStats,
    StoreError, StoredTranscript,
};
use ctxbridge_common::digest;
use ctxbridge_transcript::TurnSpan;

pub(super) fn totals(db: &Connection) -> Result<ArchiveTotals> {
    let count = |sql: &str| db.query_row(sql, [], |row| unsigned(row, 0));
    Ok(ArchiveTotals {
        sessions: count("SELECT count(DISTINCT session) FROM transcripts")?,
        transcripts: count(&format!("SELECT count(*) FROM transcripts WHERE NOT {IS_SIDE_FILE}"))?,
        turns: count(
            "SELECT count(*) FROM (SELECT DISTINCT session, uuid FROM turns JOIN transcripts ON transcripts.id = transcript
             WHERE superseded IS NULL AND agent IS NULL)",
        )?,
        entries: count("SELECT count(*) FROM entries")?,
        pruned: count("SELECT count(*) FROM entries WHERE confidence = 0.0")?,
        bytes_raw: count("SELECT coalesce(sum(bytes), 0) FROM transcripts")?,
        bytes_segments: count("SELECT coalesce(sum(length(data)), 0) FROM segments")?,
        bytes_stored: count("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size")?,
        bad_lines: count("SELECT coalesce(sum(bad_lines), 0) FROM transcripts")?,
        compactions: count("SELECT count(*) FROM compactions WHERE summary IS NOT NULL")?,
    })
}

/// `FROM` clause for the segments of a transcript's current generation.
pub(super) const CURRENT_LAYOUT: &str = "
    FROM transcripts JOIN layout ON layout.transcript = transcripts.id AND layout.generation = transcripts.generation
    JOIN segments ON segments.id = layout.segment WHERE transcripts.path = ?1";

const SESSION: &str = "
    SELECT id, session, folder, version, model, window, context_tokens, first_ms, last_ms, end_reason, moved_from, title FROM sessions
    WHERE EXISTS (SELECT 1 FROM transcripts WHERE transcripts.session = sessions.id)";

fn session_of(row: &Row<'_>) -> Result<Session> {
    Ok(Session {
        key: row.get(0)?,
        session: row.get(1)?,
        folder: row.get(2)?,
        version: row.get(3)?,
        model: row.get(4)?,
        window: optional(row, 5)?,
        context_tokens: optional(row, 6)?,
        first_ms: row.get(7)?,
        last_ms: row.get(8)?,
        end_reason: row.get(9)?,
        moved_from: row.get(10)?,
        owner: None,
        title: row.get(11)?,
    })
}

impl<S: SqliteQueries> SessionReader for S {
    fn session(&mut self, session: &str) -> Result<Option<Session>, StoreError> {
        self.query(|db| db.prepare_cached(&format!("{SESSION} AND session = ?1"))?.query_row([session], session_of).optional())
    }

    fn sessions(&mut self, prefix: &str, project: Option<&ProjectScope>, limit: usize) -> Result<Vec<Session>, StoreError> {
        self.query(|db| {
            let sql = format!(
                "{SESSION} AND substr(session, 1, length(?1)) = ?1 AND (?2 IS NULL OR folder IN (SELECT value FROM json_each(?2)))
                 ORDER BY last_ms DESC, id DESC LIMIT ?3"
            );
            let folders = folders_in(db, "sessions", project)?;
            let limit = i64::try_from(limit).unwrap_or(i64::MAX);
            db.prepare_cached(&sql)?.query_map(params![prefix, folders, limit], session_of)?.collect()
        })
    }

    fn folders(&mut self) -> Result<Vec<SessionFolder>, StoreError> {
        self.query(|db| {
            db.prepare_cached(
                "SELECT folder, count(*) FROM sessions WHERE folder IS NOT NULL
                 AND EXISTS (SELECT 1 FROM transcripts WHERE transcripts.session = sessions.id)
                 GROUP BY folder ORDER BY max(last_ms) DESC, folder",
            )?
            .query_map([], |row| Ok(SessionFolder { folder: row.get(0)?, sessions: unsigned(row, 1)? }))?
            .collect()
        })
    }

    fn sessions_titled(&mut self, words: &[String], limit: usize) -> Result<Vec<i64>, StoreError> {
        self.query(|db| {
            let mut titles = db.prepare_cached("SELECT id, title FROM sessions WHERE title IS NOT NULL ORDER BY last_ms DESC")?;
            let titled = titles.query_map([], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?)))?;
            // Words are folded as the tokenizer does it, which SQLite cannot.
            let has_words = |title: &str| {
                let folded = fold_text(title);
                words.iter().all(|word| folded.contains(word.as_str()))
            };
            let fits = titled.filter(|row| row.as_ref().map_or(true, |(_, title)| has_words(title)));
            fits.take(limit).map(|row| row.map(|(id, _)| id)).collect()
        })
    }

    fn session_stats(&mut self, session: i64) -> Result<SessionStats, StoreError> {
        self.query(|db| {
            let turns = db
                .prepare_cached(
                    "SELECT count(DISTINCT uuid) FROM turns WHERE superseded IS NULL
                     AND transcript IN (SELECT id FROM transcripts WHERE session = ?1 AND agent IS NULL)",
                )?
                .query_row([session], |row| unsigned(row, 0))?;
            let mut stats = db
                .prepare_cached(&format!(
                    "SELECT coalesce(sum(bytes), 0), count(agent) FILTER (WHERE NOT {IS_SIDE_FILE}), coalesce(sum(bad_lines), 0),
                        coalesce(sum(generation) FILTER (WHERE NOT {IS_SIDE_FILE}), 0),
                        count(*) FILTER (WHERE agent GLOB '/[^/]*')
                     FROM transcripts WHERE session = ?1"
                ))?
                .query_row([session], |row| {
                    Ok(SessionStats {
                        turns,
                        bytes: unsigned(row, 0)?,
                        agents: unsigned(row, 1)?,
                        bad_lines: unsigned(row, 2)?,
                        rewritten: unsigned(row, 3)?,
                        side_files: unsigned(row, 4)?,
                        fuller: None,
                    })
                })?;
            if stats.rewritten > 0 {
                stats.fuller = fullest_before(db, session)?.filter(|fuller| fuller.turns > turns);
            }
            Ok(stats)
        })
    }

    fn session_cleared(&mut self, transcripts_in: &str, but: &str, since_ms: i64) -> Result<Option<Session>, StoreError> {
        let sql = format!(
            "{SESSION} AND session <> ?2 AND end_reason = 'clear' AND ended_ms >= ?3 AND EXISTS
                (SELECT 1 FROM transcripts WHERE transcripts.session = sessions.id AND agent IS NULL
                 AND substr(path, 1, length(?1)) = ?1)
             ORDER BY ended_ms DESC LIMIT 1"
        );
        self.query(|db| db.prepare_cached(&sql)?.query_row(params![transcripts_in, but, since_ms], session_of).optional())
    }

    fn transcripts(&mut self, session: i64) -> Result<Vec<StoredTranscript>, StoreError> {
        self.query(|db| {
            let sql = format!(
                "SELECT id, path, agent, generation, bytes FROM transcripts WHERE session = ?1
                 ORDER BY agent IS NOT NULL, {IS_IMPORTED}, bytes DESC, id"
            );
            db.prepare_cached(&sql)?
                .query_map([session], |row| {
                    Ok(StoredTranscript {
                        key: row.get(0)?,
                        path: row.get(1)?,
                        part: SessionPart::from_column(row.get(2)?),
                        generation: row.get(3)?,
                        bytes: unsigned(row, 4)?,
                    })
                })?
                .collect()
        })
    }

    /// A turn that is in several files of the session counts once.
    fn contexts(&mut self, session: i64) -> Result<Vec<(i64, u64)>, StoreError> {
        self.query(|db| {
            db.prepare_cached(
                "SELECT min(started_ms) AS begin, max(turns.context_tokens) FROM turns
                 WHERE transcript IN (SELECT id FROM transcripts WHERE session = ?1 AND agent IS NULL)
                 AND superseded IS NULL AND turns.context_tokens IS NOT NULL GROUP BY uuid ORDER BY begin",
            )?
            .query_map([session], |row| Ok((row.get(0)?, unsigned(row, 1)?)))?
            .collect()
        })
    }

    fn first_entry(&mut self, session: i64) -> Result<Option<i64>, StoreError> {
        self.query(|db| {
            let sql = format!(
                "SELECT entry FROM turns WHERE superseded IS NULL AND transcript =
                 (SELECT id FROM transcripts WHERE session = ?1 AND agent IS NULL ORDER BY {IS_IMPORTED}, bytes DESC, id DESC LIMIT 1)
              ORDER BY idx LIMIT 1"
            );
            db.prepare_cached(&sql)?.query_row([session], |row| row.get(0)).optional()
        })
    }
}

impl<S: SqliteQueries> CursorReader for S {
    fn cursor(&mut self, path: &str) -> Result<Option<Cursor>, StoreError> {
        self.query(|db| {
            db.prepare_cached("SELECT generation, bytes, checked, interpreter FROM transcripts WHERE path = ?1")?
                .query_row([path], |row| {
                    let interpreter = from_json(3, &row.get::<_, String>(3)?)?;
                    Ok(Cursor { generation: row.get(0)?, bytes: unsigned(row, 1)?, check: row.get(2)?, interpreter })
                })
                .optional()
        })
    }

    fn segment_index(&mut self, path: &str) -> Result<Vec<(u64, u32, digest::Sha256Digest)>, StoreError> {
        self.query(|db| {
            let sql = format!("SELECT layout.start, segments.bytes, sha256 {CURRENT_LAYOUT} ORDER BY layout.start");
            db.prepare_cached(&sql)?.query_map([path], |row| Ok((unsigned(row, 0)?, row.get(1)?, row.get(2)?)))?.collect()
        })
    }

    fn turn_at(&mut self, path: &str, byte: u64) -> Result<Option<(u64, u32)>, StoreError> {
        self.query(|db| {
            db.prepare_cached(
                "SELECT start, idx FROM turns WHERE transcript = (SELECT id FROM transcripts WHERE path = ?1)
                 AND superseded IS NULL AND start <= ?2 ORDER BY idx DESC LIMIT 1",
            )?
            .query_row(params![path, byte.cast_signed()], |row| Ok((unsigned(row, 0)?, row.get(1)?)))
            .optional()
        })
    }

    fn turns_behind(&mut self, path: &str, byte: u64) -> Result<Vec<TurnSpan>, StoreError> {
        self.query(|db| {
            db.prepare_cached(
                "SELECT idx, start, start + bytes FROM turns WHERE transcript = (SELECT id FROM transcripts WHERE path = ?1)
                 AND (superseded IS NULL OR superseded = -1) AND start + bytes > ?2 ORDER BY start",
            )?
            .query_map(params![path, byte.cast_signed()], |row| {
                Ok(TurnSpan { index: row.get(0)?, start: unsigned(row, 1)?, end: unsigned(row, 2)? })
            })?
            .collect()
        })
    }
}

/// The generation before a rewrite that has the most turns.
fn fullest_before(db: &Connection, session: i64) -> Result<Option<FullerGeneration>> {
    db.prepare_cached(
        "SELECT lost.generation, count(DISTINCT turns.uuid) AS number
         FROM (SELECT DISTINCT transcript, superseded - 1 AS generation FROM turns WHERE superseded > 0
               AND transcript IN (SELECT id FROM transcripts WHERE session = ?1 AND agent IS NULL)) AS lost
         JOIN turns ON turns.transcript = lost.transcript AND turns.generation <= lost.generation
            AND (superseded IS NULL OR superseded > lost.generation)
         GROUP BY lost.transcript, lost.generation ORDER BY number DESC, lost.generation DESC LIMIT 1",
    )?
    .query_row([session], |row| Ok(FullerGeneration { generation: row.get(0)?, turns: unsigned(row, 1)? }))
    .optional()
}

/// Returns the row of a session that a hook names, and creates it if its transcript has not been seen yet.
pub(super) fn ensure_session(db: &Connection, session: &str, now_ms: i64) -> Result<i64> {
    db.prepare_cached(
        "INSERT INTO sessions (session, first_ms, last_ms) VALUES (?1, ?2, ?2)
         ON CONFLICT (session) DO UPDATE SET session = excluded.session RETURNING id",
    )?
    .query_row(params![session, now_ms], |row| row.get(0))
}
