//! Install and uninstall: edits that can be undone.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::document::DocumentError;
use super::file::{SettingsFile, io};
use super::registry::{OriginalSettings, RegistryEntry};
use super::wiring::Hook;
use super::{HookSettingsError, edit, registry};
use ctxbridge_common::paths;
use ctxbridge_patch::lock::Lock;

/// Number of attempts at an edit if another program keeps changing the file.
const ATTEMPTS: usize = 5;

/// Edits settings files, and keeps their originals in the data directory.
pub struct Editor<'a> {
    data_dir: &'a Path,
    notice: &'a dyn Fn(&str),
}

/// Effect of an install.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum InstalledState {
    /// There were no hooks of ours before.
    Installed,
    /// Our hooks were there, but outdated.
    Updated,
    /// Nothing had to be changed.
    Unchanged,
}

/// Result of an install.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installed {
    /// The effect.
    pub state: InstalledState,
    /// The real file.
    pub file: PathBuf,
    /// Backup of the original; `None` if the file is ours or nothing was done.
    pub backup: Option<PathBuf>,
}

/// Effect of an uninstall.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum UninstalledState {
    /// The file is as before the install, byte for byte.
    Restored,
    /// The file was created by the install and is deleted.
    Deleted,
    /// The file was changed since; only our hooks were removed.
    Removed,
    /// There were no hooks of ours.
    NotInstalled,
}

/// Result of an uninstall.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Uninstalled {
    /// The effect.
    pub state: UninstalledState,
    /// The real file.
    pub file: PathBuf,
    /// Number of hooks of ours that there were.
    pub removed: usize,
    /// Backup of the original, if it is still kept.
    pub backup: Option<PathBuf>,
}

impl<'a> Editor<'a> {
    /// Creates an editor that keeps its records in `data_dir`, and calls `notice` if it has to wait.
    pub fn new(data_dir: &'a Path, notice: &'a dyn Fn(&str)) -> Self {
        Self { data_dir, notice }
    }

    /// The settings files that have edits of ours in them, in any project.
    pub fn edited_files(&self) -> Vec<PathBuf> {
        registry::edited_files(self.data_dir)
    }

    /// Installs exactly these hooks in a settings file. A missing file is created, readable by the user alone if `private`.
    ///
    /// # Errors
    /// If it cannot be read or written, or the client could not read it; nothing is changed then.
    pub fn install(&self, named: &Path, wanted: &[Hook], private: bool) -> Result<Installed, HookSettingsError> {
        self.retry_under_lock(named, |current, mut entry| {
            let document = document_error(current);
            let new = edit::install(current.bytes(), wanted).map_err(&document)?;
            let done = |state, backup| Some(Installed { state, file: current.path.clone(), backup });
            if current.content.is_some() && new == current.bytes() {
                return Ok(done(InstalledState::Unchanged, None));
            }
            current.check_writable()?;
            let had_ours = edit::count(current.bytes()).map_err(&document)? > 0;
            let folder_created = make_folder(&current.path, private)?;
            let original = match (&current.content, entry.original_of(current.bytes())) {
                (None, _) => OriginalSettings::Absent { folder_created },
                (Some(_), Some(original)) => original,
                // Changed since, or never ours: without ours it is what comes back.
                (Some(bytes), None) => {
                    let without = edit::uninstall(bytes).map_err(&document)?;
                    entry.created().filter(|_| had_ours && edit::is_empty(&without)).unwrap_or(OriginalSettings::Bytes(without))
                }
            };
            entry.note(&original, &new)?;
            if !current.replace(&new, private)? {
                return Ok(None);
            }
            let state = if had_ours { InstalledState::Updated } else { InstalledState::Installed };
            Ok(done(state, entry.backup().map(Path::to_owned)))
        })
    }

    /// Removes our hooks from a settings file.
    ///
    /// # Errors
    /// If it cannot be read or written; nothing is changed then.
    pub fn uninstall(&self, named: &Path) -> Result<Uninstalled, HookSettingsError> {
        self.retry_under_lock(named, |current, entry| {
            let document = document_error(current);
            let done = |state, removed, backup| Some(Uninstalled { state, file: current.path.clone(), removed, backup });
            let Some(bytes) = &current.content else {
                entry.forget(true)?;
                return Ok(done(UninstalledState::NotInstalled, 0, None));
            };
            let without = edit::uninstall(bytes).map_err(&document)?;
            if without == *bytes {
                return Ok(done(UninstalledState::NotInstalled, 0, None));
            }
            current.check_writable()?;
            let removed = edit::count(bytes).map_err(&document)?;
            let known = entry.original_of(bytes);
            let state = match known.or_else(|| entry.created().filter(|_| edit::is_empty(&without))) {
                Some(OriginalSettings::Absent { folder_created }) => {
                    current.remove(folder_created)?.then_some(UninstalledState::Deleted)
                }
                Some(OriginalSettings::Bytes(original)) => {
                    current.replace(&original, true)?.then_some(UninstalledState::Restored)
                }
                None => current.replace(&without, true)?.then_some(UninstalledState::Removed),
            };
            let Some(state) = state else { return Ok(None) };
            let backup = entry.backup().filter(|_| state == UninstalledState::Removed).map(Path::to_owned);
            entry.forget(backup.is_some())?;
            Ok(done(state, removed, backup))
        })
    }

    /// Changes a settings file by `change`, whose original the hooks' install keeps. Returns `false` if there was nothing to do. A
    /// missing file is created, readable by the user alone if `private`.
    pub(super) fn edit(
        &self,
        named: &Path,
        private: bool,
        change: impl Fn(&[u8]) -> Result<Vec<u8>, DocumentError>,
    ) -> Result<bool, HookSettingsError> {
        self.retry_under_lock(named, |current, _| {
            let new = change(current.bytes()).map_err(document_error(current))?;
            if new == current.bytes() {
                return Ok(Some(false));
            }
            current.check_writable()?;
            make_folder(&current.path, private)?;
            Ok(current.replace(&new, private)?.then_some(true))
        })
    }

    /// Runs `work` under the file's lock, and again while it returns `None`.
    fn retry_under_lock<T>(
        &self,
        named: &Path,
        work: impl Fn(&SettingsFile, RegistryEntry) -> Result<Option<T>, HookSettingsError>,
    ) -> Result<T, HookSettingsError> {
        let path = SettingsFile::read(named)?.path;
        let _lock = Lock::acquire(self.data_dir, &path, self.notice)?;
        for _ in 0..ATTEMPTS {
            let current = SettingsFile::read(named)?;
            let entry = RegistryEntry::open(self.data_dir, &current.path)?;
            if let Some(done) = work(&current, entry)? {
                return Ok(done);
            }
        }
        Err(HookSettingsError::Contended(path))
    }
}

fn document_error(file: &SettingsFile) -> impl Fn(DocumentError) -> HookSettingsError {
    let path = file.path.clone();
    move |cause| HookSettingsError::Document { path: path.clone(), cause }
}

/// Creates the folder of a file; `true` if it did not exist.
fn make_folder(file: &Path, private: bool) -> Result<bool, HookSettingsError> {
    let Some(folder) = file.parent().filter(|folder| !folder.exists()) else { return Ok(false) };
    let made = if private { paths::create_private_dir(folder) } else { std::fs::create_dir_all(folder) };
    made.map_err(io("create", folder)).map(|()| true)
}
