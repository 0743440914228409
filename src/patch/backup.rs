/*!
Originals, kept under their SHA-256 in `backups/`.

Where the file system allows, a backup is a hard link: the original file itself, which outlives the rename that replaces it, and
comes back as what it was, a link into a package manager's store included. Elsewhere it is a copy. Either way it is hashed before
it gets its name and again before it is used.

Installations of the same release share a backup. What is theirs alone (mode, owner, times) is in the journal with the
[`Application`](super::journal::Application).
*/

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::container::{Pieces, Source};
use super::journal::{BackupRecord, Journal, JournalError};
use super::lock::{Lock, LockError};
use super::swap::{self, Attributes, Ownership, SwapError, remove, step};
use ctxbridge_common::digest;
use ctxbridge_common::paths;

/// How long a backup that nothing needs any more is kept.
const KEPT: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// A backup that cannot be made or used.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// There is none.
    #[error("the backup of the original is missing: looked for {}; reinstall the client to get its original back", .0.display())]
    Missing(PathBuf),
    /// It is not what it was.
    #[error("the backup {} is damaged: its SHA-256 is {found}, not {expected}; reinstall the client to get its original back", path.display())]
    Damaged {
        /// The backup.
        path: PathBuf,
        /// What its hash should be.
        expected: String,
        /// What it is.
        found: String,
    },
    /// It cannot be read.
    #[error("the backup {} cannot be read: {cause}; make it readable, or reinstall the client to get its original back", path.display())]
    Unreadable {
        /// The backup.
        path: PathBuf,
        /// Why.
        cause: io::Error,
    },
    /// The file that was to be backed up is another one by now.
    #[error("{} was changed by somebody else in the meantime; nothing was written, try again", .0.display())]
    Raced(PathBuf),
    /// The system says no.
    #[error(transparent)]
    Io(#[from] SwapError),
    /// Another command is at work on it.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The journal says no.
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
    /// In a data directory.
    pub fn in_dir(data_dir: &Path) -> Self {
        Self { data_dir: data_dir.to_owned(), folder: data_dir.join("backups") }
    }

    /// Where the original with this hash is, or would be.
    pub fn path(&self, sha256: &str) -> PathBuf {
        self.folder.join(sha256)
    }

    /// Makes sure that `target` is backed up, whose bytes are `source` with the hash `sha256` and which is the file with these
    /// attributes.
    ///
    /// # Errors
    /// When it cannot be copied, or what was copied is not the target.
    pub fn keep(
        &self,
        target: &Path,
        source: &Source,
        attributes: &Attributes,
        sha256: &str,
        version: Option<String>,
        journal: &Journal,
    ) -> Result<PathBuf, BackupError> {
        paths::create_private_dir(&self.folder).map_err(step("create", &self.folder))?;
        let path = self.path(sha256);
        let _turn = self.turn(sha256)?;
        // The very file that was hashed a moment ago need not be hashed again.
        let there = self.is(&path, attributes) || (self.is_apart(&path) && self.open(sha256).is_ok());
        if !there {
            self.make(target, source, attributes, sha256)?;
        }
        // Also of one that was there: it is needed from now on, and must not be collected before that is written down.
        journal.record_backup(&BackupRecord { sha256: sha256.to_owned(), version, size: source.len() as u64 })?;
        Ok(path)
    }

    /// Installations of one release take turns at their backup.
    fn turn(&self, sha256: &str) -> Result<Lock, LockError> {
        Lock::acquire(&self.data_dir, &self.path(sha256), &|_| ())
    }

    /// Whether a backup is the very file with these attributes, unchanged.
    fn is(&self, backup: &Path, attributes: &Attributes) -> bool {
        attributes.inode != (0, 0) && fs::metadata(backup).is_ok_and(|metadata| Attributes::of(&metadata) == *attributes)
    }

    /// Whether a backup is a file that nobody else has. One that is another installation's file would change with that.
    fn is_apart(&self, backup: &Path) -> bool {
        fs::metadata(backup).is_ok_and(|metadata| {
            #[cfg(unix)]
            let alone = std::os::unix::fs::MetadataExt::nlink(&metadata) == 1;
            #[cfg(not(unix))]
            let alone = metadata.is_file();
            alone
        })
    }

    /// Links or copies the target. The backup gets its name when it is whole: until then, one that was there stays.
    fn make(&self, target: &Path, source: &Source, attributes: &Attributes, sha256: &str) -> Result<(), BackupError> {
        let path = self.path(sha256);
        let partial = path.with_extension("partial");
        remove(&partial)?;
        if fs::hard_link(target, &partial).is_ok() {
            // Whoever installed it may not have synced it. Where that takes the right to write, it stays as durable as it was.
            fs::File::open(&partial).and_then(|file| file.sync_all()).ok();
        } else {
            swap::write(&partial, &Pieces::kept(0..source.len()), source, Ownership::Private(attributes))?;
        }
        if !self.is(&partial, attributes) && digest::of_file(&partial).map_err(step("read", &partial))? != sha256 {
            remove(&partial)?;
            return Err(BackupError::Raced(target.to_owned()));
        }
        fs::rename(&partial, &path).map_err(step("name", &path))?;
        // A rename from one name of a file to another does nothing.
        remove(&partial)?;
        swap::sync_folder(&self.folder);
        Ok(())
    }

    /// An original, looked through.
    ///
    /// # Errors
    /// When it is missing or not what it was.
    pub fn open(&self, sha256: &str) -> Result<Source, BackupError> {
        let path = self.path(sha256);
        let read = || {
            let source = Source::of(fs::File::open(&path)?)?;
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

    /// Puts an original under the name `to`, with the mode, owner and times it had: those in `original`, or, when that is not
    /// known any more, the mode and owner of `current`, the file that it will replace. `needed` tells whether another
    /// installation needs the backup.
    ///
    /// # Errors
    /// When the backup is missing or damaged, or the file cannot be made.
    pub fn bring_back(
        &self,
        sha256: &str,
        to: &Path,
        original: Option<&Attributes>,
        current: &Attributes,
        needed: bool,
    ) -> Result<(), BackupError> {
        let source = self.open(sha256)?;
        let path = self.path(sha256);
        let backup = fs::metadata(&path).map_err(step("look at", &path))?;
        let backup = Attributes::of(&backup);
        // Only what is this very original may become it again, and what others rely on must not: a file in use gets edited.
        if original == Some(&backup) && backup.inode != (0, 0) && !needed && fs::hard_link(&path, to).is_ok() {
            return Ok(());
        }
        // A copy keeps the times, too.
        let unknown = Attributes { mtime_ns: backup.mtime_ns, ..*current };
        let whole = Pieces::kept(0..source.len());
        Ok(swap::write(to, &whole, &source, Ownership::As(original.unwrap_or(&unknown)))?)
    }

    /// Removes backups that nothing has needed for 30 days before `now` (seconds since 1970).
    ///
    /// # Errors
    /// When a file cannot be removed.
    pub fn collect(&self, journal: &Journal, now: i64) -> Result<usize, BackupError> {
        let before = now - KEPT.as_secs() as i64;
        let mut collected = 0;
        for sha256 in journal.backups_unused_since(before)? {
            let _turn = self.turn(&sha256)?;
            // Asked again: somebody may have come to need it while we waited.
            if journal.backups_unused_since(before)?.contains(&sha256) {
                remove(&self.path(&sha256))?;
                journal.forget_backup(&sha256)?;
                collected += 1;
            }
        }
        Ok(collected)
    }
}
