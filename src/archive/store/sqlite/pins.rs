//! Turns that the user pinned.
//!
//! A pin names the id of its turn: the content may still grow, and forks have the turn as well. A command of the user takes
//! precedence over a prompt.

use rusqlite::{Connection, Result, params};

use super::{SqliteStore, cycle};
use crate::store::{PinWriter, StoreError};
use ctxbridge_transcript::Turn;

/// Pins a turn because its prompt asks for it. An earlier command of the user takes precedence.
pub(super) fn pin_from_prompt(db: &Connection, turn: &Turn) -> Result<()> {
    let is_new = db
        .prepare_cached("INSERT INTO kept (uuid, is_kept, at_ms) VALUES (?1, 1, ?2) ON CONFLICT DO NOTHING")?
        .execute(params![turn.id, turn.started_ms])?;
    if is_new > 0 { revive(db, &turn.id) } else { Ok(()) }
}

/// Makes pruned entries of a turn hot again.
fn revive(db: &Connection, turn: &[u8; 16]) -> Result<()> {
    let entries: Vec<i64> = db
        .prepare_cached("SELECT DISTINCT entry FROM turns WHERE substr(uuid, 1, 4) = substr(?1, 1, 4) AND uuid = ?1")?
        .query_map([turn], |row| row.get(0))?
        .collect::<Result<_>>()?;
    entries.into_iter().try_for_each(|entry| cycle::revive(db, entry))
}

impl PinWriter for SqliteStore {
    fn set_pinned(&mut self, turn: &[u8; 16], is_kept: bool, now_ms: i64) -> Result<(), StoreError> {
        self.write(|db| {
            db.execute(
                "INSERT INTO kept (uuid, is_kept, at_ms) VALUES (?1, ?2, ?3)
                 ON CONFLICT DO UPDATE SET is_kept = excluded.is_kept, at_ms = excluded.at_ms",
                params![turn, is_kept, now_ms],
            )?;
            if is_kept { revive(db, turn) } else { Ok(()) }
        })
    }
}
