//! The search of commands and servers: it keeps the index up to date, repairs it, and holds the model.
//!
//! A broken index is made again from the archive. While another process writes the index, a search uses what is there.

use std::fmt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::remote::RemoteCandidates;
use super::scan::FullScan;
use super::{Mode, SearchError, SearchIndex, SearchRequest, SearchResults, embed_missing, index, refresh, search};
use crate::store::{Store, StoreReader};
use ctxbridge_common::files::{self, FileStamp};
use ctxbridge_config::StoreKind;
use ctxbridge_vectors::embed::EmbeddingModel;

/// Progress of the work before a search.
#[derive(Debug)]
pub enum IndexingProgress {
    /// Number of entries that were indexed so far, and number of all that will be.
    Words(usize, u64),
    /// Number of entries that have vectors now, and number of all that get them.
    Vectors(usize, u64),
    /// The index is optimized.
    Optimizing,
}

impl fmt::Display for IndexingProgress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Words(done, total) => write!(formatter, "indexing, {done} of {total} entries"),
            Self::Vectors(done, missing) => write!(formatter, "making vectors, {done} of {missing} entries"),
            Self::Optimizing => formatter.write_str("tidying the index"),
        }
    }
}

/// Report of the work that was done for the index, or would be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexingReport {
    /// Entries that were indexed.
    pub entries: usize,
    /// Entries that got vectors.
    pub embedded: usize,
    /// Entries that have no vectors.
    pub not_embedded: usize,
    /// The error, if the model that is there cannot be used.
    pub model_error: Option<String>,
}

/// Time for vectors of entries that were indexed before, in a search: a part of what one takes. Upkeep makes the rest.
const SEARCH_EMBEDDING: Duration = Duration::from_millis(20);
/// Number of new vectors from which on a file of the nearest is worthwhile at once.
const MANY_EMBEDDINGS: usize = 1_000;

/// The model, which may not be installed, and the static embedding, which the index has vectors of until it has the model's.
struct Models {
    installed: EmbeddingModel,
    built_in: EmbeddingModel,
}

impl Models {
    /// The one for queries. What a model has made is kept where its files are away for a while.
    fn for_search(&mut self, index: &SearchIndex) -> Result<&mut EmbeddingModel, SearchError> {
        Ok(if index.has_vectors_of(self.installed.id())? { &mut self.installed } else { &mut self.built_in })
    }

    /// The one that makes vectors where nobody waits for them.
    fn for_upkeep(&mut self, index: &SearchIndex) -> Result<&mut EmbeddingModel, SearchError> {
        if self.installed.is_present() { Ok(&mut self.installed) } else { self.for_search(index) }
    }
}

/// Searches the archive of a data folder. Index, vectors and model take long to load, so they stay open until another process has
/// written to the index; the model from the second text on.
pub struct Searcher {
    data: PathBuf,
    models: Models,
    index: Option<(SearchIndex, [FileStamp; 2])>,
}

impl Searcher {
    /// Creates a searcher; nothing is opened yet.
    pub fn new(data: PathBuf) -> Self {
        let models = Models { installed: EmbeddingModel::installed(&data), built_in: EmbeddingModel::built_in() };
        Self { data, models, index: None }
    }

    /// Searches. Before that, at most `most` entries that the index does not have yet are indexed; `progress` receives their
    /// number.
    ///
    /// # Errors
    /// If the archive or the index cannot be read.
    pub fn search(
        &mut self,
        store: &mut dyn Store,
        request: &SearchRequest,
        most: usize,
        progress: &mut dyn FnMut(IndexingProgress),
    ) -> Result<SearchResults, SearchError> {
        match store.kind() {
            StoreKind::Sqlite => self.search_index(store, request, most, progress),
            StoreKind::Jsonl => search(store, &mut FullScan::default(), &mut self.models.installed, request),
            StoreKind::Postgres => search(store, &mut RemoteCandidates::default(), &mut self.models.installed, request),
        }
    }

    fn search_index(
        &mut self,
        store: &mut dyn Store,
        request: &SearchRequest,
        most: usize,
        progress: &mut dyn FnMut(IndexingProgress),
    ) -> Result<SearchResults, SearchError> {
        self.with_index(&mut |index, models, is_new| {
            let mut notes = Vec::new();
            let refreshed = refresh(store, index, most, &mut |done, total| progress(IndexingProgress::Words(done, total)));
            let model = models.for_search(index)?;
            if let Ok(refreshed) = &refreshed
                && model.is_built_in()
                && request.mode != Some(Mode::Lexical)
                && !request.text.is_empty()
            {
                // What has no vectors is found by words.
                embed_new(store, index, model, refreshed.entries, progress).ok();
            }
            match refreshed {
                Ok(refreshed) if refreshed.is_complete => {}
                Ok(_) => notes.push(
                    "older turns are not in the search index yet; each search takes in some, `ctxbridge archive optimize` all"
                        .to_owned(),
                ),
                // What it has may be enough.
                Err(SearchError::Busy { .. }) => {
                    notes.push("another ctxbridge is writing the search index, so the newest turns may not be found".to_owned())
                }
                Err(error) => match error.unwritable_cause() {
                    Some(why) => {
                        notes.push(format!("the search index cannot be written ({why}), so the newest turns may not be found"));
                    }
                    None => return Err(error),
                },
            }
            if index.take_is_replaced() || is_new {
                notes.push("the search index was damaged, or of another version, and has been made anew".to_owned());
            }
            let mut found = search(store, index, model, request)?;
            found.notes.splice(..0, notes);
            Ok(found)
        })
    }

