//! Records that an archive stores and returns.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::session_part::SessionPart;
use crate::tier::Tier;
use ctxbridge_common::digest;
use ctxbridge_transcript::{CompactSummary, FirstContext, Interpreter, PathChange, Turn};

/// Identity of a transcript, or of a file beside one: what is said of transcripts and not of their lines holds for both.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transcript {
    /// Its path, as text: the key.
    pub path: String,
    /// The session.
    pub session: String,
    /// The part of the session.
    #[serde(default, rename = "agent")]
    pub part: SessionPart,
}

/// Position up to which a transcript is archived.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Cursor {
    /// Number of times it has been rewritten.
    pub generation: u32,
    /// Number of archived bytes.
    pub bytes: u64,
    /// SHA-256 of the last [`crate::reader::CHECKED_BYTES`] before it.
    #[serde(with = "digest::hexadecimal")]
    pub check: digest::Sha256Digest,
    /// State of interpreting its lines.
    pub interpreter: Interpreter,
}

/// A piece of a transcript, compressed.
#[derive(Clone, Debug)]
pub struct Segment {
    /// Byte offset in the transcript.
    pub start: u64,
    /// Bytes, not compressed.
    pub bytes: u32,
    /// SHA-256 of these bytes.
    pub sha256: digest::Sha256Digest,
    /// A zstd frame.
    pub data: Vec<u8>,
}

/// Data that is added to the archive of one transcript at once.
#[derive(Clone, Debug)]
pub struct Batch {
    /// The transcript.
    pub transcript: Transcript,
    /// Generation and bytes of the cursor that it must follow (optimiztic concurrency); `None` for a new transcript.
    pub expected_cursor: Option<(u32, u64)>,
    /// The shared start, if the transcript was rewritten and a new generation begins.
    pub rewritten: Option<SharedPrefix>,
    /// New segments, in sequence; stored ones at or after the first one's start are replaced.
    pub segments: Vec<Segment>,
    /// Turns that are new or have grown.
    pub turns: Vec<Turn>,
    /// Summaries of compactions that were met.
    pub summaries: Vec<CompactSummary>,
    /// Context sizes right after compactions, these or earlier ones.
    pub first_contexts: Vec<FirstContext>,
    /// Parts of the transcript that left the conversation, or came back, in order. They are applied last.
    pub path_changes: Vec<PathChange>,
    /// The cursor afterwards.
    pub cursor: Cursor,
}

impl Batch {
    /// Turns of which a part was rewound, each with the turn that this part is now.
    pub fn split_turns(&self) -> impl Iterator<Item = (&Turn, &Turn)> {
        let behind = |turn: &Turn| self.turns.iter().find(|rest| rest.start == turn.end);
        let changed = !self.path_changes.is_empty();
        self.turns.iter().filter(move |_| changed).filter_map(move |turn| Some((turn, behind(turn)?)))
    }
}

/// Start that a new generation of a transcript shares with the previous one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedPrefix {
    /// Shared bytes, up to the start of a segment.
    pub shared: u64,
    /// Shared turns, which are not read again; stored turns from there on belong to the old generation.
    pub turns: u32,
}

/// Outcome of adding a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppendOutcome {
    /// It is in the archive.
    Committed,
    /// Another process was first: read the cursor again.
    Conflict,
}

/// A session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// Its id in this store.
    pub key: i64,
    /// The client's id.
    pub session: String,
    /// The folder that the client worked in, or the one that its project was moved to.
    pub folder: Option<String>,
    /// The folder that the client worked in, if the project was moved.
    pub moved_from: Option<String>,
    /// Start of the first turn, in milliseconds since 1970.
    pub first_ms: Option<i64>,
    /// End of the last turn.
    pub last_ms: Option<i64>,
    /// The model that answered last.
    pub model: Option<String>,
    /// The client's version.
    pub version: Option<String>,
    /// Size of the context at the last answer, in tokens.
    pub context_tokens: Option<u64>,
    /// Size of the model's window, if the client recorded it.
    pub window: Option<u64>,
    /// Reason why the client ended it, if known.
    pub end_reason: Option<String>,
    /// The owner, if it is another user.
    pub owner: Option<String>,
    /// Its title: the user's, the model's, an older client's summary, or the first prompt.
    pub title: Option<String>,
}

/// Statistics of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionStats {
    /// Turns of the current conversation.
    pub turns: u64,
    /// Bytes of its transcripts, sub-agents' included, and of the files beside them.
    pub bytes: u64,
    /// Sub-agents' transcripts.
    pub agents: u64,
    /// Files beside the transcript.
    pub side_files: u64,
    /// Lines that could not be read.
    pub bad_lines: u64,
    /// Number of times its transcripts were rewritten.
    pub rewritten: u64,
    /// The fullest generation before a rewrite, if it has more turns than the conversation has now.
    pub fuller: Option<FullerGeneration>,
}

impl SessionStats {
    /// Turns of the fullest generation.
    pub fn most_turns(&self) -> u64 {
        self.fuller.map_or(self.turns, |fuller| fuller.turns)
    }
}

