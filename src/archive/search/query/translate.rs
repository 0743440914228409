/*!
English words for a query in another language: people ask in theirs about sessions whose text is English.

`terms.tsv` has terms of software development: one line each, with the English word, then those in German, French, Spanish, Portuguese,
Italian, Russian, Chinese, Japanese and Korean, separated by spaces. They are folded, as those of a query are: a process that searches once
has no time to do it. There is one English word for each: with several, turns that have all of them come first, whatever they are about.
*/

use std::collections::{HashMap, HashSet};

use rust_stemmers::{Algorithm, Stemmer};

use crate::search::tokens::{QueryLanguage, fold_text};

const TERMS: &str = include_str!("terms.tsv");

/// Maximum number of English words that are added to a query.
const MAX_ENGLISH_WORDS: usize = 48;

/// Columns of the table.
const GERMAN: usize = 1;
const FRENCH: usize = 2;
const SPANISH: usize = 3;
const PORTUGUESE: usize = 4;
const ITALIAN: usize = 5;
const RUSSIAN: usize = 6;
const CHINESE: usize = 7;
const JAPANESE: usize = 8;
const KOREAN: usize = 9;

/// Minimum number of letters of a word whose stem, and of a compound whose parts are looked up; and of a part.
const MIN_STEMMED_LETTERS: usize = 4;
const MIN_COMPOUND_LETTERS: usize = 8;
const MIN_PART_LETTERS: usize = 4;
/// Letters between two parts of a compound.
const LINKS: [&str; 4] = ["", "s", "n", "es"];

/// The columns of the table for the languages of a query.
pub(super) struct Translator {
    columns: Vec<Column>,
    /// Number of English words that may still be added.
    room: usize,
}

/// A language with the English words for its words.
struct Column {
    number: usize,
    terms: HashMap<&'static str, &'static str>,
    stemmer: Option<Stemmer>,
    /// The English words, for compounds.
    english: HashSet<&'static str>,
}

impl Translator {
    /// Returns the columns for a query; none if it is in English.
    pub fn of(query: &str, language: &QueryLanguage) -> Self {
        let has = |script: fn(char) -> bool| query.chars().any(script);
        let mut columns = language.term_columns();
        if has(|c| matches!(c, '\u{0400}'..='\u{04ff}')) {
            columns.push(RUSSIAN);
        }
        let has_kana = has(|c| matches!(c, '\u{3040}'..='\u{30ff}' | '\u{ff66}'..='\u{ff9d}'));
        if has_kana {
            columns.push(JAPANESE);
        } else if has(|c| matches!(c, '\u{3400}'..='\u{9fff}')) {
            columns.push(CHINESE);
        }
        if has(|c| matches!(c, '\u{ac00}'..='\u{d7a3}')) {
            columns.push(KOREAN);
        }
        Self { columns: columns.into_iter().map(Column::new).collect(), room: MAX_ENGLISH_WORDS }
    }

    /// Returns the English word for a folded word of a language with spaces, or those for the parts of a compound.
    pub fn word(&mut self, folded: &str) -> Vec<&'static str> {
        let mut columns = self.columns.iter().filter(|column| column.number < CHINESE);
        let mut found = columns.find_map(|column| column.word(folded)).unwrap_or_default();
        found.truncate(self.room);
        self.room -= found.len();
        found
    }

    /// Returns the terms in a text without spaces, in its order, with the English word for each.
    pub fn unspaced(&mut self, text: &str) -> Vec<(String, &'static str)> {
        let mut found = Vec::new();
        for column in self.columns.iter().filter(|column| column.number >= CHINESE) {
            let text = fold_text(text);
            let mut add = |term: &str, english| found.push((term.to_owned(), english));
            if column.number == KOREAN {
                for word in text.split(|c: char| !c.is_alphanumeric()) {
                    longest_prefix(word, &column.terms).into_iter().for_each(|(length, english)| add(&word[..length], english));
                }
            } else {
                longest_matches(&text, &column.terms, &mut add);
            }
        }
        found.truncate(self.room);
        self.room -= found.len();
        found
    }
}

impl Column {
    fn new(number: usize) -> Self {
        let algorithm = match number {
            GERMAN => Some(Algorithm::German),
            FRENCH => Some(Algorithm::French),
            SPANISH => Some(Algorithm::Spanish),
            PORTUGUESE => Some(Algorithm::Portuguese),
            ITALIAN => Some(Algorithm::Italian),
            RUSSIAN => Some(Algorithm::Russian),
            _ => None,
        };
        let english = TERMS.lines().filter(|_| number == GERMAN).filter_map(|line| line.split('\t').next());
        Self { number, terms: terms(number), stemmer: algorithm.map(Stemmer::create), english: english.collect() }
    }

