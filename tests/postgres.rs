//! The archive on a PostgreSQL server: connecting, the schema, who may see what, and what happens when the server does not do its part.
#![cfg(unix)]

mod connecting;
mod crowd;
mod faults;
use crate::transcript::lines;
mod meanwhile;
mod migrating;
mod people;
mod pooling;
pub(crate) mod proxy;
mod rights;
mod sharing;
mod tls;

use std::path::PathBuf;

use ctxbridge::team::postgres::{ConnectionSettings, PostgresError, PostgresStore, TlsMode};
use ctxbridge_testkit::postgres::{TestDatabase, TestRole};

fn cache() -> PathBuf {
    ctxbridge::common::paths::cache_dir().unwrap()
}

fn database() -> TestDatabase {
    TestDatabase::new(&cache()).unwrap()
}

/// What the superuser connects with.
fn settings(database: &TestDatabase) -> ConnectionSettings {
    ConnectionSettings { ssl: TlsMode::Off, ..ConnectionSettings::from_url(&database.url()).unwrap() }
}

/// What a role connects with.
fn settings_of(database: &TestDatabase, role: &TestRole) -> ConnectionSettings {
    ConnectionSettings { ssl: TlsMode::Off, ..ConnectionSettings::from_url(&database.url_of(role)).unwrap() }
}

/// Why there is no connection; no password is in it.
fn refused(settings: ConnectionSettings) -> PostgresError {
    let password = settings.password.clone();
    let error = PostgresStore::connect(settings).unwrap_err();
    for secret in ["hunter2", "p@ss word", "only on loopback"] {
        assert!(!format!("{error} {error:?} {error:#?} {password:?}").contains(secret), "{error:?}");
    }
    error
}
