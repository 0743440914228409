/*!
The best entries by words.

What was said has a length of its own, and so has what tools said, of which there is ten times as much: it would drown the rest. So there
are two tables of words ([`TABLES`]), each with FTS5's BM25, and an entry's score is the weighted sum of both.

To score an entry, FTS5 reads its length and all positions of a word in it. That takes ten times as long as learning that the entry
has the word. So where many entries have some of the words, the index first lists which entries have which words. Only those with
the rarest and most of them are scored.
*/

use std::collections::{HashMap, HashSet};
use std::iter::repeat_n;

use rusqlite::Row;

use super::tables::{TABLES, WordTable};
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

/// Entries that are added to an archive's size where the rarity of a word is judged.
pub(in crate::search) const SMOOTHING: u64 = 20;

/// Entries and bit masks of the terms that they have, in the order of entries.
type Listed = Vec<(i64, u64)>;

/// A query that the index has looked up: the entries that have its terms, and the weights of the terms.
#[derive(Clone, Debug, Default)]
pub struct LexicalQuery {
    /// In the order of their bits.
    terms: Vec<Term>,
    /// Entries with any of the terms that are listed.
    listed: Listed,
    /// Those of each table.
    listed_in: [Listed; TABLES.len()],
    /// Terms that an entry must have.
    required: u64,
    /// The maximum score of an entry.
    most: f64,
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

#[derive(Clone, Debug)]
struct Term {
    /// The FTS5 expression for each table; none if nothing is searched there.
    expressions: [Option<String>; TABLES.len()],
    /// Number of times that it counts.
    times: f64,
    weight: f64,
    is_listed: bool,
    known: QueryTerm,
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
    fn best(&self, listed: &[(i64, u64)]) -> Vec<i64> {
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

    /// Returns the expression that scores entries of a table: any of the terms. If only these entries are scored, it also requires the terms
    /// that all of them have there, so that few others match.
    fn expression(&self, table: usize, of: Option<&HashSet<i64>>) -> Option<String> {
        let in_table = |pick: &dyn Fn(usize, &Term) -> bool| -> Vec<String> {
            let picked = self.terms.iter().enumerate().filter(|(bit, term)| pick(*bit, term));
            let expressions = picked.filter_map(|(_, term)| Some((term.expressions[table].clone()?, term.times as usize)));
            expressions.flat_map(|(expression, times)| repeat_n(expression, times)).collect()
        };
        let any = |terms: Vec<String>| (!terms.is_empty()).then(|| terms.join(" OR "));
        let Some(of) = of else { return any(in_table(&|_, _| true)) };
        let masks: HashSet<u64> =
            self.listed_in[table].iter().filter(|(entry, _)| of.contains(entry)).map(|(_, mask)| *mask).collect();
        let all_are_listed = self.terms.iter().all(|term| term.is_listed);
        if masks.is_empty() && all_are_listed {
            return None;
        }
        let present = masks.iter().fold(0, |any, mask| any | mask);
        let common = masks.iter().fold(present, |common, mask| common & mask);
        let rest = present & !common;
        let required = in_table(&|bit, _| common >> bit & 1 == 1);
        // Who has the required ones alone must match as well, and each term may stand there once, or it would count twice.
        let has_more = rest == 0 || masks.iter().all(|mask| mask & rest != 0);
        if required.is_empty() || !all_are_listed || !has_more {
            return any(in_table(&|bit, term| present >> bit & 1 == 1 || !term.is_listed));
        }
        let required = required.join(" AND ");
        Some(match any(in_table(&|bit, _| rest >> bit & 1 == 1)) {
            None => required,
            Some(any) => format!("{required} AND ({any})"),
        })
    }
}

impl SearchIndex {
    /// Looks up the entries with these terms, listing those with a term that at most `most` entries have.
    ///
    /// # Errors
    /// As [`Self::detach`].
    pub fn prepare_rare(&self, terms: &QueryTerms, most: usize) -> Result<LexicalQuery, SearchError> {
        let groups = TABLES.map(|_| Some(terms.groups(&[])));
        let count = groups.iter().flatten().map(Vec::len).max().unwrap_or_default();
        let listed = if count <= MAX_LISTED_TERMS { most } else { 0 };
        self.wrap_error(self.document_count().and_then(|all| self.list_terms(&groups, count, all, listed)))
    }

