/*!
The best entries by words.

What was said has a length of its own, and so has what tools said, of which there is ten times as much: it would drown the rest. So there
are two tables of words ([`TABLES`]), each with FTS5's BM25, and an entry's score is the weighted sum of both.

To score an entry, FTS5 reads its length and all positions of a word in it. That takes ten times as long as learning that the entry
has the word. So where many entries have some of the words, the index first lists which entries have which words. Only those with
the rarest and most of them are scored. To list the entries of a word that is everywhere would take as long as all the rest: such words only
add to the scores of entries that have others. Where all words are everywhere, entries that have all of them are enough.
*/

use std::collections::{HashMap, HashSet};

use super::lexical_query::{
    ENOUGH_SCORED_ENTRIES, Groups, LexicalQuery, Listed, MAX_SCORED_ENTRIES, QueryTerm, SCORED_ENTRIES, Term,
};
use super::tables::{TABLES, WordTable};
use super::{SearchError, SearchIndex};
use crate::search::query::QueryTerms;

/// BM25's constant for the saturation of repeated words, and the minimum weight of a word: those of FTS5.
pub(in crate::search) const BM25_K1: f64 = 1.2;
const MIN_IDF: f64 = 1e-6;

/// Share of all entries above which a word says little, and no entries are listed for it.
const COMMON_WORD_SHARE: f64 = 0.1;
/// Number of entries after which a word's are counted, before more are listed: there may be too many of them.
const UNCOUNTED_ENTRIES: usize = 256;
/// Number of entries with another word above which those that only have such a common word are not scored.
const MIN_LISTED_ENTRIES: usize = 30;
/// Maximum number of terms that entries are listed for: one bit each.
const MAX_LISTED_TERMS: usize = 64;

