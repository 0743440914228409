//! Queries for reading the archive.

use super::PostgresStore;
use super::connection::Connection;
use super::error::PostgresError;
use super::folders::folders_in;
use super::row::{PostgresRow, escape_nul, row_limit, saturating_i64};
use ctxbridge_archive::project::ProjectScope;
use ctxbridge_archive::store::{
    ArchiveTotals, Cursor, CursorReader, FullerGeneration, Session, SessionFolder, SessionPart, SessionReader, SessionStats,
    StoreError, StoredTranscript,
};
use ctxbridge_common::digest;
use ctxbridge_transcript::TurnSpan;

/// Letters with marks, and those that the tokenizer makes of them, for titles, which are compared as text.
const TITLE_LETTERS: [&str; 2] = [
    "àáâãäåçèéêëìíîïñòóôõöùúûüýÿāăąćĉċčďēĕėęěĝğġģĥĩīĭįĵķĺļľńņňōŏőŕŗřśŝşšţťũūŭůűųŵŷźżžłđøıё",
    "aaaaaaceeeeiiiinooooouuuuyyaaaccccdeeeeegggghiiiijklllnnnooorrrssssttuuuuuuwyzzzldoiе",
];

/// SQL expression: `true` if a row belongs to this user. Lookups by path need it, since other users have other files.
pub(super) const IS_OWN_SQL: &str = "owner = session_user::text";

/// `FROM` clause for the segments of a transcript's current generation.
const CURRENT_LAYOUT: &str = "
    FROM ctxbridge.transcripts t JOIN ctxbridge.layout l ON l.tenant = t.tenant AND l.session = t.session AND l.transcript = t.id
        AND l.generation = t.generation
    WHERE t.tenant = $1 AND t.owner = session_user::text AND t.path = $2";

/// Transcript, session, start, length and hash of a segment.
type SegmentRow = (i64, i64, u64, u32, digest::Sha256Digest);

/// The last segment, if it is shorter than `below`.
pub(super) fn tail(db: &mut Connection, path: &str, below: u32) -> Result<Option<SegmentRow>, PostgresError> {
    let sql = format!("SELECT t.id, t.session, l.start, l.bytes, l.sha256 {CURRENT_LAYOUT} ORDER BY l.start DESC LIMIT 1");
    let Some(row) = db.first(&sql, &[&escape_nul(path)])? else { return Ok(None) };
    let last = (row.get(0)?, row.get(1)?, row.unsigned(2)?, row.unsigned_32(3)?, row.byte_array(4)?);
    Ok(Some(last).filter(|(.., bytes, _)| *bytes < below))
}

/// The session of a transcript.
pub(super) fn session_of(db: &mut Connection, transcript: i64) -> Result<Option<i64>, PostgresError> {
    let row = db.first("SELECT session FROM ctxbridge.transcripts WHERE tenant = $1 AND id = $2", &[&transcript])?;
    row.map(|row| row.get(0)).transpose()
}

/// Start, length and hash of the segments that overlap a range.
pub(super) fn pieces(
    db: &mut Connection,
    session: i64,
    transcript: i64,
    generation: u32,
    range: (u64, u64),
) -> Result<Vec<(u64, u32, digest::Sha256Digest)>, PostgresError> {
    let sql = "SELECT start, bytes, sha256 FROM ctxbridge.layout
        WHERE tenant = $1 AND session = $2 AND transcript = $3 AND generation = $4 AND start < $6 AND start + bytes > $5
        ORDER BY start";
    let found =
        db.all(sql, &[&session, &transcript, &generation.cast_signed(), &saturating_i64(range.0), &saturating_i64(range.1)])?;
    found.iter().map(|row| Ok((row.unsigned(0)?, row.unsigned_32(1)?, row.byte_array(2)?))).collect()
}

/// The compressed bytes of a segment, if it is still there.
pub(super) fn packed(db: &mut Connection, session: i64, sha256: &digest::Sha256Digest) -> Result<Option<Vec<u8>>, PostgresError> {
    let sql = "SELECT data FROM ctxbridge.segments WHERE tenant = $1 AND session = $2 AND sha256 = $3";
    db.first(sql, &[&session, &&sha256[..]])?.map(|row| row.get(0)).transpose()
}

