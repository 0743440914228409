/*!
What was learned in conversations: decisions, solutions, outcomes, hand-offs and checkpoints, as the model said them, and what its tools tell: what
failed, and which change made the same call pass.

A `passage` is cut into sentences, `patterns` are the table of what announces and what speaks against a learning, `extract` judges. `watch` follows a
transcript record by record, `pass` drives it over what is new in the archive, `supersede` sees that a decision takes another one back. Precision
matters more than recall: fixtures/learnings has the passages that both are measured on.
*/

mod extract;
mod pass;
mod passage;
mod patterns;
mod recur;
mod supersede;
mod watch;

use serde::{Deserialize, Serialize};

pub use extract::{Found, extract};
pub use pass::{Learned, all, pass};
pub use passage::{Sentence, sentences};
pub use patterns::{Cue, Doubt, Kind, PatternError, Patterns, Scope};
pub use recur::{Recurring, Together, recurring, together};
pub use supersede::Decision;
pub use watch::{Agents, Checkpoint, Tally, ToolTally, Watcher};

use ctxbridge_common::digest;

/// The name of the user's own table of patterns, beside their config.toml.
pub const FILE: &str = "learnings.toml";

/// What a learning is known by, wherever it is said again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Id(#[serde(with = "digest::hexadecimal")] pub [u8; 8]);

impl Id {
    /// Of a sentence of a kind in a project: letters and digits count, their case does not.
    pub fn of(kind: Kind, folder: Option<&str>, sentence: &str) -> Self {
        let words: Vec<String> =
            sentence.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).map(str::to_lowercase).collect();
        let hash = digest::sha256(format!("{}\0{}\0{}", kind.name(), folder.unwrap_or_default(), words.join(" ")).as_bytes());
        let mut id = [0; 8];
        id.copy_from_slice(&hash[..8]);
        Self(id)
    }

    /// All of it, in hexadecimal digits.
    pub fn hex(self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// As it is shown; so much is enough to find it again.
    pub fn handle(self) -> String {
        format!("learn:{}", &self.hex()[..8])
    }
}

/// A learning, where it was said.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Learning {
    /// What it is known by.
    pub id: Id,
    /// Its kind.
    pub kind: Kind,
    /// As it was said, on one line.
    pub sentence: String,
    /// How sure it is, from 0 to 1.
    #[serde(with = "ctxbridge_common::exact")]
    pub confidence: f64,
    /// When, in milliseconds since 1970.
    pub at_ms: i64,
    /// The turn.
    #[serde(with = "digest::hexadecimal")]
    pub turn: [u8; 16],
    /// The begin of the message before.
    pub before: String,
    /// The begin of the message behind it; empty where there is none yet.
    pub after: String,
    /// The sub-agent that said it; none for the conversation itself.
    pub agent: Option<String>,
    /// Tools that were used in the turn before it was said.
    pub tools: Vec<String>,
}

/// A call that failed, and passed after something was changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fix {
    /// The tool.
    pub tool: String,
    /// What it was called with, in one line.
    pub call: String,
    /// What it said when it failed.
    pub error: String,
    /// Files that were changed in between.
    pub changed: Vec<String>,
    /// When it failed first, in milliseconds since 1970.
    pub failed_ms: i64,
    /// When it passed.
    pub fixed_ms: i64,
    /// The turn in which it passed.
    pub turn: [u8; 16],
}

/// What a piece of a transcript taught.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Lesson {
    /// Learnings, in order.
    pub learnings: Vec<Learning>,
    /// Of those before, which are taken back by which.
    pub superseded: Vec<(Id, Id)>,
    /// Calls that pass again.
    pub fixes: Vec<Fix>,
    /// Files that were changed in a turn, all that are known of it.
    pub changed: Vec<([u8; 16], Vec<String>)>,
}

/// How far a transcript was looked through.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Progress {
    /// Of which generation.
    pub generation: u32,
    /// Bytes that were looked at.
    pub bytes: u64,
    /// Which patterns were used.
    pub patterns: String,
    /// What is known so far.
    pub watcher: Watcher,
}
