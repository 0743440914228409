//! Messages between the state and the loop around it.

use std::path::PathBuf;

use crate::source::{PickableSession, SearchOutcome, Selection};

/// Options of a picker.
#[derive(Clone, Debug, Default)]
pub struct PickerOptions {
    /// The query to begin with.
    pub query: String,
    /// The folder that it is run from.
    pub here: Option<PathBuf>,
    /// `true` if colors may be used.
    pub has_color: bool,
}

/// Decision of the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Nothing.
    Quit,
    /// Show a session or turn.
    Show(Selection),
    /// Export this session.
    Export(String),
}

/// Outcome of a picker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The decision.
    pub decision: Decision,
    /// The command that was copied last. A terminal may not let programs write its clipboard.
    pub copied: Option<String>,
}

/// Work for a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// List sessions, at most so many.
    Sessions(usize),
    /// Count the turns of these sessions.
    TurnCounts(Vec<String>),
    /// Read a preview.
    Preview(Selection),
    /// Search turns for these words.
    Search(String),
}

/// Result of a [`Request`]; an error is a sentence.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// Sessions, and the limit they were asked for with.
    Sessions(usize, Result<Vec<PickableSession>, String>),
    /// Number of turns of a session, if they could be counted.
    TurnCount(String, Option<u64>),
    /// Text of a preview.
    Preview(Selection, Result<String, String>),
    /// Hits for words.
    Found(String, Result<SearchOutcome, String>),
}

/// Effect of a key outside the state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Put this text into the clipboard.
    Copy(String),
    /// End.
    Finish(Outcome),
}
