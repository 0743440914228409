/*!
The record of changes to installations, in `state.db`: applications, backups, and a journal of intents.

An intent is written before the first byte of the new file next to a target, and closed after the target has been replaced. A
process killed in between leaves it open. The next command on that target finishes or undoes it
([`Patcher`](super::patcher::Patcher)).
*/

mod read_only;

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use rusqlite::{Connection, OptionalExtension, Row, TransactionBehavior, params};
use serde::{Deserialize, Serialize};

pub use read_only::{ActivePatch, KnownBackup};

use super::attributes::{Attributes, Fingerprint};
use super::lock::{Lock, LockError};
use ctxbridge_common::sqlite::{self, DatabaseOpenError, DatabaseOptions};

const MIGRATIONS: &[&str] = &[
    "
CREATE TABLE installations (
    id INTEGER PRIMARY KEY,
    path TEXT NOT NULL UNIQUE,
    kind TEXT NOT NULL,
    package TEXT,
    first_seen INTEGER NOT NULL
) STRICT;
CREATE TABLE applications (
    id INTEGER PRIMARY KEY,
    installation INTEGER NOT NULL REFERENCES installations (id),
    version TEXT,
    patches TEXT NOT NULL,
    original_sha256 TEXT NOT NULL,
    patched_sha256 TEXT NOT NULL,
    tool_version TEXT NOT NULL,
    applied_at INTEGER NOT NULL,
    ended_at INTEGER,
    ended_by TEXT CHECK (ended_by IN ('revert', 'apply'))
) STRICT;
CREATE INDEX applications_current ON applications (installation) WHERE ended_at IS NULL;
CREATE TABLE backups (
    sha256 TEXT PRIMARY KEY,
    version TEXT,
    size INTEGER NOT NULL,
    linked INTEGER NOT NULL,
    mode INTEGER NOT NULL,
    uid INTEGER NOT NULL,
    gid INTEGER NOT NULL,
    mtime_ns INTEGER NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;
CREATE TABLE intents (
    id INTEGER PRIMARY KEY,
    installation INTEGER NOT NULL REFERENCES installations (id),
    intent TEXT NOT NULL,
    started_at INTEGER NOT NULL,
    finished_at INTEGER,
    outcome TEXT CHECK (outcome IN ('done', 'undone'))
) STRICT;
CREATE INDEX intents_open ON intents (installation) WHERE finished_at IS NULL;
",
    // Two installations of one release have one backup, but each its own mode, owner and times. `original` is JSON.
    "
ALTER TABLE applications ADD COLUMN original TEXT;
ALTER TABLE backups DROP COLUMN linked;
ALTER TABLE backups DROP COLUMN mode;
ALTER TABLE backups DROP COLUMN uid;
ALTER TABLE backups DROP COLUMN gid;
ALTER TABLE backups DROP COLUMN mtime_ns;
",
    // What a file's hash was when it was last gone through, and which file that was (JSON).
    "
CREATE TABLE hashes (
    path TEXT PRIMARY KEY,
    fingerprint TEXT NOT NULL,
    sha256 TEXT NOT NULL
) STRICT;
",
    // Which file was put in place (JSON), so that it can be known again without reading it.
    "
ALTER TABLE applications ADD COLUMN placed TEXT;
",
];

/// Errors from reading or writing the journal.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The file cannot be opened.
    #[error("cannot open {path}: {cause}{}", match cause { DatabaseOpenError::Sqlite(cause) => hint(cause), _ => "" })]
    Open {
        /// The database.
        path: PathBuf,
        /// The cause.
        cause: DatabaseOpenError,
    },
    /// A statement failed.
    #[error("{path}: {cause}{}", hint(.cause))]
    Sqlite {
        /// The database.
        path: PathBuf,
        /// The cause.
        cause: rusqlite::Error,
    },
    /// It is damaged, and another command is repairing it.
    #[error(transparent)]
    Lock(#[from] LockError),
}

fn hint(cause: &rusqlite::Error) -> &'static str {
    use rusqlite::ErrorCode::{CannotOpen, DatabaseBusy, DiskFull, PermissionDenied, ReadOnly, SystemIoFailure};
    match cause.sqlite_error_code() {
        Some(DiskFull | SystemIoFailure) => "; see that the disk is well, free some space and try again. Nothing was changed",
        Some(CannotOpen | PermissionDenied | ReadOnly) => {
            "; see that you may write there, or set CTXBRIDGE_DATA_DIR to a folder that ctxbridge may use"
        }
        Some(DatabaseBusy) => "; another ctxbridge is writing, try again when it has finished",
        _ => "",
    }
}

