/*!
English words for a query in another language: people ask in theirs about sessions whose text is English.

`terms.tsv` has terms of software development: one line each, with the English word, then those in German, French, Spanish, Portuguese,
Italian, Russian, Chinese, Japanese and Korean, separated by spaces. Words that are spelled as the English one are left out there. They are folded, as those
of a query are: a process that searches once has no time to do it. There is one English word for each: with several, turns that have all of them come first,
whatever they are about.
*/

use rust_stemmers::{Algorithm, Stemmer};

use crate::search::tokens::{QueryLanguage, fold_text, is_english_stem};

const TERMS: &str = include_str!("terms.tsv");

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

/// Number of first letters that forms of a word have in common.
const COMMON_LETTERS: usize = 5;
/// Minimum number of letters of a compound whose parts are looked up, and of a part.
const MIN_COMPOUND_LETTERS: usize = 8;
const MIN_PART_LETTERS: usize = 4;
/// Letters between two parts of a compound.
const LINKS: [&str; 4] = ["", "s", "n", "es"];
/// Maximum number of letters of a term in a text without spaces.
const MAX_TERM_LETTERS: usize = 12;

/// The columns of the table for the languages of a query.
pub(super) struct Translator {
    columns: Vec<LanguageTerms>,
    /// English words of the table, in order, if one of the languages has spaces.
    english: Vec<&'static str>,
}

/// A language with the English words for its words, in order.
struct LanguageTerms {
    number: usize,
    terms: Vec<(&'static str, &'static str)>,
    stemmer: Option<Stemmer>,
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
        let mut english = Vec::new();
        if columns.iter().any(|number| *number < CHINESE) {
            english.extend(TERMS.lines().filter_map(|line| line.split('\t').next()));
            english.sort_unstable();
        }
        Self { columns: columns.into_iter().map(LanguageTerms::new).collect(), english }
    }

    /// Returns the English word for a folded word of a language with spaces, or those for the parts of a compound. `stem` is its stem in
    /// English: what may be an English word is one, unless the table has it in a language of the query.
    pub fn word(&self, folded: &str, stem: &str) -> Vec<&'static str> {
        // Most queries are in English, and to look up a stem takes some microseconds.
        if self.english.is_empty() {
            return Vec::new();
        }
        let columns = || self.columns.iter().filter(|column| column.number < CHINESE);
        if let Some(english) = columns().find_map(|column| column.term(folded)) {
            return vec![english];
        }
        if self.english(folded).is_some() || is_english_stem(stem) {
            return Vec::new();
        }
        let form = columns().find_map(|column| column.form(folded)).map(|english| vec![english]);
        form.or_else(|| columns().find_map(|column| self.parts(column, folded))).unwrap_or_default()
    }

    /// Returns the English words for the terms in a text without spaces, in its order.
    pub fn unspaced(&self, text: &str) -> Vec<&'static str> {
        let mut found = Vec::new();
        for column in self.columns.iter().filter(|column| column.number >= CHINESE) {
            let text = fold_text(text);
            if column.number == KOREAN {
                let words = text.split(|c: char| !c.is_alphanumeric());
                found.extend(words.filter_map(|word| column.longest_prefix(word)).map(|(_, english)| english));
            } else {
                column.longest_matches(&text, &mut found);
            }
        }
        found
    }

    /// Returns a word that is an English one of the table.
    fn english(&self, word: &str) -> Option<&'static str> {
        self.english.binary_search(&word).ok().map(|place| self.english[place])
    }

    /// Returns the English words for the two parts of a German compound, the first as long as can be. A part may be an English word.
    fn parts(&self, column: &LanguageTerms, folded: &str) -> Option<Vec<&'static str>> {
        if column.number != GERMAN || folded.len() < MIN_COMPOUND_LETTERS || !folded.is_ascii() {
            return None;
        }
        let part = |part: &str| column.term(part).or_else(|| self.english(part));
        (MIN_PART_LETTERS..=folded.len() - MIN_PART_LETTERS).rev().find_map(|at| {
            let (front, end) = folded.split_at(at);
            let end = part(end)?;
            let fronts = LINKS.iter().filter_map(|link| front.strip_suffix(link)).filter(|front| front.len() >= MIN_PART_LETTERS);
            fronts.into_iter().find_map(part).map(|front| vec![front, end])
        })
    }
}

impl LanguageTerms {
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
        let mut terms = Vec::new();
        for line in TERMS.lines() {
            let mut cells = line.split('\t');
            let Some(english) = cells.next() else { continue };
            let words = cells.nth(number - 1).unwrap_or_default().split(' ').filter(|word| !word.is_empty());
            terms.extend(words.map(|word| (word, english)));
        }
        terms.sort_unstable();
        Self { number, terms, stemmer: algorithm.map(Stemmer::create) }
    }

    /// Returns the English word for a folded word.
    fn term(&self, folded: &str) -> Option<&'static str> {
        let place = self.terms.partition_point(|(word, _)| *word < folded);
        self.terms.get(place).filter(|(word, _)| *word == folded).map(|(_, english)| *english)
    }

    /// Returns the English word for one with the same stem.
    fn form(&self, folded: &str) -> Option<&'static str> {
        let stemmer = self.stemmer.as_ref()?;
        let begin = folded.char_indices().nth(COMMON_LETTERS - 1).map(|(at, last)| &folded[..at + last.len_utf8()])?;
        let stem = stemmer.stem(folded);
        let first = self.terms.partition_point(|(word, _)| *word < begin);
        let mut alike = self.terms[first..].iter().take_while(|(word, _)| word.starts_with(begin));
        alike.find(|(word, _)| stemmer.stem(word) == stem).map(|(_, english)| *english)
    }

    /// Finds the terms in a text without spaces, the longest at each place.
    fn longest_matches(&self, text: &str, found: &mut Vec<&'static str>) {
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let taken = match self.longest_prefix(rest) {
                Some((length, english)) => {
                    found.push(english);
                    length
                }
                None => first.len_utf8(),
            };
            rest = &rest[taken..];
        }
    }

    /// The longest term that a text begins with, and its length in bytes.
    fn longest_prefix(&self, text: &str) -> Option<(usize, &'static str)> {
        let ends: Vec<usize> = text.char_indices().map(|(at, c)| at + c.len_utf8()).take(MAX_TERM_LETTERS).collect();
        ends.into_iter().rev().find_map(|end| Some((end, self.term(&text[..end])?)))
    }
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
            ("¿cuándo migraban las pruebas?", "test"),
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
    fn words_of_english_stay_in_a_query_of_another_language() {
        for (query, wrong) in [
            ("Wo steht das password im framework, und der username?", "match frame user"),
            ("pourquoi le server et la base de test ?", "use bottom"),
            ("¿por qué está el file en la page?", "row payment"),
            ("mit check ratatui", "check"),
        ] {
            let found = english(query);
            assert!(!wrong.split(' ').any(|word| found.split(' ').any(|found| found == word)), "{query}: {found}");
        }
        assert!(!QueryTerms::of("mit check ratatui", &Tokenizer::default()).is_foreign());
    }

    #[test]
    fn a_word_stands_in_one_line_of_a_language() {
        for number in GERMAN..=KOREAN {
            let terms = LanguageTerms::new(number).terms;
            let twice = terms.windows(2).find(|pair| pair[0].0 == pair[1].0);
            assert_eq!(twice, None);
            assert!(terms.iter().all(|(word, _)| word.chars().count() <= MAX_TERM_LETTERS || number < CHINESE));
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
