/*!
Opening of all SQLite databases: private, in WAL mode, with a busy timeout, at the newest schema, and with a checksum in each page.
*/

mod log;
pub mod page_sum;
pub mod pages;
mod vfs;

pub use log::{DatabaseLog, log_path};
pub use vfs::register_as_default;

use std::io::Read as _;
use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};

use crate::{files, lock_deadline};

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
    /// `true` to refuse a log of which SQLite would not read all, see [`DatabaseLog`].
    pub refuses_damaged_log: bool,
}

impl DatabaseOptions {
    /// Options for data that must never be lost.
    pub const DURABLE: Self =
        Self { busy_timeout: Duration::from_secs(10), is_durable: true, wal_autocheckpoint: None, refuses_damaged_log: false };
}

/// A database that cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseOpenError {
    /// SQLite reports an error.
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
    /// Its log is damaged.
    #[error("the checksum of its log does not fit")]
    DamagedLog,
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
    let begun = Instant::now();
    loop {
        match open_once(path, migrations, options) {
            // While another process makes or recovers its log, SQLite says so at once, whatever it was told to wait.
            Err(DatabaseOpenError::Sqlite(error)) if is_busy(&error) && begun.elapsed() < patience(options.busy_timeout) => {
                std::thread::sleep(LOCK_PAUSE);
            }
            opened => return opened,
        }
    }
}

fn is_busy(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
}

fn open_once(path: &Path, migrations: &[&str], options: DatabaseOptions) -> Result<Connection, DatabaseOpenError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    create_private(path);
    let mut db = open_file(path, flags)?;
    // Before anything else: the very first statement may already find the file locked.
    wait_for_locks(&mut db, options.busy_timeout)?;
    vfs::reserve_sums(&db)?;
    db.pragma_update(None, "journal_mode", "wal")?;
    db.pragma_update(None, "synchronous", if options.is_durable { "full" } else { "normal" })?;
    if let Some(pages) = options.wal_autocheckpoint {
        db.pragma_update(None, "wal_autocheckpoint", pages)?;
        db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    }
    db.pragma_update(None, "foreign_keys", true)?;
    // Else SQLite parses and plans a statement again for each value that is bound to it, in case another plan would be better then.
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    // More than there are statements in a pass: to parse them again would take longer than running them.
    db.set_prepared_statement_cache_capacity(STATEMENT_CACHE_CAPACITY);
    let version = |db: &Connection| db.pragma_query_value(None, "user_version", |row| row.get::<_, u32>(0));
    let known = migrations.len() as u32;
    let mut found = version(&db)?;
    // Before anything is written: that would be over what follows the damage.
    if options.refuses_damaged_log && log::is_cut_short(&db, path) {
        return Err(DatabaseOpenError::DamagedLog);
    }
    if found < known {
        let transaction = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        // Read again under the lock: another process may have migrated meanwhile.
        for (number, migration) in (1_u32..).zip(migrations).skip(version(&transaction)? as usize) {
            transaction.execute_batch(migration)?;
            transaction.pragma_update(None, "user_version", number)?;
        }
        transaction.commit()?;
        found = version(&db)?;
    }
    if found > known { Err(DatabaseOpenError::Newer { found, known }) } else { Ok(db) }
}

/// Opens one of our database files as it is. Damage that its checksums show is an error, see [`is_damage`].
///
/// # Errors
/// If it cannot be opened.
pub fn open_file(path: &Path, flags: OpenFlags) -> rusqlite::Result<Connection> {
    refuse_pipes(path)?;
    match vfs::register() {
        Some(name) => Connection::open_with_flags_and_vfs(path, flags, name),
        // There are no checksums, and everything else works.
        None => Connection::open_with_flags(path, flags),
    }
}

