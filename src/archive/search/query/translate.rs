/*!
English words for a query in another language: people ask in theirs about sessions whose text is English.

`terms.tsv` has terms of software development: one line each, with English words (space-separated), then those in German, French, Spanish,
Portuguese, Italian, Russian, Chinese, Japanese and Korean. Words that are English words as well are left out there. They are folded, as those
of a query are: a process that searches once has no time to do it.
*/

use std::collections::HashMap;

use crate::search::tokens::{QueryLanguage, fold_text};

const TERMS: &str = include_str!("terms.tsv");

/// Maximum number of English words that are added to a query.
const MAX_ENGLISH_WORDS: usize = 32;

/// Column of a language that is recognized by its script.
const RUSSIAN: usize = 6;
const CHINESE: usize = 7;
const JAPANESE: usize = 8;
const KOREAN: usize = 9;

/// Returns English words for those of a query, in its order; none if it is in English.
pub(super) fn english_words(query: &str, language: &QueryLanguage) -> Vec<&'static str> {
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
    let mut found: Vec<&'static str> = Vec::new();
    let text = fold_text(query);
    for column in columns {
        let terms = terms(column);
        let mut add = |english: &'static str| {
            for word in english.split(' ') {
                if !found.contains(&word) && found.len() < MAX_ENGLISH_WORDS {
                    found.push(word);
                }
            }
        };
        if matches!(column, CHINESE | JAPANESE) {
            longest_matches(&text, &terms, &mut add);
            continue;
        }
        for word in text.split(|c: char| !c.is_alphanumeric() && c != '-').filter(|word| !word.is_empty()) {
            match terms.get(word) {
                Some(english) => add(english),
                None if column == KOREAN => longest_prefix(word, &terms).into_iter().for_each(|(_, english)| add(english)),
                None => word.split('-').filter_map(|part| terms.get(part)).for_each(|english| add(english)),
            }
        }
    }
    found
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
fn longest_matches(text: &str, terms: &HashMap<&str, &'static str>, add: &mut dyn FnMut(&'static str)) {
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let taken = match longest_prefix(rest, terms) {
            Some((length, english)) => {
                add(english);
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
    use crate::search::tokens::fold_word;

    fn english(query: &str) -> String {
        english_words(query, &QueryLanguage::of(query)).join(" ")
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
            assert!(
                !english.is_empty() && english.bytes().all(|byte| byte.is_ascii_lowercase() || b" -".contains(&byte)),
                "{line}"
            );
            for word in line.split('\t').skip(1).flat_map(|cell| cell.split(' ')) {
                assert_eq!(fold_word(word), word, "{line}");
            }
        }
    }
}
