//! One pass over new content of a session in the archive.

use std::time::Instant;

use super::watch::RecordOrigin;
use super::{DecisionWords, LearningBatch, LearningCursor, LearningKind, LearningPatterns, Watcher};
use crate::search::tokens::Tokenizer;
use crate::store::{LearningQuery, LearningReader, SegmentReader, Session, Store, StoreError, StoredTranscript, TurnReader};
use crate::transcript_lines;
use ctxbridge_transcript::records_from;

/// Maximum number of earlier decisions of a project that a new one is compared with.
const MAX_COMPARED_DECISIONS: usize = 500;

/// Result of a pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LearningReport {
    /// New learnings.
    pub learnings: usize,
    /// Calls that pass again.
    pub fixes: usize,
    /// Bytes processed.
    pub bytes: u64,
    /// `true` if the time ran out before the end.
    pub is_cut: bool,
}

/// Learns from new content of a session, until a deadline if there is one. Processed bytes are skipped next time, unless the
/// transcript was rewritten or the patterns have changed.
///
/// # Errors
/// If the store cannot be read or written. Earlier results stay.
pub fn learn_from_session(
    store: &mut dyn Store,
    session: &Session,
    patterns: &LearningPatterns,
    deadline: Option<Instant>,
) -> Result<LearningReport, StoreError> {
    let mut done = LearningReport::default();
    for transcript in store.transcripts(session.key)? {
        if !transcript.part.is_transcript() {
            continue;
        }
        let known = store.learning_cursor(transcript.key)?;
        let fits =
            |progress: &LearningCursor| progress.generation == transcript.generation && progress.patterns == patterns.hash();
        let mut progress = known.filter(fits).unwrap_or_else(|| LearningCursor {
            generation: transcript.generation,
            bytes: 0,
            patterns: patterns.hash().to_owned(),
            watcher: Watcher::default(),
        });
        if progress.bytes >= transcript.bytes {
            continue;
        }
        let starts = starts(store, session, &transcript)?;
        while progress.bytes < transcript.bytes {
            if deadline.is_some_and(|deadline| Instant::now() > deadline) {
                done.is_cut = true;
                return Ok(done);
            }
            let from = progress.bytes;
            let mut batch = step(store, session, &transcript, patterns, &starts, &mut progress)?;
            batch.superseded = superseded(store, session, &batch)?;
            done.bytes += progress.bytes - from;
            done.fixes += batch.fixes.len();
            done.learnings += store.add_learnings(transcript.key, &batch, &progress)?;
        }
    }
    Ok(done)
}

/// Learns from new content of all sessions, newest first. `tell` is called with the number of sessions done.
///
/// # Errors
/// As [`learn_from_session`].
pub fn learn_from_all(
    store: &mut dyn Store,
    patterns: &LearningPatterns,
    deadline: Option<Instant>,
    tell: &mut dyn FnMut(usize),
) -> Result<LearningReport, StoreError> {
    let mut done = LearningReport::default();
    for (number, session) in store.sessions("", None, usize::MAX)?.iter().enumerate() {
        let LearningReport { learnings, fixes, bytes, is_cut } = match learn_from_session(store, session, patterns, deadline) {
            // It is looked through when its bytes are there again; others go on.
            Err(error) if error.is_session_local() => continue,
            passed => passed?,
        };
        done.learnings += learnings;
        done.fixes += fixes;
        done.bytes += bytes;
        done.is_cut |= is_cut;
        if is_cut {
            break;
        }
        tell(number + 1);
    }
    Ok(done)
}

/// Start bytes of a transcript's turns, and their ids.
fn starts(
    store: &mut dyn TurnReader,
    session: &Session,
    transcript: &StoredTranscript,
) -> Result<Vec<(u64, [u8; 16])>, StoreError> {
    let starts = store.turn_offsets(session.key, !transcript.part.is_conversation())?.into_iter();
    let of_transcript = starts.filter(|start| start.transcript == transcript.key);
    let mut starts: Vec<(u64, [u8; 16])> = of_transcript.map(|start| (start.at, start.id)).collect();
    starts.sort_unstable();
    Ok(starts)
}

fn step(
    store: &mut dyn SegmentReader,
    session: &Session,
    transcript: &StoredTranscript,
    patterns: &LearningPatterns,
    starts: &[(u64, [u8; 16])],
    progress: &mut LearningCursor,
) -> Result<LearningBatch, StoreError> {
    let from = progress.bytes;
    let bytes = transcript_lines::next_lines(store, transcript, from, transcript.bytes)?;
    let mut batch = LearningBatch::default();
    progress.watcher.begin();
    let mut repeated = std::mem::take(&mut progress.watcher.repeated);
    records_from(&bytes, from, &mut repeated, &mut |at, _, record| {
        let place = starts.partition_point(|(start, _)| *start <= at);
        // What stands before the first turn is nobody's.
        if let Some((_, turn)) = place.checked_sub(1).and_then(|place| starts.get(place)) {
            let whose = RecordOrigin { turn: *turn, agent: transcript.part.agent(), folder: session.folder.as_deref() };
            progress.watcher.take(patterns, record, whose, &mut batch);
        }
    });
    progress.watcher.repeated = repeated;
    let at = from + bytes.len() as u64;
    // A transcript that is shorter in the archive than it should be has nothing more to say.
    progress.bytes = if at > from { at } else { transcript.bytes };
    Ok(batch)
}

/// Earlier decisions of the project that are superseded.
fn superseded(
    store: &mut dyn LearningReader,
    session: &Session,
    batch: &LearningBatch,
) -> Result<Vec<(super::LearningId, super::LearningId)>, StoreError> {
    let new: Vec<_> = batch.learnings.iter().filter(|learning| learning.kind == LearningKind::Decision).collect();
    if new.is_empty() {
        return Ok(Vec::new());
    }
    let wanted = LearningQuery {
        kind: Some(LearningKind::Decision),
        folder: session.folder.clone(),
        limit: MAX_COMPARED_DECISIONS,
        ..LearningQuery::default()
    };
    let known = store.learnings(&wanted)?;
    let tokenizer = Tokenizer::default();
    let known: Vec<_> =
        known.iter().map(|known| (known.id, known.last_ms, DecisionWords::of(&tokenizer, &known.sentence))).collect();
    let new: Vec<_> = new.iter().map(|new| (new.id, new.at_ms, DecisionWords::of(&tokenizer, &new.sentence))).collect();
    let mut superseded = Vec::new();
    for (place, (id, at_ms, decision)) in new.iter().enumerate() {
        let before = known.iter().filter(|(_, last_ms, _)| last_ms <= at_ms);
        let taken_back = before.chain(&new[..place]).filter(|(old, _, known)| old != id && decision.supersedes(known));
        superseded.extend(taken_back.map(|(old, ..)| (*old, *id)));
        // Sessions are not looked through in their order.
        let later = known.iter().filter(|(newer, last_ms, _)| last_ms > at_ms && newer != id);
        superseded.extend(later.filter(|(.., known)| known.supersedes(decision)).map(|(newer, ..)| (*id, *newer)));
    }
    Ok(superseded)
}
