/*!
The best entries by words.

To score an entry, FTS5 reads its length and all positions of a word in it. That takes ten times as long as learning that the entry
has the word. So where many entries have some of the words, the index first lists which entries have which words. Only those with
the rarest and most of them are scored. Scores are FTS5's BM25 all the same.
*/

use std::collections::{HashMap, HashSet};

use rusqlite::Row;

use super::{SearchError, SearchIndex};
use crate::search::query::QueryTerms;

/// BM25's constant for the saturation of repeated words, and the minimum weight of a word: those of FTS5.
pub(in crate::search) const BM25_K1: f64 = 1.2;
const MIN_IDF: f64 = 1e-6;

/// Number of entries that are scored, whichever words they have; and the maximum of entries with the same words.
const SCORED_ENTRIES: usize = 1_000;
const MAX_SCORED_ENTRIES: usize = 4_000;
/// Share of all entries above which a word says next to nothing, and no entries are listed for it.
const COMMON_WORD_SHARE: f64 = 0.3;
/// Number of entries that is enough: those with fewer words are not scored.
const ENOUGH_SCORED_ENTRIES: usize = 200;
/// Number of entries with another word above which those that only have such a common word are not scored.
const MIN_LISTED_ENTRIES: usize = 30;
/// Maximum number of terms that entries are listed for: one bit each.
const MAX_LISTED_TERMS: usize = 64;

const MATCHING: &str = "SELECT rowid, -rank FROM words WHERE words MATCH ?1";
/// The plus keeps SQLite from looking for each of them on its own, which takes a millisecond for a common word.
const MATCHING_OF: &str = "SELECT rowid, -rank FROM words WHERE words MATCH ?1 AND +rowid IN (SELECT value FROM json_each(?2))";

/// A query that the index has looked up: the entries that have its terms, and the weights of the terms.
#[derive(Clone, Debug, Default)]
pub struct LexicalQuery {
    /// `None` if nothing is asked for.
    expression: Option<String>,
    /// In the order of their bits.
    terms: Vec<Term>,
    /// Entries and bit masks of their terms, in the order of entries; empty if that is not known.
    listed: Vec<(i64, u64)>,
    /// The maximum score of an entry.
    most: f64,
}

#[derive(Clone, Debug)]
struct Term {
    expression: String,
    weight: f64,
    is_listed: bool,
}

impl LexicalQuery {
    /// Returns entries and the positions of the query's words that they have. No entries are listed for words that are nearly
    /// everywhere.
    pub fn listed(&self) -> impl Iterator<Item = (i64, impl Iterator<Item = usize> + use<>)> {
        self.listed.iter().map(|(entry, mask)| {
            let mask = *mask;
            (*entry, (0..MAX_LISTED_TERMS).filter(move |bit| mask >> bit & 1 == 1))
        })
    }

    fn weight(&self, mask: u64) -> f64 {
        self.terms.iter().enumerate().filter(|(bit, _)| mask >> bit & 1 == 1).map(|(_, term)| term.weight).sum()
    }

    /// Returns the entries with most of the weight, and the sets of terms that they have.
    fn best(&self, listed: &[(i64, u64)]) -> (Vec<i64>, HashSet<u64>) {
        let mut having: HashMap<u64, Vec<i64>> = HashMap::new();
        listed.iter().for_each(|(entry, mask)| having.entry(*mask).or_default().push(*entry));
        let mut masks: Vec<(f64, u64)> = having.keys().map(|mask| (self.weight(*mask), *mask)).collect();
        masks.sort_by(|one, other| other.0.total_cmp(&one.0).then(one.1.cmp(&other.1)));
        let (mut best, mut sets) = (Vec::new(), HashSet::new());
        for (_, mask) in masks {
            let entries = having.remove(&mask).unwrap_or_default();
            let room = MAX_SCORED_ENTRIES.saturating_sub(best.len());
            if best.len() >= SCORED_ENTRIES || best.len() >= ENOUGH_SCORED_ENTRIES && entries.len() > room {
                break;
            }
            // Of more than can be scored, the newest.
            best.extend_from_slice(&entries[entries.len().saturating_sub(room)..]);
            sets.insert(mask);
        }
        (best, sets)
    }

