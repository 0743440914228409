/*!
The best entries by words.

To score an entry FTS5 reads its length and all that stands in it, which takes ten times as long as to learn that it has a word. So where many
entries have some of the words, it is first listed who has which, and only those with the rarest and most of them are scored. Scores are
FTS5's BM25 all the same.
*/

use std::collections::{HashMap, HashSet};

use rusqlite::Row;

use super::{Index, SearchError};
use crate::search::query::Terms;

/// The constant of BM25 that says how soon more of the same word counts no more, and the least that a word counts: those of FTS5.
pub(in crate::search) const K1: f64 = 1.2;
const LEAST_IDF: f64 = 1e-6;

/// Entries that are scored, whatever they have; and the most, of those that have the same words.
const SCORED: usize = 1_000;
const MOST_SCORED: usize = 4_000;
/// The share of all entries from which on a word says next to nothing, and nobody is listed for it.
const EVERYWHERE: f64 = 0.3;
/// Entries that are enough, so that those with less are not scored.
const ENOUGH: usize = 200;
/// Entries with another word, from which on those with such a word alone are not scored.
const FEW: usize = 30;
/// Terms that entries are listed for: one bit each.
const MOST_TERMS: usize = 64;

const MATCHING: &str = "SELECT rowid, -rank FROM words WHERE words MATCH ?1";
/// The plus keeps SQLite from looking for each of them on its own, which takes a millisecond for a word that many have.
const MATCHING_OF: &str = "SELECT rowid, -rank FROM words WHERE words MATCH ?1 AND +rowid IN (SELECT value FROM json_each(?2))";

/// What the index is asked for: which entries have what of it, and what it weighs.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// None where nothing is asked for.
    expression: Option<String>,
    /// In the order of their bits.
    terms: Vec<Term>,
    /// Who has which terms, in the order of entries; nobody where that is not known.
    listed: Vec<(i64, u64)>,
    /// The most that an entry can score.
    most: f64,
}

#[derive(Clone, Debug)]
struct Term {
    expression: String,
    weight: f64,
    is_listed: bool,
}

impl Asked {
    /// Who has which of the words that were asked for, by their place; nobody is listed for words that are nearly everywhere.
    pub fn listed(&self) -> impl Iterator<Item = (i64, impl Iterator<Item = usize> + use<>)> {
        self.listed.iter().map(|(entry, mask)| {
            let mask = *mask;
            (*entry, (0..MOST_TERMS).filter(move |bit| mask >> bit & 1 == 1))
        })
    }

    fn weight(&self, mask: u64) -> f64 {
        self.terms.iter().enumerate().filter(|(bit, _)| mask >> bit & 1 == 1).map(|(_, term)| term.weight).sum()
    }

    /// Those with most of the weight, and the sets of terms that they have.
    fn best(&self, listed: &[(i64, u64)]) -> (Vec<i64>, HashSet<u64>) {
        let mut having: HashMap<u64, Vec<i64>> = HashMap::new();
        listed.iter().for_each(|(entry, mask)| having.entry(*mask).or_default().push(*entry));
        let mut masks: Vec<(f64, u64)> = having.keys().map(|mask| (self.weight(*mask), *mask)).collect();
        masks.sort_by(|one, other| other.0.total_cmp(&one.0).then(one.1.cmp(&other.1)));
        let (mut best, mut sets) = (Vec::new(), HashSet::new());
        for (_, mask) in masks {
            let entries = having.remove(&mask).unwrap_or_default();
            let room = MOST_SCORED.saturating_sub(best.len());
            if best.len() >= SCORED || best.len() >= ENOUGH && entries.len() > room {
                break;
            }
            // Of more than can be scored, the newest.
            best.extend_from_slice(&entries[entries.len().saturating_sub(room)..]);
            sets.insert(mask);
        }
        (best, sets)
    }

