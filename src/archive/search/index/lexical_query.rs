//! A query that the index has looked up: which entries are scored, and by which expressions.

use std::collections::{HashMap, HashSet};
use std::iter::repeat_n;

use super::tables::TABLES;

/// Number of entries that are scored, whichever words they have; and the maximum of entries with the same words.
pub(super) const SCORED_ENTRIES: usize = 1_000;
pub(super) const MAX_SCORED_ENTRIES: usize = 4_000;
/// Number of entries that is enough: those with fewer words are not scored.
pub(super) const ENOUGH_SCORED_ENTRIES: usize = 200;

/// Entries and bit masks of the terms that they have, in the order of entries.
pub(super) type Listed = Vec<(i64, u64)>;

/// Groups of phrases that may stand for each other, and how often each group counts.
pub(super) type Groups = Vec<(Vec<String>, f64)>;

/// A query that the index has looked up: the entries that have its terms, and the weights of the terms.
#[derive(Clone, Debug, Default)]
pub struct LexicalQuery {
    /// In the order of their bits.
    pub(super) terms: Vec<Term>,
    /// Entries with any of the terms that are listed.
    pub(super) listed: Listed,
    /// Those of each table.
    pub(super) listed_in: [Listed; TABLES.len()],
    /// Terms that an entry must have.
    pub(super) required: u64,
    /// The maximum score of an entry.
    pub(super) most: f64,
    /// The terms if they are everywhere, so that only entries with all of them are listed.
    pub(super) everywhere: Option<[Option<Groups>; TABLES.len()]>,
}

/// A term that was looked up.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct QueryTerm {
    /// Number of entries that have it.
    pub docs: u64,
    /// Number of entries that have it in what was said.
    pub said_docs: u64,
    /// Its inverse document frequency as FTS5 has it; 0 where no entry has it.
    pub idf: f64,
    /// The same among twenty entries more that do not have it: in an archive of three turns, a word of one is not common.
    pub smoothed_idf: f64,
}

/// A term and what is known of it.
#[derive(Clone, Debug)]
pub(super) struct Term {
    /// The FTS5 expression for each table; none if nothing is searched there.
    pub expressions: [Option<String>; TABLES.len()],
    /// Number of times that it counts.
    pub times: f64,
    pub weight: f64,
    pub is_listed: bool,
    pub known: QueryTerm,
}

impl LexicalQuery {
    /// Returns the terms, in the order of the query's words.
    pub fn terms(&self) -> Vec<QueryTerm> {
        self.terms.iter().map(|term| term.known).collect()
    }

    /// The maximum BM25 that the terms could give.
    pub fn most(&self) -> f64 {
        self.most
    }

    /// Returns the entries with any of the terms that are listed, with their weight and the bits of their terms, the heaviest and newest first.
    pub fn heaviest(&self) -> Vec<(i64, f64, u64)> {
        let mut weighed: Vec<(i64, f64, u64)> =
            self.listed.iter().map(|(entry, mask)| (*entry, self.weight(*mask), *mask)).collect();
        weighed.sort_by(|one, other| other.1.total_cmp(&one.1).then(other.0.cmp(&one.0)));
        weighed
    }

    fn weight(&self, mask: u64) -> f64 {
        self.terms.iter().enumerate().filter(|(bit, _)| mask >> bit & 1 == 1).map(|(_, term)| term.weight).sum()
    }

    /// Returns the entries with most of the weight.
    pub(super) fn best(&self, listed: &[(i64, u64)]) -> Vec<i64> {
        let mut having: HashMap<u64, Vec<i64>> = HashMap::new();
        listed.iter().for_each(|(entry, mask)| having.entry(*mask).or_default().push(*entry));
        let mut masks: Vec<(f64, u64)> = having.keys().map(|mask| (self.weight(*mask), *mask)).collect();
        masks.sort_by(|one, other| other.0.total_cmp(&one.0).then(one.1.cmp(&other.1)));
        let mut best = Vec::new();
        for (_, mask) in masks {
            let entries = having.remove(&mask).unwrap_or_default();
            let room = MAX_SCORED_ENTRIES.saturating_sub(best.len());
            if best.len() >= SCORED_ENTRIES || best.len() >= ENOUGH_SCORED_ENTRIES && entries.len() > room {
                break;
            }
            // Of more than can be scored, the newest.
            best.extend_from_slice(&entries[entries.len().saturating_sub(room)..]);
        }
        best
    }

    /// Returns the expressions of some terms in a table, each as often as it counts.
    pub(super) fn expressions(&self, table: usize, is_picked: impl Fn(usize, &Term) -> bool) -> Vec<String> {
        let picked = self.terms.iter().enumerate().filter(|(bit, term)| is_picked(*bit, term));
        let expressions = picked.filter_map(|(_, term)| Some((term.expressions[table].clone()?, term.times as usize)));
        expressions.flat_map(|(expression, times)| repeat_n(expression, times)).collect()
    }

    /// Returns the expressions that score entries of a table: of those that match several, the first one counts. All of them match any of the
    /// terms. If only these entries are scored, they also require the terms that all of them have there, so that few others match; and a term
    /// that is not listed counts where one that is listed matches.
    pub(super) fn scoring(&self, table: usize, of: Option<&HashSet<i64>>) -> Vec<String> {
        // Where all words are everywhere, entries are listed for what was said.
        let Some(of) = of.filter(|_| table == 0 || self.everywhere.is_none()) else {
            return any(self.expressions(table, |_, _| true)).into_iter().collect();
        };
        let masks: HashSet<u64> =
            self.listed_in[table].iter().filter(|(entry, _)| of.contains(entry)).map(|(_, mask)| *mask).collect();
        let unlisted = any(self.expressions(table, |_, term| !term.is_listed));
        let Some(listed) = self.scoring_listed(table, &masks) else {
            return unlisted.filter(|_| !self.terms.iter().any(|term| term.is_listed)).into_iter().collect();
        };
        let both = unlisted.map(|unlisted| format!("({listed}) AND ({unlisted})"));
        both.into_iter().chain([listed]).collect()
    }

    /// Returns the expression that scores entries with these masks by the terms that are listed.
    fn scoring_listed(&self, table: usize, masks: &HashSet<u64>) -> Option<String> {
        let present = masks.iter().fold(0, |any, mask| any | mask);
        let common = masks.iter().fold(present, |common, mask| common & mask);
        let rest = present & !common;
        let required = self.expressions(table, |bit, _| common >> bit & 1 == 1);
        // Who has the required ones alone must match as well, and each term may stand there once, or it would count twice.
        let has_more = rest == 0 || masks.iter().all(|mask| mask & rest != 0);
        if required.is_empty() || !has_more {
            return any(self.expressions(table, |bit, _| present >> bit & 1 == 1));
        }
        let required = required.join(" AND ");
        Some(match any(self.expressions(table, |bit, _| rest >> bit & 1 == 1)) {
            None => required,
            Some(any) => format!("{required} AND ({any})"),
        })
    }
}

/// Any of some expressions.
fn any(expressions: Vec<String>) -> Option<String> {
    (!expressions.is_empty()).then(|| expressions.join(" OR "))
}
