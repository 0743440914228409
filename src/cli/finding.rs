//! What commands that search have in common.

use std::path::Path;

use super::config::load;
use super::output::Output;
use crate::archive::heal;
use crate::archive::search::{CaughtUp, Finder, Found, Indexing, Request, Team};
use crate::archive::server::Server;
use crate::archive::store::Store;
use crate::archive::store::sqlite::{Patience, SqliteStore};
use crate::paths;

/// Searches the user's archive and, unless only what is here is wanted, the team's server. What the index does not have yet is taken in first.
pub(super) fn search(request: &Request, only_here: bool, output: &mut Output) -> anyhow::Result<Found> {
    let mut store = super::archive::open(output)?;
    let team = if only_here { None } else { team(output)? };
    let mut finder = Finder::new(paths::data_dir()?);
    let found = finder.search_both(&mut *store, team.as_ref(), request, usize::MAX, &mut |step| tell(&step, output));
    output.clear_progress();
    Ok(found?)
}

/// The archive on the team's server, for what is not here; nothing where there is none, or it cannot be asked, which is said.
pub(super) fn on_server(output: &Output) -> Option<Box<dyn Store>> {
    let config = load(output);
    if !config.has_server() || !config.postgres.search {
        return None;
    }
    let opened = Server::in_a_hurry(&config).map_err(|error| error.to_string());
    match opened.and_then(|server| server.open().map_err(|error| error.to_string())) {
        Ok(store) => Some(Box::new(store)),
        Err(error) => {
            output.note(&format!("the team's server was not asked: {error}"));
            None
        }
    }
}

/// The team's server, where there is one to be asked; one that is not set as it has to be is told of.
pub(super) fn team(output: &Output) -> anyhow::Result<Option<Team>> {
    Ok(Team::of(&load(output), &paths::data_dir()?).unwrap_or_else(|error| {
        output.note(&format!("the team's server was not asked: {error}"));
        None
    }))
}

/// Brings the index up to date, and makes vectors of at most so many entries.
pub(super) fn catch_up(data: &Path, most: usize, output: &Output) -> anyhow::Result<CaughtUp> {
    let (mut store, _) = heal::open(data, Patience::Patient)?;
    Ok(Finder::new(data.to_owned()).catch_up(&mut store, most, &mut |step| tell(&step, output))?)
}

/// What [`catch_up`] would do without a limit.
pub(super) fn behind(data: &Path) -> anyhow::Result<CaughtUp> {
    let _presence = heal::presence(data, Patience::Patient)?;
    match SqliteStore::open_read_only(data)? {
        Some(mut store) => Ok(Finder::new(data.to_owned()).behind(&mut store)?),
        None => Ok(CaughtUp::default()),
    }
}

fn tell(step: &Indexing, output: &Output) {
    output.progress(&match step {
        Indexing::Words(done) => format!("indexing, {done} entries so far"),
        Indexing::Vectors(done, missing) => format!("making vectors, {done} of {missing} entries"),
        Indexing::Tidying => "tidying the index".to_owned(),
    });
}