    /// Looks up the entries with these terms in these columns (in any column if there are none).
    ///
    /// # Errors
    /// As [`Self::detach`].
    pub fn prepare(&self, terms: &QueryTerms, columns: &[&str]) -> Result<LexicalQuery, SearchError> {
        let work = || -> rusqlite::Result<LexicalQuery> {
            let groups: [Option<Groups>; TABLES.len()] = TABLES.map(|table| {
                let columns = table.columns_among(columns)?;
                Some(terms.groups(&columns))
            });
            let Some(count) = groups.iter().flatten().map(Vec::len).max().filter(|count| *count > 0) else {
                return Ok(LexicalQuery::default());
            };
            let all = self.document_count()?;
            let most = SCORED_ENTRIES.max((all as f64 * COMMON_WORD_SHARE) as usize);
            let mut asked = self.list_terms(&groups, count, all, if count <= MAX_LISTED_TERMS { most } else { 0 })?;
            let required = terms.required_groups().min(MAX_LISTED_TERMS);
            let needed = if required > 0 { required } else { count };
            if count <= MAX_LISTED_TERMS && !asked.terms.iter().take(needed).any(|term| term.is_listed) {
                asked = self.list_terms(&groups, count, all, usize::MAX)?;
            }
            // Whether an entry has all of a quote, in its order, is seen in its text. What is everywhere tells nothing before that.
            let bits = asked.terms.iter().take(required).enumerate().filter(|(_, term)| term.is_listed);
            asked.required = bits.fold(0, |required, (bit, _)| required | 1 << bit);
            Ok(asked)
        };
        self.wrap_error(work())
    }

