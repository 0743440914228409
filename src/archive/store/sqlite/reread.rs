//! Access for reading transcripts in again whose bytes were saved from a damaged archive. [`crate::recovery`] decides which.

use rusqlite::{OptionalExtension, params};

use super::salvage::{self, Hole};
use super::{SqliteQueries, SqliteStore};
use crate::store::{SessionPart, StoreError, Transcript};
use ctxbridge_common::digest;
use ctxbridge_transcript::Interpreter;

impl SqliteStore {
    /// Returns the identity and the generation of a transcript.
    ///
    /// # Errors
    /// As every function here: when the database cannot be read or written.
    pub fn identity_of(&mut self, key: i64) -> Result<Option<(Transcript, u32)>, StoreError> {
        self.query(|db| {
            let sql = "SELECT path, sessions.session, agent, generation FROM transcripts
                JOIN sessions ON sessions.id = transcripts.session WHERE transcripts.id = ?1";
            db.query_row(sql, [key], |row| {
                let part = SessionPart::from_column(row.get(2)?);
                Ok((Transcript { path: row.get(0)?, session: row.get(1)?, part }, row.get(3)?))
            })
            .optional()
        })
    }

    /// Returns the id of a session.
    pub fn session_name(&mut self, key: i64) -> Result<Option<String>, StoreError> {
        self.query(|db| db.query_row("SELECT session FROM sessions WHERE id = ?1", [key], |row| row.get(0)).optional())
    }

    /// `true` if a transcript with this path is known.
    pub fn has_transcript(&mut self, path: &str) -> Result<bool, StoreError> {
        self.query(|db| db.prepare("SELECT 1 FROM transcripts WHERE path = ?1")?.exists([path]))
    }

    /// Forgets how far a transcript was read, and its turns in the current generation. The segments stay until others replace them.
    pub fn begin_again(&mut self, key: i64) -> Result<(), StoreError> {
        let interpreter = serde_json::to_string(&Interpreter::default()).map_err(std::io::Error::from)?;
        self.write(|db| {
            db.execute("DELETE FROM turns WHERE transcript = ?1 AND (superseded IS NULL OR superseded = -1)", [key])?;
            db.execute(
                "UPDATE transcripts SET bytes = 0, bad_lines = 0, checked = ?2, interpreter = ?3 WHERE id = ?1",
                params![key, digest::sha256(&[]), interpreter],
            )
            .map(drop)
        })
    }

    /// Has the next pass over a transcript compare all of it with what is archived, and archive what differs.
    pub fn distrust(&mut self, key: i64) -> Result<(), StoreError> {
        // No bytes have this hash.
        let none = [0_u8; 32];
        self.write(|db| db.execute("UPDATE transcripts SET checked = ?2 WHERE id = ?1", params![key, none]).map(drop))
    }

    /// Bytes of transcripts that no segment has: a salvage could not save them.
    pub fn holes(&mut self) -> Result<Vec<Hole>, StoreError> {
        self.query(salvage::holes)
    }

    /// Removes segments that no transcript has.
    pub fn forget_unused_segments(&mut self) -> Result<(), StoreError> {
        let sql = "DELETE FROM segments WHERE NOT EXISTS (SELECT 1 FROM layout WHERE segment = segments.id)";
        self.write(|db| db.execute(sql, []).map(drop))
    }

    /// Returns the bytes of a segment, checked against its SHA-256; `None` if they are gone or damaged.
    pub fn bytes_of_segment(&mut self, id: i64) -> Result<Option<Vec<u8>>, StoreError> {
        let sha256 =
            self.query(|db| db.query_row("SELECT sha256 FROM segments WHERE id = ?1", [id], |row| row.get(0)).optional())?;
        let Some(sha256) = sha256 else { return Ok(None) };
        match self.segment_bytes(id, &sha256) {
            Err(error) if error.is_session_local() => Ok(None),
            read => read,
        }
    }
}
