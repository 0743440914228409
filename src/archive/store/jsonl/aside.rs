/*!
Moving the whole folder out of the way, with all that is in it: when it is damaged, or when another archive has all of it.

It is moved under the lock of those who write. Whoever waits for that lock meanwhile sees afterwards that it is no longer the folder's, and begins anew.
*/

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::JsonlStore;
use super::folder::Folder;
use super::journal::{self, Journal};
use crate::store::StoreError;
use crate::store::sqlite::Patience;

/// Why a folder lies aside.
const MERGED: &str = "merged";

/// Up to where an archive was read; another one as soon as anything is written to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    journal: String,
    bytes: u64,
}

impl JsonlStore {
    /// Whether there is an archive in a folder.
    pub fn is_in(folder: &Path) -> bool {
        Self::journal_in(folder).exists()
    }

    /// The file in a folder that grows with everything that happens.
    pub fn journal_in(folder: &Path) -> PathBuf {
        folder.join(journal::FILE)
    }

    /// Folders that were moved aside because another archive has all of them.
    pub fn merged_beside(folder: &Path) -> Vec<PathBuf> {
        let begin = format!("{}.{MERGED}-", name_of(folder));
        let listed = folder.parent().and_then(|parent| fs::read_dir(parent).ok());
        let entries = listed.into_iter().flatten().flatten();
        let mut found: Vec<_> =
            entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(&begin)).map(|entry| entry.path()).collect();
        found.sort_unstable();
        found
    }

    /// Moves the archive in a folder aside if it is damaged indeed and nobody else has done so; says where to. The caller has closed it.
    ///
    /// # Errors
    /// When it cannot be moved, or others do not stop writing.
    pub fn move_damaged_aside(folder: &Path) -> Result<Option<PathBuf>, StoreError> {
        let at = Folder::at(folder);
        let _alone = at.lock(Patience::Patient)?;
        let read = Journal::open(&at, false).and_then(|journal| match journal {
            Some(journal) => Self::read(&at, journal, Patience::Patient, true).map(drop),
            None if at.has_transcripts()? => Err(at.without_journal()),
            None => Ok(()),
        });
        match read {
            Err(error) if error.is_damage() => {
                let failed = |cause| StoreError::Aside { path: folder.to_owned(), cause };
                rename(folder, "damaged").map(Some).map_err(failed)
            }
            other => other.map(|()| None),
        }
    }

    /// Up to where it is read now.
    ///
    /// # Errors
    /// When what others have written cannot be read.
    pub fn mark(&mut self) -> Result<Mark, StoreError> {
        self.refresh()?;
        Ok(self.marked())
    }

    /// Moves the archive aside, as one that another archive has all of, if nothing was written since a mark; says where to. Nobody writes while
    /// `last` does what is still to be done.
    ///
    /// # Errors
    /// When it cannot be moved, others do not stop writing, or `last` fails.
    pub fn move_merged_aside(
        &mut self,
        mark: &Mark,
        last: &mut dyn FnMut(&mut Self) -> Result<(), StoreError>,
    ) -> Result<Option<PathBuf>, StoreError> {
        let _alone = self.alone()?;
        if self.marked() != *mark {
            return Ok(None);
        }
        last(self)?;
        let path = self.folder.path();
        rename(path, MERGED).map(Some).map_err(|cause| StoreError::File { path: path.to_owned(), cause })
    }

    fn marked(&self) -> Mark {
        Mark { journal: self.journal.head.id.clone(), bytes: self.journal.at.bytes }
    }
}

/// To a name that nothing has yet.
fn rename(folder: &Path, why: &str) -> io::Result<PathBuf> {
    let name = name_of(folder);
    let beside = |number: u32| folder.with_file_name(format!("{name}.{why}-{number}"));
    let aside = (1..u32::MAX).map(beside).find(|aside| fs::symlink_metadata(aside).is_err()).unwrap_or_else(|| beside(0));
    fs::rename(folder, &aside).map(|()| aside)
}

fn name_of(folder: &Path) -> String {
    folder.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
