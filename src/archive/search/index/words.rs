//! Which entries have the words, and how well they fit.

use std::collections::HashSet;

use rusqlite::{Connection, OptionalExtension, params};

use super::{Document, Index, SearchError};
use crate::archive::search::filter::Kind;
use crate::archive::search::query::Terms;
use crate::archive::search::tokens::Tokenizer;
use crate::transcript::Fields;

/// The constant of BM25 that says how soon more of the same word counts no more, and the least that a word counts: those of FTS5.
const K1: f64 = 1.2;
const LEAST_IDF: f64 = 1e-6;

/// Entries from which on a word is not looked for alone, as a share of all: see [`Index::candidates`].
const EVERYWHERE: f64 = 0.03;
/// Entries that are scored whatever they have; a score takes a microsecond.
const SCORED: i64 = 5_000;
/// Words of which pairs are made.
const MOST_PAIRED: usize = 6;

/// All entries that match an expression.
const ALL: &str = "SELECT rowid, -rank FROM words WHERE words MATCH ?1";

/// A term as FTS5 reads it, and how many entries have it.
struct Known {
    expression: String,
    docs: i64,
}

pub(super) fn add(db: &Connection, tokenizer: &Tokenizer, document: &Document) -> rusqlite::Result<()> {
    let Fields { prompt, answer, input, output } = &document.fields;
    let [prompt, answer, input, output, summary] =
        [prompt, answer, input, output, &document.summary].map(|text| tokenizer.join(text));
    let files = tokenizer.join(&document.files.join("\n"));
    db.prepare_cached(
        "INSERT INTO words (rowid, prompt, answer, input, output, files, summary) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?
    .execute(params![document.entry, prompt, answer, input, output, files, summary])
    .map(drop)
}

impl Index {
    /// The best of the entries in which these terms stand. The scores are BM25, divided by the most that these terms could give: 1 is
    /// a text that is full of all of them, and a text with one word that is everywhere has next to nothing.
    ///
    /// # Errors
    /// As [`Self::detach`].
    pub fn lexical(
        &mut self,
        terms: &Terms,
        kinds: &[Kind],
        allowed: Option<&HashSet<i64>>,
        limit: usize,
    ) -> Result<Vec<(i64, f64)>, SearchError> {
        let columns: Vec<&str> = kinds.iter().flat_map(|kind| kind.columns()).copied().collect();
        let Some(expression) = terms.expression(&columns) else { return Ok(Vec::new()) };
        let work = || -> rusqlite::Result<Vec<(i64, f64)>> {
            // Of one state of the index: what is counted and what is scored have to go together.
            let _snapshot = self.db.unchecked_transaction()?;
            let (known, idf) = self.look_up(terms, &columns)?;
            let most = (K1 + 1.0) * idf;
            let mut found = Vec::new();
            if let Some(narrow) = self.candidates(terms, &known)? {
                // The plus keeps SQLite from looking for each of them on its own.
                let sql = "SELECT rowid, -rank FROM words WHERE words MATCH ?1
                    AND +rowid IN (SELECT rowid FROM words WHERE words MATCH ?2)";
                found = self.scores(sql, &[&expression, &narrow], allowed)?;
            }
            if found.len() < limit {
                found = self.scores(ALL, &[&expression], allowed)?;
            }
            let by_score = |one: &(i64, f64), other: &(i64, f64)| other.1.total_cmp(&one.1).then(other.0.cmp(&one.0));
            if found.len() > limit {
                found.select_nth_unstable_by(limit, by_score);
                found.truncate(limit);
            }
            found.sort_unstable_by(by_score);
            found.iter_mut().for_each(|(_, score)| *score /= most);
            Ok(found)
        };
        self.try_to(work())
    }

    /// The same of these entries, where one of the terms is in them.
    ///
    /// # Errors
    /// As [`Self::detach`].
    pub fn scores_of(&mut self, terms: &Terms, kinds: &[Kind], entries: &HashSet<i64>) -> Result<Vec<(i64, f64)>, SearchError> {
        let columns: Vec<&str> = kinds.iter().flat_map(|kind| kind.columns()).copied().collect();
        let Some(expression) = terms.expression(&columns).filter(|_| !entries.is_empty()) else { return Ok(Vec::new()) };
        let work = || -> rusqlite::Result<Vec<(i64, f64)>> {
            let _snapshot = self.db.unchecked_transaction()?;
            let (_, idf) = self.look_up(terms, &columns)?;
            let mut found = self.scores(ALL, &[&expression], Some(entries))?;
            found.iter_mut().for_each(|(_, score)| *score /= (K1 + 1.0) * idf);
            Ok(found)
        };
        self.try_to(work())
    }

    /// All that match, in no order: FTS5 would sort all of them, with their words, to tell the best.
    fn scores(&self, sql: &str, expressions: &[&str], allowed: Option<&HashSet<i64>>) -> rusqlite::Result<Vec<(i64, f64)>> {
        let mut statement = self.db.prepare_cached(sql)?;
        let mut rows = statement.query(rusqlite::params_from_iter(expressions))?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            let entry: i64 = row.get(0)?;
            // Only where its score is read is it computed.
            if allowed.is_none_or(|allowed| allowed.contains(&entry)) {
                found.push((entry, row.get(1)?));
            }
        }
        Ok(found)
    }

    /// Where words are everywhere, an expression for less than all entries with any of them: those that have one of the others, or
    /// two of these. What has one word alone, which a large part of all has, is among the best only where nothing else is.
    fn candidates(&self, terms: &Terms, known: &[Known]) -> rusqlite::Result<Option<String>> {
        let all = self.all()? as f64;
        let is_everywhere = |one: &&Known| one.docs as f64 > all * EVERYWHERE;
        if terms.are_required() || known.iter().map(|one| one.docs).sum::<i64>() <= SCORED {
            return Ok(None);
        }
        let mut everywhere: Vec<&Known> = known.iter().filter(is_everywhere).collect();
        everywhere.sort_by_key(|one| one.docs);
        let mut parts: Vec<String> = known.iter().filter(|one| !is_everywhere(one)).map(|one| one.expression.clone()).collect();
        for (at, one) in everywhere.iter().enumerate().take(MOST_PAIRED) {
            let others = everywhere[at + 1..].iter().take(MOST_PAIRED);
            parts.extend(others.map(|other| format!("({} AND {})", one.expression, other.expression)));
        }
        Ok((!everywhere.is_empty() && !parts.is_empty()).then(|| parts.join(" OR ")))
    }

    /// How many entries there are.
    ///
    /// # Errors
    /// As [`Self::detach`].
    pub fn count(&self) -> Result<u64, SearchError> {
        Ok(self.try_to(self.all())?.cast_unsigned())
    }

    /// How many entries have a word, as the tokenizer cuts it; counted up to `most`.
    ///
    /// # Errors
    /// As [`Self::detach`].
    pub fn count_with(&self, word: &str, most: usize) -> Result<usize, SearchError> {
        let work = || -> rusqlite::Result<i64> {
            self.db
                .prepare_cached("SELECT count(*) FROM (SELECT rowid FROM words WHERE words MATCH ?1 LIMIT ?2)")?
                .query_row(params![format!("\"{word}\""), most as i64], |row| row.get(0))
        };
        Ok(self.try_to(work())? as usize)
    }

    pub(super) fn all(&self) -> rusqlite::Result<i64> {
        self.db
            .prepare_cached("SELECT CAST(value AS INTEGER) FROM main.notes WHERE key = 'docs'")?
            .query_row([], |row| row.get(0))
    }

    /// The terms with the number of entries that have them, and how rare they are in these columns, together: the sum of their inverse
    /// document frequencies, as FTS5 computes them. Of what may stand for each other, only what is somewhere counts.
    fn look_up(&self, terms: &Terms, columns: &[&str]) -> rusqlite::Result<(Vec<Known>, f64)> {
        let all = self.all()?;
        let idf = |docs: i64| {
            let (all, docs) = (all as f64, docs.clamp(0, all) as f64);
            ((all - docs + 0.5) / (docs + 0.5)).ln().max(LEAST_IDF)
        };
        let mut known = Vec::new();
        let mut sum = 0.0;
        for (group, times) in terms.groups(columns) {
            let (mut of_group, mut in_group) = (0.0, 0);
            for phrase in &group {
                let docs = self.docs(phrase)?;
                in_group += docs;
                of_group += if docs > 0 { idf(docs) } else { 0.0 };
            }
            sum += times * if of_group > 0.0 { of_group } else { idf(0) };
            known.push(Known { expression: format!("({})", group.join(" OR ")), docs: in_group });
        }
        Ok((known, sum.max(LEAST_IDF)))
    }

    /// How many entries have a phrase of an expression.
    fn docs(&self, phrase: &str) -> rusqlite::Result<i64> {
        let word = phrase.strip_prefix('"').and_then(|phrase| phrase.strip_suffix('"')).filter(|word| !word.contains('"'));
        match word {
            // Four times as fast as to look for it.
            Some(word) => {
                let mut exact = self.db.prepare_cached("SELECT doc FROM vocabulary WHERE term = ?1")?;
                Ok(exact.query_row([word], |row| row.get(0)).optional()?.unwrap_or(0))
            }
            None => {
                self.db.prepare_cached("SELECT count(*) FROM words WHERE words MATCH ?1")?.query_row([phrase], |row| row.get(0))
            }
        }
    }
}
