//! One run over all sessions: those that are due are moved.

use std::fs::{File, TryLockError};
use std::path::Path;
use std::time::{Duration, Instant};

use super::cold::FolderError;
use super::cold_file::FileError;
use super::report::TierReport;
use super::{TierDecision, TierSettings, cold, decide_tier, may_be_warm, warm};
use crate::store::sqlite::{KnownSession, SqliteStore};
use crate::store::{MaintenanceStore, StoreError};
use ctxbridge_common::files;

/// Lock file: one process moves at a time, since two would write the same files.
const LOCK: &str = "tiers.lock";

/// Moves sessions that are due, until a deadline if there is one; `progress` receives messages.
///
/// # Errors
/// If the store cannot be read or written. Errors about one session, or the cold folder, are in [`TierReport::failed`].
pub fn run(
    store: &mut SqliteStore,
    data: &Path,
    settings: &TierSettings,
    deadline: Option<Instant>,
    now_ms: i64,
    progress: &mut dyn FnMut(&str),
) -> Result<TierReport, StoreError> {
    let mut moves = TierReport::default();
    let lock = files::open_lock(data.join(LOCK)).ok();
    if let Some(lock) = &lock
        && let Err(TryLockError::WouldBlock) = files::lock_within(lock, File::try_lock, Duration::ZERO)
    {
        return Ok(TierReport { is_elsewhere: true, ..moves });
    }
    let is_late = || deadline.is_some_and(|deadline| Instant::now() > deadline);
    let sessions = store.known_sessions()?;
    if let Some(folder) = &settings.cold_folder {
        cold::relink_cold_files(store, folder, &sessions)?;
    }
    let mut is_ready = None;
    for session in &sessions {
        let verdict = decide_tier(&session.known, settings, now_ms);
        if matches!(verdict, TierDecision::Cold | TierDecision::BringBack) && is_late() {
            moves.is_cut = true;
            break;
        }
        let short = crate::quote::line(&session.session);
        let done = match (verdict, &settings.cold_folder) {
            (TierDecision::BringBack, _) => {
                progress(&format!("bringing back session {short}"));
                bring_back(store, session, &mut moves)
            }
            (TierDecision::Cold, Some(folder)) => {
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
    store.checkpoint()?;
    Ok(moves)
}

/// Reports the effects of [`run`]. Nothing is written, and no cold file is read.
///
/// # Errors
/// If the store cannot be read.
pub fn preview(store: &mut SqliteStore, settings: &TierSettings, now_ms: i64) -> Result<TierReport, StoreError> {
    let mut moves = TierReport::default();
    let sessions = store.known_sessions()?;
    for session in &sessions {
        let (moved, bytes) = match decide_tier(&session.known, settings, now_ms) {
            TierDecision::Cold => (&mut moves.cold, store.packed_bytes(session.key)?),
            TierDecision::BringBack => (&mut moves.back, store.cold_file(session.key)?.map_or(0, |file| file.bytes)),
            TierDecision::Stay | TierDecision::Warm => continue,
        };
        moved.sessions += 1;
        moved.before += bytes;
    }
    let warm = sessions.iter().filter(|session| decide_tier(&session.known, settings, now_ms) != TierDecision::Cold);
    let warm: Vec<KnownSession> = warm.cloned().collect();
    let candidates = store.warm_candidates(&idle(&warm, settings, now_ms))?;
    if warm::is_worth(store, &candidates)? {
        moves.warm.segments = candidates.len() as u64;
        moves.warm.before = candidates.iter().map(|candidate| candidate.packed).sum();
    }
    Ok(moves)
}

/// Sessions of which everything may be recompressed.
fn idle(sessions: &[KnownSession], settings: &TierSettings, now_ms: i64) -> Vec<i64> {
    sessions.iter().filter(|session| may_be_warm(&session.known, settings, now_ms)).map(|session| session.key).collect()
}

/// `true` if an error says nothing about other sessions.
fn is_of_session(error: &StoreError) -> bool {
    matches!(error, StoreError::Cold { .. } | StoreError::Segment { .. } | StoreError::Busy { .. } | StoreError::Sink(_))
}

fn move_out(
    store: &mut SqliteStore,
    session: &KnownSession,
    folder: &Path,
    now_ms: i64,
    moves: &mut TierReport,
) -> Result<(), FileError> {
    if let Some((before, after)) = cold::move_out(store, session, folder, now_ms)? {
        moves.cold.sessions += 1;
        moves.cold.before += before;
        moves.cold.after += after;
    }
    Ok(())
}

fn bring_back(store: &mut SqliteStore, session: &KnownSession, moves: &mut TierReport) -> Result<(), FileError> {
    let before = store.cold_file(session.key)?.map_or(0, |file| file.bytes);
    let after = cold::bring_back(store, session.key)?;
    moves.back.sessions += 1;
    moves.back.before += before;
    moves.back.after += after;
    Ok(())
}

fn empty(store: &mut SqliteStore, session: &KnownSession, is_thorough: bool, moves: &mut TierReport) -> Result<(), FileError> {
    let Some(file) = store.cold_file(session.key)? else { return Ok(()) };
    // A mounted bucket may be slow, and who works in the background has little time.
    if is_thorough && let Some(damage) = cold::damage(&file) {
        moves.failed.push((Some(session.session.clone()), damage));
        return Ok(());
    }
    cold::drop_stored_bytes(store, session.key, Some(&file))?;
    Ok(())
}
