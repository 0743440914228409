//! What was learned, as a store gives it back.

use crate::learn::{Id, Kind};

/// Which learnings to list, the newest first.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Only of this kind.
    pub kind: Option<Kind>,
    /// Only of this project's folder.
    pub folder: Option<String>,
    /// Only of folders with this in their path, or below it.
    pub project: Option<String>,
    /// Only of this session, as the store counts them.
    pub session: Option<i64>,
    /// Only what was said then or later, in milliseconds since 1970.
    pub since_ms: Option<i64>,
    /// Only those whose id begins with these hexadecimal digits.
    pub id: String,
    /// Only those with these words, in the index's language, the best first.
    pub words: Option<String>,
    /// Also what was taken back.
    pub with_superseded: bool,
    /// At most so many.
    pub limit: usize,
}

impl Default for Wanted {
    fn default() -> Self {
        Self {
            kind: None,
            folder: None,
            project: None,
            session: None,
            since_ms: None,
            id: String::new(),
            words: None,
            with_superseded: false,
            limit: usize::MAX,
        }
    }
}

/// A learning in the archive, with where it was said last.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredLearning {
    /// What it is known by.
    pub id: Id,
    /// Its kind.
    pub kind: Kind,
    /// As it was said.
    pub sentence: String,
    /// How sure it is, from 0 to 1.
    pub confidence: f64,
    /// The project's folder.
    pub folder: Option<String>,
    /// When it was said first, in milliseconds since 1970.
    pub first_ms: i64,
    /// When it was said last.
    pub last_ms: i64,
    /// How often it was said.
    pub said: u32,
    /// What took it back.
    pub superseded_by: Option<Id>,
    /// The session in which it was said last.
    pub session: String,
    /// The turn.
    pub turn: [u8; 16],
    /// The begin of the message before, and of the one behind.
    pub around: (String, String),
    /// The sub-agent that said it.
    pub agent: Option<String>,
    /// Tools that were used in the turn before.
    pub tools: Vec<String>,
}

/// A fix, with where it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredFix {
    /// The fix.
    pub fix: crate::learn::Fix,
    /// The session.
    pub session: String,
}
