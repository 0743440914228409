/*!
The language of a passage in Latin letters, by its smallest words and by its letters; and the words that say nothing.

Three words are enough for a passage, which a model for languages could not tell at all. English, code and lists have no language
here, so that nothing is added to their words.
*/

use std::sync::LazyLock;

use memchr::memmem;
use rust_stemmers::{Algorithm, Stemmer};

use super::small_words::{LANGUAGES, LETTERS, Language, SMALL_WORDS};
use crate::search::word_list::behind_word;
use Language::{Danish, Dutch, English, Finnish, German, Hungarian, Norwegian, Swedish, Vietnamese};

/// Minimum and maximum number of bytes of a passage, which has one language.
const MIN_PASSAGE_BYTES: usize = 300;
const MAX_PASSAGE_BYTES: usize = 2_000;
/// Maximum number of words of a passage that are read for its language.
const MAX_READ_WORDS: usize = 64;
/// Share of a passage's words that are a language's smallest ones, at least: one in so many.
const MIN_SHARE_DIVISOR: u32 = 16;
/// Number of words of a short passage: one word is enough there.
const SHORT_PASSAGE_WORDS: u32 = 6;
/// Maximum number of letters beyond ASCII that tell the language of a passage.
const MAX_SEEN_LETTERS: usize = 8;
/// Maximum number of languages that a passage may be of: neighbors are much alike.
const MAX_ALIKE: u32 = 4;
/// Share of a passage's words that have letters beyond ASCII, at least, so that these tell its language: one in so many.
const MARKED_SHARE_DIVISOR: u32 = 6;
/// Maximum bytes of a word that is looked up: a number of 128 bits.
const MAX_KEY_BYTES: usize = 16;
/// Minimum letters of a word that may be of another language where nothing else says so.
const MIN_FOREIGN_LETTERS: usize = 5;

/// Stems of words in English texts about software, those of five letters or more: those that three or more of some thousand such texts have. A
/// word that is not among them may be of another language.
const ENGLISH_STEMS: &str = include_str!("english.txt");

/// A set of languages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LanguageSet(u32);

impl LanguageSet {
    /// All but English.
    const FOREIGN: Self = Self((1 << LANGUAGES) - 2);

    pub(super) const fn of(language: Language) -> Self {
        Self(1 << language as u32)
    }

    pub(super) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(super) const fn has(self, language: Language) -> bool {
        self.0 & Self::of(language).0 != 0
    }

    /// `true` if one of them writes compounds as one word.
    pub(super) fn has_compounds(self) -> bool {
        [German, Dutch, Swedish, Danish, Norwegian, Finnish, Hungarian].iter().any(|language| self.has(*language))
    }
}

/// The passage of a text that was read last.
#[derive(Debug, Default)]
pub(super) struct Passages {
    end: usize,
    languages: LanguageSet,
}

impl Passages {
    /// Returns the languages of the passage at a place of the text. Places come in order.
    pub fn language(&mut self, text: &str, at: usize) -> LanguageSet {
        if at >= self.end {
            self.end = passage_end(text, at);
            let evidence = Evidence::of(&text[at..self.end]);
            if evidence.words > SHORT_PASSAGE_WORDS || evidence.most > 0 || evidence.count(English) > 0 {
                self.languages = evidence.of_text();
            }
        }
        self.languages
    }
}

fn passage_end(text: &str, start: usize) -> usize {
    let bytes = text.as_bytes();
    if bytes.len() - start <= MIN_PASSAGE_BYTES {
        return bytes.len();
    }
    let last = bytes.len().min(start + MAX_PASSAGE_BYTES);
    let is_space = |at: &usize| bytes[*at].is_ascii_whitespace();
    let line = bytes[start + MIN_PASSAGE_BYTES..last].iter().position(|byte| *byte == b'\n');
    let end = line.map(|line| start + MIN_PASSAGE_BYTES + line);
    // Anything without spaces is one word, which is cut as a whole; where it is cut, its language is that of its start.
    let end = end.or_else(|| (start + MIN_PASSAGE_BYTES..last).rev().find(is_space)).unwrap_or(last);
    (end..=bytes.len()).find(|end| text.is_char_boundary(*end)).unwrap_or(bytes.len())
}

/// Numbers of the small words of each language, and of its letters.
#[derive(Debug, Default)]
struct Evidence {
    counts: [u8; LANGUAGES],
    /// The largest number of a language other than English.
    most: u8,
    words: u32,
    has_letters: bool,
}

