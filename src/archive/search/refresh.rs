//! Brings the index up to date with the archive.

use super::index::Document;
use super::{Index, SearchError};
use crate::archive::store::{Store, StoredTurn};
use crate::archive::words;
use crate::transcript::Fields;

/// Entries that go into the index at once: an interruption costs no more.
const AT_ONCE: usize = 200;

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
    let revision = store.revision()?;
    // An archive that nothing has changed since it was migrated counts from no number of its own.
    if revision > 0 && index.revision()? == Some(revision) {
        return Ok(Refreshed { is_complete: true, ..refreshed });
    }
    index.drop_gone()?;
    let mut below = i64::MAX;
    while refreshed.entries < most {
        let missing = index.missing(below, AT_ONCE.min(most - refreshed.entries))?;
        if missing.is_empty() {
            index.set_revision(revision)?;
            return Ok(Refreshed { is_complete: true, ..refreshed });
        }
        let mut documents = Vec::with_capacity(missing.len());
        for one in missing {
            below = one.entry;
            let mut document = Document { entry: one.entry, sha256: one.sha256, ..Document::default() };
            match one.summary {
                Some(summary) => document.summary = summary,
                None => {
                    if let Some((turn, fields)) = turn_with_fields(store, one.entry)? {
                        document.fields = fields;
                        document.files = turn.turn.files;
                    }
                }
            }
            documents.push(document);
        }
        index.add(&documents)?;
        refreshed.entries += documents.len();
        progress(refreshed.entries);
    }
    Ok(refreshed)
}

/// A turn of an entry, and what it says; none where the entry is no turn's. All turns of an entry say the same.
pub(super) fn turn_with_fields(store: &mut dyn Store, entry: i64) -> Result<Option<(StoredTurn, Fields)>, SearchError> {
    let places = store.places(&[entry])?;
    let Some(place) = places.iter().max_by_key(|place| (!place.is_superseded, place.key)) else { return Ok(None) };
    let Some(turn) = store.turn_of(place)? else { return Ok(None) };
    // One that cannot be read counts as empty, or it would be tried again and again.
    let fields = words::fields(store, &turn).unwrap_or_default();
    Ok(Some((turn, fields)))
}
