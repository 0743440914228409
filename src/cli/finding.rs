//! What commands that search have in common.

use std::path::Path;

use super::output::Output;
use super::server;
use ctxbridge_archive::heal;
use ctxbridge_archive::search::{CaughtUp, Finder, Found, Indexing, Request};
use ctxbridge_archive::store::sqlite::{Patience, SqliteStore};
use ctxbridge_common::paths;

/// Searches the user's archive and, unless only what is here is wanted, the team's server. What the index does not have yet is taken in first.
pub(super) fn search(request: &Request, only_here: bool, output: &mut Output) -> anyhow::Result<Found> {
    let mut store = super::archive::open(output)?;
    let remote = if only_here { None } else { server::federated(output)? };
    let mut finder = Finder::new(paths::data_dir()?);
    let progress = &mut |step| tell(&step, output);
    let found = match &remote {
        Some(remote) => remote.search(&mut finder, &mut *store, request, usize::MAX, progress),
        None => finder.search(&mut *store, request, usize::MAX, progress),
    };
    output.clear_progress();
    Ok(found?)
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
