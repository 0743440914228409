//! Code shared by commands that search.

use std::path::Path;

use super::output::Output;
use super::server;
use ctxbridge_archive::recovery;
use ctxbridge_archive::search::{IndexingProgress, IndexingReport, SearchRequest, SearchResults, Searcher};
use ctxbridge_archive::store::sqlite::{LockPolicy, SqliteStore};
use ctxbridge_common::paths;

/// Searches the user's archive and, unless `only_here`, the team server. Brings the index up to date first.
pub(super) fn search(request: &SearchRequest, only_here: bool, output: &mut Output) -> anyhow::Result<SearchResults> {
    let mut store = super::archive::open(output)?;
    let remote = if only_here { None } else { server::federated(output)? };
    let mut finder = Searcher::new(paths::data_dir()?);
    let progress = &mut |step| tell(&step, output);
    let found = match &remote {
        Some(remote) => remote.search(&mut finder, &mut *store, request, usize::MAX, progress),
        None => finder.search(&mut *store, request, usize::MAX, progress),
    };
    output.clear_progress();
    Ok(found?)
}

/// Brings the index up to date, and embeds at most `most` entries.
pub(super) fn catch_up(data: &Path, most: usize, output: &Output) -> anyhow::Result<IndexingReport> {
    let (mut store, _) = recovery::open_or_recover(data, LockPolicy::Background)?;
    Ok(Searcher::new(data.to_owned()).catch_up(&mut store, most, &mut |step| tell(&step, output))?)
}

/// Reports the work that [`catch_up`] would do without a limit.
pub(super) fn index_backlog(data: &Path) -> anyhow::Result<IndexingReport> {
    let _presence = recovery::lock_in_use(data, LockPolicy::Background)?;
    match SqliteStore::open_read_only(data)? {
        Some(mut store) => Ok(Searcher::new(data.to_owned()).backlog(&mut store)?),
        None => Ok(IndexingReport::default()),
    }
}

fn tell(step: &IndexingProgress, output: &Output) {
    output.progress(&match step {
        IndexingProgress::Words(done) => format!("indexing, {done} entries so far"),
        IndexingProgress::Vectors(done, missing) => format!("making vectors, {done} of {missing} entries"),
        IndexingProgress::Optimizing => "tidying the index".to_owned(),
    });
}
