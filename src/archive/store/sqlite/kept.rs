//! Turns that the user asked to keep.

use rusqlite::{Connection, Result, params};

use super::cycle;
use ctxbridge_transcript::Turn;

/// The turns of `kept`, by the index on their handles: a source of rows.
pub(super) const KEPT_TURNS: &str =
    "kept CROSS JOIN turns ON substr(turns.uuid, 1, 4) = substr(kept.uuid, 1, 4) AND turns.uuid = kept.uuid AND is_kept";

/// Whether a row of `turns` is one of them: an expression.
pub(super) const IS_KEPT: &str = "EXISTS (SELECT 1 FROM kept WHERE kept.uuid = turns.uuid AND is_kept)";

/// A prompt asks for it. What the user said by a command counts more.
pub(super) fn asked(db: &Connection, turn: &Turn) -> Result<()> {
    let is_new = db
        .prepare_cached("INSERT INTO kept (uuid, is_kept, at_ms) VALUES (?1, 1, ?2) ON CONFLICT DO NOTHING")?
        .execute(params![turn.id, turn.started_ms])?;
    if is_new > 0 { revive(db, &turn.id) } else { Ok(()) }
}

pub(super) fn keep(db: &Connection, turn: &[u8; 16], is_kept: bool, now_ms: i64) -> Result<()> {
    db.execute(
        "INSERT INTO kept (uuid, is_kept, at_ms) VALUES (?1, ?2, ?3)
         ON CONFLICT DO UPDATE SET is_kept = excluded.is_kept, at_ms = excluded.at_ms",
        params![turn, is_kept, now_ms],
    )?;
    if is_kept { revive(db, turn) } else { Ok(()) }
}

/// What was pruned before is hot again.
fn revive(db: &Connection, turn: &[u8; 16]) -> Result<()> {
    let entries: Vec<i64> = db
        .prepare_cached("SELECT DISTINCT entry FROM turns WHERE substr(uuid, 1, 4) = substr(?1, 1, 4) AND uuid = ?1")?
        .query_map([turn], |row| row.get(0))?
        .collect::<Result<_>>()?;
    entries.into_iter().try_for_each(|entry| cycle::revive(db, entry))
}
