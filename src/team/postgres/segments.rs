//! Reading the bytes of transcripts.

use std::collections::HashMap;
use std::io::Write;

use super::connection::Connection;
use super::error::PostgresError;
use super::row::escape_nul_in;
use super::{PostgresStore, read};
use ctxbridge_archive::segment::{self, SegmentCheck};
use ctxbridge_archive::store::{EVERYTHING, SegmentReader, SessionPart, StoreError, StoredTranscript};
use ctxbridge_common::digest;

/// Maximum reads of the segment list: another process may join the last one with the next. The result has the same bytes.
const MAX_LIST_ATTEMPTS: u32 = 100;

/// Cache of what was read before and may be needed again.
#[derive(Debug, Default)]
pub(super) struct SegmentCache {
    /// The segment that was read last: turns are read in sequence, and one segment has many of them.
    unpacked: Option<(digest::Sha256Digest, Vec<u8>)>,
    /// Sessions by transcript. They never change.
    sessions: HashMap<i64, i64>,
}

impl SegmentCache {
    /// The session of a transcript; `None` where there is none that this user may read.
    pub fn session_of(&mut self, db: &mut Connection, transcript: i64) -> Result<Option<i64>, PostgresError> {
        if let Some(known) = self.sessions.get(&transcript) {
            return Ok(Some(*known));
        }
        let found = read::session_of(db, transcript)?;
        if let Some(session) = found {
            self.sessions.insert(transcript, session);
        }
        Ok(found)
    }

    /// Writes a range of a transcript's bytes to a sink.
    pub fn read_bytes(
        &mut self,
        db: &mut Connection,
        transcript: i64,
        generation: u32,
        range: (u64, u64),
        sink: &mut dyn Write,
    ) -> Result<(), StoreError> {
        let Some(session) = self.session_of(db, transcript)? else { return Ok(()) };
        // What is written already is not written again.
        let mut next = range.0;
        'again: for _ in 0..MAX_LIST_ATTEMPTS {
            for (start, bytes, sha256) in read::pieces(db, session, transcript, generation, (next, range.1))? {
                let piece = match self.unpacked.take().filter(|(known, _)| *known == sha256 && range != EVERYTHING) {
                    Some((_, piece)) => piece,
                    None => {
                        let Some(packed) = read::packed(db, session, &sha256)? else { continue 'again };
                        // Somebody else may have written it.
                        segment::unpack(&packed, bytes, &sha256, None, SegmentCheck::Sha256)
                            .map_err(|cause| damaged(db, transcript, start, cause))?
                    }
                };
                let clamp = |byte: u64| byte.saturating_sub(start).min(piece.len() as u64) as usize;
                sink.write_all(piece.get(clamp(next)..clamp(range.1)).unwrap_or_default())?;
                next = next.max(start + u64::from(bytes));
                self.unpacked = Some((sha256, piece));
            }
            return Ok(());
        }
        Err(damaged(db, transcript, next, "its bytes are not there".to_owned()).into())
    }

    /// Start and bytes of the last segment, if it is shorter than `below`.
    pub fn tail(&mut self, db: &mut Connection, path: &str, below: u32) -> Result<Option<(u64, Vec<u8>)>, StoreError> {
        for _ in 0..MAX_LIST_ATTEMPTS {
            let Some((transcript, session, start, bytes, sha256)) = read::tail(db, path, below)? else { return Ok(None) };
            if let Some(packed) = read::packed(db, session, &sha256)? {
                let unpacked = segment::unpack(&packed, bytes, &sha256, None, SegmentCheck::Sha256);
                let piece = unpacked.map_err(|cause| damaged(db, transcript, start, cause))?;
                return Ok(Some((start, piece)));
            }
        }
        Ok(None)
    }
}

/// The side file of a transcript's session; the one that came last, where the session was moved and has several.
pub(super) fn side_file(db: &mut Connection, session: i64, path: &str) -> Result<Option<StoredTranscript>, PostgresError> {
    let part = SessionPart::SideFile(path.to_owned());
    let sql = "SELECT id, path, generation, bytes FROM ctxbridge.transcripts
        WHERE tenant = $1 AND session = $2 AND agent = $3 ORDER BY id DESC LIMIT 1";
    let found = db.first(sql, &[&session, &escape_nul_in(part.to_column().as_deref())])?;
    let Some(row) = found else { return Ok(None) };
    let (generation, bytes) = (row.unsigned_32(2)?, row.unsigned(3)?);
    Ok(Some(StoredTranscript { key: row.get(0)?, path: row.text(1)?, part, generation, bytes }))
}

impl SegmentReader for PostgresStore {
    fn tail(&mut self, path: &str, below: u32) -> Result<Option<(u64, Vec<u8>)>, StoreError> {
        let Self { pool, remembered, .. } = self;
        pool.with(|db| remembered.tail(db, path, below))
    }

    fn side_file(&mut self, transcript: i64, path: &str) -> Result<Option<StoredTranscript>, StoreError> {
        let Self { pool, remembered, .. } = self;
        pool.with(|db| match remembered.session_of(db, transcript)? {
            Some(session) => Ok(side_file(db, session, path)?),
            None => Ok(None),
        })
    }

    fn read_bytes(
        &mut self,
        transcript: i64,
        generation: u32,
        range: (u64, u64),
        sink: &mut dyn Write,
    ) -> Result<(), StoreError> {
        let Self { pool, remembered, .. } = self;
        pool.with(|db| remembered.read_bytes(db, transcript, generation, range, sink))
    }
}

fn damaged(db: &Connection, transcript: i64, start: u64, cause: String) -> PostgresError {
    PostgresError::Segment { server: db.settings().server(), transcript, start, cause }
}
