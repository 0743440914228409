/*!
Opening of all SQLite databases: private, in WAL mode, with a busy timeout, and at the newest schema.
*/

use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use crate::files;

/// Capacity of the cache of prepared statements.
const STATEMENT_CACHE_CAPACITY: usize = 64;

/// Options for opening a database.
#[derive(Clone, Copy, Debug)]
pub struct DatabaseOptions {
    /// Time that a writer waits for another one before it gives up.
    pub busy_timeout: Duration,
    /// `true` if every commit has to survive a power failure. Otherwise the last ones may be missing then, but nothing is damaged.
    pub is_durable: bool,
    /// Pages in the log after which a commit checkpoints them into the database, which takes some syncs of the disk. If set,
    /// closing does not checkpoint, so a process that only adds a little does not pay for it when it ends.
    pub wal_autocheckpoint: Option<u32>,
}

impl DatabaseOptions {
    /// Options for data that must never be lost.
    pub const DURABLE: Self = Self { busy_timeout: Duration::from_secs(10), is_durable: true, wal_autocheckpoint: None };
}

/// A database that cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseOpenError {
    /// SQLite reports an error.
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
    /// It was written by a newer version.
    #[error("its schema is version {found}, newer than this ctxbridge knows ({known}); upgrade ctxbridge")]
    Newer {
        /// The schema of the file.
        found: u32,
        /// The newest this version knows.
        known: u32,
    },
}

/// Opens or creates a database and brings it to the newest schema. `migrations` only ever grows: entry `n` leads from version
/// `n` to `n + 1`.
///
/// # Errors
/// If the file cannot be opened or is newer than this version.
pub fn open(path: &Path, migrations: &[&str], options: DatabaseOptions) -> Result<Connection, DatabaseOpenError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    create_private(path);
    let mut db = Connection::open_with_flags(path, flags)?;
    // Before anything else: the very first statement may already find the file locked.
    db.busy_timeout(options.busy_timeout)?;
    db.pragma_update(None, "journal_mode", "wal")?;
    db.pragma_update(None, "synchronous", if options.is_durable { "full" } else { "normal" })?;
    if let Some(pages) = options.wal_autocheckpoint {
        db.pragma_update(None, "wal_autocheckpoint", pages)?;
        db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    }
    db.pragma_update(None, "foreign_keys", true)?;
    // More than there are statements in a pass: to parse them again would take longer than running them.
    db.set_prepared_statement_cache_capacity(STATEMENT_CACHE_CAPACITY);
    let version = |db: &Connection| db.pragma_query_value(None, "user_version", |row| row.get::<_, u32>(0));
    let known = migrations.len() as u32;
    if version(&db)? < known {
        let transaction = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        // Read again under the lock: another process may have migrated meanwhile.
        for (number, migration) in (1_u32..).zip(migrations).skip(version(&transaction)? as usize) {
            transaction.execute_batch(migration)?;
            transaction.pragma_update(None, "user_version", number)?;
        }
        transaction.commit()?;
    }
    match version(&db)? {
        found if found > known => Err(DatabaseOpenError::Newer { found, known }),
        _ => Ok(db),
    }
}

/// SQLite would create the file with the default mode; its companions (`-wal`, `-shm`) copy the mode of the file.
fn create_private(path: &Path) {
    // When it exists or cannot be made, opening says so.
    drop(files::private().create_new(true).open(path));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn migrations_only_go_forward() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("a.db");
        let first = ["CREATE TABLE a (x) STRICT".replace("(x)", "(x INT)")];
        let first: Vec<&str> = first.iter().map(String::as_str).collect();
        open(&path, &first, DatabaseOptions::DURABLE).expect("opens").execute("INSERT INTO a VALUES (1)", []).expect("inserts");
        let second = [first[0], "ALTER TABLE a ADD COLUMN y INT"];
        let kept: i64 = open(&path, &second, DatabaseOptions::DURABLE)
            .expect("migrates")
            .query_row("SELECT x FROM a", [], |row| row.get(0))
            .expect("a row");
        assert_eq!(kept, 1);
        assert!(matches!(open(&path, &first, DatabaseOptions::DURABLE), Err(DatabaseOpenError::Newer { found: 2, known: 1 })));
    }

    #[cfg(unix)]
    #[test]
    fn the_files_are_private() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("a.db");
        let _db = open(&path, &["CREATE TABLE a (x INT) STRICT"], DatabaseOptions::DURABLE).expect("opens");
        for entry in std::fs::read_dir(folder.path()).expect("readable") {
            let entry = entry.expect("an entry");
            let mode = entry.metadata().expect("metadata").permissions().mode();
            assert_eq!(mode & 0o077, 0, "{:?}", entry.file_name());
        }
    }
}
