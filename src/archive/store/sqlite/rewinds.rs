//! Parts of transcripts that left the conversation, or came back.

use rusqlite::{Connection, Result, params};

use super::cycle;
use crate::store::Batch;

/// Applies the changes of a batch to its turns, to the compactions between them, and to what was learned from them.
pub(super) fn apply(db: &Connection, session: i64, transcript: i64, batch: &Batch) -> Result<()> {
    for (shortened, rest) in batch.split_turns() {
        // What was learned behind the cut belongs to the new turn.
        db.execute(
            "UPDATE OR REPLACE learned SET uuid = ?3 WHERE session = ?1 AND uuid = ?2 AND at_ms >= ?4",
            params![session, shortened.id, rest.id, rest.started_ms],
        )?;
    }
    for change in &batch.path_changes {
        let (state, before) = if change.is_rewound { ("-1", "IS NULL") } else { ("NULL", "= -1") };
        let (start, end) = (change.start.cast_signed(), change.end.cast_signed());
        db.prepare_cached(&format!(
            "UPDATE turns SET superseded = {state} WHERE transcript = ?1 AND superseded {before} AND start >= ?2 AND start < ?3"
        ))?
        .execute(params![transcript, start, end])?;
        db.prepare_cached("UPDATE compactions SET is_rewound = ?4 WHERE transcript = ?1 AND start >= ?2 AND start < ?3")?
            .execute(params![transcript, start, end, change.is_rewound])?;
        db.prepare_cached(
            "UPDATE learned SET is_rewound = ?4 WHERE session = ?5 AND uuid IN
             (SELECT uuid FROM turns WHERE transcript = ?1 AND start >= ?2 AND start < ?3 AND (superseded IS NULL OR superseded = -1))",
        )?
        .execute(params![transcript, start, end, change.is_rewound, session])?;
        if !change.is_rewound {
            let first: Option<i64> = db.query_row(
                "SELECT min(started_ms) FROM turns WHERE transcript = ?1 AND start >= ?2 AND start < ?3 AND superseded IS NULL",
                params![transcript, start, end],
                |row| row.get(0),
            )?;
            first.map_or(Ok(()), |first_ms| cycle::hot_turns(db, transcript, first_ms))?;
        }
    }
    Ok(())
}