/// Refuses a pipe or a device in place of a database or of a file beside it: SQLite would read it for ever.
///
/// # Errors
/// If there is one.
pub fn refuse_pipes(database: &Path) -> rusqlite::Result<()> {
    for suffix in ["", "-wal", "-shm", "-journal"] {
        let mut path = database.as_os_str().to_owned();
        path.push(suffix);
        let is_other = std::fs::metadata(&path).is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir());
        if is_other {
            let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CANTOPEN);
            let what = format!("{}: {}", Path::new(&path).display(), files::not_a_file());
            return Err(rusqlite::Error::SqliteFailure(code, Some(what)));
        }
    }
    Ok(())
}

/// Sets how long each statement waits for a lock. In a process with a deadline, all of them together wait no longer than that.
///
/// # Errors
/// If SQLite refuses it.
pub fn wait_for_locks(db: &mut Connection, timeout: Duration) -> rusqlite::Result<()> {
    if !lock_deadline::is_set() {
        return db.busy_timeout(timeout);
    }
    db.busy_handler(Some(if timeout < PATIENCE { wait_briefly } else { wait_with_patience }))
}

/// Returns the time that a statement waits for a lock; none once a deadline has passed.
fn patience(timeout: Duration) -> Duration {
    if !lock_deadline::is_set() {
        timeout
    } else if lock_deadline::has_passed() {
        Duration::ZERO
    } else if timeout < PATIENCE {
        HURRY
    } else {
        PATIENCE
    }
}

/// A lock that is held is tried again after this time.
const LOCK_PAUSE: Duration = Duration::from_millis(5);
/// Time that a statement waits at most in a process with a deadline, and if it is in a hurry.
const PATIENCE: Duration = Duration::from_secs(1);
const HURRY: Duration = Duration::from_millis(250);

fn wait_with_patience(tries: i32) -> bool {
    wait(tries, PATIENCE)
}

fn wait_briefly(tries: i32) -> bool {
    wait(tries, HURRY)
}

fn wait(tries: i32, at_most: Duration) -> bool {
    let waited = LOCK_PAUSE * tries.unsigned_abs();
    let goes_on = waited < at_most && !lock_deadline::has_passed();
    if goes_on {
        std::thread::sleep(LOCK_PAUSE);
    }
    goes_on
}

/// Opens one of our database files whatever the checksums of its pages say.
///
/// # Errors
/// If it cannot be opened.
pub fn open_unverified(path: &Path, flags: OpenFlags) -> rusqlite::Result<Connection> {
    refuse_pipes(path)?;
    Connection::open_with_flags_and_vfs(path, flags, vfs::system_name())
}

/// `true` if an error says that a database is not what was written: a page has another checksum, or makes no sense.
pub fn is_damage(error: &rusqlite::Error) -> bool {
    let is_structural = |error: &rusqlite::ffi::Error| matches!(error.code, ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase);
    is_page_damage(error) || error.sqlite_error().is_some_and(is_structural)
}

/// `true` if an error says that the checksum of a page does not fit.
pub fn is_page_damage(error: &rusqlite::Error) -> bool {
    error.sqlite_error().is_some_and(|error| error.extended_code == rusqlite::ffi::SQLITE_IOERR_DATA)
}

/// Gives each page of an older database its checksum, by rewriting the file; nobody may be writing. Returns `false` if they have
/// one already.
///
/// # Errors
/// If it cannot be rewritten.
pub fn add_sums(db: &Connection) -> rusqlite::Result<bool> {
    let path = db.path().map(Path::new);
    if path.is_none_or(has_sums) {
        return Ok(false);
    }
    vfs::reserve_sums(db)?;
    db.execute_batch("VACUUM; PRAGMA wal_checkpoint(TRUNCATE)")?;
    Ok(true)
}

