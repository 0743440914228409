/*!
Interface of an archive, independent of its storage.

A store takes [`Batch`]es: the result of one pass over a transcript, whole or not at all. It rejects a batch if the transcript's
cursor has moved since. So any number of processes may read the same file at once, and the work of one of them counts.

An entry is the content of a turn. A turn that several sessions have, because they were resumed or forked, is one entry. Restores
and confidence are recorded for the entry.

The interface is cut by what a caller needs: reading sessions, turns, bytes, compactions or learnings, adding to them, search,
maintenance. [`Store`] is all of it. Every function fails if the store cannot be read or written.
*/

mod error;
mod folders;
mod imported;
pub mod jsonl;
mod learnings;
mod records;
mod session_part;
pub mod sqlite;
mod vectors;

pub use error::{ServerFailure, StoreError};
pub use folders::{FolderFacts, FolderStore, SessionFolder, SessionMove};
pub use imported::{ImportedEmbedding, ImportedUsage};
pub use learnings::{LearningQuery, StoredFix, StoredLearning};
pub use records::{
    AppendOutcome, ArchiveTotals, Batch, Changes, ColdFile, ColdFolder, Compaction, Cursor, FullerGeneration, RemovalReport,
    RetainOnRemove, Segment, Session, SessionStats, SharedPrefix, Snapshot, StoredCompaction, StoredSummary, StoredTranscript,
    StoredTurn, TierSize, Transcript, TurnLocation, TurnOffset, TurnSelection, first_of_each, turn_id_range,
};
pub use session_part::SessionPart;
pub use vectors::VectorStore;

use std::io::Write;
use std::path::Path;

use super::forget::Blanks;
use super::maintenance::{ArchiveStats, MaintenanceMode, MaintenancePlan, MaintenanceReport};
use super::project_scope::ProjectScope;
use super::search::filter::Filter;
use super::tier::Tier;
use crate::learn::{LearningBatch, LearningCursor, ToolStats};
use ctxbridge_common::digest;
use ctxbridge_config::StoreKind;
use ctxbridge_transcript::blank::blank_private_lines;
use ctxbridge_transcript::{CompactSummary, FirstContext, TurnSpan};

/// The range of a whole transcript.
pub const EVERYTHING: (u64, u64) = (0, u64::MAX);

/// A server that indexes the words and vectors of its entries. It finds only entries that the caller may read.
pub trait SearchBackend {
    /// `true` if it has vectors.
    ///
    /// # Errors
    /// If the server does not answer.
    fn has_vectors(&mut self) -> Result<bool, StoreError>;

    /// Returns the best entries for an index expression, with their scores from 0 to 2.
    fn search_text(&mut self, expression: &str, filter: &Filter, limit: usize) -> Result<Vec<(i64, f32)>, StoreError>;

    /// Returns the entries nearest to a vector of a model, with the cosine similarity.
    fn search_vectors(
        &mut self,
        model: &str,
        vector: &[f32],
        filter: &Filter,
        limit: usize,
    ) -> Result<Vec<(i64, f32)>, StoreError>;
}

/// An archive. It can be sent to another thread, and is used by one at a time.
pub trait Store:
    StoreReader
    + TranscriptAppender
    + CompactionWriter
    + LearningWriter
    + PinWriter
    + UsageWriter
    + ProjectStore
    + FolderStore
    + MaintenanceStore
    + Send
{
}

/// Everything that can be read from an archive.
pub trait StoreReader:
    SessionReader + TurnReader + CursorReader + SegmentReader + CompactionReader + LearningReader + TierReader + SearchStore
{
    /// Kind of storage.
    fn kind(&self) -> StoreKind;

    /// Location: a path, or the address of a server without the password.
    fn location(&self) -> String;

    /// Returns what is not kept of transcripts that are archived here. A server gets what another archive has kept.
    fn blanks(&mut self) -> Result<Blanks, StoreError> {
        Ok(Blanks::none())
    }

    /// Returns the totals of the archive.
    fn totals(&mut self) -> Result<ArchiveTotals, StoreError>;
}

/// Sessions and their transcripts.
pub trait SessionReader {
    /// Returns a session by its full id.
    fn session(&mut self, session: &str) -> Result<Option<Session>, StoreError>;

    /// Sessions, the newest first; only those whose id starts with `prefix`, only of this project, at most `limit`.
    fn sessions(&mut self, prefix: &str, project: Option<&ProjectScope>, limit: usize) -> Result<Vec<Session>, StoreError>;

    /// Returns the folders that sessions worked in, the one of the newest session first.
    fn folders(&mut self) -> Result<Vec<SessionFolder>, StoreError>;

