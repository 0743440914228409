//! Which of one's own entries changed, for those who keep something that is derived from them.

use super::connection::Connection;
use super::error::PostgresError;
use ctxbridge_archive::store::Changes;

/// Changed entries that are kept: who has missed more of them compares everything.
const KEPT: i64 = 2_000;

/// Takes note of entries that came, changed or went. Changes are numbered in the order in which they can be seen: so whoever notes some waits
/// for those who did before, until they are done.
pub(super) fn note(db: &mut Connection, entries: &[i64]) -> Result<(), PostgresError> {
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

/// What tells a change from one of the same number elsewhere.
fn salt() -> i64 {
    // Without chance, two archives are told apart by the number alone.
    getrandom::u64().unwrap_or_default().cast_signed()
}

/// What changed since a mark was given out: a mark is the last change at that time, and what only that one has.
pub(super) fn since(db: &mut Connection, mark: Option<&str>) -> Result<Changes, PostgresError> {
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
    Ok(Changes { mark: format!("{last}:{salt}"), entries })
}

/// Forgets the oldest, never the last.
pub(super) fn forget(db: &mut Connection) -> Result<(), PostgresError> {
    let sql = "DELETE FROM ctxbridge.changes WHERE tenant = $1 AND owner = session_user::text AND id < (
            SELECT max(id) FROM (
                SELECT id, sum(cardinality(entries)) OVER (ORDER BY id DESC) AS missed FROM ctxbridge.changes
                WHERE tenant = $1 AND owner = session_user::text
            ) AS known WHERE missed >= $2)";
    db.execute(sql, &[&KEPT]).map(drop)
}
