//! Hook events of the client that ctxbridge handles.

use serde::{Deserialize, Serialize};

/// A hook event of the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Event {
    /// A session starts, is resumed, cleared, or was compacted.
    SessionStart,
    /// The user sent a prompt; the client waits for us before it goes on.
    UserPromptSubmit,
    /// A tool is about to run.
    PreToolUse,
    /// A tool has run.
    PostToolUse,
    /// A compaction is about to happen; exit code 2 blocks it.
    PreCompact,
    /// A compaction has happened; the input has the summary.
    PostCompact,
    /// The answer to a prompt is complete.
    Stop,
    /// A sub-agent is done.
    SubagentStop,
    /// The session is over.
    SessionEnd,
}

impl Event {
    /// All events, in the order of a session.
    pub const ALL: [Self; 9] = [
        Self::SessionStart,
        Self::UserPromptSubmit,
        Self::PreToolUse,
        Self::PostToolUse,
        Self::PreCompact,
        Self::PostCompact,
        Self::Stop,
        Self::SubagentStop,
        Self::SessionEnd,
    ];

    /// Returns the client's name for it, as in its settings: `SessionStart`.
    pub fn name(self) -> &'static str {
        match self {
            Self::SessionStart => "SessionStart",
            Self::UserPromptSubmit => "UserPromptSubmit",
            Self::PreToolUse => "PreToolUse",
            Self::PostToolUse => "PostToolUse",
            Self::PreCompact => "PreCompact",
            Self::PostCompact => "PostCompact",
            Self::Stop => "Stop",
            Self::SubagentStop => "SubagentStop",
            Self::SessionEnd => "SessionEnd",
        }
    }

    /// Returns our name for it, as an argument: `session-start`.
    pub fn slug(self) -> &'static str {
        match self {
            Self::SessionStart => "session-start",
            Self::UserPromptSubmit => "user-prompt-submit",
            Self::PreToolUse => "pre-tool-use",
            Self::PostToolUse => "post-tool-use",
            Self::PreCompact => "pre-compact",
            Self::PostCompact => "post-compact",
            Self::Stop => "stop",
            Self::SubagentStop => "subagent-stop",
            Self::SessionEnd => "session-end",
        }
    }

    /// Parses an argument such as `session-start`.
    pub fn from_slug(slug: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|event| event.slug() == slug)
    }
}
