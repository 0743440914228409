//! State shared by the workers of a run, and the stores that each has open.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::state::SyncState;
use super::{SyncError, SyncRun};
use ctxbridge_archive::store::{Store, StoreError};

/// The record of what was sent, for all workers of a run.
pub(super) struct SharedState<'w> {
    pub sync: &'w SyncRun<'w>,
    state: Mutex<SyncState>,
}

impl<'w> SharedState<'w> {
    pub fn new(sync: &'w SyncRun<'w>, state: SyncState) -> Self {
        Self { sync, state: Mutex::new(state) }
    }

    /// Locks the record.
    pub fn lock(&self) -> MutexGuard<'_, SyncState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the record.
    pub fn record(&self, change: impl FnOnce(&mut SyncState) -> io::Result<()>) -> Result<(), SyncError> {
        change(&mut self.lock()).map_err(|cause| SyncError::State { folder: self.sync.data.to_owned(), cause })
    }
}

/// The stores that one worker has open.
#[derive(Default)]
pub(super) struct WorkerStores {
    pub from: Option<Box<dyn Store>>,
    pub to: Option<Box<dyn Store>>,
}

impl WorkerStores {
    /// The receiving store. It is opened when something is to be sent, and again after an error.
    pub fn target(&mut self, sync: &SyncRun<'_>) -> Result<&mut dyn Store, StoreError> {
        let to = match &mut self.to {
            Some(to) => to,
            closed => closed.insert((sync.to)()?),
        };
        Ok(&mut **to)
    }
}
