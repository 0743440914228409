/*!
Text to tokens, as BERT was trained: words in lower case and without accents, each punctuation mark as its own word. Each word is
cut greedily into the longest pieces of the vocabulary.

Punctuation and control characters are those of Unicode. The tokenizer that the model was published with has older tables, which
differ in characters that came later. Words are made one at a time and only as many as needed, so a text of a megabyte costs as much as its
start.
*/

use std::borrow::Cow;
use std::ops::Range;

use unicode_normalization::UnicodeNormalization;
use unicode_properties::{GeneralCategory, GeneralCategoryGroup, UnicodeGeneralCategory};

use super::longest::{longest, partition_point};

/// A token is an index into the vocabulary, and a row of the word embeddings.
pub(super) type TokenId = u32;

/// Words of the vocabulary, one for each row of the word embeddings.
pub(super) const WORDS: usize = 30_522;

const UNKNOWN: TokenId = 100;
const BEGIN: TokenId = 101;
const END: TokenId = 102;
/// Words with a meaning for the model, and their indices in the vocabulary.
const SPECIAL: [(&str, TokenId); 5] = [("[PAD]", 0), ("[UNK]", UNKNOWN), ("[CLS]", BEGIN), ("[SEP]", END), ("[MASK]", 103)];

/// Prefix of a piece that is not the start of its word.
const CONTINUATION_MARK: &str = "##";
/// Maximum number of characters of a word; a longer one is unknown.
const MAX_WORD_CHARS: usize = 100;

/// A single token, as a text of its own.
pub(super) fn framed(token: TokenId) -> [TokenId; 3] {
    [BEGIN, token, END]
}

/// A number that is in the order of words, but for words with the same first eight bytes: comparing numbers is faster.
fn start(word: &str) -> u64 {
    let mut bytes = [0; 8];
    let length = word.len().min(bytes.len());
    bytes[..length].copy_from_slice(&word.as_bytes()[..length]);
    u64::from_be_bytes(bytes)
}

/// The vocabulary: words in order, one a line. Those with the mark are pieces inside a word, the others begin one.
pub(super) struct WordPiece {
    text: Cow<'static, str>,
    /// Starts of the lines, and the end of the text.
    starts: Vec<u32>,
    /// Tokens of the lines, if these are not the tokens themselves.
    tokens: Option<Vec<TokenId>>,
    /// Lines of the pieces inside a word.
    insides: Range<usize>,
}

impl WordPiece {
    /// Reads `vocab.txt`: one word a line. Fails with a description if the words that this code counts on are missing.
    pub fn read(text: &str) -> Result<Self, String> {
        let mut words: Vec<(u64, &str, TokenId)> =
            text.lines().zip(0..).map(|(word, token)| (start(word), word, token)).collect();
        if words.len() != WORDS {
            return Err(format!("it has {} words, not {WORDS}", words.len()));
        }
        words.sort_unstable();
        let mut sorted = String::with_capacity(text.len() + 1);
        for (_, word, _) in &words {
            sorted.push_str(word);
            sorted.push('\n');
        }
        let vocabulary = Self::of(sorted.into(), Some(words.into_iter().map(|(.., token)| token).collect()));
        match SPECIAL.iter().find(|(word, token)| vocabulary.begin(word) != Some((*token, word.len()))) {
            Some((word, token)) => Err(format!("word {token} is not {word}")),
            None => Ok(vocabulary),
        }
    }

    /// Takes a vocabulary that is part of the program: words in order, one a line. Nothing is made of it but the places of the lines,
    /// since a hook has no time for more.
    pub fn built_in(text: &'static str) -> Self {
        Self::of(text.into(), None)
    }

