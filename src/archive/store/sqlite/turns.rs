//! Lists of turns.

use std::collections::HashSet;
use std::sync::LazyLock;

use rusqlite::{Connection, OptionalExtension, Params, Result, Row, params};

use super::columns::{IS_IMPORTED, IS_PINNED, IS_SIDE_FILE, PINNED_TURNS, REWOUND, from_json, optional, unsigned};
use super::{SqliteQueries, cycle};
use crate::store::{StoreError, StoredTurn, TurnLocation, TurnReader, TurnSelection, first_of_each, turn_id_range};
use ctxbridge_transcript::Turn;

/// Columns of a [`StoredTurn`].
static COLUMNS: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT turns.entry, turns.transcript, turns.generation, superseded, sessions.session, transcripts.agent,
         access_count, {}, idx, start, start + turns.bytes, turns.uuid, started_ms, started_ms + took_ms, sha256, chars,
         tools, files, agents, turns.context_tokens, output_tokens, is_answered, open_work,
         entries.confidence IS 0.0, {IS_PINNED}",
        cycle::confidence(cycle::TOTAL_LOSS)
    )
});

/// The [`TurnLocation`]s of an entry. Turns that an imported transcript no longer has are in the session's own.
static PLACES: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT turns.entry, turns.id, transcript, idx, transcripts.session, folder, started_ms, access_count, {}, richness,
            superseded IS NOT NULL
         FROM turns JOIN entries ON entries.id = turns.entry {AROUND}
         WHERE turns.entry = ?1 AND NOT (superseded IS NOT NULL AND {IS_IMPORTED})",
        cycle::confidence(cycle::TOTAL_LOSS)
    )
});

/// Joins for the columns that are not of the turn itself.
const AROUND: &str = "JOIN transcripts ON transcripts.id = turns.transcript JOIN sessions ON sessions.id = transcripts.session";

/// Turns of a transcript.
fn of_transcript(condition: &str) -> String {
    format!(
        "{} FROM turns CROSS JOIN entries ON entries.id = turns.entry {AROUND} WHERE turns.transcript = ?1 AND {condition}",
        *COLUMNS
    )
}

/// Turns that are pinned.
fn of_kept(condition: &str) -> String {
    format!("{} FROM {PINNED_TURNS} CROSS JOIN entries ON entries.id = turns.entry {AROUND} {condition}", *COLUMNS)
}

fn stored_turn(row: &Row<'_>) -> Result<StoredTurn> {
    let superseded: Option<i64> = row.get(3)?;
    Ok(StoredTurn {
        entry: row.get(0)?,
        transcript: row.get(1)?,
        generation: row.get(2)?,
        is_superseded: superseded.is_some(),
        is_rewound: superseded == Some(REWOUND),
        session: row.get(4)?,
        owner: None,
        agent: row.get(5)?,
        access_count: row.get(6)?,
        confidence: row.get(7)?,
        is_pruned: row.get(23)?,
        is_pinned: row.get(24)?,
        turn: Turn {
            index: row.get(8)?,
            start: unsigned(row, 9)?,
            end: unsigned(row, 10)?,
            id: row.get(11)?,
            started_ms: row.get(12)?,
            ended_ms: row.get(13)?,
            content_sha256: row.get(14)?,
            content_chars: unsigned(row, 15)?,
            tools: names(row, 16)?,
            files: names(row, 17)?,
            agents: names(row, 18)?,
            context_tokens: optional(row, 19)?,
            output_tokens: unsigned(row, 20)?,
            is_answered: row.get(21)?,
            open_work: names(row, 22)?,
            is_kept: row.get(24)?,
        },
    })
}

fn names(row: &Row<'_>, index: usize) -> Result<Vec<String>> {
    row.get::<_, Option<String>>(index)?.map_or(Ok(Vec::new()), |text| from_json(index, &text))
}

/// A file of a session.
struct SessionTranscript {
    transcript: i64,
    is_agent: bool,
    /// Turns that started earlier are pruned, or were restored.
    hot_from: i64,
}

/// Files of a session, the largest first, those of other tools' archives last.
fn transcripts(db: &Connection, session: i64) -> Result<Vec<SessionTranscript>> {
    let sql = format!(
        "SELECT id, agent IS NOT NULL, hot_from FROM transcripts WHERE session = ?1 AND NOT {IS_SIDE_FILE}
         ORDER BY {IS_IMPORTED}, bytes DESC, id DESC"
    );
    db.prepare_cached(&sql)?
        .query_map([session], |row| {
            let hot_from = row.get::<_, Option<i64>>(2)?.unwrap_or(i64::MIN);
            Ok(SessionTranscript { transcript: row.get(0)?, is_agent: row.get(1)?, hot_from })
        })?
        .collect()
}

fn candidates(db: &Connection, transcript: i64, hot_from: i64, count: usize, found: &mut Vec<StoredTurn>) -> Result<()> {
    for richness in 0..4 {
        let sql = of_transcript(
            "superseded IS NULL AND richness = ?2 AND started_ms >= ?4 AND access_count = 0 AND confidence IS NOT 0.0
             ORDER BY started_ms DESC LIMIT ?3",
        );
        found.extend(list(db, &sql, params![transcript, richness, limit(count), hot_from])?);
    }
    // The order of the tables is given: few entries were restored, and the planner cannot know.
    let sql = format!(
        "{} FROM entries CROSS JOIN turns ON turns.entry = entries.id {AROUND}
         WHERE access_count > 0 AND turns.transcript = ?1 AND superseded IS NULL",
        *COLUMNS
    );
    found.extend(list(db, &sql, [transcript])?);
    Ok(())
}