    /// Returns the sessions whose title has all of these lower-case words, the newest first.
    fn sessions_titled(&mut self, words: &[String], limit: usize) -> Result<Vec<i64>, StoreError>;

    /// Returns the statistics of a session.
    fn session_stats(&mut self, session: i64) -> Result<SessionStats, StoreError>;

    /// Returns the session in a folder of transcripts that was cleared last, if that was not before `since_ms`; never `except`.
    fn session_cleared(&mut self, transcripts_in: &str, except: &str, since_ms: i64) -> Result<Option<Session>, StoreError>;

    /// The files of a session, its own first.
    fn transcripts(&mut self, session: i64) -> Result<Vec<StoredTranscript>, StoreError>;

    /// Returns the start (milliseconds since 1970) and the context size (tokens) of each turn of the current conversation, in
    /// order of time. Turns without a recorded context size are left out.
    fn contexts(&mut self, session: i64) -> Result<Vec<(i64, u64)>, StoreError>;

    /// Returns the entry of the first turn of a session's conversation.
    fn first_entry(&mut self, session: i64) -> Result<Option<i64>, StoreError>;
}

/// Turns, by session, id or location.
pub trait TurnReader {
    /// Turns of a session.
    fn turns(&mut self, session: i64, which: TurnSelection) -> Result<Vec<StoredTurn>, StoreError>;

    /// Returns the start and the id of each turn of a session: of its own transcripts, those that were rewound included, or of its
    /// agents'.
    fn turn_offsets(&mut self, session: i64, of_agents: bool) -> Result<Vec<TurnOffset>, StoreError> {
        let mut turns = self.turns(session, if of_agents { TurnSelection::Agents } else { TurnSelection::All })?;
        if !of_agents {
            turns.extend(self.turns(session, TurnSelection::Superseded)?.into_iter().filter(|turn| turn.is_rewound));
        }
        Ok(turns.iter().map(|turn| TurnOffset { transcript: turn.transcript, at: turn.turn.start, id: turn.turn.id }).collect())
    }

    /// Returns the turns whose id starts with these hexadecimal digits, newest first.
    fn turns_by_id(&mut self, prefix: &str) -> Result<Vec<StoredTurn>, StoreError>;

    /// Returns the locations of the turns of these entries, and their ranking data. An entry may have several locations, or none.
    fn turn_locations(&mut self, entries: &[i64]) -> Result<Vec<TurnLocation>, StoreError>;

    /// Returns a turn of the current conversation by its index.
    fn turn(&mut self, transcript: i64, index: u32) -> Result<Option<StoredTurn>, StoreError>;

    /// Returns a turn by its location, even one that a rewritten transcript no longer has.
    fn turn_by_location(&mut self, location: &TurnLocation) -> Result<Option<StoredTurn>, StoreError>;

    /// Returns the turns that the user pinned, newest first, at most `limit`.
    fn pinned(&mut self, limit: usize) -> Result<Vec<StoredTurn>, StoreError>;

    /// Returns the turns whose content was restored most often, the most often used first, at most `limit`.
    fn most_used(&mut self, limit: usize) -> Result<Vec<StoredTurn>, StoreError>;
}

/// Progress of archiving a transcript.
pub trait CursorReader {
    /// Returns how far a transcript is archived, or `None` if it is new.
    fn cursor(&mut self, path: &str) -> Result<Option<Cursor>, StoreError>;

    /// Start, length and SHA-256 of each segment of the current generation.
    fn segment_index(&mut self, path: &str) -> Result<Vec<(u64, u32, digest::Sha256Digest)>, StoreError>;

    /// The last turn that starts at or before a byte of the current generation: its start and index.
    fn turn_at(&mut self, path: &str, byte: u64) -> Result<Option<(u64, u32)>, StoreError>;

    /// The turns of the current generation that end behind a byte, by their start; also those that were rewound.
    fn turns_behind(&mut self, path: &str, byte: u64) -> Result<Vec<TurnSpan>, StoreError>;
}

/// Bytes of transcripts.
pub trait SegmentReader {
    /// Returns start and bytes of the last segment, if it has fewer than `below` bytes and so must be joined with the bytes that
    /// follow.
    fn tail(&mut self, path: &str, below: u32) -> Result<Option<(u64, Vec<u8>)>, StoreError>;

    /// Writes bytes of a transcript; of [`EVERYTHING`], each segment checked against its SHA-256. `generation` counts from 0,
    /// `range` in bytes.
    fn read_bytes(&mut self, transcript: i64, generation: u32, range: (u64, u64), sink: &mut dyn Write)
    -> Result<(), StoreError>;

