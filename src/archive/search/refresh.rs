//! Brings the index up to date with the archive. The store's [`Changes`](crate::store::Changes) list what the index lacks, mostly
//! one turn.

use std::collections::HashMap;

use super::index::excerpt::Excerpt;
use super::index::{Document, UnindexedEntry};
use super::{SearchError, SearchIndex, neighbor_context};
use crate::store::{StoreReader, StoredTurn, TurnLocation};
use crate::{quote, turn_text};
use ctxbridge_transcript::SearchableText;

/// Entries that are indexed at once: an interruption loses at most these.
const INDEX_BATCH_ENTRIES: usize = 200;

/// Maximum number of characters of the one-line text of a summary.
const MAX_SUMMARY_LINE_CHARS: usize = 300;

/// Report of bringing the index up to date.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RefreshReport {
    /// Entries that are new in the index, or were changed.
    pub entries: usize,
    /// `true` if nothing is missing now.
    pub is_complete: bool,
}

/// Indexes missing entries, the newest first, at most `most`. If they are many, `progress` receives the number so far, from 0 on, and
/// the number of all that will be indexed.
///
/// # Errors
/// If the archive or the index cannot be read or written.
pub fn refresh(
    store: &mut dyn StoreReader,
    index: &mut SearchIndex,
    most: usize,
    progress: &mut dyn FnMut(usize, u64),
) -> Result<RefreshReport, SearchError> {
    let mut refreshed = RefreshReport::default();
    let known = index.archive_revision()?;
    let changes = store.changes(known.as_deref())?;
    if known.as_ref() == Some(&changes.revision) {
        return Ok(RefreshReport { is_complete: true, ..refreshed });
    }
    if let Some(entries) = changes.entries.filter(|entries| entries.len() <= INDEX_BATCH_ENTRIES.min(most)) {
        // After each prompt a turn has changed: to compare everything would take longer than to search.
        let missing = index.missing_among(&entries)?;
        refreshed.entries = missing.len();
        let is_complete = add(store, index, missing)?;
        if is_complete {
            index.set_archive_revision(&changes.revision)?;
        }
        return Ok(RefreshReport { is_complete, ..refreshed });
    }
    index.drop_gone()?;
    // To count them takes a moment, which is little where all of them are indexed.
    let total = if most == usize::MAX { index.count_missing()? } else { most as u64 };
    progress(0, total);
    let mut below = i64::MAX;
    let mut is_complete = true;
    while refreshed.entries < most {
        let missing = index.missing(below, INDEX_BATCH_ENTRIES.min(most - refreshed.entries))?;
        let Some(last) = missing.last() else {
            if is_complete {
                index.set_archive_revision(&changes.revision)?;
            }
            return Ok(RefreshReport { is_complete, ..refreshed });
        };
        below = last.entry;
        refreshed.entries += missing.len();
        is_complete &= add(store, index, missing)?;
        progress(refreshed.entries, total);
    }
    Ok(refreshed)
}

/// Adds missing entries; returns `true` if all of them could be read. Entries in cold storage that is not available have to be
/// tried again.
fn add(store: &mut dyn StoreReader, index: &mut SearchIndex, missing: Vec<UnindexedEntry>) -> Result<bool, SearchError> {
    let (documents, is_complete) = read_documents(store, Some(index), missing)?;
    index.add(&documents)?;
    Ok(is_complete)
}

/// Reads the texts of entries, except those that cannot be read now; the second value is `true` if there are none of these. An
/// index may know the texts before them.
pub(super) fn read_documents(
    store: &mut dyn StoreReader,
    index: Option<&SearchIndex>,
    missing: Vec<UnindexedEntry>,
) -> Result<(Vec<Document>, bool), SearchError> {
    let mut is_complete = true;
    let mut documents = Vec::with_capacity(missing.len());
    let mut said = HashMap::new();
    let mut short = Vec::new();
    for UnindexedEntry { entry, sha256, side_revision, summary } in missing {
        let mut document = Document { entry, sha256, side_revision, ..Document::default() };
        match summary {
            Some(summary) => {
                document.line = quote::cut(&quote::line(&summary), MAX_SUMMARY_LINE_CHARS);
                document.summary = summary;
            }
            None => {
                let found = match turn_with_fields(store, entry) {
                    Err(SearchError::Store(error)) if error.is_cold() => {
                        is_complete = false;
                        continue;
                    }
                    found => found?,
                };
                if let Some((place, turn, fields)) = found {
                    document.is_unreadable = fields.is_none();
                    let fields = fields.unwrap_or_default();
                    said.insert(entry, neighbor_context::context_text(&fields.prompt, &fields.answer));
                    if neighbor_context::is_short_turn(&fields) {
                        short.push((documents.len(), place));
                    }
                    document.line = turn_text::summary(store, &turn).unwrap_or_default();
                    document.fields = fields;
                    document.files = turn.turn.files;
                }
            }
        }
        documents.push(document);
    }
    // What came before is mostly among them.
    for (at, place) in short {
        documents[at].before = neighbor_context::context_before(store, index, &place, &said)?;
    }
    Ok((documents, is_complete))
}

/// Returns the excerpt of an entry without using an index; `None` if there is no such entry.
pub(super) fn read_excerpt(store: &mut dyn StoreReader, entry: i64) -> Result<Option<Excerpt>, SearchError> {
    let summary = store.summary_of(entry)?.map(|(_, summary)| summary.text);
    let (mut documents, _) = read_documents(store, None, vec![UnindexedEntry { entry, summary, ..UnindexedEntry::default() }])?;
    Ok(documents.pop().map(|document| Excerpt::of(&document)))
}

/// Returns a turn of an entry, its location, and its text; `None` if the entry is not a turn's. All turns of an entry have the same
/// text. It is an error if the text is in cold storage that is not available.
pub(super) fn turn_with_fields(
    store: &mut dyn StoreReader,
    entry: i64,
) -> Result<Option<(TurnLocation, StoredTurn, Option<SearchableText>)>, SearchError> {
    let mut places = store.turn_locations(&[entry])?;
    places.sort_by_cached_key(|place| std::cmp::Reverse(place.rank()));
    let mut unreadable = None;
    for place in places {
        let Some(turn) = store.turn_by_location(&place)? else { continue };
        match turn_text::fields(store, &turn) {
            Err(error) if error.is_cold() => unreadable = Some(error),
            // One that is damaged counts as empty, or it would be tried again and again.
            fields => return Ok(Some((place, turn, fields.ok()))),
        }
    }
    unreadable.map_or(Ok(None), |error| Err(error.into()))
}
