//! Learnings, as a store returns them.

use crate::learn::{LearningId, LearningKind};
use crate::project_scope::ProjectScope;

/// Query for learnings, which are listed newest first.
#[derive(Clone, Debug)]
pub struct LearningQuery {
    /// Only of this kind.
    pub kind: Option<LearningKind>,
    /// Only of this project's folder.
    pub folder: Option<String>,
    /// Only of the folders of this project.
    pub project: Option<ProjectScope>,
    /// Only of this session, as the store counts them.
    pub session: Option<i64>,
    /// Only of this turn. With its session, it is found at once.
    pub turn: Option<[u8; 16]>,
    /// Only those said at this time or later, in milliseconds since 1970.
    pub since_ms: Option<i64>,
    /// Only those whose id begins with these hexadecimal digits.
    pub id: String,
    /// Only those with these words, in the index's language, the best first.
    pub words: Option<String>,
    /// Also superseded ones.
    pub with_superseded: bool,
    /// Maximum number to list.
    pub limit: usize,
}

impl Default for LearningQuery {
    fn default() -> Self {
        Self {
            kind: None,
            folder: None,
            project: None,
            session: None,
            turn: None,
            since_ms: None,
            id: String::new(),
            words: None,
            with_superseded: false,
            limit: usize::MAX,
        }
    }
}

/// A learning in the archive, with the place where it was said last.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredLearning {
    /// Its id.
    pub id: LearningId,
    /// Its kind.
    pub kind: LearningKind,
    /// The sentence as it was said.
    pub sentence: String,
    /// Confidence, from 0 to 1.
    pub confidence: f64,
    /// The project's folder.
    pub folder: Option<String>,
    /// Time when it was first said, in milliseconds since 1970.
    pub first_ms: i64,
    /// Time when it was last said.
    pub last_ms: i64,
    /// Number of times it was said.
    pub said: u32,
    /// The learning that superseded it.
    pub superseded_by: Option<LearningId>,
    /// `true` if the conversation went back to before each of its turns.
    pub is_rewound: bool,
    /// The session in which it was said last.
    pub session: String,
    /// The turn.
    pub turn: [u8; 16],
    /// The start of the previous message, and of the next one.
    pub around: (String, String),
    /// The sub-agent that said it.
    pub agent: Option<String>,
    /// Tools that were used in the turn before.
    pub tools: Vec<String>,
}

/// A fix, and the session it is from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredFix {
    /// The fix.
    pub fix: crate::learn::Fix,
    /// The session.
    pub session: String,
}