impl Evidence {
    fn of(passage: &str) -> Self {
        let mut found = Self::default();
        let mut letters = SeenLetters::default();
        let mut by_letters = [0_u8; LANGUAGES];
        let mut by_one_letter = [0_u8; LANGUAGES];
        // One that comes again says no more.
        let mut seen = Vec::new();
        let mut marked = 0;
        let bytes = passage.as_bytes();
        let mut at = 0;
        while at < bytes.len() && found.words < MAX_READ_WORDS as u32 {
            let (mut key, start) = (0_u128, at);
            let mut has_letters = false;
            while let Some(byte) = bytes.get(at).filter(|byte| byte.is_ascii_alphabetic() || is_letter_byte(**byte)) {
                has_letters |= !byte.is_ascii();
                // Longer words have no key, as the first bytes go out at the other end: the length tells.
                key = key << 8 | u128::from(if byte.is_ascii_uppercase() { byte | 0x20 } else { *byte });
                at += 1;
            }
            if at == start {
                at += 1;
                continue;
            }
            found.words += 1;
            if has_letters && passage.is_char_boundary(start) && passage.is_char_boundary(at) {
                marked += u32::from(letters.read(&passage[start..at], &mut |languages| add(&mut by_letters, languages)));
            }
            if at - start <= MAX_KEY_BYTES {
                let (place, languages) = TABLE.get(key);
                if languages != 0 && is_alone(bytes, start, at) && !seen.contains(&place) {
                    seen.push(place);
                    add(if at - start > 1 { &mut found.counts } else { &mut by_one_letter }, languages);
                }
            }
        }
        // A single letter may be a variable: it says something only beside others.
        for (count, more) in found.counts.iter_mut().zip(by_one_letter).filter(|(count, _)| **count > 0) {
            *count = count.saturating_add(more);
        }
        // A few names have such letters in English as well.
        if marked * MARKED_SHARE_DIVISOR >= found.words {
            found.has_letters = marked > 0;
            found.counts.iter_mut().zip(by_letters).for_each(|(count, more)| *count = count.saturating_add(more));
        }
        found.most = found.counts[1..].iter().copied().max().unwrap_or(0);
        found
    }

    fn count(&self, language: Language) -> u8 {
        self.counts[language as usize]
    }

    /// The languages with the largest number.
    fn best(&self) -> LanguageSet {
        let best = self.counts.iter().enumerate().skip(1).filter(|(_, count)| **count == self.most);
        LanguageSet(best.fold(0, |set, (language, _)| set | 1 << language))
    }

    /// The languages of a text; none if too many are as likely.
    fn of_text(&self) -> LanguageSet {
        let most = u32::from(self.most);
        let is_enough = most >= 2 && most * MIN_SHARE_DIVISOR >= self.words || most == 1 && self.words <= SHORT_PASSAGE_WORDS;
        if !is_enough || self.most <= self.count(English) {
            return LanguageSet::default();
        }
        let best = self.best();
        if best.0.count_ones() <= MAX_ALIKE { best } else { LanguageSet::default() }
    }
}

/// `true` for a word of prose, not of an address, a path or code.
fn is_alone(bytes: &[u8], start: usize, end: usize) -> bool {
    let is_open = |byte: u8| byte.is_ascii_whitespace() || matches!(byte, b'(' | b'"' | b'*') || !byte.is_ascii();
    let is_closed =
        |byte: u8| byte.is_ascii_whitespace() || matches!(byte, b',' | b';' | b'?' | b'!' | b')' | b'"' | b'*' | b'\'');
    let ends = match bytes.get(end..) {
        None | Some([]) => true,
        Some([b'.' | b':', rest @ ..]) => rest.first().is_none_or(u8::is_ascii_whitespace),
        Some([byte, ..]) => is_closed(*byte) || !byte.is_ascii(),
    };
    ends && (start == 0 || is_open(bytes[start - 1]))
}

fn add(counts: &mut [u8; LANGUAGES], languages: u32) {
    let mut left = languages & ((1 << LANGUAGES) - 1);
    while left != 0 {
        let count = &mut counts[left.trailing_zeros() as usize];
        *count = count.saturating_add(1);
        left &= left - 1;
    }
}

/// `true` for bytes of letters beyond ASCII; not for those of signs such as dashes and quotation marks.
fn is_letter_byte(byte: u8) -> bool {
    byte >= 0x80 && byte != 0xe2
}

/// The letters beyond ASCII that were read, each once.
#[derive(Debug, Default)]
struct SeenLetters(Vec<char>);

