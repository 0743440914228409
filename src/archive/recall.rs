/*!
What a handle stands for: a turn, a text of a message, or the summary of a compaction.

```text
ctx:1a2b3c4d      a turn, by the begin of its id
ctx:1a2b3c4d.0    a text of a message, as pruned text names it
ctx:summary.12    a compaction's summary, by its entry
ctx:team.12       the same of a session that is on the team's server only
```
*/

use std::fmt::{self, Display};
use std::path::Path;
use std::str::FromStr;

use super::blocks::{self, Original};
use super::place::client_folder;
use super::store::{Store, StoreError, StoredTurn};
use ctxbridge_prune::{Handle, NoHandle};

/// Before the entry of a summary.
const SUMMARY: &str = "ctx:summary.";
/// The same on the team's server, which counts in its own way.
const TEAM_SUMMARY: &str = "ctx:team.";

/// Something that can be recalled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reference {
    /// A turn, by the hexadecimal digits that its id begins with.
    Turn(String),
    /// A text of a message.
    Text(Handle),
    /// A compaction's summary, by its entry.
    Summary(i64),
    /// The same, by its entry on the team's server.
    TeamSummary(i64),
}

/// What is no handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoReference {
    /// Nor has it what others have.
    #[error("not the handle of a turn, such as ctx:1a2b3c4d")]
    Turn,
    /// It has a dot.
    #[error(transparent)]
    Text(#[from] NoHandle),
    /// It begins like one of a summary.
    #[error("not the handle of a summary, such as ctx:summary.12")]
    Summary,
}

impl FromStr for Reference {
    type Err = NoReference;

    fn from_str(text: &str) -> Result<Self, NoReference> {
        for (begin, of) in [(SUMMARY, Self::Summary as fn(i64) -> Self), (TEAM_SUMMARY, Self::TeamSummary)] {
            if let Some(entry) = text.strip_prefix(begin) {
                let is_number = entry.bytes().all(|byte| byte.is_ascii_digit());
                return entry.parse().ok().filter(|_| is_number).map(of).ok_or(NoReference::Summary);
            }
        }
        if text.contains('.') {
            return Ok(Self::Text(text.parse()?));
        }
        turn_digits(text).map(Self::Turn).ok_or(NoReference::Turn)
    }
}

impl Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Turn(digits) => write!(f, "ctx:{digits}"),
            Self::Text(handle) => handle.fmt(f),
            Self::Summary(entry) => write!(f, "{SUMMARY}{entry}"),
            Self::TeamSummary(entry) => write!(f, "{TEAM_SUMMARY}{entry}"),
        }
    }
}

/// The hexadecimal digits of a turn's handle, or of its id.
pub fn turn_digits(handle: &str) -> Option<String> {
    let digits: String = handle.trim_start_matches("ctx:").chars().filter(|c| *c != '-').collect();
    let is_one = (6..=32).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_one.then_some(digits)
}

/// The newest turn whose id begins so, and whether others with another content do.
///
/// # Errors
/// When the store cannot be read.
pub fn turn(store: &mut dyn Store, digits: &str) -> Result<Option<(StoredTurn, bool)>, StoreError> {
    let mut found = store.turns_by_id(digits)?.into_iter();
    let Some(newest) = found.next() else { return Ok(None) };
    let is_ambiguous = found.any(|other| other.entry != newest.entry);
    Ok(Some((newest, is_ambiguous)))
}

/// A text of a message. Near ones first: the transcripts of the project that `folder` is in, then the archive, which knows the rest
/// and is not opened before, then what is not archived.
///
/// # Errors
/// As `archived`.
pub fn text<E>(
    handle: &Handle,
    folder: &Path,
    archived: impl FnOnce() -> Result<Option<Original>, E>,
) -> Result<Option<Original>, E> {
    let (own, others) = client_folder().map(|client| blocks::transcripts(&client, folder)).unwrap_or_default();
    if let Some(original) = blocks::in_transcripts(handle, &own) {
        return Ok(Some(original));
    }
    Ok(archived()?.or_else(|| blocks::in_transcripts(handle, &others)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_of_all_kinds() {
        for handle in ["ctx:1a2b3c4d", "ctx:1a2b3c4d.0", "ctx:1a2b3c4d.0.2", "ctx:summary.12", "ctx:team.12"] {
            assert_eq!(handle.parse::<Reference>().expect(handle).to_string(), handle);
        }
        assert_eq!(
            "0b9e0000-0000-4000-8000-000000000000".parse(),
            Ok(Reference::Turn("0b9e0000000040008000000000000000".into()))
        );
        for wrong in ["", "ctx:", "ctx:xyz", "ctx:summary.", "ctx:summary.-1", "ctx:summary.+1", "ctx:1a2b.0", "ctx:1a2b3c4d.x"] {
            assert!(wrong.parse::<Reference>().is_err(), "{wrong}");
        }
    }
}
