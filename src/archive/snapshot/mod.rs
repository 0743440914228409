/*!
What was in the window when it was compacted: how many messages, the first and the last of them, and what they were about.

Hooks and transcripts tell that there was a compaction, and the archive has all bytes of what was said before it. A snapshot is no copy of that: it is
what a timeline shows and a search looks through to find the place, from which the conversation comes back as it was ([`crate::export::which`]).
*/

mod topics;
mod window;

use std::time::Instant;

pub use topics::{TEXT_BYTES, topics};

use super::lines;
use super::store::{Session, Snapshot, Store, StoreError, StoredCompaction, StoredTranscript, Turns};
use ctxbridge_transcript::Interpreter;
use window::Window;

/// What a pass did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Snapshots.
    pub snapshots: usize,
    /// Whether some are left, because there was no more time.
    pub is_cut: bool,
}

/// Takes the snapshots of a session that are missing; until a deadline, if there is one.
///
/// # Errors
/// When the store cannot be read or written. What was done before stays.
pub fn pass(store: &mut dyn Store, session: &Session, deadline: Option<Instant>) -> Result<Taken, StoreError> {
    let mut taken = Taken::default();
    let is_missing = |compaction: &StoredCompaction| compaction.snapshot.is_none() && !compaction.is_blocked;
    let mut compactions = store.compactions(Some(session.key), i64::MIN)?;
    if !compactions.iter().any(is_missing) {
        return Ok(taken);
    }
    let transcripts: Vec<_> = store.transcripts(session.key)?.into_iter().filter(|of| of.agent.is_none()).collect();
    if compactions.iter().any(|one| is_missing(one) && is_lost(one)) {
        transcripts.iter().try_for_each(|transcript| place(store, transcript))?;
        compactions = store.compactions(Some(session.key), i64::MIN)?;
    }
    let ends = Ends::of(store, session)?;
    // The newest first: where somebody waits, it is about that one.
    for (number, compaction) in compactions.iter().enumerate().rev().filter(|(_, compaction)| is_missing(compaction)) {
        if deadline.is_some_and(|deadline| Instant::now() > deadline) {
            taken.is_cut = true;
            break;
        }
        // What was said before one that the transcript no longer has is not there any more either, or something else is.
        if is_lost(compaction) {
            store.keep_snapshot(compaction.key, &Snapshot::default())?;
            continue;
        }
        let in_it = |transcript: &&StoredTranscript| compaction.place.is_none_or(|(key, _)| key == transcript.key);
        let Some(transcript) = transcripts.iter().find(in_it) else { continue };
        let to = ends.of_window(compaction, transcript);
        // One that was announced and did not happen has left everything in the window.
        let before =
            compactions[..number].iter().filter(|before| has_number(before)).map(|before| ends.of_window(before, transcript));
        let from = before.filter(|end| *end < to).max().unwrap_or(0);
        let window = Window::read(store, transcript, (from, to))?;
        store.keep_snapshot(compaction.key, &window.snapshot())?;
        taken.snapshots += 1;
    }
    Ok(taken)
}

/// Takes what is missing of all sessions, the newest first; `tell` hears how many are done.
///
/// # Errors
/// As [`pass`].
pub fn all(store: &mut dyn Store, deadline: Option<Instant>, tell: &mut dyn FnMut(usize)) -> Result<Taken, StoreError> {
    let mut all = Taken::default();
    for (number, session) in store.sessions("", None, usize::MAX)?.iter().enumerate() {
        let Taken { snapshots, is_cut } = match pass(store, session, deadline) {
            // It is looked through when its bytes are there again; others go on.
            Err(error) if error.is_of_one() => continue,
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

/// The compactions of a session that it can be shown before, in order: those that its transcript has.
///
/// # Errors
/// When the store cannot be read.
pub fn numbered(store: &mut dyn Store, session: &Session) -> Result<Vec<StoredCompaction>, StoreError> {
    let mut compactions = store.compactions(Some(session.key), i64::MIN)?;
    if compactions.iter().any(is_lost) {
        // Another file of the session may have it.
        for transcript in store.transcripts(session.key)?.iter().filter(|transcript| transcript.agent.is_none()) {
            match place(store, transcript) {
                Err(error) if error.is_cold() => {}
                placed => placed?,
            }
        }
        compactions = store.compactions(Some(session.key), i64::MIN)?;
    }
    compactions.retain(has_number);
    Ok(compactions)
}

/// Whether a compaction is one of those.
pub fn has_number(compaction: &StoredCompaction) -> bool {
    compaction.is_done && compaction.place.is_some()
}

/// Whether no transcript has it, as far as is known.
pub fn is_lost(compaction: &StoredCompaction) -> bool {
    compaction.is_done && compaction.place.is_none()
}

/// Finds where the compactions were that earlier versions took no note of.
fn place(store: &mut dyn Store, transcript: &StoredTranscript) -> Result<(), StoreError> {
    let mut interpreter = Interpreter::default();
    let mut from = 0;
    while from < transcript.bytes {
        let bytes = lines::next(store, transcript, from, transcript.bytes)?;
        if bytes.is_empty() {
            break;
        }
        interpreter.feed(&bytes);
        // Turns are known already, and would be kept until they are asked for.
        interpreter.take_turns();
        from += bytes.len() as u64;
    }
    store.place_compactions(transcript.key, &interpreter.take_summaries(), &interpreter.take_first_contexts())
}

/// Where turns end.
struct Ends(Vec<(i64, u64)>);

impl Ends {
    fn of(store: &mut dyn Store, session: &Session) -> Result<Self, StoreError> {
        let turns = store.turns(session.key, Turns::All)?;
        Ok(Self(turns.iter().map(|turn| (turn.transcript, turn.turn.end)).collect()))
    }

    /// Where the window of a compaction ends: where the transcript has it, or else behind the turns that there were.
    fn of_window(&self, compaction: &StoredCompaction, transcript: &StoredTranscript) -> u64 {
        match compaction.place {
            Some((key, start)) if key == transcript.key => start,
            _ => {
                let mut ends = self.0.iter().filter(|(key, _)| *key == transcript.key).map(|(_, end)| *end);
                let before = (compaction.turns as usize).checked_sub(1);
                before.map_or(0, |last| ends.nth(last).unwrap_or(transcript.bytes))
            }
        }
    }
}
