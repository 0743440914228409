//! Code shared by commands that search.

use std::collections::HashMap;

use super::archives;
use super::output::{Output, count};
use super::server;
use ctxbridge_archive::search::{IndexingProgress, SearchRequest, SearchResults, Searcher};
use ctxbridge_archive::store::Session;
use ctxbridge_common::paths;

/// Number of entries from which on indexing takes seconds, and is told.
const MANY_ENTRIES: u64 = 1_000;

/// Results of a search, with the sessions of this machine that they are of, by id.
pub(super) struct FoundTurns {
    pub results: SearchResults,
    pub sessions: HashMap<String, Session>,
    /// `true` if there is nothing to search on this machine.
    pub is_empty_archive: bool,
}

/// Searches the user's archive and, unless `only_here`, the team server, in a project if one is named. Brings the index up to date
/// first.
pub(super) fn search(
    mut request: SearchRequest,
    project: Option<&str>,
    only_here: bool,
    output: &mut Output,
) -> anyhow::Result<FoundTurns> {
    let mut store = archives::open(output)?;
    let remote = if only_here { None } else { server::federated(output)? };
    request.filter.project = archives::project(project, &mut *store, remote.is_some(), output)?;
    let request = &request;
    let mut finder = Searcher::new(paths::data_dir()?);
    let progress = &mut |step: IndexingProgress| {
        if let IndexingProgress::Words(0, total @ MANY_ENTRIES..) = step {
            output.note(&format!("Indexing {} first, once. Later searches need not wait for it.", count(total, "entry")));
        }
        output.progress(&step.to_string());
    };
    let found = match &remote {
        Some(remote) => remote.search(&mut finder, &mut *store, request, usize::MAX, progress),
        None => finder.search(&mut *store, request, usize::MAX, progress),
    };
    output.clear_progress();
    let results = found?;
    let mut sessions = HashMap::new();
    for hit in results.hits.iter().filter(|hit| !hit.is_elsewhere) {
        let (_, _, id) = hit.identity();
        if !sessions.contains_key(id)
            && let Some(session) = store.session(id)?
        {
            sessions.insert(id.to_owned(), session);
        }
    }
    let is_empty_archive = results.hits.is_empty() && remote.is_none() && store.totals()?.sessions == 0;
    Ok(FoundTurns { results, sessions, is_empty_archive })
}
