//! Brings the index up to date with the archive.

use super::index::Document;
use super::{Index, SearchError};
use crate::archive::store::{Place, Store};
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
                    // All places have the same content.
                    let places = store.places(&[one.entry])?;
                    let rank = |place: &&Place| (!place.is_superseded, place.key);
                    if let Some(turn) = places.iter().max_by_key(rank).map_or(Ok(None), |place| store.turn_of(place))? {
                        // One that cannot be read is indexed as empty, or it would be tried at every search.
                        document.fields = words::fields(store, &turn).unwrap_or_else(|_| Fields::default());
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
