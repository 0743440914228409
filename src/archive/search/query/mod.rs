/*!
Translates what a user types into a query of the index.

Nothing that is typed becomes syntax of the index by accident: a query is cut into the same words as texts are, and those have
letters and digits only. Two things have a meaning: `"quotes"` around text that must occur as typed, and `*` behind the start of a
word or name.
*/

mod prefix;
mod quote;
mod translate;

use std::collections::{HashMap, HashSet};

pub(super) use prefix::Phrase;
pub use prefix::WordPrefix;
pub use quote::Quote;

use self::translate::Translator;
use super::time::NamedTime;
use super::tokens::{QueryLanguage, Tokenizer, fold_text, fold_word, is_foreign_stop_word, is_unspaced};

/// English words that say nothing about the subject. They are left out of a query that has others.
const QUERY_STOP_WORDS: &str = "a about again all also am an and any anything are as ask at be because been being between both but by can \
    could d did do does doing don done down each ever every few for from further get got had has have having he her here him his \
    how i if in into is it its just ll m me might more most my myself no nor not now of off on once one or other our out over own \
    re s same she should so some someth something such t than that the their them then there these they thing this those through \
    to too under until up us ve very was we were what when where which while who whom whose why will with would you your yours";

/// Words of a query that only asks what happened at a time.
const ACTIVITY_WORDS: &str = "conversation conversations discuss discussed everything find give happen happened happening list please session \
    sessions show talk talked tell turn turns work worked working";

/// Numbers of letters of a word in hexadecimal that may be the start of an id or of a hash.
const HASH_PREFIX_LETTERS: std::ops::RangeInclusive<usize> = 7..=40;

/// Maximum number of English words that are added to a query.
const MAX_ENGLISH_WORDS: usize = 48;

/// The words of a query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueryTerms {
    /// Words and names; each is searched on its own.
    pub words: Vec<String>,
    /// Other forms of some words, by the word: in the languages that it may be of, and the parts of a compound.
    pub variants: HashMap<String, Vec<String>>,
    /// Prefixes of words.
    pub prefixes: Vec<WordPrefix>,
    /// Texts in quotes, which must occur as typed.
    pub quotes: Vec<Quote>,
    /// English words for those in another language.
    pub english: Vec<&'static str>,
    /// Stems of these, by the words that they stand for. Others are words of their own: those for parts of compounds, and for what has no spaces.
    pub translated: HashMap<String, String>,
    /// `true` if the query names a time and nothing else to look for.
    pub is_time_only: bool,
}

impl QueryTerms {
    /// `true` if the query is judged as one in another language than English: there are English words for some of its own.
    pub fn is_foreign(&self) -> bool {
        !self.english.is_empty()
    }

    /// Reads a query.
    pub fn of(query: &str, tokenizer: &Tokenizer) -> Self {
        let (mut terms, empty) = Self::read(query, tokenizer);
        if terms.is_empty() {
            terms.words = empty.into_iter().map(|(word, _)| word).collect();
        }
        terms.once()
    }

