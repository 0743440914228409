//! What commands and servers search with: an index that is up to date, mended where it is broken, and the model.

use std::path::PathBuf;

use super::remote::Remote;
use super::scan::Scan;
use super::{Found, Index, Request, SearchError, embed, index, refresh, search};
use crate::embed::Model;
use crate::store::Store;
use ctxbridge_common::files::{self, Stamp};
use ctxbridge_config::StoreKind;

/// How long the work before a search is.
#[derive(Debug)]
pub enum Indexing {
    /// So many entries are in the index now.
    Words(usize),
    /// So many of so many entries have vectors now.
    Vectors(usize, u64),
    /// What was written is put in order.
    Tidying,
}

/// What was done for the index, or would be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CaughtUp {
    /// Entries that were taken in.
    pub entries: usize,
    /// Entries that got vectors.
    pub embedded: usize,
    /// Entries that have none.
    pub not_embedded: usize,
    /// Whether there is a model.
    pub has_model: bool,
    /// Why the model that is there cannot be used.
    pub trouble: Option<String>,
}

/// Searches the archive of a data folder. Index, vectors and model are what takes long to load: they stay until another process has
/// written to the index.
pub struct Finder {
    data: PathBuf,
    model: Model,
    index: Option<(Index, [Stamp; 2])>,
}

impl Finder {
    /// Nothing is opened yet.
    pub fn new(data: PathBuf) -> Self {
        Self { model: Model::installed(&data), data, index: None }
    }

    /// Searches. Before that, at most so many entries that the index does not have yet are taken in; `progress` hears of them.
    ///
    /// # Errors
    /// When the archive or the index cannot be read.
    pub fn search(
        &mut self,
        store: &mut dyn Store,
        request: &Request,
        most: usize,
        progress: &mut dyn FnMut(Indexing),
    ) -> Result<Found, SearchError> {
        match store.kind() {
            StoreKind::Sqlite => self.search_index(store, request, most, progress),
            StoreKind::Jsonl => search(store, &mut Scan::default(), &mut self.model, request),
            StoreKind::Postgres => search(store, &mut Remote::default(), &mut self.model, request),
        }
    }

    fn search_index(
        &mut self,
        store: &mut dyn Store,
        request: &Request,
        most: usize,
        progress: &mut dyn FnMut(Indexing),
    ) -> Result<Found, SearchError> {
        self.with_index(&mut |index, model, is_new| {
            let mut notes = Vec::new();
            match refresh(store, index, most, &mut |done| progress(Indexing::Words(done))) {
                Ok(refreshed) if refreshed.is_complete => {}
                Ok(_) => notes.push(
                    "older turns are not in the search index yet; each search takes in some, `ctxbridge archive optimize` all"
                        .to_owned(),
                ),
                // What it has may be enough.
                Err(SearchError::Busy { .. }) => {
                    notes.push("another ctxbridge is writing the search index, so the newest turns may not be found".to_owned())
                }
                Err(error) => match error.why_it_cannot_be_written() {
                    Some(why) => {
                        notes.push(format!("the search index cannot be written ({why}), so the newest turns may not be found"));
                    }
                    None => return Err(error),
                },
            }
            if index.take_replaced() || is_new {
                notes.push("the search index was damaged, or of another version, and has been made anew".to_owned());
            }
            let mut found = search(store, index, model, request)?;
            found.notes.splice(..0, notes);
            Ok(found)
        })
    }

    /// Brings the index up to date, and makes vectors of at most so many entries; of no more than that many, nothing else is done that takes
    /// long.
    ///
    /// # Errors
    /// When the archive or the index cannot be read or written.
    pub fn catch_up(
        &mut self,
        store: &mut dyn Store,
        most_vectors: usize,
        progress: &mut dyn FnMut(Indexing),
    ) -> Result<CaughtUp, SearchError> {
        let thoroughly = most_vectors == usize::MAX;
        self.with_index(&mut |index, model, _| {
            if thoroughly {
                index.look_through()?;
            }
            let refreshed = refresh(store, index, usize::MAX, &mut |done| progress(Indexing::Words(done)))?;
            let mut done = CaughtUp { entries: refreshed.entries, ..CaughtUp::default() };
            if thoroughly {
                model.use_threads(std::thread::available_parallelism().map_or(1, usize::from));
            }
            if model.is_there() {
                let (with, all) = index.coverage(model.id())?;
                match model.get() {
                    Ok(embedder) => {
                        done.has_model = true;
                        let mut step = |entries| progress(Indexing::Vectors(entries, all.saturating_sub(with)));
                        done.embedded = embed(store, index, embedder, most_vectors, &mut step)?.entries;
                        index.arrange(embedder.id(), embedder.dimensions())?;
                    }
                    Err(error) => done.trouble = Some(error.to_string()),
                }
            }
            if thoroughly || done.entries > 0 {
                progress(Indexing::Tidying);
                index.settle(thoroughly)?;
            }
            let (with, all) = index.coverage(model.id())?;
            Ok(CaughtUp { not_embedded: (all - with) as usize, ..done })
        })
    }

    /// What [`Self::catch_up`] would do without a limit. Nothing is written.
    ///
    /// # Errors
    /// When the archive cannot be read.
    pub fn behind(&self, store: &mut dyn Store) -> Result<CaughtUp, SearchError> {
        let (entries, without) = match Index::existing(&self.data, index::PATIENCE)? {
            Some(mut index) => {
                let entries = index.count_missing()?;
                let (with, all) = index.coverage(self.model.id())?;
                (entries, all - with + entries)
            }
            None => {
                let all = store.totals()?.entries;
                (all, all)
            }
        };
        let has_model = self.model.is_there();
        let (embedded, not_embedded) = if has_model { (without, 0) } else { (0, without) };
        Ok(CaughtUp {
            entries: entries as usize,
            embedded: embedded as usize,
            not_embedded: not_embedded as usize,
            has_model,
            trouble: None,
        })
    }

    /// Works with the index; once more with a new one, if it turns out to be broken.
    fn with_index<T>(
        &mut self,
        work: &mut dyn FnMut(&mut Index, &mut Model, bool) -> Result<T, SearchError>,
    ) -> Result<T, SearchError> {
        // Taken out, so that one that was in use when something went wrong is not used again.
        let mut index = match self.index.take().filter(|(_, stamp)| *stamp == self.stamp()) {
            Some((mut index, _)) => {
                index.attach(&self.data)?;
                index
            }
            None => Index::open(&self.data)?,
        };
        let done = match work(&mut index, &mut self.model, false) {
            Ok(done) => done,
            Err(error) => match index.anew(&self.data, &error)? {
                Some(new) => {
                    index = new;
                    work(&mut index, &mut self.model, true)?
                }
                None => return Err(error),
            },
        };
        index.detach()?;
        self.index = Some((index, self.stamp()));
        Ok(done)
    }

    /// Of the index and of its log.
    fn stamp(&self) -> [Stamp; 2] {
        ["", "-wal"].map(|suffix| files::stamp(&self.data.join(format!("{}{suffix}", index::FILE))))
    }
}