/// `true` if each page of a file ends with its checksum.
pub fn has_sums(path: &Path) -> bool {
    let mut first = Vec::new();
    let read = files::open(path).and_then(|file| file.take(page_sum::PAGE_BYTES as u64).read_to_end(&mut first));
    read.is_ok() && page_sum::are_in(&first)
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

    const TABLE: [&str; 1] = ["CREATE TABLE a (x INTEGER PRIMARY KEY, y BLOB) STRICT"];

    /// A database of some hundred pages, all of them in the file.
    fn filled(path: &Path) -> Connection {
        let db = open(path, &TABLE, DatabaseOptions::DURABLE).expect("opens");
        fill(&db);
        db
    }

    fn fill(db: &Connection) {
        let sql = "WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 400)
            INSERT INTO a (y) SELECT randomblob(x * 7) FROM n";
        db.execute(sql, []).expect("inserts");
        db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).expect("checkpoints");
    }

    #[test]
    fn what_another_program_wrote_is_no_damage_below_it() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("a.db");
        drop(filled(&path));
        // A page that SQLite alone moves from the log has the checksum of another time.
        fill(&Connection::open(&path).expect("opens"));
        assert!(pages(&path).iter().any(|page| !page_sum::is_sound(page)));
        let rows = Connection::open(&path).expect("opens").query_row("SELECT count(*) FROM a", [], |row| row.get::<_, i64>(0));
        assert_eq!(rows.expect("reads"), 800);
    }

    fn pages(path: &Path) -> Vec<Vec<u8>> {
        std::fs::read(path).expect("readable").chunks(page_sum::PAGE_BYTES).map(<[u8]>::to_vec).collect()
    }

    #[test]
    fn every_page_has_its_checksum() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("a.db");
        let db = filled(&path);
        let whole = pages(&path);
        assert!(whole.len() > 100 && has_sums(&path));
        assert!(whole.iter().all(|page| page_sum::is_sound(page)));
        // Pages that are given up and used again, too.
        db.execute("DELETE FROM a WHERE x % 3 = 0", []).expect("deletes");
        fill(&db);
        db.execute_batch("VACUUM; PRAGMA wal_checkpoint(TRUNCATE)").expect("vacuums");
        assert!(pages(&path).iter().all(|page| page_sum::is_sound(page)));
        assert!(!add_sums(&db).expect("has them"));
    }

    #[test]
    fn a_flipped_bit_is_no_content() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("a.db");
        drop(filled(&path));
        let whole = std::fs::read(&path).expect("readable");
        let read = || {
            let db = open_file(&path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
            let rows = db.prepare("SELECT x, y FROM a")?.query_map([], |row| row.get::<_, Vec<u8>>(1))?.count();
            db.query_row("SELECT sum(length(y)), max(y) FROM a", [], |_| Ok(rows))
        };
        assert_eq!(read().expect("reads"), 400);
        // A part of them: there are a million.
        for bit in (page_sum::PAGE_BYTES * 8..whole.len() * 8).step_by(99_991) {
            let mut damaged = whole.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            std::fs::write(&path, &damaged).expect("writable");
            assert!(is_damage(&read().expect_err("damage")), "bit {bit}");
        }
    }

    #[test]
    fn an_older_database_gets_its_checksums() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("a.db");
        let older = open_file(&path, OpenFlags::default()).expect("opens");
        older.pragma_update(None, "journal_mode", "wal").expect("sets");
        older.execute_batch(TABLE[0]).expect("creates");
        older.pragma_update(None, "user_version", 1).expect("sets");
        fill(&older);
        assert!(!has_sums(&path));
        let other = open(&path, &TABLE, DatabaseOptions::DURABLE).expect("opens");
        fill(&other);
        assert!(!has_sums(&path), "nothing is rewritten by opening it");
        drop(other);
        let db = open(&path, &TABLE, DatabaseOptions::DURABLE).expect("opens");
        assert!(add_sums(&db).expect("rewrites") && has_sums(&path));
        assert!(pages(&path).iter().all(|page| page_sum::is_sound(page)));
        // Whoever had it open before goes on, and writes checksums from now on.
        fill(&older);
        assert!(pages(&path).iter().all(|page| page_sum::is_sound(page)));
        assert_eq!(db.query_row("SELECT count(*) FROM a", [], |row| row.get::<_, i64>(0)).expect("counts"), 1_200);
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