    /// Returns whole lines of a transcript, without what the user marked as private: for all who show or send them.
    fn read_shown(&mut self, transcript: i64, generation: u32, range: (u64, u64)) -> Result<Vec<u8>, StoreError> {
        let mut lines = Vec::new();
        self.read_bytes(transcript, generation, range, &mut lines)?;
        blank_private_lines(&mut lines);
        Ok(lines)
    }

    /// Returns a side file of the session that a transcript belongs to, by its path in the session's own folder.
    fn side_file(&mut self, transcript: i64, path: &str) -> Result<Option<StoredTranscript>, StoreError>;
}

/// Compactions and their summaries.
pub trait CompactionReader {
    /// Summaries of a session's compactions, the newest first.
    fn summaries(&mut self, session: i64) -> Result<Vec<StoredSummary>, StoreError>;

    /// Returns the summary of an entry, and its session.
    fn summary_of(&mut self, entry: i64) -> Result<Option<(String, StoredSummary)>, StoreError>;

    /// Compactions of a session, or of all, not before `since_ms`, in order of time.
    fn compactions(&mut self, session: Option<i64>, since_ms: i64) -> Result<Vec<StoredCompaction>, StoreError>;

    /// Returns compactions whose snapshot matches an index expression, best first; only of this project.
    fn search_compactions(
        &mut self,
        words: &str,
        project: Option<&ProjectScope>,
        limit: usize,
    ) -> Result<Vec<StoredCompaction>, StoreError>;
}

/// Learnings, and the facts that they were drawn from.
pub trait LearningReader {
    /// Returns the learnings that match a query.
    fn learnings(&mut self, query: &LearningQuery) -> Result<Vec<StoredLearning>, StoreError>;

    /// Returns how far a transcript was searched for learnings, or `None` if it never was.
    fn learning_cursor(&mut self, transcript: i64) -> Result<Option<LearningCursor>, StoreError>;

    /// Returns the tool statistics of a session: of its own transcript first, then of each sub-agent's.
    fn tool_stats(&mut self, session: i64) -> Result<Vec<(Option<String>, ToolStats)>, StoreError>;

    /// Returns at most `limit` calls that failed and later passed, newest first; only of this project.
    fn fixes(&mut self, project: Option<&ProjectScope>, limit: usize) -> Result<Vec<StoredFix>, StoreError>;

    /// Returns the files that turns changed, of at most `limit` turns, newest first; only of this project.
    fn changed_files(&mut self, project: Option<&ProjectScope>, limit: usize) -> Result<Vec<Vec<String>>, StoreError>;

    /// Returns the number of learnings of each kind, largest first; superseded ones do not count.
    fn learnings_by_kind(&mut self) -> Result<Vec<(String, u64)>, StoreError>;
}

/// Storage tiers. A store without tiers keeps every session hot.
pub trait TierReader {
    /// Returns the size of each tier; empty if the store has no tiers.
    fn tiers(&mut self) -> Result<Vec<TierSize>, StoreError> {
        Ok(Vec::new())
    }

    /// Returns the tier of a session.
    fn tier(&mut self, _session: i64) -> Result<Tier, StoreError> {
        Ok(Tier::Hot)
    }

    /// Returns the folders that sessions were moved to.
    fn cold_folders(&mut self) -> Result<Vec<ColdFolder>, StoreError> {
        Ok(Vec::new())
    }
}

/// Data that a search index is derived from, or the index of the store itself.
pub trait SearchStore {
    /// Returns the entries that were added, changed or removed since an earlier mark. Ranking data (restores, confidence,
    /// pruning) does not count as a change.
    fn changes(&mut self, since: Option<&str>) -> Result<Changes, StoreError>;

    /// Returns at most `limit` imported vectors with a key greater than `after`, in order of keys; 0 is before all of them.
    fn imported_embeddings(&mut self, _after: i64, _limit: usize) -> Result<Vec<(i64, ImportedEmbedding)>, StoreError> {
        Ok(Vec::new())
    }

    /// Returns the store's own search backend; a file has none.
    fn as_search_backend(&mut self) -> Option<&mut dyn SearchBackend> {
        None
    }

    /// Returns its vector store, if it has one of its own.
    fn as_vector_store(&mut self) -> Option<&mut dyn VectorStore> {
        None
    }
}

/// Appending to transcripts.
pub trait TranscriptAppender {
    /// Adds a batch, whole or not at all.
    fn append(&mut self, batch: &Batch) -> Result<AppendOutcome, StoreError>;

