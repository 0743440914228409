//! Code shared by commands that search.

use super::archives;
use super::output::{Output, entries};
use super::server;
use ctxbridge_archive::search::{IndexingProgress, SearchRequest, SearchResults, Searcher};
use ctxbridge_common::paths;

/// Number of entries from which on indexing takes seconds, and is told.
const MANY_ENTRIES: u64 = 1_000;

/// Searches the user's archive and, unless `only_here`, the team server, in a project if one is named. Brings the index up to date
/// first.
pub(super) fn search(
    mut request: SearchRequest,
    project: Option<&str>,
    only_here: bool,
    output: &mut Output,
) -> anyhow::Result<SearchResults> {
    let mut store = archives::open(output)?;
    let remote = if only_here { None } else { server::federated(output)? };
    request.filter.project = archives::project(project, &mut *store, remote.is_some(), output)?;
    let request = &request;
    let mut finder = Searcher::new(paths::data_dir()?);
    let progress = &mut |step: IndexingProgress| {
        if let IndexingProgress::Words(0, total @ MANY_ENTRIES..) = step {
            output.note(&format!("Indexing {} first, once. Later searches need not wait for it.", entries(total)));
        }
        output.progress(&step.to_string());
    };
    let found = match &remote {
        Some(remote) => remote.search(&mut finder, &mut *store, request, usize::MAX, progress),
        None => finder.search(&mut *store, request, usize::MAX, progress),
    };
    output.clear_progress();
    Ok(found?)
}