    /// Brings the index up to date, and makes vectors until `deadline`. If there is one, nothing else that takes long is done.
    ///
    /// # Errors
    /// If the archive or the index cannot be read or written.
    pub fn catch_up(
        &mut self,
        store: &mut dyn StoreReader,
        deadline: Option<Instant>,
        progress: &mut dyn FnMut(IndexingProgress),
    ) -> Result<IndexingReport, SearchError> {
        let thoroughly = deadline.is_none();
        self.with_index(&mut |index, models, _| {
            if thoroughly {
                index.check_integrity()?;
            }
            let refreshed = refresh(store, index, usize::MAX, &mut |done, total| progress(IndexingProgress::Words(done, total)))?;
            let mut done = IndexingReport { entries: refreshed.entries, ..IndexingReport::default() };
            let model = models.for_upkeep(index)?;
            if thoroughly {
                model.use_threads(std::thread::available_parallelism().map_or(1, usize::from));
            }
            let is_present = model.is_present();
            let (with, all) = index.coverage(model.id())?;
            match model.get() {
                Ok(embedder) => {
                    let mut step = |entries| {
                        progress(IndexingProgress::Vectors(entries, all.saturating_sub(with)));
                        deadline.is_none_or(|deadline| Instant::now() <= deadline)
                    };
                    done.embedded = embed_missing(store, index, embedder, usize::MAX, &mut step)?.entries;
                    index.refresh_ann_file(embedder.id(), embedder.dimensions())?;
                }
                // Without the model, what it has made stays.
                Err(_) if !is_present => {}
                Err(error) => done.model_error = Some(error.to_string()),
            }
            if thoroughly || done.entries > 0 {
                progress(IndexingProgress::Optimizing);
                index.optimize(thoroughly)?;
            }
            let (with, all) = index.coverage(model.id())?;
            Ok(IndexingReport { not_embedded: (all - with) as usize, ..done })
        })
    }

    /// Brings the index up to date after entries were forgotten, and leaves nothing of them in its file.
    ///
    /// # Errors
    /// If another process is writing it, or it cannot be read or written.
    pub fn forget(&mut self, store: &mut dyn StoreReader) -> Result<(), SearchError> {
        if !self.data.join(index::FILE).exists() {
            return Ok(());
        }
        self.with_index(&mut |index, _, _| {
            index.drop_gone()?;
            refresh(store, index, usize::MAX, &mut |_, _| {})?;
            index.scrub()
        })
    }

    /// Returns what [`Self::catch_up`] would do without a limit. Nothing is written.
    ///
    /// # Errors
    /// If the archive cannot be read.
    pub fn backlog(&mut self, store: &mut dyn StoreReader) -> Result<IndexingReport, SearchError> {
        let (entries, without) = match SearchIndex::open_existing(&self.data, index::INDEX_WRITE_TIMEOUT)? {
            Some(mut index) => {
                let entries = index.count_missing()?;
                let model = self.models.for_upkeep(&index)?.id();
                let (with, all) = index.coverage(model)?;
                (entries, all - with + entries)
            }
            None => {
                let all = store.totals()?.entries;
                (all, all)
            }
        };
        Ok(IndexingReport { entries: entries as usize, embedded: without as usize, ..IndexingReport::default() })
    }

    /// Works with the index. If it turns out to be broken, the work is done again with a new one.
    fn with_index<T>(
        &mut self,
        work: &mut dyn FnMut(&mut SearchIndex, &mut Models, bool) -> Result<T, SearchError>,
    ) -> Result<T, SearchError> {
        // Taken out, so that one that was in use when something went wrong is not used again.
        let mut index = match self.index.take().filter(|(_, stamp)| *stamp == self.stamp()) {
            Some((mut index, _)) => {
                index.attach(&self.data)?;
                index
            }
            None => SearchIndex::open(&self.data)?,
        };
        let done = match work(&mut index, &mut self.models, false) {
            Ok(done) => done,
            Err(error) => match index.replace_if_broken(&self.data, &error)? {
                Some(new) => {
                    index = new;
                    work(&mut index, &mut self.models, true)?
                }
                None => return Err(error),
            },
        };
        index.detach()?;
        self.index = Some((index, self.stamp()));
        Ok(done)
    }

    /// Stamps of the index and of its log.
    fn stamp(&self) -> [FileStamp; 2] {
        ["", "-wal"].map(|suffix| files::stamp(&self.data.join(format!("{}{suffix}", index::FILE))))
    }
}

/// Makes vectors of `new` entries, and for a moment of those before them.
fn embed_new(
    store: &mut dyn StoreReader,
    index: &mut SearchIndex,
    model: &mut EmbeddingModel,
    new: usize,
    progress: &mut dyn FnMut(IndexingProgress),
) -> Result<(), SearchError> {
    let Ok(embedder) = model.get() else { return Ok(()) };
    let begun = Instant::now();
    let mut step = |made| {
        if new > MANY_EMBEDDINGS {
            progress(IndexingProgress::Vectors(made, new as u64));
        }
        made < new || begun.elapsed() < SEARCH_EMBEDDING
    };
    let made = embed_missing(store, index, embedder, usize::MAX, &mut step)?.entries;
    if made > MANY_EMBEDDINGS {
        index.refresh_ann_file(embedder.id(), embedder.dimensions())?;
    }
    Ok(())
}
