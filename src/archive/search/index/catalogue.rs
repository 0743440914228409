//! The index as what a search asks.

use super::excerpt::Excerpt;
use super::{Allowed, Asked, Index};
use crate::search::catalogue::{Catalogue, Coverage};
use crate::search::query::Terms;
use crate::search::tokens::Tokenizer;
use crate::search::{Filter, SearchError};
use crate::store::{Place, Store};

impl Catalogue for Index {
    type Asked = Asked;
    type Allowed = Allowed;

    fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    fn coverage(&mut self, _: &mut dyn Store, model: &str) -> Result<Coverage, SearchError> {
        let (with, all) = Index::coverage(self, model)?;
        Ok(Coverage::Counted(with, all))
    }

    fn ask(&mut self, _: &mut dyn Store, terms: &Terms, columns: &[&str]) -> Result<Asked, SearchError> {
        Index::ask(self, terms, columns)
    }

    fn allowed(&mut self, _: &mut dyn Store, filter: &Filter) -> Result<Option<Allowed>, SearchError> {
        Index::allowed(self, filter)
    }

    fn is_allowed(&self, allowed: &Allowed, place: &Place) -> bool {
        allowed.turns.contains(&place.key)
    }

    fn newest(&mut self, _: &mut dyn Store, allowed: &Allowed, most: usize) -> Result<Vec<i64>, SearchError> {
        Ok(allowed.newest(most))
    }

    fn lexical(
        &mut self,
        _: &mut dyn Store,
        asked: &Asked,
        allowed: Option<&Allowed>,
        limit: usize,
        also: &[i64],
    ) -> Result<Vec<(i64, f64)>, SearchError> {
        Index::lexical(self, asked, allowed.map(|allowed| &allowed.entries), limit, also)
    }

    fn dense(
        &mut self,
        _: &mut dyn Store,
        (model, vector): (&str, &[f32]),
        allowed: Option<&Allowed>,
        limit: usize,
    ) -> Result<Vec<(i64, f32)>, SearchError> {
        Index::dense(self, model, vector, allowed.map(|allowed| &allowed.entries), limit)
    }

    fn cosines(&mut self, (model, vector): (&str, &[f32]), entries: &[i64]) -> Result<Vec<(i64, f32)>, SearchError> {
        Index::cosines(self, model, vector, entries)
    }

    fn excerpt(&mut self, _: &mut dyn Store, entry: i64) -> Result<Option<Excerpt>, SearchError> {
        Index::excerpt(self, entry)
    }
}
