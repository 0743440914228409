//! The number by which others know that the archive has changed.

use rusqlite::{Connection, OptionalExtension, Result};

/// The note with the number.
const REVISION: &str = "revision";

pub(super) fn revision(db: &Connection) -> Result<u64> {
    let found: Option<i64> = db
        .prepare_cached("SELECT CAST(value AS INTEGER) FROM notes WHERE key = ?1")?
        .query_row([REVISION], |row| row.get(0))
        .optional()?;
    Ok(found.unwrap_or(0).cast_unsigned())
}

/// Makes it one more, as a part of the transaction that changes something.
pub(super) fn raise(db: &Connection) -> Result<()> {
    db.prepare_cached(
        "INSERT INTO notes (key, value) VALUES (?1, '1')
         ON CONFLICT (key) DO UPDATE SET value = CAST(CAST(value AS INTEGER) + 1 AS TEXT)",
    )?
    .execute([REVISION])
    .map(drop)
}
