//! Registry of our edits: one record and at most one backup for each settings file, in the data directory.
//!
//! Settings may hold secrets. So all of it is private, and a backup is removed when it is restored.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::HookSettingsError;
use ctxbridge_common::digest;
use ctxbridge_common::files;
use ctxbridge_common::paths;

/// The end of a record's name.
const RECORD_ENDING: &str = ".record.json";

/// Number of our writes that are remembered, newest last.
const REMEMBERED: usize = 16;

#[derive(Debug, Serialize, Deserialize)]
struct EditRecord {
    /// Path of the settings file, for people.
    path: String,
    /// Digests of our writes over the same original. The newest is recorded before the write.
    written_sha256: Vec<String>,
    /// Digest of the original; `None` if we created the file.
    original_sha256: Option<String>,
    /// `true` if we also created its folder.
    folder_created: bool,
}

/// Settings file before our edits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum OriginalSettings {
    /// The file did not exist.
    Absent {
        /// `true` if its folder did not exist, either.
        folder_created: bool,
    },
    /// The file had this content.
    Bytes(Vec<u8>),
}

/// Registry entry of one file.
#[derive(Debug)]
pub(super) struct RegistryEntry {
    path: PathBuf,
    record_path: PathBuf,
    backup_path: PathBuf,
    record: Option<EditRecord>,
}

fn own(step: &'static str, path: &Path) -> impl FnOnce(io::Error) -> HookSettingsError {
    let path = path.to_owned();
    move |cause| HookSettingsError::Own { step, path, cause }
}

impl RegistryEntry {
    /// Opens the entry of the settings at `path`. A damaged record counts as missing.
    pub fn open(data_dir: &Path, path: &Path) -> Result<Self, HookSettingsError> {
        let folder = folder_in(data_dir);
        paths::create_private_dir(&folder).map_err(own("create", &folder))?;
        let name = digest::of_bytes(path.as_os_str().as_encoded_bytes())[..32].to_owned();
        let record_path = folder.join(format!("{name}{RECORD_ENDING}"));
        let record = match files::read(&record_path) {
            Ok(bytes) => serde_json::from_slice(&bytes).ok(),
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => None,
            Err(cause) => return Err(own("read", &record_path)(cause)),
        };
        Ok(Self { path: path.to_owned(), record_path, backup_path: folder.join(format!("{name}.original.json")), record })
    }

    /// Returns the path of the backup, if there is one.
    pub fn backup(&self) -> Option<&Path> {
        self.record.as_ref()?.original_sha256.as_ref()?;
        Some(&self.backup_path)
    }

    /// Returns the original, if these bytes are our write and the backup is intact.
    pub fn original_of(&self, current: &[u8]) -> Option<OriginalSettings> {
        let record = self.record.as_ref()?;
        if !record.written_sha256.contains(&digest::of_bytes(current)) {
            return None;
        }
        match &record.original_sha256 {
            None => Some(OriginalSettings::Absent { folder_created: record.folder_created }),
            Some(sha256) => {
                let bytes = files::read(&self.backup_path).ok()?;
                (digest::of_bytes(&bytes) == *sha256).then_some(OriginalSettings::Bytes(bytes))
            }
        }
    }

    /// Returns [`OriginalSettings::Absent`] if we created the file, even if it was changed since.
    pub fn created(&self) -> Option<OriginalSettings> {
        let record = self.record.as_ref().filter(|record| record.original_sha256.is_none())?;
        Some(OriginalSettings::Absent { folder_created: record.folder_created })
    }

    /// Records that `new` is about to be written over `original`.
    pub fn note(&mut self, original: &OriginalSettings, new: &[u8]) -> Result<(), HookSettingsError> {
        let (original_sha256, folder_created) = match original {
            OriginalSettings::Absent { folder_created } => (None, *folder_created),
            OriginalSettings::Bytes(bytes) => (Some(digest::of_bytes(bytes)), false),
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
        if let OriginalSettings::Bytes(bytes) = original {
            write_private(&self.backup_path, bytes)?;
        } else {
            remove(&self.backup_path)?;
        }
        let record =
            EditRecord { path: self.path.to_string_lossy().into_owned(), written_sha256, original_sha256, folder_created };
        let json = serde_json::to_vec_pretty(&record).map_err(|cause| own("write", &self.record_path)(cause.into()))?;
        write_private(&self.record_path, &json)?;
        self.record = Some(record);
        Ok(())
    }

    /// Removes the record; the backup stays if `keep_backup`.
    pub fn forget(self, keep_backup: bool) -> Result<(), HookSettingsError> {
        remove(&self.record_path)?;
        if keep_backup { Ok(()) } else { remove(&self.backup_path) }
    }
}

/// The folder of records and backups.
fn folder_in(data_dir: &Path) -> PathBuf {
    data_dir.join("backups").join("settings")
}

/// The settings files that have edits of ours in them, by their records. Damaged records are passed over.
pub(super) fn edited_files(data_dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder_in(data_dir)).into_iter().flatten().flatten();
    let records = entries.filter(|entry| entry.file_name().to_string_lossy().ends_with(RECORD_ENDING));
    let mut files: Vec<PathBuf> = records
        .filter_map(|entry| serde_json::from_slice::<EditRecord>(&files::read(entry.path()).ok()?).ok())
        .map(|record| PathBuf::from(record.path))
        .collect();
    files.sort();
    files
}

fn write_private(path: &Path, bytes: &[u8]) -> Result<(), HookSettingsError> {
    let folder = path.parent().unwrap_or(Path::new("."));
    // Temporary files are 0600.
    let mut file = tempfile::NamedTempFile::new_in(folder).map_err(own("write in", folder))?;
    file.write_all(bytes).and_then(|()| file.as_file().sync_all()).map_err(own("write", path))?;
    files::persist(file, path).map_err(own("write", path))?;
    Ok(())
}

fn remove(path: &Path) -> Result<(), HookSettingsError> {
    match fs::remove_file(path) {
        Err(cause) if cause.kind() != io::ErrorKind::NotFound => Err(own("remove", path)(cause)),
        _ => Ok(()),
    }
}
