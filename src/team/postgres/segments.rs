//! The bytes of transcripts.

use std::collections::HashMap;
use std::io::Write;

use super::connection::Connection;
use super::error::PostgresError;
use super::read;
use ctxbridge_archive::segment::{self, Check};
use ctxbridge_archive::store::{EVERYTHING, StoreError};
use ctxbridge_common::digest;

/// How often a list of pieces is read anew, since another process joins the last one with what follows it. What takes its place has the same bytes.
const ATTEMPTS: u32 = 100;

/// What was read before and may be asked for again.
#[derive(Debug, Default)]
pub(super) struct Remembered {
    /// The piece that was read last: turns come one after the other, and many of them are in one.
    unpacked: Option<(digest::Bytes, Vec<u8>)>,
    /// The sessions of transcripts, which never change.
    sessions: HashMap<i64, i64>,
}

impl Remembered {
    /// The session of a transcript; nothing where there is none that may be seen.
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

    /// Writes bytes of a transcript.
    pub fn raw(
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
        'again: for _ in 0..ATTEMPTS {
            for (start, bytes, sha256) in read::pieces(db, session, transcript, generation, (next, range.1))? {
                let piece = match self.unpacked.take().filter(|(known, _)| *known == sha256 && range != EVERYTHING) {
                    Some((_, piece)) => piece,
                    None => {
                        let Some(packed) = read::packed(db, session, &sha256)? else { continue 'again };
                        // Somebody else may have written it.
                        segment::unpack(&packed, bytes, &sha256, None, Check::Sha256)
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

    /// Start and bytes of the last piece, if it is a short one.
    pub fn tail(&mut self, db: &mut Connection, path: &str, below: u32) -> Result<Option<(u64, Vec<u8>)>, StoreError> {
        for _ in 0..ATTEMPTS {
            let Some((transcript, session, start, bytes, sha256)) = read::tail(db, path, below)? else { return Ok(None) };
            if let Some(packed) = read::packed(db, session, &sha256)? {
                let unpacked = segment::unpack(&packed, bytes, &sha256, None, Check::Sha256);
                let piece = unpacked.map_err(|cause| damaged(db, transcript, start, cause))?;
                return Ok(Some((start, piece)));
            }
        }
        Ok(None)
    }
}

fn damaged(db: &Connection, transcript: i64, start: u64, cause: String) -> PostgresError {
    PostgresError::Segment { server: db.settings().server(), transcript, start, cause }
}
