/*!
What the server has open, and what it keeps between calls.

The archive is opened anew by every call, as hooks do it: so each sees the newest state, also of one that was healed meanwhile, and
nobody who wants to heal it waits for a server that idles. The index, its vectors and the model are what takes long to load; they
stay, until another process has written to the index.
*/

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::archive::embed::{self, Embedder};
use crate::archive::heal;
use crate::archive::search::{Index, index, refresh};
use crate::archive::store::sqlite::{Patience, SqliteStore};

use super::error::Failure;

/// Entries that a call takes into the index at most, so that nobody waits for a whole archive.
const REFRESHED: usize = 500;

/// The archive, the index and the model.
pub struct Library {
    data: PathBuf,
    folder: PathBuf,
    index: Option<(Index, Stamp)>,
    /// Asked for once.
    embedder: Option<Option<Box<dyn Embedder>>>,
}

/// Length and time of change of the index and of its log.
type Stamp = [Option<(u64, SystemTime)>; 2];

/// An open archive, and what the caller should know about it.
pub(super) struct Opened {
    /// The archive.
    pub store: SqliteStore,
    /// Such as that it was damaged.
    pub notes: Vec<String>,
}

impl Library {
    /// Of a data folder, for a client that works in `folder`.
    pub fn new(data: PathBuf, folder: PathBuf) -> Self {
        Self { data, folder, index: None, embedder: None }
    }

    /// The folder that the client works in.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The archive; none where nothing was archived.
    pub(super) fn open(&self) -> Result<Option<Opened>, Failure> {
        // Opening would make one.
        if !self.data.join(SqliteStore::FILE).exists() {
            return Ok(None);
        }
        let (store, aside) = heal::open(&self.data, Patience::Patient)?;
        Ok(Some(Opened { store, notes: aside.iter().map(|aside| heal::told(aside)).collect() }))
    }

    /// Hands over an index that is as new as the archive, or nearly so, and the model if `with_model`.
    pub(super) fn with_index<T>(
        &mut self,
        opened: &mut Opened,
        with_model: bool,
        work: impl FnOnce(&mut Opened, &mut Index, Option<&mut (dyn Embedder + 'static)>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        // Taken out, so that one that was in use when something went wrong is not used again.
        let mut index = match self.index.take().filter(|(_, stamp)| *stamp == self.stamp()) {
            Some((mut index, _)) => {
                index.attach(&self.data)?;
                index
            }
            None => Index::open(&self.data)?,
        };
        match refresh(&mut opened.store, &mut index, REFRESHED, &mut |_| {}) {
            Ok(refreshed) if refreshed.is_complete => {}
            Ok(_) => opened.notes.push(
                "older turns are not in the search index yet; each search takes in some, `ctxbridge archive optimize` all"
                    .to_owned(),
            ),
            // What it has may be enough.
            Err(error) => opened.notes.push(format!("the search index is not up to date: {error}")),
        }
        let model = if with_model { self.embedder.get_or_insert_with(embed::installed).as_deref_mut() } else { None };
        let result = work(opened, &mut index, model)?;
        index.detach()?;
        self.index = Some((index, self.stamp()));
        Ok(result)
    }

    /// Whether there is a model, which is loaded then.
    pub(super) fn has_model(&mut self) -> bool {
        self.embedder.get_or_insert_with(embed::installed).is_some()
    }

    fn stamp(&self) -> Stamp {
        let stamp = |name: String| {
            let metadata = fs::metadata(self.data.join(name)).ok()?;
            Some((metadata.len(), metadata.modified().ok()?))
        };
        [stamp(index::FILE.to_owned()), stamp(format!("{}-wal", index::FILE))]
    }
}
