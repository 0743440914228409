/*!
What an archive has to be able to do, whatever it is kept in.

A store takes [`Batch`]es: what one pass over a transcript found, whole or not at all. It says no when the transcript is no longer
where the batch thinks it is, so that any number of processes may look at the same file at once and the work of one of them counts.
*/

mod error;
mod imported;
pub mod jsonl;
mod learnings;
pub mod postgres;
pub mod sqlite;
mod vectors;

pub use error::StoreError;
pub use imported::{Adopted, ImportedEmbedding};
pub use learnings::{StoredFix, StoredLearning, Wanted};
pub use vectors::Vectors;

use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::cycle::{Facts, Outcome, Plan, Run};
use super::search::filter::Filter;
use super::tier::Tier;
use crate::config::StoreKind;
use crate::digest;
use crate::learn::{Lesson, Progress, Tally};
use crate::transcript::{CompactSummary, FirstContext, Interpreter, Turn};

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
    /// SHA-256 of what precedes, as much of it as [`super::reader::CHECKED_BYTES`] says.
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

/// The range of a whole transcript.
pub const EVERYTHING: (u64, u64) = (0, u64::MAX);

/// A server that has words and vectors of what it keeps. Of what it has, only that counts which the asker may read.
pub trait Searching {
    /// Whether it has vectors.
    ///
    /// # Errors
    /// As every function here: when it does not answer.
    fn has_vectors(&mut self) -> Result<bool, StoreError>;

    /// The best entries with what an expression of the index asks for, with their scores, from 0 to 2.
    fn words(&mut self, expression: &str, filter: &Filter, most: usize) -> Result<Vec<(i64, f32)>, StoreError>;

    /// The entries nearest to a vector of a model, with the cosine.
    fn near(&mut self, model: &str, vector: &[f32], filter: &Filter, most: usize) -> Result<Vec<(i64, f32)>, StoreError>;
}

/// An archive. It may be handed to another thread, and is used by one at a time.
pub trait Store: Send {
    /// What it is kept in.
    fn kind(&self) -> StoreKind;

    /// Where that is: a path, or the address of a server, without a password.
    fn place(&self) -> String;

    /// The store as one that searches by itself; a file does not.
    fn searching(&mut self) -> Option<&mut dyn Searching> {
        None
    }

    /// How far a transcript is archived; nothing when it is new.
    ///
    /// # Errors
    /// As every function here: when the store cannot be read or written.
    fn cursor(&mut self, path: &str) -> Result<Option<Cursor>, StoreError>;

    /// Start and bytes of the last segment, if it has fewer than `below` bytes and so is to be joined with what follows.
    fn tail(&mut self, path: &str, below: u32) -> Result<Option<(u64, Vec<u8>)>, StoreError>;

    /// Start, length and SHA-256 of each segment of the current generation.
    fn layout(&mut self, path: &str) -> Result<Vec<(u64, u32, digest::Bytes)>, StoreError>;

    /// The last turn that starts at or before a byte of the current generation: its start and index.
    fn turn_at(&mut self, path: &str, byte: u64) -> Result<Option<(u64, u32)>, StoreError>;

    /// Adds a batch, whole or not at all.
    fn append(&mut self, batch: &Batch) -> Result<Appended, StoreError>;

    /// Writes bytes of a transcript; of [`EVERYTHING`], each segment checked against its SHA-256. `generation` counts from 0, `range`
    /// in bytes.
    fn raw(&mut self, transcript: i64, generation: u32, range: (u64, u64), sink: &mut dyn Write) -> Result<(), StoreError>;

    /// What it holds.
    fn totals(&mut self) -> Result<Totals, StoreError>;

    /// A session by its whole id.
    fn session(&mut self, session: &str) -> Result<Option<Session>, StoreError>;

    /// What there is of a session.
    fn size(&mut self, session: i64) -> Result<Size, StoreError>;

    /// Sessions, the newest first; only those whose id starts with `prefix`, only in this folder, at most `limit`.
    fn sessions(&mut self, prefix: &str, folder: Option<&str>, limit: usize) -> Result<Vec<Session>, StoreError>;

    /// The files of a session, its own first.
    fn transcripts(&mut self, session: i64) -> Result<Vec<StoredTranscript>, StoreError>;

