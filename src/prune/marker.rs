//! Markers, which replace the rest of a text that was cut: its length before, and the handle of the whole text.
//!
//! ` [earlier context pruned: 2431 chars, recall ctx:1a2b3c4d.0]`
//!
//! The client's query loop goes on with the array that was sent, so a pruned text comes back to be pruned again. The marker shows
//! that a text was cut, and its size before. So all decisions on sizes stay the same.

use std::fmt::{self, Display};
use std::str::FromStr;

use super::text::utf16_len;

/// Start of a marker.
const START: &str = " [earlier context pruned: ";
/// Text between the number and the end, or the handle.
const UNIT: &str = " chars";
/// Text before a handle.
const RECALL: &str = ", recall ";
/// Text before a handle's digits.
const SCHEME: &str = "ctx:";

/// Number of the id's first digits that are in a handle.
pub const HANDLE_DIGITS: usize = 8;

/// Maximum digits of a number in a marker: enough for the longest string that JavaScript has.
const MAX_NUMBER_DIGITS: usize = 9;

/// The marker of a text of `original_chars` UTF-16 code units.
pub fn marker(original_chars: u64, handle: Option<&Handle>) -> String {
    match handle {
        Some(handle) => format!("{START}{original_chars}{UNIT}{RECALL}{handle}]"),
        None => format!("{START}{original_chars}{UNIT}]"),
    }
}

/// Names a text of a message: `ctx:1a2b3c4d.0`, or `ctx:1a2b3c4d.0.2` in a block that has several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Handle {
    /// The start of the message's id, [`HANDLE_DIGITS`] hexadecimal digits in lower case.
    pub digits: String,
    /// Index of the block, 0 if the content is a string.
    pub block: usize,
    /// Number of the text in the block, if it can have several.
    pub part: Option<usize>,
}

impl Handle {
    /// Makes the handle of a text; none if the id is not one of the client's (a UUID).
    pub(super) fn of(uuid: Option<&str>, block: usize, part: Option<usize>) -> Option<Self> {
        let digits = uuid?.get(..HANDLE_DIGITS).filter(|digits| is_hex(digits))?.to_ascii_lowercase();
        Some(Self { digits, block, part })
    }
}

impl Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}.{}", self.digits, self.block)?;
        self.part.map_or(Ok(()), |part| write!(f, ".{part}"))
    }
}

impl FromStr for Handle {
    type Err = HandleParseError;
    fn from_str(text: &str) -> Result<Self, HandleParseError> {
        let mut parts = text.strip_prefix(SCHEME).ok_or(HandleParseError)?.split('.');
        let digits = parts.next().filter(|digits| digits.len() == HANDLE_DIGITS && is_hex(digits)).ok_or(HandleParseError)?;
        if digits.bytes().any(|byte| byte.is_ascii_uppercase()) {
            return Err(HandleParseError);
        }
        let numbers = parts.map(|part| part.parse().ok().filter(|_| is_number(part)).ok_or(HandleParseError));
        match *numbers.collect::<Result<Vec<usize>, _>>()? {
            [block] => Ok(Self { digits: digits.to_owned(), block, part: None }),
            [block, part] => Ok(Self { digits: digits.to_owned(), block, part: Some(part) }),
            _ => Err(HandleParseError),
        }
    }
}

/// Error from parsing a text that is no handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not the handle of a text, such as ctx:1a2b3c4d.0")]
pub struct HandleParseError;

/// The start of a text that was cut, and its size before; none if the text does not end with a marker.
pub fn parse(text: &str) -> Option<(&str, u64)> {
    let at = text.rfind(START)?;
    let rest = text[at + START.len()..].strip_suffix(']')?;
    let (number, rest) = rest.split_once(UNIT)?;
    let is_handle = || rest.strip_prefix(RECALL).is_some_and(|handle| handle.parse::<Handle>().is_ok());
    (is_number(number) && (rest.is_empty() || is_handle())).then_some(())?;
    Some((&text[..at], number.parse().ok()?))
}

/// UTF-16 code units of a text, before any cut.
pub(super) fn original_chars(text: &str) -> u64 {
    parse(text).map_or_else(|| utf16_len(text), |(_, chars)| chars)
}

fn is_hex(digits: &str) -> bool {
    digits.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn is_number(digits: &str) -> bool {
    (1..=MAX_NUMBER_DIGITS).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for handle in [None, Some("ctx:1a2b3c4d.0"), Some("ctx:00000000.17.4")] {
            let parsed = handle.map(|handle| handle.parse::<Handle>().expect("a handle"));
            assert_eq!(parsed.as_ref().map(Handle::to_string).as_deref(), handle);
            let text = format!("kept{}", marker(2431, parsed.as_ref()));
            assert_eq!(parse(&text), Some(("kept", 2431)));
        }
    }

    #[test]
    fn what_only_looks_like_one_is_none() {
        for text in [
            "",
            " [earlier context pruned]",
            " [earlier context pruned: 12 chars] ",
            " [earlier context pruned:  12 chars]",
            " [earlier context pruned: 1234567890 chars]",
            " [earlier context pruned: 12 chars, recall ctx:1A2B3C4D.0]",
            " [earlier context pruned: 12 chars, recall ctx:1a2b3c4d]",
            " [earlier context pruned: 12 chars, recall ctx:1a2b3c4d.0.0.0]",
            " [earlier context pruned: 12 chars, recall ctx:1a2b3c4d.]",
        ] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_handle_is_the_begin_of_an_id() {
        let handle = |uuid, block, part| Handle::of(uuid, block, part).map(|handle| handle.to_string());
        assert_eq!(handle(Some("1A2b3c4d-5e6f-7000-8000-000000000000"), 3, None).as_deref(), Some("ctx:1a2b3c4d.3"));
        assert_eq!(handle(Some("1a2b3c4d"), 0, Some(2)).as_deref(), Some("ctx:1a2b3c4d.0.2"));
        for other in [None, Some(""), Some("1a2b3c4"), Some("uuid-0001"), Some("1a2b3cé4d")] {
            assert_eq!(handle(other, 0, None), None);
        }
    }
}
