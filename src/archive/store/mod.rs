/*!
What an archive has to be able to do, whatever it is kept in.

A store takes [`Batch`]es: what one pass over a transcript found, whole or not at all. It says no when the transcript is no longer
where the batch thinks it is, so that any number of processes may look at the same file at once and the work of one of them counts.
*/

mod error;
mod imported;
pub mod jsonl;
mod learnings;
mod records;
pub mod sqlite;
mod vectors;

pub use error::{ServerFailure, StoreError};
pub use imported::{Adopted, ImportedEmbedding};
pub use learnings::{StoredFix, StoredLearning, Wanted};
pub use records::{
    Appended, Batch, Changes, ColdFile, ColdFolder, Compaction, Cursor, Place, Rest, Rewritten, Segment, Session, Size, Snapshot,
    Start, StoredCompaction, StoredSummary, StoredTranscript, StoredTurn, TakenBack, TierSize, Totals, Transcript, Turns,
};
pub use vectors::Vectors;

use std::io::Write;

use super::cycle::{Facts, Outcome, Plan, Run};
use super::search::filter::Filter;
use super::tier::Tier;
use crate::learn::{Lesson, Progress, Tally};
use ctxbridge_common::digest;
use ctxbridge_config::StoreKind;
use ctxbridge_transcript::{CompactSummary, FirstContext};

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