/// The open journal.
#[derive(Debug)]
pub struct Journal {
    db: Connection,
    path: PathBuf,
}

/// A patched installation that was not reverted since.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Application {
    /// The client's version at that time.
    pub version: Option<String>,
    /// The patches, sorted.
    pub patches: Vec<String>,
    /// The file before.
    pub original_sha256: String,
    /// The file after.
    pub patched_sha256: String,
    /// Attributes of the file before, if known.
    pub original: Option<Attributes>,
}

/// Record of a backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackupRecord {
    /// The original's hash, which names the file in `backups/`.
    pub sha256: String,
    /// The client's version.
    pub version: Option<String>,
    /// Size in bytes.
    pub size: u64,
}

/// An operation that a command is about to do on a target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intent {
    /// `apply` or `revert`.
    pub action: Action,
    /// The new file next to the target, renamed over it when it is ready.
    pub temporary: PathBuf,
    /// The target's hash before.
    pub from_sha256: String,
    /// The target's hash after.
    pub to_sha256: String,
    /// The hash of the unpatched file.
    pub original_sha256: String,
    /// The patches that are applied; none for a revert.
    pub patches: Vec<String>,
    /// The client's version.
    pub version: Option<String>,
    /// Attributes of the unpatched file, if known.
    #[serde(default)]
    pub original: Option<Attributes>,
}

/// Operations on a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// A patched file replaces the client's.
    Apply,
    /// The original is restored.
    Revert,
}

/// An intent that was not closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenIntent {
    /// Its number.
    pub id: i64,
    /// The intended operation.
    pub intent: Intent,
}

impl Journal {
    /// Opens `state.db` in the data directory.
    ///
    /// # Errors
    /// If it cannot be opened. A damaged file is not an error: it is moved aside, and `notice` receives a message. The markers in
    /// patched files have enough information to continue.
    pub fn open(data_dir: &Path, notice: &dyn Fn(&str)) -> Result<Self, JournalError> {
        let path = data_dir.join("state.db");
        let opened = match open_sound(&path) {
            Err(DatabaseOpenError::Sqlite(error)) if sqlite::is_damage(&error) || may_have_moved(&error) => {
                // One command does this: a second one would move the new journal of the first away.
                let _turn = Lock::acquire(data_dir, &path, notice)?;
                Self::replace_damaged(data_dir, &path, notice)
            }
            opened => opened,
        };
        match opened {
            Ok(db) => Ok(Self { db, path }),
            Err(cause) => Err(JournalError::Open { path, cause }),
        }
    }

    /// Moves a damaged journal aside and starts a new one, unless that has been done meanwhile.
    fn replace_damaged(data_dir: &Path, path: &Path, notice: &dyn Fn(&str)) -> Result<Connection, DatabaseOpenError> {
        match open_sound(path) {
            Err(DatabaseOpenError::Sqlite(error)) if sqlite::is_damage(&error) => {
                let aside = data_dir.join(format!("state.db.damaged-{}", seconds_now()));
                notice(&format!("{} is damaged; it is now {} and a new one was begun", path.display(), aside.display()));
                for suffix in ["-wal", "-shm"] {
                    // What belongs to the damaged file must not be read into the new one.
                    drop(std::fs::remove_file(data_dir.join(format!("state.db{suffix}"))));
                }
                // When that fails, opening says so again.
                std::fs::rename(path, &aside).ok();
                open_sound(path)
            }
            opened => opened,
        }
    }

    fn fail(&self, cause: rusqlite::Error) -> JournalError {
        JournalError::Sqlite { path: self.path.clone(), cause }
    }

