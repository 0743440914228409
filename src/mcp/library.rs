/*!
What the server has open, and what it keeps between calls.

The archive is opened anew by every call, as hooks do it: so each sees the newest state, also of one that was healed meanwhile, and
nobody who wants to heal it waits for a server that idles. The index, its vectors and the model are what takes long to load; they
stay, until another process has written to the index.
*/

use std::path::{Path, PathBuf};

use crate::archive::heal;
use crate::archive::search::{Finder, Found, Request, Team};
use crate::archive::store::Store;
use crate::archive::store::sqlite::{Patience, SqliteStore};

use super::error::Failure;

/// Entries that a call takes into the index at most, so that nobody waits for a whole archive.
const REFRESHED: usize = 500;

/// The archive, the index and the model.
pub struct Library {
    data: PathBuf,
    folder: PathBuf,
    finder: Finder,
    team: Option<Team>,
}

/// An open archive, and what the caller should know about it.
pub(super) struct Opened {
    /// The archive.
    pub store: Box<dyn Store>,
    /// Such as that it was damaged.
    pub notes: Vec<String>,
}

impl Library {
    /// Of a data folder, for a client that works in `folder`.
    pub fn new(data: PathBuf, folder: PathBuf) -> Self {
        Self { finder: Finder::new(data.clone()), data, folder, team: None }
    }

    /// The same, which asks a team's server as well.
    pub fn with_team(self, team: Option<Team>) -> Self {
        Self { team, ..self }
    }

    /// The team's server, for what is not here.
    pub(super) fn team(&self) -> Option<&Team> {
        self.team.as_ref()
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
        Ok(Some(Opened { store: Box::new(store), notes: aside.iter().map(|aside| heal::told(aside)).collect() }))
    }

    /// Searches, with an index that is as new as the archive, or nearly so.
    pub(super) fn search(&mut self, opened: &mut Opened, request: &Request) -> Result<Found, Failure> {
        Ok(self.finder.search_both(&mut *opened.store, self.team.as_ref(), request, REFRESHED, &mut |_| {})?)
    }
}
