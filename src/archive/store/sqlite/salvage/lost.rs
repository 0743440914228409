//! Data that transcripts have lost.

use std::collections::BTreeMap;

use rusqlite::{Connection, Result};

use super::super::columns::{REWOUND, unsigned};
use ctxbridge_transcript::Interpreter;

/// A transcript whose row was lost, or the state of its reading.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LostTranscript {
    /// Its key in the damaged archive.
    pub key: i64,
    /// Its path, if that could be read.
    pub path: Option<String>,
    /// The key of its session, if that could be read.
    pub session: Option<i64>,
    /// The sub-agent, if it is one's and that could be read.
    pub agent: Option<String>,
    /// Its segments that are still there.
    pub layout: Vec<LostLayout>,
}

/// Position of a segment in a transcript that was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostLayout {
    /// Generation of the transcript.
    pub generation: u32,
    /// Its byte there.
    pub start: u64,
    /// Key of the segment in the new archive.
    pub segment: i64,
}

/// Bytes of a transcript that were lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hole {
    /// Key of the transcript.
    pub transcript: i64,
    /// Its generation.
    pub generation: u32,
    /// First byte.
    pub start: u64,
    /// The byte behind the last.
    pub end: u64,
}

/// Transcripts that are lost, with what is still known of them: those that layout names and that are not there, those of which only
/// the begin of the row could be read (`torn`), and those whose state is no JSON of ours. The rows of the last are removed.
pub(super) fn lost_transcripts(db: &Connection, torn: Vec<LostTranscript>) -> Result<Vec<LostTranscript>> {
    let mut lost: BTreeMap<i64, LostTranscript> = BTreeMap::new();
    let mut is_there = db.prepare("SELECT EXISTS (SELECT 1 FROM transcripts WHERE id = ?1)")?;
    for torn in torn {
        if !is_there.query_row([torn.key], |row| row.get::<_, bool>(0))? {
            lost.insert(torn.key, torn);
        }
    }
    for key in keys(db)? {
        if interpreter(db, key)?.is_none() {
            let known = db.query_row("SELECT path, session, agent FROM transcripts WHERE id = ?1", [key], |row| {
                Ok(LostTranscript { key, path: row.get(0)?, session: row.get(1)?, agent: row.get(2)?, layout: Vec::new() })
            })?;
            lost.insert(key, known);
            db.execute("DELETE FROM transcripts WHERE id = ?1", [key])?;
        }
    }
    let mut select = db.prepare(
        "SELECT transcript, generation, start, segment FROM layout
         WHERE transcript NOT IN (SELECT id FROM transcripts) AND segment IN (SELECT id FROM segments)
         ORDER BY transcript, generation, start",
    )?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        let key = row.get(0)?;
        let place = LostLayout { generation: row.get(1)?, start: unsigned(row, 2)?, segment: row.get(3)? };
        lost.entry(key).or_insert_with(|| LostTranscript { key, ..LostTranscript::default() }).layout.push(place);
    }
    Ok(lost.into_values().collect())
}

/// The parts of all generations that no segment has. The end of an older generation is that of its last known turn.
pub(in super::super) fn holes(db: &Connection) -> Result<Vec<Hole>> {
    let mut holes = Vec::new();
    let mut ends = db.prepare(
        "SELECT generation, bytes, (SELECT coalesce(max(turns.start + turns.bytes), 0) FROM turns
            WHERE turns.transcript = transcripts.id AND turns.generation <= ?2
            AND (superseded IS NULL OR superseded = ?3 OR superseded > ?2))
         FROM transcripts WHERE id = ?1",
    )?;
    let mut layout = db.prepare(
        "SELECT start, segments.bytes FROM layout JOIN segments ON segments.id = segment
         WHERE transcript = ?1 AND generation = ?2 ORDER BY start",
    )?;
    for transcript in keys(db)? {
        let newest: u32 = db.query_row("SELECT generation FROM transcripts WHERE id = ?1", [transcript], |row| row.get(0))?;
        for generation in 0..=newest {
            let key = (transcript, generation, REWOUND);
            let (bytes, turns): (u64, u64) = ends.query_row(key, |row| Ok((unsigned(row, 1)?, unsigned(row, 2)?)))?;
            let end = if generation == newest { bytes } else { turns };
            let mut at = 0;
            let mut note = |start: u64, end: u64| {
                if start < end {
                    holes.push(Hole { transcript, generation, start, end });
                }
            };
            let mut rows = layout.query((transcript, generation))?;
            while let Some(row) = rows.next()? {
                let (start, bytes) = (unsigned(row, 0)?, unsigned(row, 1)?);
                note(at, start);
                at = at.max(start.saturating_add(bytes));
            }
            note(at, end);
        }
    }
    Ok(holes)
}

/// Transcripts that do not have all turns that were read of them.
pub(super) fn missing_turns(db: &Connection) -> Result<Vec<i64>> {
    let mut select = db.prepare(
        "SELECT count(DISTINCT idx) FROM turns WHERE transcript = ?1 AND idx < ?2 AND (superseded IS NULL OR superseded = ?3)",
    )?;
    let mut missing = Vec::new();
    for key in keys(db)? {
        let expected = interpreter(db, key)?.map_or(0, |interpreter| interpreter.turns());
        let found: u32 = select.query_row((key, expected, REWOUND), |row| row.get(0))?;
        if found < expected {
            missing.push(key);
        }
    }
    Ok(missing)
}

fn keys(db: &Connection) -> Result<Vec<i64>> {
    db.prepare("SELECT id FROM transcripts ORDER BY id")?.query_map([], |row| row.get(0))?.collect()
}

fn interpreter(db: &Connection, transcript: i64) -> Result<Option<Interpreter>> {
    let mut select = db.prepare_cached("SELECT interpreter FROM transcripts WHERE id = ?1")?;
    select.query_row([transcript], |row| Ok(serde_json::from_slice(row.get_ref(0)?.as_bytes()?).ok()))
}