    /// The application in force, if any.
    ///
    /// # Errors
    /// If the journal cannot be read.
    pub fn application(&self, target: &Path) -> Result<Option<Application>, JournalError> {
        let sql = "SELECT a.version, a.patches, a.original_sha256, a.patched_sha256, a.original FROM applications a
                   JOIN installations i ON i.id = a.installation
                   WHERE i.path = ?1 AND a.ended_at IS NULL ORDER BY a.id DESC LIMIT 1";
        let read = |row: &Row<'_>| {
            Ok(Application {
                version: row.get(0)?,
                patches: patches(row, 1)?,
                original_sha256: row.get(2)?,
                patched_sha256: row.get(3)?,
                original: row.get::<_, Option<String>>(4)?.and_then(|json| serde_json::from_str(&json).ok()),
            })
        };
        self.db.query_row(sql, [text(target)], read).optional().map_err(|cause| self.fail(cause))
    }

    /// Records an intent; returns its number.
    ///
    /// # Errors
    /// If the journal cannot be written.
    pub fn begin_intent(
        &mut self,
        target: &Path,
        kind: &str,
        package: Option<&str>,
        intent: &Intent,
    ) -> Result<i64, JournalError> {
        let json = serde_json::to_string(intent).unwrap_or_default();
        let path = self.path.clone();
        let mut work = || {
            let transaction = self.db.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let sql = "INSERT INTO installations (path, kind, package, first_seen) VALUES (?1, ?2, ?3, ?4)
                       ON CONFLICT (path) DO UPDATE SET kind = excluded.kind, package = excluded.package";
            transaction.execute(sql, params![text(target), kind, package, seconds_now()])?;
            let sql = "INSERT INTO intents (installation, intent, started_at)
                       SELECT id, ?2, ?3 FROM installations WHERE path = ?1";
            transaction.execute(sql, params![text(target), json, seconds_now()])?;
            let id = transaction.last_insert_rowid();
            transaction.commit()?;
            Ok(id)
        };
        work().map_err(|cause| JournalError::Sqlite { path, cause })
    }

    /// Adds information to an open intent that was not known when it was recorded.
    ///
    /// # Errors
    /// If the journal cannot be written.
    pub fn amend_intent(&mut self, id: i64, intent: &Intent) -> Result<(), JournalError> {
        let json = serde_json::to_string(intent).unwrap_or_default();
        let sql = "UPDATE intents SET intent = ?2 WHERE id = ?1";
        self.db.execute(sql, params![id, json]).map(drop).map_err(|cause| self.fail(cause))
    }

    /// Closes an intent whose target was replaced, and records the result. `placed` is the fingerprint of the new file, if known.
    ///
    /// # Errors
    /// If the journal cannot be written.
    pub fn complete_intent(&mut self, id: i64, intent: &Intent, placed: Option<Fingerprint>) -> Result<(), JournalError> {
        let path = self.path.clone();
        let mut work = || {
            let now = seconds_now();
            let transaction = self.db.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let ended_by = match intent.action {
                Action::Apply => "apply",
                Action::Revert => "revert",
            };
            let sql = "UPDATE applications SET ended_at = ?2, ended_by = ?3
                       WHERE ended_at IS NULL AND installation = (SELECT installation FROM intents WHERE id = ?1)";
            transaction.execute(sql, params![id, now, ended_by])?;
            if intent.action == Action::Apply {
                let sql = "INSERT INTO applications
                           (installation, version, patches, original_sha256, patched_sha256, tool_version, applied_at, original, placed)
                           SELECT installation, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9 FROM intents WHERE id = ?1";
                let patches = intent.patches.join(",");
                let tool = env!("CARGO_PKG_VERSION");
                let original = intent.original.as_ref().and_then(|original| serde_json::to_string(original).ok());
                let Intent { version, original_sha256, to_sha256, .. } = intent;
                let placed = placed.map(Fingerprint::to_json);
                let values = params![id, version, patches, original_sha256, to_sha256, tool, now, original, placed];
                transaction.execute(sql, values)?;
            }
            transaction.execute("UPDATE intents SET finished_at = ?2, outcome = 'done' WHERE id = ?1", params![id, now])?;
            transaction.commit()
        };
        work().map_err(|cause| JournalError::Sqlite { path, cause })
    }

    /// Closes an intent whose target was not touched.
    ///
    /// # Errors
    /// If the journal cannot be written.
    pub fn abandon_intent(&mut self, id: i64) -> Result<(), JournalError> {
        let sql = "UPDATE intents SET finished_at = ?2, outcome = 'undone' WHERE id = ?1";
        self.db.execute(sql, params![id, seconds_now()]).map(drop).map_err(|cause| self.fail(cause))
    }

    /// Intents of a target that were not closed, oldest first.
    ///
    /// # Errors
    /// If the journal cannot be read.
    pub fn open_intents(&self, target: &Path) -> Result<Vec<OpenIntent>, JournalError> {
        let work = || {
            let sql = "SELECT n.id, n.intent FROM intents n JOIN installations i ON i.id = n.installation
                       WHERE i.path = ?1 AND n.finished_at IS NULL ORDER BY n.id";
            let mut statement = self.db.prepare(sql)?;
            let rows = statement.query_map([text(target)], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?)))?;
            rows.collect::<Result<Vec<_>, _>>()
        };
        let rows = work().map_err(|cause| self.fail(cause))?;
        let parse = |(id, json): (i64, String)| Some(OpenIntent { id, intent: serde_json::from_str(&json).ok()? });
        Ok(rows.into_iter().filter_map(parse).collect())
    }

    /// Records a backup, which is needed from now on.
    ///
    /// # Errors
    /// If the journal cannot be written.
    pub fn record_backup(&self, backup: &BackupRecord) -> Result<(), JournalError> {
        let sql = "INSERT OR REPLACE INTO backups (sha256, version, size, created_at) VALUES (?1, ?2, ?3, ?4)";
        let BackupRecord { sha256, version, size } = backup;
        let values = params![sha256, version, *size as i64, seconds_now()];
        self.db.execute(sql, values).map(drop).map_err(|cause| self.fail(cause))
    }

    /// The hash of a file, if it has not changed since it was last hashed.
    ///
    /// # Errors
    /// If the journal cannot be read.
    pub fn known_hash(&self, target: &Path, fingerprint: &Fingerprint) -> Result<Option<String>, JournalError> {
        let sql = "SELECT sha256 FROM hashes WHERE path = ?1 AND fingerprint = ?2";
        let found = self.db.query_row(sql, [text(target), fingerprint.to_json()], |row| row.get(0));
        found.optional().map_err(|cause| self.fail(cause))
    }

    /// Records the hash of a file, unless it changed so recently that it could change again without a trace.
    ///
    /// # Errors
    /// If the journal cannot be written.
    pub fn remember_hash(&self, target: &Path, fingerprint: &Fingerprint, sha256: &str) -> Result<(), JournalError> {
        if !fingerprint.is_settled(SystemTime::now()) {
            return Ok(());
        }
        let sql = "INSERT OR REPLACE INTO hashes (path, fingerprint, sha256) VALUES (?1, ?2, ?3)";
        let values = params![text(target), fingerprint.to_json(), sha256];
        self.db.execute(sql, values).map(drop).map_err(|cause| self.fail(cause))
    }

    /// Size of an original in bytes, as recorded when it was backed up.
    ///
    /// # Errors
    /// If the journal cannot be read.
    pub fn backup_size(&self, sha256: &str) -> Result<Option<u64>, JournalError> {
        let sql = "SELECT size FROM backups WHERE sha256 = ?1";
        let size = self.db.query_row(sql, [sha256], |row| row.get::<_, i64>(0)).optional();
        size.map(|size| size.map(|size| size as u64)).map_err(|cause| self.fail(cause))
    }

    /// `true` if a target other than this one is patched and has its original in this backup.
    ///
    /// # Errors
    /// If the journal cannot be read.
    pub fn is_needed_elsewhere(&self, target: &Path, sha256: &str) -> Result<bool, JournalError> {
        let sql = "SELECT EXISTS (SELECT 1 FROM applications a JOIN installations i ON i.id = a.installation
                   WHERE a.original_sha256 = ?1 AND a.ended_at IS NULL AND i.path != ?2)";
        self.db.query_row(sql, [sha256, &text(target)], |row| row.get(0)).map_err(|cause| self.fail(cause))
    }

    /// Forgets a backup.
    ///
    /// # Errors
    /// If the journal cannot be written.
    pub fn forget_backup(&self, sha256: &str) -> Result<(), JournalError> {
        self.db.execute("DELETE FROM backups WHERE sha256 = ?1", [sha256]).map(drop).map_err(|cause| self.fail(cause))
    }
}

/// Opens the journal and reads all of it once. It is small, and a damaged page in the middle would otherwise fail every command
/// that reads it, instead of being repaired here.
fn open_sound(path: &Path) -> Result<Connection, DatabaseOpenError> {
    let db = sqlite::open(path, MIGRATIONS, DatabaseOptions::DURABLE)?;
    let verdict: String = db.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    if verdict == "ok" {
        return Ok(db);
    }
    let corrupt = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT);
    Err(rusqlite::Error::SqliteFailure(corrupt, Some(verdict)).into())
}

/// `true` for errors that SQLite gives, among others, if another command moves the file aside while it is opened.
fn may_have_moved(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(rusqlite::ErrorCode::SystemIoFailure)
}

/// The patches in a column.
fn patches(row: &Row<'_>, column: usize) -> rusqlite::Result<Vec<String>> {
    let text: String = row.get(column)?;
    Ok(text.split(',').map(str::to_owned).collect())
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// Seconds since 1970.
pub(super) fn seconds_now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs() as i64)
}