    /// Adds several batches, in this order; returns the outcome of each. A database takes all of them in one transaction.
    fn append_all(&mut self, batches: &[&Batch]) -> Result<Vec<AppendOutcome>, StoreError> {
        batches.iter().map(|batch| self.append(batch)).collect()
    }

    /// Puts damaged bytes of a transcript back from its file, where they are still those that were archived. Returns the number of
    /// segments; a store that is not on this machine checks its bytes itself.
    fn heal_from_file(&mut self, _transcript: &str, _file: &Path) -> Result<u64, StoreError> {
        Ok(0)
    }

    /// Notes that a file which turns of these entries point to came after them, so that their words are indexed again. A store
    /// without an index has nothing to note.
    fn reindex(&mut self, _entries: &[i64]) -> Result<(), StoreError> {
        Ok(())
    }

    /// Records that the client ended a session.
    fn end_session(&mut self, session: &str, reason: &str, now_ms: i64) -> Result<(), StoreError>;
}

/// Recording compactions, before or after the client has made them.
pub trait CompactionWriter {
    /// Records a compaction that is about to happen, or was blocked. Recording it again changes nothing.
    fn record_compaction(&mut self, session: &str, compaction: &Compaction) -> Result<(), StoreError>;

    /// Records the positions of compactions whose summaries are known already, and the context size after them.
    fn locate_compactions(
        &mut self,
        transcript: i64,
        summaries: &[CompactSummary],
        contexts: &[FirstContext],
    ) -> Result<(), StoreError>;

    /// Saves the summary that the client made of a session.
    fn add_summary(&mut self, session: &str, text: &str, now_ms: i64) -> Result<(), StoreError>;

    /// Saves a snapshot of the messages before a compaction.
    fn save_snapshot(&mut self, compaction: i64, snapshot: &Snapshot) -> Result<(), StoreError>;
}

/// Saving learnings.
pub trait LearningWriter {
    /// Adds the learnings from a piece of a transcript, and records how far it was searched. Returns the number of new learnings.
    fn add_learnings(&mut self, transcript: i64, batch: &LearningBatch, progress: &LearningCursor) -> Result<usize, StoreError>;
}

/// Pins of the user.
pub trait PinWriter {
    /// Pins or unpins the turns with this id. Pinned turns are hot and stay hot.
    fn set_pinned(&mut self, turn: &[u8; 16], is_kept: bool, now_ms: i64) -> Result<(), StoreError>;
}

/// Usage of entries: it ranks them, and decides which are pruned.
pub trait UsageWriter {
    /// Counts a restore or recall of entries; pruned ones become hot again.
    fn touch(&mut self, entries: &[i64], now_ms: i64) -> Result<(), StoreError>;

    /// Merges the usage of entries in another archive. Values here are never lowered, except those of entries that came with it.
    /// Returns the number of changed entries.
    fn merge_usage(&mut self, usage: &[ImportedUsage]) -> Result<usize, StoreError>;

    /// Saves vectors that came with another archive, one for each id there. Returns the number of new or changed ones. A store
    /// without vectors saves none.
    fn keep_embeddings(&mut self, _embeddings: &[ImportedEmbedding]) -> Result<usize, StoreError> {
        Ok(0)
    }
}

/// Projects that share sessions. A store with one user has none.
pub trait ProjectStore {
    /// Assigns a session to its project, unless it has one: the readers of the session may depend on that. Returns `true` if the
    /// session stays private because this user is not a member of the project. A store with one user does nothing.
    fn assign_project(&mut self, _session: &str, _project: &str) -> Result<bool, StoreError> {
        Ok(false)
    }

    /// Returns the project that a session is shown to, if this user is no longer a member: nothing can be added to the session
    /// then. Always `None` in a store with one user.
    fn revoked_project(&mut self, _session: &str) -> Result<Option<String>, StoreError> {
        Ok(None)
    }
}

/// Pruning, and tidying up the storage itself.
pub trait MaintenanceStore {
    /// Runs decay and pruning in one transaction, with a plan made from the statistics of the archive. A dry run writes nothing, waits for no
    /// writer, and returns the outcome of a real one.
    fn run_maintenance(
        &mut self,
        mode: MaintenanceMode,
        plan: &dyn Fn(&ArchiveStats) -> MaintenancePlan,
    ) -> Result<MaintenanceReport, StoreError>;

    /// Checkpoints after many writes, so that no later process has to pay for it.
    fn checkpoint(&mut self) -> Result<(), StoreError>;

    /// Tidies up the storage itself, after a maintenance run.
    fn optimize(&mut self) -> Result<(), StoreError>;
}