    /// Returns an expression that matches entries with one of these sets of terms, and few others: it requires all terms that the
    /// sets have in common.
    fn narrowing_expression(&self, masks: &HashSet<u64>) -> Option<String> {
        let common = masks.iter().fold(u64::MAX, |common, mask| common & mask);
        let rest = masks.iter().fold(0, |any, mask| any | mask) & !common;
        let of = |pick: &dyn Fn(usize, &Term) -> bool| -> Vec<&str> {
            let picked = self.terms.iter().enumerate().filter(|(bit, term)| pick(*bit, term));
            picked.map(|(_, term)| term.expression.as_str()).collect()
        };
        let required = of(&|bit, _| common >> bit & 1 == 1);
        let any = of(&|bit, term| rest >> bit & 1 == 1 || !term.is_listed);
        let fits = !required.is_empty() && (any.is_empty() || masks.iter().all(|mask| mask & rest != 0));
        let required = required.join(" AND ");
        fits.then(|| if any.is_empty() { required } else { format!("{required} AND ({})", any.join(" OR ")) })
    }
}

impl SearchIndex {
    /// Looks up the entries with these terms in these columns (in any column if there are none).
    ///
    /// # Errors
    /// As [`Self::detach`].
    pub fn prepare(&self, terms: &QueryTerms, columns: &[&str]) -> Result<LexicalQuery, SearchError> {
        let Some(expression) = terms.expression(columns) else { return Ok(LexicalQuery::default()) };
        let groups = terms.groups(columns);
        let work = || -> rusqlite::Result<LexicalQuery> {
            let all = self.document_count()?;
            let most = SCORED_ENTRIES.max((all as f64 * COMMON_WORD_SHARE) as usize);
            // What is required leaves few.
            let is_listed = groups.len() <= MAX_LISTED_TERMS && !terms.has_quotes();
            let mut asked = self.list_terms(&groups, all, if is_listed { most } else { 0 })?;
            if is_listed && !asked.terms.iter().any(|term| term.is_listed) {
                asked = self.list_terms(&groups, all, usize::MAX)?;
            }
            asked.expression = Some(expression);
            Ok(asked)
        };
        self.wrap_error(work())
    }

    /// Lists the entries with one of these terms, if a term has at most `most` of them.
    fn list_terms(&self, groups: &[(Vec<String>, f64)], all: i64, most: usize) -> rusqlite::Result<LexicalQuery> {
        let idf = |docs: i64| idf(all.cast_unsigned(), docs.max(0).cast_unsigned());
        let mut asked = LexicalQuery::default();
        for (bit, (group, times)) in groups.iter().enumerate() {
            // Of what may stand for each other, only what is somewhere counts.
            let mut of_group = 0.0;
            let mut having = (most > 0).then(Vec::new);
            for phrase in group {
                let listed = if having.is_some() { self.list(phrase, most)? } else { None };
                let docs = match &listed {
                    Some(listed) => listed.len() as i64,
                    None => self.count_with_phrase(phrase)?,
                };
                of_group += if docs > 0 { idf(docs) } else { 0.0 };
                having = having.zip(listed).map(|(known, listed)| merge_masks(&known, &listed, 1));
            }
            let weight = times * if of_group > 0.0 { of_group } else { idf(0) };
            let term = Term { expression: format!("({})", group.join(" OR ")), weight, is_listed: having.is_some() };
            if let Some(having) = having {
                let having: Vec<i64> = having.into_iter().map(|(entry, _)| entry).collect();
                asked.listed = merge_masks(&asked.listed, &having, 1 << bit);
            }
            asked.terms.push(term);
        }
        asked.most = (BM25_K1 + 1.0) * asked.terms.iter().map(|term| term.weight).sum::<f64>().max(MIN_IDF);
        Ok(asked)
    }