/// Totals of this user's data. The size on disk is that of all users, since it is not known per user.
pub(super) fn totals(db: &mut Connection) -> Result<ArchiveTotals, PostgresError> {
    let mut count = |what: &str, table: &str, condition: &str| -> Result<u64, PostgresError> {
        let sql = format!("SELECT {what} FROM ctxbridge.{table} WHERE tenant = $1 AND {IS_OWN_SQL} {condition}");
        db.one(&sql, &[])?.unsigned(0)
    };
    Ok(ArchiveTotals {
        sessions: count("count(DISTINCT session)", "transcripts", "")?,
        transcripts: count("count(*)", "transcripts", "AND (agent IS NULL OR NOT starts_with(agent, '/'))")?,
        turns: count(
            "count(DISTINCT (session, uuid))",
            "turns",
            "AND superseded IS NULL AND EXISTS (SELECT FROM ctxbridge.transcripts t
                WHERE t.tenant = $1 AND t.id = transcript AND t.owner = turns.owner AND agent IS NULL)",
        )?,
        entries: count("count(*)", "entries", "")?,
        pruned: count("count(*)", "entries", "AND confidence = 0")?,
        bytes_raw: count("coalesce(sum(bytes), 0)::bigint", "transcripts", "")?,
        bytes_segments: count("coalesce(sum(packed), 0)::bigint", "segments", "")?,
        bad_lines: count("coalesce(sum(bad_lines), 0)::bigint", "transcripts", "")?,
        compactions: count("count(*)", "compactions", "AND summary IS NOT NULL")?,
        bytes_stored: bytes_stored(db)?,
    })
}

fn bytes_stored(db: &mut Connection) -> Result<u64, PostgresError> {
    let sql = "SELECT coalesce(sum(pg_total_relation_size(pg_class.oid)), 0)::bigint FROM pg_class
        JOIN pg_namespace ON pg_namespace.oid = relnamespace WHERE nspname = 'ctxbridge' AND relkind = 'r'";
    db.one_without_tenant(sql, &[])?.unsigned(0)
}

const SELECT_SESSION: &str = "
    SELECT id, session, folder, version, model, context_window, context_tokens, first_ms, last_ms, end_reason,
        CASE WHEN s.owner <> session_user::text THEN s.owner END, moved_from, title
    FROM ctxbridge.sessions s WHERE s.tenant = $1
    AND EXISTS (SELECT FROM ctxbridge.transcripts t WHERE t.tenant = $1 AND t.session = s.id AND t.owner = s.owner)";

fn session_from(row: &PostgresRow) -> Result<Session, PostgresError> {
    Ok(Session {
        key: row.get(0)?,
        session: row.text(1)?,
        folder: row.optional_text(2)?,
        version: row.optional_text(3)?,
        model: row.optional_text(4)?,
        window: row.optional_unsigned(5)?,
        context_tokens: row.optional_unsigned(6)?,
        first_ms: row.get(7)?,
        last_ms: row.get(8)?,
        end_reason: row.optional_text(9)?,
        owner: row.optional_text(10)?,
        moved_from: row.optional_text(11)?,
        title: row.optional_text(12)?,
    })
}

/// The generation before a rewrite that has the most turns.
fn fullest_before(db: &mut Connection, session: i64) -> Result<Option<FullerGeneration>, PostgresError> {
    let sql = "SELECT lost.generation, count(DISTINCT u.uuid) AS number
        FROM (SELECT DISTINCT transcript, superseded - 1 AS generation FROM ctxbridge.turns
              WHERE tenant = $1 AND session = $2 AND superseded > 0 AND transcript IN
                (SELECT id FROM ctxbridge.transcripts WHERE tenant = $1 AND session = $2 AND agent IS NULL)) AS lost
        JOIN ctxbridge.turns u ON u.tenant = $1 AND u.session = $2 AND u.transcript = lost.transcript
            AND u.generation <= lost.generation AND (u.superseded IS NULL OR u.superseded > lost.generation)
        GROUP BY lost.transcript, lost.generation ORDER BY number DESC, lost.generation DESC LIMIT 1";
    let row = db.first(sql, &[&session])?;
    row.map(|row| Ok(FullerGeneration { generation: row.unsigned_32(0)?, turns: row.unsigned(1)? })).transpose()
}

impl SessionReader for PostgresStore {
    /// A session by its id. This user's own takes precedence where several users have one.
    fn session(&mut self, session: &str) -> Result<Option<Session>, StoreError> {
        self.read(|db| {
            let sql = format!(
                "{SELECT_SESSION} AND session = $2 ORDER BY ({IS_OWN_SQL}) DESC, last_ms DESC NULLS LAST, id DESC LIMIT 1"
            );
            db.first(&sql, &[&escape_nul(session)])?.as_ref().map(session_from).transpose()
        })
    }

