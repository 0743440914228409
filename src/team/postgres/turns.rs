//! Queries for turns.

use std::collections::HashSet;
use std::sync::LazyLock;

use super::connection::{Connection, Params};
use super::error::PostgresError;
use super::row::{PostgresRow, row_limit};
use super::{PostgresStore, maintenance};
use ctxbridge_archive::store::{
    StoreError, StoredTurn, TurnLocation, TurnOffset, TurnReader, TurnSelection, first_of_each, turn_id_range,
};
use ctxbridge_transcript::Turn;

/// Value of `turns.superseded` for a turn that was rewound. SQL has it as `-1`.
const REWOUND: i32 = -1;

/// SQL expression: `true` if this user pinned a row of `turns`.
const IS_PINNED_SQL: &str = "EXISTS (SELECT FROM ctxbridge.kept k WHERE k.tenant = $1 AND k.owner = session_user::text
    AND k.uuid = turns.uuid AND k.is_kept)";

/// Joins turns with their entry, transcript and session. Every join
/// compares the owner, so rows of different users are never mixed.
const JOIN_ENTRY_AND_SESSION: &str = "
    JOIN ctxbridge.entries ON entries.tenant = turns.tenant AND entries.id = turns.entry AND entries.owner = turns.owner
    JOIN ctxbridge.transcripts ON transcripts.tenant = turns.tenant AND transcripts.id = turns.transcript
        AND transcripts.owner = turns.owner AND transcripts.session = turns.session
    JOIN ctxbridge.sessions ON sessions.tenant = turns.tenant AND sessions.id = turns.session AND sessions.owner = turns.owner";

/// `SELECT` of a [`StoredTurn`], for all turns.
static SELECT_TURNS: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT turns.entry, turns.transcript, turns.generation, superseded, sessions.session, transcripts.agent,
            access_count, {}, idx, start, start + turns.bytes, turns.uuid, started_ms, started_ms + took_ms, entries.sha256, chars,
            tools, files, agents, turns.context_tokens, output_tokens, is_answered, open_work,
            coalesce(entries.confidence = 0, false), {IS_PINNED_SQL},
            CASE WHEN turns.owner <> session_user::text THEN turns.owner END
         FROM ctxbridge.turns {JOIN_ENTRY_AND_SESSION} WHERE turns.tenant = $1",
        maintenance::confidence_sql(maintenance::TOTAL_LOSS_SQL)
    )
});

/// Query for the [`TurnLocation`]s of entries.
static SELECT_LOCATIONS: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT turns.entry, turns.id, turns.transcript, idx, turns.session, folder, started_ms, access_count, {}, richness,
            superseded IS NOT NULL
         FROM ctxbridge.turns {JOIN_ENTRY_AND_SESSION} WHERE turns.tenant = $1 AND turns.entry = ANY ($2)
         ORDER BY array_position($2, turns.entry), turns.id",
        maintenance::confidence_sql(maintenance::TOTAL_LOSS_SQL)
    )
});

/// Query for turns of a transcript: `$2` is its session, `$3` the transcript.
fn of_transcript(condition: &str) -> String {
    format!("{} AND turns.session = $2 AND turns.transcript = $3 AND {condition}", *SELECT_TURNS)
}

fn stored_turn(row: &PostgresRow) -> Result<StoredTurn, PostgresError> {
    let superseded: Option<i32> = row.get(3)?;
    Ok(StoredTurn {
        entry: row.get(0)?,
        transcript: row.get(1)?,
        generation: row.unsigned_32(2)?,
        is_superseded: superseded.is_some(),
        is_rewound: superseded == Some(REWOUND),
        session: row.text(4)?,
        owner: row.get(25)?,
        agent: row.optional_text(5)?,
        access_count: row.unsigned_32(6)?,
        confidence: row.get(7)?,
        is_pruned: row.get(23)?,
        is_pinned: row.get(24)?,
        turn: Turn {
            index: row.unsigned_32(8)?,
            start: row.unsigned(9)?,
            end: row.unsigned(10)?,
            id: row.byte_array(11)?,
            started_ms: row.get(12)?,
            ended_ms: row.get(13)?,
            content_sha256: row.byte_array(14)?,
            content_chars: row.unsigned(15)?,
            tools: row.names(16)?,
            files: row.names(17)?,
            agents: row.names(18)?,
            context_tokens: row.optional_unsigned(19)?,
            output_tokens: row.unsigned(20)?,
            is_answered: row.get(21)?,
            open_work: row.names(22)?,
            is_kept: row.get(24)?,
        },
    })
}

fn list(db: &mut Connection, sql: &str, params: Params<'_>) -> Result<Vec<StoredTurn>, PostgresError> {
    db.all(sql, params)?.iter().map(stored_turn).collect()
}

