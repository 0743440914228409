//! Finding what a [handle](super::handle) refers to.

use std::path::Path;

use super::handle_lookup::{self, OriginalText};
use super::message_range::{OriginalMessages, RangeError, RangeSearch};
use super::store::{StoreError, StoredTurn};
use super::transcript_paths::client_folder;
use crate::store::TurnReader;
use ctxbridge_prune::{Handle, RangeHandle};

/// Finds the newest turn whose id begins with these digits; `true` if turns with another content match too.
///
/// # Errors
/// If the store cannot be read.
pub fn find_turn(store: &mut dyn TurnReader, digits: &str) -> Result<Option<(StoredTurn, bool)>, StoreError> {
    let mut found = store.turns_by_id(digits)?.into_iter();
    let Some(newest) = found.next() else { return Ok(None) };
    let is_ambiguous = found.any(|other| other.entry != newest.entry);
    Ok(Some((newest, is_ambiguous)))
}

/// Finds a text of a message, nearest places first: the transcripts of the project that `folder` is in, then the archive, which has
/// most of the others and is opened only then, then transcripts that are not archived.
///
/// # Errors
/// As `archived`.
pub fn find_text<E>(
    handle: &Handle,
    folder: &Path,
    archived: impl FnOnce() -> Result<Option<OriginalText>, E>,
) -> Result<Option<OriginalText>, E> {
    let (own, others) = client_folder().map(|client| handle_lookup::partition_transcripts(&client, folder)).unwrap_or_default();
    if let Some(original) = handle_lookup::find_in_transcripts(handle, &own) {
        return Ok(Some(original));
    }
    Ok(archived()?.or_else(|| handle_lookup::find_in_transcripts(handle, &others)))
}

/// Finds the messages of a range, in the same places and order as [`find_text`].
///
/// # Errors
/// As `archived`; the inner error if they are not found.
pub fn find_messages<E>(
    range: &RangeHandle,
    folder: &Path,
    archived: impl FnOnce(&mut RangeSearch<'_>) -> Result<(), E>,
) -> Result<Result<OriginalMessages, RangeError>, E> {
    let (own, others) = client_folder().map(|client| handle_lookup::partition_transcripts(&client, folder)).unwrap_or_default();
    let mut search = RangeSearch::new(range);
    search.search_transcripts(&own);
    if !search.is_done() {
        archived(&mut search)?;
    }
    if !search.is_done() {
        search.search_transcripts(&others);
    }
    Ok(search.finish())
}
