//! The archive on a PostgreSQL server: connecting, the schema, who may see what, and what happens when the server does not do its part.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

#[path = "postgres/connecting.rs"]
mod connecting;
#[path = "postgres/crowd.rs"]
mod crowd;
#[path = "postgres/faults.rs"]
mod faults;
#[path = "transcript/lines.rs"]
#[allow(dead_code, reason = "shared with the tests of transcripts, which need more of them")]
mod lines;
#[path = "postgres/meanwhile.rs"]
mod meanwhile;
#[path = "postgres/migrating.rs"]
mod migrating;
#[path = "postgres/people.rs"]
mod people;
#[path = "postgres/pooling.rs"]
mod pooling;
#[path = "postgres/proxy.rs"]
mod proxy;
#[path = "postgres/rights.rs"]
mod rights;
#[path = "postgres/sharing.rs"]
mod sharing;
#[path = "postgres/tls.rs"]
mod tls;

use std::path::PathBuf;

use ctxbridge::team::postgres::{PostgresError, PostgresStore, Settings, Ssl};
use ctxbridge_testkit::postgres::{Database, Role};

fn cache() -> PathBuf {
    ctxbridge::common::paths::cache_dir().unwrap()
}

fn database() -> Database {
    Database::new(&cache()).unwrap()
}

/// What the superuser connects with.
fn settings(database: &Database) -> Settings {
    Settings { ssl: Ssl::Off, ..Settings::from_url(&database.url()).unwrap() }
}

/// What a role connects with.
fn settings_of(database: &Database, role: &Role) -> Settings {
    Settings { ssl: Ssl::Off, ..Settings::from_url(&database.url_of(role)).unwrap() }
}

/// Why there is no connection; no password is in it.
fn refused(settings: Settings) -> PostgresError {
    let password = settings.password.clone();
    let error = PostgresStore::connect(settings).unwrap_err();
    for secret in ["hunter2", "p@ss word", "only on loopback"] {
        assert!(!format!("{error} {error:?} {error:#?} {password:?}").contains(secret), "{error:?}");
    }
    error
}