    fn of(text: Cow<'static, str>, tokens: Option<Vec<TokenId>>) -> Self {
        let ends = memchr::memchr_iter(b'\n', text.as_bytes()).map(|at| u32::try_from(at + 1).unwrap_or(u32::MAX));
        let starts: Vec<u32> = std::iter::once(0).chain(ends).collect();
        let mut vocabulary = Self { text, starts, tokens, insides: 0..0 };
        let first = vocabulary.lines_before(|word| word < CONTINUATION_MARK);
        let end = vocabulary.lines_before(|word| word < CONTINUATION_MARK || word.starts_with(CONTINUATION_MARK));
        vocabulary.insides = first..end;
        vocabulary
    }

    fn word(&self, line: usize) -> &str {
        &self.text[self.starts[line] as usize..self.starts[line + 1] as usize - 1]
    }

    /// Number of lines in front of the first one that is not before something.
    fn lines_before(&self, is_before: impl Fn(&str) -> bool) -> usize {
        partition_point(self.starts.len() - 1, |line| is_before(self.word(line)))
    }

    /// The longest piece that begins a word with this text: its token and length.
    fn begin(&self, text: &str) -> Option<(TokenId, usize)> {
        // Pieces inside a word stand between those that begin one.
        let line = |place: usize| if place < self.insides.start { place } else { place + self.insides.len() };
        let count = self.starts.len() - 1 - self.insides.len();
        let (place, length) = longest(text, count, |place| self.word(line(place)))?;
        Some((self.token(line(place)), length))
    }

    /// The longest piece that goes on inside a word with this text.
    fn inside(&self, text: &str) -> Option<(TokenId, usize)> {
        let line = |place: usize| self.insides.start + place;
        let (place, length) = longest(text, self.insides.len(), |place| &self.word(line(place))[CONTINUATION_MARK.len()..])?;
        Some((self.token(line(place)), length))
    }

    fn token(&self, line: usize) -> TokenId {
        self.tokens.as_ref().map_or(line as TokenId, |tokens| tokens[line])
    }

    /// All words with their tokens, as `vocab.txt` writes them.
    pub fn words(&self) -> Vec<(TokenId, String)> {
        (0..self.starts.len() - 1).map(|line| (self.token(line), self.word(line).to_owned())).collect()
    }

    /// Returns at most `most` tokens of the words that are known.
    pub fn known(&self, text: &str, most: usize) -> Vec<TokenId> {
        let mut tokens = Vec::new();
        let mut words = words(text);
        while tokens.len() < most
            && let Some(word) = words.next()
        {
            self.cut(&word, &mut tokens);
        }
        tokens.truncate(most);
        tokens
    }

    /// Returns at most `most` tokens, with those that mark start and end.
    pub fn encode(&self, text: &str, most: usize) -> Vec<TokenId> {
        let room = most.saturating_sub(1);
        let mut tokens = vec![BEGIN];
        for (part, special) in parts(text) {
            let mut words = words(part);
            while tokens.len() < room
                && let Some(word) = words.next()
            {
                if !self.cut(&word, &mut tokens) {
                    tokens.push(UNKNOWN);
                }
            }
            if tokens.len() >= room {
                break;
            }
            tokens.extend(special);
        }
        tokens.truncate(room);
        tokens.push(END);
        tokens
    }

    /// Adds the pieces of a word; returns `false` if it is unknown.
    fn cut(&self, word: &str, tokens: &mut Vec<TokenId>) -> bool {
        if word.chars().count() > MAX_WORD_CHARS {
            return false;
        }
        let before = tokens.len();
        let mut rest = word;
        while !rest.is_empty() {
            let piece = if rest.len() == word.len() { self.begin(rest) } else { self.inside(rest) };
            let Some((token, length)) = piece else {
                tokens.truncate(before);
                return false;
            };
            tokens.push(token);
            rest = &rest[length..];
        }
        true
    }
}

/// Splits a text at its special words. Each part comes with the special word behind it.
fn parts(text: &str) -> impl Iterator<Item = (&str, Option<TokenId>)> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let special = |(at, _): (usize, &str)| {
            let (word, token) = SPECIAL.iter().find(|(word, _)| text[at..].starts_with(word))?;
            Some((at, at + word.len(), *token))
        };
        let Some((begin, end, token)) = text.match_indices('[').find_map(special) else {
            rest = None;
            return Some((text, None));
        };
        rest = Some(&text[end..]);
        Some((&text[..begin], Some(token)))
    })
}

