/*!
Projects that the words of a query point to.

A search from outside of all projects does not know which one is meant, but words often do: most of the best turns by words are of one
project, and then what only meaning finds in another is seldom what was asked for.
*/

use std::collections::HashMap;

/// Number of the best turns by words that count.
const BEST: usize = 10;
/// Exponent of a turn's word score, relative to the best one: turns with half as much hardly count.
const SHARPNESS: i32 = 4;

/// Returns the share of each folder in the best turns by words, which add up to at most 1. Of each turn, its word score and folder are
/// given.
pub(super) fn likely_projects<'f>(turns: impl Iterator<Item = (f64, Option<&'f str>)>) -> HashMap<&'f str, f64> {
    let mut turns: Vec<_> = turns.collect();
    turns.sort_by(|one, other| other.0.total_cmp(&one.0));
    let Some(best) = turns.first().map(|(words, _)| *words).filter(|words| *words > 0.0) else { return HashMap::new() };
    // Where more turns are as good as the best one, as all of a day are, the first of them are no better than the others.
    if turns.get(BEST).is_some_and(|(words, _)| *words >= best) {
        return HashMap::new();
    }
    turns.truncate(BEST);
    let weight = |words: f64| (words / best).max(0.0).powi(SHARPNESS);
    let total: f64 = turns.iter().map(|(words, _)| weight(*words)).sum();
    let mut shares = HashMap::new();
    for (words, folder) in turns {
        if let Some(folder) = folder {
            *shares.entry(folder).or_default() += weight(words) / total;
        }
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_point_to_where_the_best_turns_are() {
        let shares = likely_projects([(0.8, Some("/a")), (0.4, Some("/b")), (0.8, None)].into_iter());
        let total = 1.0 + 1.0 + 0.5_f64.powi(4);
        assert_eq!(shares.len(), 2);
        assert!((shares["/a"] - 1.0 / total).abs() < 1e-12, "{shares:?}");
        assert!((shares["/b"] - 0.5_f64.powi(4) / total).abs() < 1e-12, "{shares:?}");
    }

    #[test]
    fn only_the_best_ones_count() {
        let turns = std::iter::once((0.7, Some("/b"))).chain(std::iter::repeat_n((0.8, Some("/a")), BEST - 1));
        let turns = turns.chain(std::iter::once((0.75, Some("/a"))));
        let shares = likely_projects(turns);
        assert_eq!(shares.len(), 1, "{shares:?}");
        assert!((shares["/a"] - 1.0).abs() < 1e-12, "{shares:?}");
    }

    #[test]
    fn no_words_point_to_no_project() {
        assert!(likely_projects(std::iter::empty()).is_empty());
        assert!(likely_projects(std::iter::once((0.0, Some("/b")))).is_empty());
        assert!(likely_projects(std::iter::repeat_n((1.0, Some("/a")), BEST + 1)).is_empty(), "all are as good");
    }
}
