/*!
What can happen to an archive: a line of the journal each.

Nothing is said by a key of the store that it happened to, since another version, or another store, may count otherwise: entries go by what they say,
transcripts by their paths, turns by their ids.
*/

use serde::{Deserialize, Serialize};

use crate::cycle::{Plan, Run};
use crate::learn::{Lesson, Progress};
use crate::store::sqlite::SqliteStore;
use crate::store::{Adopted, Appended, Batch, Compaction, Cursor, Rewritten, Segment, Snapshot, Store, StoreError, Transcript};
use ctxbridge_common::digest;
use ctxbridge_transcript::{CompactSummary, FirstContext, Turn};

use super::journal::Extent;

/// A change.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Change {
    /// What a pass over a transcript found.
    Append(Box<Append>),
    /// A compaction is about to happen, or was blocked.
    Announce { session: String, compaction: Compaction },
    /// The summary that the client made of a session.
    Summary { session: String, text: String, at_ms: i64 },
    /// The client ended a session.
    End { session: String, reason: String, at_ms: i64 },
    /// Entries were restored or recalled, each as often as it is named.
    Touch { entries: Vec<Hash>, at_ms: i64 },
    /// What another archive knows of entries was taken over; the entries go by their hashes.
    Adopt { adopted: Vec<(Hash, Adopted)> },
    /// An optimise cycle.
    Cycle { plan: Plan },
    /// A turn is kept, or kept no longer.
    Keep {
        #[serde(with = "digest::hexadecimal")]
        turn: [u8; 16],
        is_kept: bool,
        at_ms: i64,
    },
    /// Where compactions were.
    Place { path: String, summaries: Vec<CompactSummary>, contexts: Vec<FirstContext> },
    /// What was said up to a compaction: its session, time, turns before it, and which one of these it is.
    Snapshot { compaction: (String, i64, u32, u32), snapshot: Snapshot },
    /// What a piece of a transcript taught.
    Learn { path: String, lesson: Lesson, progress: Box<Progress> },
}

/// What an entry is known by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Hash(#[serde(with = "digest::hexadecimal")] pub digest::Bytes);

/// A batch, whose bytes are in the file of the transcript.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Append {
    pub transcript: Transcript,
    pub follows: Option<(u32, u64)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rewritten: Option<Rewritten>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub segments: Vec<Piece>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub turns: Vec<Turn>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub summaries: Vec<CompactSummary>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub first_contexts: Vec<FirstContext>,
    pub cursor: Cursor,
    /// How much there was of the entries afterwards.
    pub entries: Extent,
    /// Bytes of the transcript's file afterwards.
    pub raw: u64,
}

/// A segment, without its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Piece {
    pub start: u64,
    pub bytes: u32,
    #[serde(with = "digest::hexadecimal")]
    pub sha256: digest::Bytes,
}

impl Append {
    pub fn of(batch: &Batch) -> Self {
        let piece = |segment: &Segment| Piece { start: segment.start, bytes: segment.bytes, sha256: segment.sha256 };
        Self {
            transcript: batch.transcript.clone(),
            follows: batch.follows,
            rewritten: batch.rewritten,
            segments: batch.segments.iter().map(piece).collect(),
            turns: batch.turns.clone(),
            summaries: batch.summaries.clone(),
            first_contexts: batch.first_contexts.clone(),
            cursor: batch.cursor.clone(),
            entries: Extent::default(),
            raw: 0,
        }
    }

    /// A batch that has no bytes.
    fn into_batch(self) -> Batch {
        let segment = |Piece { start, bytes, sha256 }| Segment { start, bytes, sha256, data: Vec::new() };
        Batch {
            transcript: self.transcript,
            follows: self.follows,
            rewritten: self.rewritten,
            segments: self.segments.into_iter().map(segment).collect(),
            turns: self.turns,
            summaries: self.summaries,
            first_contexts: self.first_contexts,
            cursor: self.cursor,
        }
    }
}

/// What a change came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Came {
    /// It happened.
    Done,
    /// It did not: a transcript is elsewhere by now.
    Moved,
    /// It happened, and so many learnings were new.
    Learned(usize),
}

impl Change {
    /// Whether entries may come, go or say something else by it.
    pub fn is_of_entries(&self) -> bool {
        matches!(self, Self::Append(_) | Self::Summary { .. } | Self::Place { .. })
    }

    /// About how much there is to do, in turns.
    pub fn steps(&self) -> u64 {
        match self {
            Self::Append(append) => 1 + append.turns.len() as u64,
            _ => 1,
        }
    }

    /// Makes it happen. What it is about and is not there any more is passed over.
    pub fn apply(self, to: &mut SqliteStore) -> Result<Came, StoreError> {
        match self {
            Self::Append(append) => {
                return Ok(match to.append(&append.into_batch())? {
                    Appended::Done => Came::Done,
                    Appended::Moved => Came::Moved,
                });
            }
            Self::Announce { session, compaction } => to.announce(&session, &compaction)?,
            Self::Summary { session, text, at_ms } => to.add_summary(&session, &text, at_ms)?,
            Self::End { session, reason, at_ms } => to.end_session(&session, &reason, at_ms)?,
            Self::Touch { entries, at_ms } => {
                let hashes: Vec<digest::Bytes> = entries.into_iter().map(|hash| hash.0).collect();
                let entries = to.entries(&hashes)?;
                to.touch(&entries, at_ms)?;
            }
            Self::Adopt { adopted } => {
                let mut known = Vec::new();
                for (hash, one) in adopted {
                    known.extend(to.entries(&[hash.0])?.first().map(|&entry| Adopted { entry, ..one }));
                }
                to.adopt(&known).map(drop)?;
            }
            Self::Cycle { plan } => to.cycle(Run::Real, &|_| plan).map(drop)?,
            Self::Keep { turn, is_kept, at_ms } => to.keep(&turn, is_kept, at_ms)?,
            Self::Place { path, summaries, contexts } => {
                if let Some(transcript) = to.transcript_at(&path)? {
                    to.place_compactions(transcript, &summaries, &contexts)?;
                }
            }
            Self::Snapshot { compaction, snapshot } => {
                if let Some(compaction) = to.compaction(&compaction)? {
                    to.keep_snapshot(compaction, &snapshot)?;
                }
            }
            Self::Learn { path, lesson, progress } => {
                if let Some(transcript) = to.transcript_at(&path)? {
                    return to.learn(transcript, &lesson, &progress).map(Came::Learned);
                }
            }
        }
        Ok(Came::Done)
    }
}
