//! What an archive takes, and what it says.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::tier::Tier;
use ctxbridge_common::digest;
use ctxbridge_transcript::{CompactSummary, FirstContext, Interpreter, Turn};

/// What a transcript is of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transcript {
    /// Where it lies, as text: the key.
    pub path: String,
    /// The session.
    pub session: String,
    /// The sub-agent, when it is one's.
    pub agent: Option<String>,
}

/// How far a transcript is archived.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Cursor {
    /// How often it has been rewritten.
    pub generation: u32,
    /// Bytes that are archived.
    pub bytes: u64,
    /// SHA-256 of what precedes, as much of it as [`crate::reader::CHECKED_BYTES`] says.
    #[serde(with = "digest::hexadecimal")]
    pub check: digest::Bytes,
    /// How far its lines are interpreted.
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
    pub sha256: digest::Bytes,
    /// A zstd frame.
    pub data: Vec<u8>,
}

/// What is added to the archive of one transcript at once.
#[derive(Clone, Debug)]
pub struct Batch {
    /// Of which.
    pub transcript: Transcript,
    /// Generation and bytes of the cursor that it follows; nothing for a transcript that is new.
    pub follows: Option<(u32, u64)>,
    /// How the transcript was rewritten, when a new generation begins.
    pub rewritten: Option<Rewritten>,
    /// New pieces, one behind the other; what is stored at or behind the first one's start is replaced.
    pub segments: Vec<Segment>,
    /// Turns that are new or have grown.
    pub turns: Vec<Turn>,
    /// Summaries of compactions that were met.
    pub summaries: Vec<CompactSummary>,
    /// Sizes of the context right after compactions, these or earlier ones.
    pub first_contexts: Vec<FirstContext>,
    /// The cursor afterwards.
    pub cursor: Cursor,
}

/// What a new generation of a transcript has in common with the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rewritten {
    /// Bytes at the start, up to the begin of a segment.
    pub shared: u64,
    /// Turns at the start that are read no more; from there on, what is stored is of the old generation.
    pub turns: u32,
}

/// What became of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Appended {
    /// It is in the archive.
    Done,
    /// Another process was first: look at the cursor again.
    Moved,
}

/// A session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// Its id in this store.
    pub key: i64,
    /// The client's id.
    pub session: String,
    /// The folder that the client worked in.
    pub folder: Option<String>,
    /// Begin of the first turn, in milliseconds since 1970.
    pub first_ms: Option<i64>,
    /// End of the last turn.
    pub last_ms: Option<i64>,
    /// The model that answered last.
    pub model: Option<String>,
    /// The client's version.
    pub version: Option<String>,
    /// Size of the context at the last answer, in tokens.
    pub context_tokens: Option<u64>,
    /// Size of the model's window, where the client noted it down.
    pub window: Option<u64>,
    /// Why the client ended it, when it told.
    pub end_reason: Option<String>,
    /// Whose it is, where that is somebody else.
    pub owner: Option<String>,
}

/// What there is of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// Turns of the conversation as it is now.
    pub turns: u64,
    /// Bytes of its transcripts, sub-agents' included.
    pub bytes: u64,
    /// Sub-agents' transcripts.
    pub agents: u64,
    /// Lines that could not be read.
    pub bad_lines: u64,
    /// How often its transcripts were rewritten.
    pub rewritten: u64,
}

/// A turn in the archive.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredTurn {
    /// What its content is kept under; turns of the same content have the same.
    pub entry: i64,
    /// Which transcript, and which generation of it, its bytes are in.
    pub transcript: i64,
    /// Of these generations.
    pub generation: u32,
    /// The session.
    pub session: String,
    /// Who archived it, where that is somebody else.
    pub owner: Option<String>,
    /// The sub-agent, when it is one's work.
    pub agent: Option<String>,
    /// How often an entry of this content was restored.
    pub access_count: u32,
    /// From 0.1 to 1.
    pub confidence: f64,
    /// Whether it left the hot set: it is not ranked, and need not be indexed.
    pub is_pruned: bool,
    /// Whether a rewritten transcript no longer has it.
    pub is_superseded: bool,
    /// Whether the user asked to keep it.
    pub is_kept: bool,
    /// Everything else.
    pub turn: Turn,
}

/// A file of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredTranscript {
    /// Its id in this store.
    pub key: i64,
    /// Where it lies, or lay.
    pub path: String,
    /// The sub-agent, when it is one's.
    pub agent: Option<String>,
    /// How often it has been rewritten.
    pub generation: u32,
    /// Bytes of its current generation.
    pub bytes: u64,
}

/// Where a turn is, and what it is ranked by.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    /// What its content is kept under.
    pub entry: i64,
    /// Of this store; the turn's, not the entry's.
    pub key: i64,
    /// The transcript.
    pub transcript: i64,
    /// Its place in there, from 0.
    pub index: u32,
    /// The session, as this store counts them.
    pub session: i64,
    /// The folder that the client worked in.
    pub folder: Option<String>,
    /// When it began, in milliseconds since 1970.
    pub started_ms: i64,
    /// How often its content was restored.
    pub access_count: u32,
    /// From 0.1 to 1.
    pub confidence: f64,
    /// Whether tools were used, and whether files were.
    pub richness: (bool, bool),
    /// Whether a rewritten transcript no longer has it.
    pub is_superseded: bool,
}

