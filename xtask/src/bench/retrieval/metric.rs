//! Measures of a ranking, given the evidence that should come first.

use std::collections::{HashMap, HashSet};

use serde::Serialize;

/// Depths at which recall is taken.
pub const DEPTHS: [usize; 3] = [5, 10, 20];

/// Number of hits to ask for.
pub const DEEPEST: usize = 20;

/// Recall and reciprocal rank, of one question or the mean of several; from 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Score {
    /// Share of the evidence among the first 5, 10 and 20 hits.
    pub recall: [f64; DEPTHS.len()],
    /// 1 divided by the rank of the first hit that is evidence, 0 where none is (Voorhees 1999); its mean is MRR.
    pub reciprocal_rank: f64,
}

impl Score {
    /// Of one question: the rank of each piece of evidence, from 1, where it was found at all.
    pub fn of(ranks: &[Option<usize>]) -> Self {
        let within = |depth: usize| ranks.iter().flatten().filter(|rank| **rank <= depth).count();
        let recall = DEPTHS.map(|depth| within(depth) as f64 / ranks.len().max(1) as f64);
        let reciprocal_rank = ranks.iter().flatten().min().map_or(0.0, |rank| 1.0 / *rank as f64);
        Self { recall, reciprocal_rank }
    }

    /// The mean; every question counts the same.
    pub fn mean(scores: impl IntoIterator<Item = Self>) -> Self {
        let mut sum = Self::default();
        let mut count = 0_u32;
        for score in scores {
            count += 1;
            sum.reciprocal_rank += score.reciprocal_rank;
            sum.recall.iter_mut().zip(score.recall).for_each(|(sum, recall)| *sum += recall);
        }
        let count = f64::from(count.max(1));
        Self { recall: sum.recall.map(|sum| sum / count), reciprocal_rank: sum.reciprocal_rank / count }
    }

    /// Share of the evidence among the first ten.
    pub fn recall_at_10(&self) -> f64 {
        self.recall[1]
    }
}

/// The rank of each piece of evidence, from 1.
pub fn ranks(found: &[String], evidence: &[String]) -> Vec<Option<usize>> {
    evidence.iter().map(|turn| found.iter().position(|found| found == turn).map(|at| at + 1)).collect()
}

/// The rank of the first session with evidence among the sessions of the hits, from 1; `sessions` are those of the turns.
pub fn session_rank(found: &[String], evidence: &[String], sessions: &HashMap<String, String>) -> Option<usize> {
    let wanted: HashSet<&String> = evidence.iter().filter_map(|turn| sessions.get(turn)).collect();
    let mut seen: Vec<&String> = Vec::new();
    for session in found.iter().filter_map(|turn| sessions.get(turn)) {
        if !seen.contains(&session) {
            seen.push(session);
        }
    }
    seen.iter().position(|session| wanted.contains(session)).map(|at| at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_count_once() {
        let sessions = [("a", "1"), ("b", "1"), ("c", "2")].map(|(turn, session)| (turn.to_owned(), session.to_owned())).into();
        assert_eq!(session_rank(&names("a b c"), &names("c"), &sessions), Some(2));
        assert_eq!(session_rank(&names("b"), &names("a"), &sessions), Some(1));
        assert_eq!(session_rank(&names("a x"), &names("c"), &sessions), None);
    }

    fn names(names: &str) -> Vec<String> {
        names.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn ranks_count_from_1() {
        assert_eq!(ranks(&names("a b c"), &names("c x a")), [Some(3), None, Some(1)]);
    }

    #[test]
    fn recall_is_a_share_of_the_evidence() {
        let score = Score::of(&[Some(5), Some(6), Some(20), None]);
        assert_eq!(score, Score { recall: [0.25, 0.5, 0.75], reciprocal_rank: 0.2 });
        assert_eq!(Score::of(&[None]), Score::default());
        assert_eq!(Score::of(&[Some(1)]), Score { recall: [1.0; 3], reciprocal_rank: 1.0 });
    }

    #[test]
    fn every_question_counts_the_same() {
        let all = Score::of(&[Some(1)]);
        let half = Score::of(&[Some(2), None]);
        assert_eq!(Score::mean([all, half]), Score { recall: [0.75; 3], reciprocal_rank: 0.75 });
        assert_eq!(Score::mean([]), Score::default());
    }
}
