/*!
What the server has open, and what it keeps between calls.

The archive is opened anew by every call, as hooks do it: so each sees the newest state, also of one that was healed meanwhile, and
nobody who wants to heal it waits for a server that idles. The index, its vectors and the model are what takes long to load; they
stay, until another process has written to the index.
*/

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ctxbridge_archive::open::Location;
use ctxbridge_archive::search::{Finder, Found, RemoteArchive, Request};
use ctxbridge_archive::store::Store;
use ctxbridge_archive::store::sqlite::Patience;

use super::error::Failure;

/// Entries that a call takes into the index at most, so that nobody waits for a whole archive.
const REFRESHED: usize = 500;

/// The archive, the index and the model.
pub struct Library {
    location: Location,
    folder: PathBuf,
    finder: Finder,
    remote: Option<Arc<dyn RemoteArchive>>,
}

/// An open archive, and what the caller should know about it.
pub(super) struct Opened {
    /// The archive.
    pub store: Box<dyn Store>,
    /// Such as that it was damaged.
    pub notes: Vec<String>,
}

impl Library {
    /// With the database of a data folder, for a client that works in `folder`.
    pub fn new(data: PathBuf, folder: PathBuf) -> Self {
        Self::of(Location::database(&data), folder)
    }

    /// With an archive that is anywhere on this machine.
    pub fn of(location: Location, folder: PathBuf) -> Self {
        Self { finder: Finder::new(location.data().to_owned()), location, folder, remote: None }
    }

    /// The same, which asks a team's server as well.
    pub fn with_remote(self, remote: Option<Arc<dyn RemoteArchive>>) -> Self {
        Self { remote, ..self }
    }

    /// The team's server, for what is not here.
    pub(super) fn remote(&self) -> Option<&dyn RemoteArchive> {
        self.remote.as_deref()
    }

    /// The folder that the client works in.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The archive; none where nothing was archived.
    pub(super) fn open(&self) -> Result<Option<Opened>, Failure> {
        // Opening would make one.
        if !self.location.is_begun() {
            return Ok(None);
        }
        let opened = self.location.to_read(Patience::Patient)?;
        Ok(Some(Opened { notes: opened.notes(), store: opened.store }))
    }

    /// Searches, with an index that is as new as the archive, or nearly so.
    pub(super) fn search(&mut self, opened: &mut Opened, request: &Request) -> Result<Found, Failure> {
        let (finder, store) = (&mut self.finder, &mut *opened.store);
        Ok(match &self.remote {
            Some(remote) => remote.search(finder, store, request, REFRESHED, &mut |_| {}),
            None => finder.search(store, request, REFRESHED, &mut |_| {}),
        }?)
    }
}