    /// Turns of a session.
    fn turns(&mut self, session: i64, which: Turns) -> Result<Vec<StoredTurn>, StoreError>;

    /// Where the turns of a session's transcripts begin, and their ids: those of its own files, or of its agents'.
    fn starts(&mut self, session: i64, of_agents: bool) -> Result<Vec<Start>, StoreError> {
        let turns = self.turns(session, if of_agents { Turns::Agents } else { Turns::All })?;
        Ok(turns.iter().map(|turn| Start { transcript: turn.transcript, at: turn.turn.start, id: turn.turn.id }).collect())
    }

    /// Turns whose id begins with these bytes and half bytes (hexadecimal), the newest first.
    fn turns_by_id(&mut self, prefix: &str) -> Result<Vec<StoredTurn>, StoreError>;

    /// Where turns of these entries are, and what ranks them; an entry may be in several places, or in none.
    fn places(&mut self, entries: &[i64]) -> Result<Vec<Place>, StoreError>;

    /// The turn of a conversation, as it is now, at a place.
    fn turn(&mut self, transcript: i64, index: u32) -> Result<Option<StoredTurn>, StoreError>;

    /// A turn by its place, also one that a rewritten transcript no longer has.
    fn turn_of(&mut self, place: &Place) -> Result<Option<StoredTurn>, StoreError>;

    /// The summary that an entry is, and its session.
    fn summary_of(&mut self, entry: i64) -> Result<Option<(String, StoredSummary)>, StoreError>;

    /// Summaries of a session's compactions, the newest first.
    fn summaries(&mut self, session: i64) -> Result<Vec<StoredSummary>, StoreError>;

    /// Compactions of a session, or of all, not before `since_ms`, in order of time.
    fn compactions(&mut self, session: Option<i64>, since_ms: i64) -> Result<Vec<StoredCompaction>, StoreError>;

    /// Compactions whose snapshot has these words, in the index's language, the best first; only of folders with this in their path.
    fn compactions_with(&mut self, words: &str, project: Option<&str>, limit: usize)
    -> Result<Vec<StoredCompaction>, StoreError>;

    /// Takes note of where compactions were that are known by their summaries already, and of how large the context was afterwards.
    fn place_compactions(
        &mut self,
        transcript: i64,
        summaries: &[CompactSummary],
        contexts: &[FirstContext],
    ) -> Result<(), StoreError>;

    /// Keeps what was said up to a compaction.
    fn keep_snapshot(&mut self, compaction: i64, snapshot: &Snapshot) -> Result<(), StoreError>;

    /// Keeps turns of this id, or keeps them no longer. What is kept is hot and stays so.
    fn keep(&mut self, turn: &[u8; 16], is_kept: bool, now_ms: i64) -> Result<(), StoreError>;

    /// Turns that the user asked to keep, the newest first, at most `limit`.
    fn kept(&mut self, limit: usize) -> Result<Vec<StoredTurn>, StoreError>;

    /// Begin (milliseconds since 1970) and size of the context (tokens) of each turn of a session's conversation as it is now, in order
    /// of time; turns of which the client did not tell it are left out.
    fn contexts(&mut self, session: i64) -> Result<Vec<(i64, u64)>, StoreError>;

    /// The entry of the first turn of a session's conversation.
    fn first_entry(&mut self, session: i64) -> Result<Option<i64>, StoreError>;

    /// The session in a folder of transcripts that was cleared last, if that was not before `since_ms`; never `but`.
    fn session_cleared(&mut self, transcripts_in: &str, but: &str, since_ms: i64) -> Result<Option<Session>, StoreError>;

    /// Takes note that entries were restored or recalled; pruned ones are hot again.
    fn touch(&mut self, entries: &[i64], now_ms: i64) -> Result<(), StoreError>;

    /// Takes over what another archive knows of entries. What is known here is never lowered, but of entries that came with it. Says how
    /// many were changed by that.
    fn adopt(&mut self, adopted: &[Adopted]) -> Result<usize, StoreError>;

    /// Keeps vectors that came with another archive, one for each id there; says how many are new or others now. A store that has no
    /// place for vectors keeps none.
    fn keep_embeddings(&mut self, _embeddings: &[ImportedEmbedding]) -> Result<usize, StoreError> {
        Ok(0)
    }