/// A generation of a transcript that has more turns than the newest one: the client may have overwritten the file with a stub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FullerGeneration {
    /// Its number, from 0.
    pub generation: u32,
    /// Its turns.
    pub turns: u64,
}

/// A turn in the archive.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredTurn {
    /// The entry of its content; turns with the same content share it.
    pub entry: i64,
    /// The transcript that its bytes are in.
    pub transcript: i64,
    /// The generation of the transcript.
    pub generation: u32,
    /// The session.
    pub session: String,
    /// The user who archived it, if it is another one.
    pub owner: Option<String>,
    /// The sub-agent, if it is one's work.
    pub agent: Option<String>,
    /// Number of times its content was restored.
    pub access_count: u32,
    /// Confidence, from 0.1 to 1.
    pub confidence: f64,
    /// `true` if it left the hot set: it is not ranked, and need not be indexed.
    pub is_pruned: bool,
    /// `true` if it is not in the conversation any more: a rewritten transcript no longer has it, or it was rewound.
    pub is_superseded: bool,
    /// `true` if it was rewound: the transcript still has it, and the conversation went on without it.
    pub is_rewound: bool,
    /// `true` if the user pinned it.
    pub is_pinned: bool,
    /// The turn itself.
    pub turn: Turn,
}

/// A file of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredTranscript {
    /// Its id in this store.
    pub key: i64,
    /// Its current or former path.
    pub path: String,
    /// The part of the session.
    pub part: SessionPart,
    /// Number of times it has been rewritten.
    pub generation: u32,
    /// Bytes of its current generation.
    pub bytes: u64,
}

/// Location of a turn, and its ranking data.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnLocation {
    /// The entry of its content.
    pub entry: i64,
    /// Key of the turn in this store, not of the entry.
    pub key: i64,
    /// The transcript.
    pub transcript: i64,
    /// Its index in the transcript, from 0.
    pub index: u32,
    /// The session, as this store counts them.
    pub session: i64,
    /// The folder that the client worked in.
    pub folder: Option<String>,
    /// Start time, in milliseconds since 1970.
    pub started_ms: i64,
    /// Number of times its content was restored.
    pub access_count: u32,
    /// Confidence, from 0.1 to 1.
    pub confidence: f64,
    /// `true` if it used tools, and `true` if it used files.
    pub richness: (bool, bool),
    /// `true` if it is not in the conversation any more: a rewritten transcript no longer has it, or it was rewound.
    pub is_superseded: bool,
}

impl TurnLocation {
    /// Rank among several locations of the same content. The highest one is shown: one in a current conversation, then the newest.
    pub fn rank(&self) -> impl Ord + use<> {
        (!self.is_superseded, self.started_ms, self.key)
    }
}

/// The summary of a compaction.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredSummary {
    /// Its entry.
    pub entry: i64,
    /// Its text.
    pub text: String,
    /// Time, in milliseconds since 1970.
    pub at_ms: i64,
    /// Turns of the session before it.
    pub turns: u32,
    /// The user who archived it, if it is another one.
    pub owner: Option<String>,
}

/// A compaction that is about to happen, or was blocked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compaction {
    /// Time, in milliseconds since 1970.
    pub at_ms: i64,
    /// `auto` or `manual`.
    pub cause: Option<String>,
    /// Size of the context, in tokens.
    pub context_tokens: Option<u64>,
    /// `true` if the gate blocked it.
    pub is_blocked: bool,
    /// Turns of the session before it, if known; otherwise all that are archived by then.
    pub turns: Option<u32>,
}

/// A compaction that was announced, blocked, or has happened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredCompaction {
    /// Its id in this store.
    pub key: i64,
    /// The session.
    pub session: String,
    /// Time, in milliseconds since 1970.
    pub at_ms: i64,
    /// `auto` or `manual`, if known.
    pub cause: Option<String>,
    /// Turns of the session before it.
    pub turns: u32,
    /// Size of the context before it, in tokens.
    pub context_tokens: Option<u64>,
    /// Size of the context after it.
    pub context_after: Option<u64>,
    /// Duration, in milliseconds.
    pub took_ms: Option<u64>,
    /// Learnings that were said since the one before.
    pub learnings: u64,
    /// `true` if the gate blocked it.
    pub is_blocked: bool,
    /// `true` if the client made its summary, and so completed it.
    pub is_done: bool,
    /// The entry of the summary.
    pub summary: Option<i64>,
    /// Transcript and byte offset; `None` if only a hook reported it, or a rewritten transcript no longer has it.
    pub location: Option<(i64, u64)>,
    /// `true` if the conversation went back to before it.
    pub is_rewound: bool,
    /// The messages before it.
    pub snapshot: Option<Snapshot>,
}

/// The messages that a compaction replaced by a summary: everything since the previous one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Messages: prompts, answers, and what tools returned.
    pub messages: u64,
    /// The start of the first message with text.
    pub first: String,
    /// The start of the last message with text.
    pub last: String,
    /// Topics, most significant first.
    pub topics: Vec<String>,
}

