/*!
What the module told of itself: that it was loaded, and how compactions were answered.

The client may switch modules off for reasons that no file says (a server's flag, a policy, `--safe-mode`), so only what was seen counts.
*/

use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use ctxbridge_common::files;

/// Name of the folder in the data folder.
const FOLDER: &str = "mod";
const LOADED: &str = "loaded.jsonl";
const ANSWERS: &str = "answers.jsonl";

/// Size at which the list of sessions is rotated, in bytes: the statusline reads it, too. That is some two hundred.
const MAX_LOADED_BYTES: u64 = 16 << 10;

/// Size at which the list of answers is rotated, in bytes.
const MAX_ANSWERS_BYTES: u64 = 256 << 10;

/// Age of an answer, in milliseconds, up to which the start of a session that follows a compaction is due to it.
const ANSWER_IS_NEW_MS: i64 = 60_000;

/// State of the module.
#[derive(Clone, Debug)]
pub struct ModState {
    folder: PathBuf,
}

/// A session in which the module was loaded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadedModule {
    /// Milliseconds since 1970.
    pub at_ms: i64,
    /// The session.
    pub session: String,
}

/// A compaction that the module was asked about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnsweredCompaction {
    /// Milliseconds since 1970.
    pub at_ms: i64,
    /// The session.
    pub session: String,
    /// `manual`, `auto` or `plugin`.
    pub cause: Option<String>,
    /// Number of messages that the client handed over.
    pub messages_before: usize,
    /// Number of those that stay; none if the client compacted by itself.
    pub messages_after: Option<usize>,
    /// The reason for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl ModState {
    /// Opens the state in a data folder. Nothing is created until something is noted.
    pub fn in_dir(data: &Path) -> Self {
        Self { folder: data.join(FOLDER) }
    }

    /// Notes that the module was loaded. Where that cannot be written, it is not known.
    pub fn note_loaded(&self, loaded: &LoadedModule) {
        self.note(LOADED, loaded, MAX_LOADED_BYTES);
    }

    /// Returns the last session in which the module was loaded.
    pub fn loaded(&self) -> Option<LoadedModule> {
        self.all_loaded().pop()
    }

    /// Returns the last sessions in which the module was loaded, oldest first.
    pub fn all_loaded(&self) -> Vec<LoadedModule> {
        self.noted(LOADED)
    }

    /// Notes how a compaction was answered. Where that cannot be written, it is not known.
    pub fn note_answer(&self, answered: &AnsweredCompaction) {
        self.note(ANSWERS, answered, MAX_ANSWERS_BYTES);
    }

    /// Returns how compactions were answered, oldest first.
    pub fn answers(&self) -> Vec<AnsweredCompaction> {
        self.noted(ANSWERS)
    }

    /// Counts the answers: those that the client took, and those that left the compaction to it.
    pub fn answer_counts(&self) -> (usize, usize) {
        let answers = self.answers();
        let answered = answers.iter().filter(|answer| answer.messages_after.is_some()).count();
        (answered, answers.len() - answered)
    }

    /// `true` if the newest compaction of a session, right now, was answered: what was said is still there, or has handles.
    pub fn has_just_answered(&self, session: &str, now_ms: i64) -> bool {
        let newest = self.answers().into_iter().rev().find(|answered| answered.session == session);
        newest.is_some_and(|answered| answered.messages_after.is_some() && now_ms - answered.at_ms < ANSWER_IS_NEW_MS)
    }

    /// Notes that the client compacts a session by itself, where the newest answer would say otherwise: with a wish of the user, it does not ask
    /// the module.
    pub(super) fn note_own_compaction(&self, session: &str, cause: Option<&str>, now_ms: i64) {
        if self.has_just_answered(session, now_ms) {
            self.note_answer(&AnsweredCompaction {
                at_ms: now_ms,
                session: session.to_owned(),
                cause: cause.map(str::to_owned),
                messages_before: 0,
                messages_after: None,
                reason: Some("the client did not ask".to_owned()),
            });
        }
    }

    fn note(&self, name: &str, noted: &impl Serialize, largest: u64) {
        if let Ok(line) = serde_json::to_string(noted) {
            files::append(&self.folder.join(name), &format!("{line}\n"), largest).ok();
        }
    }

    /// Last notes, oldest first, with those of before the file was rotated.
    fn noted<T: DeserializeOwned>(&self, name: &str) -> Vec<T> {
        let texts = [format!("{name}.1"), name.to_owned()].map(|name| files::read(self.folder.join(name)).unwrap_or_default());
        let lines = texts.iter().flat_map(|text| text.split(|byte| *byte == b'\n'));
        lines.filter_map(|line| serde_json::from_slice(line).ok()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_newest_answer_counts_and_only_for_a_while() {
        let data = tempfile::tempdir().expect("a folder");
        let state = ModState::in_dir(data.path());
        assert!(!state.has_just_answered("a", 1_000) && state.loaded().is_none() && state.answers().is_empty());
        let answered = |at_ms, session: &str, messages_after, reason: Option<&str>| AnsweredCompaction {
            at_ms,
            session: session.to_owned(),
            cause: Some("auto".to_owned()),
            messages_before: 9,
            messages_after,
            reason: reason.map(str::to_owned),
        };
        state.note_answer(&answered(1_000, "a", Some(3), None));
        state.note_answer(&answered(2_000, "b", None, Some("too little")));
        assert!(state.has_just_answered("a", 2_000) && !state.has_just_answered("b", 2_000));
        assert!(!state.has_just_answered("a", 61_000), "that was long ago");
        state.note_answer(&answered(3_000, "a", None, Some("too little")));
        assert!(!state.has_just_answered("a", 3_000), "the client compacted by itself since");
        assert_eq!(state.answers().len(), 3);
        state.note_own_compaction("a", None, 3_000);
        assert_eq!(state.answers().len(), 3, "that is known");
        state.note_answer(&answered(4_000, "a", Some(3), None));
        state.note_own_compaction("a", Some("manual"), 5_000);
        assert!(!state.has_just_answered("a", 5_000), "the module was not asked");
        let loaded = LoadedModule { at_ms: 1, session: "a".to_owned() };
        state.note_loaded(&loaded);
        assert_eq!(state.loaded(), Some(loaded.clone()));
        for at_ms in 2..2_000 {
            state.note_loaded(&LoadedModule { at_ms, ..loaded.clone() });
        }
        let all = state.all_loaded();
        assert!(all.len() < 1_000 && all.last().is_some_and(|last| last.at_ms == 1_999), "it does not grow for ever");
        assert!(all.is_sorted_by_key(|loaded| loaded.at_ms), "what was rotated is older");
    }
}
