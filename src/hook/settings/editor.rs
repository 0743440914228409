//! Install and uninstall: an edit, made so that it can be undone.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::document::DocumentError;
use super::file::{SettingsFile, io};
use super::registry::{Entry, Original};
use super::wiring::Hook;
use super::{SettingsError, edit};
use ctxbridge_common::paths;
use ctxbridge_patch::lock::Lock;

/// How often an edit is made again when another program changed the file meanwhile.
const ATTEMPTS: usize = 5;

/// Edits settings files and remembers in the data directory what they were.
pub struct Editor<'a> {
    data_dir: &'a Path,
    notice: &'a dyn Fn(&str),
}

/// What an install did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum InstalledState {
    /// None of ours was there.
    Installed,
    /// Ours were there, but not as they are to be.
    Updated,
    /// Nothing had to be changed.
    Unchanged,
}

/// Wired hooks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installed {
    /// What was done.
    pub state: InstalledState,
    /// The real file.
    pub file: PathBuf,
    /// Where what was in it before is kept; nothing when the file is ours or nothing was done.
    pub backup: Option<PathBuf>,
}

/// What an uninstall did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum UninstalledState {
    /// The file is what it was before the install, to the byte.
    Restored,
    /// The file was made by the install and is gone again.
    Deleted,
    /// The file was changed since; ours were taken out of it.
    Removed,
    /// None of ours was there.
    NotInstalled,
}

/// Hooks that are gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Uninstalled {
    /// What was done.
    pub state: UninstalledState,
    /// The real file.
    pub file: PathBuf,
    /// How many hooks of ours there were.
    pub removed: usize,
    /// Where what was in the file before the install is still kept.
    pub backup: Option<PathBuf>,
}

impl<'a> Editor<'a> {
    /// Keeps its records in `data_dir` and tells `notice` when it has to wait.
    pub fn new(data_dir: &'a Path, notice: &'a dyn Fn(&str)) -> Self {
        Self { data_dir, notice }
    }

    /// Wires exactly these hooks in a settings file. One that is not there is made, for the user alone if `private`.
    ///
    /// # Errors
    /// When it cannot be read or written, or is not what the client reads; nothing is changed then.
    pub fn install(&self, named: &Path, wanted: &[Hook], private: bool) -> Result<Installed, SettingsError> {
        self.repeatedly(named, |current, mut entry| {
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
                (None, _) => Original::Absent { folder_created },
                (Some(_), Some(original)) => original,
                // Changed since, or never ours: without ours it is what comes back.
                (Some(bytes), None) => {
                    let without = edit::uninstall(bytes).map_err(&document)?;
                    entry.created().filter(|_| had_ours && edit::is_empty(&without)).unwrap_or(Original::Bytes(without))
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

    /// Takes ours out of a settings file.
    ///
    /// # Errors
    /// When it cannot be read or written; nothing is changed then.
    pub fn uninstall(&self, named: &Path) -> Result<Uninstalled, SettingsError> {
        self.repeatedly(named, |current, entry| {
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
                Some(Original::Absent { folder_created }) => current.remove(folder_created)?.then_some(UninstalledState::Deleted),
                Some(Original::Bytes(original)) => current.replace(&original, true)?.then_some(UninstalledState::Restored),
                None => current.replace(&without, true)?.then_some(UninstalledState::Removed),
            };
            let Some(state) = state else { return Ok(None) };
            let backup = entry.backup().filter(|_| state == UninstalledState::Removed).map(Path::to_owned);
            entry.forget(backup.is_some())?;
            Ok(done(state, removed, backup))
        })
    }

    /// Does `work` under the file's lock, again when it says nothing.
    fn repeatedly<T>(
        &self,
        named: &Path,
        work: impl Fn(&SettingsFile, Entry) -> Result<Option<T>, SettingsError>,
    ) -> Result<T, SettingsError> {
        let path = SettingsFile::read(named)?.path;
        let _lock = Lock::acquire(self.data_dir, &path, self.notice)?;
        for _ in 0..ATTEMPTS {
            let current = SettingsFile::read(named)?;
            let entry = Entry::open(self.data_dir, &current.path)?;
            if let Some(done) = work(&current, entry)? {
                return Ok(done);
            }
        }
        Err(SettingsError::Contended(path))
    }
}

fn document_error(file: &SettingsFile) -> impl Fn(DocumentError) -> SettingsError {
    let path = file.path.clone();
    move |cause| SettingsError::Document { path: path.clone(), cause }
}

/// Makes the folder of a file; true when it was not there.
fn make_folder(file: &Path, private: bool) -> Result<bool, SettingsError> {
    let Some(folder) = file.parent().filter(|folder| !folder.exists()) else { return Ok(false) };
    let made = if private { paths::create_private_dir(folder) } else { std::fs::create_dir_all(folder) };
    made.map_err(io("create", folder)).map(|()| true)
}
