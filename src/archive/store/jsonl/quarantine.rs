/*!
Quarantine: moves the whole folder out of the way, when it is damaged or when another archive has all of it.

It is moved under the writers' lock. A process that waited for this lock then sees that it is no longer the folder's, and starts
over.
*/

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::folder::Folder;
use super::journal::ChangeJournal;
use super::{JsonlStore, folder};
use crate::store::StoreError;
use crate::store::sqlite::LockPolicy;
use ctxbridge_common::files;

/// Part of a quarantined folder's name: another archive has all of it.
pub(crate) const MERGED: &str = "merged";
/// The same, of one that is damaged, and of one that was replaced.
pub(crate) const DAMAGED: &str = "damaged";
const REPLACED: &str = "replaced";

/// Position up to which an archive was read. It changes as soon as anything is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadPosition {
    journal: String,
    bytes: u64,
}

impl JsonlStore {
    /// `true` if a folder contains an archive.
    pub fn is_in(folder: &Path) -> bool {
        Self::journal_in(folder).exists() || Self::journal_in(&Folder::at(folder).replacement()).exists()
    }

    /// The journal file of a folder; it grows with every change.
    pub fn journal_in(folder: &Path) -> PathBuf {
        folder.join(folder::JOURNAL_FILE)
    }

    /// Folders that were moved aside because another archive has all of them.
    pub fn merged_beside(folder: &Path) -> Vec<PathBuf> {
        Self::set_aside(folder, MERGED)
    }

    /// Folders that were replaced, and not removed: whoever was to do that was killed.
    pub fn replaced_beside(folder: &Path) -> Vec<PathBuf> {
        Self::set_aside(folder, REPLACED)
    }

    /// Archives that were moved aside for a reason, beside the path where each was: a folder, or the file of a database.
    pub(crate) fn set_aside(path: &Path, why: &str) -> Vec<PathBuf> {
        let begin = format!("{}.{why}-", name_of(path));
        let listed = path.parent().and_then(|parent| fs::read_dir(parent).ok());
        let entries = listed.into_iter().flatten().flatten();
        let mut found: Vec<_> =
            entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(&begin)).map(|entry| entry.path()).collect();
        found.sort_unstable();
        found
    }

    /// Moves a damaged archive aside, and returns its new path. Returns `None` if it is not damaged, or was moved already.
    /// The caller has closed it.
    ///
    /// # Errors
    /// If it cannot be moved, or others do not stop writing.
    pub fn move_damaged_aside(folder: &Path) -> Result<Option<PathBuf>, StoreError> {
        let at = Folder::at(folder);
        let _alone = at.lock(LockPolicy::Background)?;
        let read = ChangeJournal::open(&at, false).and_then(|journal| match journal {
            Some(journal) => Self::read(&at, journal, LockPolicy::Background, true).map(drop),
            None if at.has_transcripts()? => Err(at.without_journal()),
            None => Ok(()),
        });
        match read {
            Err(error) if error.is_damage() => {
                let failed = |cause| StoreError::Quarantine { path: folder.to_owned(), cause };
                rename(folder, DAMAGED).map(Some).map_err(failed)
            }
            other => other.map(|()| None),
        }
    }

    /// Refreshes the archive, and returns the position up to which it is read.
    ///
    /// # Errors
    /// If what others have written cannot be read.
    pub fn read_position(&mut self) -> Result<ReadPosition, StoreError> {
        self.refresh()?;
        Ok(self.marked())
    }

    /// Moves the archive aside as merged, if nothing was written since `mark`. Returns its new path.
    /// Nobody can write while `last` does the remaining work.
    ///
    /// # Errors
    /// If it cannot be moved, others do not stop writing, or `last` fails.
    pub fn move_merged_aside(
        &mut self,
        mark: &ReadPosition,
        last: &mut dyn FnMut(&mut Self) -> Result<(), StoreError>,
    ) -> Result<Option<PathBuf>, StoreError> {
        let _alone = self.lock_and_refresh()?;
        if self.marked() != *mark {
            return Ok(None);
        }
        last(self)?;
        let path = self.folder.path();
        rename(path, MERGED).map(Some).map_err(|cause| StoreError::File { path: path.to_owned(), cause })
    }

    /// Begins an archive that will replace the one in a folder. Nobody writes to that one until then.
    pub(crate) fn begin_replacement(folder: &Path) -> Result<Replacement, StoreError> {
        let alone = Folder::at(folder).lock(LockPolicy::Background)?;
        let path = folder.with_added_extension("part");
        for path in [&path, &Folder::at(folder).replacement()] {
            // It was not finished.
            files::gone(fs::remove_dir_all(path)).map_err(|cause| StoreError::File { path: path.clone(), cause })?;
        }
        Ok(Replacement { path, folder: folder.to_owned(), alone })
    }

    fn marked(&self) -> ReadPosition {
        ReadPosition { journal: self.journal.head.id.clone(), bytes: self.journal.at.bytes }
    }
}

/// An archive that will replace another one, which is locked meanwhile.
pub(crate) struct Replacement {
    /// Its folder.
    pub path: PathBuf,
    folder: PathBuf,
    /// The writers' lock of the other one.
    alone: Option<File>,
}

impl Replacement {
    /// Puts it in the other one's place, which is removed. Killed in between, the next one to write to the folder finds the replacement, and what
    /// was replaced is [beside it](JsonlStore::replaced_beside).
    pub fn finish(self) -> Result<(), StoreError> {
        let failed = |cause| StoreError::File { path: self.folder.clone(), cause };
        // The folder is as good as gone: what replaces it has to be on the disk.
        sync_all(&self.path).map_err(failed)?;
        // From here on it is complete.
        let complete = Folder::at(&self.folder).replacement();
        fs::rename(&self.path, &complete).map_err(failed)?;
        let replaced = rename(&self.folder, REPLACED).map_err(failed)?;
        fs::rename(&complete, &self.folder).map_err(failed)?;
        // It is in the folder that goes.
        drop(self.alone);
        files::gone(fs::remove_dir_all(&replaced)).map_err(|cause| StoreError::File { path: replaced, cause })
    }
}

/// Waits until all files of a folder are on the disk.
fn sync_all(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() { sync_all(&path)? } else { files::sync(&path)? }
    }
    Ok(())
}

/// Renames a folder to a name that is not taken yet.
fn rename(folder: &Path, why: &str) -> io::Result<PathBuf> {
    let name = name_of(folder);
    let beside = |number: u32| folder.with_file_name(format!("{name}.{why}-{number}"));
    let aside = (1..u32::MAX).map(beside).find(|aside| fs::symlink_metadata(aside).is_err()).unwrap_or_else(|| beside(0));
    fs::rename(folder, &aside).map(|()| aside)
}

fn name_of(folder: &Path) -> String {
    folder.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
