//! What we wrote, and what was there before: one record and at most one backup for each settings file, in the data directory.
//!
//! Settings hold secrets at times, so that all of it is private, and a backup goes when it is put back.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::SettingsError;
use ctxbridge_common::digest;
use ctxbridge_common::paths;

/// How many of our writes are remembered; the newest come last.
const REMEMBERED: usize = 16;

#[derive(Debug, Serialize, Deserialize)]
struct Record {
    /// For people.
    path: String,
    /// Digests of what we wrote over that same original. The newest is noted before it is written.
    written_sha256: Vec<String>,
    /// The digest of the original; nothing when we made the file.
    original_sha256: Option<String>,
    /// Whether we made its folder, too.
    folder_created: bool,
}

/// What a settings file was without us.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Original {
    /// It was not there.
    Absent {
        /// Nor was its folder.
        folder_created: bool,
    },
    /// It had this in it.
    Bytes(Vec<u8>),
}

/// The registry's part about one file.
#[derive(Debug)]
pub(super) struct Entry {
    path: PathBuf,
    record_path: PathBuf,
    backup_path: PathBuf,
    record: Option<Record>,
}

fn own(step: &'static str, path: &Path) -> impl FnOnce(io::Error) -> SettingsError {
    let path = path.to_owned();
    move |cause| SettingsError::Own { step, path, cause }
}

impl Entry {
    /// What is known of the settings at `path`. A damaged record is none.
    pub fn open(data_dir: &Path, path: &Path) -> Result<Self, SettingsError> {
        let folder = data_dir.join("backups").join("settings");
        paths::create_private_dir(&folder).map_err(own("create", &folder))?;
        let name = digest::of_bytes(path.as_os_str().as_encoded_bytes())[..32].to_owned();
        let record_path = folder.join(format!("{name}.record.json"));
        let record = match fs::read(&record_path) {
            Ok(bytes) => serde_json::from_slice(&bytes).ok(),
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => None,
            Err(cause) => return Err(own("read", &record_path)(cause)),
        };
        Ok(Self { path: path.to_owned(), record_path, backup_path: folder.join(format!("{name}.original.json")), record })
    }

    /// Where the original is kept.
    pub fn backup(&self) -> Option<&Path> {
        self.record.as_ref()?.original_sha256.as_ref()?;
        Some(&self.backup_path)
    }

    /// What the file was without us, if these bytes are what we wrote and the backup is whole.
    pub fn original_of(&self, current: &[u8]) -> Option<Original> {
        let record = self.record.as_ref()?;
        if !record.written_sha256.contains(&digest::of_bytes(current)) {
            return None;
        }
        match &record.original_sha256 {
            None => Some(Original::Absent { folder_created: record.folder_created }),
            Some(sha256) => {
                let bytes = fs::read(&self.backup_path).ok()?;
                (digest::of_bytes(&bytes) == *sha256).then_some(Original::Bytes(bytes))
            }
        }
    }

    /// Whether we made the file, whatever happened to it since; and its folder.
    pub fn created(&self) -> Option<Original> {
        let record = self.record.as_ref().filter(|record| record.original_sha256.is_none())?;
        Some(Original::Absent { folder_created: record.folder_created })
    }

    /// Notes that `new` is about to be written over `original`.
    pub fn note(&mut self, original: &Original, new: &[u8]) -> Result<(), SettingsError> {
        let (original_sha256, folder_created) = match original {
            Original::Absent { folder_created } => (None, *folder_created),
            Original::Bytes(bytes) => (Some(digest::of_bytes(bytes)), false),
        };
        // What was written over another original must not bring this one back.
        let mut written_sha256 = match self.record.take() {
            Some(record) if record.original_sha256 == original_sha256 => record.written_sha256,
            _ => Vec::new(),
        };
        let sha256 = digest::of_bytes(new);
        written_sha256.retain(|written| *written != sha256);
        written_sha256.push(sha256);
        written_sha256.drain(..written_sha256.len().saturating_sub(REMEMBERED));
        if let Original::Bytes(bytes) = original {
            write_private(&self.backup_path, bytes)?;
        } else {
            remove(&self.backup_path)?;
        }
        let record = Record { path: self.path.to_string_lossy().into_owned(), written_sha256, original_sha256, folder_created };
        let json = serde_json::to_vec_pretty(&record).map_err(|cause| own("write", &self.record_path)(cause.into()))?;
        write_private(&self.record_path, &json)?;
        self.record = Some(record);
        Ok(())
    }

    /// Forgets the file; the backup stays if `keep_backup`.
    pub fn forget(self, keep_backup: bool) -> Result<(), SettingsError> {
        remove(&self.record_path)?;
        if keep_backup { Ok(()) } else { remove(&self.backup_path) }
    }
}

fn write_private(path: &Path, bytes: &[u8]) -> Result<(), SettingsError> {
    let folder = path.parent().unwrap_or(Path::new("."));
    // Temporary files are 0600.
    let mut file = tempfile::NamedTempFile::new_in(folder).map_err(own("write in", folder))?;
    file.write_all(bytes).and_then(|()| file.as_file().sync_all()).map_err(own("write", path))?;
    file.persist(path).map_err(|failed| own("write", path)(failed.error))?;
    Ok(())
}

fn remove(path: &Path) -> Result<(), SettingsError> {
    match fs::remove_file(path) {
        Err(cause) if cause.kind() != io::ErrorKind::NotFound => Err(own("remove", path)(cause)),
        _ => Ok(()),
    }
}
