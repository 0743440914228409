//! Gives indexed entries their vectors.

use super::passages::Texts;
use super::refresh::turn_with_fields;
use super::{Index, SearchError, around};
use crate::embed::Embedder;
use crate::store::Store;
use ctxbridge_transcript::Fields;

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
    let mut is_cut = false;
    while done.entries < most {
        let entries = index.without_vectors(embedder.id(), AT_ONCE.min(most - done.entries))?;
        if entries.is_empty() {
            return Ok(Embedded { is_complete: true, ..done });
        }
        let mut texts: Vec<(i64, Texts)> = Vec::with_capacity(entries.len());
        for entry in entries {
            match texts_of(store, index, entry) {
                // The newest come first, so what is behind one in cold storage is mostly there as well: for another time.
                Err(SearchError::Store(error)) if error.is_cold() => {
                    is_cut = true;
                    break;
                }
                made => texts.push((entry, made?)),
            }
        }
        let flat: Vec<&str> = texts.iter().flat_map(|(_, texts)| texts.all()).collect();
        let mut made = embedder.embed(&flat)?.into_iter();
        let mut of = |texts: &Texts| texts.vectors(made.by_ref().take(texts.all().count()).collect());
        let vectors: Vec<(i64, Vec<Vec<f32>>)> = texts.iter().map(|(entry, texts)| (*entry, of(texts))).collect();
        index.set_vectors(embedder.id(), &vectors)?;
        done.entries += vectors.len();
        done.vectors += vectors.iter().map(|(_, vectors)| vectors.len()).sum::<usize>();
        progress(done.entries);
        if is_cut {
            break;
        }
    }
    Ok(done)
}

/// What is made into the vectors of an entry.
///
/// # Errors
/// When the archive or the index cannot be read.
pub fn texts_of(store: &mut dyn Store, index: &Index, entry: i64) -> Result<Texts, SearchError> {
    match turn_with_fields(store, entry)? {
        Some((place, _, fields)) => Texts::of(&fields.unwrap_or_default(), || around::beside(store, index, &place)),
        None => {
            let text = store.summary_of(entry)?.map_or_else(String::new, |(_, summary)| summary.text);
            Texts::of(&Fields { answer: text, ..Fields::default() }, || Ok(<[String; 2]>::default()))
        }
    }
}
