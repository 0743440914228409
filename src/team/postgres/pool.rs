//! The connections of a process to one server: three at most, however many stores use them.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::connection::Connection;
use super::error::PostgresError;
use super::settings::Settings;

/// Connections at most.
const MOST: usize = 3;

/// Connections to one server, as one user.
///
/// Of the crates for that, r2d2 keeps three threads and gives connections back in a way that may block for ever, and others are async.
#[derive(Clone, Debug)]
pub struct Pool(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    settings: Arc<Settings>,
    state: Mutex<State>,
    is_free: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Those that nobody uses.
    idle: Vec<Connection>,
    /// All of them, with those that are being made.
    open: usize,
    /// Those of them that are none, since the server has no room: who has them waits for an idle one.
    empty: usize,
}

impl Pool {
    /// A pool without connections: the first one that needs one makes it.
    pub fn new(settings: Settings) -> Self {
        let settings = Arc::new(settings);
        Self(Arc::new(Shared { settings, state: Mutex::default(), is_free: Condvar::new() }))
    }

    /// What connections are made with.
    pub fn settings(&self) -> &Settings {
        &self.0.settings
    }

    /// Does something with a connection. Where all are in use, one of them is waited for, as long as connecting may take.
    pub(super) fn with<T, E: From<PostgresError>>(&self, work: impl FnOnce(&mut Connection) -> Result<T, E>) -> Result<T, E> {
        let (mut place, idle) = self.place()?;
        let mut connection = match idle {
            Some(connection) => connection,
            None => match Connection::open(&self.0.settings) {
                // There may be no room for three of us; then those that there are have to do.
                Err(full @ PostgresError::Full { .. }) => self.another().ok_or(full)?,
                opened => opened?,
            },
        };
        let result = work(&mut connection);
        place.leaves = connection.is_sound().then_some(connection);
        result
    }

    /// For one whose place stays empty: the connection of another, as soon as that is idle. Nothing where there is none to wait for.
    fn another(&self) -> Option<Connection> {
        let deadline = Instant::now() + self.0.settings.connect_timeout;
        let mut state = self.0.state();
        // Those whose places are empty as well would wait for each other.
        state.empty += 1;
        let found = loop {
            if let Some(connection) = state.idle.pop() {
                state.open -= 1;
                if connection.is_sound() {
                    break Some(connection);
                }
                continue;
            }
            let left = deadline.checked_duration_since(Instant::now()).filter(|_| state.open > state.empty);
            let Some(left) = left else { break None };
            state = self.0.is_free.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        };
        state.empty -= 1;
        drop(state);
        self.0.is_free.notify_all();
        found
    }

    /// A place in the pool, with a connection where one is idle.
    fn place(&self) -> Result<(Place<'_>, Option<Connection>), PostgresError> {
        let deadline = Instant::now() + self.0.settings.connect_timeout;
        let mut state = self.0.state();
        loop {
            while let Some(connection) = state.idle.pop() {
                if connection.is_sound() {
                    return Ok((Place { shared: &self.0, leaves: None }, Some(connection)));
                }
                state.open -= 1;
            }
            if state.open < MOST {
                state.open += 1;
                return Ok((Place { shared: &self.0, leaves: None }, None));
            }
            let left = deadline.checked_duration_since(Instant::now());
            let left = left.ok_or_else(|| PostgresError::Busy { server: self.0.settings.server() })?;
            state = self.0.is_free.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// One of the few places; free again when it is dropped, whatever happened.
struct Place<'a> {
    shared: &'a Shared,
    /// What the next one may use.
    leaves: Option<Connection>,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        match self.leaves.take() {
            Some(connection) => state.idle.push(connection),
            None => state.open -= 1,
        }
        drop(state);
        // Some wait for a place, some for a connection.
        self.shared.is_free.notify_all();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
