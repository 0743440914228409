//! One look at all sessions: what is to be moved is moved.

use std::fs::{File, TryLockError};
use std::path::Path;
use std::time::{Duration, Instant};

use super::cold::FolderError;
use super::cold_file::FileError;
use super::{Settings, Verdict, cold, may_be_warm, verdict, warm};
use crate::store::sqlite::{KnownSession, SqliteStore};
use crate::store::{Store, StoreError};
use ctxbridge_common::files;

/// The lock: one process moves at a time, since two would write the same files.
const LOCK: &str = "tiers.lock";

/// What was moved, or would be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Sessions; of those that are compressed anew only pieces are counted.
    pub sessions: u64,
    /// Pieces of transcripts that were compressed anew.
    pub segments: u64,
    /// Bytes that it took before.
    pub before: u64,
    /// Bytes that it takes now; 0 where that is not known yet.
    pub after: u64,
}

/// What one look came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Moves {
    /// Compressed anew.
    pub warm: Moved,
    /// Moved to files.
    pub cold: Moved,
    /// Brought back from there.
    pub back: Moved,
    /// What could not be moved and so stays where it is: the session, where it is about one, and why.
    pub failed: Vec<(Option<String>, String)>,
    /// Whether some is left, because there was no more time.
    pub is_cut: bool,
    /// Whether nothing was done, since another process is at it.
    pub is_elsewhere: bool,
}

/// Moves what is to be moved, until a deadline, if there is one; `progress` hears what is done.
///
/// # Errors
/// When the store cannot be read or written. What is about one session, or the cold folder, is in [`Moves::failed`].
pub fn run(
    store: &mut SqliteStore,
    data: &Path,
    settings: &Settings,
    deadline: Option<Instant>,
    now_ms: i64,
    progress: &mut dyn FnMut(&str),
) -> Result<Moves, StoreError> {
    let mut moves = Moves::default();
    let lock = files::private().create(true).append(true).open(data.join(LOCK)).ok();
    if let Some(lock) = &lock
        && let Err(TryLockError::WouldBlock) = files::lock_within(lock, File::try_lock, Duration::ZERO)
    {
        return Ok(Moves { is_elsewhere: true, ..moves });
    }
    let is_late = || deadline.is_some_and(|deadline| Instant::now() > deadline);
    let sessions = store.known_sessions()?;
    if let Some(folder) = &settings.cold_folder {
        cold::follow(store, folder, &sessions)?;
    }
    let mut is_ready = None;
    for session in &sessions {
        let verdict = verdict(&session.known, settings, now_ms);
        if matches!(verdict, Verdict::Cold | Verdict::Back) && is_late() {
            moves.is_cut = true;
            break;
        }
        let short = crate::quote::line(&session.session);
        let done = match (verdict, &settings.cold_folder) {
            (Verdict::Back, _) => {
                progress(&format!("bringing back session {short}"));
                bring_back(store, session, &mut moves)
            }
            (Verdict::Cold, Some(folder)) => {
                if is_ready.is_none() {
                    is_ready = Some(match cold::make_ready(store, folder) {
                        Ok(()) => true,
                        Err(FolderError::Store(error)) => return Err(error),
                        Err(error) => {
                            moves.failed.push((None, error.to_string()));
                            false
                        }
                    });
                }
                if is_ready != Some(true) {
                    continue;
                }
                progress(&format!("moving session {short}"));
                move_out(store, session, folder, now_ms, &mut moves)
            }
            // One that was killed may have left bytes here that are in the file as well.
            _ if session.known.moved_ms.is_some() && !is_late() => empty(store, session, deadline.is_none(), &mut moves),
            _ => Ok(()),
        };
        match done {
            Err(FileError::Store(error)) if !is_of_session(&error) => return Err(error),
            Err(error) => moves.failed.push((Some(session.session.clone()), error.to_string())),
            Ok(()) => {}
        }
    }
    if !moves.is_cut {
        warm::run(store, &idle(&sessions, settings, now_ms), deadline, &mut moves, progress)?;
    }
    store.settle()?;
    Ok(moves)
}

/// What [`run`] would do. Nothing is written, and no cold file looked at.
///
/// # Errors
/// When the store cannot be read.
pub fn preview(store: &mut SqliteStore, settings: &Settings, now_ms: i64) -> Result<Moves, StoreError> {
    let mut moves = Moves::default();
    let sessions = store.known_sessions()?;
    for session in &sessions {
        let (moved, bytes) = match verdict(&session.known, settings, now_ms) {
            Verdict::Cold => (&mut moves.cold, store.packed_bytes(session.key)?),
            Verdict::Back => (&mut moves.back, store.cold_file(session.key)?.map_or(0, |file| file.bytes)),
            Verdict::Stay | Verdict::Warm => continue,
        };
        moved.sessions += 1;
        moved.before += bytes;
    }
    let warm = sessions.iter().filter(|session| verdict(&session.known, settings, now_ms) != Verdict::Cold);
    let warm: Vec<KnownSession> = warm.cloned().collect();
    let candidates = store.warm_candidates(&idle(&warm, settings, now_ms))?;
    if warm::is_worth(store, &candidates)? {
        moves.warm.segments = candidates.len() as u64;
        moves.warm.before = candidates.iter().map(|candidate| candidate.packed).sum();
    }
    Ok(moves)
}

/// Sessions of which everything may be compressed anew.
fn idle(sessions: &[KnownSession], settings: &Settings, now_ms: i64) -> Vec<i64> {
    sessions.iter().filter(|session| may_be_warm(&session.known, settings, now_ms)).map(|session| session.key).collect()
}

/// Whether an error says nothing about other sessions.
fn is_of_session(error: &StoreError) -> bool {
    matches!(error, StoreError::Cold { .. } | StoreError::Segment { .. } | StoreError::Busy { .. } | StoreError::Sink(_))
}

fn move_out(
    store: &mut SqliteStore,
    session: &KnownSession,
    folder: &Path,
    now_ms: i64,
    moves: &mut Moves,
) -> Result<(), FileError> {
    if let Some((before, after)) = cold::move_out(store, session, folder, now_ms)? {
        moves.cold.sessions += 1;
        moves.cold.before += before;
        moves.cold.after += after;
    }
    Ok(())
}

fn bring_back(store: &mut SqliteStore, session: &KnownSession, moves: &mut Moves) -> Result<(), FileError> {
    let before = store.cold_file(session.key)?.map_or(0, |file| file.bytes);
    let after = cold::bring_back(store, session.key)?;
    moves.back.sessions += 1;
    moves.back.before += before;
    moves.back.after += after;
    Ok(())
}

fn empty(store: &mut SqliteStore, session: &KnownSession, is_thorough: bool, moves: &mut Moves) -> Result<(), FileError> {
    let Some(file) = store.cold_file(session.key)? else { return Ok(()) };
    // A mounted bucket may be slow, and who works in the background has little time.
    if is_thorough && let Some(damage) = cold::damage(&file) {
        moves.failed.push((Some(session.session.clone()), damage));
        return Ok(());
    }
    cold::empty(store, session.key, Some(&file))?;
    Ok(())
}
