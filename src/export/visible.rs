//! Makes hidden characters visible. Terminal colors are removed. A character that shows nothing, or changes the direction of the
//! text, is replaced by its number.

use std::borrow::Cow;
use std::fmt::Write as _;

use ctxbridge_archive::quote::is_invisible;

/// Converts a text for people to read.
pub fn text(text: &str) -> Cow<'_, str> {
    if !text.chars().any(|character| is_hidden(character, 'a') || character == '\r') {
        return Cow::Borrowed(text);
    }
    let plain = if text.contains('\u{1b}') { Cow::Owned(without_sequences(text)) } else { Cow::Borrowed(text) };
    let mut seen = String::with_capacity(plain.len());
    let mut last = '\n';
    let mut characters = plain.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\r' if characters.peek() == Some(&'\n') => {}
            // What overwrites its line on a terminal is a line of its own elsewhere.
            '\r' => seen.push('\n'),
            '\0'..='\u{1f}' if is_hidden(character, last) => {
                // Unicode has a picture of each, in the same order.
                seen.push(char::from_u32(0x2400 + u32::from(character)).unwrap_or('\u{fffd}'));
            }
            _ if is_hidden(character, last) => {
                let _ = write!(seen, "[U+{:04X}]", u32::from(character));
            }
            _ => seen.push(character),
        }
        last = seen.chars().next_back().unwrap_or('\n');
    }
    Cow::Owned(seen)
}

/// `true` if a character shows nothing by itself. Joiners count only behind ASCII, since other scripts and emoji need them.
fn is_hidden(character: char, before: char) -> bool {
    match character {
        '\n' | '\t' | '\r' => false,
        '\u{200c}' | '\u{200d}' => before.is_ascii(),
        '\u{2028}' | '\u{2029}' => true,
        _ => character.is_control() || is_invisible(character),
    }
}

/// Removes sequences that set colors and move cursors: `ESC [`, parameters, a letter.
fn without_sequences(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("\u{1b}[") {
        let (before, sequence) = rest.split_at(at);
        plain.push_str(before);
        let parameters = &sequence[2..];
        let end = parameters.find(|c: char| !matches!(c, ' '..='?')).unwrap_or(parameters.len());
        rest = match parameters[end..].chars().next() {
            Some('@'..='~') => &parameters[end + 1..],
            _ => {
                plain.push('\u{1b}');
                &sequence[1..]
            }
        };
    }
    plain + rest
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_hidden_is_seen() {
        for (hidden, seen) in [
            ("a\tb\nc", "a\tb\nc"),
            ("\u{1b}[1;31mred\u{1b}[0m", "red"),
            ("\u{1b}[31", "␛[31"),
            ("\u{1b}]0;title\u{7}", "␛]0;title␇"),
            ("a\r\nb\rc", "a\nb\nc"),
            ("x\u{202e}y\u{feff}", "x[U+202E]y[U+FEFF]"),
            ("a\u{200d}b 👩\u{200d}💻", "a[U+200D]b 👩\u{200d}💻"),
            ("\u{85}\u{7f}", "[U+0085][U+007F]"),
        ] {
            assert_eq!(text(hidden), seen);
        }
    }

    proptest! {
        #[test]
        fn nothing_stays_hidden(hidden in "[\\x00-\\x1f\\x7f-\\xa0\u{1b}a1m;\\[\u{202a}-\u{202e}\u{200c}é]{0,40}|.{0,40}") {
            let seen = text(&hidden).into_owned();
            prop_assert!(!seen.chars().any(|c| (c.is_control() && c != '\n' && c != '\t') || ('\u{202a}'..='\u{202e}').contains(&c)), "{seen:?}");
            prop_assert_eq!(text(&seen).into_owned(), seen.clone());
        }
    }
}
