/*!
Cuts text into the words that are indexed and searched, the same on both sides.

Prose is stemmed. A name in code becomes its parts and, after them, the whole of it without separators. So `max_retries`,
`maxRetries` and `max-retries` are one name, and "retries" finds it as well. Scripts without spaces are cut into pairs of
characters.
*/

use std::borrow::Cow;
use std::ops::Range;

use rust_stemmers::{Algorithm, Stemmer};

/// Maximum number of bytes of a word: what is longer is encoded data.
const MAX_TOKEN_BYTES: usize = 48;

/// Maximum number of parts of a name: what has more is a list.
const MAX_NAME_PARTS: usize = 8;

/// A word as it is indexed, and its range in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// Lower case, stemmed where it is prose; letters and digits only.
    pub word: String,
    /// Its bytes in the text.
    pub range: Range<usize>,
    /// `true` if it is a whole name, whose parts come before it.
    pub is_whole: bool,
}

/// Cuts texts into words.
pub struct Tokenizer {
    english: Stemmer,
}

impl std::fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tokenizer")
    }
}

impl Default for Tokenizer {
    fn default() -> Self {
        Self { english: Stemmer::create(Algorithm::English) }
    }
}

impl Tokenizer {
    /// Passes the words of a text to `sink`, in order.
    pub fn tokens(&self, text: &str, sink: &mut dyn FnMut(Token)) {
        let mut characters = text.char_indices().peekable();
        while let Some((start, character)) = characters.next() {
            if is_unspaced(character) {
                self.unspaced(text, start, &mut characters, sink);
            } else if character.is_alphanumeric() {
                let mut end = start + character.len_utf8();
                let mut rest = characters.clone();
                while let Some((at, next)) = rest.next() {
                    let joins = matches!(next, '_' | '-' | '.' | '\'' | '’')
                        && rest.peek().is_some_and(|(_, after)| after.is_alphanumeric() && !is_unspaced(*after));
                    if !joins && (!next.is_alphanumeric() || is_unspaced(next)) {
                        break;
                    }
                    end = at + next.len_utf8();
                    characters = rest.clone();
                }
                self.name(text, start..end, sink);
            }
        }
    }

    /// Returns the words of a text, in order and with spaces between them.
    pub fn join(&self, text: &str) -> String {
        let mut joined = String::with_capacity(text.len());
        self.tokens(text, &mut |token| {
            if !joined.is_empty() {
                joined.push(' ');
            }
            joined.push_str(&token.word);
        });
        joined
    }

    /// Passes the words of a run of letters, digits and separators.
    fn name(&self, text: &str, range: Range<usize>, sink: &mut dyn FnMut(Token)) {
        let mut parts: Vec<Range<usize>> = Vec::new();
        for piece in pieces(text, range.clone()) {
            parts.extend(split_camel_case(text, piece));
        }
        for part in &parts {
            self.part(text, part.clone(), sink);
        }
        if (2..=MAX_NAME_PARTS).contains(&parts.len()) && range.len() <= MAX_TOKEN_BYTES {
            let digits = |part: &Range<usize>| text[part.clone()].bytes().all(|byte| byte.is_ascii_digit());
            let mut whole = String::with_capacity(range.len());
            for (at, part) in parts.iter().enumerate() {
                // 1.12 is not 11.2.
                if at > 0 && digits(part) && digits(&parts[at - 1]) {
                    whole.push('_');
                }
                whole.extend(text[part.clone()].chars().flat_map(char::to_lowercase));
            }
            sink(Token { word: whole, range, is_whole: true });
        }
    }

    fn part(&self, text: &str, range: Range<usize>, sink: &mut dyn FnMut(Token)) {
        if range.len() > MAX_TOKEN_BYTES {
            return;
        }
        let lower = text[range.clone()].to_lowercase();
        let word = self.stem(&lower).into_owned();
        sink(Token { word, range, is_whole: false });
    }

