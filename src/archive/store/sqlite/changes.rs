//! Log of changed entries, for data that is derived from them.

use rusqlite::{Connection, OptionalExtension, Result, params};

use super::SqliteQueries;
use crate::store::{Changes, ImportedEmbedding, SearchStore, StoreError};

/// Maximum number of logged changes: a reader that has missed more compares everything.
const MAX_KEPT_CHANGES: i64 = 2_000;

/// Returns the changes since a mark. A mark is the id of the last change at that time, and its salt.
fn changes_since(db: &Connection, mark: Option<&str>) -> Result<Changes> {
    let (last, salt): (i64, i64) = db
        .prepare_cached("SELECT id, salt FROM changes ORDER BY id DESC LIMIT 1")?
        .query_row([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let numbers = mark.and_then(|mark| mark.split_once(':'));
    let numbers: Option<(i64, i64)> = numbers.and_then(|(id, salt)| Some((id.parse().ok()?, salt.parse().ok()?)));
    let known: Option<i64> = match numbers {
        Some((id, salt)) => db
            .prepare_cached("SELECT id FROM changes WHERE id = ?1 AND salt = ?2")?
            .query_row([id, salt], |row| row.get(0))
            .optional()?,
        None => None,
    };
    let entries = match known {
        Some(known) => Some(
            db.prepare_cached("SELECT DISTINCT entry FROM changes WHERE id > ?1")?
                .query_map([known], |row| row.get(0))?
                .collect::<Result<_>>()?,
        ),
        None => None,
    };
    Ok(Changes { revision: format!("{last}:{salt}"), entries })
}

/// Deletes the oldest changes, never the last one.
pub(super) fn forget(db: &Connection) -> Result<()> {
    db.execute("DELETE FROM changes WHERE id <= (SELECT max(id) FROM changes) - ?1", [MAX_KEPT_CHANGES]).map(drop)
}

impl<S: SqliteQueries> SearchStore for S {
    fn changes(&mut self, since: Option<&str>) -> Result<Changes, StoreError> {
        // In one transaction, or the number might be newer than the list.
        self.query(|db| changes_since(&*db.unchecked_transaction()?, since))
    }

    fn imported_embeddings(&mut self, after: i64, limit: usize) -> Result<Vec<(i64, ImportedEmbedding)>, StoreError> {
        self.query(|db| {
            let limit = i64::try_from(limit).unwrap_or(i64::MAX);
            db.prepare_cached(
                "SELECT id, entry, source, source_id, model, embedding FROM imported WHERE id > ?1 ORDER BY id LIMIT ?2",
            )?
            .query_map(params![after, limit], |row| {
                let bytes: Vec<u8> = row.get(5)?;
                let (floats, _) = bytes.as_chunks();
                let vector = floats.iter().map(|float| f32::from_le_bytes(*float)).collect();
                let embedding = ImportedEmbedding {
                    entry: row.get(1)?,
                    source: row.get(2)?,
                    source_id: row.get(3)?,
                    model: row.get(4)?,
                    vector,
                };
                Ok((row.get(0)?, embedding))
            })?
            .collect()
        })
    }
}