/// Number of a session's main transcripts.
fn mains(transcripts: &[TranscriptFile]) -> usize {
    transcripts.iter().filter(|listed| !listed.is_agent).count()
}

/// The ids of all turns that this user pinned.
fn pinned_ids(db: &mut Connection) -> Result<Vec<Vec<u8>>, PostgresError> {
    let sql = "SELECT uuid FROM ctxbridge.kept WHERE tenant = $1 AND owner = session_user::text AND is_kept";
    db.all(sql, &[])?.iter().map(|row| row.get(0)).collect()
}

/// A transcript file of a session.
struct TranscriptFile {
    transcript: i64,
    is_agent: bool,
    /// Turns that started earlier are pruned, or were restored.
    hot_from: i64,
}

/// Files of a session, the largest first.
fn transcripts(db: &mut Connection, session: i64) -> Result<Vec<TranscriptFile>, PostgresError> {
    let sql = "SELECT id, agent IS NOT NULL, hot_from FROM ctxbridge.transcripts WHERE tenant = $1 AND session = $2
        AND (agent IS NULL OR NOT starts_with(agent, '/'))
        ORDER BY bytes DESC, id DESC";
    let listed = |row: &PostgresRow| {
        let hot_from = row.get::<Option<i64>>(2)?.unwrap_or(i64::MIN);
        Ok(TranscriptFile { transcript: row.get(0)?, is_agent: row.get(1)?, hot_from })
    };
    db.all(sql, &[&session])?.iter().map(listed).collect()
}

fn candidates(
    db: &mut Connection,
    session: i64,
    transcript: i64,
    hot_from: i64,
    count: usize,
    found: &mut Vec<StoredTurn>,
) -> Result<(), PostgresError> {
    for richness in 0..4_i16 {
        let sql = of_transcript(
            "superseded IS NULL AND richness = $4 AND started_ms >= $6 AND access_count = 0
             AND entries.confidence IS DISTINCT FROM 0 ORDER BY started_ms DESC, idx DESC LIMIT $5",
        );
        found.extend(list(db, &sql, &[&session, &transcript, &richness, &row_limit(count), &hot_from])?);
    }
    let sql = of_transcript("superseded IS NULL AND access_count > 0");
    found.extend(list(db, &sql, &[&session, &transcript])?);
    Ok(())
}

pub(super) fn turn(db: &mut Connection, session: i64, transcript: i64, index: u32) -> Result<Option<StoredTurn>, PostgresError> {
    let sql = of_transcript("superseded IS NULL AND idx = $4");
    Ok(list(db, &sql, &[&session, &transcript, &index.cast_signed()])?.pop())
}

impl TurnReader for PostgresStore {
    fn turns(&mut self, session: i64, which: TurnSelection) -> Result<Vec<StoredTurn>, StoreError> {
        self.read(|db| {
            let mut found = Vec::new();
            // One transcript at a time, so that the index on its turns gives them in order; most sessions have just one.
            let transcripts = transcripts(db, session)?;
            // They are few, mostly none: to look at all turns for that would take longer than to send them.
            let kept = if which == TurnSelection::Pinned { pinned_ids(db)? } else { Vec::new() };
            for &TranscriptFile { transcript, is_agent, hot_from } in &transcripts {
                match which {
                    TurnSelection::Agents | TurnSelection::All if is_agent != (which == TurnSelection::Agents) => {}
                    TurnSelection::All | TurnSelection::Agents => {
                        let sql = of_transcript("superseded IS NULL ORDER BY start");
                        found.extend(list(db, &sql, &[&session, &transcript])?);
                    }
                    TurnSelection::Superseded => {
                        let sql = of_transcript("superseded IS NOT NULL ORDER BY start, turns.id");
                        found.extend(list(db, &sql, &[&session, &transcript])?);
                    }
                    TurnSelection::Newest(_) | TurnSelection::Candidates(_) | TurnSelection::Pinned if is_agent => {}
                    TurnSelection::Newest(count) => {
                        let sql = of_transcript("superseded IS NULL ORDER BY idx DESC LIMIT $4");
                        found.extend(list(db, &sql, &[&session, &transcript, &row_limit(count)])?);
                    }
                    TurnSelection::Candidates(count) => candidates(db, session, transcript, hot_from, count, &mut found)?,
                    TurnSelection::Pinned if kept.is_empty() => {}
                    TurnSelection::Pinned => {
                        let sql = of_transcript("superseded IS NULL AND turns.uuid = ANY ($4) ORDER BY idx DESC");
                        found.extend(list(db, &sql, &[&session, &transcript, &kept])?);
                    }
                }
            }
            which.drop_copies(mains(&transcripts), &mut found);
            Ok(found)
        })
    }

