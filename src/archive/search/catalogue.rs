//! Where it is looked up which entries have words, and which are near to a vector.

use super::index::excerpt::Excerpt;
use super::query::Terms;
use super::tokens::Tokenizer;
use super::{Filter, SearchError, refresh};
use crate::store::{Place, Store};

/// Vectors that there are of entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Coverage {
    /// So many entries have some, of so many.
    Counted(u64, u64),
    /// Mostly all that could; to count them would take too long.
    Uncounted,
    /// None, ever, and why.
    Never(String),
}

/// Of an archive of one kind: an index beside it, the archive itself, or its server.
///
/// A search asks it for candidates; everything else is the same for all archives.
pub trait Catalogue {
    /// What was asked for, and what can be known of it before it is known who may be found.
    type Asked;

    /// What a filter lets through.
    type Allowed;

    /// The cutter of texts that it was made with.
    fn tokenizer(&self) -> &Tokenizer;

    /// Which entries have vectors of a model.
    ///
    /// # Errors
    /// When it cannot be read.
    fn coverage(&mut self, store: &mut dyn Store, model: &str) -> Result<Coverage, SearchError>;

    /// Looks up who has these terms in these columns (any, where there are none).
    ///
    /// # Errors
    /// When it cannot be read.
    fn ask(&mut self, store: &mut dyn Store, terms: &Terms, columns: &[&str]) -> Result<Self::Asked, SearchError>;

    /// What the user has to know of what was [asked](Self::ask).
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }

    /// What a filter lets through; nothing when it lets all through.
    ///
    /// # Errors
    /// When it cannot be read.
    fn allowed(&mut self, store: &mut dyn Store, filter: &Filter) -> Result<Option<Self::Allowed>, SearchError>;

    /// Whether it lets a turn through, of an entry that was found with the same.
    fn is_allowed(&self, allowed: &Self::Allowed, place: &Place) -> bool;

    /// The newest entries that it lets through.
    ///
    /// # Errors
    /// When it cannot be read.
    fn newest(&mut self, store: &mut dyn Store, allowed: &Self::Allowed, most: usize) -> Result<Vec<i64>, SearchError>;

    /// The best entries by words, with their BM25 as a part of the most that these terms could give; and those of `also` that have some, where
    /// that is known.
    ///
    /// # Errors
    /// When it cannot be read.
    fn lexical(
        &mut self,
        store: &mut dyn Store,
        asked: &Self::Asked,
        allowed: Option<&Self::Allowed>,
        limit: usize,
        also: &[i64],
    ) -> Result<Vec<(i64, f64)>, SearchError>;

    /// The entries whose best passage is nearest to a vector, with the cosine.
    ///
    /// # Errors
    /// When it cannot be read.
    fn dense(
        &mut self,
        store: &mut dyn Store,
        vector: (&str, &[f32]),
        allowed: Option<&Self::Allowed>,
        limit: usize,
    ) -> Result<Vec<(i64, f32)>, SearchError>;

    /// How near these entries are, where that is known.
    ///
    /// # Errors
    /// When it cannot be read.
    fn cosines(&mut self, vector: (&str, &[f32]), entries: &[i64]) -> Result<Vec<(i64, f32)>, SearchError>;

    /// Whether what is looked for in some kinds of text is found in no other.
    fn tells_kinds_apart(&self) -> bool {
        true
    }

    /// How an entry is shown; nothing where it is not known.
    ///
    /// # Errors
    /// When it cannot be read.
    fn excerpt(&mut self, store: &mut dyn Store, entry: i64) -> Result<Option<Excerpt>, SearchError> {
        refresh::excerpt(store, entry)
    }
}
