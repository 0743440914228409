//! Reads the bytes of a segment from the database, with or without a dictionary, or from a cold file.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OptionalExtension, Result, params};

use super::columns::{signed, unsigned};
use super::sessions::CURRENT_LAYOUT;
use super::{SqliteQueries, SqliteStore, explain};
use crate::segment::{self, Dictionary, SegmentCheck};
use crate::store::{EVERYTHING, SegmentReader, SessionPart, StoreError, StoredTranscript};
use crate::tier::cold_file;
use ctxbridge_common::digest;

/// Unpacks segments, and caches the dictionaries for it.
#[derive(Debug, Default)]
pub(super) struct Unpacker {
    /// Dictionaries that were needed so far.
    dictionaries: HashMap<i64, Dictionary>,
    /// `true` if cold files are skipped.
    pub leaves_cold: bool,
}

/// Position of a segment in a transcript, for messages.
#[derive(Clone, Copy, Debug)]
pub(super) struct SegmentPosition {
    pub transcript: i64,
    pub start: u64,
}

/// A segment as it is stored.
struct StoredSegment {
    bytes: u32,
    sha256: digest::Sha256Digest,
    data: Vec<u8>,
    dictionary: Option<i64>,
}

/// Location of a segment in a cold file.
pub(super) struct FrameLocation {
    pub file: PathBuf,
    pub start: u64,
    pub bytes: u64,
}

impl Unpacker {
    /// The bytes of a segment.
    pub fn segment(
        &mut self,
        (db, path): (&Connection, &Path),
        id: i64,
        check: SegmentCheck,
        at: SegmentPosition,
    ) -> Result<Vec<u8>, StoreError> {
        let failed = |cause| explain(path, cause);
        let kept = kept(db, id).map_err(failed)?;
        if kept.data.is_empty() {
            return self.cold(&frame_locations(db, id).map_err(failed)?, &kept, path, at);
        }
        let dictionary = match kept.dictionary {
            Some(id) => Some(self.dictionary((db, path), id, at)?),
            None => None,
        };
        let wrong = |cause| wrong(path, at, cause);
        segment::unpack(&kept.data, kept.bytes, &kept.sha256, dictionary, check).map_err(wrong)
    }

    /// Unpacks data that was already read from the database.
    pub fn unpack(
        &mut self,
        (db, path): (&Connection, &Path),
        (data, bytes, sha256): (&[u8], u32, &digest::Sha256Digest),
        dictionary: Option<i64>,
        at: SegmentPosition,
    ) -> Result<Vec<u8>, StoreError> {
        let dictionary = match dictionary {
            Some(id) => Some(self.dictionary((db, path), id, at)?),
            None => None,
        };
        segment::unpack(data, bytes, sha256, dictionary, SegmentCheck::Sha256).map_err(|cause| wrong(path, at, cause))
    }

    /// Reads a segment from the first of these files that has it. Others can change files outside of the database, so the hash is
    /// always checked.
    fn cold(
        &self,
        places: &[FrameLocation],
        kept: &StoredSegment,
        path: &Path,
        at: SegmentPosition,
    ) -> Result<Vec<u8>, StoreError> {
        let mut first = None;
        for place in places {
            let cause = if self.leaves_cold {
                "hooks leave it alone, so that nobody waits for it".to_owned()
            } else {
                let read = cold_file::frame(&place.file, place.start, place.bytes).map_err(|error| error.to_string());
                match read.and_then(|data| segment::unpack(&data, kept.bytes, &kept.sha256, None, SegmentCheck::Sha256)) {
                    Ok(bytes) => return Ok(bytes),
                    Err(cause) => cause,
                }
            };
            first.get_or_insert(StoreError::Cold { file: place.file.clone(), cause });
        }
        Err(first.unwrap_or_else(|| wrong(path, at, "it has no bytes, and is in no cold file".to_owned())))
    }

