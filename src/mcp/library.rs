/*!
The open archive, index and model of the server, and their state between calls.

Every call opens the archive again, as hooks do. So each call sees the newest state, also of an archive that was recovered
meanwhile. And a recovery does not wait for an idle server. The index, its vectors and the model take long to load. They stay
loaded until another process writes to the index.
*/

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ctxbridge_archive::open::Location;
use ctxbridge_archive::search::{RemoteArchive, SearchRequest, SearchResults, Searcher};
use ctxbridge_archive::store::Store;
use ctxbridge_archive::store::sqlite::LockPolicy;

use super::error::ToolError;

/// Maximum number of entries that a call adds to the index, so that nobody waits for a whole archive.
const MAX_ENTRIES_INDEXED_PER_CALL: usize = 500;

/// The archive, the index and the model.
pub struct Library {
    location: Location,
    folder: PathBuf,
    finder: Searcher,
    remote: Option<Arc<dyn RemoteArchive>>,
}

/// An open archive, with notes for the caller.
pub(super) struct LibraryArchive {
    /// The archive.
    pub store: Box<dyn Store>,
    /// Notes, such as that it was damaged.
    pub notes: Vec<String>,
}

impl Library {
    /// Uses the database of a data folder, for a client that works in `folder`.
    pub fn new(data: PathBuf, folder: PathBuf) -> Self {
        Self::at_location(Location::database(&data), folder)
    }

    /// Uses an archive at any location on this machine.
    pub fn at_location(location: Location, folder: PathBuf) -> Self {
        Self { finder: Searcher::new(location.data().to_owned()), location, folder, remote: None }
    }

    /// Adds a team's server, which is asked as well.
    pub fn with_remote(self, remote: Option<Arc<dyn RemoteArchive>>) -> Self {
        Self { remote, ..self }
    }

    /// The team's server, for content that is not on this machine.
    pub(super) fn remote(&self) -> Option<&dyn RemoteArchive> {
        self.remote.as_deref()
    }

    /// The folder that the client works in.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Opens the archive; none if nothing was archived.
    pub(super) fn open(&self) -> Result<Option<LibraryArchive>, ToolError> {
        // Opening would make one.
        if !self.location.is_begun() {
            return Ok(None);
        }
        let opened = self.location.open_for_reading(LockPolicy::Background)?;
        Ok(Some(LibraryArchive { notes: opened.notes(), store: opened.store }))
    }

    /// Searches, after bringing the index up to date as far as its limit allows.
    pub(super) fn search(&mut self, opened: &mut LibraryArchive, request: &SearchRequest) -> Result<SearchResults, ToolError> {
        let (finder, store) = (&mut self.finder, &mut *opened.store);
        Ok(match &self.remote {
            Some(remote) => remote.search(finder, store, request, MAX_ENTRIES_INDEXED_PER_CALL, &mut |_| {}),
            None => finder.search(store, request, MAX_ENTRIES_INDEXED_PER_CALL, &mut |_| {}),
        }?)
    }
}