    fn sessions(&mut self, prefix: &str, project: Option<&ProjectScope>, count: usize) -> Result<Vec<Session>, StoreError> {
        self.read(|db| {
            let sql = format!(
                "{SELECT_SESSION} AND starts_with(session, $2) AND ($3::text[] IS NULL OR folder = ANY ($3))
                 ORDER BY last_ms DESC NULLS LAST, id DESC LIMIT $4"
            );
            let folders = folders_in(db, "sessions", project)?;
            db.all(&sql, &[&escape_nul(prefix), &folders, &row_limit(count)])?.iter().map(session_from).collect()
        })
    }

    fn folders(&mut self) -> Result<Vec<SessionFolder>, StoreError> {
        self.read(|db| {
            let sql = "SELECT s.folder, count(*) FROM ctxbridge.sessions s WHERE s.tenant = $1 AND s.folder IS NOT NULL
                AND EXISTS (SELECT FROM ctxbridge.transcripts t WHERE t.tenant = $1 AND t.session = s.id AND t.owner = s.owner)
                GROUP BY s.folder ORDER BY max(s.last_ms) DESC NULLS LAST, s.folder";
            let folder = |row: &PostgresRow| Ok(SessionFolder { folder: row.text(0)?, sessions: row.unsigned(1)? });
            db.all(sql, &[])?.iter().map(folder).collect()
        })
    }

    fn sessions_titled(&mut self, words: &[String], count: usize) -> Result<Vec<i64>, StoreError> {
        self.read(|db| {
            let sql = "SELECT id FROM ctxbridge.sessions WHERE tenant = $1 AND title IS NOT NULL
                AND NOT EXISTS (SELECT FROM unnest($2::text[]) AS word
                    WHERE strpos(translate(replace(lower(title), 'ß', 'ss'), $4, $5), word) = 0)
             ORDER BY last_ms DESC NULLS LAST, id DESC LIMIT $3";
            let words: Vec<String> = words.iter().map(|word| escape_nul(word)).collect();
            let [marked, plain] = TITLE_LETTERS;
            db.all(sql, &[&words, &row_limit(count), &marked, &plain])?.iter().map(|row| row.get(0)).collect()
        })
    }

    fn session_stats(&mut self, session: i64) -> Result<SessionStats, StoreError> {
        self.read(|db| {
            let sql = "SELECT (SELECT count(DISTINCT uuid) FROM ctxbridge.turns WHERE tenant = $1 AND session = $2 AND superseded IS NULL
                    AND transcript IN (SELECT id FROM ctxbridge.transcripts WHERE tenant = $1 AND session = $2 AND agent IS NULL)),
                coalesce(sum(bytes), 0)::bigint, count(agent) FILTER (WHERE NOT starts_with(agent, '/')),
                coalesce(sum(bad_lines), 0)::bigint,
                coalesce(sum(generation) FILTER (WHERE agent IS NULL OR NOT starts_with(agent, '/')), 0)::bigint,
                count(*) FILTER (WHERE agent ~ '^/[^/]')
                FROM ctxbridge.transcripts WHERE tenant = $1 AND session = $2";
            let row = db.one(sql, &[&session])?;
            let mut stats = SessionStats {
                turns: row.unsigned(0)?,
                bytes: row.unsigned(1)?,
                agents: row.unsigned(2)?,
                bad_lines: row.unsigned(3)?,
                rewritten: row.unsigned(4)?,
                side_files: row.unsigned(5)?,
                fuller: None,
            };
            if stats.rewritten > 0 {
                stats.fuller = fullest_before(db, session)?.filter(|fuller| fuller.turns > stats.turns);
            }
            Ok(stats)
        })
    }

    /// The last session that ended with `/clear` since a time and whose transcript is in a folder.
    fn session_cleared(&mut self, transcripts_in: &str, but: &str, since_ms: i64) -> Result<Option<Session>, StoreError> {
        self.read(|db| {
            let sql = format!(
                "{SELECT_SESSION} AND {IS_OWN_SQL} AND session <> $3 AND end_reason = 'clear' AND ended_ms >= $4 AND EXISTS
                 (SELECT FROM ctxbridge.transcripts t WHERE t.tenant = $1 AND t.session = s.id AND t.owner = s.owner AND agent IS NULL
                  AND starts_with(path, $2))
              ORDER BY ended_ms DESC LIMIT 1"
            );
            db.first(&sql, &[&escape_nul(transcripts_in), &escape_nul(but), &since_ms])?.as_ref().map(session_from).transpose()
        })
    }

    fn transcripts(&mut self, session: i64) -> Result<Vec<StoredTranscript>, StoreError> {
        self.read(|db| {
            let sql = "SELECT id, path, agent, generation, bytes FROM ctxbridge.transcripts WHERE tenant = $1 AND session = $2
             ORDER BY agent IS NOT NULL, bytes DESC, id";
            let transcript = |row: &PostgresRow| {
                Ok(StoredTranscript {
                    key: row.get(0)?,
                    path: row.text(1)?,
                    part: SessionPart::from_column(row.optional_text(2)?),
                    generation: row.unsigned_32(3)?,
                    bytes: row.unsigned(4)?,
                })
            };
            db.all(sql, &[&session])?.iter().map(transcript).collect()
        })
    }

    /// Start times and context sizes of the session's turns. A turn that is in several files counts once.
    fn contexts(&mut self, session: i64) -> Result<Vec<(i64, u64)>, StoreError> {
        self.read(|db| {
            let sql = "SELECT min(started_ms) AS begin, max(context_tokens) FROM ctxbridge.turns
             WHERE tenant = $1 AND session = $2
             AND transcript IN (SELECT id FROM ctxbridge.transcripts WHERE tenant = $1 AND session = $2 AND agent IS NULL)
             AND superseded IS NULL AND context_tokens IS NOT NULL GROUP BY uuid ORDER BY begin";
            db.all(sql, &[&session])?.iter().map(|row| Ok((row.get(0)?, row.unsigned(1)?))).collect()
        })
    }

    fn first_entry(&mut self, session: i64) -> Result<Option<i64>, StoreError> {
        self.read(|db| {
            let sql =
                "SELECT entry FROM ctxbridge.turns WHERE tenant = $1 AND session = $2 AND superseded IS NULL AND transcript =
                 (SELECT id FROM ctxbridge.transcripts WHERE tenant = $1 AND session = $2 AND agent IS NULL
                  ORDER BY bytes DESC, id DESC LIMIT 1)
             ORDER BY idx LIMIT 1";
            db.first(sql, &[&session])?.map(|row| row.get(0)).transpose()
        })
    }
}

