/*!
Originals, kept under their SHA-256 in `backups/`.

If the file system allows, a backup is a hard link: the original file itself. It survives the rename that replaces the target, and
is restored as it was, even if it is a link into a package manager's store. Otherwise it is a copy. Either way it is hashed before
it gets its name and again before it is used.

Installations of the same release share a backup. Attributes of one installation (mode, owner, times) are in the journal with the
[`Application`](super::journal::Application).
*/

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::attributes::{Attributes, FileStat};
use super::container::{FileBytes, PiecewiseFile};
use super::journal::{BackupRecord, Journal, JournalError, KnownBackup};
use super::lock::{Lock, LockError};
use super::swap::{self, Ownership, SwapError, remove, step};
use ctxbridge_common::{digest, files, paths};

/// Time that a backup is kept after nothing needs it any more. A power failure may undo what was done a moment ago.
const BACKUP_RETENTION: Duration = Duration::from_secs(60 * 60);

/// Errors from making or using a backup.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// There is no backup.
    #[error("the backup of the original is missing: looked for {}; reinstall the client to get its original back", .0.display())]
    Missing(PathBuf),
    /// It has another hash than it should have.
    #[error("the backup {} is damaged: its SHA-256 is {found}, not {expected}; reinstall the client to get its original back", path.display())]
    Damaged {
        /// The backup.
        path: PathBuf,
        /// The hash it should have.
        expected: String,
        /// The hash it has.
        found: String,
    },
    /// It cannot be read.
    #[error("the backup {} cannot be read: {cause}; make it readable, or reinstall the client to get its original back", path.display())]
    Unreadable {
        /// The backup.
        path: PathBuf,
        /// The cause.
        cause: io::Error,
    },
    /// The file to be backed up has been replaced meanwhile.
    #[error("{} was changed by somebody else in the meantime; nothing was written, try again", .0.display())]
    Raced(PathBuf),
    /// An operation on a file failed.
    #[error(transparent)]
    Io(#[from] SwapError),
    /// Another command is working on it.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The journal cannot be read or written.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

/// The folder of backups.
#[derive(Debug, Clone)]
pub struct Backups {
    data_dir: PathBuf,
    folder: PathBuf,
}

impl Backups {
    /// The backups in a data directory.
    pub fn in_dir(data_dir: &Path) -> Self {
        Self { data_dir: data_dir.to_owned(), folder: data_dir.join("backups") }
    }

    /// Path of the original with this hash, whether it exists or not.
    pub fn path(&self, sha256: &str) -> PathBuf {
        self.folder.join(sha256)
    }

    /// Makes sure that `target` is backed up. Its bytes are `source`, its hash is `sha256`, and it is the file with these
    /// `attributes`.
    ///
    /// # Errors
    /// If it cannot be copied, or what was copied is not the target.
    pub fn ensure_backup(
        &self,
        target: &Path,
        source: &FileBytes,
        attributes: &Attributes,
        sha256: &str,
        version: Option<String>,
        journal: &Journal,
    ) -> Result<PathBuf, BackupError> {
        paths::create_private_dir(&self.folder).map_err(step("create", &self.folder))?;
        let path = self.path(sha256);
        let _turn = self.lock_backup(sha256)?;
        // The very file that was hashed a moment ago need not be hashed again.
        let there = self.is_unchanged_file(&path, attributes) || (self.is_unshared(&path) && self.open(sha256).is_ok());
        if !there {
            self.make(target, source, attributes, sha256)?;
        }
        // Also of one that was there: it is needed from now on, and must not be collected before that is written down.
        journal.record_backup(&BackupRecord { sha256: sha256.to_owned(), version, size: source.len() as u64 })?;
        Ok(path)
    }

    /// Locks a backup, which all installations of one release share.
    fn lock_backup(&self, sha256: &str) -> Result<Lock, LockError> {
        Lock::acquire(&self.data_dir, &self.path(sha256), &|_| ())
    }

    /// `true` if a backup is the same file as the one with these attributes, unchanged.
    fn is_unchanged_file(&self, backup: &Path, attributes: &Attributes) -> bool {
        FileStat::at(backup).is_ok_and(|backup| backup.attributes() == *attributes)
    }

    /// `true` if a backup has no other links. A backup that is another installation's file would change with it.
    fn is_unshared(&self, backup: &Path) -> bool {
        FileStat::at(backup).is_ok_and(|backup| backup.links == 1)
    }

    /// Links or copies the target. The backup gets its name when it is complete; until then, an existing one stays.
    fn make(&self, target: &Path, source: &FileBytes, attributes: &Attributes, sha256: &str) -> Result<(), BackupError> {
        let path = self.path(sha256);
        let partial = path.with_extension("partial");
        remove(&partial)?;
        if fs::hard_link(target, &partial).is_ok() {
            // Whoever installed it may not have synced it. Where that takes the right to write, it stays as durable as it was.
            files::sync(&partial).ok();
        } else {
            swap::write(&partial, &PiecewiseFile::kept(0..source.len()), source, Ownership::Private(attributes))?;
        }
        if !self.is_unchanged_file(&partial, attributes) && digest::of_file(&partial).map_err(step("read", &partial))? != sha256 {
            remove(&partial)?;
            return Err(BackupError::Raced(target.to_owned()));
        }
        fs::rename(&partial, &path).map_err(step("name", &path))?;
        // A rename from one name of a file to another does nothing.
        remove(&partial)?;
        swap::sync_folder(&self.folder);
        Ok(())
    }

    /// Opens an original and checks its hash.
    ///
    /// # Errors
    /// If it is missing or not what it was.
    pub fn open(&self, sha256: &str) -> Result<FileBytes, BackupError> {
        let path = self.path(sha256);
        let read = || {
            let source = FileBytes::of(fs::File::open(&path)?)?;
            let found = source.sha256()?;
            Ok((source, found))
        };
        match read() {
            Ok((source, found)) if found == sha256 => Ok(source),
            Ok((_, found)) => Err(BackupError::Damaged { path, expected: sha256.to_owned(), found }),
            Err(cause) if io::Error::kind(&cause) == io::ErrorKind::NotFound => Err(BackupError::Missing(path)),
            Err(cause) => Err(BackupError::Unreadable { path, cause }),
        }
    }

    /// Restores an original to the path `to`, with its mode, owner and times. These are in `original`; if that is not known any
    /// more, mode and owner are those of `current`, the file that it will replace. `needed` is `true` if another installation needs
    /// the backup.
    ///
    /// # Errors
    /// If the backup is missing or damaged, or the file cannot be made.
    pub fn restore_original(
        &self,
        sha256: &str,
        to: &Path,
        original: Option<&Attributes>,
        current: &Attributes,
        needed: bool,
    ) -> Result<(), BackupError> {
        let source = self.open(sha256)?;
        let path = self.path(sha256);
        let backup = FileStat::at(&path).map_err(step("look at", &path))?.attributes();
        // Only what is this very original may become it again, and what others rely on must not: a file in use gets edited.
        if original == Some(&backup) && !needed && fs::hard_link(&path, to).is_ok() {
            return Ok(());
        }
        // A copy keeps the times, too.
        let unknown = Attributes { mtime_ns: backup.mtime_ns, ..*current };
        let whole = PiecewiseFile::kept(0..source.len());
        Ok(swap::write(to, &whole, &source, Ownership::As(original.unwrap_or(&unknown)))?)
    }

    /// Removes backups that nothing has needed for an hour before `now` (seconds since 1970), or with `at_once`, that nothing needs now.
    /// A client that is gone needs none. Returns those that were removed.
    ///
    /// # Errors
    /// If a file cannot be removed.
    pub fn collect(&self, journal: &Journal, now: i64, at_once: bool) -> Result<Vec<BackupRecord>, BackupError> {
        let before = if at_once { i64::MAX } else { now - BACKUP_RETENTION.as_secs() as i64 };
        let is_idle = |known: &KnownBackup| known.needed_until < before && known.clients().next().is_none();
        let mut collected = Vec::new();
        for KnownBackup { record, .. } in journal.backups()?.into_iter().filter(is_idle) {
            let _turn = self.lock_backup(&record.sha256)?;
            // Asked again: somebody may have come to need it while we waited.
            if journal.backups()?.iter().any(|known| known.record.sha256 == record.sha256 && is_idle(known)) {
                remove(&self.path(&record.sha256))?;
                journal.forget_backup(&record.sha256)?;
                collected.push(record);
            }
        }
        Ok(collected)
    }

    /// Removes a backup that has become the client's file again: it is one file with two names, and would change with the client.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub fn part_from(&self, client: &Path, sha256: &str, journal: &Journal) -> Result<(), BackupError> {
        let _turn = self.lock_backup(sha256)?;
        let path = self.path(sha256);
        if same_file::is_same_file(&path, client).unwrap_or(false) {
            remove(&path)?;
            journal.forget_backup(sha256)?;
        }
        Ok(())
    }
}