    fn dictionary(&mut self, (db, path): (&Connection, &Path), id: i64, at: SegmentPosition) -> Result<&Dictionary, StoreError> {
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

fn wrong(path: &Path, at: SegmentPosition, cause: String) -> StoreError {
    StoreError::Segment { path: path.to_owned(), transcript: at.transcript, start: at.start, cause }
}

fn kept(db: &Connection, id: i64) -> Result<StoredSegment> {
    db.prepare_cached(
        "SELECT bytes, sha256, data, dictionary FROM segments LEFT JOIN warm ON warm.segment = segments.id WHERE segments.id = ?1",
    )?
    .query_row([id], |row| Ok(StoredSegment { bytes: row.get(0)?, sha256: row.get(1)?, data: row.get(2)?, dictionary: row.get(3)? }))
}

pub(super) fn frame_locations(db: &Connection, segment: i64) -> Result<Vec<FrameLocation>> {
    db.prepare_cached(
        "SELECT folder, name, start, cold.bytes FROM cold JOIN cold_files ON cold_files.id = file WHERE segment = ?1 ORDER BY file DESC",
    )?
    .query_map([segment], |row| {
        let file = PathBuf::from(row.get::<_, String>(0)?).join(row.get::<_, String>(1)?);
        Ok(FrameLocation { file, start: unsigned(row, 2)?, bytes: unsigned(row, 3)? })
    })?
    .collect()
}

/// `true` if a segment is in the database, and its bytes are those that were archived.
pub(super) fn is_sound(db: &Connection, id: i64) -> Result<bool> {
    let kept = kept(db, id)?;
    let dictionary = match kept.dictionary {
        None => None,
        Some(id) => {
            let sql = "SELECT data FROM dictionaries WHERE id = ?1";
            let data: Option<Vec<u8>> = db.prepare_cached(sql)?.query_row([id], |row| row.get(0)).optional()?;
            let Some(Ok(dictionary)) = data.map(|data| Dictionary::new(&data)) else { return Ok(false) };
            Some(dictionary)
        }
    };
    let unpacked = segment::unpack(&kept.data, kept.bytes, &kept.sha256, dictionary.as_ref(), SegmentCheck::Sha256);
    Ok(!kept.data.is_empty() && unpacked.is_ok())
}

/// `true` if a segment with this hash is still there.
pub(super) fn is_there(db: &Connection, id: i64, sha256: &digest::Sha256Digest) -> Result<bool> {
    let found: Option<digest::Sha256Digest> =
        db.prepare_cached("SELECT sha256 FROM segments WHERE id = ?1")?.query_row([id], |row| row.get(0)).optional()?;
    Ok(found.as_ref() == Some(sha256))
}

/// Transcript, start, length, hash, data and dictionary.
pub(super) type Packed = (i64, u64, u32, digest::Sha256Digest, Vec<u8>, Option<i64>);

pub(super) fn tail(db: &Connection, path: &str, below: u32) -> Result<Option<Packed>> {
    let sql = format!(
        "SELECT transcripts.id, layout.start, segments.bytes, sha256, iif(segments.bytes < ?2, data, x''),
            (SELECT dictionary FROM warm WHERE warm.segment = segments.id) {CURRENT_LAYOUT}
         ORDER BY layout.start DESC LIMIT 1"
    );
    let last = db
        .prepare_cached(&sql)?
        .query_row(params![path, below], |row| {
            Ok((row.get(0)?, unsigned(row, 1)?, row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?))
        })
        .optional()?;
    // To what is in cold storage nothing is joined: whoever archives does not wait for that.
    Ok(last.filter(|(_, _, bytes, _, data, _): &Packed| *bytes < below && !data.is_empty()))
}

/// The bytes that a transcript has in its newest generation; 0 for an older one, of which only the segments know it.
fn end_of(db: &Connection, transcript: i64, generation: u32) -> Result<u64> {
    db.prepare_cached("SELECT bytes FROM transcripts WHERE id = ?1 AND generation = ?2")?
        .query_row(params![transcript, generation], |row| unsigned(row, 0))
        .optional()
        .map(Option::unwrap_or_default)
}

/// A segment of a transcript: its start there, its key, length and hash.
pub(super) type PlacedSegment = (u64, i64, u32, digest::Sha256Digest);

/// The segments that a range touches.
pub(super) fn segments(db: &Connection, transcript: i64, generation: u32, range: (u64, u64)) -> Result<Vec<PlacedSegment>> {
    db.prepare_cached(
        "SELECT start, segment, bytes, sha256 FROM layout JOIN segments ON segments.id = segment
         WHERE transcript = ?1 AND generation = ?2 AND start < ?4 AND start + bytes > ?3 ORDER BY start",
    )?
    .query_map(params![transcript, generation, range.0.cast_signed(), signed(range.1)], |row| {
        Ok((unsigned(row, 0)?, row.get(1)?, row.get(2)?, row.get(3)?))
    })?
    .collect()
}

/// The side file of a transcript's session; the one that came last, where the session was moved and has several.
pub(in crate::store) fn side_file(db: &Connection, transcript: i64, path: &str) -> Result<Option<StoredTranscript>> {
    let part = SessionPart::SideFile(path.to_owned());
    db.prepare_cached(
        "SELECT id, path, generation, bytes FROM transcripts
         WHERE session = (SELECT session FROM transcripts WHERE id = ?1) AND agent = ?2 ORDER BY id DESC LIMIT 1",
    )?
    .query_row(params![transcript, part.to_column()], |row| {
        let (key, path, generation, bytes) = (row.get(0)?, row.get(1)?, row.get(2)?, unsigned(row, 3)?);
        Ok(StoredTranscript { key, path, part, generation, bytes })
    })
    .optional()
}

impl SegmentReader for SqliteStore {
    fn tail(&mut self, path: &str, below: u32) -> Result<Option<(u64, Vec<u8>)>, StoreError> {
        let Some((transcript, start, bytes, sha256, data, dictionary)) = self.query(|db| tail(db, path, below))? else {
            return Ok(None);
        };
        let Self { db, path, unpacker, .. } = self;
        let at = SegmentPosition { transcript, start };
        let bytes = unpacker.unpack((db, path), (&data, bytes, &sha256), dictionary, at)?;
        Ok(Some((start, bytes)))
    }

    fn side_file(&mut self, transcript: i64, path: &str) -> Result<Option<StoredTranscript>, StoreError> {
        self.query(|db| side_file(db, transcript, path))
    }

    fn read_bytes(
        &mut self,
        transcript: i64,
        generation: u32,
        range: (u64, u64),
        sink: &mut dyn std::io::Write,
    ) -> Result<(), StoreError> {
        let check = if range == EVERYTHING { SegmentCheck::Sha256 } else { SegmentCheck::Checksum };
        let Self { db, path, unpacked, unpacker, .. } = self;
        let failed = |cause| explain(path, cause);
        // All of it as it is now: another process may join the last piece with what follows it.
        let mut snapshot = db.unchecked_transaction().map_err(failed)?;
        let end = end_of(&snapshot, transcript, generation).map_err(failed)?.min(range.1);
        let mut covered = range.0;
        let missing = |start| wrong(path, SegmentPosition { transcript, start }, "its bytes are missing".to_owned());
        for (start, id, bytes, sha256) in segments(&snapshot, transcript, generation, range).map_err(failed)? {
            let at = SegmentPosition { transcript, start };
            if start > covered {
                return Err(missing(covered));
            }
            covered = covered.max(start + u64::from(bytes));
            // Turns come one after the other, and many of them are in one segment.
            let bytes = match unpacked.take() {
                Some((known, bytes)) if known == sha256 && check == SegmentCheck::Checksum => bytes,
                _ => match unpacker.segment((&snapshot, path), id, check, at) {
                    // It may have come back meanwhile. What is cold is not joined with anything, so it is the same segment.
                    Err(cold) if cold.is_cold() => {
                        drop(snapshot);
                        snapshot = db.unchecked_transaction().map_err(failed)?;
                        if !is_there(&snapshot, id, &sha256).map_err(failed)? {
                            return Err(cold);
                        }
                        unpacker.segment((&snapshot, path), id, check, at)?
                    }
                    read => read?,
                },
            };
            let clamp = |byte: u64| byte.saturating_sub(start).min(bytes.len() as u64) as usize;
            sink.write_all(bytes.get(clamp(range.0)..clamp(range.1)).unwrap_or_default())?;
            *unpacked = Some((sha256, bytes));
        }
        if covered < end { Err(missing(covered)) } else { Ok(()) }
    }
}
