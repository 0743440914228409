//! What an import leaves to the session's own transcript, when that comes.

use std::io::{self, BufWriter, Write as _};

use super::said::Said;
use super::transcripts::{archive, bytes_of, imported, own, turns_of};
use super::{ImportError, lines};
use ctxbridge_archive::ingest::Pass;
use ctxbridge_archive::store::{Adopted, Session, Store, StoreError, StoredTranscript, StoredTurn, Transcript};

/// Takes out of what was imported of a session what its own transcripts have by now. Says whether there was any.
///
/// # Errors
/// When the store cannot be read or written, or there is no room for a temporary file.
pub fn settle(store: &mut dyn Store, session: &str) -> Result<bool, ImportError> {
    let Some(session) = store.session(session)? else { return Ok(false) };
    let transcripts = store.transcripts(session.key)?;
    if imported(&transcripts).next().is_none() || own(&transcripts).next().is_none() {
        return Ok(false);
    }
    let said = Said::in_session(store, session.key)?;
    let mut is_changed = false;
    for transcript in imported(&transcripts) {
        is_changed |= settle_one(store, &session, transcript, &said)?;
    }
    Ok(is_changed)
}

/// Calls [`settle`] after the first pass over a session's own transcript: until then, what another tool kept of it was the best there was.
///
/// # Errors
/// When the store cannot be read or written. Anything else is left to the next import.
pub fn settle_after(store: &mut dyn Store, transcript: &Transcript, pass: &Pass) -> Result<(), StoreError> {
    if pass.is_first && transcript.agent.is_none() && !transcript.path.starts_with(lines::BEGIN) {
        match settle(store, &transcript.session) {
            Err(ImportError::Store(error)) => return Err(error),
            Ok(_) | Err(ImportError::Source(_) | ImportError::Temporary(_)) => {}
        }
    }
    Ok(())
}

fn settle_one(store: &mut dyn Store, session: &Session, transcript: &StoredTranscript, said: &Said) -> Result<bool, ImportError> {
    let mut kept = BufWriter::new(tempfile::NamedTempFile::new()?);
    let mut adopted = Vec::new();
    for turn in turns_of(store, transcript)? {
        let bytes = bytes_of(store, &turn)?;
        let entries = lines::came_from(&bytes).entries;
        let found: Vec<i64> = entries.iter().filter_map(|known| said.entry_of_hash(&known.sha256)).collect();
        if entries.is_empty() || found.len() < entries.len() {
            kept.write_all(&bytes)?;
            continue;
        }
        let StoredTurn { access_count, confidence, .. } = turn;
        adopted.extend(found.into_iter().map(|entry| Adopted {
            entry,
            access_count,
            confidence,
            accessed_ms: None,
            is_new: false,
        }));
    }
    if adopted.is_empty() {
        return Ok(false);
    }
    let kept = kept.into_inner().map_err(io::IntoInnerError::into_error)?;
    archive(store, &transcript.path, &session.session, kept.path())?;
    store.adopt(&adopted)?;
    Ok(true)
}
