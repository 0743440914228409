//! Merges the results of two archives into one list, by scores that are scaled by how well the best hit of each fits.

use std::collections::HashMap;

use super::{Hit, HitContent, Mode, SearchResults};

/// Returns the best of both, at most `limit`. A hit of both archives comes once, as the local archive shows it.
///
/// Scores are relative to the best hit of their own archive, so they are scaled by the fit of that hit. Reciprocal ranks would put
/// the best of barely fitting results beside the best of fitting ones.
pub fn merge_results(here: SearchResults, there: SearchResults, limit: usize) -> SearchResults {
    let mode = if here.mode == there.mode { here.mode } else { Mode::Hybrid };
    let mut notes = here.notes.clone();
    notes.extend(there.notes.iter().filter(|note| !here.notes.contains(note)).cloned());
    let (fit, time) = (here.fit.max(there.fit), here.time.clone().or_else(|| there.time.clone()));
    let mut places: HashMap<HitIdentity, usize> = HashMap::new();
    let mut hits: Vec<Hit> = Vec::new();
    for found in [here, there] {
        let best = found.hits.iter().map(|hit| hit.score).fold(f64::MIN_POSITIVE, f64::max);
        for hit in found.hits {
            let score = hit.score / best * found.fit;
            match places.get(&identity(&hit)) {
                Some(&place) => {
                    let known = &mut hits[place];
                    known.score = known.score.max(score);
                    known.cosine = known.cosine.or(hit.cosine);
                }
                None => {
                    places.insert(identity(&hit), hits.len());
                    hits.push(Hit { score, ..hit });
                }
            }
        }
    }
    // Stable, so that of two that are as good the one from here stands first.
    hits.sort_by(|a, b| b.score.total_cmp(&a.score));
    hits.truncate(limit);
    SearchResults { hits, fit, mode, time, notes }
}

/// Key of a hit that is the same in all archives: a session and, in it, a turn or a summary.
type HitIdentity = (String, Option<[u8; 16]>, i64);

fn identity(hit: &Hit) -> HitIdentity {
    match &hit.content {
        HitContent::Turn(turn) => (turn.session.clone(), Some(turn.turn.id), 0),
        HitContent::Summary(session, summary) => (session.clone(), None, summary.at_ms),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::Snippet;
    use crate::store::StoredSummary;

    /// A summary of a session with this name.
    fn hit(session: &str, score: f64, summary: &str) -> Hit {
        let told = StoredSummary { entry: 1, text: String::new(), at_ms: 7, turns: 1, owner: None };
        Hit {
            content: HitContent::Summary(session.to_owned(), told),
            score,
            words: Vec::new(),
            cosine: None,
            is_neighbor: false,
            is_in_time: false,
            snippet: Snippet::default(),
            summary: summary.to_owned(),
            duplicates: 0,
            is_elsewhere: false,
        }
    }

    fn found(fit: f64, hits: Vec<Hit>) -> SearchResults {
        SearchResults { hits, fit, mode: Mode::Lexical, time: None, notes: vec!["a note".to_owned()] }
    }

    #[test]
    fn what_fits_better_stands_first_wherever_it_is() {
        let here = found(0.9, vec![hit("a", 9.0, "here"), hit("b", 6.0, "here"), hit("c", 1.0, "here")]);
        let there = found(0.5, vec![hit("d", 0.02, "there"), hit("b", 0.01, "there")]);
        let both = merge_results(here.clone(), there.clone(), 10);
        let sessions: Vec<_> = both.hits.iter().map(|hit| (hit.identity().2, hit.summary.as_str())).collect();
        assert_eq!(sessions, [("a", "here"), ("b", "here"), ("d", "there"), ("c", "here")]);
        assert_eq!((merge_results(here.clone(), there.clone(), 2).hits.len(), both.fit, both.notes.len()), (2, 0.9, 1));
        let worse = SearchResults { fit: 0.1, ..here.clone() };
        assert_eq!(merge_results(worse, there, 1).hits[0].identity().2, "d");
        let alone = merge_results(here, found(0.0, Vec::new()), 10);
        assert_eq!(alone.hits.iter().map(|hit| hit.identity().2).collect::<String>(), "abc");
    }
}
