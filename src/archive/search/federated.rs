//! A search that asks a second archive as well, such as a team's server.

use std::sync::mpsc;

use super::{Finder, Found, Indexing, Request, SearchError};
use crate::store::Store;

/// What is done with the store of a [`RemoteArchive`].
pub type Visit = Box<dyn FnOnce(&mut dyn Store) -> Result<(), SearchError> + Send>;

/// An archive elsewhere that a search asks at the same time as the one here. It may be slow, or gone: what there is here is found all the same.
pub trait RemoteArchive: Send + Sync {
    /// Searches the archive here as [`Finder::search`] does, and that one. Where it cannot be asked, a note says why.
    ///
    /// # Errors
    /// When the archive or the index here cannot be read.
    fn search(
        &self,
        finder: &mut Finder,
        store: &mut dyn Store,
        request: &Request,
        most: usize,
        progress: &mut dyn FnMut(Indexing),
    ) -> Result<Found, SearchError>;

    /// Looks into its store.
    ///
    /// # Errors
    /// When it cannot be asked, in words.
    fn visit(&self, what: Visit) -> Result<(), String>;
}

impl dyn RemoteArchive + '_ {
    /// Looks something up in its store; nothing where it was not found.
    ///
    /// # Errors
    /// When it cannot be asked, in words.
    pub fn look_up<T: Send + 'static>(
        &self,
        what: impl FnOnce(&mut dyn Store) -> Result<Option<T>, SearchError> + Send + 'static,
    ) -> Result<Option<T>, String> {
        let (sender, receiver) = mpsc::channel();
        self.visit(Box::new(move |store| {
            sender.send(what(store)?).ok();
            Ok(())
        }))?;
        Ok(receiver.try_recv().ok().flatten())
    }
}
