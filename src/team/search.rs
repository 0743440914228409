//! Searching here and, at the same time, on the team's server. What there is here is found whatever becomes of the server.

use std::path::Path;
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::postgres::PostgresStore;
use crate::server::{Server, ServerError};
use ctxbridge_archive::embed::Model;
use ctxbridge_archive::search::{Finder, Found, Indexing, Remote, RemoteArchive, Request, SearchError, Visit, merge, search};
use ctxbridge_archive::store::Store;
use ctxbridge_config::Config;
use ctxbridge_redact::Redactor;

/// How long a search waits for the server, all in all.
const LONGEST: Duration = Duration::from_secs(5);

/// How long a server that did not answer is left alone by one who searches again and again.
const LEFT_ALONE: Duration = Duration::from_secs(60);

/// The team's server, for those who look something up. Connections and model stay open.
#[derive(Clone)]
pub struct FederatedSearch {
    shared: Arc<Shared>,
}

struct Shared {
    server: Server,
    model: Mutex<Model>,
    /// What is asked leaves this machine, and a server may write down what it is asked.
    redactor: Redactor,
    /// Until when it is left alone, and why.
    trouble: Mutex<Option<(Instant, String)>>,
}

impl FederatedSearch {
    /// The server that searches ask as well; none where none is configured, or where they are not to ask it.
    ///
    /// # Errors
    /// When what is configured makes no sense.
    pub fn of(config: &Config, data: &Path) -> Result<Option<Self>, ServerError> {
        if !config.has_server() || !config.postgres.search {
            return Ok(None);
        }
        let shared = Shared {
            server: Server::in_a_hurry(config)?,
            model: Mutex::new(Model::installed(data)),
            redactor: Redactor::of(&config.redact).0,
            trouble: Mutex::default(),
        };
        Ok(Some(Self { shared: Arc::new(shared) }))
    }

    /// Has a thread of its own ask the server: a connection that stalls is waited for by nobody else.
    fn begin<T: Send + 'static>(
        &self,
        what: impl FnOnce(&mut PostgresStore, &mut Model) -> Result<T, SearchError> + Send + 'static,
    ) -> Receiver<Result<T, String>> {
        let (sender, receiver) = mpsc::channel();
        if let Some((until, why)) = &*self.shared.trouble.lock().unwrap_or_else(PoisonError::into_inner)
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
        let late = |_| Err(format!("{} did not answer within {} s", self.shared.server.address(), LONGEST.as_secs()));
        let answer = asked.recv_timeout(until.saturating_duration_since(Instant::now())).unwrap_or_else(late);
        let trouble = answer.as_ref().err().map(|why| (Instant::now() + LEFT_ALONE, why.clone()));
        let mut known = self.shared.trouble.lock().unwrap_or_else(PoisonError::into_inner);
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
        finder: &mut Finder,
        store: &mut dyn Store,
        request: &Request,
        most: usize,
        progress: &mut dyn FnMut(Indexing),
    ) -> Result<Found, SearchError> {
        if let Some(rule) = self.shared.redactor.redact(&request.text).found.keys().next() {
            let mut here = finder.search(store, request, most, progress)?;
            here.notes.push(format!("the team's server was not asked: the query has what looks like a secret ({rule})"));
            return Ok(here);
        }
        let begun = Instant::now();
        let question = request.clone();
        let asked = self.begin(move |store, model| search(store, &mut Remote::default(), model, &question));
        let mut here = finder.search(store, request, most, progress)?;
        match self.wait(&asked, begun + LONGEST) {
            Ok(mut there) => {
                there.hits.iter_mut().for_each(|hit| hit.is_elsewhere = true);
                Ok(merge(here, there, request.limit))
            }
            Err(why) => {
                here.notes.push(format!("the team's server was not asked: {why}"));
                Ok(here)
            }
        }
    }

    fn visit(&self, what: Visit) -> Result<(), String> {
        self.wait(&self.begin(move |store, _| what(store)), Instant::now() + LONGEST)
    }
}