fn list(db: &Connection, sql: &str, params: impl Params) -> Result<Vec<StoredTurn>> {
    db.prepare_cached(sql)?.query_map(params, stored_turn)?.collect()
}

fn limit(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

impl<S: SqliteQueries> TurnReader for S {
    fn turns(&mut self, session: i64, which: TurnSelection) -> Result<Vec<StoredTurn>, StoreError> {
        self.query(|db| {
            let mut found = Vec::new();
            // One transcript at a time, so that the index on its turns gives them in order; most sessions have just one.
            let transcripts = transcripts(db, session)?;
            for &SessionTranscript { transcript, is_agent, hot_from } in &transcripts {
                match which {
                    TurnSelection::Agents | TurnSelection::All if is_agent != (which == TurnSelection::Agents) => {}
                    TurnSelection::All | TurnSelection::Agents => {
                        found.extend(list(db, &of_transcript("superseded IS NULL ORDER BY start"), [transcript])?);
                    }
                    TurnSelection::Superseded => {
                        found.extend(list(db, &of_transcript("superseded IS NOT NULL ORDER BY start, turns.id"), [transcript])?);
                    }
                    TurnSelection::Newest(_) | TurnSelection::Candidates(_) | TurnSelection::Pinned if is_agent => {}
                    TurnSelection::Newest(count) => {
                        let sql = of_transcript("superseded IS NULL ORDER BY idx DESC LIMIT ?2");
                        found.extend(list(db, &sql, params![transcript, limit(count)])?);
                    }
                    TurnSelection::Candidates(count) => candidates(db, transcript, hot_from, count, &mut found)?,
                    TurnSelection::Pinned => {
                        let sql = of_kept("WHERE turns.transcript = ?1 AND superseded IS NULL ORDER BY idx DESC");
                        found.extend(list(db, &sql, [transcript])?);
                    }
                }
            }
            which.drop_copies(transcripts.iter().filter(|listed| !listed.is_agent).count(), &mut found);
            Ok(found)
        })
    }

    fn turns_by_id(&mut self, prefix: &str) -> Result<Vec<StoredTurn>, StoreError> {
        self.query(|db| {
            let Some((low, high)) = turn_id_range(prefix) else { return Ok(Vec::new()) };
            let sql = format!(
                "{} FROM turns JOIN entries ON entries.id = turns.entry {AROUND}
                 WHERE substr(uuid, 1, 4) BETWEEN substr(?1, 1, 4) AND substr(?2, 1, 4) AND uuid BETWEEN ?1 AND ?2
                 ORDER BY superseded IS NOT NULL, started_ms DESC",
                *COLUMNS
            );
            list(db, &sql, params![low, high])
        })
    }

    /// One query for each entry: the lookup uses an index, and an entry mostly has one location.
    fn turn_locations(&mut self, entries: &[i64]) -> Result<Vec<TurnLocation>, StoreError> {
        self.query(|db| {
            // One lock for all of them: to take it again for each takes longer than to look it up.
            let _snapshot = if db.is_autocommit() { Some(db.unchecked_transaction()?) } else { None };
            let mut select = db.prepare_cached(&PLACES)?;
            let mut found = Vec::new();
            for entry in entries {
                let mut rows = select.query([entry])?;
                while let Some(row) = rows.next()? {
                    let richness: u8 = row.get(9)?;
                    found.push(TurnLocation {
                        entry: row.get(0)?,
                        key: row.get(1)?,
                        transcript: row.get(2)?,
                        index: row.get(3)?,
                        session: row.get(4)?,
                        folder: row.get(5)?,
                        started_ms: row.get(6)?,
                        access_count: row.get(7)?,
                        confidence: row.get(8)?,
                        richness: (richness & 1 != 0, richness & 2 != 0),
                        is_superseded: row.get(10)?,
                    });
                }
            }
            Ok(found)
        })
    }

    fn turn(&mut self, transcript: i64, index: u32) -> Result<Option<StoredTurn>, StoreError> {
        self.query(|db| {
            let sql = of_transcript("superseded IS NULL AND idx = ?2");
            db.prepare_cached(&sql)?.query_row(params![transcript, index], stored_turn).optional()
        })
    }

    fn turn_by_location(&mut self, location: &TurnLocation) -> Result<Option<StoredTurn>, StoreError> {
        self.query(|db| {
            let sql = format!("{} FROM turns JOIN entries ON entries.id = turns.entry {AROUND} WHERE turns.id = ?1", *COLUMNS);
            db.prepare_cached(&sql)?.query_row([location.key], stored_turn).optional()
        })
    }

    /// A turn that several sessions have is listed once.
    fn pinned(&mut self, limit: usize) -> Result<Vec<StoredTurn>, StoreError> {
        self.query(|db| {
            let sql = of_kept("ORDER BY superseded IS NOT NULL, started_ms DESC, turns.id DESC");
            Ok(first_of_each(list(db, &sql, [])?, limit))
        })
    }

    /// Content that several sessions have is listed once.
    fn most_used(&mut self, count: usize) -> Result<Vec<StoredTurn>, StoreError> {
        self.query(|db| {
            let sql = format!(
                "{} FROM (SELECT * FROM entries WHERE access_count > 0 AND text IS NULL
                    ORDER BY access_count DESC, accessed_ms DESC, id DESC LIMIT ?1) AS entries
                 CROSS JOIN turns ON turns.entry = entries.id {AROUND}
                 ORDER BY access_count DESC, accessed_ms DESC, superseded IS NOT NULL, started_ms DESC, turns.id DESC",
                *COLUMNS
            );
            let mut seen = HashSet::new();
            let mut turns = list(db, &sql, [limit(count)])?;
            turns.retain(|turn| seen.insert(turn.entry));
            Ok(turns)
        })
    }
}
