//! Access to segments one by one, to check their bytes and to put back those that are damaged. [`crate::heal`] decides.

use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use rusqlite::{Connection, OptionalExtension, Result, params};

use super::columns::{signed, unsigned};
use super::{SqliteQueries, SqliteStore, segments};
use crate::segment::{self, SegmentCheck};
use crate::store::StoreError;
use crate::tier::cold_file;
use ctxbridge_common::digest::{self, Sha256Digest};
use ctxbridge_common::files;

/// Key of the note with the last segment that a partial check reached.
const CHECKED_KEY: &str = "checked_segment";

/// A segment, without its bytes.
#[derive(Clone, Copy, Debug)]
pub struct SegmentKey {
    /// Key in the store.
    pub id: i64,
    /// SHA-256 of its bytes.
    pub sha256: Sha256Digest,
    /// Bytes, not compressed.
    pub bytes: u32,
    /// `true` if its bytes are only in a cold file.
    pub is_cold: bool,
}

/// A range of a transcript that consists of a segment.
#[derive(Clone, Debug)]
pub struct SegmentUse {
    /// The transcript.
    pub transcript: i64,
    /// The transcript's path, as the client had it.
    pub path: String,
    /// The session.
    pub session: String,
    /// The generation, from 0.
    pub generation: u32,
    /// `true` if it is the newest generation.
    pub is_current: bool,
    /// Offset of the range, in bytes.
    pub start: u64,
}

impl SqliteStore {
    /// Returns segments with a key above `after`, in order, at most `limit`.
    ///
    /// # Errors
    /// As every function here: when the database cannot be read or written.
    pub fn segments_after(&mut self, after: i64, limit: u32) -> std::result::Result<Vec<SegmentKey>, StoreError> {
        self.query(|db| {
            db.prepare_cached("SELECT id, sha256, bytes, length(data) = 0 FROM segments WHERE id > ?1 ORDER BY id LIMIT ?2")?
                .query_map(params![after, limit], key)?
                .collect()
        })
    }

    /// Returns the segments of a transcript's current generation, with their offsets, if it is archived.
    pub fn segments_of_path(&mut self, path: &str) -> std::result::Result<Vec<(u64, SegmentKey)>, StoreError> {
        self.query(|db| {
            db.prepare_cached(
                "SELECT segments.id, sha256, segments.bytes, length(data) = 0, layout.start
                 FROM transcripts JOIN layout ON layout.transcript = transcripts.id AND layout.generation = transcripts.generation
                 JOIN segments ON segments.id = layout.segment WHERE path = ?1 ORDER BY layout.start",
            )?
            .query_map([path], |row| Ok((unsigned(row, 4)?, key(row)?)))?
            .collect()
        })
    }

    /// Returns where a segment is used; current generations come first.
    pub fn segment_uses(&mut self, id: i64) -> std::result::Result<Vec<SegmentUse>, StoreError> {
        self.query(|db| {
            db.prepare_cached(
                "SELECT transcripts.id, path, session, layout.generation, layout.generation = transcripts.generation, start
                 FROM layout JOIN transcripts ON transcripts.id = layout.transcript
                 WHERE segment = ?1 ORDER BY layout.generation < transcripts.generation, transcripts.id, layout.generation",
            )?
            .query_map([id], |row| {
                let session: i64 = row.get(2)?;
                let sql = "SELECT session FROM sessions WHERE id = ?1";
                Ok(SegmentUse {
                    transcript: row.get(0)?,
                    path: row.get(1)?,
                    session: db.prepare_cached(sql)?.query_row([session], |row| row.get(0))?,
                    generation: row.get(3)?,
                    is_current: row.get(4)?,
                    start: unsigned(row, 5)?,
                })
            })?
            .collect()
        })
    }

    /// Returns the ids of the turns that need bytes of a range: of its first `bytes` bytes.
    pub fn turns_in(&mut self, range: &SegmentUse, bytes: u64) -> std::result::Result<Vec<[u8; 16]>, StoreError> {
        self.query(|db| {
            db.prepare_cached(
                "SELECT uuid FROM turns WHERE transcript = ?1 AND generation <= ?2
                    AND (superseded IS NULL OR superseded = -1 OR superseded > ?2)
                    AND turns.start < ?4 AND turns.start + turns.bytes > ?3 ORDER BY turns.start",
            )?
            .query_map(params![range.transcript, range.generation, signed(range.start), signed(range.start + bytes)], |row| {
                row.get(0)
            })?
            .collect()
        })
    }

