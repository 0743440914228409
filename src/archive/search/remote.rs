//! Search on a server, which has its own words and vectors and knows who may read what.

use std::collections::HashSet;

use super::candidate_source::{CandidateSource, Coverage};
use super::query::QueryTerms;
use super::tokens::Tokenizer;
use super::{Filter, SearchError};
use crate::store::{SearchBackend, StoreError, StoreReader, TurnLocation, TurnSelection};

/// Maximum number of sessions that are looked up for a filter, and that are searched for the newest turns.
const MAX_FILTERED_SESSIONS: usize = 1_000;
const MAX_NEWEST_SESSIONS: usize = 20;
/// Maximum number of turns of each of these.
const MAX_NEWEST_TURNS: usize = 50;

/// Maximum of the server's word scores: it adds the share of the words that occur to their score by position.
const MAX_SERVER_SCORE: f64 = 2.0;

/// Asks the server of a store for all candidates.
#[derive(Debug, Default)]
pub struct RemoteCandidates {
    tokenizer: Tokenizer,
}

/// A filter, which the server applies, and the sessions that tell the places of one entry apart.
pub struct RemoteFilter {
    filter: Filter,
    sessions: Option<HashSet<i64>>,
}

fn search_backend(store: &mut dyn StoreReader) -> Result<&mut dyn SearchBackend, SearchError> {
    let place = store.location();
    let none = || StoreError::Sink(std::io::Error::other(format!("{place} does not search by itself")));
    Ok(store.as_search_backend().ok_or_else(none)?)
}

impl CandidateSource for RemoteCandidates {
    /// The FTS expression; `None` if there is nothing to look for.
    type PreparedQuery = Option<String>;
    type ResolvedFilter = RemoteFilter;

    fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    fn coverage(&mut self, store: &mut dyn StoreReader, _: &str) -> Result<Coverage, SearchError> {
        Ok(match search_backend(store)?.has_vectors()? {
            true => Coverage::Uncounted,
            false => Coverage::Never("the server has no extension `vector`".to_owned()),
        })
    }

    fn prepare(&mut self, _: &mut dyn StoreReader, terms: &QueryTerms, columns: &[&str]) -> Result<Option<String>, SearchError> {
        Ok(terms.expression(columns))
    }

    fn resolve_filter(&mut self, store: &mut dyn StoreReader, filter: &Filter) -> Result<Option<RemoteFilter>, SearchError> {
        if *filter == Filter::default() {
            return Ok(None);
        }
        let sessions = match &filter.session {
            Some(begin) => {
                Some(store.sessions(begin, None, MAX_FILTERED_SESSIONS)?.into_iter().map(|session| session.key).collect())
            }
            None => None,
        };
        Ok(Some(RemoteFilter { filter: filter.clone(), sessions }))
    }

    /// Tools and files are the same in all places of an entry.
    fn is_allowed(&self, allowed: &RemoteFilter, place: &TurnLocation) -> bool {
        allowed.filter.allows_time(place.started_ms)
            && allowed.filter.allows_shared_folder(place.folder.as_deref())
            && allowed.sessions.as_ref().is_none_or(|sessions| sessions.contains(&place.session))
    }

    fn newest(&mut self, store: &mut dyn StoreReader, allowed: &RemoteFilter, most: usize) -> Result<Vec<i64>, SearchError> {
        let filter = &allowed.filter;
        let begin = filter.session.as_deref().unwrap_or_default();
        let is_of_time = |first: Option<i64>, last: Option<i64>| {
            last.zip(filter.since_ms).is_none_or(|(last, since)| last >= since)
                && first.zip(filter.until_ms).is_none_or(|(first, until)| first < until)
        };
        let mut sessions = store.sessions(begin, None, MAX_FILTERED_SESSIONS)?;
        sessions.retain(|session| {
            is_of_time(session.first_ms, session.last_ms) && filter.allows_shared_folder(session.folder.as_deref())
        });
        let mut found: Vec<(i64, i64)> = Vec::new();
        for session in sessions.iter().take(MAX_NEWEST_SESSIONS) {
            let turns = store.turns(session.key, TurnSelection::Newest(MAX_NEWEST_TURNS))?;
            let turns = turns.into_iter().filter(|turn| filter.allows_turn(&turn.turn));
            found.extend(turns.map(|turn| (turn.turn.started_ms, turn.entry)));
        }
        found.sort_unstable_by(|one, other| other.cmp(one));
        found.truncate(most);
        Ok(found.into_iter().map(|(_, entry)| entry).collect())
    }

    fn search_lexical(
        &mut self,
        store: &mut dyn StoreReader,
        asked: &Option<String>,
        allowed: Option<&RemoteFilter>,
        limit: usize,
        _: &[i64],
    ) -> Result<Vec<(i64, f64)>, SearchError> {
        let Some(expression) = asked.as_ref().filter(|_| limit > 0) else { return Ok(Vec::new()) };
        let filter = allowed.map_or_else(Filter::default, |allowed| allowed.filter.clone());
        let found = search_backend(store)?.search_text(expression, &filter, limit)?;
        Ok(found.into_iter().map(|(entry, score)| (entry, (f64::from(score) / MAX_SERVER_SCORE).clamp(0.0, 1.0))).collect())
    }

    fn search_dense(
        &mut self,
        store: &mut dyn StoreReader,
        (model, vector): (&str, &[f32]),
        allowed: Option<&RemoteFilter>,
        limit: usize,
    ) -> Result<Vec<(i64, f32)>, SearchError> {
        let filter = allowed.map_or_else(Filter::default, |allowed| allowed.filter.clone());
        Ok(search_backend(store)?.search_vectors(model, vector, &filter, limit)?)
    }

    /// The server has a weight for some of them together.
    fn distinguishes_kinds(&self) -> bool {
        false
    }

    fn cosines(&mut self, _: (&str, &[f32]), _: &[i64]) -> Result<Vec<(i64, f32)>, SearchError> {
        Ok(Vec::new())
    }
}
