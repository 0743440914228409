//! The store traits, implemented for a server.

use super::connection::Connection;
use super::error::PostgresError;
use super::{PostgresStore, read};
use ctxbridge_archive::store::{ArchiveTotals, Store, StoreError, StoreReader, TierReader};
use ctxbridge_config::StoreKind;

/// Retries of a transaction after conflicts with another.
const MAX_CONFLICT_RETRIES: u32 = 5;

impl PostgresStore {
    pub(super) fn read<T>(&self, work: impl FnOnce(&mut Connection) -> Result<T, PostgresError>) -> Result<T, StoreError> {
        Ok(self.pool.with(work)?)
    }

    /// Runs one transaction, with retries after conflicts.
    pub(super) fn write<T>(&self, work: impl Fn(&mut Connection) -> Result<T, PostgresError>) -> Result<T, StoreError> {
        retry_conflicts(|| Ok(self.pool.with(|db| db.transaction(&work))?))
    }
}

pub(super) fn retry_conflicts<T>(mut work: impl FnMut() -> Result<T, StoreError>) -> Result<T, StoreError> {
    for _ in 0..MAX_CONFLICT_RETRIES {
        match work() {
            Err(error) if matches!(PostgresError::of(&error), Some(PostgresError::Conflict { .. })) => {}
            result => return result,
        }
    }
    work()
}

impl StoreReader for PostgresStore {
    fn kind(&self) -> StoreKind {
        StoreKind::Postgres
    }

    fn location(&self) -> String {
        let settings = self.pool.settings();
        format!("{}/{}", settings.server(), settings.database)
    }

    fn totals(&mut self) -> Result<ArchiveTotals, StoreError> {
        self.read(|db| db.snapshot(read::totals))
    }
}

impl TierReader for PostgresStore {}

impl Store for PostgresStore {}