    /// Returns the best of the entries that match, and all entries of `also` that do. The scores are BM25, divided by the maximum
    /// that these terms could give. A score of 1 is a text that is full of all of them; a text with one very common word has next
    /// to nothing.
    ///
    /// # Errors
    /// As [`Self::detach`].
    pub fn search_lexical(
        &self,
        asked: &LexicalQuery,
        allowed: Option<&HashSet<i64>>,
        limit: usize,
        also: &[i64],
    ) -> Result<Vec<(i64, f64)>, SearchError> {
        let Some(expression) = &asked.expression else { return Ok(Vec::new()) };
        let is_allowed = |entry: &i64| allowed.is_none_or(|allowed| allowed.contains(entry));
        let is_extra: HashSet<i64> = also.iter().copied().collect();
        let wanted: Vec<(i64, u64)> = asked.listed.iter().copied().filter(|(entry, _)| is_allowed(entry)).collect();
        // Those who have nothing but what is everywhere are not listed, and wanted only where there is nobody else.
        let is_known = !asked.terms.iter().any(|term| !term.is_listed) || wanted.len() >= limit.min(MIN_LISTED_ENTRIES);
        let (of, narrow) = if is_known && wanted.len() > SCORED_ENTRIES.max(limit) {
            let (best, sets) = asked.best(&wanted);
            (Some(best), asked.narrowing_expression(&sets).filter(|_| also.is_empty()))
        } else {
            let is_part = is_known && wanted.len() < asked.listed.len();
            (is_part.then(|| wanted.into_iter().map(|(entry, _)| entry).collect()), None)
        };
        let of = of.map(|of: Vec<i64>| of.into_iter().chain(also.iter().copied()).collect::<Vec<i64>>());
        let scored = self.scores(narrow.as_ref().unwrap_or(expression), of.as_deref());
        let scored = self.wrap_error(scored)?.into_iter().filter(|(entry, _)| is_allowed(entry) || is_extra.contains(entry));
        let (mut others, mut found): (Vec<_>, Vec<_>) = scored.partition(|(entry, _)| is_extra.contains(entry));
        let by_score = |one: &(i64, f64), other: &(i64, f64)| other.1.total_cmp(&one.1).then(other.0.cmp(&one.0));
        if found.len() > limit {
            found.select_nth_unstable_by(limit, by_score);
            found.truncate(limit);
        }
        found.append(&mut others);
        found.sort_unstable_by(by_score);
        found.iter_mut().for_each(|(_, score)| *score /= asked.most);
        Ok(found)
    }

    /// Returns the entries that match, or those of `of` that do. FTS5 would sort all of them, with their words, to find the best.
    fn scores(&self, expression: &str, of: Option<&[i64]>) -> rusqlite::Result<Vec<(i64, f64)>> {
        let score = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
        match of {
            None => self.db.prepare_cached(MATCHING)?.query_map([expression], score)?.collect(),
            Some(entries) => {
                let entries = serde_json::to_string(entries).unwrap_or_default();
                self.db.prepare_cached(MATCHING_OF)?.query_map([expression, &entries], score)?.collect()
            }
        }
    }

    /// Returns the entries that have a phrase, in order; `None` if they are too many.
    fn list(&self, phrase: &str, most: usize) -> rusqlite::Result<Option<Vec<i64>>> {
        let mut statement = self.db.prepare_cached("SELECT rowid FROM words WHERE words MATCH ?1")?;
        let mut rows = statement.query([phrase])?;
        let mut listed = Vec::new();
        while let Some(row) = rows.next()? {
            if listed.len() == most {
                return Ok(None);
            }
            listed.push(row.get(0)?);
        }
        Ok(Some(listed))
    }
}

/// Inverse document frequency of a phrase that `docs` of `all` entries have, as FTS5 defines it.
pub(in crate::search) fn idf(all: u64, docs: u64) -> f64 {
    let (all, docs) = (all as f64, docs.min(all) as f64);
    ((all - docs + 0.5) / (docs + 0.5)).ln().max(MIN_IDF)
}

/// Merges entries that have one more term into a list of entries and their bit masks.
fn merge_masks(known: &[(i64, u64)], entries: &[i64], bit: u64) -> Vec<(i64, u64)> {
    let mut merged = Vec::with_capacity(known.len() + entries.len());
    let mut known = known.iter().copied().peekable();
    for entry in entries {
        while let Some(before) = known.next_if(|(known, _)| known < entry) {
            merged.push(before);
        }
        let mask = known.next_if(|(known, _)| known == entry).map_or(0, |(_, mask)| mask);
        merged.push((*entry, mask | bit));
    }
    merged.extend(known);
    merged
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn merging_is_a_union(one in proptest::collection::btree_set(0_i64..40, 0..20), other in proptest::collection::btree_set(0_i64..40, 0..20)) {
            let lists = [one, other].map(|set| set.into_iter().collect::<Vec<i64>>());
            let merged = merge_masks(&merge_masks(&[], &lists[0], 1), &lists[1], 2);
            prop_assert!(merged.is_sorted_by(|one, other| one.0 < other.0));
            for entry in 0..40 {
                let mask: u64 = lists.iter().zip([1, 2]).filter(|(list, _)| list.contains(&entry)).map(|(_, bit)| bit).sum();
                prop_assert_eq!(merged.iter().find(|one| one.0 == entry).map_or(0, |one| one.1), mask);
            }
        }
    }
}
