//! Gives indexed entries their vectors.

use super::refresh::turn_with_fields;
use super::{Index, SearchError, passages};
use crate::archive::embed::Embedder;
use crate::archive::store::Store;
use crate::transcript::Fields;

/// Entries between two writes: an interruption costs no more.
const AT_ONCE: usize = 20;

/// What was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Embedded {
    /// Entries that have vectors now.
    pub entries: usize,
    /// Vectors that were made.
    pub vectors: usize,
    /// Whether none is missing now.
    pub is_complete: bool,
}

/// Makes vectors of entries that have none, the newest first, at most so many entries.
///
/// # Errors
/// When the archive or the index cannot be read or written, or the model cannot be run.
pub fn embed(
    store: &mut dyn Store,
    index: &mut Index,
    embedder: &mut dyn Embedder,
    most: usize,
    progress: &mut dyn FnMut(usize),
) -> Result<Embedded, SearchError> {
    let mut done = Embedded::default();
    while done.entries < most {
        let entries = index.without_vectors(embedder.id(), AT_ONCE.min(most - done.entries))?;
        if entries.is_empty() {
            return Ok(Embedded { is_complete: true, ..done });
        }
        let mut texts: Vec<(i64, Vec<String>)> = Vec::with_capacity(entries.len());
        for entry in entries {
            texts.push((entry, of_entry(store, entry)?));
        }
        let flat: Vec<&str> = texts.iter().flat_map(|(_, texts)| texts).map(String::as_str).collect();
        let mut vectors = embedder.embed(&flat)?.into_iter();
        let vectors: Vec<(i64, Vec<Vec<f32>>)> =
            texts.iter().map(|(entry, texts)| (*entry, vectors.by_ref().take(texts.len()).collect())).collect();
        index.set_vectors(embedder.id(), &vectors)?;
        done.entries += vectors.len();
        done.vectors += flat.len();
        progress(done.entries);
    }
    Ok(done)
}

fn of_entry(store: &mut dyn Store, entry: i64) -> Result<Vec<String>, SearchError> {
    let fields = match turn_with_fields(store, entry)? {
        Some((_, fields)) => fields,
        None => store
            .summary_of(entry)?
            .map_or_else(Fields::default, |(_, summary)| Fields { answer: summary.text, ..Fields::default() }),
    };
    Ok(passages::of(&fields))
}
