//! Sessions in the format of Claude Code 2.1.330, of any size, from a seed.
//!
//! The shapes of lines, their order and their keys were read off transcripts that the real client wrote; the words are made up.
//! The same [`Spec`] gives the same bytes. Nothing is held in memory but the turn that is being written.
//!
//! Differences from a real file: the long lines that repeat the system prompt and the tools (76 KB each) are short here, and
//! sessions of [`Kind::Chat`] leave out the records of requests (`api-request…`), which would be half of them.

mod budget;
mod compact;
mod notes;
mod resume;
mod session;
mod story;
mod tool_call;
mod tools;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub use resume::append_turn;

/// The kind of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Questions and answers, now and then a tool: 2.75 messages a turn.
    Chat,
    /// One prompt, and the work that it starts.
    OneTurn,
    /// Some thirty messages a turn, mostly tool calls, several at once.
    Tools,
    /// As `Tools`, and sub-agents with files of their own.
    Agents,
    /// A session, and a second one that starts as a copy of the first.
    Resumed,
    /// As `Tools`, compacted by the client or the user each few hundred messages.
    Compacted,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::Chat, Self::OneTurn, Self::Tools, Self::Agents, Self::Resumed, Self::Compacted];

    /// Its name as an argument: `one-turn`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::OneTurn => "one-turn",
            Self::Tools => "tools",
            Self::Agents => "agents",
            Self::Resumed => "resumed",
            Self::Compacted => "compacted",
        }
    }

    /// The kind of an argument.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Bytes for each message unless said otherwise. 1,800 is what a chat of 50,000 messages and 90 MB has.
    fn bytes_per_message(self) -> u64 {
        match self {
            Self::Chat => 1_800,
            Self::Resumed => 2_600,
            Self::OneTurn | Self::Tools | Self::Agents | Self::Compacted => 3_600,
        }
    }
}

/// Specification of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spec {
    /// The kind of session.
    pub kind: Kind,
    /// Lines of type `user` and `assistant` in the session's own file, tool results included. Sub-agents, and the copy of a resumed
    /// session, are not counted.
    pub messages: u64,
    /// Decides everything else.
    pub seed: u64,
    /// Size of the session's own file, reached within a few percent if the messages allow it; `None` for the usual size. A resumed
    /// session and its copy have about this size together.
    pub bytes: Option<u64>,
}

impl Spec {
    /// The usual size for this many messages.
    pub fn new(kind: Kind, messages: u64, seed: u64) -> Self {
        Self { kind, messages, seed, bytes: None }
    }

    fn target(&self) -> u64 {
        self.bytes.unwrap_or(self.messages.saturating_mul(self.kind.bytes_per_message()))
    }
}

/// The sessions that were made: one, or two if one was resumed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Made {
    /// The sessions, in the order of their start.
    pub sessions: Vec<MadeSession>,
}

impl Made {
    /// Turns that a person started, those of a copied history counted once.
    pub fn human_turns(&self) -> u64 {
        self.sessions.iter().map(|session| session.human_turns - session.copied_turns).sum()
    }

    /// Messages in the sessions' own files, copies included.
    pub fn messages(&self) -> u64 {
        self.sessions.iter().map(|session| session.messages).sum()
    }

    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.sessions.iter().map(|session| session.bytes + session.agent_bytes).sum()
    }
}

/// One session that was made. Counts are of its own file unless said otherwise.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MadeSession {
    /// Its id.
    pub id: String,
    /// Its file.
    pub path: PathBuf,
    /// Lines.
    pub lines: u64,
    /// Bytes.
    pub bytes: u64,
    /// Lines of type `user` and `assistant`.
    pub messages: u64,
    /// Prompts that a person wrote.
    pub human_turns: u64,
    /// Number of them in the part that was copied from another session.
    pub copied_turns: u64,
    /// API answers: lines that share a `message.id` are one.
    pub answers: u64,
    /// Tool calls, each of which has its result.
    pub tool_calls: u64,
    /// Compactions.
    pub compactions: u64,
    /// `user` lines that no person wrote and that say so by their content only: `/compact`, its output.
    pub command_lines: u64,
    /// `user` lines that report a sub-agent's end.
    pub notifications: u64,
    /// Sub-agents, each with a file.
    pub agents: u64,
    /// Messages in the sub-agents' files.
    pub agent_messages: u64,
    /// Bytes of the sub-agents' files.
    pub agent_bytes: u64,
}

/// Makes the session of `spec` in the folder `out` (made when missing): `<session>.jsonl`, and `<session>/subagents/`.
///
/// # Errors
/// When a file cannot be written.
pub fn generate(spec: &Spec, out: &Path) -> io::Result<Made> {
    fs::create_dir_all(out)?;
    let first = story::write(spec, out)?;
    if spec.kind != Kind::Resumed {
        return Ok(Made { sessions: vec![first] });
    }
    let second = resume::write(spec, &first, out)?;
    Ok(Made { sessions: vec![first, second] })
}
