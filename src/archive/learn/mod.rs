/*!
Learnings from conversations: decisions, solutions, outcomes, hand-offs and checkpoints, in the model's words, and the results of
its tools: failed calls, and the change that made the same call pass.

A `passage` is cut into sentences, `patterns` has the regular expressions for and against a learning, `extract` judges. `watch`
follows a transcript record by record, `pass` drives it over new content of the archive, `supersede` detects a decision that
replaces another, `worth` puts them in order. Precision matters more than recall: both are measured on the passages of
fixtures/learnings, and on real sessions.
The same sentence in a project is one learning.
*/

mod extract;
mod pass;
mod passage;
mod patterns;
mod recur;
mod supersede;
mod watch;
mod worth;

use serde::{Deserialize, Serialize};

pub use extract::{ExtractedLearning, extract};
pub use pass::{LearningReport, learn_from_all, learn_from_session};
pub use passage::{Sentence, sentences};
pub use patterns::{ExclusionPattern, ExclusionScope, LearningKind, LearningPatternError, LearningPatterns, TriggerPattern};
pub use recur::{CoChange, RecurringFailure, co_changes, recurring_failures};
pub use supersede::DecisionWords;
pub use watch::{AgentStats, Checkpoint, ToolCallStats, ToolStats, Watcher};
pub use worth::{MAX_RANKED_LEARNINGS, sort_by_worth, taken_back_last};

use ctxbridge_common::digest;

/// File name of the user's own table of patterns, next to their config.toml.
pub const PATTERNS_FILE: &str = "learnings.toml";

/// Identity of a learning, the same wherever it is repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LearningId(#[serde(with = "digest::hexadecimal")] pub [u8; 8]);

impl LearningId {
    /// Id for a sentence of a kind in a project: letters and digits count, their case does not.
    pub fn of(kind: LearningKind, folder: Option<&str>, sentence: &str) -> Self {
        let words: Vec<String> =
            sentence.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).map(str::to_lowercase).collect();
        let hash = digest::sha256(format!("{}\0{}\0{}", kind.name(), folder.unwrap_or_default(), words.join(" ")).as_bytes());
        let mut id = [0; 8];
        id.copy_from_slice(&hash[..8]);
        Self(id)
    }

    /// The whole id, in hexadecimal digits.
    pub fn hex(self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Short form for display; it is enough to find the learning again.
    pub fn handle(self) -> String {
        format!("learn:{}", &self.hex()[..8])
    }
}

/// A learning, with its position in the conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Learning {
    /// Id.
    pub id: LearningId,
    /// Its kind.
    pub kind: LearningKind,
    /// Original sentence, on one line.
    pub sentence: String,
    /// Confidence, from 0 to 1.
    #[serde(with = "ctxbridge_common::serde_f64_bits")]
    pub confidence: f64,
    /// Time, in milliseconds since 1970.
    pub at_ms: i64,
    /// The turn.
    #[serde(with = "digest::hexadecimal")]
    pub turn: [u8; 16],
    /// Start of the message before.
    pub before: String,
    /// Start of the message after it; empty if there is none yet.
    pub after: String,
    /// The sub-agent that said it; none for the conversation itself.
    pub agent: Option<String>,
    /// Tools that were used in the turn before it was said.
    pub tools: Vec<String>,
}

/// A call that failed, and passed after a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fix {
    /// The tool.
    pub tool: String,
    /// Input of the call, in one line.
    pub call: String,
    /// Output of the failure.
    pub error: String,
    /// Files that were changed in between.
    pub changed: Vec<String>,
    /// Time of the first failure, in milliseconds since 1970.
    pub failed_ms: i64,
    /// Time when it passed, in milliseconds since 1970.
    pub fixed_ms: i64,
    /// The turn in which it passed.
    pub turn: [u8; 16],
}

/// Learnings from a piece of a transcript.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LearningBatch {
    /// Learnings, in order.
    pub learnings: Vec<Learning>,
    /// Earlier learnings that are superseded, each with the one that supersedes it.
    pub superseded: Vec<(LearningId, LearningId)>,
    /// Calls that pass again.
    pub fixes: Vec<Fix>,
    /// Files changed in a turn, all that are known of it.
    pub changed: Vec<([u8; 16], Vec<String>)>,
}

/// Progress of learning from a transcript.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct LearningCursor {
    /// Generation of the transcript.
    pub generation: u32,
    /// Bytes processed.
    pub bytes: u64,
    /// Hash of the patterns that were used.
    pub patterns: String,
    /// State of the watcher so far.
    pub watcher: Watcher,
}