impl Place {
    /// Of several places of the same content, the one with most is shown: that of a conversation as it is now, then the newest.
    pub fn rank(&self) -> impl Ord + use<> {
        (!self.is_superseded, self.started_ms, self.key)
    }
}

/// The summary of a compaction.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredSummary {
    /// What it is kept under.
    pub entry: i64,
    /// What it says.
    pub text: String,
    /// When, in milliseconds since 1970.
    pub at_ms: i64,
    /// Turns of the session before it.
    pub turns: u32,
    /// Who archived it, where that is somebody else.
    pub owner: Option<String>,
}

/// A compaction that is about to happen, or was blocked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compaction {
    /// When, in milliseconds since 1970.
    pub at_ms: i64,
    /// `auto` or `manual`.
    pub cause: Option<String>,
    /// Size of the context, in tokens.
    pub context_tokens: Option<u64>,
    /// Whether the gate blocked it.
    pub is_blocked: bool,
    /// Turns of the session before it, where that is known; else all that are archived by then.
    pub turns: Option<u32>,
}

/// A compaction that was announced, blocked, or has happened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredCompaction {
    /// Its id in this store.
    pub key: i64,
    /// The session.
    pub session: String,
    /// When, in milliseconds since 1970.
    pub at_ms: i64,
    /// `auto` or `manual`, where the client told.
    pub cause: Option<String>,
    /// Turns of the session before it.
    pub turns: u32,
    /// Size of the context before it, in tokens.
    pub context_tokens: Option<u64>,
    /// Size of the context after it.
    pub context_after: Option<u64>,
    /// How long it took, in milliseconds.
    pub took_ms: Option<u64>,
    /// Learnings that were said since the one before.
    pub learnings: u64,
    /// Whether the gate blocked it.
    pub is_blocked: bool,
    /// Whether the client made its summary, and so went through with it.
    pub is_done: bool,
    /// The entry of the summary.
    pub summary: Option<i64>,
    /// The transcript and the byte in it where it was; nothing where only a hook told, or a rewritten transcript no longer has it.
    pub place: Option<(i64, u64)>,
    /// What was said up to it.
    pub snapshot: Option<Snapshot>,
}

/// What a compaction put a summary in the place of: everything since the one before.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Messages: prompts, answers, and what tools returned.
    pub messages: u64,
    /// The begin of the first one that says something.
    pub first: String,
    /// The begin of the last one that says something.
    pub last: String,
    /// What it was about, the most telling first.
    pub topics: Vec<String>,
}

/// What has changed in a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changes {
    /// The state that this is of, to ask again with. Each state of each store has another.
    pub mark: String,
    /// Entries that may be new, changed or gone; none where that is not known, and anything may have changed.
    pub entries: Option<Vec<i64>>,
}

/// Where a turn begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// The transcript.
    pub transcript: i64,
    /// The byte in there.
    pub at: u64,
    /// The turn's id.
    pub id: [u8; 16],
}

/// Which turns of a session to list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turns {
    /// All of the conversation as it is now, in order.
    All,
    /// The newest of them, newest first.
    Newest(usize),
    /// Those that can be among the most important, in no order: of each richness the newest, and all that were restored before.
    /// Never one that was pruned. Importance falls with age, so no other can be among the first this many.
    Candidates(usize),
    /// Those that a rewritten transcript no longer has.
    Superseded,
    /// Sub-agents' work.
    Agents,
    /// Those that the user asked to keep, newest first.
    Kept,
}

/// What the archive holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Sessions.
    pub sessions: u64,
    /// Transcripts, sub-agents' included.
    pub transcripts: u64,
    /// Turns of conversations as they are now.
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

/// How much is in a tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TierSize {
    /// Which one.
    pub tier: Tier,
    /// Sessions that are in it with all they have, but that one is hot with anything that is.
    pub sessions: u64,
    /// Pieces of transcripts.
    pub segments: u64,
    /// Bytes of these.
    pub bytes_raw: u64,
    /// What they take: of cold files all of it, with what is also needed in the database.
    pub bytes_stored: u64,
}

/// A file that a session was moved to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColdFile {
    /// The session, as this store counts them.
    pub session: i64,
    /// Where the file is.
    pub folder: String,
    /// Its name there.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// When it was written, in milliseconds since 1970.
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

/// What stays of a session that is taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// Nothing.
    Nothing,
    /// Who may read it, since it is sent again.
    Audience,
}

/// What was taken back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TakenBack {
    /// Turns, those that a rewritten transcript no longer had among them.
    pub turns: u64,
    /// Other sessions in which some of them are said as well, and so still are.
    pub also_in: Vec<String>,
    /// Whether those who could read it cannot any more, though [`Rest::Audience`] was to stay: this user is no member of its project now, or what that
    /// is called is a secret.
    pub is_hidden: bool,
}
