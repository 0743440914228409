//! The team's server for commands that read: the one place of them that knows whether this build can talk to it.

use std::sync::Arc;

use ctxbridge_archive::search::RemoteArchive;
use ctxbridge_archive::store::Store;
use ctxbridge_config::Config;

use super::config::load;
use super::output::Output;

/// The archive on the server that the settings name as the archive to read.
#[cfg(feature = "team")]
pub(super) fn open(config: &Config) -> anyhow::Result<Box<dyn Store>> {
    Ok(Box::new(ctxbridge_team::server::Server::of(config)?.open()?))
}

/// Refuses: this build has no PostgreSQL.
#[cfg(not(feature = "team"))]
pub(super) fn open(_: &Config) -> anyhow::Result<Box<dyn Store>> {
    anyhow::bail!(
        "archive.store is postgres, and this ctxbridge was built without it; build it with the feature `team`, or set archive.store to sqlite"
    )
}

/// The archive on the team's server, for what is not here; nothing where there is none, or it cannot be asked, which is said.
pub(super) fn on_server(output: &Output) -> Option<Box<dyn Store>> {
    let config = load(output);
    if !config.has_server() || !config.postgres.search {
        return None;
    }
    match open_in_a_hurry(&config) {
        Ok(store) => Some(store),
        Err(error) => {
            output.note(&format!("the team's server was not asked: {error}"));
            None
        }
    }
}

#[cfg(feature = "team")]
fn open_in_a_hurry(config: &Config) -> anyhow::Result<Box<dyn Store>> {
    Ok(Box::new(ctxbridge_team::server::Server::in_a_hurry(config)?.open()?))
}

#[cfg(not(feature = "team"))]
fn open_in_a_hurry(_: &Config) -> anyhow::Result<Box<dyn Store>> {
    anyhow::bail!("this ctxbridge was built without the feature `team`")
}

/// The team's server, where there is one to be asked; one that is not set as it has to be is told of.
#[cfg(feature = "team")]
pub(super) fn federated(output: &Output) -> anyhow::Result<Option<Arc<dyn RemoteArchive>>> {
    let found = ctxbridge_team::search::FederatedSearch::of(&load(output), &ctxbridge_common::paths::data_dir()?);
    Ok(found.map_or_else(
        |error| {
            output.note(&format!("the team's server was not asked: {error}"));
            None
        },
        |found| found.map(|found| Arc::new(found) as Arc<dyn RemoteArchive>),
    ))
}

/// None: this build has no PostgreSQL.
#[cfg(not(feature = "team"))]
pub(super) fn federated(_: &Output) -> anyhow::Result<Option<Arc<dyn RemoteArchive>>> {
    Ok(None)
}
