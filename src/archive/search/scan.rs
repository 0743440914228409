/*!
Search without an index: every turn is read, for archives without a database.

Scores are those of the index: FTS5's BM25 with its constants and the weights of its tables and columns. So the same turns are found in the
same order. There are no vectors.
*/

use std::collections::HashSet;

use super::candidate_source::{CandidateSource, Coverage};
use super::index::{AllowedIds, BM25_K1, Document, TABLES, UnindexedEntry, idf};
use super::query::{Phrase, QueryTerms};
use super::refresh::read_documents;
use super::tokens::Tokenizer;
use super::{Filter, SearchError};
use crate::store::{StoreReader, TurnLocation};

/// BM25's constant for the influence of a text's length: that of FTS5.
const BM25_B: f64 = 0.75;

/// Number of entries that are read at once.
const SCAN_BATCH_ENTRIES: usize = 200;

/// Reads all entries for each search.
#[derive(Debug, Default)]
pub(super) struct FullScan {
    tokenizer: Tokenizer,
    /// Number of turns that could not be read for the last query.
    unreadable: usize,
}

/// Entries with their scores, the best first.
type Scored = Vec<(i64, f64)>;

impl CandidateSource for FullScan {
    type PreparedQuery = Scored;
    type ResolvedFilter = AllowedIds;

    fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    fn coverage(&mut self, _: &mut dyn StoreReader, _: &str) -> Result<Coverage, SearchError> {
        Ok(Coverage::Never("an archive in JSON Lines has no vectors".to_owned()))
    }

    fn prepare(&mut self, store: &mut dyn StoreReader, terms: &QueryTerms, columns: &[&str]) -> Result<Scored, SearchError> {
        if terms.is_empty() {
            return Ok(Vec::new());
        }
        self.unreadable = 0;
        let mut reading = ScanState::of(terms, columns, &self.tokenizer);
        for some in entries(store)?.chunks(SCAN_BATCH_ENTRIES) {
            let (documents, _) = read_documents(store, None, some.to_vec())?;
            self.unreadable += documents.iter().filter(|document| document.is_unreadable).count();
            documents.iter().for_each(|document| reading.read(document));
        }
        Ok(reading.scores())
    }

    fn notes(&self) -> Vec<String> {
        let turns = match self.unreadable {
            0 => return Vec::new(),
            1 => "1 turn is".to_owned(),
            number => format!("{number} turns are"),
        };
        vec![format!(
            "{turns} damaged and were not looked through; `ctxbridge archive optimize` says where, and entries.jsonl there has their text"
        )]
    }

    fn resolve_filter(&mut self, store: &mut dyn StoreReader, filter: &Filter) -> Result<Option<AllowedIds>, SearchError> {
        if *filter == Filter::default() {
            return Ok(None);
        }
        let mut allowed = AllowedIds::default();
        let mut sessions = HashSet::new();
        for session in store.sessions("", None, usize::MAX)? {
            if filter.allows_session(&session.session, session.folder.as_deref()) {
                let summaries = store.summaries(session.key)?.into_iter();
                allowed
                    .entries
                    .extend(summaries.filter(|summary| filter.allows_summary(summary.at_ms)).map(|summary| summary.entry));
                sessions.insert(session.key);
            }
        }
        let mut entries = HashSet::new();
        let mut turns = HashSet::new();
        for turn in store.turns_by_id("")?.iter().filter(|turn| filter.allows_turn(&turn.turn)) {
            entries.insert(turn.entry);
            turns.insert((turn.transcript, turn.turn.index, turn.turn.started_ms));
        }
        for place in store.turn_locations(&entries.into_iter().collect::<Vec<_>>())? {
            if sessions.contains(&place.session) && turns.contains(&(place.transcript, place.index, place.started_ms)) {
                allowed.entries.insert(place.entry);
                allowed.turns.insert(place.key);
            }
        }
        Ok(Some(allowed))
    }