    /// Only the start offsets of the [turns](TurnReader::turns). This is cheaper: half of a turn's
    /// data is in its entry, which takes a lookup in an index of the whole table.
    fn turn_offsets(&mut self, session: i64, of_agents: bool) -> Result<Vec<TurnOffset>, StoreError> {
        self.read(|db| {
            let transcripts = transcripts(db, session)?;
            let sql = "SELECT start, uuid FROM ctxbridge.turns WHERE tenant = $1 AND session = $2 AND transcript = $3
            AND (superseded IS NULL OR superseded = -1) ORDER BY start";
            let mut found = Vec::new();
            for &TranscriptFile { transcript, .. } in transcripts.iter().filter(|listed| listed.is_agent == of_agents) {
                for row in db.all(sql, &[&session, &transcript])? {
                    found.push(TurnOffset { transcript, at: row.unsigned(0)?, id: row.byte_array(1)? });
                }
            }
            if !of_agents && mains(&transcripts) > 1 {
                let mut seen = HashSet::new();
                found.retain(|start| seen.insert(start.id));
            }
            Ok(found)
        })
    }

    fn turns_by_id(&mut self, prefix: &str) -> Result<Vec<StoredTurn>, StoreError> {
        self.read(|db| {
            let Some((low, high)) = turn_id_range(prefix) else { return Ok(Vec::new()) };
            let sql = format!(
                "{} AND turns.uuid BETWEEN $2 AND $3 ORDER BY superseded IS NOT NULL, started_ms DESC, turns.id DESC",
                *SELECT_TURNS
            );
            list(db, &sql, &[&&low[..], &&high[..]])
        })
    }

    fn turn_locations(&mut self, entries: &[i64]) -> Result<Vec<TurnLocation>, StoreError> {
        self.read(|db| {
            let place = |row: &PostgresRow| {
                let richness: i16 = row.get(9)?;
                Ok(TurnLocation {
                    entry: row.get(0)?,
                    key: row.get(1)?,
                    transcript: row.get(2)?,
                    index: row.unsigned_32(3)?,
                    session: row.get(4)?,
                    folder: row.optional_text(5)?,
                    started_ms: row.get(6)?,
                    access_count: row.unsigned_32(7)?,
                    confidence: row.get(8)?,
                    richness: (richness & 1 != 0, richness & 2 != 0),
                    is_superseded: row.get(10)?,
                })
            };
            db.all(&SELECT_LOCATIONS, &[&entries])?.iter().map(place).collect()
        })
    }

    fn turn(&mut self, transcript: i64, index: u32) -> Result<Option<StoredTurn>, StoreError> {
        let Self { pool, remembered, .. } = self;
        let found = pool.with(|db| match remembered.session_of(db, transcript)? {
            Some(session) => turn(db, session, transcript, index),
            None => Ok(None),
        });
        Ok(found?)
    }

    fn turn_by_location(&mut self, place: &TurnLocation) -> Result<Option<StoredTurn>, StoreError> {
        self.read(|db| {
            let sql = format!("{} AND turns.session = $2 AND turns.id = $3", *SELECT_TURNS);
            Ok(list(db, &sql, &[&place.session, &place.key])?.pop())
        })
    }

    /// Pinned turns, the newest first. One that is in several sessions is listed once.
    fn pinned(&mut self, count: usize) -> Result<Vec<StoredTurn>, StoreError> {
        self.read(|db| {
            let sql = format!(
                "{} AND turns.uuid IN (SELECT k.uuid FROM ctxbridge.kept k WHERE k.tenant = $1 AND k.owner = session_user::text AND k.is_kept)
                 ORDER BY superseded IS NOT NULL, started_ms DESC, turns.id DESC",
                *SELECT_TURNS
            );
            Ok(first_of_each(list(db, &sql, &[])?, count))
        })
    }

    /// Those of this user. Content that several sessions have is listed once.
    fn most_used(&mut self, count: usize) -> Result<Vec<StoredTurn>, StoreError> {
        self.read(|db| {
            let sql = format!(
                "{} AND turns.owner = session_user::text AND turns.entry IN (
                    SELECT id FROM ctxbridge.entries WHERE tenant = $1 AND owner = session_user::text AND access_count > 0 AND summary IS NULL
                    ORDER BY access_count DESC, accessed_ms DESC, id DESC LIMIT $2)
                 ORDER BY access_count DESC, accessed_ms DESC, superseded IS NOT NULL, started_ms DESC, turns.id DESC",
                *SELECT_TURNS
            );
            let mut seen = HashSet::new();
            let mut turns = list(db, &sql, &[&row_limit(count)])?;
            turns.retain(|turn| seen.insert(turn.entry));
            Ok(turns)
        })
    }
}
