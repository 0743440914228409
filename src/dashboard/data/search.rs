//! The search box.

use std::collections::HashMap;

use serde::Serialize;

use super::{DashboardService, DataError, TITLE_CHARS, lock, one_line};
use ctxbridge_archive::quote;
use ctxbridge_archive::search::{Hit, SearchRequest};
use ctxbridge_archive::store::Session;

/// Maximum number of hits.
const MAX_HITS: usize = 20;
/// Maximum number of entries that a search adds to the index, so that nobody waits for a whole archive.
const MAX_REFRESHED_ENTRIES: usize = 500;
/// Maximum length of a query; the rest is ignored.
const MAX_QUERY_CHARS: usize = 500;
/// Maximum characters of a turn's summary.
const SUMMARY_CHARS: usize = 200;

/// Results of a search.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DashboardHits {
    /// The best first.
    pub hits: Vec<SearchHit>,
    /// Notes for the user, such as that the index is not complete.
    pub notes: Vec<String>,
}

/// A turn or summary that matches.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SearchHit {
    /// The handle, for `ctxbridge recall`.
    pub handle: String,
    /// The session.
    pub session: String,
    /// Its title.
    pub title: Option<String>,
    /// The folder that the client worked in.
    pub folder: Option<String>,
    /// `true` if the conversation went back to before the turn.
    pub is_rewound: bool,
    /// Start time, in milliseconds since 1970.
    pub at_ms: i64,
    /// The subject, in one line.
    pub summary: String,
    /// The best passage, split at the start and end of each match. Every second piece is a match; the first is not.
    pub pieces: Vec<String>,
}

impl DashboardService {
    /// Searches as `ctxbridge search` does.
    pub fn search(&self, words: &str) -> Result<DashboardHits, DataError> {
        let words = quote::head(words.trim(), MAX_QUERY_CHARS);
        if words.is_empty() {
            return Ok(DashboardHits::default());
        }
        // One at a time: index and model are kept open for the next.
        let mut finder = lock(&self.finder);
        let Some(mut store) = self.open()? else { return Ok(DashboardHits::default()) };
        let request = SearchRequest { limit: MAX_HITS, ..SearchRequest::new(words) };
        let found = finder.search(&mut *store, &request, MAX_REFRESHED_ENTRIES, &mut |_| {})?;
        let mut sessions: HashMap<&str, Option<Session>> = HashMap::new();
        for hit in &found.hits {
            let (_, _, session) = hit.identity();
            if !sessions.contains_key(session) {
                sessions.insert(session, store.session(session)?);
            }
        }
        let shown = found.hits.iter().map(|hit| shown(hit, sessions.get(hit.identity().2).and_then(Option::as_ref)));
        Ok(DashboardHits { hits: shown.collect(), notes: found.notes })
    }
}

fn shown(hit: &Hit, of: Option<&Session>) -> SearchHit {
    let (handle, at_ms, session) = hit.identity();
    let (mut pieces, mut at) = (Vec::new(), 0);
    for mark in &hit.snippet.marks {
        pieces.push(hit.snippet.text.get(at..mark.start).unwrap_or_default().to_owned());
        pieces.push(hit.snippet.text.get(mark.clone()).unwrap_or_default().to_owned());
        at = mark.end;
    }
    pieces.push(hit.snippet.text.get(at..).unwrap_or_default().to_owned());
    SearchHit {
        handle,
        session: session.to_owned(),
        title: of.and_then(|session| session.title.as_deref()).map(|title| one_line(title, TITLE_CHARS)),
        folder: of.and_then(|session| session.folder.clone()),
        is_rewound: hit.is_rewound(),
        at_ms,
        summary: one_line(&hit.summary, SUMMARY_CHARS),
        pieces,
    }
}
