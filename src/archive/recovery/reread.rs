//! Reads transcripts in again after a salvage: what was derived from their bytes may be lost while the bytes are still there.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::Path;

use crate::ingest::{ingest, ingest_from};
use crate::reader::{Comparison, ReadError};
use crate::spooled::SpooledBytes;
use crate::store::sqlite::{LostTranscript, SalvageReport, SqliteStore};
use crate::store::{SessionPart, StoreError, Transcript};
use crate::transcript_paths::session_in;

/// Start of the path of a transcript whose own one was lost; its key in the damaged archive follows.
const SALVAGED_PREFIX: &str = "salvaged:";

/// Reads in again what a salvage reports as incomplete: from the client's file, or from the bytes in the archive.
///
/// # Errors
/// If the store cannot be written. A transcript that cannot be read stays as it is.
pub(super) fn reread(store: &mut SqliteStore, report: &SalvageReport) -> Result<(), StoreError> {
    let torn: BTreeSet<i64> = report.holes.iter().map(|hole| hole.transcript).collect();
    let incomplete: BTreeSet<i64> = torn.iter().chain(&report.missing_turns).copied().collect();
    for key in incomplete {
        let Some((transcript, generation)) = store.identity_of(key)? else { continue };
        let path = Path::new(&transcript.path);
        let done = if path.is_file() {
            store.begin_again(key)?;
            ingest(store, &transcript, path).map(drop)
        } else if torn.contains(&key) {
            // Without all of its bytes, what is known of it is more than could be made of them. If its file comes back, all of it
            // is read again.
            store.distrust(key)?;
            Ok(())
        } else {
            match SpooledBytes::of_generation(store, key, generation) {
                Ok(bytes) => {
                    store.begin_again(key)?;
                    ingest_from(store, &transcript, Comparison::End, &mut || bytes.source()).map(drop)
                }
                Err(error) => Err(error.into()),
            }
        };
        tolerate(done)?;
    }
    for lost in &report.lost_transcripts {
        tolerate(adopt(store, lost))?;
    }
    store.forget_unused_segments()
}

/// Makes a transcript of the segments of one whose row was lost.
fn adopt(store: &mut SqliteStore, lost: &LostTranscript) -> Result<(), ReadError> {
    let Some(newest) = lost.layout.iter().map(|place| place.generation).max() else { return Ok(()) };
    let mut expected = 0;
    let mut pieces = Vec::new();
    for place in lost.layout.iter().filter(|place| place.generation == newest) {
        if place.start != expected {
            break;
        }
        let Some(bytes) = store.bytes_of_segment(place.segment)? else { break };
        expected += bytes.len() as u64;
        pieces.push(bytes);
    }
    // A fork's lines name the session that it was forked from, so they are asked last.
    let by_key = lost.session.map_or(Ok(None), |key| store.session_name(key))?;
    let by_path = || lost.path.as_deref().map(|path| Transcript::at(Path::new(path)).session);
    let Some(session) = by_key.or_else(by_path).or_else(|| pieces.iter().find_map(|bytes| session_in(bytes))) else {
        return Ok(());
    };
    let path = lost.path.clone().unwrap_or_else(|| format!("{SALVAGED_PREFIX}{}", lost.key));
    let transcript = Transcript { path, session, part: SessionPart::from_column(lost.agent.clone()) };
    if store.has_transcript(&transcript.path)? {
        return Ok(());
    }
    let bytes = SpooledBytes::written_by(|file| pieces.iter().try_for_each(|piece| file.write_all(piece)))?;
    ingest_from(store, &transcript, Comparison::End, &mut || bytes.source()).map(drop)
}

/// A transcript that cannot be read is no reason to give up the others.
fn tolerate(done: Result<(), ReadError>) -> Result<(), StoreError> {
    match done {
        Err(ReadError::Store(error)) if !error.is_session_local() => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}
