//! Queries of the archive.

use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Result, Row, params};
use serde::de::DeserializeOwned;

use super::SqliteQueries;
use super::imported::IS_IMPORTED;
use crate::store::{ArchiveTotals, Cursor, CursorReader, Session, SessionReader, SessionStats, StoreError, StoredTranscript};
use ctxbridge_common::digest;

const CURRENT_LAYOUT: &str = "
    FROM transcripts JOIN layout ON layout.transcript = transcripts.id AND layout.generation = transcripts.generation
    JOIN segments ON segments.id = layout.segment WHERE transcripts.path = ?1";

/// Transcript, start, length, hash, data and dictionary.
pub(super) type Packed = (i64, u64, u32, digest::Sha256Digest, Vec<u8>, Option<i64>);

pub(super) fn tail(db: &Connection, path: &str, below: u32) -> Result<Option<Packed>> {
    let sql = format!(
        "SELECT transcripts.id, layout.start, segments.bytes, sha256, iif(segments.bytes < ?2, data, x''),
            (SELECT dictionary FROM warm WHERE warm.segment = segments.id) {CURRENT_LAYOUT}
         ORDER BY layout.start DESC LIMIT 1"
    );
    let last = db
        .prepare_cached(&sql)?
        .query_row(params![path, below], |row| {
            Ok((row.get(0)?, unsigned(row, 1)?, row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?))
        })
        .optional()?;
    // To what is in cold storage nothing is joined: whoever archives does not wait for that.
    Ok(last.filter(|(_, _, bytes, _, data, _): &Packed| *bytes < below && !data.is_empty()))
}

/// A segment of a transcript: its start there, its key, length and hash.
pub(super) type PlacedSegment = (u64, i64, u32, digest::Sha256Digest);

/// The segments that a range touches.
pub(super) fn segments(db: &Connection, transcript: i64, generation: u32, range: (u64, u64)) -> Result<Vec<PlacedSegment>> {
    db.prepare_cached(
        "SELECT start, segment, bytes, sha256 FROM layout JOIN segments ON segments.id = segment
         WHERE transcript = ?1 AND generation = ?2 AND start < ?4 AND start + bytes > ?3 ORDER BY start",
    )?
    .query_map(params![transcript, generation, range.0.cast_signed(), signed(range.1)], |row| {
        Ok((unsigned(row, 0)?, row.get(1)?, row.get(2)?, row.get(3)?))
    })?
    .collect()
}

pub(super) fn totals(db: &Connection) -> Result<ArchiveTotals> {
    let count = |sql: &str| db.query_row(sql, [], |row| unsigned(row, 0));
    Ok(ArchiveTotals {
        sessions: count("SELECT count(DISTINCT session) FROM transcripts")?,
        transcripts: count("SELECT count(*) FROM transcripts")?,
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

const SESSION: &str = "
    SELECT id, session, folder, version, model, window, context_tokens, first_ms, last_ms, end_reason FROM sessions
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
        owner: None,
    })
}

/// Parses a JSON column.
pub(super) fn from_json<T: DeserializeOwned>(index: usize, text: &str) -> Result<T> {
    serde_json::from_str(text).map_err(|error| rusqlite::Error::FromSqlConversionFailure(index, Type::Text, error.into()))
}

pub(super) fn unsigned(row: &Row<'_>, index: usize) -> Result<u64> {
    row.get::<_, i64>(index).map(i64::cast_unsigned)
}

pub(super) fn optional(row: &Row<'_>, index: usize) -> Result<Option<u64>> {
    row.get::<_, Option<i64>>(index).map(|value| value.map(i64::cast_unsigned))
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

impl<S: SqliteQueries> SessionReader for S {
    fn session(&mut self, session: &str) -> Result<Option<Session>, StoreError> {
        self.query(|db| db.prepare_cached(&format!("{SESSION} AND session = ?1"))?.query_row([session], session_of).optional())
    }

    fn sessions(&mut self, prefix: &str, folder: Option<&str>, limit: usize) -> Result<Vec<Session>, StoreError> {
        self.query(|db| {
            let sql = format!(
                "{SESSION} AND substr(session, 1, length(?1)) = ?1 AND (?2 IS NULL OR folder = ?2)
         ORDER BY last_ms DESC, id DESC LIMIT ?3"
            );
            let limit = i64::try_from(limit).unwrap_or(i64::MAX);
            db.prepare_cached(&sql)?.query_map(params![prefix, folder, limit], session_of)?.collect()
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
            db.prepare_cached(
                "SELECT coalesce(sum(bytes), 0), count(agent), coalesce(sum(bad_lines), 0), coalesce(sum(generation), 0)
         FROM transcripts WHERE session = ?1",
            )?
            .query_row([session], |row| {
                Ok(SessionStats {
                    turns,
                    bytes: unsigned(row, 0)?,
                    agents: unsigned(row, 1)?,
                    bad_lines: unsigned(row, 2)?,
                    rewritten: unsigned(row, 3)?,
                })
            })
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
                        agent: row.get(2)?,
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
}
