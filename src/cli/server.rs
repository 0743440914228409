//! The team server for commands that read. Only this module depends on the `team` feature.

use std::sync::Arc;

use ctxbridge_archive::forget::ForgetPlan;
use ctxbridge_archive::open::Location;
use ctxbridge_archive::search::RemoteArchive;
use ctxbridge_archive::store::Store;
use ctxbridge_config::Config;

use super::config::load;
use super::output::Output;

/// Opens the archive on the server, for `archive.store = postgres`.
#[cfg(feature = "team")]
pub(super) fn open(config: &Config) -> anyhow::Result<Box<dyn Store>> {
    Ok(Box::new(ctxbridge_team::server::TeamServer::of(config)?.open()?))
}

/// Fails: this build has no PostgreSQL.
#[cfg(not(feature = "team"))]
pub(super) fn open(_: &Config) -> anyhow::Result<Box<dyn Store>> {
    anyhow::bail!(
        "archive.store is postgres, and this ctxbridge was built without it; build it with the feature `team`, or set archive.store to sqlite"
    )
}

/// Opens the archive on the team server, for turns that are not on this machine. Returns `None` if no server is
/// configured, or if it cannot be reached, which is noted.
pub(super) fn server_for_reading(output: &Output) -> Option<Box<dyn Store>> {
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
    Ok(Box::new(ctxbridge_team::server::TeamServer::for_search(config)?.open()?))
}

#[cfg(not(feature = "team"))]
fn open_in_a_hurry(_: &Config) -> anyhow::Result<Box<dyn Store>> {
    anyhow::bail!("this ctxbridge was built without the feature `team`")
}

/// Returns the team server for searches, if one is configured. Wrong settings are noted.
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

/// Returns `None`: this build has no PostgreSQL.
#[cfg(not(feature = "team"))]
pub(super) fn federated(_: &Output) -> anyhow::Result<Option<Arc<dyn RemoteArchive>>> {
    Ok(None)
}

/// Takes what is forgotten back from the team server, if there is one. What stays of a session is sent again by the next sync.
#[cfg(feature = "team")]
pub(super) fn forget(config: &Config, location: &Location, plan: &ForgetPlan, output: &Output) -> anyhow::Result<()> {
    use ctxbridge_archive::store::StoreError;
    use ctxbridge_archive::store::sqlite::LockPolicy;
    use ctxbridge_redact::Redactor;
    use ctxbridge_team::server::TeamServer;
    use ctxbridge_team::sync::RemoteDelete;

    if !config.has_server() {
        return Ok(());
    }
    let redactor = Redactor::strict(&config.redact)?;
    let mut from = location.open_for_reading(LockPolicy::Background)?.store;
    let mut to = TeamServer::of(config)?.open()?;
    let name = to.identity().map_err(StoreError::from)?;
    for (session, part) in &plan.parts {
        output.progress(&format!("taking session {session} back from the server"));
        let (data, is_resent) = (location.data(), !part.is_whole);
        let mut removal = RemoteDelete { data, from: &mut *from, name: &name, redactor: &redactor, is_resent };
        let only_there = if is_resent { removal.only_on_server(session, &mut to)? } else { Vec::new() };
        anyhow::ensure!(
            only_there.is_empty(),
            "it has more of session {session} than the archive here, and all of that would be lost"
        );
        removal.run(session, &mut to)?;
    }
    Ok(())
}

/// Fails if there is a server: this build cannot ask it.
#[cfg(not(feature = "team"))]
pub(super) fn forget(config: &Config, _: &Location, _: &ForgetPlan, _: &Output) -> anyhow::Result<()> {
    anyhow::ensure!(!config.has_server(), "this ctxbridge was built without the feature `team`");
    Ok(())
}
