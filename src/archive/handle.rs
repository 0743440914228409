/*!
Handles: each refers to a turn, a text of a message, messages in a row, or the summary of a compaction.

```text
ctx:1a2b3c4d             a turn, by the start of its id
ctx:1a2b3c4d.0           a text of a message, as a digest names it
ctx:1a2b3c4d..5e6f7a8b   the messages from one to another, as a digest names them
ctx:summary.12           a compaction's summary, by its entry
ctx:team.12              the same of a session that is on the team's server only
```
*/

use std::fmt::{self, Display};
use std::str::FromStr;

use ctxbridge_prune::{Handle, HandleParseError, RangeHandle};

/// Prefix of a summary's handle, before its entry.
const SUMMARY_PREFIX: &str = "ctx:summary.";
/// Prefix for a summary on the team's server, which numbers entries on its own.
const TEAM_SUMMARY_PREFIX: &str = "ctx:team.";

/// Something that can be recalled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reference {
    /// A turn, by the hexadecimal digits that its id begins with.
    Turn(String),
    /// A text of a message.
    Text(Handle),
    /// Messages in a row.
    Messages(RangeHandle),
    /// A compaction's summary, by its entry.
    Summary(i64),
    /// The same, by its entry on the team's server.
    TeamSummary(i64),
}

/// Errors from parsing a handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReferenceError {
    /// Not the handle of a turn, nor of anything else.
    #[error("not the handle of a turn, such as ctx:1a2b3c4d")]
    Turn,
    /// Not the handle of a text, although it has a dot.
    #[error(transparent)]
    Text(#[from] HandleParseError),
    /// Not the handle of messages, although it has two dots.
    #[error("not the handle of messages in a row, such as ctx:1a2b3c4d..5e6f7a8b")]
    Messages,
    /// Not the handle of a summary, although it begins like one.
    #[error("not the handle of a summary, such as ctx:summary.12")]
    Summary,
}

impl FromStr for Reference {
    type Err = ReferenceError;

    fn from_str(text: &str) -> Result<Self, ReferenceError> {
        for (begin, of) in [(SUMMARY_PREFIX, Self::Summary as fn(i64) -> Self), (TEAM_SUMMARY_PREFIX, Self::TeamSummary)] {
            if let Some(entry) = text.strip_prefix(begin) {
                let is_number = entry.bytes().all(|byte| byte.is_ascii_digit());
                return entry.parse().ok().filter(|_| is_number).map(of).ok_or(ReferenceError::Summary);
            }
        }
        if text.contains("..") {
            return text.parse().map(Self::Messages).map_err(|_| ReferenceError::Messages);
        }
        if text.contains('.') {
            return Ok(Self::Text(text.parse()?));
        }
        turn_digits(text).map(Self::Turn).ok_or(ReferenceError::Turn)
    }
}

impl Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Turn(digits) => write!(f, "ctx:{digits}"),
            Self::Text(handle) => handle.fmt(f),
            Self::Messages(range) => range.fmt(f),
            Self::Summary(entry) => write!(f, "{SUMMARY_PREFIX}{entry}"),
            Self::TeamSummary(entry) => write!(f, "{TEAM_SUMMARY_PREFIX}{entry}"),
        }
    }
}

/// Beginning of a turn's handle.
pub(crate) const TURN_HANDLE_PREFIX: &str = "ctx:";

/// The hexadecimal digits of a turn's handle, or of its id.
pub fn turn_digits(handle: &str) -> Option<String> {
    let digits: String = handle.trim_start_matches("ctx:").chars().filter(|c| *c != '-').collect();
    let is_one = (6..=32).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_one.then_some(digits)
}

/// A short handle for a turn: the first half of it is enough to find the turn again.
pub fn turn_handle(id: &[u8; 16]) -> String {
    format!("{TURN_HANDLE_PREFIX}{:02x}{:02x}{:02x}{:02x}", id[0], id[1], id[2], id[3])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_of_all_kinds() {
        let messages = "ctx:1a2b3c4d..5e6f7a8b";
        for handle in ["ctx:1a2b3c4d", "ctx:1a2b3c4d.0", "ctx:1a2b3c4d.0.2", messages, "ctx:summary.12", "ctx:team.12"] {
            assert_eq!(handle.parse::<Reference>().expect(handle).to_string(), handle);
        }
        assert_eq!(
            "0b9e0000-0000-4000-8000-000000000000".parse(),
            Ok(Reference::Turn("0b9e0000000040008000000000000000".into()))
        );
        for wrong in ["", "ctx:", "ctx:xyz", "ctx:summary.", "ctx:summary.-1", "ctx:summary.+1", "ctx:1a2b.0", "ctx:1a2b3c4d.x"] {
            assert!(wrong.parse::<Reference>().is_err(), "{wrong}");
        }
        for wrong in ["ctx:1a2b3c4d..", "ctx:..", "1a2b3c4d..5e6f7a8b", "ctx:1a2b3c4d..5e6f", "ctx:1a2b3c4d...5e6f7a8b"] {
            assert_eq!(wrong.parse::<Reference>(), Err(ReferenceError::Messages), "{wrong}");
        }
    }
}