    /// Reads a query that names a time. The time is not a word that turns of that time would have. But if it is a day, written as
    /// texts write it, its word is kept: other turns may mention it.
    pub fn without_time(query: &str, named: &NamedTime, tokenizer: &Tokenizer) -> Self {
        let time = &query[named.range.clone()];
        let (mut terms, _) = Self::read(&format!("{} {}", &query[..named.range.start], &query[named.range.end..]), tokenizer);
        let doing: HashSet<String> =
            ACTIVITY_WORDS.split_ascii_whitespace().map(|word| tokenizer.stem(word).into_owned()).collect();
        terms.is_time_only =
            terms.prefixes.is_empty() && terms.quotes.is_empty() && terms.words.iter().all(|word| doing.contains(word));
        if terms.is_time_only {
            terms.words.clear();
        }
        if named.is_day() {
            tokenizer.tokens(time, &mut |token| {
                if token.is_whole && token.word.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_') {
                    terms.words.push(token.word);
                }
            });
        }
        terms.once()
    }

    /// Returns the terms of a query, and its words that say nothing.
    fn read(query: &str, tokenizer: &Tokenizer) -> (Self, Vec<(String, String)>) {
        let mut terms = Self::default();
        let mut empty = Vec::new();
        let language = QueryLanguage::of(query);
        let translator = Translator::of(query, &language);
        let mut last: Option<String> = None;
        // Between quotes is every other piece; the last one is not, when nothing closes it.
        let pieces: Vec<&str> = query.split('"').collect();
        for (at, piece) in pieces.iter().enumerate() {
            if at % 2 == 1 && at + 1 < pieces.len() {
                terms.quotes.extend(Quote::of(piece, tokenizer));
                continue;
            }
            tokenizer.query_tokens(piece, &language, &mut |token| {
                if token.is_variant {
                    if let Some(word) = &last {
                        terms.variants.entry(word.clone()).or_default().push(token.word);
                    }
                    return;
                }
                last = None;
                let typed = fold_word(&piece[token.range.clone()]);
                let behind = piece[token.range.end..].trim_start_matches(['_', '-', '.']);
                if behind.starts_with('*') && token.range.len() > 1 {
                    // The whole of a name is not stemmed, and so begins as it is typed.
                    let begin = if token.is_whole {
                        WordPrefix { letters: token.word, stems: Vec::new() }
                    } else {
                        WordPrefix::of(typed, tokenizer)
                    };
                    terms.prefixes.push(begin);
                } else if is_stop_word(&typed) || language.is_stop_word(&typed) {
                    empty.push((token.word, typed));
                } else if is_hash_prefix(&token.word) || is_one_character(&token.word) {
                    terms.prefixes.push(WordPrefix { letters: token.word, stems: Vec::new() });
                } else {
                    last = Some(token.word.clone());
                    let english = if token.is_whole { Vec::new() } else { translator.word(&typed, &token.word) };
                    if let [english] = english[..] {
                        terms.translate(&token.word, english, tokenizer);
                    }
                    terms.words.push(token.word);
                    if english.len() > 1 {
                        // Each part of a compound counts.
                        english.into_iter().for_each(|part| terms.add_english(part, tokenizer));
                    }
                }
            });
            translator.unspaced(piece).into_iter().for_each(|english| terms.add_english(english, tokenizer));
        }
        (terms, empty)
    }

    /// Notes an English word. `None` if there are enough, or if it says nothing.
    fn note_english(&mut self, english: &'static str, tokenizer: &Tokenizer) -> Option<String> {
        if !self.english.contains(&english) {
            if self.english.len() >= MAX_ENGLISH_WORDS || is_stop_word(english) {
                return None;
            }
            self.english.push(english);
        }
        Some(tokenizer.stem(english).into_owned())
    }

    /// Notes the English word for a word.
    fn translate(&mut self, word: &str, english: &'static str, tokenizer: &Tokenizer) {
        if let Some(stem) = self.note_english(english, tokenizer).filter(|stem| stem != word) {
            self.translated.insert(word.to_owned(), stem);
        }
    }

    /// Adds an English word for what is not indexed as a word.
    fn add_english(&mut self, english: &'static str, tokenizer: &Tokenizer) {
        let stem = self.note_english(english, tokenizer);
        self.words.extend(stem);
    }

    /// Removes duplicates.
    fn once(mut self) -> Self {
        let mut seen = HashSet::new();
        self.words.retain(|word| seen.insert(word.clone()));
        // A form of two words counts for the first.
        for word in &self.words {
            if self.translated.get(word).is_some_and(|english| !seen.insert(english.clone())) {
                self.translated.remove(word);
            }
            if let Some(variants) = self.variants.get_mut(word) {
                variants.retain(|variant| seen.insert(variant.clone()));
            }
        }
        self.variants.retain(|_, variants| !variants.is_empty());
        let mut seen = HashSet::new();
        self.prefixes.retain(|begin| seen.insert(begin.letters.clone()));
        self
    }

    /// `true` if there is nothing to look for.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty() && self.prefixes.is_empty() && self.quotes.is_empty()
    }

    /// `true` if some of it must occur in a hit, so that nothing is a hit for its neighbors.
    pub fn has_quotes(&self) -> bool {
        !self.quotes.is_empty()
    }

    /// Returns the FTS5 expression for these columns (all, if there are none): any of the words, all of the quotes.
    pub fn expression(&self, columns: &[&str]) -> Option<String> {
        let begins = self.prefixes.iter().flat_map(WordPrefix::phrases);
        let words = self.words.iter().flat_map(|word| self.forms(word));
        let any: Vec<String> = words.chain(begins).map(|phrase| phrase.expression()).collect();
        let all: Vec<String> = self.quotes.iter().map(Quote::expression).collect();
        let any = (!any.is_empty()).then(|| any.join(" OR "));
        let all = (!all.is_empty()).then(|| all.join(" AND "));
        let expression = match (any, all) {
            (None, None) => return None,
            (Some(any), None) => any,
            (None, Some(all)) => all,
            (Some(any), Some(all)) => format!("({all}) OR (({all}) AND ({any}))"),
        };
        Some(within(&expression, columns))
    }

    /// Returns what [`Self::expression`] gives scores for: groups of alternatives, and how often each group occurs in it.
    pub fn groups(&self, columns: &[&str]) -> Vec<(Vec<String>, f64)> {
        let within = |phrase: Phrase<'_>| within(&phrase.expression(), columns);
        self.phrase_groups().into_iter().map(|(group, times)| (group.into_iter().map(within).collect(), times)).collect()
    }

    /// Returns the same groups as patterns for the words of a text. Those in quotes come first ([`Self::required_groups`]).
    pub(super) fn phrase_groups(&self) -> Vec<(Vec<Phrase<'_>>, f64)> {
        let any: Vec<Vec<Phrase<'_>>> =
            self.words.iter().map(|word| self.forms(word)).chain(self.prefixes.iter().map(WordPrefix::phrases)).collect();
        let twice = if any.is_empty() { 1.0 } else { 2.0 };
        let of_quotes = self
            .quotes
            .iter()
            .flat_map(|quote| quote.words.iter().map(|word| one(word)).chain(quote.prefixes.iter().map(WordPrefix::phrases)));
        of_quotes.map(|group| (group, twice)).chain(any.into_iter().map(|group| (group, 1.0))).collect()
    }

    /// Returns the patterns for a word and its other forms.
    fn forms<'t>(&'t self, word: &'t str) -> Vec<Phrase<'t>> {
        let variants = self.variants.get(word).into_iter().flatten();
        std::iter::once(word).chain(variants.chain(self.translated.get(word)).map(String::as_str)).map(Phrase::Word).collect()
    }

    /// Number of groups that must occur, since they are in quotes.
    pub(super) fn required_groups(&self) -> usize {
        self.quotes.iter().map(|quote| quote.words.len() + quote.prefixes.len()).sum()
    }

    /// `true` if these texts have all quoted texts.
    pub fn quotes_are_in<'a>(&self, texts: impl Iterator<Item = &'a str>) -> bool {
        if self.quotes.is_empty() {
            return true;
        }
        let mut missing: Vec<&Quote> = self.quotes.iter().collect();
        for text in texts {
            let folded = fold_text(text);
            let runs = quote::runs(&folded);
            missing.retain(|quote| !quote.is_in(&runs));
        }
        missing.is_empty()
    }

    /// `true` if the query looks for this word of a text.
    pub fn has_word(&self, word: &str) -> bool {
        self.words.iter().chain(self.quotes.iter().flat_map(|quote| &quote.words)).any(|term| term == word)
            || self.words.iter().filter_map(|term| self.variants.get(term)).flatten().any(|variant| variant == word)
            || self.translated.values().any(|english| english == word)
            || self.prefixes.iter().chain(self.quotes.iter().flat_map(|quote| &quote.prefixes)).any(|begin| begin.has(word))
    }
}

