//! What other sessions said about the same: for a session that goes on after a compaction.

use super::filter::Filter;
use super::query::is_empty;
use super::rank::Stages;
use super::{Hit, Index, Mode, Request, SearchError, What, search};
use crate::archive::store::{Session, Store, StoredTurn};
use crate::archive::words;

/// Turns of other sessions at most.
const MOST: usize = 5;

/// Words of the newest turn that are looked for; more make the search slow and not better.
const WORDS: usize = 24;

/// How many of them a turn has to have: one or two are chance.
const LEAST_SHARED: usize = 4;

/// Turns of other sessions of the project that say most like the newest turn of this one, by words alone: a model would take longer
/// to load than a hook may take.
///
/// # Errors
/// When the archive or the index cannot be read.
pub fn related(
    store: &mut dyn Store,
    index: &mut Index,
    session: &Session,
    newest: &StoredTurn,
    now: jiff::Timestamp,
) -> Result<Vec<(StoredTurn, String)>, SearchError> {
    let summary = words::summary(store, newest)?;
    let mut asked: Vec<&str> = Vec::new();
    index.tokenizer().tokens(&summary, &mut |token| {
        let word = &summary[token.range];
        if !token.is_whole && !is_empty(&word.to_lowercase()) && !asked.contains(&word) {
            asked.push(word);
        }
    });
    asked.truncate(WORDS);
    let request = Request {
        text: asked.join(" "),
        mode: Mode::Lexical,
        filter: Filter { but_session: Some(session.session.clone()), project: session.folder.clone(), ..Filter::default() },
        limit: MOST,
        stages: Stages { time: false, neighbours: false, ..Stages::ALL },
        now,
        ..Request::new("")
    };
    let shared = |hit: &Hit| {
        let words: std::collections::HashSet<&String> = hit.words.iter().flat_map(|(_, words)| words).collect();
        words.len()
    };
    let hits = search(store, index, None, &request)?.hits.into_iter();
    let turn = |hit: Hit| match hit.what {
        What::Turn(turn) => Some((*turn, hit.summary)),
        What::Summary(..) => None,
    };
    Ok(hits.filter(|hit| shared(hit) >= LEAST_SHARED).filter_map(turn).collect())
}
