//! A search that asks a second archive as well, such as a team's server.

use std::sync::mpsc;

use super::{IndexingProgress, SearchError, SearchRequest, SearchResults, Searcher};
use crate::store::Store;

/// Work with the store of a [`RemoteArchive`].
pub type Visit = Box<dyn FnOnce(&mut dyn Store) -> Result<(), SearchError> + Send>;

/// An archive elsewhere that a search asks at the same time as the local one. It may be slow or unreachable: local results are
/// found all the same.
pub trait RemoteArchive: Send + Sync {
    /// Searches the local archive as [`Searcher::search`] does, and the remote one. If that cannot be asked, a note says why.
    ///
    /// # Errors
    /// If the local archive or index cannot be read.
    fn search(
        &self,
        finder: &mut Searcher,
        store: &mut dyn Store,
        request: &SearchRequest,
        most: usize,
        progress: &mut dyn FnMut(IndexingProgress),
    ) -> Result<SearchResults, SearchError>;

    /// Runs work on its store.
    ///
    /// # Errors
    /// A message if it cannot be asked.
    fn visit(&self, what: Visit) -> Result<(), String>;
}

impl dyn RemoteArchive + '_ {
    /// Looks something up in its store; `None` if it was not found.
    ///
    /// # Errors
    /// A message if it cannot be asked.
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
