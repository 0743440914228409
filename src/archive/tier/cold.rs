//! Moves sessions to files of their own, and back.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::cold_file::{self, FileError, Written};
use crate::segment::{self, SegmentCheck};
use crate::store::sqlite::{KnownSession, SqliteStore};
use crate::store::{ColdFile, StoreError};
use ctxbridge_common::paths;

/// Compressed bytes that are removed from the database, or put back, in one transaction.
const COLD_BATCH_BYTES: u64 = 8 << 20;

/// Checks that files can be written to a folder, and that it is the one that has the earlier files.
///
/// A mounted bucket that is gone looks like an empty folder, or like none.
pub(super) fn make_ready(store: &mut SqliteStore, folder: &Path) -> Result<(), FolderError> {
    let failed = |cause| FolderError::Io { folder: folder.to_owned(), cause };
    let name = folder.to_string_lossy();
    let known: Vec<ColdFile> = store.cold_files()?.into_iter().filter(|file| file.folder == name).collect();
    cold_file::remove_abandoned_parts(folder);
    if known.is_empty() {
        return paths::create_private_dir(folder).map_err(failed);
    }
    if known.iter().any(|file| file.path().is_file()) {
        Ok(())
    } else {
        Err(FolderError::Empty { folder: folder.to_owned(), files: known.len() })
    }
}

/// Errors from using a cold folder.
#[derive(Debug, thiserror::Error)]
pub(super) enum FolderError {
    /// It cannot be created.
    #[error("cannot use archive.cold_folder {folder}: {cause}; check that it is mounted and writable, or set another folder")]
    Io {
        /// The folder.
        folder: PathBuf,
        /// Error from the operating system.
        cause: io::Error,
    },
    /// It has none of the files that were moved there.
    #[error(
        "archive.cold_folder {folder} has none of the {files} files that were moved there; mount it again, or set another one, and \
         nothing that is not there is touched"
    )]
    Empty {
        /// The folder.
        folder: PathBuf,
        /// Files that should be there.
        files: usize,
    },
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Updates the folder of files that are not in the old place but in the folder that is configured now.
pub(super) fn relink_cold_files(store: &mut SqliteStore, folder: &Path, sessions: &[KnownSession]) -> Result<(), StoreError> {
    let name = folder.to_string_lossy();
    for file in store.cold_files()?.into_iter().filter(|file| file.folder != name && !file.path().is_file()) {
        let Some(session) = sessions.iter().find(|session| session.key == file.session) else { continue };
        let here = folder.join(&file.name);
        let has_length = fs::metadata(&here).is_ok_and(|metadata| metadata.len() == file.bytes);
        if has_length && cold_file::manifest(&here).is_ok_and(|found| found.session == session.session) {
            store.move_cold_file(file.session, &name)?;
        }
    }
    Ok(())
}

/// Moves a session to a file; returns the bytes freed in the database and the bytes of the file. Returns `None` if somebody wrote
/// to the session meanwhile.
pub(super) fn move_out(
    store: &mut SqliteStore,
    session: &KnownSession,
    folder: &Path,
    now_ms: i64,
) -> Result<Option<(u64, u64)>, FileError> {
    let generations = store.generations(session.key)?;
    if generations.is_empty() {
        return Ok(None);
    }
    let Written { path, bytes, frames, is_new } = cold_file::put(folder, &session.session, &generations, &mut |wanted| {
        let found = store.segment_bytes(wanted.id, &wanted.sha256)?;
        // Then the session has changed, and is left as it is.
        found.ok_or_else(|| StoreError::Busy { path: store.path().to_owned() })
    })?;
    let file = ColdFile {
        session: session.key,
        folder: folder.to_string_lossy().into_owned(),
        name: path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        bytes,
        moved_ms: now_ms,
    };
    if !store.add_cold_file(session.key, &file, &generations, &frames)? {
        if is_new {
            // One that cannot be removed takes room and does no harm.
            fs::remove_file(&path).ok();
        }
        return Ok(None);
    }
    Ok(Some((drop_stored_bytes(store, session.key, None)?, bytes)))
}

/// Removes bytes that are in a session's file from the database, a few at a time; returns their number. For a file that was written
/// earlier, `earlier`, they are read again first.
pub(super) fn drop_stored_bytes(store: &mut SqliteStore, session: i64, earlier: Option<&ColdFile>) -> Result<u64, StoreError> {
    let mut done = 0;
    let (mut waiting, mut bytes) = (Vec::new(), 0);
    for (wanted, packed, frame) in store.evictable_segments(session)? {
        if let Some(file) = earlier {
            let failed = |cause| StoreError::Cold { file: file.path(), cause };
            let data = cold_file::frame(&file.path(), frame.start, frame.bytes).map_err(|error| failed(error.to_string()))?;
            segment::unpack(&data, wanted.bytes, &wanted.sha256, None, SegmentCheck::Sha256).map_err(failed)?;
        }
        waiting.push(wanted.id);
        bytes += packed;
        done += packed;
        if bytes >= COLD_BATCH_BYTES {
            store.evict_segments(&waiting)?;
            waiting.clear();
            bytes = 0;
        }
    }
    if !waiting.is_empty() {
        store.evict_segments(&waiting)?;
    }
    Ok(done)
}

/// Brings a session back into the database, a few segments at a time; returns the bytes that these take now. The file stays: a
/// backup of the database may need it, and it is used again if the session does not change.
pub(super) fn bring_back(store: &mut SqliteStore, session: i64) -> Result<u64, StoreError> {
    let away = store.missing_segments(session)?;
    let (mut waiting, mut bytes, mut done) = (Vec::new(), 0, 0);
    for wanted in away {
        let Some(text) = store.segment_bytes(wanted.id, &wanted.sha256)? else { continue };
        for packed in segment::pack(0, &text)? {
            bytes += packed.data.len() as u64;
            done += packed.data.len() as u64;
            waiting.push((wanted.clone(), packed.data));
        }
        if bytes >= COLD_BATCH_BYTES {
            store.restore_segments(&waiting)?;
            waiting.clear();
            bytes = 0;
        }
    }
    store.restore_segments(&waiting)?;
    store.remove_cold_file(session)?;
    Ok(done)
}

/// Describes the damage of a cold file, as far as its length shows; `None` if the file is missing, which is reported elsewhere.
pub(super) fn damage(file: &ColdFile) -> Option<String> {
    let length = fs::metadata(file.path()).ok()?.len();
    (length != file.bytes).then(|| {
        format!(
            "{} has {length} bytes instead of {}; put a copy of it there, or `ctxbridge archive import` its transcript",
            file.path().display(),
            file.bytes
        )
    })
}
