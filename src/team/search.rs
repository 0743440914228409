//! Searching the local archive and, at the same time, the team's server. Local results are found even when the server fails.

use std::path::Path;
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::postgres::PostgresStore;
use crate::server::{ServerError, TeamServer};
use ctxbridge_archive::search::{
    IndexingProgress, RemoteArchive, RemoteCandidates, SearchError, SearchRequest, SearchResults, Searcher, Visit, merge_results,
    search,
};
use ctxbridge_archive::store::Store;
use ctxbridge_config::Config;
use ctxbridge_redact::Redactor;
use ctxbridge_vectors::embed::EmbeddingModel;

/// Longest time that a search waits for the server, in total.
const MAX_SERVER_WAIT: Duration = Duration::from_secs(5);

/// Time for which repeated searches skip a server that did not answer.
const SERVER_BACKOFF: Duration = Duration::from_secs(60);

/// Search on the team's server as well. Connections and model stay open.
#[derive(Clone)]
pub struct FederatedSearch {
    shared: Arc<FederatedSearchState>,
}

struct FederatedSearchState {
    server: TeamServer,
    model: Mutex<EmbeddingModel>,
    /// Checks queries: they leave this machine, and a server may log them.
    redactor: Redactor,
    /// End of the current back-off, and the reason for it.
    backoff: Mutex<Option<(Instant, String)>>,
}

impl FederatedSearch {
    /// The server that searches ask as well. `None` where none is configured, or where searches are not to ask it.
    ///
    /// # Errors
    /// If the configuration makes no sense.
    pub fn of(config: &Config, data: &Path) -> Result<Option<Self>, ServerError> {
        if !config.has_server() || !config.postgres.search {
            return Ok(None);
        }
        let shared = FederatedSearchState {
            server: TeamServer::for_search(config)?,
            model: Mutex::new(EmbeddingModel::installed(data)),
            redactor: Redactor::of(&config.redact).0,
            backoff: Mutex::default(),
        };
        Ok(Some(Self { shared: Arc::new(shared) }))
    }

    /// Asks the server in a thread of its own, so that nobody else waits for a stalled connection.
    fn spawn_query<T: Send + 'static>(
        &self,
        what: impl FnOnce(&mut PostgresStore, &mut EmbeddingModel) -> Result<T, SearchError> + Send + 'static,
    ) -> Receiver<Result<T, String>> {
        let (sender, receiver) = mpsc::channel();
        if let Some((until, why)) = &*self.shared.backoff.lock().unwrap_or_else(PoisonError::into_inner)
            && Instant::now() < *until
        {
            sender.send(Err(why.clone())).ok();
            return receiver;
        }
        let shared = Arc::clone(&self.shared);
        std::thread::spawn(move || {
            let asked = shared.server.open().map_err(SearchError::from).and_then(|mut store| {
                let mut model = shared.model.lock().unwrap_or_else(PoisonError::into_inner);
                what(&mut store, &mut model)
            });
            sender.send(asked.map_err(|error| error.to_string())).ok();
        });
        receiver
    }

    fn wait<T>(&self, asked: &Receiver<Result<T, String>>, until: Instant) -> Result<T, String> {
        let late = |_| Err(format!("{} did not answer within {} s", self.shared.server.address(), MAX_SERVER_WAIT.as_secs()));
        let answer = asked.recv_timeout(until.saturating_duration_since(Instant::now())).unwrap_or_else(late);
        let trouble = answer.as_ref().err().map(|why| (Instant::now() + SERVER_BACKOFF, why.clone()));
        let mut known = self.shared.backoff.lock().unwrap_or_else(PoisonError::into_inner);
        // What was not asked does not make it longer.
        if trouble.is_none() || known.as_ref().is_none_or(|(until, _)| *until <= Instant::now()) {
            *known = trouble;
        }
        answer
    }
}

impl RemoteArchive for FederatedSearch {
    fn search(
        &self,
        finder: &mut Searcher,
        store: &mut dyn Store,
        request: &SearchRequest,
        most: usize,
        progress: &mut dyn FnMut(IndexingProgress),
    ) -> Result<SearchResults, SearchError> {
        if let Some(rule) = self.shared.redactor.redact(&request.text).found.keys().next() {
            let mut here = finder.search(store, request, most, progress)?;
            here.notes.push(format!("the team's server was not asked: the query has what looks like a secret ({rule})"));
            return Ok(here);
        }
        let begun = Instant::now();
        let question = request.clone();
        let asked = self.spawn_query(move |store, model| search(store, &mut RemoteCandidates::default(), model, &question));
        let mut here = finder.search(store, request, most, progress)?;
        match self.wait(&asked, begun + MAX_SERVER_WAIT) {
            Ok(mut there) => {
                there.hits.iter_mut().for_each(|hit| hit.is_elsewhere = true);
                Ok(merge_results(here, there, request.limit))
            }
            Err(why) => {
                here.notes.push(format!("the team's server was not asked: {why}"));
                Ok(here)
            }
        }
    }

    fn visit(&self, what: Visit) -> Result<(), String> {
        self.wait(&self.spawn_query(move |store, _| what(store)), Instant::now() + MAX_SERVER_WAIT)
    }
}