    /// Returns the English word for a folded word, or those for its parts.
    fn word(&self, folded: &str) -> Option<Vec<&'static str>> {
        let is_compound = self.number == GERMAN && folded.len() >= MIN_COMPOUND_LETTERS && folded.is_ascii();
        self.form(folded).map(|english| vec![english]).or_else(|| is_compound.then(|| self.parts(folded))?)
    }

    /// Returns the English word for a folded word, or for one with the same stem.
    fn form(&self, folded: &str) -> Option<&'static str> {
        if let Some(english) = self.terms.get(folded) {
            return Some(english);
        }
        let stemmer = self.stemmer.as_ref()?;
        let begin = folded.char_indices().nth(MIN_STEMMED_LETTERS - 1).map(|(end, _)| &folded[..end])?;
        let stem = stemmer.stem(folded);
        let same = self.terms.iter().filter(|(word, _)| word.starts_with(begin) && stemmer.stem(word) == stem);
        // The order of a map is another one in each process.
        same.min_by_key(|(word, _)| **word).map(|(_, english)| *english)
    }

    /// Returns the English words for the two parts of a compound, the first as long as can be. A part may be an English word.
    fn parts(&self, folded: &str) -> Option<Vec<&'static str>> {
        let part = |part: &str| self.form(part).or_else(|| self.english.get(part).copied());
        (MIN_PART_LETTERS..=folded.len().saturating_sub(MIN_PART_LETTERS)).rev().find_map(|at| {
            let (front, end) = folded.split_at(at);
            let end = part(end)?;
            let fronts = LINKS.iter().filter_map(|link| front.strip_suffix(link)).filter(|front| front.len() >= MIN_PART_LETTERS);
            fronts.into_iter().find_map(part).map(|front| vec![front, end])
        })
    }
}

/// The words of a language with their English ones.
fn terms(column: usize) -> HashMap<&'static str, &'static str> {
    let mut terms = HashMap::new();
    for line in TERMS.lines() {
        let mut cells = line.split('\t');
        let Some(english) = cells.next() else { continue };
        for word in cells.nth(column - 1).unwrap_or_default().split(' ').filter(|word| !word.is_empty()) {
            terms.entry(word).or_insert(english);
        }
    }
    terms
}

/// Finds the terms in a text without spaces, the longest at each place.
fn longest_matches(text: &str, terms: &HashMap<&str, &'static str>, add: &mut dyn FnMut(&str, &'static str)) {
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let taken = match longest_prefix(rest, terms) {
            Some((length, english)) => {
                add(&rest[..length], english);
                length
            }
            None => first.len_utf8(),
        };
        rest = &rest[taken..];
    }
}

/// The longest term that a text begins with, and its length in bytes.
fn longest_prefix(text: &str, terms: &HashMap<&str, &'static str>) -> Option<(usize, &'static str)> {
    const MAX_TERM_LETTERS: usize = 14;
    let ends: Vec<usize> = text.char_indices().map(|(at, c)| at + c.len_utf8()).take(MAX_TERM_LETTERS).collect();
    ends.into_iter().rev().find_map(|end| Some((end, *terms.get(&text[..end])?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::query::{Phrase, QueryTerms};
    use crate::search::tokens::{Tokenizer, fold_word};

    fn english(query: &str) -> String {
        QueryTerms::of(query, &Tokenizer::default()).english.join(" ")
    }

    #[test]
    fn what_is_asked_in_other_languages_is_asked_in_english() {
        for (query, words) in [
            ("Warum schlug die Prüfsumme der Datei fehl?", "checksum file fail failure"),
            ("pourquoi le fichier de configuration est-il vide ?", "file config configuration empty blank"),
            ("¿por qué falla la migración de la base de datos?", "fail"),
            ("データベースのエラー", "database db error"),
            ("为什么缓存没有刷新", "cache"),
            ("데이터베이스를 삭제", "database db delete remove"),
            ("почему падает тест", "test"),
        ] {
            let found = english(query);
            assert!(words.split(' ').any(|word| found.split(' ').any(|found| found == word)), "{query}: {found}");
        }
    }

    #[test]
    fn forms_and_parts_of_what_the_table_has_are_found() {
        for (query, words) in [
            ("Wo stehen die Sitzungsdaten?", "session data"),
            ("Wie heißt der Schattenbranch?", "shadow branch"),
            ("où sont les horodatages ?", "timestamp"),
            ("¿dónde están las sombreadas y las pruebas?", "test"),
            ("где таймстемпами занимались тесты", "timestamp test"),
        ] {
            let found = english(query);
            assert!(words.split(' ').all(|word| found.split(' ').any(|found| found == word)), "{query}: {found}");
        }
    }

    #[test]
    fn a_word_and_its_english_one_are_one_term() {
        let tokenizer = Tokenizer::default();
        let terms = QueryTerms::of("Warum fehlt die Datei, und wo war der Fehler?", &tokenizer);
        let groups = terms.phrase_groups();
        let group_of = |word| groups.iter().find(|(group, _)| group.contains(&Phrase::Word(word)));
        assert!(group_of("datei").is_some() && group_of("datei") == group_of("file"), "{groups:?}");
        assert_ne!(group_of("file"), group_of("error"));
        // What is typed is not searched twice.
        let terms = QueryTerms::of("Warum steht der Fehler nicht im error log?", &tokenizer);
        assert_eq!(terms.phrase_groups().iter().filter(|(group, _)| group.contains(&Phrase::Word("error"))).count(), 1);
    }

    #[test]
    fn english_and_code_stay_as_they_are() {
        for query in
            ["why does the die roller fail", "parse_http_header in src/main.rs", "", "🚀", "fix the build and run all tests"]
        {
            assert_eq!(english(query), "", "{query}");
        }
    }

    #[test]
    fn each_line_of_the_terms_has_all_columns() {
        for line in TERMS.lines() {
            assert_eq!(line.split('\t').count(), KOREAN + 1, "{line}");
            let english = line.split('\t').next().unwrap_or_default();
            assert!(!english.is_empty() && english.bytes().all(|byte| byte.is_ascii_lowercase()), "{line}");
            for word in line.split('\t').skip(1).flat_map(|cell| cell.split(' ')) {
                assert_eq!(fold_word(word), word, "{line}");
            }
        }
    }
}
