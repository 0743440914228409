//! Transcripts of a session: the client's own, and imported ones.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::path::{Path, PathBuf};

use super::{ImportError, lines};
use ctxbridge_archive::ingest;
use ctxbridge_archive::reader::{Comparison, ReadError};
use ctxbridge_archive::store::{
    SegmentReader, SessionPart, Store, StoreError, StoredTranscript, StoredTurn, Transcript, TurnReader,
};
use ctxbridge_archive::transcript_paths::transcripts_below;

/// Returns the client's own transcripts of a session.
pub(super) fn own(transcripts: &[StoredTranscript]) -> impl Iterator<Item = &StoredTranscript> {
    transcripts
        .iter()
        .filter(|transcript| transcript.part.is_conversation() && !transcript.path.starts_with(lines::TRANSCRIPT_PREFIX))
}

/// Returns the imported transcripts.
pub(super) fn imported(transcripts: &[StoredTranscript]) -> impl Iterator<Item = &StoredTranscript> {
    transcripts.iter().filter(|transcript| transcript.path.starts_with(lines::TRANSCRIPT_PREFIX))
}

/// Returns transcripts by the sessions that they are named after.
pub(super) fn by_session(projects: &Path) -> HashMap<String, PathBuf> {
    let paths = transcripts_below(projects, &mut |_, _| {});
    let named = |path: PathBuf| Some((path.file_stem()?.to_str()?.to_owned(), path));
    paths.into_iter().filter_map(named).collect()
}

/// Archives new data of the session's own transcripts, if they still exist: they count more than an import.
pub(super) fn bring_up_to_date(store: &mut dyn Store, session: &str, at: Option<&PathBuf>) -> Result<(), ImportError> {
    let mut paths: BTreeSet<PathBuf> = at.cloned().into_iter().collect();
    if let Some(known) = store.session(session)? {
        paths.extend(own(&store.transcripts(known.key)?).map(|transcript| PathBuf::from(&transcript.path)));
    }
    for path in paths.into_iter().filter(|path| path.is_file()) {
        let transcript = Transcript::at(&path);
        match ingest::ingest(store, &transcript, &path) {
            Err(ReadError::Store(error)) => return Err(error.into()),
            // One that cannot be read is as one that is not there.
            Ok(_) | Err(ReadError::NotAFile(_) | ReadError::Io { .. }) => {}
        }
    }
    Ok(())
}

/// Archives a file of lines as the transcript of this name.
pub(super) fn archive(store: &mut dyn Store, name: &str, session: &str, file: &Path) -> Result<(), ImportError> {
    let transcript = Transcript { path: name.to_owned(), session: session.to_owned(), part: SessionPart::Conversation };
    let append = &mut |store: &mut dyn Store, batch: &_| store.append(batch);
    match ingest::ingest_with(store, &transcript, file, Comparison::Whole, append) {
        Ok(_) => Ok(()),
        Err(ReadError::Store(error)) => Err(error.into()),
        Err(ReadError::Io { cause, .. }) => Err(cause.into()),
        Err(ReadError::NotAFile(path)) => Err(io::Error::other(format!("{} is no file", path.display())).into()),
    }
}

/// Returns the turns of a transcript's current generation.
pub(super) fn turns_of(store: &mut dyn TurnReader, transcript: &StoredTranscript) -> Result<Vec<StoredTurn>, StoreError> {
    let mut turns = Vec::new();
    for index in 0.. {
        let Some(turn) = store.turn(transcript.key, index)? else { break };
        turns.push(turn);
    }
    Ok(turns)
}

/// Reads the bytes of a turn.
pub(super) fn bytes_of(store: &mut dyn SegmentReader, turn: &StoredTurn) -> Result<Vec<u8>, StoreError> {
    store.read_shown(turn.transcript, turn.generation, (turn.turn.start, turn.turn.end))
}
