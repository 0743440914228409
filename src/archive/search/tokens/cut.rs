//! Cutting of runs: the ends of a name, its pieces, and the humps of camel case.

use std::ops::Range;

use super::fold::{is_ignorable, is_mark};
use super::unspaced::is_unspaced;

/// Zero-width non-joiner: in Arabic script it stands between the parts of a word, as a hyphen does.
const ZWNJ: char = '\u{200c}';

/// Returns the end of the run of letters, digits and separators that starts here, and if it is ASCII only.
pub(super) fn run_end(text: &str, start: usize) -> (usize, bool) {
    let bytes = text.as_bytes();
    let mut at = start;
    let mut is_ascii = true;
    loop {
        match bytes.get(at) {
            Some(byte) if byte.is_ascii_alphanumeric() => at += 1,
            Some(b'_' | b'-' | b'.' | b'\'') => match bytes.get(at + 1) {
                Some(next) if next.is_ascii_alphanumeric() => at += 2,
                Some(next) if !next.is_ascii() && begins_word(text, at + 1) => at += 1,
                _ => return (at, is_ascii),
            },
            Some(byte) if !byte.is_ascii() => {
                let character = text[at..].chars().next().unwrap_or_default();
                let end = at + character.len_utf8();
                let joins = if character == '’' || is_ignorable(character) {
                    begins_word(text, end)
                } else {
                    is_word_character(character) && !is_unspaced(character)
                };
                if !joins {
                    return (at, is_ascii);
                }
                is_ascii = false;
                at = end;
            }
            _ => return (at, is_ascii),
        }
    }
}

fn begins_word(text: &str, at: usize) -> bool {
    let next = text[at..].chars().next();
    next.is_some_and(|next| next.is_alphanumeric() && !is_unspaced(next))
}

/// `true` for letters, digits and the marks on them.
fn is_word_character(character: char) -> bool {
    character.is_alphanumeric() || is_mark(character)
}

/// Passes the runs between separators. An apostrophe is left out with what follows it (`don't` is `don`, `parser's` is `parser`).
pub(super) fn for_each_piece(text: &str, range: Range<usize>, sink: &mut dyn FnMut(Range<usize>)) {
    let mut start = range.start;
    let mut skipping = false;
    let mut before = '\0';
    for (at, character) in text[range.clone()].char_indices().map(|(at, character)| (range.start + at, character)) {
        let is_in_word = character.is_ascii_alphanumeric()
            || !character.is_ascii()
                && (is_word_character(character) || is_ignorable(character) && !(character == ZWNJ && is_arabic_script(before)));
        if !is_in_word {
            if !skipping && at > start {
                sink(start..at);
            }
            start = at + character.len_utf8();
            skipping = matches!(character, '\'' | '’') && range.end - start <= 2;
        }
        before = character;
    }
    if !skipping && range.end > start {
        sink(start..range.end);
    }
}

fn is_arabic_script(character: char) -> bool {
    matches!(character, '\u{0600}'..='\u{077f}' | '\u{fb50}'..='\u{fdff}' | '\u{fe70}'..='\u{feff}')
}

/// Splits at changes of case: `parseHTTPHeader2` is parse, HTTP, Header, 2; `E0308`, `utf8` and `h264` stay whole.
pub(super) fn split_camel_case(text: &str, piece: Range<usize>, sink: &mut dyn FnMut(Range<usize>)) {
    let mut start = piece.start;
    let mut characters = text[piece.clone()].char_indices().filter(|(_, character)| character.is_ascii() || !is_mark(*character));
    let mut now = characters.next();
    let mut next = characters.next();
    while let (Some((_, before)), Some((at, current))) = (now, next) {
        let after = characters.next();
        if current.is_uppercase() {
            let next_is_lower = after.is_some_and(|(_, after)| after.is_lowercase());
            let begins = before.is_lowercase() || (before.is_numeric() || before.is_uppercase()) && next_is_lower;
            if begins {
                sink(start..piece.start + at);
                start = piece.start + at;
            }
        }
        (now, next) = (next, after);
    }
    sink(start..piece.end);
}

/// `true` if a run is a word of prose: its letters have no capital behind the first, and only hyphens and apostrophes between them.
pub(super) fn is_plain_word(run: &str) -> bool {
    let is_capitals = run.chars().filter(|character| character.is_alphabetic()).all(char::is_uppercase);
    let mut begins = true;
    run.chars().all(|character| {
        let is_fine = match character {
            '-' | '\'' | '’' | '\u{ad}' => true,
            '_' | '.' => false,
            _ => !character.is_numeric() && (begins || is_capitals || !character.is_uppercase()),
        };
        begins = matches!(character, '-' | '\'' | '’');
        is_fine
    })
}
