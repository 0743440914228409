//! Brings the index up to date with the archive.

use super::index::{Document, Missing};
use super::{Index, SearchError};
use crate::archive::store::{Store, StoredTurn};
use crate::archive::{quote, words};
use crate::transcript::Fields;

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
        add(store, index, missing)?;
        index.set_mark(&changes.mark)?;
        return Ok(Refreshed { is_complete: true, ..refreshed });
    }
    index.drop_gone()?;
    let mut below = i64::MAX;
    while refreshed.entries < most {
        let missing = index.missing(below, AT_ONCE.min(most - refreshed.entries))?;
        let Some(last) = missing.last() else {
            index.set_mark(&changes.mark)?;
            return Ok(Refreshed { is_complete: true, ..refreshed });
        };
        below = last.entry;
        refreshed.entries += missing.len();
        add(store, index, missing)?;
        progress(refreshed.entries);
    }
    Ok(refreshed)
}

fn add(store: &mut dyn Store, index: &mut Index, missing: Vec<Missing>) -> Result<(), SearchError> {
    let mut documents = Vec::with_capacity(missing.len());
    for Missing { entry, sha256, summary } in missing {
        let mut document = Document { entry, sha256, ..Document::default() };
        match summary {
            Some(summary) => {
                document.line = quote::cut(&quote::line(&summary), LINE_CHARS);
                document.summary = summary;
            }
            None => {
                if let Some((turn, fields)) = turn_with_fields(store, entry)? {
                    document.line = words::summary(store, &turn).unwrap_or_default();
                    document.fields = fields;
                    document.files = turn.turn.files;
                }
            }
        }
        documents.push(document);
    }
    index.add(&documents)
}

/// A turn of an entry, and what it says; none where the entry is no turn's. All turns of an entry say the same.
pub(super) fn turn_with_fields(store: &mut dyn Store, entry: i64) -> Result<Option<(StoredTurn, Fields)>, SearchError> {
    let places = store.places(&[entry])?;
    let Some(place) = places.iter().max_by_key(|place| place.rank()) else { return Ok(None) };
    let Some(turn) = store.turn_of(place)? else { return Ok(None) };
    // One that cannot be read counts as empty, or it would be tried again and again.
    let fields = words::fields(store, &turn).unwrap_or_default();
    Ok(Some((turn, fields)))
}
