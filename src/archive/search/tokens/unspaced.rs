//! Scripts without spaces between words, cut into pairs of characters.

use std::ops::Range;

use unicode_normalization::UnicodeNormalization;

use super::Token;
use super::fold::{fold_word, is_mark};

/// `true` for letters of scripts without spaces between words: Han, kana, Hangul, Thai and its neighbors. Hangul has spaces, but
/// particles are written to the word before them.
pub(in crate::search) fn is_unspaced(character: char) -> bool {
    matches!(character, '\u{0e00}'..='\u{0eff}' | '\u{1000}'..='\u{109f}' | '\u{1100}'..='\u{11ff}' | '\u{1780}'..='\u{17ff}'
        | '\u{3005}'..='\u{3007}' | '\u{3031}'..='\u{3035}' | '\u{3040}'..='\u{30ff}' | '\u{3130}'..='\u{318f}'
        | '\u{31f0}'..='\u{31ff}' | '\u{3400}'..='\u{9fff}' | '\u{a960}'..='\u{a97f}' | '\u{ac00}'..='\u{d7ff}'
        | '\u{f900}'..='\u{faff}' | '\u{ff66}'..='\u{ffdc}' | '\u{20000}'..='\u{3ffff}')
        && character.is_alphanumeric()
}

/// `true` for characters that continue the one before: marks, and what stands for them.
fn continues(character: char) -> bool {
    is_mark(character) || matches!(character, '\u{ff9e}' | '\u{ff9f}' | '\u{1160}'..='\u{11ff}' | '\u{d7b0}'..='\u{d7ff}')
}

/// `true` for scripts in which a character is a word of its own.
pub(in crate::search) fn is_word_character(character: char) -> bool {
    matches!(character, '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}' | '\u{ac00}'..='\u{d7a3}')
}

/// Passes each pair of adjacent characters of a run, and returns its end. The last character of a run is a variant on its own, so
/// that its prefix finds each character of a text: it begins a pair, or it is the last.
pub(super) fn run(text: &str, start: usize, is_query: bool, sink: &mut dyn FnMut(Token)) -> usize {
    let mut end = start;
    let mut before: Option<(String, usize)> = None;
    let mut pairs = 0;
    let mut characters = text[start..].char_indices().map(|(at, character)| (start + at, character)).peekable();
    while let Some((at, character)) = characters.next_if(|(_, next)| is_unspaced(*next)) {
        end = at + character.len_utf8();
        while let Some((at, mark)) = characters.next_if(|(_, next)| continues(*next)) {
            end = at + mark.len_utf8();
        }
        let folded = fold(&text[at..end]);
        if folded.is_empty() {
            continue;
        }
        if let Some((previous, from)) = before.take() {
            sink(token(previous + &folded, from..end, false));
            pairs += 1;
        }
        before = Some((folded, at));
    }
    if let Some((last, from)) = before {
        if pairs == 0 {
            sink(token(last, from..end, false));
        } else if !is_query && last.chars().all(is_word_character) {
            sink(token(last, from..end, true));
        }
    }
    end
}

fn fold(unit: &str) -> String {
    let mut characters = unit.chars();
    match (characters.next(), characters.next()) {
        // Most have no other form.
        (Some('\u{3041}'..='\u{30fe}' | '\u{4e00}'..='\u{9fff}' | '\u{ac00}'..='\u{d7a3}'), None) => unit.to_owned(),
        // All marks of these tell words apart.
        (Some('\u{0e00}'..='\u{0eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}'), _) => unit.nfkc().collect(),
        _ => fold_word(unit),
    }
}

fn token(word: String, range: Range<usize>, is_variant: bool) -> Token {
    Token { word, range, is_whole: false, is_variant }
}