impl SeenLetters {
    /// Reads a word, and passes the languages of each new letter; `true` if it has such letters at all.
    fn read(&mut self, word: &str, sink: &mut dyn FnMut(u32)) -> bool {
        let mut has_letters = false;
        for character in word.chars().filter(|character| ('\u{a1}'..='\u{1eff}').contains(character)) {
            has_letters = true;
            let lower = character.to_lowercase().next().unwrap_or(character);
            if self.0.len() < MAX_SEEN_LETTERS && !self.0.contains(&lower) {
                self.0.push(lower);
                sink(languages_of(lower));
            }
        }
        has_letters
    }
}

fn languages_of(letter: char) -> u32 {
    let vietnamese = if matches!(letter, '\u{1ea0}'..='\u{1ef9}') { LanguageSet::of(Vietnamese).0 } else { 0 };
    let known = LETTERS.iter().filter(|(letters, _)| letters.contains(letter)).flat_map(|(_, languages)| *languages);
    known.fold(vietnamese, |set, language| set | LanguageSet::of(*language).0)
}

/// The small words of all languages by their bytes, open to the next free place.
struct Table(Vec<(u128, u32)>);

const TABLE_PLACES: usize = 4_096;

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let mut table = Table(vec![(0, 0); TABLE_PLACES]);
    for (language, words) in SMALL_WORDS {
        for word in words.split_whitespace().filter(|word| word.len() <= MAX_KEY_BYTES) {
            let key = word.bytes().fold(0, |key, byte| key << 8 | u128::from(byte));
            let place = table.place(key);
            table.0[place].0 = key;
            table.0[place].1 |= LanguageSet::of(language).0;
        }
    }
    table
});

impl Table {
    fn place(&self, key: u128) -> usize {
        let folded = (key >> 64) as u64 ^ key as u64;
        let mut place = (folded.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52) as usize % TABLE_PLACES;
        while self.0[place].0 != 0 && self.0[place].0 != key {
            place = (place + 1) % TABLE_PLACES;
        }
        place
    }

    /// Returns the place of a word, and its languages.
    fn get(&self, key: u128) -> (usize, u32) {
        let place = self.place(key);
        (place, self.0[place].1)
    }
}

/// All small words but those of English, folded: one a line, behind it the languages as a hexadecimal set, and `*` if it says nothing
/// wherever it stands. Made of the lists by the test below, since folding them takes a process longer than a search.
const STOP_WORDS: &str = include_str!("stop_words.txt");

/// Returns the languages of a folded small word, and if it says nothing wherever it stands.
fn stop_word(folded: &str) -> Option<(LanguageSet, bool)> {
    let (languages, firm) = behind_word(STOP_WORDS, folded)?.split_once(' ')?;
    Some((LanguageSet(u32::from_str_radix(languages, 16).ok()?), !firm.is_empty()))
}

/// `true` if a stem is one of an English text about software.
pub(in crate::search) fn is_english_stem(stem: &str) -> bool {
    let is_space = |at: Option<&u8>| at.is_none_or(u8::is_ascii_whitespace);
    let bytes = ENGLISH_STEMS.as_bytes();
    // As quick as a table, which would have to be made in each process.
    !stem.is_empty()
        && memmem::find_iter(bytes, stem)
            .any(|at| (at == 0 || is_space(bytes.get(at - 1))) && is_space(bytes.get(at + stem.len())))
}

/// `true` if a word, folded, says nothing about the subject in a language other than English, and nothing else in English.
pub(in crate::search) fn is_foreign_stop_word(folded: &str) -> bool {
    stop_word(folded).is_some_and(|(_, is_firm)| is_firm)
}

/// The language of a query, as far as a few words tell it.
#[derive(Debug, Default)]
pub struct QueryLanguage {
    /// The languages that it is in; none if that is not known.
    known: LanguageSet,
    /// Languages with as many small words as any.
    likely: LanguageSet,
    is_english: bool,
}

impl QueryLanguage {
    /// Reads a query.
    pub fn of(query: &str) -> Self {
        let evidence = Evidence::of(query);
        let most = evidence.most;
        let best = evidence.best();
        let is_foreign = most > evidence.count(English);
        let is_known = is_foreign && most >= 2;
        // One small word may be an English one, or a name; not beside a word that is none.
        let is_likely = is_foreign && (evidence.has_letters || has_foreign_word(query));
        Self {
            known: if is_known && best.0.count_ones() <= MAX_ALIKE { best } else { LanguageSet::default() },
            likely: if is_known || is_likely { best } else { LanguageSet::default() },
            is_english: evidence.count(English) > 0 && !is_foreign,
        }
    }

