//! Reads the journal in a millisecond, without writing: nothing is created, repaired or waited for.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{OpenFlags, OptionalExtension};

use ctxbridge_common::sqlite;

use super::{BackupRecord, Journal, JournalError, patches, text};
use crate::attributes::Fingerprint;

/// Maximum time to wait for a command that writes.
const JOURNAL_READ_TIMEOUT: Duration = Duration::from_millis(5);

/// An application that was not reverted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActivePatch {
    /// The patched file.
    pub path: PathBuf,
    /// The npm package it belongs to.
    pub package: Option<String>,
    /// The client's version at that time.
    pub version: Option<String>,
    /// The patches.
    pub patches: Vec<String>,
    /// The hash of the written file.
    pub patched_sha256: String,
    /// Fingerprint of the patched file, if known.
    pub placed: Option<Fingerprint>,
}

/// A backup, and what needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownBackup {
    /// Its record.
    pub record: BackupRecord,
    /// Time until which it was needed, in seconds since 1970; without those that need it now.
    pub needed_until: i64,
    /// Files of the clients that need it: they are patched, or a command on them was not finished. They may be gone.
    needed_by: Vec<PathBuf>,
}

impl KnownBackup {
    /// Files of the clients that need it: they are patched, or a command on them was not finished.
    pub fn clients(&self) -> impl Iterator<Item = &PathBuf> {
        self.needed_by.iter().filter(|client| !is_gone(client))
    }
}

/// `true` if a client was removed. Where its folder is gone as well, a drive may just not be there.
fn is_gone(client: &Path) -> bool {
    let is_missing = matches!(fs::symlink_metadata(client), Err(error) if error.kind() == io::ErrorKind::NotFound);
    is_missing && client.parent().is_some_and(Path::is_dir)
}

impl Journal {
    /// Opens the journal for reading; `None` if there is none, or if it cannot be opened like that.
    pub fn open_read_only(data_dir: &Path) -> Option<Self> {
        let path = data_dir.join("state.db");
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let db = sqlite::open_file(&path, flags).ok()?;
        db.busy_timeout(JOURNAL_READ_TIMEOUT).ok()?;
        Some(Self { db, path })
    }

    /// Every application that was not reverted, the newest first.
    ///
    /// # Errors
    /// If the journal cannot be read.
    pub fn active_patches(&self) -> Result<Vec<ActivePatch>, JournalError> {
        let work = || {
            let sql = "SELECT i.path, i.package, a.version, a.patched_sha256, a.placed, a.patches FROM applications a
                       JOIN installations i ON i.id = a.installation WHERE a.ended_at IS NULL ORDER BY a.id DESC";
            let mut statement = self.db.prepare(sql)?;
            let rows = statement.query_map([], |row| {
                let placed: Option<String> = row.get(4)?;
                Ok(ActivePatch {
                    path: PathBuf::from(row.get::<_, String>(0)?),
                    package: row.get(1)?,
                    version: row.get(2)?,
                    patches: patches(row, 5)?,
                    patched_sha256: row.get(3)?,
                    placed: placed.and_then(|json| serde_json::from_str(&json).ok()),
                })
            })?;
            rows.collect::<Result<Vec<_>, _>>()
        };
        work().map_err(|cause| self.fail(cause))
    }

    /// Every backup, the oldest first.
    ///
    /// # Errors
    /// If the journal cannot be read.
    pub fn backups(&self) -> Result<Vec<KnownBackup>, JournalError> {
        let work = || {
            let sql = "SELECT b.sha256, b.version, b.size, max(b.created_at, coalesce((SELECT max(a.ended_at) FROM applications a
                       WHERE a.original_sha256 = b.sha256), 0)) FROM backups b ORDER BY b.created_at";
            let mut statement = self.db.prepare(sql)?;
            let rows = statement.query_map([], |row| {
                let record = BackupRecord { sha256: row.get(0)?, version: row.get(1)?, size: row.get::<_, i64>(2)? as u64 };
                Ok(KnownBackup { record, needed_until: row.get(3)?, needed_by: Vec::new() })
            })?;
            let mut backups = rows.collect::<Result<Vec<_>, _>>()?;
            let sql = "SELECT i.path FROM applications a JOIN installations i ON i.id = a.installation
                       WHERE a.original_sha256 = ?1 AND a.ended_at IS NULL UNION
                       SELECT i.path FROM intents n JOIN installations i ON i.id = n.installation
                       WHERE n.finished_at IS NULL AND json_extract(n.intent, '$.original_sha256') = ?1";
            let mut statement = self.db.prepare(sql)?;
            for backup in &mut backups {
                let paths = statement.query_map([&backup.record.sha256], |row| Ok(PathBuf::from(row.get::<_, String>(0)?)))?;
                backup.needed_by = paths.collect::<Result<_, _>>()?;
            }
            Ok(backups)
        };
        work().map_err(|cause| self.fail(cause))
    }

    /// The last application to each client, the newest first; none in the place of those that the user reverted.
    ///
    /// # Errors
    /// If the journal cannot be read.
    pub fn last_patches(&self) -> Result<Vec<(PathBuf, Option<ActivePatch>)>, JournalError> {
        let active = self.active_patches()?;
        let sql = "SELECT i.path, a.ended_at IS NULL FROM applications a JOIN installations i ON i.id = a.installation ORDER BY a.id DESC";
        let work = || {
            let mut statement = self.db.prepare(sql)?;
            let rows = statement.query_map([], |row| Ok((PathBuf::from(row.get::<_, String>(0)?), row.get::<_, bool>(1)?)))?;
            rows.collect::<Result<Vec<_>, _>>()
        };
        let mut last: Vec<(PathBuf, Option<ActivePatch>)> = Vec::new();
        for (path, is_active) in work().map_err(|cause| self.fail(cause))? {
            if !last.iter().any(|(known, _)| *known == path) {
                let patch = active.iter().find(|known| is_active && known.path == path).cloned();
                last.push((path, patch));
            }
        }
        Ok(last)
    }

    /// `true` if the user reverted this client, and did not patch it again.
    ///
    /// # Errors
    /// If the journal cannot be read.
    pub fn is_reverted(&self, target: &Path) -> Result<bool, JournalError> {
        let sql = "SELECT a.ended_by = 'revert' FROM applications a JOIN installations i ON i.id = a.installation
                   WHERE i.path = ?1 ORDER BY a.id DESC LIMIT 1";
        let last = self.db.query_row(sql, [text(target)], |row| row.get::<_, Option<bool>>(0)).optional();
        last.map(|last| last.flatten().unwrap_or_default()).map_err(|cause| self.fail(cause))
    }
}
