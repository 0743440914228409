//! One pass over what is new of a session in the archive.

use std::time::Instant;

use super::watch::Whose;
use super::{Decision, Kind, Lesson, Patterns, Progress, Watcher};
use crate::lines;
use crate::search::tokens::Tokenizer;
use crate::store::{Session, Store, StoreError, StoredTranscript, Wanted};
use ctxbridge_transcript::{Record, whole_characters};

/// Earlier decisions of a project that a new one may take back.
const COMPARED: usize = 500;

/// What a pass did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Learned {
    /// Learnings that were not known.
    pub learnings: usize,
    /// Calls that pass again.
    pub fixes: usize,
    /// Bytes that were looked at.
    pub bytes: u64,
    /// Whether some is left, because there was no more time.
    pub is_cut: bool,
}

/// Looks through what is new of a session; until a deadline, if there is one. What was looked at is not looked at again, unless it was rewritten or the
/// patterns are others.
///
/// # Errors
/// When the store cannot be read or written. What was done before stays.
pub fn pass(
    store: &mut dyn Store,
    session: &Session,
    patterns: &Patterns,
    deadline: Option<Instant>,
) -> Result<Learned, StoreError> {
    let mut done = Learned::default();
    for transcript in store.transcripts(session.key)? {
        let known = store.progress(transcript.key)?;
        let fits = |progress: &Progress| progress.generation == transcript.generation && progress.patterns == patterns.hash();
        let mut progress = known.filter(fits).unwrap_or_else(|| Progress {
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
            let mut lesson = step(store, session, &transcript, patterns, &starts, &mut progress)?;
            lesson.superseded = superseded(store, session, &lesson)?;
            done.bytes += progress.bytes - from;
            done.fixes += lesson.fixes.len();
            done.learnings += store.learn(transcript.key, &lesson, &progress)?;
        }
    }
    Ok(done)
}

/// Looks through what is new of all sessions, the newest first. `tell` hears how many are done.
///
/// # Errors
/// As [`pass`].
pub fn all(
    store: &mut dyn Store,
    patterns: &Patterns,
    deadline: Option<Instant>,
    tell: &mut dyn FnMut(usize),
) -> Result<Learned, StoreError> {
    let mut done = Learned::default();
    for (number, session) in store.sessions("", None, usize::MAX)?.iter().enumerate() {
        let Learned { learnings, fixes, bytes, is_cut } = match pass(store, session, patterns, deadline) {
            // It is looked through when its bytes are there again; others go on.
            Err(error) if error.is_of_one() => continue,
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

/// Where the turns of a transcript begin, and their ids.
fn starts(store: &mut dyn Store, session: &Session, transcript: &StoredTranscript) -> Result<Vec<(u64, [u8; 16])>, StoreError> {
    let starts = store.starts(session.key, transcript.agent.is_some())?.into_iter();
    let of_transcript = starts.filter(|start| start.transcript == transcript.key);
    let mut starts: Vec<(u64, [u8; 16])> = of_transcript.map(|start| (start.at, start.id)).collect();
    starts.sort_unstable();
    Ok(starts)
}

fn step(
    store: &mut dyn Store,
    session: &Session,
    transcript: &StoredTranscript,
    patterns: &Patterns,
    starts: &[(u64, [u8; 16])],
    progress: &mut Progress,
) -> Result<Lesson, StoreError> {
    let from = progress.bytes;
    let bytes = lines::next(store, transcript, from, transcript.bytes)?;
    let mut lesson = Lesson::default();
    progress.watcher.begin();
    let mut at = from;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let place = starts.partition_point(|(start, _)| *start <= at);
        at += line.len() as u64;
        // What stands before the first turn is nobody's.
        let Some((_, turn)) = place.checked_sub(1).and_then(|place| starts.get(place)) else { continue };
        let text = String::from_utf8_lossy(line);
        if let Ok(record) = Record::parse(&whole_characters(text.as_bytes())) {
            let whose = Whose { turn: *turn, agent: transcript.agent.as_deref(), folder: session.folder.as_deref() };
            progress.watcher.take(patterns, &record, whose, &mut lesson);
        }
    }
    // A transcript that is shorter in the archive than it should be has nothing more to say.
    progress.bytes = if at > from { at } else { transcript.bytes };
    Ok(lesson)
}

/// Which earlier decisions of the project are taken back.
fn superseded(store: &mut dyn Store, session: &Session, lesson: &Lesson) -> Result<Vec<(super::Id, super::Id)>, StoreError> {
    let new: Vec<_> = lesson.learnings.iter().filter(|learning| learning.kind == Kind::Decision).collect();
    if new.is_empty() {
        return Ok(Vec::new());
    }
    let wanted = Wanted { kind: Some(Kind::Decision), folder: session.folder.clone(), limit: COMPARED, ..Wanted::default() };
    let known = store.learnings(&wanted)?;
    let tokenizer = Tokenizer::default();
    let known: Vec<_> = known.iter().map(|known| (known.id, known.last_ms, Decision::of(&tokenizer, &known.sentence))).collect();
    let new: Vec<_> = new.iter().map(|new| (new.id, new.at_ms, Decision::of(&tokenizer, &new.sentence))).collect();
    let mut superseded = Vec::new();
    for (place, (id, at_ms, decision)) in new.iter().enumerate() {
        let before = known.iter().filter(|(_, last_ms, _)| last_ms <= at_ms);
        let taken_back = before.chain(&new[..place]).filter(|(old, _, known)| old != id && decision.takes_back(known));
        superseded.extend(taken_back.map(|(old, ..)| (*old, *id)));
        // Sessions are not looked through in their order.
        let later = known.iter().filter(|(newer, last_ms, _)| last_ms > at_ms && newer != id);
        superseded.extend(later.filter(|(.., known)| known.takes_back(decision)).map(|(newer, ..)| (*id, *newer)));
    }
    Ok(superseded)
}