fn one(word: &str) -> Vec<Phrase<'_>> {
    vec![Phrase::Word(word)]
}

fn within(expression: &str, columns: &[&str]) -> String {
    if columns.is_empty() { expression.to_owned() } else { format!("{{{}}} : ({expression})", columns.join(" ")) }
}

/// `true` if a word, folded, says nothing about the subject, whatever the language of the words beside it.
pub(super) fn is_stop_word(word: &str) -> bool {
    QUERY_STOP_WORDS.split_ascii_whitespace().any(|empty| empty == word) || is_foreign_stop_word(word)
}

/// `true` for what may be the start of an id or of a hash, which people give by its first digits.
fn is_hash_prefix(word: &str) -> bool {
    HASH_PREFIX_LETTERS.contains(&word.len())
        && word.bytes().all(|byte| byte.is_ascii_hexdigit())
        && word.bytes().any(|byte| byte.is_ascii_digit())
        && word.bytes().any(|byte| byte.is_ascii_alphabetic())
}

/// `true` for a single character of a script that is indexed in pairs.
fn is_one_character(word: &str) -> bool {
    let mut characters = word.chars();
    characters.next().is_some_and(is_unspaced) && characters.next().is_none()
}

#[cfg(test)]
mod languages;
#[cfg(test)]
mod tests;
