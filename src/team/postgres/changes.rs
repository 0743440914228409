//! Log of changed entries of this user, for keeping derived data up to date.

use super::PostgresStore;
use super::connection::Connection;
use super::error::PostgresError;
use ctxbridge_archive::store::{Changes, SearchBackend, SearchStore, StoreError, VectorStore};

/// Changed entries that are kept in the log. A reader that missed more compares everything.
const MAX_KEPT_CHANGES: i64 = 2_000;

/// Records entries that were added, changed or removed. Changes are numbered in the
/// order in which they become visible, so a writer waits for earlier writers to finish.
pub(super) fn record_changes(db: &mut Connection, entries: &[i64]) -> Result<(), PostgresError> {
    if entries.is_empty() {
        return Ok(());
    }
    lock(db)?;
    db.execute("INSERT INTO ctxbridge.changes (tenant, entries, salt) VALUES ($1, $2, $3)", &[&entries, &salt()]).map(drop)
}

fn lock(db: &mut Connection) -> Result<(), PostgresError> {
    let sql = "SELECT pg_advisory_xact_lock(hashtextextended('ctxbridge changes ' || $1 || ' ' || session_user::text, 0))";
    db.one(sql, &[]).map(drop)
}

/// A random number that distinguishes a change from one with the same number in another archive.
fn salt() -> i64 {
    // Without chance, two archives are told apart by the number alone.
    getrandom::u64().unwrap_or_default().cast_signed()
}

impl SearchStore for PostgresStore {
    /// Entries that changed since a mark was issued. A mark is the number of the last change at that time, with its salt.
    fn changes(&mut self, mark: Option<&str>) -> Result<Changes, StoreError> {
        self.write(|db| {
            let newest =
                "SELECT id, salt FROM ctxbridge.changes WHERE tenant = $1 AND owner = session_user::text ORDER BY id DESC LIMIT 1";
            let row = match db.first(newest, &[])? {
                Some(row) => row,
                // The first one is nobody's, and tells this archive from others.
                None => {
                    lock(db)?;
                    match db.first(newest, &[])? {
                        Some(row) => row,
                        None => {
                            let sql = "INSERT INTO ctxbridge.changes (tenant, entries, salt) VALUES ($1, '{}', $2) RETURNING id, salt";
                            db.one(sql, &[&salt()])?
                        }
                    }
                }
            };
            let (last, salt): (i64, i64) = (row.get(0)?, row.get(1)?);
            let numbers = mark.and_then(|mark| mark.split_once(':'));
            let numbers: Option<(i64, i64)> = numbers.and_then(|(id, salt)| Some((id.parse().ok()?, salt.parse().ok()?)));
            let known = match numbers {
                Some((id, salt)) => {
                    let sql =
                        "SELECT id FROM ctxbridge.changes WHERE tenant = $1 AND owner = session_user::text AND id = $2 AND salt = $3";
                    db.first(sql, &[&id, &salt])?.map(|row| row.get::<i64>(0)).transpose()?
                }
                None => None,
            };
            let entries = match known {
                Some(known) => {
                    let sql = "SELECT DISTINCT unnest(entries) FROM ctxbridge.changes
                        WHERE tenant = $1 AND owner = session_user::text AND id > $2 AND id <= $3";
                    Some(db.all(sql, &[&known, &last])?.iter().map(|row| row.get(0)).collect::<Result<_, _>>()?)
                }
                None => None,
            };
            Ok(Changes { revision: format!("{last}:{salt}"), entries })
        })
    }

    fn as_search_backend(&mut self) -> Option<&mut dyn SearchBackend> {
        Some(self)
    }

    fn as_vector_store(&mut self) -> Option<&mut dyn VectorStore> {
        Some(self)
    }
}

/// Deletes the oldest changes, never the last.
pub(super) fn trim_changes(db: &mut Connection) -> Result<(), PostgresError> {
    let sql = "DELETE FROM ctxbridge.changes WHERE tenant = $1 AND owner = session_user::text AND id < (
            SELECT max(id) FROM (
                SELECT id, sum(cardinality(entries)) OVER (ORDER BY id DESC) AS missed FROM ctxbridge.changes
                WHERE tenant = $1 AND owner = session_user::text
            ) AS known WHERE missed >= $2)";
    db.execute(sql, &[&MAX_KEPT_CHANGES]).map(drop)
}
