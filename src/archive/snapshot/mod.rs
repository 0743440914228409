/*!
Snapshots of the window at a compaction: number of messages, the first and the last of them, and their topics.

Hooks and transcripts record compactions, and the archive has all bytes from before them. A snapshot is no copy of these. It is for
timelines and searches, which lead to the place from which the conversation can be exported as it was (`export::session_ref`).

It covers the messages since the compaction before. It is taken from the archived bytes, before a compaction or later, when somebody
asks.
*/

mod topics;
mod window;

use std::time::Instant;

pub use topics::{MAX_TOPIC_TEXT_BYTES, topics};

use super::store::{Session, Snapshot, Store, StoreError, StoredCompaction, StoredTranscript, TurnSelection};
use super::transcript_lines;
use crate::store::{CursorReader, TurnReader};
use ctxbridge_transcript::Interpreter;
use window::CompactionWindow;

/// Result of a pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SnapshotReport {
    /// Snapshots.
    pub snapshots: usize,
    /// `true` if the time ran out before the end.
    pub is_cut: bool,
}

/// Takes the missing snapshots of a session, until a deadline if there is one.
///
/// # Errors
/// If the store cannot be read or written. Earlier results stay.
pub fn take_snapshots(store: &mut dyn Store, session: &Session, deadline: Option<Instant>) -> Result<SnapshotReport, StoreError> {
    let mut taken = SnapshotReport::default();
    let is_missing = |compaction: &StoredCompaction| compaction.snapshot.is_none() && !compaction.is_blocked;
    let mut compactions = store.compactions(Some(session.key), i64::MIN)?;
    if !compactions.iter().any(is_missing) {
        return Ok(taken);
    }
    let transcripts: Vec<_> = store.transcripts(session.key)?.into_iter().filter(|of| of.part.is_conversation()).collect();
    if compactions.iter().any(|one| is_missing(one) && is_lost(one)) {
        transcripts.iter().try_for_each(|transcript| locate_missing_compactions(store, transcript))?;
        compactions = store.compactions(Some(session.key), i64::MIN)?;
    }
    let ends = TurnEnds::of(store, session)?;
    // The newest first: where somebody waits, it is about that one.
    for (number, compaction) in compactions.iter().enumerate().rev().filter(|(_, compaction)| is_missing(compaction)) {
        if deadline.is_some_and(|deadline| Instant::now() > deadline) {
            taken.is_cut = true;
            break;
        }
        // What was said before one that the transcript no longer has is not there any more either, or something else is.
        if is_lost(compaction) {
            store.save_snapshot(compaction.key, &Snapshot::default())?;
            continue;
        }
        let in_it = |transcript: &&StoredTranscript| compaction.location.is_none_or(|(key, _)| key == transcript.key);
        let Some(transcript) = transcripts.iter().find(in_it) else { continue };
        let to = ends.of_window(compaction, transcript);
        // One that was announced and did not happen has left everything in the window.
        let before =
            compactions[..number].iter().filter(|before| has_number(before)).map(|before| ends.of_window(before, transcript));
        let from = before.filter(|end| *end < to).max().unwrap_or(0);
        let rewound = rewound(store, transcript)?;
        let window = CompactionWindow::read(store, transcript, (from, to), &rewound)?;
        store.save_snapshot(compaction.key, &window.snapshot())?;
        taken.snapshots += 1;
    }
    Ok(taken)
}

/// Parts of a transcript that were rewound.
fn rewound(store: &mut dyn CursorReader, transcript: &StoredTranscript) -> Result<Vec<(u64, u64)>, StoreError> {
    let cursor = store.cursor(&transcript.path)?.filter(|cursor| cursor.generation == transcript.generation);
    Ok(cursor.map_or_else(Vec::new, |cursor| cursor.interpreter.rewound().to_vec()))
}

/// Takes the missing snapshots of all sessions, newest first; `tell` is called with the number of sessions done.
///
/// # Errors
/// As [`take_snapshots`].
pub fn take_all_snapshots(
    store: &mut dyn Store,
    deadline: Option<Instant>,
    tell: &mut dyn FnMut(usize),
) -> Result<SnapshotReport, StoreError> {
    let mut all = SnapshotReport::default();
    for (number, session) in store.sessions("", None, usize::MAX)?.iter().enumerate() {
        let SnapshotReport { snapshots, is_cut } = match take_snapshots(store, session, deadline) {
            // It is looked through when its bytes are there again; others go on.
            Err(error) if error.is_session_local() => continue,
            passed => passed?,
        };
        all.snapshots += snapshots;
        all.is_cut |= is_cut;
        if is_cut {
            break;
        }
        tell(number + 1);
    }
    Ok(all)
}

/// The compactions of a session that are in its transcript, in order: the session can be shown as it was before each of them.
///
/// # Errors
/// If the store cannot be read.
pub fn numbered_compactions(store: &mut dyn Store, session: &Session) -> Result<Vec<StoredCompaction>, StoreError> {
    let mut compactions = store.compactions(Some(session.key), i64::MIN)?;
    if compactions.iter().any(is_lost) {
        // Another file of the session may have it.
        for transcript in store.transcripts(session.key)?.iter().filter(|transcript| transcript.part.is_conversation()) {
            match locate_missing_compactions(store, transcript) {
                Err(error) if error.is_session_local() => {}
                placed => placed?,
            }
        }
        compactions = store.compactions(Some(session.key), i64::MIN)?;
    }
    compactions.retain(has_number);
    Ok(compactions)
}

/// `true` if a compaction is one of those.
pub fn has_number(compaction: &StoredCompaction) -> bool {
    compaction.is_done && compaction.location.is_some() && !compaction.is_rewound
}

/// `true` if no known transcript has it.
pub fn is_lost(compaction: &StoredCompaction) -> bool {
    compaction.is_done && compaction.location.is_none()
}

/// Finds the positions of compactions that earlier versions did not record.
fn locate_missing_compactions(store: &mut dyn Store, transcript: &StoredTranscript) -> Result<(), StoreError> {
    let mut interpreter = Interpreter::default();
    let mut from = 0;
    while from < transcript.bytes {
        let bytes = transcript_lines::next_lines(store, transcript, from, transcript.bytes)?;
        if bytes.is_empty() {
            break;
        }
        interpreter.feed(&bytes);
        // Turns are known already, and would be kept until they are asked for.
        interpreter.take_turns();
        from += bytes.len() as u64;
    }
    store.locate_compactions(transcript.key, &interpreter.take_summaries(), &interpreter.take_first_contexts())
}

/// Ends of turns, with their transcripts.
struct TurnEnds(Vec<(i64, u64)>);

impl TurnEnds {
    fn of(store: &mut dyn TurnReader, session: &Session) -> Result<Self, StoreError> {
        let turns = store.turns(session.key, TurnSelection::All)?;
        Ok(Self(turns.iter().map(|turn| (turn.transcript, turn.turn.end)).collect()))
    }

    /// End of a compaction's window: its position in the transcript, or else the end of the turns before it.
    fn of_window(&self, compaction: &StoredCompaction, transcript: &StoredTranscript) -> u64 {
        match compaction.location {
            Some((key, start)) if key == transcript.key => start,
            _ => {
                let mut ends = self.0.iter().filter(|(key, _)| *key == transcript.key).map(|(_, end)| *end);
                let before = (compaction.turns as usize).checked_sub(1);
                before.map_or(0, |last| ends.nth(last).unwrap_or(transcript.bytes))
            }
        }
    }
}