/// The words of a text. A word that is too long is cut off.
fn words(text: &str) -> impl Iterator<Item = String> {
    let mut characters = normal(text);
    // What ended the word before it.
    let mut mark = None;
    std::iter::from_fn(move || {
        let mut word = String::from_iter(mark.take());
        let mut length = word.len();
        while length == 0 || !word.starts_with(is_punctuation) {
            match characters.next() {
                None => break,
                Some(c) if c.is_whitespace() && length == 0 => {}
                Some(c) if c.is_whitespace() => break,
                Some(c) if is_punctuation(c) && length > 0 => {
                    mark = Some(c);
                    break;
                }
                Some(c) => {
                    if length <= MAX_WORD_CHARS {
                        word.push(c);
                    }
                    length += 1;
                }
            }
        }
        (length > 0).then_some(word)
    })
}

/// Text without control characters, accents and capitals; each ideograph becomes its own word.
fn normal(text: &str) -> impl Iterator<Item = char> {
    let clean = text.chars().filter(|c| !matches!(c, '\0' | '\u{fffd}') && (is_line(*c) || !is_control(*c)));
    let spaced = clean.flat_map(|c| match c {
        _ if c.is_whitespace() => [Some(' '), None, None],
        _ if is_ideograph(c) => [Some(' '), Some(c), Some(' ')],
        _ => [Some(c), None, None],
    });
    spaced.flatten().nfd().filter(|c| !is_accent(*c)).flat_map(char::to_lowercase).fuse()
}

/// `true` for control characters that count as spaces.
fn is_line(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r')
}

/// `true` for marks that take no room of their own. Most texts are ASCII, and its categories need no table.
fn is_accent(c: char) -> bool {
    !c.is_ascii() && c.general_category() == GeneralCategory::NonspacingMark
}

/// `true` for characters that are dropped: control, format and private use.
fn is_control(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_control();
    }
    matches!(c.general_category(), GeneralCategory::Control | GeneralCategory::Format | GeneralCategory::PrivateUse)
}

fn is_punctuation(c: char) -> bool {
    c.is_ascii_punctuation() || !c.is_ascii() && c.general_category_group() == GeneralCategoryGroup::Punctuation
}

/// `true` for the blocks that BERT's own tokenizer lists. Hangul, kana and similar scripts are written with spaces or cut like
/// other words.
fn is_ideograph(c: char) -> bool {
    matches!(u32::from(c),
        0x4E00..=0x9FFF | 0x3400..=0x4DBF | 0x20000..=0x2A6DF | 0x2A700..=0x2B73F | 0x2B740..=0x2B81F | 0x2B920..=0x2CEAF
        | 0xF900..=0xFAFF | 0x2F800..=0x2FA1F)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn pieces_that_begin_a_word_and_those_inside_are_apart(words in proptest::collection::btree_set("(##)?[ab#]{1,3}", 1..20), text in "[ab#]{1,6}") {
            let lines: String = words.iter().map(|word| format!("{word}\n")).collect();
            let vocabulary = WordPiece::of(lines.into(), None);
            let is_inside = |word: &&String| word.starts_with(CONTINUATION_MARK);
            let begins: BTreeSet<&str> = words.iter().filter(|word| !is_inside(word)).map(String::as_str).collect();
            let insides: BTreeSet<&str> = words.iter().filter(is_inside).map(|word| &word[CONTINUATION_MARK.len()..]).collect();
            let longest = |of: &BTreeSet<&str>| of.iter().filter(|word| text.starts_with(**word)).map(|word| word.len()).max();
            prop_assert_eq!(vocabulary.begin(&text).map(|(_, length)| length), longest(&begins));
            prop_assert_eq!(vocabulary.inside(&text).map(|(_, length)| length), longest(&insides).filter(|length| *length > 0));
        }
    }
}
