//! Replaces imported turns once the session's own transcript arrives. Searches return no location for replaced turns.

use std::io::{self, BufWriter, Write as _};

use super::archived_messages::ArchivedMessages;
use super::transcripts::{archive, bytes_of, imported, own, turns_of};
use super::{ImportError, lines};
use ctxbridge_archive::ingest::IngestReport;
use ctxbridge_archive::store::{ImportedUsage, Session, Store, StoreError, StoredTranscript, StoredTurn, Transcript};

/// Removes imported turns of a session that its own transcripts have by now. Returns `true` if there were any.
///
/// # Errors
/// If the store cannot be read or written, or there is no room for a temporary file.
pub fn supersede_imported(store: &mut dyn Store, session: &str) -> Result<bool, ImportError> {
    let Some(session) = store.session(session)? else { return Ok(false) };
    let transcripts = store.transcripts(session.key)?;
    if imported(&transcripts).next().is_none() || own(&transcripts).next().is_none() {
        return Ok(false);
    }
    let said = ArchivedMessages::in_session(store, session.key)?;
    let mut is_changed = false;
    for transcript in imported(&transcripts) {
        is_changed |= settle_one(store, &session, transcript, &said)?;
    }
    Ok(is_changed)
}

/// Calls [`supersede_imported`] after the first pass over a session's own transcript. Until then, the imported turns were the
/// best available.
///
/// # Errors
/// If the store cannot be read or written. Anything else is left to the next import.
pub fn supersede_imported_after(store: &mut dyn Store, transcript: &Transcript, pass: &IngestReport) -> Result<(), StoreError> {
    if pass.is_first && transcript.part.is_conversation() && !transcript.path.starts_with(lines::TRANSCRIPT_PREFIX) {
        match supersede_imported(store, &transcript.session) {
            Err(ImportError::Store(error)) => return Err(error),
            Ok(_) | Err(ImportError::Source(_) | ImportError::Temporary(_)) => {}
        }
    }
    Ok(())
}

fn settle_one(
    store: &mut dyn Store,
    session: &Session,
    transcript: &StoredTranscript,
    said: &ArchivedMessages,
) -> Result<bool, ImportError> {
    let mut kept = BufWriter::new(tempfile::NamedTempFile::new()?);
    let mut adopted = Vec::new();
    for turn in turns_of(store, transcript)? {
        let bytes = bytes_of(store, &turn)?;
        let entries = lines::read_origin(&bytes).entries;
        let found: Vec<i64> = entries.iter().filter_map(|known| said.entry_of_hash(&known.sha256)).collect();
        if entries.is_empty() || found.len() < entries.len() {
            kept.write_all(&bytes)?;
            continue;
        }
        let StoredTurn { access_count, confidence, .. } = turn;
        adopted.extend(found.into_iter().map(|entry| ImportedUsage {
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
    store.merge_usage(&adopted)?;
    Ok(true)
}
