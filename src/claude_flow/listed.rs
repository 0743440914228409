//! Entries as their archives list them, and the errors of these.

use std::io;
use std::path::PathBuf;

use serde_json::{Map, Value};

use super::entry::FlowEntry;

/// An entry, and its session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedEntry {
    /// Its position.
    pub at: At,
    /// Its id, or a name in place of one.
    pub id: String,
    /// The client's session.
    pub session: String,
    /// Time when it was written, and its number then: the order of the turns.
    pub order: (Option<i64>, Option<i64>),
}

/// Position of an entry in its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// The row of a table.
    Row(i64),
    /// The number of an item in a list.
    Item(usize),
}

/// Lists an entry with its session; `name` replaces a missing id.
pub(super) fn whose(mut original: Map<String, Value>, at: At, name: String) -> ListedEntry {
    // The content is read when its turn comes.
    original.insert("content".to_owned(), Value::String("-".to_owned()));
    match FlowEntry::of(original, None) {
        Ok(entry) => {
            let id = if entry.id.is_empty() { name } else { entry.id };
            ListedEntry { at, id, session: entry.session, order: (entry.created_ms, entry.chunk) }
        }
        Err(_) => ListedEntry { at, id: name, session: String::new(), order: (None, None) },
    }
}

/// Reason why an entry is skipped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkipReason(pub String);

/// An archive that cannot be read at all.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The system reports an error.
    #[error("cannot read {path}: {cause}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The error.
        cause: io::Error,
    },
    /// It cannot be copied to where its log can be read.
    #[error("cannot read {path} where it is, nor copy it to a temporary folder: {cause}; free some space there, or set TMPDIR")]
    Copy {
        /// The file.
        path: PathBuf,
        /// The error from the system.
        cause: io::Error,
    },
    /// SQLite reports an error.
    #[error("cannot read {path}: {cause}; see that it is claude-flow's transcript-archive.db, and that you may read it")]
    Sqlite {
        /// The database.
        path: PathBuf,
        /// The error.
        cause: rusqlite::Error,
    },
    /// Another process keeps writing.
    #[error("{path} is being written constantly; try again when claude-flow is idle")]
    Busy {
        /// The database.
        path: PathBuf,
    },
    /// A database of another tool.
    #[error("{path} is not a claude-flow archive: it has no table transcript_entries with ids and contents")]
    OfAnother {
        /// The database.
        path: PathBuf,
    },
    /// A JSON file of another tool.
    #[error("{path} is not a claude-flow archive: {cause}")]
    NoList {
        /// The file.
        path: PathBuf,
        /// The reason.
        cause: String,
    },
    /// A file that is too large to read into memory.
    #[error("{path} has {bytes} bytes, more than the {most} that are read of a JSON archive; remove old entries from it")]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its length.
        bytes: u64,
        /// The limit.
        most: u64,
    },
}