    /// Puts the bytes of a damaged segment back. Returns `false` if they are not those that were archived, or the segment is gone.
    pub fn put_back(&mut self, key: &SegmentKey, bytes: &[u8]) -> std::result::Result<bool, StoreError> {
        if bytes.len() != key.bytes as usize || digest::sha256(bytes) != key.sha256 {
            return Ok(false);
        }
        let packed = segment::pack(0, bytes).map_err(StoreError::Sink)?;
        let [packed] = packed.as_slice() else { return Ok(false) };
        let done = self.write(|db| {
            db.prepare_cached("DELETE FROM warm WHERE segment = (SELECT id FROM segments WHERE id = ?1 AND sha256 = ?2)")?
                .execute(params![key.id, key.sha256])?;
            db.prepare_cached("UPDATE segments SET data = ?3 WHERE id = ?1 AND sha256 = ?2")?.execute(params![
                key.id,
                key.sha256,
                packed.data
            ])
        })?;
        // The cached bytes may be those that were damaged.
        self.unpacked = None;
        Ok(done > 0)
    }

    /// Returns the bytes of a segment from a cold file, if one has them.
    pub fn cold_copy(&mut self, key: &SegmentKey) -> std::result::Result<Option<Vec<u8>>, StoreError> {
        let places = self.query(|db| segments::frame_locations(db, key.id))?;
        let read = |place: &segments::FrameLocation| {
            let frame = cold_file::frame(&place.file, place.start, place.bytes).ok()?;
            segment::unpack(&frame, key.bytes, &key.sha256, None, SegmentCheck::Sha256).ok()
        };
        Ok(places.iter().find_map(read))
    }

    /// Returns the newest generation of a transcript.
    pub fn generation(&mut self, transcript: i64) -> std::result::Result<u32, StoreError> {
        self.query(|db| db.query_row("SELECT generation FROM transcripts WHERE id = ?1", [transcript], |row| row.get(0)))
    }

    /// Returns the last segment that a partial check reached; 0 if the next one begins with the first.
    pub fn checked_up_to(&mut self) -> std::result::Result<i64, StoreError> {
        self.query(|db| {
            let sql = "SELECT CAST(value AS INTEGER) FROM notes WHERE key = ?1";
            Ok(db.query_row(sql, [CHECKED_KEY], |row| row.get(0)).optional()?.unwrap_or(0))
        })
    }

    /// Records the last segment that a partial check reached.
    pub fn set_checked_up_to(&mut self, id: i64) -> std::result::Result<(), StoreError> {
        self.write(|db: &Connection| {
            db.execute(
                "INSERT INTO notes (key, value) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
                params![CHECKED_KEY, id.to_string()],
            )
            .map(drop)
        })
    }
}

/// Bytes of a file, if it has so many.
pub fn bytes_of_file(path: &Path, start: u64, bytes: u32) -> Option<Vec<u8>> {
    let mut file = files::open(path).ok().filter(|file| file.metadata().is_ok_and(|metadata| metadata.is_file()))?;
    file.seek(SeekFrom::Start(start)).ok()?;
    let mut read = Vec::with_capacity(bytes as usize);
    file.take(bytes.into()).read_to_end(&mut read).ok()?;
    (read.len() == bytes as usize).then_some(read)
}

/// Puts damaged segments of a transcript back from its file. Returns their number.
pub(super) fn heal_from_file(store: &mut SqliteStore, transcript: &str, file: &Path) -> std::result::Result<u64, StoreError> {
    let mut healed = 0;
    for (start, key) in store.segments_of_path(transcript)?.into_iter().filter(|(_, key)| !key.is_cold) {
        match store.segment_bytes(key.id, &key.sha256) {
            Err(error) if error.is_session_local() => {
                if let Some(bytes) = bytes_of_file(file, start, key.bytes) {
                    healed += u64::from(store.put_back(&key, &bytes)?);
                }
            }
            read => drop(read?),
        }
    }
    Ok(healed)
}

fn key(row: &rusqlite::Row<'_>) -> Result<SegmentKey> {
    Ok(SegmentKey { id: row.get(0)?, sha256: row.get(1)?, bytes: row.get(2)?, is_cold: row.get(3)? })
}
