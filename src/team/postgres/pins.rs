//! Turns that the user pinned.

use super::connection::Connection;
use super::error::PostgresError;
use super::{PostgresStore, maintenance};
use ctxbridge_archive::store::{PinWriter, StoreError};
use ctxbridge_transcript::Turn;

/// Pins a turn whose prompt asks for it. A choice made by a command takes precedence.
pub(super) fn pin_by_prompt(db: &mut Connection, turn: &Turn) -> Result<(), PostgresError> {
    let sql = "INSERT INTO ctxbridge.kept (tenant, uuid, is_kept, at_ms) VALUES ($1, $2, true, $3)
        ON CONFLICT (tenant, owner, uuid) DO NOTHING";
    if db.execute(sql, &[&&turn.id[..], &turn.started_ms])? > 0 { revive(db, &turn.id) } else { Ok(()) }
}

/// Makes the turn's entries hot again if they were pruned.
fn revive(db: &mut Connection, turn: &[u8; 16]) -> Result<(), PostgresError> {
    let sql = "SELECT DISTINCT entry FROM ctxbridge.turns WHERE tenant = $1 AND owner = session_user::text AND uuid = $2";
    let entries: Vec<i64> = db.all(sql, &[&&turn[..]])?.iter().map(|row| row.get(0)).collect::<Result<_, _>>()?;
    maintenance::revive(db, &entries)
}

impl PinWriter for PostgresStore {
    fn set_pinned(&mut self, turn: &[u8; 16], is_kept: bool, now_ms: i64) -> Result<(), StoreError> {
        self.write(|db| {
            // A cycle that has begun does not know of it.
            maintenance::lock_shared(db)?;
            let sql = "INSERT INTO ctxbridge.kept (tenant, uuid, is_kept, at_ms) VALUES ($1, $2, $3, $4)
             ON CONFLICT (tenant, owner, uuid) DO UPDATE SET is_kept = excluded.is_kept, at_ms = excluded.at_ms";
            db.execute(sql, &[&&turn[..], &is_kept, &now_ms])?;
            if is_kept { revive(db, turn) } else { Ok(()) }
        })
    }
}
