/*!
Text to tokens, as BERT was trained: words in lower case and without accents, punctuation for itself, each word cut greedily into the
longest pieces of the vocabulary.

What counts as punctuation or control is asked of `unicode_categories`, whose tables are old, because the tokenizer that the model
was published with asks the same. Words are made one at a time and no more than are needed, so that a text of a megabyte costs what
its begin does.
*/

use std::collections::HashMap;

use unicode_categories::UnicodeCategories;
use unicode_normalization::UnicodeNormalization;

/// A token is an index into the vocabulary, and a row of the word embeddings.
pub(super) type Token = u32;

/// Words of the vocabulary, one for each row of the word embeddings.
pub(super) const WORDS: usize = 30_522;

const UNKNOWN: Token = 100;
const BEGIN: Token = 101;
const END: Token = 102;
/// Words that mean something to the model, and where they stand in the vocabulary.
const SPECIAL: [(&str, Token); 5] = [("[PAD]", 0), ("[UNK]", UNKNOWN), ("[CLS]", BEGIN), ("[SEP]", END), ("[MASK]", 103)];

/// Before a piece that is not the begin of its word.
const INSIDE: &str = "##";
/// A word with more characters is unknown.
const LONGEST_WORD: usize = 100;

/// The vocabulary.
pub(super) struct WordPiece {
    begins: HashMap<Box<str>, Token>,
    insides: HashMap<Box<str>, Token>,
}

impl WordPiece {
    /// Of `vocab.txt`: one word a line. Without the words that this code counts on, it says what is wrong.
    pub fn read(text: &str) -> Result<Self, String> {
        let mut begins = HashMap::with_capacity(WORDS);
        let mut insides = HashMap::new();
        let mut count = 0;
        for (word, token) in text.lines().zip(0..) {
            match word.strip_prefix(INSIDE) {
                Some(inside) if !inside.is_empty() => insides.insert(inside.into(), token),
                _ => begins.insert(word.into(), token),
            };
            count += 1;
        }
        if count != WORDS {
            return Err(format!("it has {count} words, not {WORDS}"));
        }
        match SPECIAL.iter().find(|(word, token)| begins.get(*word) != Some(token)) {
            Some((word, token)) => Err(format!("word {token} is not {word}")),
            None => Ok(Self { begins, insides }),
        }
    }

    /// At most `most` tokens, with those that mark begin and end.
    pub fn encode(&self, text: &str, most: usize) -> Vec<Token> {
        let room = most.saturating_sub(1);
        let mut tokens = vec![BEGIN];
        for (part, special) in parts(text) {
            let mut words = words(part);
            while tokens.len() < room
                && let Some(word) = words.next()
            {
                self.cut(&word, &mut tokens);
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

    /// Adds the pieces of a word, or that it is unknown.
    fn cut(&self, word: &str, tokens: &mut Vec<Token>) {
        let before = tokens.len();
        let mut rest = word;
        while !rest.is_empty() {
            let pieces = if rest.len() == word.len() { &self.begins } else { &self.insides };
            let mut ends = rest.char_indices().rev().map(|(at, c)| at + c.len_utf8());
            let longest = ends.find_map(|end| Some((end, *pieces.get(&rest[..end])?)));
            let Some((end, token)) = longest.filter(|_| word.chars().count() <= LONGEST_WORD) else {
                tokens.truncate(before);
                tokens.push(UNKNOWN);
                return;
            };
            tokens.push(token);
            rest = &rest[end..];
        }
    }
}

/// What is between the special words that stand in a text, each with the one behind it.
fn parts(text: &str) -> impl Iterator<Item = (&str, Option<Token>)> {
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

/// The words of a text. Of one that is too long only the begin.
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
                    if length <= LONGEST_WORD {
                        word.push(c);
                    }
                    length += 1;
                }
            }
        }
        (length > 0).then_some(word)
    })
}

/// Without control characters, accents and capitals; ideographs for themselves.
fn normal(text: &str) -> impl Iterator<Item = char> {
    let clean = text.chars().filter(|c| !matches!(c, '\0' | '\u{fffd}') && (is_line(*c) || !c.is_other()));
    let spaced = clean.flat_map(|c| match c {
        _ if c.is_whitespace() => [Some(' '), None, None],
        _ if is_ideograph(c) => [Some(' '), Some(c), Some(' ')],
        _ => [Some(c), None, None],
    });
    spaced.flatten().nfd().filter(|c| !c.is_mark_nonspacing()).flat_map(char::to_lowercase).fuse()
}

/// Control characters that are spaces to us.
fn is_line(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r')
}

fn is_punctuation(c: char) -> bool {
    c.is_ascii_punctuation() || c.is_punctuation()
}

/// The blocks that BERT's own tokenizer lists. Hangul, kana and the like are written with spaces or cut as other words are.
fn is_ideograph(c: char) -> bool {
    matches!(u32::from(c),
        0x4E00..=0x9FFF | 0x3400..=0x4DBF | 0x20000..=0x2A6DF | 0x2A700..=0x2B73F | 0x2B740..=0x2B81F | 0x2B920..=0x2CEAF
        | 0xF900..=0xFAFF | 0x2F800..=0x2FA1F)
}
