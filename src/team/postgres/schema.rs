/*!
The tables and their migrations.

Migrations only go forward: a released file is never changed, a new one is added. Each is a transaction of its own, under a lock,
so that two clients can run at once. A user who may create the schema does so, and owns it. All others only use it.
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
    include_str!("migrations/005_branches.sql"),
    include_str!("migrations/006_projects.sql"),
];

/// Key of the advisory lock for migrations: an arbitrary number that nobody else uses.
const MIGRATION_LOCK_KEY: i64 = 0x6374_7862_7269_6467;

/// Longest time for a migration, or for waiting for one: it may have to rebuild indexes.
const MIGRATION_TIMEOUT: Duration = Duration::from_secs(3_600);

/// The schema version that this program knows.
pub(super) const VERSION: i32 = MIGRATIONS.len() as i32;

/// Brings the schema up to date.
pub(super) fn migrate(db: &mut Connection) -> Result<(), PostgresError> {
    loop {
        let found = version(db)?;
        if found == VERSION {
            return Ok(());
        }
        if found > VERSION {
            return Err(PostgresError::SchemaTooNew { server: db.settings().server(), found, known: VERSION });
        }
        let step = |db: &mut Connection| -> Result<(), PostgresError> {
            db.extend_timeouts(MIGRATION_TIMEOUT)?;
            db.one_without_tenant("SELECT pg_advisory_xact_lock($1)", &[&MIGRATION_LOCK_KEY])?;
            // Another one may have been first.
            if version(db)? != found {
                return Ok(());
            }
            if found == 0 {
                db.run(BOOTSTRAP_SQL)?;
            }
            db.run(MIGRATIONS[found as usize])?;
            db.one_without_tenant("INSERT INTO ctxbridge.migrations (version) VALUES ($1) RETURNING version", &[&(found + 1)])
                .map(drop)
        };
        match db.transaction(step) {
            Err(PostgresError::Denied { .. }) => return Err(older(db, found)?),
            done => done?,
        }
    }
}

/// SQL that all migrations need.
const BOOTSTRAP_SQL: &str = "
    CREATE SCHEMA IF NOT EXISTS ctxbridge;
    GRANT USAGE ON SCHEMA ctxbridge TO PUBLIC;
    CREATE TABLE ctxbridge.migrations (version integer PRIMARY KEY, at timestamptz NOT NULL DEFAULT now());
    GRANT SELECT ON ctxbridge.migrations TO PUBLIC";

/// The version of the schema; 0 where there is none.
fn version(db: &mut Connection) -> Result<i32, PostgresError> {
    // To look up a name, the server may use what it remembers; to read the catalog, it looks.
    let is_there = "SELECT EXISTS (SELECT FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
        WHERE nspname = 'ctxbridge' AND relname = 'migrations')";
    if !db.one_without_tenant(is_there, &[])?.get::<bool>(0)? {
        return Ok(0);
    }
    db.one_without_tenant("SELECT coalesce(max(version), 0) FROM ctxbridge.migrations", &[])?.get(0)
}

/// The error for a schema that this user may not migrate. It names the owner, who has to.
fn older(db: &mut Connection, found: i32) -> Result<PostgresError, PostgresError> {
    let row = db.one_without_tenant(
        "SELECT session_user::text, coalesce(
            (SELECT pg_get_userbyid(nspowner)::text FROM pg_namespace WHERE nspname = 'ctxbridge'),
            (SELECT pg_get_userbyid(datdba)::text FROM pg_database WHERE datname = current_database()))",
        &[],
    )?;
    let (user, owner) = (row.get(0)?, row.get(1)?);
    Ok(PostgresError::SchemaTooOld { server: db.settings().server(), found, known: VERSION, user, owner })
}