    /// Returns the languages that a word of the query may be of, other than English.
    pub(super) fn of_word(&self, typed: &str, folded: &str, english_stem: &str) -> LanguageSet {
        if !self.known.is_empty() {
            return self.known;
        }
        let is_odd =
            || !typed.is_ascii() || !self.is_english && folded.len() >= MIN_FOREIGN_LETTERS && !is_english_stem(english_stem);
        if !self.likely.is_empty() || is_odd() { LanguageSet::FOREIGN } else { LanguageSet::default() }
    }

    /// Columns of the languages that it is likely in, in the table of terms.
    pub(in crate::search) fn term_columns(&self) -> Vec<usize> {
        let columns =
            [Language::German, Language::French, Language::Spanish, Language::Portuguese, Language::Italian].into_iter().zip(1..);
        columns.filter(|(language, _)| self.likely.has(*language)).map(|(_, column)| column).collect()
    }

    /// `true` if a folded word of the query says nothing about its subject.
    pub(in crate::search) fn is_stop_word(&self, folded: &str) -> bool {
        let Some((languages, is_firm)) = stop_word(folded) else { return false };
        is_firm || languages.0 & self.likely.0 != 0
    }
}

/// `true` if a word of a query is not one of those in English texts about software.
fn has_foreign_word(query: &str) -> bool {
    let stemmer = Stemmer::create(Algorithm::English);
    let mut words = query.split(|character: char| !character.is_alphabetic());
    words.any(|word| {
        let is_plain = word.bytes().skip(1).all(|byte| byte.is_ascii_lowercase());
        is_plain && word.len() >= MIN_FOREIGN_LETTERS && !is_english_stem(&stemmer.stem(&word.to_ascii_lowercase()))
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::fold::fold_word;
    use super::super::small_words::{AMBIGUOUS, OTHER_SCRIPTS};
    use super::*;

    /// Number of bytes from which a small word is hardly another one once it has lost its marks.
    const MIN_FIRM_BYTES: usize = 5;

    fn stop_words() -> String {
        let mut words: BTreeMap<String, (LanguageSet, bool)> = BTreeMap::new();
        let english: Vec<&str> = SMALL_WORDS[0].1.split_whitespace().chain(AMBIGUOUS.split_whitespace()).collect();
        for (language, of_language) in &SMALL_WORDS[1..] {
            for word in of_language.split_whitespace() {
                let folded = fold_word(word);
                // Without its marks, a word may be another one.
                let is_firm =
                    word == folded && !english.contains(&word) || word.len() >= MIN_FIRM_BYTES && !english.contains(&&*folded);
                let known = words.entry(folded).or_insert((LanguageSet::default(), is_firm));
                known.0.0 |= LanguageSet::of(*language).0;
            }
        }
        let others = OTHER_SCRIPTS.split_whitespace();
        words.extend(others.map(|word| (fold_word(word), (LanguageSet::default(), true))));
        let line = |(word, (languages, is_firm)): (String, (LanguageSet, bool))| {
            format!("{word} {:x} {}\n", languages.0, if is_firm { "*" } else { "" })
        };
        format!("# Made by a test of language.rs.\n{}", words.into_iter().map(line).collect::<String>())
    }

    #[test]
    fn the_stop_words_are_those_of_the_lists() {
        let made = stop_words();
        if std::env::var_os("CTXBRIDGE_WRITE_STOP_WORDS").is_some() {
            std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/search/tokens/stop_words.txt"), &made)
                .expect("the list is written");
        }
        assert!(made == STOP_WORDS, "the lists have changed; run this test with CTXBRIDGE_WRITE_STOP_WORDS=1, and build again");
        assert_eq!(stop_word("warum"), Some((LanguageSet::of(German), true)));
        assert_eq!((stop_word("parser"), stop_word("waru"), stop_word("")), (None, None, None));
    }

    #[test]
    fn a_stem_is_a_whole_word_of_the_list() {
        let first = ENGLISH_STEMS.split_whitespace().next().expect("a stem");
        let last = ENGLISH_STEMS.split_whitespace().next_back().expect("a stem");
        assert!(
            is_english_stem(first) && is_english_stem(last) && !is_english_stem(&last[..last.len() - 1]) && !is_english_stem("")
        );
    }
}
