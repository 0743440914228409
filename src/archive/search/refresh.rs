//! Brings the index up to date with the archive.

use std::collections::HashMap;

use super::index::excerpt::Excerpt;
use super::index::{Document, Missing};
use super::{Index, SearchError, around};
use crate::store::{Place, Store, StoredTurn};
use crate::{quote, words};
use ctxbridge_transcript::Fields;

/// Entries that go into the index at once: an interruption costs no more.
const AT_ONCE: usize = 200;

/// Characters of the line that says what a summary was about.
const LINE_CHARS: usize = 300;

/// What was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refreshed {
    /// Entries that are new in the index, or were changed.
    pub entries: usize,
    /// Whether nothing is missing now.
    pub is_complete: bool,
}

/// Indexes what is missing, the newest first, at most so many entries; `progress` hears how many there are already.
///
/// # Errors
/// When the archive or the index cannot be read or written.
pub fn refresh(
    store: &mut dyn Store,
    index: &mut Index,
    most: usize,
    progress: &mut dyn FnMut(usize),
) -> Result<Refreshed, SearchError> {
    let mut refreshed = Refreshed::default();
    let known = index.mark()?;
    let changes = store.changes(known.as_deref())?;
    if known.as_ref() == Some(&changes.mark) {
        return Ok(Refreshed { is_complete: true, ..refreshed });
    }
    if let Some(entries) = changes.entries.filter(|entries| entries.len() <= AT_ONCE.min(most)) {
        // After each prompt a turn has changed: to compare everything would take longer than to search.
        let missing = index.missing_of(&entries)?;
        refreshed.entries = missing.len();
        let is_complete = add(store, index, missing)?;
        if is_complete {
            index.set_mark(&changes.mark)?;
        }
        return Ok(Refreshed { is_complete, ..refreshed });
    }
    index.drop_gone()?;
    let mut below = i64::MAX;
    let mut is_complete = true;
    while refreshed.entries < most {
        let missing = index.missing(below, AT_ONCE.min(most - refreshed.entries))?;
        let Some(last) = missing.last() else {
            if is_complete {
                index.set_mark(&changes.mark)?;
            }
            return Ok(Refreshed { is_complete, ..refreshed });
        };
        below = last.entry;
        refreshed.entries += missing.len();
        is_complete &= add(store, index, missing)?;
        progress(refreshed.entries);
    }
    Ok(refreshed)
}

/// Whether all of them could be read: what is in cold storage that is not there has to be tried again.
fn add(store: &mut dyn Store, index: &mut Index, missing: Vec<Missing>) -> Result<bool, SearchError> {
    let (documents, is_complete) = documents(store, Some(index), missing)?;
    index.add(&documents)?;
    Ok(is_complete)
}

/// What entries say, but for those that cannot be read now; whether there are none of these. An index may know what was said before them.
pub(super) fn documents(
    store: &mut dyn Store,
    index: Option<&Index>,
    missing: Vec<Missing>,
) -> Result<(Vec<Document>, bool), SearchError> {
    let mut is_complete = true;
    let mut documents = Vec::with_capacity(missing.len());
    let mut said = HashMap::new();
    let mut short = Vec::new();
    for Missing { entry, sha256, summary } in missing {
        let mut document = Document { entry, sha256, ..Document::default() };
        match summary {
            Some(summary) => {
                document.line = quote::cut(&quote::line(&summary), LINE_CHARS);
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
                    said.insert(entry, around::said(&fields.prompt, &fields.answer));
                    if around::is_short(&fields) {
                        short.push((documents.len(), place));
                    }
                    document.line = words::summary(store, &turn).unwrap_or_default();
                    document.fields = fields;
                    document.files = turn.turn.files;
                }
            }
        }
        documents.push(document);
    }
    // What came before is mostly among them.
    for (at, place) in short {
        documents[at].before = around::before(store, index, &place, &said)?;
    }
    Ok((documents, is_complete))
}

/// How an entry is shown, without an index that knows it already; nothing where there is none.
pub(super) fn excerpt(store: &mut dyn Store, entry: i64) -> Result<Option<Excerpt>, SearchError> {
    let summary = store.summary_of(entry)?.map(|(_, summary)| summary.text);
    let (mut documents, _) = documents(store, None, vec![Missing { entry, sha256: Vec::new(), summary }])?;
    Ok(documents.pop().map(|document| Excerpt::of(&document)))
}

/// A turn of an entry, where it is, and what it says; none where the entry is no turn's. All turns of an entry say the same. That it is in
/// cold storage, and that is not there, is an error.
pub(super) fn turn_with_fields(
    store: &mut dyn Store,
    entry: i64,
) -> Result<Option<(Place, StoredTurn, Option<Fields>)>, SearchError> {
    let mut places = store.places(&[entry])?;
    places.sort_by_cached_key(|place| std::cmp::Reverse(place.rank()));
    let mut unreadable = None;
    for place in places {
        let Some(turn) = store.turn_of(&place)? else { continue };
        match words::fields(store, &turn) {
            Err(error) if error.is_cold() => unreadable = Some(error),
            // One that is damaged counts as empty, or it would be tried again and again.
            fields => return Ok(Some((place, turn, fields.ok()))),
        }
    }
    unreadable.map_or(Ok(None), |error| Err(error.into()))
}
