//! Makes vectors of indexed entries.

use super::passages::PassageTexts;
use super::refresh::turn_with_fields;
use super::{SearchError, SearchIndex, neighbor_context};
use crate::store::StoreReader;
use ctxbridge_transcript::SearchableText;
use ctxbridge_vectors::embed::Embedder;

/// Entries between two writes: an interruption loses at most these.
const EMBED_BATCH_ENTRIES: usize = 20;

/// Report of making vectors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EmbedReport {
    /// Entries that have vectors now.
    pub entries: usize,
    /// Number of vectors that were made.
    pub vectors: usize,
    /// `true` if no vector is missing now.
    pub is_complete: bool,
}

/// Makes vectors of entries that have none, the newest first, at most `most` entries. Vectors of another model are dropped when it begins, but not
/// on the way: if another process switches the model meanwhile, it ends. `progress` receives the number of entries so far, and returns `false` to end
/// it.
///
/// # Errors
/// If the archive or the index cannot be read or written, or the model cannot be run.
pub fn embed_missing(
    store: &mut dyn StoreReader,
    index: &mut SearchIndex,
    embedder: &mut dyn Embedder,
    most: usize,
    progress: &mut dyn FnMut(usize) -> bool,
) -> Result<EmbedReport, SearchError> {
    let mut done = EmbedReport::default();
    let mut is_cut = false;
    index.switch_model(embedder.id())?;
    while done.entries < most {
        let entries = index.without_vectors(embedder.id(), EMBED_BATCH_ENTRIES.min(most - done.entries))?;
        if entries.is_empty() {
            return Ok(EmbedReport { is_complete: index.has_vectors_of(embedder.id())?, ..done });
        }
        let mut texts: Vec<(i64, PassageTexts)> = Vec::with_capacity(entries.len());
        for entry in entries {
            match passage_texts_of(store, index, entry) {
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
        let mut of = |texts: &PassageTexts| texts.vectors(made.by_ref().take(texts.all().count()).collect());
        let vectors: Vec<(i64, Vec<Vec<f32>>)> = texts.iter().map(|(entry, texts)| (*entry, of(texts))).collect();
        index.set_vectors(embedder.id(), &vectors)?;
        done.entries += vectors.len();
        done.vectors += vectors.iter().map(|(_, vectors)| vectors.len()).sum::<usize>();
        if !progress(done.entries) || is_cut {
            break;
        }
    }
    Ok(done)
}

/// Returns the texts of an entry that are made into its vectors.
///
/// # Errors
/// If the archive or the index cannot be read.
pub fn passage_texts_of(store: &mut dyn StoreReader, index: &SearchIndex, entry: i64) -> Result<PassageTexts, SearchError> {
    match turn_with_fields(store, entry)? {
        Some((place, _, fields)) => {
            PassageTexts::of(&fields.unwrap_or_default(), || neighbor_context::adjacent_contexts(store, index, &place))
        }
        None => {
            let text = store.summary_of(entry)?.map_or_else(String::new, |(_, summary)| summary.text);
            PassageTexts::of(&SearchableText { answer: text, ..SearchableText::default() }, || Ok(<[String; 2]>::default()))
        }
    }
}
