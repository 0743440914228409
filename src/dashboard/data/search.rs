//! The search box.

use serde::Serialize;

use super::{Desk, Trouble, lock, one_line};
use ctxbridge_archive::quote;
use ctxbridge_archive::search::{Hit, Request};

/// Hits that are shown.
const HITS: usize = 20;
/// Entries that a search takes into the index at most, so that nobody waits for a whole archive.
const REFRESHED: usize = 500;
/// Characters of a query that count.
const MOST_CHARS: usize = 500;
/// Characters of what a turn was about.
const SUMMARY_CHARS: usize = 200;

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Hits {
    /// The best first.
    pub hits: Vec<SearchHit>,
    /// What the user should know: that the index is not complete, say.
    pub notes: Vec<String>,
}

/// A turn or summary that fits.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SearchHit {
    /// For `ctxbridge recall`.
    pub handle: String,
    /// Its session.
    pub session: String,
    /// When it began, in milliseconds since 1970.
    pub at_ms: i64,
    /// What it was about.
    pub summary: String,
    /// The piece that fits best, cut where what was looked for begins and ends: every other piece is a hit, beginning with one that is none.
    pub pieces: Vec<String>,
}

impl Desk {
    /// Searches as `ctxbridge archive search` does.
    pub fn search(&self, words: &str) -> Result<Hits, Trouble> {
        let words = quote::head(words.trim(), MOST_CHARS);
        if words.is_empty() {
            return Ok(Hits::default());
        }
        // One at a time: index and model are kept open for the next.
        let mut finder = lock(&self.finder);
        let Some(mut store) = self.open()? else { return Ok(Hits::default()) };
        let request = Request { limit: HITS, ..Request::new(words) };
        let found = finder.search(&mut *store, &request, REFRESHED, &mut |_| {})?;
        Ok(Hits { hits: found.hits.iter().map(shown).collect(), notes: found.notes })
    }
}

fn shown(hit: &Hit) -> SearchHit {
    let (handle, at_ms, session) = hit.identity();
    let (mut pieces, mut at) = (Vec::new(), 0);
    for mark in &hit.snippet.marks {
        pieces.push(hit.snippet.text.get(at..mark.start).unwrap_or_default().to_owned());
        pieces.push(hit.snippet.text.get(mark.clone()).unwrap_or_default().to_owned());
        at = mark.end;
    }
    pieces.push(hit.snippet.text.get(at..).unwrap_or_default().to_owned());
    SearchHit { handle, session: session.to_owned(), at_ms, summary: one_line(&hit.summary, SUMMARY_CHARS), pieces }
}
