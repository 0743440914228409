/*!
Which archive it is, as the settings say, and what is used where that one cannot be opened.

Hooks, and whatever writes, use an archive of this machine: the database, or a folder of JSON Lines where that is chosen. Where a database cannot be
opened at all, what is new goes into the folder as well, until [`super::merge`] takes it back. Nobody asks a server here: commands that only read
do that themselves.
*/

use std::path::{Path, PathBuf};

use super::heal;
use super::store::jsonl::JsonlStore;
use super::store::sqlite::{Patience, SqliteStore};
use super::store::{Store, StoreError};
use ctxbridge_config::{self as config, StoreKind};

/// Where the archive of this machine is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    data: PathBuf,
    folder: PathBuf,
    is_lines: bool,
}

/// An archive that was opened, and what is to be said of that.
pub struct Opened {
    /// The archive.
    pub store: Box<dyn Store>,
    /// Where a damaged one is now that was there before.
    pub aside: Option<PathBuf>,
    /// Why it is in JSON Lines, where it should be in a database.
    pub instead: Option<String>,
}

impl Opened {
    /// What people are told.
    pub fn notes(&self) -> Vec<String> {
        self.aside.iter().map(|aside| heal::told(aside)).chain(self.instead.clone()).collect()
    }
}

/// What may be done with the database besides.
type Manner = fn(SqliteStore) -> SqliteStore;

impl Location {
    /// Of a data folder, as the settings say.
    pub fn of(data: &Path, settings: &config::Archive) -> Self {
        let folder = settings.jsonl_folder.clone().unwrap_or_else(|| data.join(JsonlStore::FOLDER));
        Self { data: data.to_owned(), folder, is_lines: settings.store == StoreKind::Jsonl }
    }

    /// The database of a data folder.
    pub fn database(data: &Path) -> Self {
        Self { data: data.to_owned(), folder: data.join(JsonlStore::FOLDER), is_lines: false }
    }

    /// The data folder.
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// The folder of JSON Lines, which need not be there.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// What the archive should be kept in.
    pub fn kind(&self) -> StoreKind {
        if self.is_lines { StoreKind::Jsonl } else { StoreKind::Sqlite }
    }

    /// Whether anything was archived yet: opening would begin an archive.
    pub fn is_begun(&self) -> bool {
        JsonlStore::is_in(&self.folder) || !self.is_lines && self.data.join(SqliteStore::FILE).exists()
    }

    /// The folder of JSON Lines, where what is in it is to be merged into the database.
    pub fn waiting(&self) -> Option<&Path> {
        (!self.is_lines && JsonlStore::is_in(&self.folder)).then_some(&self.folder)
    }

    /// Folders of JSON Lines that were merged, and are of no use any more.
    pub fn merged(&self) -> Vec<PathBuf> {
        JsonlStore::merged_beside(&self.folder)
    }

    /// Opens the archive for one who has something to archive: begins one where there is none, or it is damaged.
    ///
    /// # Errors
    /// When neither the database nor the folder can be opened; then it says why not the one that it should be.
    pub fn to_write(&self, patience: Patience) -> Result<Opened, StoreError> {
        self.open(patience, true, |store| store)
    }

    /// The same for hooks, which leave cold storage alone: a mounted bucket may be slow, and somebody waits.
    ///
    /// # Errors
    /// As [`Self::to_write`].
    pub fn in_hook(&self, patience: Patience) -> Result<Opened, StoreError> {
        self.open(patience, true, SqliteStore::leaving_cold)
    }

    /// The same for one who reads: a folder is no place to look in where nobody has written to one.
    ///
    /// # Errors
    /// As [`Self::to_write`].
    pub fn to_read(&self, patience: Patience) -> Result<Opened, StoreError> {
        self.open(patience, false, |store| store)
    }

    /// Opens the archive to look at, if there is one: nothing is written, and nothing is mended.
    ///
    /// # Errors
    /// As [`Self::to_write`]; also when it is damaged.
    pub fn to_look(&self, patience: Patience) -> Result<Option<Box<dyn Store>>, StoreError> {
        let lines = || Ok(JsonlStore::open_read_only(&self.folder)?.map(boxed));
        if self.is_lines {
            return lines();
        }
        let database = || {
            // Opening would make one.
            if !self.data.join(SqliteStore::FILE).exists() {
                return Ok(None);
            }
            let presence = heal::presence(&self.data, patience)?;
            Ok(SqliteStore::open_read_only(&self.data)?.map(|store| boxed(store.holding(presence))))
        };
        match database() {
            // A link that leads nowhere is no file either.
            Ok(None) if JsonlStore::is_in(&self.folder) => lines(),
            Err(error) if has_no_database(&error) => match lines() {
                Ok(Some(store)) => Ok(Some(store)),
                Ok(None) | Err(_) => Err(error),
            },
            opened => opened,
        }
    }

    /// Moves aside what an error says is damaged, if nobody else has; says where to. The caller has closed it.
    ///
    /// # Errors
    /// When it cannot be moved, or others do not stop using it.
    pub fn move_aside(&self, error: &StoreError) -> Result<Option<PathBuf>, StoreError> {
        match error {
            StoreError::Damaged { path, .. } if *path == self.folder => JsonlStore::move_damaged_aside(&self.folder),
            _ if self.is_lines => Ok(None),
            _ => heal::move_aside(&self.data),
        }
    }

    fn open(&self, patience: Patience, begins: bool, manner: Manner) -> Result<Opened, StoreError> {
        if self.is_lines {
            let (store, aside) = self.open_lines(patience)?;
            return Ok(Opened { store: boxed(store), aside, instead: None });
        }
        match heal::open(&self.data, patience) {
            Ok((store, aside)) => Ok(Opened { store: boxed(manner(store)), aside, instead: None }),
            Err(error) if has_no_database(&error) && (begins || JsonlStore::is_in(&self.folder)) => {
                let Ok((store, aside)) = self.open_lines(patience) else { return Err(error) };
                Ok(Opened { store: boxed(store), aside, instead: Some(self.told_of(&error)) })
            }
            Err(error) => Err(error),
        }
    }

    fn open_lines(&self, patience: Patience) -> Result<(JsonlStore, Option<PathBuf>), StoreError> {
        match JsonlStore::open(&self.folder, patience) {
            Err(error) if error.is_damage() => {
                let aside = JsonlStore::move_damaged_aside(&self.folder)?;
                JsonlStore::open(&self.folder, patience).map(|store| (store, aside))
            }
            opened => opened.map(|store| (store, None)),
        }
    }

    fn told_of(&self, error: &StoreError) -> String {
        format!(
            "{error}; until then, the archive is in JSON Lines in {}, and is merged back by `ctxbridge archive optimize`",
            self.folder.display()
        )
    }
}

/// Whether there can be no database, rather than one that is busy, damaged, full or of a newer version.
pub(super) fn has_no_database(error: &StoreError) -> bool {
    matches!(error, StoreError::Sqlite { .. } | StoreError::Disk { .. } | StoreError::File { .. })
}

fn boxed(store: impl Store + 'static) -> Box<dyn Store> {
    Box::new(store)
}
