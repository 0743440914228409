//! Search on a server, which has words and vectors of its own and knows who may read what.

use std::collections::HashSet;

use super::catalogue::{Catalogue, Coverage};
use super::query::Terms;
use super::tokens::Tokenizer;
use super::{Filter, SearchError};
use crate::store::{Place, Searching, Store, StoreError, Turns};

/// Sessions that are looked up for a filter, or looked into for the newest turns, at most.
const SESSIONS: usize = 1_000;
const NEWEST_SESSIONS: usize = 20;
/// Turns of each of these.
const NEWEST_TURNS: usize = 50;

/// What the server's scores of words are at most: it adds the share of the words that are there to how they stand.
const MOST: f64 = 2.0;

/// Asks the server of a store for everything.
#[derive(Debug, Default)]
pub struct Remote {
    tokenizer: Tokenizer,
}

/// A filter, which the server knows how to apply, and what is needed here to tell places of one entry apart.
pub struct Limits {
    filter: Filter,
    sessions: Option<HashSet<i64>>,
}

fn server(store: &mut dyn Store) -> Result<&mut dyn Searching, SearchError> {
    let place = store.place();
    let none = || StoreError::Sink(std::io::Error::other(format!("{place} does not search by itself")));
    Ok(store.searching().ok_or_else(none)?)
}

impl Catalogue for Remote {
    /// As the index reads it; none where nothing is asked for.
    type Asked = Option<String>;
    type Allowed = Limits;

    fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    fn coverage(&mut self, store: &mut dyn Store, _: &str) -> Result<Coverage, SearchError> {
        Ok(match server(store)?.has_vectors()? {
            true => Coverage::Uncounted,
            false => Coverage::Never("the server has no extension `vector`".to_owned()),
        })
    }

    fn ask(&mut self, _: &mut dyn Store, terms: &Terms, columns: &[&str]) -> Result<Option<String>, SearchError> {
        Ok(terms.expression(columns))
    }

    fn allowed(&mut self, store: &mut dyn Store, filter: &Filter) -> Result<Option<Limits>, SearchError> {
        if *filter == Filter::default() {
            return Ok(None);
        }
        let sessions = match &filter.session {
            Some(begin) => Some(store.sessions(begin, None, SESSIONS)?.into_iter().map(|session| session.key).collect()),
            None => None,
        };
        Ok(Some(Limits { filter: filter.clone(), sessions }))
    }

    /// Tools and files are the same in all places of an entry.
    fn is_allowed(&self, allowed: &Limits, place: &Place) -> bool {
        allowed.filter.lets_time(place.started_ms)
            && allowed.filter.lets_folder(place.folder.as_deref())
            && allowed.sessions.as_ref().is_none_or(|sessions| sessions.contains(&place.session))
    }

    fn newest(&mut self, store: &mut dyn Store, allowed: &Limits, most: usize) -> Result<Vec<i64>, SearchError> {
        let filter = &allowed.filter;
        let begin = filter.session.as_deref().unwrap_or_default();
        let is_of_time = |first: Option<i64>, last: Option<i64>| {
            last.zip(filter.since_ms).is_none_or(|(last, since)| last >= since)
                && first.zip(filter.until_ms).is_none_or(|(first, until)| first < until)
        };
        let mut sessions = store.sessions(begin, None, SESSIONS)?;
        sessions.retain(|session| is_of_time(session.first_ms, session.last_ms) && filter.lets_folder(session.folder.as_deref()));
        let mut found: Vec<(i64, i64)> = Vec::new();
        for session in sessions.iter().take(NEWEST_SESSIONS) {
            let turns = store.turns(session.key, Turns::Newest(NEWEST_TURNS))?;
            let turns = turns.into_iter().filter(|turn| filter.lets_turn(&turn.turn));
            found.extend(turns.map(|turn| (turn.turn.started_ms, turn.entry)));
        }
        found.sort_unstable_by(|one, other| other.cmp(one));
        found.truncate(most);
        Ok(found.into_iter().map(|(_, entry)| entry).collect())
    }

    fn lexical(
        &mut self,
        store: &mut dyn Store,
        asked: &Option<String>,
        allowed: Option<&Limits>,
        limit: usize,
        _: &[i64],
    ) -> Result<Vec<(i64, f64)>, SearchError> {
        let Some(expression) = asked.as_ref().filter(|_| limit > 0) else { return Ok(Vec::new()) };
        let filter = allowed.map_or_else(Filter::default, |allowed| allowed.filter.clone());
        let found = server(store)?.words(expression, &filter, limit)?;
        Ok(found.into_iter().map(|(entry, score)| (entry, (f64::from(score) / MOST).clamp(0.0, 1.0))).collect())
    }

    fn dense(
        &mut self,
        store: &mut dyn Store,
        (model, vector): (&str, &[f32]),
        allowed: Option<&Limits>,
        limit: usize,
    ) -> Result<Vec<(i64, f32)>, SearchError> {
        let filter = allowed.map_or_else(Filter::default, |allowed| allowed.filter.clone());
        Ok(server(store)?.near(model, vector, &filter, limit)?)
    }

    /// The server has a weight for some of them together.
    fn tells_kinds_apart(&self) -> bool {
        false
    }

    fn cosines(&mut self, _: (&str, &[f32]), _: &[i64]) -> Result<Vec<(i64, f32)>, SearchError> {
        Ok(Vec::new())
    }
}
