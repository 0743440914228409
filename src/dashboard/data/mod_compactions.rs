//! The compactions that the mod was asked about.

use std::path::Path;

use serde::Serialize;

use super::one_line;
use crate::hook::mod_state::{AnsweredCompaction, ModState};

/// Number of compactions that are shown.
const SHOWN: usize = 10;

/// Maximum number of characters of a reason.
const REASON_CHARS: usize = 200;

/// Maximum number of characters of a session's id.
const ID_CHARS: usize = 64;

/// The compactions that the mod was asked about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ModCompactions {
    /// Number of those that it answered.
    pub answered: usize,
    /// Number of those that it left to the client.
    pub left: usize,
    /// The newest ones, newest first.
    pub newest: Vec<AskedCompaction>,
}

/// A compaction that the mod was asked about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AskedCompaction {
    /// Milliseconds since 1970.
    pub at_ms: i64,
    /// The session.
    pub session: String,
    /// `manual`, `auto` or `plugin`.
    pub cause: Option<String>,
    /// Number of messages before.
    pub messages_before: usize,
    /// Number of messages that stay; none if the client compacted by itself.
    pub messages_after: Option<usize>,
    /// The reason for that.
    pub reason: Option<String>,
}

impl ModCompactions {
    /// Reads what the module noted in a data folder.
    pub(super) fn read(data: &Path) -> Self {
        let answers = ModState::in_dir(data).answers();
        let answered = answers.iter().filter(|answer| answer.messages_after.is_some()).count();
        let (left, newest) = (answers.len() - answered, answers.into_iter().rev().take(SHOWN).map(AskedCompaction::from));
        Self { answered, left, newest: newest.collect() }
    }
}

impl From<AnsweredCompaction> for AskedCompaction {
    fn from(answer: AnsweredCompaction) -> Self {
        let AnsweredCompaction { at_ms, session, cause, messages_before, messages_after, reason } = answer;
        Self {
            at_ms,
            session: one_line(&session, ID_CHARS),
            cause: cause.map(|cause| one_line(&cause, ID_CHARS)),
            messages_before,
            messages_after,
            reason: reason.map(|reason| one_line(&reason, REASON_CHARS)),
        }
    }
}