    fn is_allowed(&self, allowed: &AllowedIds, place: &TurnLocation) -> bool {
        allowed.turns.contains(&place.key)
    }

    fn newest(&mut self, _: &mut dyn StoreReader, allowed: &AllowedIds, most: usize) -> Result<Vec<i64>, SearchError> {
        Ok(allowed.newest(most))
    }

    fn search_lexical(
        &mut self,
        _: &mut dyn StoreReader,
        asked: &Scored,
        allowed: Option<&AllowedIds>,
        limit: usize,
        _: &[i64],
    ) -> Result<Scored, SearchError> {
        let is_allowed = |entry: &i64| allowed.is_none_or(|allowed| allowed.entries.contains(entry));
        Ok(asked.iter().filter(|(entry, _)| is_allowed(entry)).take(limit).copied().collect())
    }

    fn search_dense(
        &mut self,
        _: &mut dyn StoreReader,
        _: (&str, &[f32]),
        _: Option<&AllowedIds>,
        _: usize,
    ) -> Result<Vec<(i64, f32)>, SearchError> {
        Ok(Vec::new())
    }

    fn cosines(&mut self, _: (&str, &[f32]), _: &[i64]) -> Result<Vec<(i64, f32)>, SearchError> {
        Ok(Vec::new())
    }
}

/// Returns all entries: of turns, and of summaries.
fn entries(store: &mut dyn StoreReader) -> Result<Vec<UnindexedEntry>, SearchError> {
    let mut entries: Vec<UnindexedEntry> = Vec::new();
    let mut seen = HashSet::new();
    for turn in store.turns_by_id("")? {
        if seen.insert(turn.entry) {
            entries.push(UnindexedEntry { entry: turn.entry, ..UnindexedEntry::default() });
        }
    }
    for session in store.sessions("", None, usize::MAX)? {
        for summary in store.summaries(session.key)? {
            if seen.insert(summary.entry) {
                entries.push(UnindexedEntry { entry: summary.entry, summary: Some(summary.text), ..UnindexedEntry::default() });
            }
        }
    }
    Ok(entries)
}

