//! What two archives found, as one list.

use std::collections::HashMap;

use super::{Found, Hit, Mode, What};

/// Scores of two archives mean nothing to each other, ranks do: Cormack et al., "Reciprocal Rank Fusion outperforms Condorcet and individual Rank Learning
/// Methods" (2009), with the constant that they used.
const FUSION: f64 = 60.0;

/// The best of both, at most `limit`. What both have is one hit, and stands higher; it is shown as it is here.
pub fn merge(here: Found, there: Found, limit: usize) -> Found {
    let mode = if here.mode == there.mode { here.mode } else { Mode::Hybrid };
    let mut notes = here.notes;
    notes.extend(there.notes.into_iter().filter(|note| !note.is_empty()));
    let mut places: HashMap<Identity, usize> = HashMap::new();
    let mut hits: Vec<Hit> = Vec::new();
    for list in [here.hits, there.hits] {
        for (rank, hit) in list.into_iter().enumerate() {
            let score = 1.0 / (FUSION + rank as f64 + 1.0);
            match places.get(&identity(&hit)) {
                Some(&place) => {
                    let known = &mut hits[place];
                    known.score += score;
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
    Found { hits, mode, time: here.time.or(there.time), notes }
}

/// What is the same in all archives: a session and, in it, a turn or a summary.
type Identity = (String, Option<[u8; 16]>, i64);

fn identity(hit: &Hit) -> Identity {
    match &hit.what {
        What::Turn(turn) => (turn.session.clone(), Some(turn.turn.id), 0),
        What::Summary(session, summary) => (session.clone(), None, summary.at_ms),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive::search::Snippet;
    use crate::archive::store::StoredSummary;

    /// A summary of a session with this name.
    fn hit(session: &str, score: f64, summary: &str) -> Hit {
        let told = StoredSummary { entry: 1, text: String::new(), at_ms: 7, turns: 1 };
        Hit {
            what: What::Summary(session.to_owned(), told),
            score,
            words: Vec::new(),
            cosine: None,
            is_neighbour: false,
            is_in_time: false,
            snippet: Snippet::default(),
            summary: summary.to_owned(),
            duplicates: 0,
            is_elsewhere: false,
        }
    }

    fn found(hits: Vec<Hit>) -> Found {
        Found { hits, mode: Mode::Lexical, time: None, notes: Vec::new() }
    }

    #[test]
    fn ranks_count_and_what_both_have_is_one() {
        let here = found(vec![hit("a", 900.0, "here"), hit("b", 800.0, "here"), hit("c", 700.0, "here")]);
        let there = found(vec![hit("d", 0.2, "there"), hit("b", 0.1, "there")]);
        let both = merge(here.clone(), there.clone(), 10);
        let sessions: Vec<_> = both.hits.iter().map(|hit| (hit.identity().2, hit.summary.as_str())).collect();
        assert_eq!(sessions, [("b", "here"), ("a", "here"), ("d", "there"), ("c", "here")]);
        assert_eq!(merge(here.clone(), there, 2).hits.len(), 2);
        let alone = merge(here.clone(), found(Vec::new()), 10);
        assert_eq!(alone.hits.iter().map(|hit| hit.identity().2).collect::<String>(), "abc");
    }
}
