/*!
Originals, kept under their SHA-256 in `backups/`.

Where the file system allows, a backup is a hard link: the original file itself, which outlives the rename that replaces it, and
comes back with its mode, owner and times. Elsewhere it is a copy. Either way it is hashed when it is made and again before it is
used.
*/

use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use super::journal::{BackupRecord, Journal, JournalError};
use super::swap::{self, Ownership, SwapError, step};
use crate::{digest, paths};

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
    /// The system says no.
    #[error(transparent)]
    Io(#[from] SwapError),
    /// The journal says no.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

/// The folder of backups.
#[derive(Debug, Clone)]
pub struct Backups {
    folder: PathBuf,
}

impl Backups {
    /// In a data directory.
    pub fn in_dir(data_dir: &Path) -> Self {
        Self { folder: data_dir.join("backups") }
    }

    /// Where the original with this hash is, or would be.
    pub fn path(&self, sha256: &str) -> PathBuf {
        self.folder.join(sha256)
    }

    /// Makes sure that `target`, whose hash is `sha256`, is backed up.
    ///
    /// # Errors
    /// When it cannot be copied, or what was copied is not the target.
    pub fn keep(&self, target: &Path, sha256: &str, version: Option<String>, journal: &Journal) -> Result<PathBuf, BackupError> {
        paths::create_private_dir(&self.folder).map_err(step("create", &self.folder))?;
        let path = self.path(sha256);
        let metadata = fs::metadata(target).map_err(step("look at", target))?;
        if journal.backup(sha256)?.is_some() && self.verify(sha256).is_ok() {
            return Ok(path);
        }
        remove(&path)?;
        let linked = fs::hard_link(target, &path).is_ok();
        if !linked {
            let partial = path.with_extension("partial");
            let bytes = fs::read(target).map_err(step("read", target))?;
            swap::write(&partial, &bytes, Ownership::Private)?;
            fs::rename(&partial, &path).map_err(step("name", &path))?;
        }
        swap::sync_folder(&self.folder);
        self.verify(sha256)?;
        journal.record_backup(&record(sha256, version, linked, &metadata))?;
        Ok(path)
    }

    /// The path of an original, after a look at its bytes.
    ///
    /// # Errors
    /// When it is missing or not what it was.
    pub fn verify(&self, sha256: &str) -> Result<PathBuf, BackupError> {
        let path = self.path(sha256);
        match digest::of_file(&path) {
            Ok(found) if found == sha256 => Ok(path),
            Ok(found) => Err(BackupError::Damaged { path, expected: sha256.to_owned(), found }),
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => Err(BackupError::Missing(path)),
            Err(cause) => Err(step("read", &path)(cause).into()),
        }
    }

    /// Puts an original under the name `to`, with the mode, owner and times it had; `current` is the file it will replace.
    ///
    /// # Errors
    /// When the backup is missing or damaged, or the file cannot be made.
    pub fn bring_back(&self, sha256: &str, to: &Path, current: &Metadata, journal: &Journal) -> Result<(), BackupError> {
        let path = self.verify(sha256)?;
        let record = journal.backup(sha256)?;
        // Only a backup that is the original file may become it again; a copy has our owner and mode.
        if record.as_ref().is_some_and(|record| record.linked) && fs::hard_link(&path, to).is_ok() {
            return Ok(());
        }
        let bytes = fs::read(&path).map_err(step("read", &path))?;
        if digest::of_bytes(&bytes) != sha256 {
            return Err(BackupError::Damaged { path, expected: sha256.to_owned(), found: digest::of_bytes(&bytes) });
        }
        swap::write(to, &bytes, Ownership::Like(current))?;
        if let Some(record) = record {
            let mtime = UNIX_EPOCH + Duration::from_nanos(record.mtime_ns.max(0) as u64);
            let file = fs::OpenOptions::new().write(true).open(to).map_err(step("open", to))?;
            #[cfg(unix)]
            {
                use std::os::unix::fs::PermissionsExt;
                let mode = fs::Permissions::from_mode(record.mode);
                file.set_permissions(mode).map_err(step("set the mode of", to))?;
            }
            file.set_modified(mtime).map_err(step("set the times of", to))?;
            file.sync_all().map_err(step("sync", to))?;
        }
        Ok(())
    }

    /// Removes backups that nothing has needed for 30 days before `now` (seconds since 1970).
    ///
    /// # Errors
    /// When a file cannot be removed.
    pub fn collect(&self, journal: &Journal, now: i64) -> Result<usize, BackupError> {
        let unused = journal.backups_unused_since(now - KEPT.as_secs() as i64)?;
        for sha256 in &unused {
            remove(&self.path(sha256))?;
            journal.forget_backup(sha256)?;
        }
        Ok(unused.len())
    }
}

fn remove(path: &Path) -> Result<(), SwapError> {
    match fs::remove_file(path) {
        Err(cause) if cause.kind() != io::ErrorKind::NotFound => Err(step("remove", path)(cause)),
        _ => Ok(()),
    }
}

fn record(sha256: &str, version: Option<String>, linked: bool, metadata: &Metadata) -> BackupRecord {
    let since_1970 = metadata.modified().ok().and_then(|modified| modified.duration_since(UNIX_EPOCH).ok());
    #[cfg(unix)]
    let (mode, uid, gid) = {
        use std::os::unix::fs::MetadataExt;
        (metadata.mode() & 0o7777, metadata.uid(), metadata.gid())
    };
    #[cfg(not(unix))]
    let (mode, uid, gid) = (0, 0, 0);
    let mtime_ns = since_1970.map_or(0, |elapsed| elapsed.as_nanos() as i64);
    BackupRecord { sha256: sha256.to_owned(), version, size: metadata.len(), linked, mode, uid, gid, mtime_ns }
}