/// Entries that are added to an archive's size where the rarity of a word is judged.
pub(in crate::search) const SMOOTHING: u64 = 20;

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
            let is_listed = |most: usize| asked.terms.iter().take(most).any(|term| term.is_listed);
            let is_everywhere = count <= MAX_LISTED_TERMS && !is_listed(if required > 0 { required } else { count });
            if is_everywhere && (required > 0 || !self.list_those_with_all(&mut asked, all)?) {
                asked = self.list_terms(&groups, count, all, usize::MAX)?;
            } else if is_everywhere {
                asked.everywhere = Some(groups);
            }
            // Whether an entry has all of a quote, in its order, is seen in its text. What is everywhere tells nothing before that.
            let bits = asked.terms.iter().take(required).enumerate().filter(|(_, term)| term.is_listed);
            asked.required = bits.fold(0, |required, (bit, _)| required | 1 << bit);
            Ok(asked)
        };
        self.wrap_error(work())
    }

    /// Lists the newest entries that have all terms in what was said, but for those of more than half of all entries, which weigh nothing.
    /// `false` if these are not enough.
    fn list_those_with_all(&self, asked: &mut LexicalQuery, all: i64) -> rusqlite::Result<bool> {
        let weighs = |term: &Term| term.known.docs.saturating_mul(2) <= all.cast_unsigned();
        let none_weighs = !asked.terms.iter().any(weighs);
        let picked: Vec<usize> = (0..asked.terms.len()).filter(|bit| none_weighs || weighs(&asked.terms[*bit])).collect();
        let expressions: Vec<&str> = picked.iter().filter_map(|bit| asked.terms[*bit].expressions[0].as_deref()).collect();
        if expressions.len() < picked.len() {
            return Ok(false);
        }
        let name = TABLES[0].name;
        let sql = format!("SELECT rowid FROM {name} WHERE {name} MATCH ?1 ORDER BY rowid DESC LIMIT {MAX_SCORED_ENTRIES}");
        let mut statement = self.db.prepare_cached(&sql)?;
        let newest = statement.query_map([expressions.join(" AND ")], |row| row.get(0))?;
        let newest: Vec<i64> = newest.collect::<rusqlite::Result<_>>()?;
        if newest.len() < ENOUGH_SCORED_ENTRIES {
            return Ok(false);
        }
        let mask = picked.into_iter().fold(0, |mask, bit| mask | 1 << bit);
        asked.listed = newest.into_iter().rev().map(|entry| (entry, mask)).collect();
        asked.listed_in[0].clone_from(&asked.listed);
        asked.terms.iter_mut().for_each(|term| term.is_listed = true);
        Ok(true)
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
        let mut most_score = 0.0_f64;
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
            let mut weight = 0.0;
            let mut most_docs = 0;
            for (table, groups) in groups.iter().enumerate() {
                let Some((group, times)) = groups.as_ref().and_then(|groups| groups.get(bit)) else { continue };
                term.times = *times;
                let mut of_table = 0.0_f64;
                for phrase in group {
                    let (listed, docs) = match term.is_listed {
                        true => self.list(TABLES[table], phrase, most)?,
                        false => (None, self.count_with_phrase(TABLES[table], phrase)?),
                    };
                    let of_phrase = if docs > 0 { TABLES[table].factor * idf(docs) } else { 0.0 };
                    of_group += of_phrase;
                    of_table = of_table.max(of_phrase);
                    most_docs = docs.max(most_docs);
                    match listed {
                        Some(listed) => having[table] = merge_masks(&having[table], &listed, 1 << bit),
                        None => term.is_listed = false,
                    }
                }
                weight += of_table;
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
            let is_anywhere = of_group > 0.0;
            most_score += term.times * if is_anywhere { of_group } else { of_none };
            // One that has a word more that means the same has no more of what is asked.
            term.weight = term.times * if is_anywhere { weight } else { of_none };
            if term.is_listed {
                asked.listed = unite(&asked.listed, &anywhere);
                for (known, having) in asked.listed_in.iter_mut().zip(having) {
                    *known = unite(known, &having);
                }
            }
            asked.terms.push(term);
        }
        asked.most = (BM25_K1 + 1.0) * most_score.max(MIN_IDF);
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
        if let Some(groups) = asked.everywhere.as_ref().filter(|_| wanted.len() < limit.min(MIN_LISTED_ENTRIES)) {
            let list = || self.list_terms(groups, asked.terms.len(), self.document_count()?, usize::MAX);
            return self.search_lexical(&self.wrap_error(list())?, allowed, limit, also);
        }
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
        let only = if of.is_some() { "AND is_scored(rowid)" } else { "" };
        for (number, table) in TABLES.iter().enumerate() {
            let name = table.name;
            let mut statement =
                self.db.prepare_cached(&format!("SELECT rowid, -rank FROM {name} WHERE {name} MATCH ?1 {only}"))?;
            let mut left: HashSet<i64> = of.cloned().unwrap_or_default();
            for expression in asked.scoring(number, of) {
                self.scored.set(&left);
                let mut rows = statement.query([&expression])?;
                while let Some(row) = rows.next()? {
                    let (entry, score): (i64, f64) = (row.get(0)?, row.get(1)?);
                    *scores.entry(entry).or_default() += table.factor * score;
                    left.remove(&entry);
                }
            }
        }
        Ok(scores)
    }

    /// Returns the entries that have a phrase in a table, in order, and their number; no entries if they are too many.
    fn list(&self, table: &WordTable, phrase: &str, most: usize) -> rusqlite::Result<(Option<Vec<i64>>, i64)> {
        let name = table.name;
        let mut statement = self.db.prepare_cached(&format!("SELECT rowid FROM {name} WHERE {name} MATCH ?1"))?;
        let mut rows = statement.query([phrase])?;
        let mut listed = Vec::new();
        while let Some(row) = rows.next()? {
            if listed.len() == UNCOUNTED_ENTRIES.min(most) {
                let docs = self.count_with_phrase(table, phrase)?;
                if usize::try_from(docs).is_ok_and(|docs| docs > most) {
                    return Ok((None, docs));
                }
            }
            listed.push(row.get(0)?);
        }
        let docs = listed.len() as i64;
        Ok((Some(listed), docs))
    }
}

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
