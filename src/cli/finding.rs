//! What commands that search have in common: an index that is up to date, and a model if there is one.

use std::path::Path;

use super::output::Output;
use crate::archive::embed::{self, Embedder};
use crate::archive::heal;
use crate::archive::search::{self, Found, Index, Mode, Request};
use crate::archive::store::Store;
use crate::archive::store::sqlite::{Patience, SqliteStore};
use crate::paths;

/// Searches the user's archive, by words alone where there is no model and no other mode is asked for. What the index does not have
/// yet is taken in first.
pub(super) fn search(request: &Request, mode: Option<Mode>, output: &mut Output) -> anyhow::Result<Found> {
    let mut store = super::archive::open(output)?;
    let mut index = Index::open(&paths::data_dir()?)?;
    search::refresh(&mut store, &mut index, usize::MAX, &mut |done| {
        output.progress(&format!("indexing, {done} entries so far"));
    })?;
    let mut embedder = if mode == Some(Mode::Lexical) { None } else { embed::installed() };
    let mode = mode.unwrap_or(if embedder.is_some() { Mode::Hybrid } else { Mode::Lexical });
    let request = &Request { mode, ..request.clone() };
    let embedder = embedder.as_mut().map(|embedder| &mut **embedder as &mut dyn Embedder);
    let found = search::search(&mut store, &mut index, embedder, request);
    output.clear_progress();
    Ok(found?)
}

/// What was done for the index, or would be.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Indexed {
    /// Entries that were taken in.
    pub entries: usize,
    /// Entries that got vectors.
    pub embedded: usize,
    /// Entries that have none.
    pub not_embedded: usize,
    /// Whether there is a model.
    pub has_model: bool,
}

/// Brings the index up to date, and makes vectors of at most so many entries.
pub(super) fn catch_up(data: &Path, most: usize, output: &Output) -> anyhow::Result<Indexed> {
    let (mut store, _) = heal::open(data, Patience::Patient)?;
    let mut index = Index::open(data)?;
    let refreshed = search::refresh(&mut store, &mut index, usize::MAX, &mut |done| {
        output.progress(&format!("indexing, {done} entries so far"));
    })?;
    let mut indexed = Indexed { entries: refreshed.entries, ..Indexed::default() };
    if let Some(mut embedder) = embed::installed() {
        indexed.has_model = true;
        let (with, all) = index.coverage()?;
        let missing = all.saturating_sub(with);
        let embedded = search::embed(&mut store, &mut index, &mut *embedder, most, &mut |done| {
            output.progress(&format!("making vectors, {done} of {missing} entries"));
        })?;
        indexed.embedded = embedded.entries;
    }
    if refreshed.entries > 0 {
        output.progress("tidying the index");
        index.settle()?;
    }
    let (with, all) = index.coverage()?;
    Ok(Indexed { not_embedded: usize::try_from(all.saturating_sub(with))?, ..indexed })
}

/// What [`catch_up`] would do without a limit.
pub(super) fn behind(data: &Path) -> anyhow::Result<Indexed> {
    let (entries, without) = match Index::existing(data)? {
        Some(mut index) => {
            let entries = usize::try_from(index.count_missing()?)?;
            let (with, all) = index.coverage()?;
            (entries, usize::try_from(all.saturating_sub(with))? + entries)
        }
        None => {
            let all =
                SqliteStore::open_read_only(data)?.map_or(Ok(0), |mut store| store.totals().map(|totals| totals.entries))?;
            (usize::try_from(all)?, usize::try_from(all)?)
        }
    };
    let has_model = embed::installed().is_some();
    let (embedded, not_embedded) = if has_model { (without, 0) } else { (0, without) };
    Ok(Indexed { entries, embedded, not_embedded, has_model })
}
