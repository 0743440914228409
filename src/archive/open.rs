/*!
Opens the archive chosen by the settings, or its fallback.

Hooks and other writers use an archive of this machine: the database, or a folder of JSON Lines if that is configured. If a database
cannot be opened at all, new content goes into the folder, until [`super::merge`] merges it. No server is contacted here: commands
that only read do that themselves.
*/

use std::path::{Path, PathBuf};

use super::recovery;
use super::store::jsonl::JsonlStore;
use super::store::sqlite::{LockPolicy, SqliteStore};
use super::store::{Store, StoreError};
use ctxbridge_config::{self as config, PrivateText, StoreKind};

/// Location of this machine's archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    data: PathBuf,
    folder: PathBuf,
    is_lines: bool,
    keeps_private: bool,
}

/// An open archive, with notes for the user.
pub struct OpenedArchive {
    /// The archive.
    pub store: Box<dyn Store>,
    /// New path of a damaged archive that was there before.
    pub quarantined: Option<PathBuf>,
    /// Reason for JSON Lines although a database is configured.
    pub fallback_reason: Option<String>,
}

impl OpenedArchive {
    /// Notes for the user.
    pub fn notes(&self) -> Vec<String> {
        self.quarantined.iter().map(|aside| recovery::quarantine_message(aside)).chain(self.fallback_reason.clone()).collect()
    }
}

/// Final adjustment of the opened database.
type StoreAdjustment = fn(SqliteStore) -> SqliteStore;

impl Location {
    /// Location for a data folder, according to the settings.
    pub fn of(data: &Path, settings: &config::ArchiveSettings) -> Self {
        let keeps_private = settings.private == PrivateText::Keep;
        let folder = settings.jsonl_folder.clone().unwrap_or_else(|| data.join(JsonlStore::FOLDER));
        Self { data: data.to_owned(), folder, is_lines: settings.store == StoreKind::Jsonl, keeps_private }
    }

    /// The database of a data folder.
    pub fn database(data: &Path) -> Self {
        Self { data: data.to_owned(), folder: data.join(JsonlStore::FOLDER), is_lines: false, keeps_private: false }
    }

    /// The data folder.
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// The folder of JSON Lines, which need not exist.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// `true` if what the user marks as private is archived.
    pub fn keeps_private(&self) -> bool {
        self.keeps_private
    }

    /// Configured kind of store.
    pub fn kind(&self) -> StoreKind {
        if self.is_lines { StoreKind::Jsonl } else { StoreKind::Sqlite }
    }

    /// `true` if an archive exists: opening would create one.
    pub fn is_begun(&self) -> bool {
        JsonlStore::is_in(&self.folder) || !self.is_lines && self.data.join(SqliteStore::FILE).exists()
    }

    /// The folder of JSON Lines, if it is to be merged into the database.
    pub fn folder_to_merge(&self) -> Option<&Path> {
        (!self.is_lines && JsonlStore::is_in(&self.folder)).then_some(&self.folder)
    }

    /// Folders of JSON Lines that were merged and are no longer needed.
    pub fn merged(&self) -> Vec<PathBuf> {
        JsonlStore::merged_beside(&self.folder)
    }

    /// Opens the archive for writing: creates one if it is missing or damaged.
    ///
    /// # Errors
    /// If neither the database nor the folder can be opened; the error is then that of the configured one.
    pub fn open_for_writing(&self, policy: LockPolicy) -> Result<OpenedArchive, StoreError> {
        self.open(policy, true, |store| store)
    }

    /// Like [`Self::open_for_writing`], for hooks. They leave cold storage alone: a mounted bucket may be slow, and somebody waits.
    ///
    /// # Errors
    /// As [`Self::open_for_writing`].
    pub fn open_for_hook(&self, policy: LockPolicy) -> Result<OpenedArchive, StoreError> {
        self.open(policy, true, SqliteStore::leaving_cold)
    }

    /// Like [`Self::open_for_writing`], for reading: a folder that nobody has written to is not used.
    ///
    /// # Errors
    /// As [`Self::open_for_writing`].
    pub fn open_for_reading(&self, policy: LockPolicy) -> Result<OpenedArchive, StoreError> {
        self.open(policy, false, |store| store)
    }

    /// Opens the archive for inspection, if there is one: nothing is written or repaired.
    ///
    /// # Errors
    /// As [`Self::open_for_writing`]; also when it is damaged.
    pub fn open_without_repair(&self, policy: LockPolicy) -> Result<Option<Box<dyn Store>>, StoreError> {
        let lines = || Ok(JsonlStore::open_read_only(&self.folder)?.map(boxed));
        if self.is_lines {
            return lines();
        }
        let database = || {
            // Opening would make one.
            if !self.data.join(SqliteStore::FILE).exists() {
                return Ok(None);
            }
            let presence = recovery::lock_in_use(&self.data, policy)?;
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

    /// Moves aside the part that an error reports as damaged, if nobody else has; returns its new path. The caller has closed it.
    ///
    /// # Errors
    /// If it cannot be moved, or others do not stop using it.
    pub fn quarantine_damaged(&self, error: &StoreError) -> Result<Option<PathBuf>, StoreError> {
        match error {
            StoreError::Damaged { path, .. } if *path == self.folder => JsonlStore::move_damaged_aside(&self.folder),
            _ if self.is_lines => Ok(None),
            _ => recovery::mend_if_damaged(&self.data),
        }
    }

    fn open(&self, policy: LockPolicy, begins: bool, manner: StoreAdjustment) -> Result<OpenedArchive, StoreError> {
        if self.is_lines {
            let (store, aside) = self.open_lines(policy)?;
            return Ok(OpenedArchive { store: boxed(store), quarantined: aside, fallback_reason: None });
        }
        match recovery::open_or_recover(&self.data, policy) {
            Ok((store, aside)) => Ok(OpenedArchive {
                store: boxed(manner(store.keeping_private(self.keeps_private))),
                quarantined: aside,
                fallback_reason: None,
            }),
            Err(error) if has_no_database(&error) && (begins || JsonlStore::is_in(&self.folder)) => {
                let Ok((store, aside)) = self.open_lines(policy) else { return Err(error) };
                Ok(OpenedArchive { store: boxed(store), quarantined: aside, fallback_reason: Some(self.told_of(&error)) })
            }
            Err(error) => Err(error),
        }
    }

    fn open_lines(&self, policy: LockPolicy) -> Result<(JsonlStore, Option<PathBuf>), StoreError> {
        let open = || {
            let opened = JsonlStore::open(&self.folder, policy);
            opened.map(|store| store.noting_repairs(&self.data).keeping_private(self.keeps_private))
        };
        match open() {
            Err(error) if error.is_damage() => {
                let aside = JsonlStore::move_damaged_aside(&self.folder)?;
                open().map(|store| (store, aside))
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

/// `true` if no database is possible, rather than one that is busy, damaged, full or of a newer version.
pub(super) fn has_no_database(error: &StoreError) -> bool {
    matches!(error, StoreError::Sqlite { .. } | StoreError::Disk { .. } | StoreError::File { .. })
}

fn boxed(store: impl Store + 'static) -> Box<dyn Store> {
    Box::new(store)
}
