/*!
A turn by itself, with its metadata: a line of `entries.jsonl`.

Names and values are those that archives of this kind have everywhere. They can be read by `jq`, found by `grep`, and imported by
other tools.
*/

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use ctxbridge_common::digest;
use ctxbridge_transcript::blank::blank_private_lines;
use ctxbridge_transcript::{Turn, summary, text_of};

/// Kind of memory of every turn.
pub const TYPE: &str = "episodic";

/// Namespace of all entries.
pub const NAMESPACE: &str = "transcript-archive";

/// Access level of all entries.
pub const ACCESS_LEVEL: &str = "private";

/// A turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// `transcript:{session}:{index}:{timestamp}`; of a sub-agent's work, the session is followed by `/` and the sub-agent.
    pub key: String,
    /// Text of the turn.
    pub content: String,
    /// [`TYPE`].
    #[serde(rename = "type")]
    pub kind: String,
    /// [`NAMESPACE`].
    pub namespace: String,
    /// `transcript`, `compaction`, the session, and the tools that were used.
    pub tags: Vec<String>,
    /// All else.
    pub metadata: EntryMetadata,
    /// [`ACCESS_LEVEL`].
    pub access_level: String,
}

/// Metadata of a turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EntryMetadata {
    /// The session.
    pub session_id: String,
    /// The sub-agent, if the turn is one's work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    /// Index in the transcript, from 0.
    pub chunk_index: u32,
    /// Event that caused the archiving, if known.
    pub trigger: Option<String>,
    /// Start time; `None` if no line has one.
    pub timestamp: Option<String>,
    /// Tools that were used.
    pub tool_names: Vec<String>,
    /// Files that were read or written.
    pub file_paths: Vec<String>,
    /// Summary in one line.
    pub summary: String,
    /// SHA-256 of the text, in hexadecimal digits, including the two line breaks after its last piece; of an empty text if it has
    /// none. Turns with equal texts have equal hashes.
    #[serde(with = "digest::hexadecimal")]
    pub content_hash: digest::Sha256Digest,
    /// Size of the context at its last answer, in tokens.
    pub pre_tokens: Option<u64>,
    /// First and last turn: its index twice.
    pub turn_range: [u32; 2],
}

impl Entry {
    /// Creates the entry of a turn from the bytes that it takes in its transcript.
    pub fn of(session: &str, agent: Option<&str>, turn: &Turn, bytes: &[u8]) -> Self {
        let mut shown = bytes.to_vec();
        blank_private_lines(&mut shown);
        let tags = ["transcript", "compaction", session].into_iter().chain(turn.tools.iter().map(String::as_str));
        Self {
            key: match agent {
                None => key(session, turn.index, turn.started_ms),
                Some(agent) => key(&format!("{session}/{agent}"), turn.index, turn.started_ms),
            },
            content: text_of(&shown),
            kind: TYPE.to_owned(),
            namespace: NAMESPACE.to_owned(),
            tags: tags.map(str::to_owned).collect(),
            metadata: EntryMetadata {
                session_id: session.to_owned(),
                agent_id: agent.map(str::to_owned),
                chunk_index: turn.index,
                trigger: None,
                timestamp: format_timestamp(turn.started_ms),
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

/// Key of a turn that began at a time in milliseconds since 1970.
pub fn key(session: &str, index: u32, started_ms: i64) -> String {
    format!("transcript:{session}:{index}:{}", format_timestamp(started_ms).unwrap_or_default())
}

/// Formats a time for programs; `None` if no line has a time.
pub fn format_timestamp(ms: i64) -> Option<String> {
    Timestamp::from_millisecond(ms).ok().filter(|_| ms > 0).map(|time| time.to_string())
}
