/*!
The tables, and bringing them up to date.

Migrations only ever go forward: a released file is never changed, a new one is added. Each is a transaction of its own, under a lock,
so that two clients at once are no matter. Whoever may make the schema does so, and owns it; all others only use it.
*/

use std::time::Duration;

use super::connection::Connection;
use super::error::PostgresError;

/// Entry `n` leads from version `n` to `n + 1`.
const MIGRATIONS: &[&str] = &[
    include_str!("migrations/001_members.sql"),
    include_str!("migrations/002_archive.sql"),
    include_str!("migrations/003_write.sql"),
    include_str!("migrations/004_search.sql"),
];

/// Held while the tables are changed; just a number that nobody else has.
const LOCK: i64 = 0x6374_7862_7269_6467;

/// How long a migration may take, or be waited for: indexes may have to be made anew.
const PATIENCE: Duration = Duration::from_secs(3_600);

/// The version of the schema that this program knows.
pub(super) const VERSION: i32 = MIGRATIONS.len() as i32;

/// Brings the schema up to date, if it is not.
pub(super) fn migrate(db: &mut Connection) -> Result<(), PostgresError> {
    loop {
        let found = version(db)?;
        if found == VERSION {
            return Ok(());
        }
        if found > VERSION {
            return Err(PostgresError::Newer { server: db.settings().server(), found, known: VERSION });
        }
        let step = |db: &mut Connection| -> Result<(), PostgresError> {
            db.be_patient(PATIENCE)?;
            db.fact("SELECT pg_advisory_xact_lock($1)", &[&LOCK])?;
            // Another one may have been first.
            if version(db)? != found {
                return Ok(());
            }
            if found == 0 {
                db.run(BEGIN)?;
            }
            db.run(MIGRATIONS[found as usize])?;
            db.fact("INSERT INTO ctxbridge.migrations (version) VALUES ($1) RETURNING version", &[&(found + 1)]).map(drop)
        };
        match db.transaction(step) {
            Err(PostgresError::Denied { .. }) => return Err(older(db, found)?),
            done => done?,
        }
    }
}

/// What all migrations need.
const BEGIN: &str = "
    CREATE SCHEMA IF NOT EXISTS ctxbridge;
    GRANT USAGE ON SCHEMA ctxbridge TO PUBLIC;
    CREATE TABLE ctxbridge.migrations (version integer PRIMARY KEY, at timestamptz NOT NULL DEFAULT now());
    GRANT SELECT ON ctxbridge.migrations TO PUBLIC";

/// The version of the schema; 0 where there is none.
fn version(db: &mut Connection) -> Result<i32, PostgresError> {
    // To look up a name, the server may use what it remembers; to read the catalogue, it looks.
    let is_there = "SELECT EXISTS (SELECT FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
        WHERE nspname = 'ctxbridge' AND relname = 'migrations')";
    if !db.fact(is_there, &[])?.get::<bool>(0)? {
        return Ok(0);
    }
    db.fact("SELECT coalesce(max(version), 0) FROM ctxbridge.migrations", &[])?.get(0)
}

/// Who has to do what this user may not.
fn older(db: &mut Connection, found: i32) -> Result<PostgresError, PostgresError> {
    let row = db.fact(
        "SELECT session_user::text, coalesce(
            (SELECT pg_get_userbyid(nspowner)::text FROM pg_namespace WHERE nspname = 'ctxbridge'),
            (SELECT pg_get_userbyid(datdba)::text FROM pg_database WHERE datname = current_database()))",
        &[],
    )?;
    let (user, owner) = (row.get(0)?, row.get(1)?);
    Ok(PostgresError::Older { server: db.settings().server(), found, known: VERSION, user, owner })
}
