//! Handles, by which what was pruned is recalled.

use std::fmt::{self, Display};
use std::str::FromStr;

/// Text before a handle's digits.
const SCHEME: &str = "ctx:";

/// Number of the id's first digits that are in a handle.
pub const HANDLE_DIGITS: usize = 8;

/// Maximum digits of a number in a handle.
const MAX_NUMBER_DIGITS: usize = 9;

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

/// Names some messages in a row, by the first and the last one: `ctx:1a2b3c4d..5e6f7a8b`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RangeHandle {
    /// The start of the first message's id, [`HANDLE_DIGITS`] hexadecimal digits in lower case.
    pub first: String,
    /// The same of the last message.
    pub last: String,
}

impl Display for RangeHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}..{}", self.first, self.last)
    }
}

impl FromStr for RangeHandle {
    type Err = HandleParseError;
    fn from_str(text: &str) -> Result<Self, HandleParseError> {
        let (first, last) = text.strip_prefix(SCHEME).and_then(|ends| ends.split_once("..")).ok_or(HandleParseError)?;
        let are_digits = [first, last].iter().all(|digits| {
            digits.len() == HANDLE_DIGITS && is_hex(digits) && !digits.bytes().any(|byte| byte.is_ascii_uppercase())
        });
        if are_digits { Ok(Self { first: first.to_owned(), last: last.to_owned() }) } else { Err(HandleParseError) }
    }
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
        for handle in ["ctx:1a2b3c4d.0", "ctx:00000000.17.4"] {
            assert_eq!(handle.parse::<Handle>().expect("a handle").to_string(), handle);
        }
        let range = "ctx:1a2b3c4d..00000000";
        assert_eq!(range.parse::<RangeHandle>().expect("a handle").to_string(), range);
    }

    #[test]
    fn what_only_looks_like_one_is_none() {
        for text in ["", "ctx:", "ctx:1A2B3C4D.0", "ctx:1a2b3c4d", "ctx:1a2b3c4d.0.0.0", "ctx:1a2b3c4d.", "ctx:1a2b3c4d.x"] {
            assert!(text.parse::<Handle>().is_err() && text.parse::<RangeHandle>().is_err(), "{text:?}");
        }
        for text in ["ctx:1a2b3c4d..", "ctx:1a2b3c4d..5E6f7a8b", "1a2b3c4d..5e6f7a8b", "ctx:1a2b3c4d..5e6f7a8b.0"] {
            assert!(text.parse::<Handle>().is_err() && text.parse::<RangeHandle>().is_err(), "{text:?}");
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