/// State of a scan: counts and matches so far.
struct ScanState<'r> {
    tokenizer: &'r Tokenizer,
    /// The phrases to look for, each with its group.
    phrases: Vec<(Phrase<'r>, usize)>,
    /// Number of times that each group counts.
    times: Vec<f64>,
    /// Number of groups that all have to occur, together with the others of their quote.
    required: usize,
    /// Columns of each table that are searched; none if the table is not.
    columns: [Option<Vec<&'static str>>; TABLES.len()],
    all: u64,
    tables: [TableCounts; TABLES.len()],
    found: Vec<MatchedEntry>,
}

/// Counts of a table.
#[derive(Default)]
struct TableCounts {
    words: u64,
    /// Number of entries that have each phrase.
    docs: Vec<u64>,
}

/// An entry that matches.
struct MatchedEntry {
    entry: i64,
    in_table: [TableMatches; TABLES.len()],
}

/// Matches of an entry in a table.
#[derive(Clone, Default)]
struct TableMatches {
    /// Number of times that each phrase occurs, by weight.
    often: Vec<f64>,
    /// Its length in words.
    words: u64,
}

impl<'r> ScanState<'r> {
    fn of(terms: &'r QueryTerms, columns: &[&str], tokenizer: &'r Tokenizer) -> Self {
        let mut phrases = Vec::new();
        let mut times = Vec::new();
        for (number, (group, often)) in terms.phrase_groups().into_iter().enumerate() {
            phrases.extend(group.into_iter().map(|phrase| (phrase, number)));
            times.push(often);
        }
        let searched = |name: &&'static str| columns.is_empty() || columns.contains(name);
        let columns = TABLES.map(|table| {
            let own: Vec<&'static str> = table.columns.iter().map(|(name, _)| *name).filter(searched).collect();
            (!own.is_empty()).then_some(own)
        });
        Self {
            tokenizer,
            tables: TABLES.map(|_| TableCounts { words: 0, docs: vec![0; phrases.len()] }),
            phrases,
            times,
            required: terms.required_groups(),
            columns,
            all: 0,
            found: Vec::new(),
        }
    }

    fn read(&mut self, document: &Document) {
        let files = document.files.join("\n");
        let mut in_table = TABLES.map(|_| TableMatches { often: vec![0.0; self.phrases.len()], words: 0 });
        for ((table, columns), matches) in TABLES.into_iter().zip(&self.columns).zip(&mut in_table) {
            for (name, weight) in table.columns {
                let is_asked = columns.as_ref().is_some_and(|columns| columns.contains(name));
                self.tokenizer.tokens(document.text(name, &files), &mut |token| {
                    matches.words += 1;
                    for ((phrase, _), often) in self.phrases.iter().zip(&mut matches.often) {
                        if is_asked && phrase.matches_word(&token.word) {
                            *often += weight;
                        }
                    }
                });
            }
        }
        self.all += 1;
        let mut anywhere = vec![0.0; self.phrases.len()];
        for (counts, matches) in self.tables.iter_mut().zip(&in_table) {
            counts.words += matches.words;
            for ((docs, often), anywhere) in counts.docs.iter_mut().zip(&matches.often).zip(&mut anywhere) {
                *docs += u64::from(*often > 0.0);
                *anywhere += often;
            }
        }
        if self.is_wanted(&anywhere) {
            self.found.push(MatchedEntry { entry: document.entry, in_table });
        }
    }

    /// `true` if all quoted texts may occur; without quotes, if any of the words does.
    fn is_wanted(&self, often: &[f64]) -> bool {
        let mut has = vec![false; self.times.len()];
        for ((_, group), often) in self.phrases.iter().zip(often) {
            has[*group] |= *often > 0.0;
        }
        let mut required = has.iter().take(self.required);
        if self.required > 0 { required.all(|has| *has) } else { has.contains(&true) }
    }

    fn scores(self) -> Scored {
        // What may stand for each other counts together, as far as it is anywhere.
        let searched =
            || self.tables.iter().zip(TABLES).zip(&self.columns).filter(|(_, columns)| columns.is_some()).map(|(table, _)| table);
        let mut weights = vec![0.0; self.times.len()];
        for (number, (_, group)) in self.phrases.iter().enumerate() {
            let found = searched().filter(|(counts, _)| counts.docs[number] > 0);
            weights[*group] += found.map(|(counts, table)| table.factor * idf(self.all, counts.docs[number])).sum::<f64>();
        }
        let of_none: f64 = searched().map(|(_, table)| table.factor * idf(self.all, 0)).sum();
        let most = weights.iter().zip(&self.times).map(|(weight, times)| times * if *weight > 0.0 { *weight } else { of_none });
        let most = (BM25_K1 + 1.0) * most.sum::<f64>().max(f64::MIN_POSITIVE);
        let score_in = |number: usize, matches: &TableMatches| {
            let counts = &self.tables[number];
            let average = counts.words as f64 / self.all.max(1) as f64;
            let length = BM25_K1 * (1.0 - BM25_B + BM25_B * matches.words as f64 / average.max(f64::MIN_POSITIVE));
            let parts = self.phrases.iter().zip(&counts.docs).zip(&matches.often);
            let score = parts.map(|(((_, group), docs), often)| {
                self.times[*group] * idf(self.all, *docs) * often * (BM25_K1 + 1.0) / (often + length)
            });
            TABLES[number].factor * score.sum::<f64>()
        };
        let score = |matched: &MatchedEntry| {
            matched.in_table.iter().enumerate().map(|(number, found)| score_in(number, found)).sum::<f64>()
        };
        let mut scored: Scored = self.found.iter().map(|matched| (matched.entry, score(matched) / most)).collect();
        scored.sort_unstable_by(|one, other| other.1.total_cmp(&one.1).then(other.0.cmp(&one.0)));
        scored
    }
}
