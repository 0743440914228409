/*!
A turn by itself, with what is known of it: a line of `entries.jsonl`.

The names and what is behind them are those that archives of this kind have everywhere: they can be read by `jq`, found by `grep`, and taken
into something else.
*/

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use ctxbridge_common::digest;
use ctxbridge_transcript::{Turn, summary, text_of};

/// What kind of memory a turn is.
pub const TYPE: &str = "episodic";

/// Where all of them are.
pub const NAMESPACE: &str = "transcript-archive";

/// Who may read them.
pub const ACCESS_LEVEL: &str = "private";

/// A turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// `transcript:{session}:{index}:{timestamp}`; of a sub-agent's work, the session is followed by `/` and the sub-agent.
    pub key: String,
    /// What it says.
    pub content: String,
    /// [`TYPE`].
    #[serde(rename = "type")]
    pub kind: String,
    /// [`NAMESPACE`].
    pub namespace: String,
    /// `transcript`, `compaction`, the session, and the tools that were used.
    pub tags: Vec<String>,
    /// All else.
    pub metadata: Metadata,
    /// [`ACCESS_LEVEL`].
    pub access_level: String,
}

/// What is known of a turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Metadata {
    /// The session.
    pub session_id: String,
    /// The sub-agent, when it is one's work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    /// Its place in the transcript, from 0.
    pub chunk_index: u32,
    /// What made it be archived, where that is known.
    pub trigger: Option<String>,
    /// When it began; nothing when no line says.
    pub timestamp: Option<String>,
    /// Tools that were used.
    pub tool_names: Vec<String>,
    /// Files that were read or written.
    pub file_paths: Vec<String>,
    /// What it was about, in one line.
    pub summary: String,
    /// SHA-256 of what it says, in hexadecimal digits, with the two line breaks behind its last piece; of nothing, when it says nothing. Turns that say the
    /// same have the same.
    #[serde(with = "digest::hexadecimal")]
    pub content_hash: digest::Bytes,
    /// Size of the context at its last answer, in tokens.
    pub pre_tokens: Option<u64>,
    /// Its place again: the first turn and the last.
    pub turn_range: [u32; 2],
}

impl Entry {
    /// Of a turn, and the bytes that it takes in its transcript.
    pub fn of(session: &str, agent: Option<&str>, turn: &Turn, bytes: &[u8]) -> Self {
        let tags = ["transcript", "compaction", session].into_iter().chain(turn.tools.iter().map(String::as_str));
        Self {
            key: match agent {
                None => key(session, turn.index, turn.started_ms),
                Some(agent) => key(&format!("{session}/{agent}"), turn.index, turn.started_ms),
            },
            content: text_of(bytes),
            kind: TYPE.to_owned(),
            namespace: NAMESPACE.to_owned(),
            tags: tags.map(str::to_owned).collect(),
            metadata: Metadata {
                session_id: session.to_owned(),
                agent_id: agent.map(str::to_owned),
                chunk_index: turn.index,
                trigger: None,
                timestamp: stamp(turn.started_ms),
                tool_names: turn.tools.clone(),
                file_paths: turn.files.clone(),
                summary: summary::of_turn(turn, bytes),
                content_hash: turn.content_sha256,
                pre_tokens: turn.context_tokens,
                turn_range: [turn.index, turn.index],
            },
            access_level: ACCESS_LEVEL.to_owned(),
        }
    }
}

/// What a turn is known by, which began in a millisecond since 1970.
pub fn key(session: &str, index: u32, started_ms: i64) -> String {
    format!("transcript:{session}:{index}:{}", stamp(started_ms).unwrap_or_default())
}

/// A time for programs; nothing where no line says when.
pub fn stamp(ms: i64) -> Option<String> {
    Timestamp::from_millisecond(ms).ok().filter(|_| ms > 0).map(|time| time.to_string())
}
