/*!
The archive that is meant: one SQLite file, or a folder of JSON Lines, which also stands in where SQLite's cannot be opened.

What is archived in its stead is taken into SQLite's as soon as that can be opened again (`super::merge`).
*/

use std::fs;
use std::path::{Path, PathBuf};

use super::heal;
use super::store::jsonl::JsonlStore;
use super::store::sqlite::{Patience, SqliteStore};
use super::store::{Store, StoreError};
use crate::config::{self, StoreKind};

/// Where the archive of this machine is, and what it is kept in.
#[derive(Clone, Debug)]
pub struct Archive {
    data: PathBuf,
    folder: PathBuf,
    kind: StoreKind,
    is_leaving_cold: bool,
}

/// An open archive, and what became of it on the way.
pub struct Opened {
    /// The archive.
    pub store: Box<dyn Store>,
    /// Where a damaged one is now.
    pub aside: Option<PathBuf>,
    /// Why it is not the one that is meant.
    pub instead: Option<Instead>,
}

/// JSON Lines in the place of an SQLite file that cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instead {
    /// Where they are.
    pub folder: PathBuf,
    /// Why, as people are told.
    pub cause: String,
}

impl std::fmt::Display for Instead {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { folder, cause } = self;
        write!(
            f,
            "{cause}. Until then the archive is in {}, in JSON Lines, and taken over when the file can be opened again",
            folder.display()
        )
    }
}

impl Opened {
    /// What the user should know of it.
    pub fn notes(&self) -> Vec<String> {
        let aside = self.aside.as_deref().map(heal::told);
        aside.into_iter().chain(self.instead.as_ref().map(ToString::to_string)).collect()
    }
}

/// Whether another kind of archive can do what SQLite's cannot: the file or its folder is no place for one. What is only busy, full, damaged, or
/// of another version has a better answer.
fn is_no_place(error: &StoreError) -> bool {
    matches!(error, StoreError::Sqlite { .. } | StoreError::Disk { .. } | StoreError::File { .. })
}

impl Archive {
    /// The archive beside our other data, as it is configured.
    pub fn of(data: &Path, config: &config::Archive) -> Self {
        let folder = config.jsonl_folder.clone().unwrap_or_else(|| data.join(JsonlStore::FOLDER));
        Self { data: data.to_owned(), folder, kind: config.store, is_leaving_cold: false }
    }

    /// The same, as it is where nothing is configured.
    pub fn in_dir(data: &Path) -> Self {
        Self::of(data, &config::Archive::default())
    }

    /// The same, where what is in cold storage is not waited for.
    pub fn leaving_cold(self) -> Self {
        Self { is_leaving_cold: true, ..self }
    }

    /// The data folder.
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// The folder of JSON Lines, whether it is there or not.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether it is meant to be an SQLite file. That of a team's server is one as well, from which it is sent.
    pub fn is_sqlite(&self) -> bool {
        self.kind != StoreKind::Jsonl
    }

    /// Whether JSON Lines are there that stood in for SQLite and are not taken over yet.
    pub fn is_to_be_merged(&self) -> bool {
        self.is_sqlite() && JsonlStore::is_in(&self.folder)
    }

    /// Opens or begins it.
    ///
    /// # Errors
    /// When it cannot be opened, and nothing can stand in for it; or a damaged one cannot be moved aside.
    pub fn open(&self, patience: Patience) -> Result<Opened, StoreError> {
        self.open_or(patience, true)
    }

    /// The same for one who only reads: nothing is begun to stand in for it.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_to_read(&self, patience: Patience) -> Result<Opened, StoreError> {
        self.open_or(patience, false)
    }

    fn open_or(&self, patience: Patience, may_begin: bool) -> Result<Opened, StoreError> {
        if !self.is_sqlite() {
            let (store, aside) = self.open_lines(patience)?;
            return Ok(Opened { store: Box::new(store), aside, instead: None });
        }
        match heal::open(&self.data, patience) {
            Ok((store, aside)) => {
                let store = if self.is_leaving_cold { store.leaving_cold() } else { store };
                Ok(Opened { store: Box::new(store), aside, instead: None })
            }
            Err(error) if is_no_place(&error) && (may_begin || JsonlStore::is_in(&self.folder)) => {
                // Where there is no place for that, either, the first error says more.
                let Ok((store, aside)) = self.open_lines(patience) else { return Err(error) };
                let instead = Instead { folder: self.folder.clone(), cause: error.to_string() };
                Ok(Opened { store: Box::new(store), aside, instead: Some(instead) })
            }
            Err(error) => Err(error),
        }
    }

    /// Opens it where something was archived; nothing is begun.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn existing(&self, patience: Patience) -> Result<Option<Opened>, StoreError> {
        let is_there = JsonlStore::is_in(&self.folder) || self.is_sqlite() && self.data.join(SqliteStore::FILE).exists();
        if is_there { self.open_to_read(patience).map(Some) } else { Ok(None) }
    }

    /// Opens it to look at, where there is one: nothing is written, nor moved aside.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn look(&self, patience: Patience) -> Result<Option<Box<dyn Store>>, StoreError> {
        let lines = || Ok(JsonlStore::open_read_only(&self.folder)?.map(|store| Box::new(store) as Box<dyn Store>));
        if !self.is_sqlite() {
            return lines();
        }
        let read = || -> Result<Option<Box<dyn Store>>, StoreError> {
            if !self.data.join(SqliteStore::FILE).exists() {
                return Ok(None);
            }
            let presence = heal::presence(&self.data, patience)?;
            Ok(SqliteStore::open_read_only(&self.data)?.map(|store| Box::new(store.holding(presence)) as Box<dyn Store>))
        };
        match read() {
            Err(error) if is_no_place(&error) => lines().ok().flatten().map_or(Err(error), |store| Ok(Some(store))),
            // It may be a link that leads nowhere.
            Ok(None) => lines(),
            found => found,
        }
    }

    /// After an error of damage: moves the archive aside, if it is damaged indeed and nobody else has done so; says where to. The caller
    /// has closed it.
    ///
    /// # Errors
    /// When it cannot be moved.
    pub fn move_aside(&self) -> Result<Option<PathBuf>, StoreError> {
        if self.is_sqlite() { heal::move_aside(&self.data) } else { self.move_lines_aside() }
    }

    /// The folder of JSON Lines, a new one where it is damaged.
    fn open_lines(&self, patience: Patience) -> Result<(JsonlStore, Option<PathBuf>), StoreError> {
        match JsonlStore::open(&self.folder, patience) {
            Err(error) if error.is_damage() => {
                let aside = self.move_lines_aside()?;
                JsonlStore::open(&self.folder, patience).map(|store| (store, aside))
            }
            opened => opened.map(|store| (store, None)),
        }
    }

    fn move_lines_aside(&self) -> Result<Option<PathBuf>, StoreError> {
        match JsonlStore::open(&self.folder, Patience::Patient) {
            Ok(_) => return Ok(None),
            Err(error) if !error.is_damage() => return Err(error),
            Err(_) => {}
        }
        let aside = beside(&self.folder, "damaged");
        fs::rename(&self.folder, &aside).map_err(|cause| StoreError::Aside { path: self.folder.clone(), cause })?;
        Ok(Some(aside))
    }
}

/// A name that nothing has yet.
pub(in crate::archive) fn beside(folder: &Path, word: &str) -> PathBuf {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let of = |number: u32| folder.with_file_name(format!("{name}.{word}-{number}"));
    (1..u32::MAX).map(of).find(|path| fs::symlink_metadata(path).is_err()).unwrap_or_else(|| of(u32::MAX))
}
