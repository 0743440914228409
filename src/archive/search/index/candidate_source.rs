//! The index as a source of candidates.

use super::excerpt::Excerpt;
use super::{AllowedIds, LexicalQuery, SearchIndex};
use crate::search::candidate_source::{CandidateSource, Coverage};
use crate::search::query::QueryTerms;
use crate::search::tokens::Tokenizer;
use crate::search::{Filter, SearchError};
use crate::store::{StoreReader, TurnLocation};

impl CandidateSource for SearchIndex {
    type PreparedQuery = LexicalQuery;
    type ResolvedFilter = AllowedIds;

    fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    fn coverage(&mut self, _: &mut dyn StoreReader, model: &str) -> Result<Coverage, SearchError> {
        let (with, all) = SearchIndex::coverage(self, model)?;
        Ok(Coverage::Counted(with, all))
    }

    fn prepare(&mut self, _: &mut dyn StoreReader, terms: &QueryTerms, columns: &[&str]) -> Result<LexicalQuery, SearchError> {
        SearchIndex::prepare(self, terms, columns)
    }

    fn resolve_filter(&mut self, _: &mut dyn StoreReader, filter: &Filter) -> Result<Option<AllowedIds>, SearchError> {
        SearchIndex::resolve_filter(self, filter)
    }

    fn is_allowed(&self, allowed: &AllowedIds, place: &TurnLocation) -> bool {
        allowed.turns.contains(&place.key)
    }

    fn newest(&mut self, _: &mut dyn StoreReader, allowed: &AllowedIds, most: usize) -> Result<Vec<i64>, SearchError> {
        Ok(allowed.newest(most))
    }

    fn search_lexical(
        &mut self,
        _: &mut dyn StoreReader,
        asked: &LexicalQuery,
        allowed: Option<&AllowedIds>,
        limit: usize,
        also: &[i64],
    ) -> Result<Vec<(i64, f64)>, SearchError> {
        SearchIndex::search_lexical(self, asked, allowed.map(|allowed| &allowed.entries), limit, also)
    }

    fn search_dense(
        &mut self,
        _: &mut dyn StoreReader,
        (model, vector): (&str, &[f32]),
        allowed: Option<&AllowedIds>,
        limit: usize,
    ) -> Result<Vec<(i64, f32)>, SearchError> {
        SearchIndex::search_dense(self, model, vector, allowed.map(|allowed| &allowed.entries), limit)
    }

    fn cosines(&mut self, (model, vector): (&str, &[f32]), entries: &[i64]) -> Result<Vec<(i64, f32)>, SearchError> {
        SearchIndex::cosines(self, model, vector, entries)
    }

    fn excerpt(&mut self, _: &mut dyn StoreReader, entry: i64) -> Result<Option<Excerpt>, SearchError> {
        SearchIndex::excerpt(self, entry)
    }
}