impl CursorReader for PostgresStore {
    fn cursor(&mut self, path: &str) -> Result<Option<Cursor>, StoreError> {
        self.read(|db| {
            let sql = format!(
                "SELECT generation, bytes, checked, interpreter FROM ctxbridge.transcripts WHERE tenant = $1 AND {IS_OWN_SQL} AND path = $2"
            );
            let found = db.first(&sql, &[&escape_nul(path)])?;
            found
                .map(|row| {
                    Ok(Cursor {
                        generation: row.unsigned_32(0)?,
                        bytes: row.unsigned(1)?,
                        check: row.byte_array(2)?,
                        interpreter: row.json(3)?,
                    })
                })
                .transpose()
        })
    }

    fn segment_index(&mut self, path: &str) -> Result<Vec<(u64, u32, digest::Sha256Digest)>, StoreError> {
        self.read(|db| {
            let sql = format!("SELECT l.start, l.bytes, l.sha256 {CURRENT_LAYOUT} ORDER BY l.start");
            let found = db.all(&sql, &[&escape_nul(path)])?;
            found.iter().map(|row| Ok((row.unsigned(0)?, row.unsigned_32(1)?, row.byte_array(2)?))).collect()
        })
    }

    fn turn_at(&mut self, path: &str, byte: u64) -> Result<Option<(u64, u32)>, StoreError> {
        self.read(|db| {
            let sql = "SELECT u.start, u.idx FROM ctxbridge.transcripts t JOIN ctxbridge.turns u
             ON u.tenant = t.tenant AND u.session = t.session AND u.transcript = t.id
         WHERE t.tenant = $1 AND t.owner = session_user::text AND t.path = $2 AND u.superseded IS NULL AND u.start <= $3
         ORDER BY u.idx DESC LIMIT 1";
            let found = db.first(sql, &[&escape_nul(path), &saturating_i64(byte)])?;
            found.map(|row| Ok((row.unsigned(0)?, row.unsigned_32(1)?))).transpose()
        })
    }

    fn turns_behind(&mut self, path: &str, byte: u64) -> Result<Vec<TurnSpan>, StoreError> {
        self.read(|db| {
            let sql = "SELECT u.idx, u.start, u.start + u.bytes FROM ctxbridge.transcripts t JOIN ctxbridge.turns u
             ON u.tenant = t.tenant AND u.session = t.session AND u.transcript = t.id AND u.owner = t.owner
         WHERE t.tenant = $1 AND t.owner = session_user::text AND t.path = $2 AND (u.superseded IS NULL OR u.superseded = -1)
            AND u.start + u.bytes > $3 ORDER BY u.start";
            let found = db.all(sql, &[&escape_nul(path), &saturating_i64(byte)])?;
            let span =
                |row: &PostgresRow| Ok(TurnSpan { index: row.unsigned_32(0)?, start: row.unsigned(1)?, end: row.unsigned(2)? });
            found.iter().map(span).collect()
        })
    }
}
