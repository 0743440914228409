//! Source of a search's candidates: entries by words, and entries near to a vector.

use super::index::excerpt::Excerpt;
use super::query::QueryTerms;
use super::tokens::Tokenizer;
use super::{Filter, SearchError, refresh};
use crate::store::{StoreReader, TurnLocation};

/// Coverage of entries by vectors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Coverage {
    /// Number of entries with vectors, and number of all entries.
    Counted(u64, u64),
    /// Nearly all that can have them; counting would take too long.
    Uncounted,
    /// Never any; the text says why.
    Never(String),
}

/// Source of candidates for one kind of archive: an index beside it, the archive itself, or its server.
///
/// Only the candidates depend on the kind of archive; everything else is the same for all.
pub trait CandidateSource {
    /// A prepared query: all that can be known of it before the filter is known.
    type PreparedQuery;

    /// The set of turns that a filter lets through.
    type ResolvedFilter;

    /// Returns the tokenizer that it was made with.
    fn tokenizer(&self) -> &Tokenizer;

    /// Returns the coverage of entries by vectors of a model.
    ///
    /// # Errors
    /// If it cannot be read.
    fn coverage(&mut self, store: &mut dyn StoreReader, model: &str) -> Result<Coverage, SearchError>;

    /// Looks up the entries with these terms in these columns (in any column if there are none).
    ///
    /// # Errors
    /// If it cannot be read.
    fn prepare(
        &mut self,
        store: &mut dyn StoreReader,
        terms: &QueryTerms,
        columns: &[&str],
    ) -> Result<Self::PreparedQuery, SearchError>;

    /// Returns notes for the user about what was [prepared](Self::prepare).
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns the set that a filter lets through; `None` if it lets everything through.
    ///
    /// # Errors
    /// If it cannot be read.
    fn resolve_filter(
        &mut self,
        store: &mut dyn StoreReader,
        filter: &Filter,
    ) -> Result<Option<Self::ResolvedFilter>, SearchError>;

    /// `true` if `allowed` contains a turn, of an entry that was found with the same set.
    fn is_allowed(&self, allowed: &Self::ResolvedFilter, place: &TurnLocation) -> bool;

    /// Returns the newest entries of `allowed`.
    ///
    /// # Errors
    /// If it cannot be read.
    fn newest(
        &mut self,
        store: &mut dyn StoreReader,
        allowed: &Self::ResolvedFilter,
        most: usize,
    ) -> Result<Vec<i64>, SearchError>;

    /// Returns the best entries by words, with their BM25 as a share of the maximum that these terms could give. Also returns those
    /// entries of `also` that have some of the words, where that is known.
    ///
    /// # Errors
    /// If it cannot be read.
    fn search_lexical(
        &mut self,
        store: &mut dyn StoreReader,
        asked: &Self::PreparedQuery,
        allowed: Option<&Self::ResolvedFilter>,
        limit: usize,
        also: &[i64],
    ) -> Result<Vec<(i64, f64)>, SearchError>;

    /// Returns the entries whose best passage is nearest to a vector, with the cosine.
    ///
    /// # Errors
    /// If it cannot be read.
    fn search_dense(
        &mut self,
        store: &mut dyn StoreReader,
        vector: (&str, &[f32]),
        allowed: Option<&Self::ResolvedFilter>,
        limit: usize,
    ) -> Result<Vec<(i64, f32)>, SearchError>;

    /// Returns the cosines of these entries, where they are known.
    ///
    /// # Errors
    /// If it cannot be read.
    fn cosines(&mut self, vector: (&str, &[f32]), entries: &[i64]) -> Result<Vec<(i64, f32)>, SearchError>;

    /// `true` if a search in some kinds of text finds nothing of other kinds.
    fn distinguishes_kinds(&self) -> bool {
        true
    }

    /// Returns the excerpt of an entry; `None` if it is not known.
    ///
    /// # Errors
    /// If it cannot be read.
    fn excerpt(&mut self, store: &mut dyn StoreReader, entry: i64) -> Result<Option<Excerpt>, SearchError> {
        refresh::read_excerpt(store, entry)
    }
}