/// Changes of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changes {
    /// The current state, to ask again with. It is unique for each state of each store.
    pub revision: String,
    /// Entries that may be new, changed or gone; `None` if unknown, so that anything may have changed.
    pub entries: Option<Vec<i64>>,
}

/// Start of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TurnOffset {
    /// The transcript.
    pub transcript: i64,
    /// Its byte offset in the transcript.
    pub at: u64,
    /// The turn's id.
    pub id: [u8; 16],
}

/// Selection of turns of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnSelection {
    /// All turns of the current conversation, in order.
    All,
    /// The newest of them, newest first.
    Newest(usize),
    /// Those that can be among the most important, in no order: the newest of each richness, and all that were restored before.
    /// Pruned ones never are. Importance falls with age, so no other can be among the first this many.
    Candidates(usize),
    /// Those that are not in the conversation any more: a rewritten transcript no longer has them, or they were rewound.
    Superseded,
    /// Sub-agents' work.
    Agents,
    /// Those that the user pinned, newest first.
    Pinned,
}

impl TurnSelection {
    /// Drops the copies from turns that were read one transcript after the other. After a copy elsewhere, or a renamed folder, a
    /// session has several main transcripts (`mains`); what several of them have is one turn.
    pub fn drop_copies(self, mains: usize, turns: &mut Vec<StoredTurn>) {
        if mains < 2 {
            return;
        }
        let mut seen = HashSet::new();
        turns.retain(|turn| turn.agent.is_some() || turn.is_superseded || seen.insert(turn.turn.id));
        if let Self::Newest(count) = self {
            turns.sort_by_key(|turn| Reverse(turn.turn.started_ms));
            turns.truncate(count);
        }
    }
}

/// The first `limit` turns, each once: several sessions may have it.
pub fn first_of_each(mut turns: Vec<StoredTurn>, limit: usize) -> Vec<StoredTurn> {
    let mut seen = HashSet::new();
    turns.retain(|turn| seen.insert(turn.turn.id));
    turns.truncate(limit);
    turns
}

/// The first and the last turn id that starts with these hexadecimal digits; `None` if they are no such digits.
pub fn turn_id_range(prefix: &str) -> Option<([u8; 16], [u8; 16])> {
    const DIGITS: usize = 32;
    let padded = |digit: &str| {
        let digits = prefix.to_owned() + &digit.repeat(DIGITS.saturating_sub(prefix.len()));
        u128::from_str_radix(&digits, 16).ok().map(u128::to_be_bytes)
    };
    Some((padded("0")?, padded("f")?))
}

/// Totals of the archive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArchiveTotals {
    /// Sessions.
    pub sessions: u64,
    /// Transcripts, sub-agents' included; files beside them are none.
    pub transcripts: u64,
    /// Turns of current conversations.
    pub turns: u64,
    /// Entries: turns of different content, and summaries.
    pub entries: u64,
    /// Those of them that left the hot set.
    pub pruned: u64,
    /// Bytes of all transcripts.
    pub bytes_raw: u64,
    /// Bytes of these when compressed.
    pub bytes_segments: u64,
    /// Bytes that the store takes on disk.
    pub bytes_stored: u64,
    /// Lines that could not be read.
    pub bad_lines: u64,
    /// Compactions that were noticed.
    pub compactions: u64,
}

/// Size of a tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TierSize {
    /// The tier.
    pub tier: Tier,
    /// Sessions that are entirely in it; a session with anything hot counts as hot.
    pub sessions: u64,
    /// Pieces of transcripts.
    pub segments: u64,
    /// Bytes of these.
    pub bytes_raw: u64,
    /// Bytes that they take on disk; of cold files the full size, including data that is also needed in the database.
    pub bytes_stored: u64,
}

/// A file that a session was moved to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColdFile {
    /// The session, as this store counts them.
    pub session: i64,
    /// The folder of the file.
    pub folder: String,
    /// Its name there.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// Time when it was written, in milliseconds since 1970.
    pub moved_ms: i64,
}

impl ColdFile {
    /// The file.
    pub fn path(&self) -> PathBuf {
        Path::new(&self.folder).join(&self.name)
    }
}

/// A folder that sessions were moved to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColdFolder {
    /// The folder.
    pub folder: String,
    /// Files.
    pub files: u64,
    /// Bytes of these.
    pub bytes: u64,
}

/// Data of a session that is retained when the session is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetainOnRemove {
    /// Nothing.
    Nothing,
    /// Its audience, since it will be sent again.
    Audience,
}

/// Report on a removed session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemovalReport {
    /// Removed turns, including those that a rewritten transcript no longer had.
    pub turns: u64,
    /// Other sessions that contain some of them, and so still have them.
    pub also_in: Vec<String>,
    /// `true` if its audience was lost in spite of [`RetainOnRemove::Audience`]: this user is no longer a member of its project,
    /// or the project's name is a secret.
    pub is_hidden: bool,
}