    /// What lets through those with one of these sets of terms, and not many others: all terms that the sets have in common are required.
    fn narrow(&self, masks: &HashSet<u64>) -> Option<String> {
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

impl Index {
    /// Looks up who has these terms in these columns (any, where there are none).
    ///
    /// # Errors
    /// As [`Self::detach`].
    pub fn ask(&self, terms: &Terms, columns: &[&str]) -> Result<Asked, SearchError> {
        let Some(expression) = terms.expression(columns) else { return Ok(Asked::default()) };
        let groups = terms.groups(columns);
        let work = || -> rusqlite::Result<Asked> {
            let all = self.all()?;
            let most = SCORED.max((all as f64 * EVERYWHERE) as usize);
            // What is required leaves few.
            let is_listed = groups.len() <= MOST_TERMS && !terms.are_required();
            let mut asked = self.look_up(&groups, all, if is_listed { most } else { 0 })?;
            if is_listed && !asked.terms.iter().any(|term| term.is_listed) {
                asked = self.look_up(&groups, all, usize::MAX)?;
            }
            asked.expression = Some(expression);
            Ok(asked)
        };
        self.try_to(work())
    }

    /// Those with one of these terms are listed, if they are no more than so many.
    fn look_up(&self, groups: &[(Vec<String>, f64)], all: i64, most: usize) -> rusqlite::Result<Asked> {
        let idf = |docs: i64| idf(all.cast_unsigned(), docs.max(0).cast_unsigned());
        let mut asked = Asked::default();
        for (bit, (group, times)) in groups.iter().enumerate() {
            // Of what may stand for each other, only what is somewhere counts.
            let mut of_group = 0.0;
            let mut having = (most > 0).then(Vec::new);
            for phrase in group {
                let listed = if having.is_some() { self.list(phrase, most)? } else { None };
                let docs = match &listed {
                    Some(listed) => listed.len() as i64,
                    None => self.docs(phrase)?,
                };
                of_group += if docs > 0 { idf(docs) } else { 0.0 };
                having = having.zip(listed).map(|(known, listed)| merge(&known, &listed, 1));
            }
            let weight = times * if of_group > 0.0 { of_group } else { idf(0) };
            let term = Term { expression: format!("({})", group.join(" OR ")), weight, is_listed: having.is_some() };
            if let Some(having) = having {
                let having: Vec<i64> = having.into_iter().map(|(entry, _)| entry).collect();
                asked.listed = merge(&asked.listed, &having, 1 << bit);
            }
            asked.terms.push(term);
        }
        asked.most = (K1 + 1.0) * asked.terms.iter().map(|term| term.weight).sum::<f64>().max(LEAST_IDF);
        Ok(asked)
    }

    /// The best of the entries in which it stands, and all of `also` in which it does. The scores are BM25, divided by the most that these
    /// terms could give: 1 is a text that is full of all of them, and a text with one word that is everywhere has next to nothing.
    ///
    /// # Errors
    /// As [`Self::detach`].
    pub fn lexical(
        &self,
        asked: &Asked,
        allowed: Option<&HashSet<i64>>,
        limit: usize,
        also: &[i64],
    ) -> Result<Vec<(i64, f64)>, SearchError> {
        let Some(expression) = &asked.expression else { return Ok(Vec::new()) };
        let is_allowed = |entry: &i64| allowed.is_none_or(|allowed| allowed.contains(entry));
        let is_extra: HashSet<i64> = also.iter().copied().collect();
        let wanted: Vec<(i64, u64)> = asked.listed.iter().copied().filter(|(entry, _)| is_allowed(entry)).collect();
        // Those who have nothing but what is everywhere are not listed, and wanted only where there is nobody else.
        let is_known = !asked.terms.iter().any(|term| !term.is_listed) || wanted.len() >= limit.min(FEW);
        let (of, narrow) = if is_known && wanted.len() > SCORED.max(limit) {
            let (best, sets) = asked.best(&wanted);
            (Some(best), asked.narrow(&sets).filter(|_| also.is_empty()))
        } else {
            let is_part = is_known && wanted.len() < asked.listed.len();
            (is_part.then(|| wanted.into_iter().map(|(entry, _)| entry).collect()), None)
        };
        let of = of.map(|of: Vec<i64>| of.into_iter().chain(also.iter().copied()).collect::<Vec<i64>>());
        let scored = self.scores(narrow.as_ref().unwrap_or(expression), of.as_deref());
        let scored = self.try_to(scored)?.into_iter().filter(|(entry, _)| is_allowed(entry) || is_extra.contains(entry));
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

    /// What matches, or those of these that do. FTS5 would sort all of them, with their words, to tell the best.
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

    /// The entries that have a phrase, in order; none where they are too many.
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

/// How much it says that an entry has what so many of all have, as FTS5 has it.
pub(in crate::search) fn idf(all: u64, docs: u64) -> f64 {
    let (all, docs) = (all as f64, docs.min(all) as f64);
    ((all - docs + 0.5) / (docs + 0.5)).ln().max(LEAST_IDF)
}

/// Who has what, with those who have this as well.
fn merge(known: &[(i64, u64)], entries: &[i64], bit: u64) -> Vec<(i64, u64)> {
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
            let merged = merge(&merge(&[], &lists[0], 1), &lists[1], 2);
            prop_assert!(merged.is_sorted_by(|one, other| one.0 < other.0));
            for entry in 0..40 {
                let mask: u64 = lists.iter().zip([1, 2]).filter(|(list, _)| list.contains(&entry)).map(|(_, bit)| bit).sum();
                prop_assert_eq!(merged.iter().find(|one| one.0 == entry).map_or(0, |one| one.1), mask);
            }
        }
    }
}
