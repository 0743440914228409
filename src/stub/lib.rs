//! A stub of Anthropic's Messages API on loopback.
//!
//! It refuses what the real API refuses ([`validate()`]), answers what a [`Responder`] decides,
//! keeps a prompt cache and binds thinking if asked to ([`CacheRules`], [`ThinkingRules`]), and keeps every request, so that a
//! test can check what the client really sent. A conversation with it costs nothing and needs no account.
//!
//! The server runs on a thread of its own and is stopped when the [`Stub`] is dropped; nothing
//! here is asynchronous to the caller.

mod api;
mod cache;
mod request;
mod respond;
mod thinking;
mod tokens;
mod validate;

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use tokio::sync::oneshot;

use cache::CachedPrompts;
use thinking::Signatures;

pub use cache::{CacheRules, UsageTotals};
pub use request::{ApiRequest, RequestKind, Role, TextBlock};
pub use respond::{NumberedReplies, ReplyUsage, Responder, ScriptedReply, ToolCall};
pub use thinking::ThinkingRules;
pub use tokens::{CacheUsage, estimate_tokens};
pub use validate::{Violation, validate, validate_prompt};

/// Limits and rules of a [`Stub`].
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Requests to `/v1/messages` that are answered; later ones get 529 `overloaded_error`.
    pub max_requests: usize,
    /// Largest request body in bytes; a larger one gets 413 `request_too_large`.
    pub max_body: usize,
    /// Rules for the prompt cache, which `usage` reports; `None` caches nothing.
    pub cache: Option<CacheRules>,
    /// Rules for thinking.
    pub thinking: ThinkingRules,
}

impl Default for Options {
    fn default() -> Self {
        Self { max_requests: 500, max_body: 64 * 1024 * 1024, cache: None, thinking: ThinkingRules::None }
    }
}

/// Errors from starting a stub.
#[derive(Debug, thiserror::Error)]
pub enum StubError {
    /// No port of the loopback interface was available.
    #[error("cannot listen on 127.0.0.1: {0}; allow local connections and try again")]
    Listen(#[source] io::Error),
    /// The server's thread or its event loop did not start.
    #[error("cannot start the stub's server thread: {0}; free some memory or threads and try again")]
    Start(#[source] io::Error),
}

/// A running stub of the Messages API. Dropping it stops the server.
#[derive(Debug)]
pub struct Stub {
    address: SocketAddr,
    desk: Arc<StubContext>,
    stop: Option<oneshot::Sender<()>>,
    server: Option<JoinHandle<()>>,
}

impl Stub {
    /// Starts a stub that answers every request with a short numbered sentence.
    pub fn start() -> Result<Self, StubError> {
        Self::start_with(NumberedReplies, Options::default())
    }

    /// Starts a stub that answers what `responder` decides, within `options`.
    pub fn start_with(responder: impl Responder + 'static, options: Options) -> Result<Self, StubError> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(StubError::Listen)?;
        listener.set_nonblocking(true).map_err(StubError::Listen)?;
        let address = listener.local_addr().map_err(StubError::Listen)?;

        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(StubError::Start)?;
        let listener = {
            // Registering a socket needs the runtime it will be polled on.
            let _guard = runtime.enter();
            tokio::net::TcpListener::from_std(listener).map_err(StubError::Listen)?
        };

        let desk = Arc::new(StubContext::new(Box::new(responder), options));
        let router = api::router(Arc::clone(&desk));
        let (stop, stopped) = oneshot::channel::<()>();
        let server = thread::Builder::new()
            .name("messages-api-stub".into())
            .spawn(move || {
                runtime.block_on(async move {
                    // Leaving the block drops the runtime and with it every open connection: a
                    // client that keeps one alive cannot hold up the stop.
                    tokio::select! {
                        _ = stopped => {}
                        // `axum::serve` retries failed accepts itself and never returns.
                        _ = axum::serve(listener, router) => {}
                    }
                });
            })
            .map_err(StubError::Start)?;

        Ok(Self { address, desk, stop: Some(stop), server: Some(server) })
    }

    /// The base URL to give a client, e.g. `http://127.0.0.1:41873`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Every request to `/v1/messages` that was JSON, refused ones included, in order of arrival.
    pub fn requests(&self) -> Vec<Arc<ApiRequest>> {
        self.desk.lock().requests.clone()
    }

    /// The requests of the main conversation (see [`ApiRequest::is_main`]), in order of arrival.
    pub fn main_requests(&self) -> Vec<Arc<ApiRequest>> {
        let mut requests = self.requests();
        requests.retain(|request| request.is_main());
        requests
    }

    /// Sum of the usage that the answers to the main conversation reported.
    pub fn totals(&self) -> UsageTotals {
        self.desk.lock().totals
    }

    /// Messages of all refusals, as the client received them.
    ///
    /// A client of the 1.0 and 2.0 lines sends a refused request once more without streaming, so
    /// one mistake can be listed twice.
    pub fn violations(&self) -> Vec<String> {
        self.desk.lock().violations.clone()
    }
}

impl Drop for Stub {
    fn drop(&mut self) {
        // Dropping the sender is the signal.
        drop(self.stop.take());
        if let Some(server) = self.server.take() {
            // A panic over there was printed when it happened; to panic again while a test unwinds
            // would abort the process and hide the test's own failure.
            drop(server.join());
        }
    }
}

/// State that the server's handlers share: options, script and records.
struct StubContext {
    options: Options,
    state: Mutex<StubState>,
}

struct StubState {
    responder: Box<dyn Responder>,
    /// Requests that the limit let through, unreadable ones included.
    admitted: usize,
    requests: Vec<Arc<ApiRequest>>,
    violations: Vec<String>,
    cache: Option<CachedPrompts>,
    signatures: Signatures,
    totals: UsageTotals,
}

impl StubContext {
    fn new(responder: Box<dyn Responder>, options: Options) -> Self {
        let state = StubState {
            responder,
            admitted: 0,
            requests: Vec::new(),
            violations: Vec::new(),
            cache: options.cache.map(CachedPrompts::new),
            signatures: Signatures::new(options.thinking),
            totals: UsageTotals::default(),
        };
        Self { options, state: Mutex::new(state) }
    }

    /// Locks the state, also after a panic: a responder that panics must not hide what was recorded before.
    fn lock(&self) -> MutexGuard<'_, StubState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for StubContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Desk").field("options", &self.options).finish_non_exhaustive()
    }
}