    /// Lists the entries with one of these terms, if a term has at most `most` of them.
    fn list_terms(
        &self,
        groups: &[Option<Groups>; TABLES.len()],
        count: usize,
        all: i64,
        most: usize,
    ) -> rusqlite::Result<LexicalQuery> {
        let idf = |docs: i64| idf(all.cast_unsigned(), docs.max(0).cast_unsigned());
        let smoothed = |docs: i64| self::idf(all.cast_unsigned() + SMOOTHING, docs.max(0).cast_unsigned());
        let mut asked = LexicalQuery::default();
        for bit in 0..count {
            let mut term = Term {
                expressions: [const { None }; TABLES.len()],
                times: 1.0,
                weight: 0.0,
                is_listed: most > 0,
                known: QueryTerm::default(),
            };
            let mut having: [Listed; TABLES.len()] = Default::default();
            // Of what may stand for each other, only what is somewhere counts.
            let mut of_group = 0.0;
            let mut most_docs = 0;
            for (table, groups) in groups.iter().enumerate() {
                let Some((group, times)) = groups.as_ref().and_then(|groups| groups.get(bit)) else { continue };
                term.times = *times;
                for phrase in group {
                    let listed = if term.is_listed { self.list(TABLES[table], phrase, most)? } else { None };
                    let docs = match &listed {
                        Some(listed) => listed.len() as i64,
                        None => self.count_with_phrase(TABLES[table], phrase)?,
                    };
                    of_group += if docs > 0 { TABLES[table].factor * idf(docs) } else { 0.0 };
                    most_docs = docs.max(most_docs);
                    match listed {
                        Some(listed) => having[table] = merge_masks(&having[table], &listed, 1 << bit),
                        None => term.is_listed = false,
                    }
                }
                term.expressions[table] = Some(format!("({})", group.join(" OR ")));
            }
            let anywhere = unite(&having[0], &having[1]);
            let docs = if term.is_listed { anywhere.len() as i64 } else { most_docs };
            let said_docs = if term.is_listed { having[0].len() as i64 } else { docs };
            term.known = QueryTerm {
                docs: docs.max(0).cast_unsigned(),
                said_docs: said_docs.max(0).cast_unsigned(),
                idf: if docs > 0 { idf(docs) } else { 0.0 },
                smoothed_idf: if docs > 0 { smoothed(docs) } else { 0.0 },
            };
            let of_none: f64 =
                groups.iter().zip(TABLES).filter(|(groups, _)| groups.is_some()).map(|(_, table)| table.factor * idf(0)).sum();
            term.weight = term.times * if of_group > 0.0 { of_group } else { of_none };
            if term.is_listed {
                asked.listed = unite(&asked.listed, &anywhere);
                for (known, having) in asked.listed_in.iter_mut().zip(having) {
                    *known = unite(known, &having);
                }
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
        if asked.terms.is_empty() {
            return Ok(Vec::new());
        }
        let is_allowed = |entry: &i64| allowed.is_none_or(|allowed| allowed.contains(entry));
        let is_extra: HashSet<i64> = also.iter().copied().collect();
        let has_required = |mask: u64| mask & asked.required == asked.required;
        let wanted: Listed =
            asked.listed.iter().copied().filter(|(entry, mask)| has_required(*mask) && is_allowed(entry)).collect();
        // Those who have nothing but what is everywhere are not listed, and wanted only where there is nobody else.
        let is_known =
            asked.required > 0 || asked.terms.iter().all(|term| term.is_listed) || wanted.len() >= limit.min(MIN_LISTED_ENTRIES);
        let of: Option<HashSet<i64>> = is_known.then(|| {
            let best = match wanted.len() > SCORED_ENTRIES.max(limit) {
                true => asked.best(&wanted),
                false => wanted.into_iter().map(|(entry, _)| entry).collect(),
            };
            best.into_iter().chain(also.iter().copied()).collect()
        });
        let scored = self.wrap_error(self.scores(asked, of.as_ref()))?;
        let scored = scored.into_iter().filter(|(entry, _)| is_allowed(entry) || is_extra.contains(entry));
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
    fn scores(&self, asked: &LexicalQuery, of: Option<&HashSet<i64>>) -> rusqlite::Result<HashMap<i64, f64>> {
        let mut scores = HashMap::new();
        let entries = of.map(|of| serde_json::to_string(&of.iter().collect::<Vec<_>>()).unwrap_or_default());
        for (number, table) in TABLES.iter().enumerate() {
            let Some(expression) = asked.expression(number, of) else { continue };
            // The plus keeps SQLite from looking for each of them on its own, which takes a millisecond for a common word.
            let only = if of.is_some() { "AND +rowid IN (SELECT value FROM json_each(?2))" } else { "" };
            let name = table.name;
            let mut statement =
                self.db.prepare_cached(&format!("SELECT rowid, -rank FROM {name} WHERE {name} MATCH ?1 {only}"))?;
            let score = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
            let rows = match &entries {
                None => statement.query_map([&expression], score)?,
                Some(entries) => statement.query_map([&expression, entries], score)?,
            };
            for row in rows {
                let (entry, score): (i64, f64) = row?;
                *scores.entry(entry).or_default() += table.factor * score;
            }
        }
        Ok(scores)
    }

    /// Returns the entries that have a phrase in a table, in order; `None` if they are too many.
    fn list(&self, table: &WordTable, phrase: &str, most: usize) -> rusqlite::Result<Option<Vec<i64>>> {
        let name = table.name;
        let mut statement = self.db.prepare_cached(&format!("SELECT rowid FROM {name} WHERE {name} MATCH ?1"))?;
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

/// Groups of phrases that may stand for each other, and how often each group counts.
type Groups = Vec<(Vec<String>, f64)>;

/// Inverse document frequency of a phrase that `docs` of `all` entries have, as FTS5 defines it.
pub(in crate::search) fn idf(all: u64, docs: u64) -> f64 {
    let (all, docs) = (all as f64, docs.min(all) as f64);
    ((all - docs + 0.5) / (docs + 0.5)).ln().max(MIN_IDF)
}

/// Merges entries that have one more term into a list of entries and their bit masks.
fn merge_masks(known: &[(i64, u64)], entries: &[i64], bit: u64) -> Listed {
    unite(known, &entries.iter().map(|entry| (*entry, bit)).collect::<Vec<_>>())
}

/// Unites two lists of entries and their bit masks.
fn unite(one: &[(i64, u64)], other: &[(i64, u64)]) -> Listed {
    let mut united = Vec::with_capacity(one.len() + other.len());
    let (mut one, mut other) = (one.iter().copied().peekable(), other.iter().copied().peekable());
    while let (Some((first, _)), Some((second, _))) = (one.peek(), other.peek()) {
        let (entry, is_first, is_second) = (*first.min(second), first <= second, second <= first);
        let mut mask = 0;
        if is_first {
            mask |= one.next().map_or(0, |(_, mask)| mask);
        }
        if is_second {
            mask |= other.next().map_or(0, |(_, mask)| mask);
        }
        united.push((entry, mask));
    }
    united.extend(one);
    united.extend(other);
    united
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