    /// Returns the indexed form of a word in lower case that is no name.
    pub(super) fn stem<'a>(&self, lower: &'a str) -> Cow<'a, str> {
        let is_prose = lower.len() > 2 && lower.bytes().all(|byte| byte.is_ascii_lowercase());
        if is_prose { self.english.stem(lower) } else { Cow::Borrowed(lower) }
    }

    /// Passes each pair of adjacent characters in a script without spaces.
    fn unspaced(
        &self,
        text: &str,
        start: usize,
        characters: &mut std::iter::Peekable<std::str::CharIndices<'_>>,
        sink: &mut dyn FnMut(Token),
    ) {
        let mut previous = start;
        let mut pairs = 0;
        let end_of = |at: usize| at + text[at..].chars().next().map_or(0, char::len_utf8);
        while let Some(&(at, _)) = characters.peek().filter(|(_, next)| is_unspaced(*next)) {
            characters.next();
            sink(Token { word: text[previous..end_of(at)].to_owned(), range: previous..end_of(at), is_whole: false });
            previous = at;
            pairs += 1;
        }
        if pairs == 0 {
            sink(Token { word: text[start..end_of(start)].to_owned(), range: start..end_of(start), is_whole: false });
        }
    }
}

/// Returns the runs between separators. An apostrophe is left out with what follows it (`don't` is `don`, `parser's` is `parser`).
fn pieces(text: &str, range: Range<usize>) -> Vec<Range<usize>> {
    let mut pieces = Vec::new();
    let mut start = range.start;
    let mut skipping = false;
    for (at, character) in text[range.clone()].char_indices().map(|(at, character)| (range.start + at, character)) {
        if !character.is_alphanumeric() {
            if !skipping && at > start {
                pieces.push(start..at);
            }
            start = at + character.len_utf8();
            skipping = matches!(character, '\'' | '’') && range.end - start <= 2;
        }
    }
    if !skipping && range.end > start {
        pieces.push(start..range.end);
    }
    pieces
}

/// Splits at changes of case: `parseHTTPHeader2` is parse, HTTP, Header, 2; `E0308`, `utf8` and `h264` stay whole.
fn split_camel_case(text: &str, piece: Range<usize>) -> Vec<Range<usize>> {
    let mut humps = Vec::new();
    let mut start = piece.start;
    let characters: Vec<(usize, char)> = text[piece.clone()].char_indices().map(|(at, c)| (piece.start + at, c)).collect();
    for (index, window) in characters.windows(2).enumerate() {
        let ((_, before), (at, now)) = (window[0], window[1]);
        let next_is_lower = characters.get(index + 2).is_some_and(|(_, next)| next.is_lowercase());
        let begins = now.is_uppercase() && (before.is_lowercase() || before.is_numeric() && next_is_lower)
            || now.is_uppercase() && before.is_uppercase() && next_is_lower;
        if begins {
            humps.push(start..at);
            start = at;
        }
    }
    humps.push(start..piece.end);
    humps
}

/// `true` for scripts without spaces between words: Han, kana, Hangul, Thai.
pub(super) fn is_unspaced(character: char) -> bool {
    matches!(character, '\u{0e00}'..='\u{0e7f}' | '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}'
        | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
        && character.is_alphanumeric()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn prose_and_code() {
        for (text, words) in [
            ("The parsers were running.", "the parser were run"),
            ("MAX_RETRIES maxRetries max-retries", "max retri maxretries max retri maxretries max retri maxretries"),
            ("src/archive/store.rs:42", "src archiv store rs storers 42"),
            ("parseHTTPHeader", "pars http header parsehttpheader"),
            ("error[E0308] in 2.1.330", "error e0308 in 2 1 330 2_1_330"),
            ("1.12 is not 11.2", "1 12 1_12 is not 11 2 11_2"),
            ("don't, parser's, it’s", "don parser it"),
            ("foo::bar->baz()", "foo bar baz"),
            ("--no-smoke …", "no smoke nosmoke"),
            ("naïve Größe", "naïve größe"),
            ("日本語とRust", "日本 本語 語と rust"),
            ("'quoted' -- _private_", "quot privat"),
            ("", ""),
        ] {
            assert_eq!(Tokenizer::default().join(text), words, "{text}");
        }
    }

    proptest! {
        #[test]
        fn words_have_letters_and_digits_and_stand_where_they_say(text in ".{0,60}|[a-zA-Z0-9_.'-]{0,60}") {
            let mut last = 0;
            Tokenizer::default().tokens(&text, &mut |token| {
                assert!(token.word.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '\u{307}'), "{token:?}");
                assert!(!token.word.is_empty() && text.get(token.range.clone()).is_some_and(|piece| !piece.is_empty()), "{token:?}");
                assert!(token.is_whole || token.range.start >= last, "{token:?}");
                last = token.range.start;
            });
        }
    }
}