    /// The vectors that are kept like that, at most so many, in the order of keys, those behind a key; 0 is before all of them.
    fn imported_embeddings(&mut self, _after: i64, _limit: usize) -> Result<Vec<(i64, ImportedEmbedding)>, StoreError> {
        Ok(Vec::new())
    }

    /// Its place for vectors, where it has one of its own.
    fn vectors(&mut self) -> Option<&mut dyn Vectors> {
        None
    }

    /// Takes note of a compaction that is about to happen, or was blocked; once, however often it is told.
    fn announce(&mut self, session: &str, compaction: &Compaction) -> Result<(), StoreError>;

    /// Keeps the summary that the client made of a session.
    fn add_summary(&mut self, session: &str, text: &str, now_ms: i64) -> Result<(), StoreError>;

    /// Takes note of the project that a session is of, where nothing is known of it: who may read the session may depend on that. Says whether it
    /// stays private, because this user is no member of the project that it should be shown to. Nothing is done where there is one user.
    fn place_in_project(&mut self, _session: &str, _project: &str) -> Result<bool, StoreError> {
        Ok(false)
    }

    /// The project that a session is shown to, where this user is no member of it any more: nothing can be added to the session. None where there
    /// is one user.
    fn left_project(&mut self, _session: &str) -> Result<Option<String>, StoreError> {
        Ok(None)
    }

    /// Takes note that the client ended a session.
    fn end_session(&mut self, session: &str, reason: &str, now_ms: i64) -> Result<(), StoreError>;

    /// After much was written: puts it where it belongs, so that nobody pays for that later.
    fn settle(&mut self) -> Result<(), StoreError>;

    /// Decay and pruning, as planned from what is known of the store, in one transaction. A dry run writes nothing, waits for no
    /// writer, and says what a real one would do.
    fn cycle(&mut self, run: Run, plan: &dyn Fn(&Facts) -> Plan) -> Result<Outcome, StoreError>;

    /// Which entries came, changed or went since a mark that was given out before. What ranks them (restores, confidence, pruning) is
    /// no change.
    fn changes(&mut self, since: Option<&str>) -> Result<Changes, StoreError>;

    /// How far a transcript was looked through for learnings; nothing when it never was.
    fn progress(&mut self, transcript: i64) -> Result<Option<Progress>, StoreError>;

    /// Keeps what a piece of a transcript taught, and how far that was; says how many learnings are new.
    fn learn(&mut self, transcript: i64, lesson: &Lesson, progress: &Progress) -> Result<usize, StoreError>;

    /// Learnings.
    fn learnings(&mut self, wanted: &Wanted) -> Result<Vec<StoredLearning>, StoreError>;

    /// What the tools of a session did: of its own transcript first, then of each sub-agent's.
    fn tallies(&mut self, session: i64) -> Result<Vec<(Option<String>, Tally)>, StoreError>;

    /// Calls that failed and pass again, the newest first; only of folders with this in their path, at most so many.
    fn fixes(&mut self, project: Option<&str>, limit: usize) -> Result<Vec<StoredFix>, StoreError>;

    /// The files that turns changed, the newest first; only of folders with this in their path, of at most so many turns.
    fn changed_files(&mut self, project: Option<&str>, limit: usize) -> Result<Vec<Vec<String>>, StoreError>;

    /// How many learnings there are of each kind, the most first; those that were taken back do not count.
    fn learnings_by_kind(&mut self) -> Result<Vec<(String, u64)>, StoreError>;

    /// How much is in each tier; nothing where there are none.
    fn tiers(&mut self) -> Result<Vec<TierSize>, StoreError> {
        Ok(Vec::new())
    }

    /// The tier of a session.
    fn tier(&mut self, _session: i64) -> Result<Tier, StoreError> {
        Ok(Tier::Hot)
    }

    /// Folders that sessions were moved to.
    fn cold_folders(&mut self) -> Result<Vec<ColdFolder>, StoreError> {
        Ok(Vec::new())
    }

    /// Tidies up the store itself, after a cycle.
    fn optimise(&mut self) -> Result<(), StoreError>;
}
