//! A process's connections to one server: at most three, however many stores use them.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::connection::Connection;
use super::error::PostgresError;
use super::settings::ConnectionSettings;

/// Maximum number of connections.
const MAX_CONNECTIONS: usize = 3;

/// Connections to one server, as one user.
///
/// Existing crates do not fit: r2d2 keeps three threads and may block forever when a connection is returned, and others are async.
#[derive(Clone, Debug)]
pub struct ConnectionPool(Arc<PoolShared>);

#[derive(Debug)]
struct PoolShared {
    settings: Arc<ConnectionSettings>,
    state: Mutex<PoolState>,
    is_free: Condvar,
}

#[derive(Debug, Default)]
struct PoolState {
    /// Unused connections.
    idle: Vec<Connection>,
    /// Number of all slots in use, including connections that are being opened.
    open: usize,
    /// Number of slots without a connection, since the server has none left. Their holders wait for an idle one.
    empty_slots: usize,
}

impl ConnectionPool {
    /// A pool without connections. They are opened when needed.
    pub fn new(settings: ConnectionSettings) -> Self {
        let settings = Arc::new(settings);
        Self(Arc::new(PoolShared { settings, state: Mutex::default(), is_free: Condvar::new() }))
    }

    /// The settings of the connections.
    pub fn settings(&self) -> &ConnectionSettings {
        &self.0.settings
    }

    /// Calls a function with a connection. Where all are in use, it waits for one, at most as long as connecting may take.
    pub(super) fn with<T, E: From<PostgresError>>(&self, work: impl FnOnce(&mut Connection) -> Result<T, E>) -> Result<T, E> {
        let (mut place, idle) = self.acquire_slot()?;
        let mut connection = match idle {
            Some(connection) => connection,
            None => match Connection::open(&self.0.settings) {
                // There may be no room for three of us; then those that there are have to do.
                Err(full @ PostgresError::Full { .. }) => self.wait_for_idle().ok_or(full)?,
                opened => opened?,
            },
        };
        let result = work(&mut connection);
        place.returned = connection.is_reusable().then_some(connection);
        result
    }

    /// Waits for another slot's connection to become idle. `None` where there is none to wait for.
    fn wait_for_idle(&self) -> Option<Connection> {
        let deadline = Instant::now() + self.0.settings.connect_timeout;
        let mut state = self.0.state();
        // Those whose places are empty as well would wait for each other.
        state.empty_slots += 1;
        let found = loop {
            if let Some(connection) = state.idle.pop() {
                state.open -= 1;
                if connection.is_reusable() {
                    break Some(connection);
                }
                continue;
            }
            let left = deadline.checked_duration_since(Instant::now()).filter(|_| state.open > state.empty_slots);
            let Some(left) = left else { break None };
            state = self.0.is_free.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        };
        state.empty_slots -= 1;
        drop(state);
        self.0.is_free.notify_all();
        found
    }

    /// Acquires a slot, with a connection where one is idle.
    fn acquire_slot(&self) -> Result<(PoolSlot<'_>, Option<Connection>), PostgresError> {
        let deadline = Instant::now() + self.0.settings.connect_timeout;
        let mut state = self.0.state();
        loop {
            while let Some(connection) = state.idle.pop() {
                if connection.is_reusable() {
                    return Ok((PoolSlot { shared: &self.0, returned: None }, Some(connection)));
                }
                state.open -= 1;
            }
            if state.open < MAX_CONNECTIONS {
                state.open += 1;
                return Ok((PoolSlot { shared: &self.0, returned: None }, None));
            }
            let left = deadline.checked_duration_since(Instant::now());
            let left = left.ok_or_else(|| PostgresError::Busy { server: self.0.settings.server() })?;
            state = self.0.is_free.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// A slot of the pool. It is freed when dropped, whatever happened.
struct PoolSlot<'a> {
    shared: &'a PoolShared,
    /// The connection to return to the pool.
    returned: Option<Connection>,
}

impl Drop for PoolSlot<'_> {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        match self.returned.take() {
            Some(connection) => state.idle.push(connection),
            None => state.open -= 1,
        }
        drop(state);
        // Some wait for a place, some for a connection.
        self.shared.is_free.notify_all();
    }
}

impl PoolShared {
    fn state(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
