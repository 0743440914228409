/*!
Changes of an archive, each a line of the journal.

No change names a key of the store, since another version or another store may number its rows differently. Entries are named by the
hash of their content, transcripts by their paths, turns by their ids.
*/

use serde::{Deserialize, Serialize};

use crate::learn::{LearningBatch, LearningCursor};
use crate::maintenance::{MaintenanceMode, MaintenancePlan};
use crate::store::sqlite::SqliteStore;
use crate::store::{
    AppendOutcome, Batch, Compaction, CompactionWriter, Cursor, FolderFacts, FolderStore, ImportedUsage, LearningWriter,
    MaintenanceStore, PinWriter, Segment, SessionMove, SharedPrefix, Snapshot, StoreError, Transcript, TranscriptAppender,
    UsageWriter,
};
use ctxbridge_common::digest;
use ctxbridge_transcript::{CompactSummary, FirstContext, PathChange, Turn};

use super::journal::Extent;

/// A change.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum JournalChange {
    /// A pass over a transcript added segments and turns.
    Append(Box<Append>),
    /// A compaction is about to happen, or was blocked.
    Announce { session: String, compaction: Compaction },
    /// The summary that the client made of a session.
    Summary { session: String, text: String, at_ms: i64 },
    /// The client ended a session.
    End { session: String, reason: String, at_ms: i64 },
    /// Entries were restored or recalled, each as often as it is named.
    Touch { entries: Vec<Hash>, at_ms: i64 },
    /// The usage of entries in another archive was merged; entries are named by their hashes.
    Adopt { adopted: Vec<(Hash, ImportedUsage)> },
    /// A maintenance run.
    Cycle { plan: MaintenancePlan },
    /// A turn was pinned or unpinned.
    Keep {
        #[serde(with = "digest::hexadecimal")]
        turn: [u8; 16],
        is_kept: bool,
        at_ms: i64,
    },
    /// Positions of compactions.
    Place { path: String, summaries: Vec<CompactSummary>, contexts: Vec<FirstContext> },
    /// A snapshot of a compaction, which is named by session, time, turns before it, and its number among those that share all
    /// three.
    Snapshot { compaction: (String, i64, u32, u32), snapshot: Snapshot },
    /// Learnings from a piece of a transcript.
    Learn { path: String, batch: LearningBatch, progress: Box<LearningCursor> },
    /// Facts about a folder.
    Folder { facts: FolderFacts },
    /// The projects of sessions were moved.
    Move { moves: Vec<SessionMove> },
}

/// The hash that names an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Hash(#[serde(with = "digest::hexadecimal")] pub digest::Sha256Digest);

/// A batch, whose bytes are in the file of the transcript.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Append {
    pub transcript: Transcript,
    pub follows: Option<(u32, u64)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rewritten: Option<SharedPrefix>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub segments: Vec<SegmentRef>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub turns: Vec<Turn>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub summaries: Vec<CompactSummary>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub first_contexts: Vec<FirstContext>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub path_changes: Vec<PathChange>,
    pub cursor: Cursor,
    /// Extent of the entries file afterwards.
    pub entries: Extent,
    /// Bytes of the transcript's file afterwards.
    pub raw: u64,
}

/// A segment, without its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SegmentRef {
    pub start: u64,
    pub bytes: u32,
    #[serde(with = "digest::hexadecimal")]
    pub sha256: digest::Sha256Digest,
}

impl Append {
    pub fn of(batch: &Batch) -> Self {
        let piece = |segment: &Segment| SegmentRef { start: segment.start, bytes: segment.bytes, sha256: segment.sha256 };
        Self {
            transcript: batch.transcript.clone(),
            follows: batch.expected_cursor,
            rewritten: batch.rewritten,
            segments: batch.segments.iter().map(piece).collect(),
            turns: batch.turns.clone(),
            summaries: batch.summaries.clone(),
            first_contexts: batch.first_contexts.clone(),
            path_changes: batch.path_changes.clone(),
            cursor: batch.cursor.clone(),
            entries: Extent::default(),
            raw: 0,
        }
    }

    /// Returns a batch without bytes.
    fn into_batch(self) -> Batch {
        let segment = |SegmentRef { start, bytes, sha256 }| Segment { start, bytes, sha256, data: Vec::new() };
        Batch {
            transcript: self.transcript,
            expected_cursor: self.follows,
            rewritten: self.rewritten,
            segments: self.segments.into_iter().map(segment).collect(),
            turns: self.turns,
            summaries: self.summaries,
            first_contexts: self.first_contexts,
            path_changes: self.path_changes,
            cursor: self.cursor,
        }
    }
}

/// Outcome of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChangeOutcome {
    /// It was applied.
    Applied,
    /// It was not applied: the transcript's cursor is elsewhere by now.
    Conflict,
    /// It was applied, and added this number of learnings.
    LearningsAdded(usize),
}

impl JournalChange {
    /// `true` if it may add, remove or change entries.
    pub fn is_of_entries(&self) -> bool {
        matches!(self, Self::Append(_) | Self::Summary { .. } | Self::Place { .. })
    }

    /// Estimated work to replay it, in turns.
    pub fn steps(&self) -> u64 {
        match self {
            Self::Append(append) => 1 + append.turns.len() as u64,
            Self::Move { moves } => 1 + moves.len() as u64,
            _ => 1,
        }
    }

    /// Applies it. Rows that it names but that no longer exist are skipped.
    pub fn apply(self, to: &mut SqliteStore) -> Result<ChangeOutcome, StoreError> {
        match self {
            Self::Append(append) => {
                return Ok(match to.append(&append.into_batch())? {
                    AppendOutcome::Committed => ChangeOutcome::Applied,
                    AppendOutcome::Conflict => ChangeOutcome::Conflict,
                });
            }
            Self::Announce { session, compaction } => to.record_compaction(&session, &compaction)?,
            Self::Summary { session, text, at_ms } => to.add_summary(&session, &text, at_ms)?,
            Self::End { session, reason, at_ms } => to.end_session(&session, &reason, at_ms)?,
            Self::Touch { entries, at_ms } => {
                let hashes: Vec<digest::Sha256Digest> = entries.into_iter().map(|hash| hash.0).collect();
                let entries = to.entries(&hashes)?;
                to.touch(&entries, at_ms)?;
            }
            Self::Adopt { adopted } => {
                let mut known = Vec::new();
                for (hash, one) in adopted {
                    known.extend(to.entries(&[hash.0])?.first().map(|&entry| ImportedUsage { entry, ..one }));
                }
                to.merge_usage(&known).map(drop)?;
            }
            Self::Cycle { plan } => to.run_maintenance(MaintenanceMode::Apply, &|_| plan).map(drop)?,
            Self::Keep { turn, is_kept, at_ms } => to.set_pinned(&turn, is_kept, at_ms)?,
            Self::Place { path, summaries, contexts } => {
                if let Some(transcript) = to.transcript_at(&path)? {
                    to.locate_compactions(transcript, &summaries, &contexts)?;
                }
            }
            Self::Snapshot { compaction, snapshot } => {
                if let Some(compaction) = to.compaction(&compaction)? {
                    to.save_snapshot(compaction, &snapshot)?;
                }
            }
            Self::Folder { facts } => to.note_folder(&facts)?,
            Self::Move { moves } => to.move_sessions(&moves)?,
            Self::Learn { path, batch, progress } => {
                if let Some(transcript) = to.transcript_at(&path)? {
                    return to.add_learnings(transcript, &batch, &progress).map(ChangeOutcome::LearningsAdded);
                }
            }
        }
        Ok(ChangeOutcome::Applied)
    }
}
