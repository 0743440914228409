//! The bytes of a segment, wherever they are: in the database, with or without a dictionary, or in a cold file.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OptionalExtension, Result};

use super::explain;
use super::read::unsigned;
use crate::segment::{self, Check, Dictionary};
use crate::store::StoreError;
use crate::tier::cold_file;
use ctxbridge_common::digest;

/// What is needed to unpack segments, besides them.
#[derive(Debug, Default)]
pub(super) struct Unpacker {
    /// Those that were needed so far.
    dictionaries: HashMap<i64, Dictionary>,
    /// Whether cold files are left alone.
    pub leaves_cold: bool,
}

/// Where a segment is in a transcript, for messages.
#[derive(Clone, Copy, Debug)]
pub(super) struct Whereabouts {
    pub transcript: i64,
    pub start: u64,
}

/// A segment as it is kept.
struct Kept {
    bytes: u32,
    sha256: digest::Bytes,
    data: Vec<u8>,
    dictionary: Option<i64>,
}

/// Where in which file a segment is.
struct Place {
    file: PathBuf,
    start: u64,
    bytes: u64,
}

impl Unpacker {
    /// The bytes of a segment.
    pub fn segment(
        &mut self,
        (db, path): (&Connection, &Path),
        id: i64,
        check: Check,
        at: Whereabouts,
    ) -> Result<Vec<u8>, StoreError> {
        let failed = |cause| explain(path, cause);
        let kept = kept(db, id).map_err(failed)?;
        if kept.data.is_empty() {
            return self.cold(&places(db, id).map_err(failed)?, &kept, path, at);
        }
        let dictionary = match kept.dictionary {
            Some(id) => Some(self.dictionary((db, path), id, at)?),
            None => None,
        };
        let wrong = |cause| wrong(path, at, cause);
        segment::unpack(&kept.data, kept.bytes, &kept.sha256, dictionary, check).map_err(wrong)
    }

    /// Unpacks what was read from the database before.
    pub fn unpack(
        &mut self,
        (db, path): (&Connection, &Path),
        (data, bytes, sha256): (&[u8], u32, &digest::Bytes),
        dictionary: Option<i64>,
        at: Whereabouts,
    ) -> Result<Vec<u8>, StoreError> {
        let dictionary = match dictionary {
            Some(id) => Some(self.dictionary((db, path), id, at)?),
            None => None,
        };
        segment::unpack(data, bytes, sha256, dictionary, Check::Sha256).map_err(|cause| wrong(path, at, cause))
    }

    /// From the first of these files that has it. Files outside of the database are anybody's, so the hash is always checked.
    fn cold(&self, places: &[Place], kept: &Kept, path: &Path, at: Whereabouts) -> Result<Vec<u8>, StoreError> {
        let mut first = None;
        for place in places {
            let cause = if self.leaves_cold {
                "hooks leave it alone, so that nobody waits for it".to_owned()
            } else {
                let read = cold_file::frame(&place.file, place.start, place.bytes).map_err(|error| error.to_string());
                match read.and_then(|data| segment::unpack(&data, kept.bytes, &kept.sha256, None, Check::Sha256)) {
                    Ok(bytes) => return Ok(bytes),
                    Err(cause) => cause,
                }
            };
            first.get_or_insert(StoreError::Cold { file: place.file.clone(), cause });
        }
        Err(first.unwrap_or_else(|| wrong(path, at, "it has no bytes, and is in no cold file".to_owned())))
    }

    fn dictionary(&mut self, (db, path): (&Connection, &Path), id: i64, at: Whereabouts) -> Result<&Dictionary, StoreError> {
        match self.dictionaries.entry(id) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(place) => {
                let sql = "SELECT data FROM dictionaries WHERE id = ?1";
                let data: Vec<u8> = db.query_row(sql, [id], |row| row.get(0)).map_err(|cause| explain(path, cause))?;
                let cause = |cause| wrong(path, at, format!("dictionary {id}: {cause}"));
                Ok(place.insert(Dictionary::new(&data).map_err(cause)?))
            }
        }
    }
}

fn wrong(path: &Path, at: Whereabouts, cause: String) -> StoreError {
    StoreError::Segment { path: path.to_owned(), transcript: at.transcript, start: at.start, cause }
}

fn kept(db: &Connection, id: i64) -> Result<Kept> {
    db.prepare_cached(
        "SELECT bytes, sha256, data, dictionary FROM segments LEFT JOIN warm ON warm.segment = segments.id WHERE segments.id = ?1",
    )?
    .query_row([id], |row| Ok(Kept { bytes: row.get(0)?, sha256: row.get(1)?, data: row.get(2)?, dictionary: row.get(3)? }))
}

fn places(db: &Connection, segment: i64) -> Result<Vec<Place>> {
    db.prepare_cached(
        "SELECT folder, name, start, cold.bytes FROM cold JOIN cold_files ON cold_files.id = file WHERE segment = ?1 ORDER BY file DESC",
    )?
    .query_map([segment], |row| {
        let file = PathBuf::from(row.get::<_, String>(0)?).join(row.get::<_, String>(1)?);
        Ok(Place { file, start: unsigned(row, 2)?, bytes: unsigned(row, 3)? })
    })?
    .collect()
}

/// A segment's hash, if it is still there.
pub(super) fn is_there(db: &Connection, id: i64, sha256: &digest::Bytes) -> Result<bool> {
    let found: Option<digest::Bytes> =
        db.prepare_cached("SELECT sha256 FROM segments WHERE id = ?1")?.query_row([id], |row| row.get(0)).optional()?;
    Ok(found.as_ref() == Some(sha256))
}
