//! Locations of segments' bytes, and moving them between tiers. [`crate::tier`] decides what is moved.
//!
//! They are in tables of their own. A column of `segments` after its data would be read through all pages of that data.

use rusqlite::{Connection, OptionalExtension, Result, params};

use super::columns::{PINNED_TURNS, unsigned};
use super::segments::{self, SegmentPosition};
use super::{SqliteQueries, SqliteStore, explain};
use crate::segment::SegmentCheck;
use crate::store::{ColdFile, ColdFolder, StoreError, TierReader, TierSize};
use crate::tier::cold_file::{Frame, Generation, StoredSegmentRef};
use crate::tier::{SessionUsage, Tier};
use ctxbridge_common::digest;

/// SQL expression: `true` if a row of `segments` has its bytes in the database, as hooks put them there.
const IS_HOT: &str = "length(data) > 0 AND NOT EXISTS (SELECT 1 FROM warm WHERE warm.segment = segments.id)";

/// SQL expression: `true` if a session that is not cold needs a row of `segments`.
const IS_NEEDED: &str = "EXISTS (SELECT 1 FROM layout JOIN transcripts ON transcripts.id = layout.transcript
    WHERE layout.segment = segments.id AND transcripts.session NOT IN (SELECT session FROM cold_files))";

/// A session, and its usage.
#[derive(Clone, Debug)]
pub struct KnownSession {
    /// Key in the store.
    pub key: i64,
    /// The client's id.
    pub session: String,
    /// Data that decides its tier.
    pub known: SessionUsage,
}

/// A segment that may be recompressed.
#[derive(Clone, Debug)]
pub struct RepackCandidate {
    /// Key in the store.
    pub id: i64,
    /// SHA-256 of its bytes.
    pub sha256: digest::Sha256Digest,
    /// Bytes, uncompressed.
    pub bytes: u64,
    /// Bytes, compressed.
    pub packed: u64,
}

/// Replacement of a segment.
#[derive(Clone, Debug)]
pub struct Repacked {
    /// Key of the segment in the store.
    pub id: i64,
    /// SHA-256 of its bytes.
    pub sha256: digest::Sha256Digest,
    /// A zstd frame, and the dictionary that it needs; `None` if the stored one is as good.
    pub data: Option<(Vec<u8>, Option<i64>)>,
}

impl SqliteStore {
    /// Returns all sessions, with the data that decides their tiers.
    ///
    /// # Errors
    /// As every function here: when the database cannot be read or written.
    pub fn known_sessions(&mut self) -> Result<Vec<KnownSession>, StoreError> {
        self.query(known_sessions)
    }

    /// Returns the segments that have bytes in the database, are not recompressed yet, and belong to no other session than these.
    pub fn warm_candidates(&mut self, sessions: &[i64]) -> Result<Vec<RepackCandidate>, StoreError> {
        self.query(|db| candidates(db, sessions, IS_HOT))
    }

    /// Like [`warm_candidates`](Self::warm_candidates), but includes segments that are recompressed already.
    pub fn idle_segments(&mut self, sessions: &[i64]) -> Result<Vec<RepackCandidate>, StoreError> {
        self.query(|db| candidates(db, sessions, "length(data) > 0"))
    }

    /// Returns the bytes of a segment, checked against its SHA-256, or `None` if it is gone.
    pub fn segment_bytes(&mut self, id: i64, sha256: &digest::Sha256Digest) -> Result<Option<Vec<u8>>, StoreError> {
        let Self { db, path, unpacker, .. } = self;
        let failed = |cause| explain(path, cause);
        let snapshot = db.unchecked_transaction().map_err(failed)?;
        if !segments::is_there(&snapshot, id, sha256).map_err(failed)? {
            return Ok(None);
        }
        let at = whereabouts(&snapshot, id).map_err(failed)?;
        unpacker.segment((&snapshot, path), id, SegmentCheck::Sha256, at).map(Some)
    }

    /// Returns the newest dictionary: its id, its data, and the bytes of segments there were when it was made.
    pub fn dictionary(&mut self) -> Result<Option<(i64, Vec<u8>, u64)>, StoreError> {
        self.query(|db| {
            db.query_row("SELECT id, data, seen FROM dictionaries ORDER BY id DESC LIMIT 1", [], |row| {
                Ok((row.get(0)?, row.get(1)?, unsigned(row, 2)?))
            })
            .optional()
        })
    }

    /// Saves a dictionary.
    pub fn add_dictionary(&mut self, data: &[u8], seen: u64) -> Result<i64, StoreError> {
        self.write(|db| {
            db.query_row(
                "INSERT INTO dictionaries (data, seen) VALUES (?1, ?2) RETURNING id",
                params![data, seen.cast_signed()],
                |row| row.get(0),
            )
        })
    }

    /// Records that the newest dictionary is good enough for `seen` bytes of segments as well.
    pub fn dictionary_will_do(&mut self, id: i64, seen: u64) -> Result<(), StoreError> {
        self.write(|db| db.execute("UPDATE dictionaries SET seen = ?2 WHERE id = ?1", params![id, seen.cast_signed()]).map(drop))
    }

    /// Deletes dictionaries that nothing needs, except the newest.
    pub fn forget_dictionaries(&mut self) -> Result<(), StoreError> {
        let old =
            "id < (SELECT max(id) FROM dictionaries) AND NOT EXISTS (SELECT 1 FROM warm WHERE dictionary = dictionaries.id)";
        // To look costs no lock.
        let is_there = format!("SELECT EXISTS (SELECT 1 FROM dictionaries WHERE {old})");
        if self.query(|db| db.query_row(&is_there, [], |row| row.get(0)))? {
            self.write(|db| db.execute(&format!("DELETE FROM dictionaries WHERE {old}"), []).map(drop))?;
        }
        Ok(())
    }

    /// Replaces segments by recompressed ones, if they have not changed since. Returns for each `true` if it was replaced.
    pub fn repack(&mut self, repacked: &[Repacked]) -> Result<Vec<bool>, StoreError> {
        self.write(|db| repacked.iter().map(|segment| repack(db, segment)).collect())
    }

    /// All generations of all transcripts of a session, in the order of a cold file.
    pub fn generations(&mut self, session: i64) -> Result<Vec<Generation>, StoreError> {
        self.query(|db| generations(&*db.unchecked_transaction()?, session))
    }

    /// Returns the bytes that the segments of a session take in the database.
    pub fn packed_bytes(&mut self, session: i64) -> Result<u64, StoreError> {
        self.query(|db| {
            db.prepare_cached(
                "SELECT coalesce(sum(length(data)), 0) FROM segments WHERE id IN
                    (SELECT segment FROM layout WHERE transcript IN (SELECT id FROM transcripts WHERE session = ?1))",
            )?
            .query_row([session], |row| unsigned(row, 0))
        })
    }

    /// The file that a session was moved to.
    pub fn cold_file(&mut self, session: i64) -> Result<Option<ColdFile>, StoreError> {
        self.query(|db| Ok(cold_files(db, Some(session))?.pop()))
    }

    /// Returns the cold files of all sessions.
    pub fn cold_files(&mut self) -> Result<Vec<ColdFile>, StoreError> {
        self.query(|db| cold_files(db, None))
    }

    /// Records that a session is in a cold file, if it still has exactly these generations. Its segments can then be read from
    /// there.
    pub fn add_cold_file(
        &mut self,
        session: i64,
        file: &ColdFile,
        generations: &[Generation],
        frames: &[Frame],
    ) -> Result<bool, StoreError> {
        self.write(|db| {
            if self::generations(db, session)? != generations {
                return Ok(false);
            }
            // The one before, if it was moved already: what was only there is in the new one.
            db.execute("DELETE FROM cold_files WHERE session = ?1", [session])?;
            let id: i64 = db.query_row(
                "INSERT INTO cold_files (session, folder, name, bytes, moved_ms) VALUES (?1, ?2, ?3, ?4, ?5) RETURNING id",
                params![session, file.folder, file.name, file.bytes.cast_signed(), file.moved_ms],
                |row| row.get(0),
            )?;
            let mut insert = db.prepare_cached("INSERT INTO cold (segment, file, start, bytes) VALUES (?1, ?2, ?3, ?4)")?;
            for frame in frames {
                insert.execute(params![frame.segment, id, frame.start.cast_signed(), frame.bytes.cast_signed()])?;
            }
            Ok(true)
        })
    }

    /// Returns the segments of a session's cold file whose bytes are still in the database, though only cold sessions need them;
    /// with SHA-256, length, compressed bytes, and the position in the file.
    pub fn evictable_segments(&mut self, session: i64) -> Result<Vec<(StoredSegmentRef, u64, Frame)>, StoreError> {
        self.query(|db| {
            db.prepare_cached(&format!(
                "SELECT segments.id, segments.bytes, sha256, length(data), cold.start, cold.bytes
                 FROM cold_files JOIN cold ON cold.file = cold_files.id JOIN segments ON segments.id = cold.segment
                 WHERE cold_files.session = ?1 AND length(data) > 0 AND NOT {IS_NEEDED} ORDER BY cold.start"
            ))?
            .query_map([session], |row| {
                let segment = row.get(0)?;
                let wanted = StoredSegmentRef { id: segment, start: 0, bytes: row.get(1)?, sha256: row.get(2)? };
                Ok((wanted, unsigned(row, 3)?, Frame { segment, start: unsigned(row, 4)?, bytes: unsigned(row, 5)? }))
            })?
            .collect()
        })
    }

    /// Removes the bytes of these segments from the database, if they are in a cold file and no session needs them here.
    pub fn evict_segments(&mut self, segments: &[i64]) -> Result<(), StoreError> {
        let sql = format!(
            "UPDATE segments SET data = x'' WHERE id = ?1 AND length(data) > 0 AND NOT {IS_NEEDED}
             AND EXISTS (SELECT 1 FROM cold WHERE cold.segment = segments.id)"
        );
        self.write(|db| {
            for id in segments {
                if db.prepare_cached(&sql)?.execute([id])? > 0 {
                    db.prepare_cached("DELETE FROM warm WHERE segment = ?1")?.execute([id])?;
                }
            }
            Ok(())
        })
    }

    /// Returns the segments that are missing in the database for a session to leave the cold tier: its own, and those that are only
    /// in its file.
    pub fn missing_segments(&mut self, session: i64) -> Result<Vec<StoredSegmentRef>, StoreError> {
        self.query(|db| {
            db.prepare_cached(
                "SELECT id, bytes, sha256 FROM segments WHERE length(data) = 0 AND id IN (
                    SELECT segment FROM layout WHERE transcript IN (SELECT id FROM transcripts WHERE session = ?1)
                    UNION SELECT segment FROM cold WHERE file IN (SELECT id FROM cold_files WHERE session = ?1))",
            )?
            .query_map([session], |row| {
                Ok(StoredSegmentRef { id: row.get(0)?, start: 0, bytes: row.get(1)?, sha256: row.get(2)? })
            })?
            .collect()
        })
    }

    /// Puts the bytes of segments back into the database.
    pub fn restore_segments(&mut self, segments: &[(StoredSegmentRef, Vec<u8>)]) -> Result<(), StoreError> {
        self.write(|db| {
            for (wanted, data) in segments {
                db.prepare_cached("UPDATE segments SET data = ?3 WHERE id = ?1 AND sha256 = ?2 AND length(data) = 0")?
                    .execute(params![wanted.id, wanted.sha256, data])?;
            }
            Ok(())
        })
    }

    /// Records that a session is no longer cold, if all of it is in the database.
    pub fn remove_cold_file(&mut self, session: i64) -> Result<bool, StoreError> {
        let is_whole = "SELECT NOT EXISTS (SELECT 1 FROM segments WHERE length(data) = 0 AND id IN (
            SELECT segment FROM layout WHERE transcript IN (SELECT id FROM transcripts WHERE session = ?1)
            UNION SELECT segment FROM cold WHERE file IN (SELECT id FROM cold_files WHERE session = ?1)))";
        self.write(|db| {
            if !db.query_row(is_whole, [session], |row| row.get(0))? {
                return Ok(false);
            }
            db.execute("DELETE FROM cold_files WHERE session = ?1", [session]).map(|_| true)
        })
    }

    /// Records that a cold file is in another folder now.
    pub fn move_cold_file(&mut self, session: i64, folder: &str) -> Result<(), StoreError> {
        self.write(|db| db.execute("UPDATE cold_files SET folder = ?2 WHERE session = ?1", params![session, folder]).map(drop))
    }

    /// Returns the bytes of the database, and the free bytes among them.
    pub fn free_bytes(&mut self) -> Result<(u64, u64), StoreError> {
        self.query(|db| {
            db.query_row(
                "SELECT page_count * page_size, freelist_count * page_size
                 FROM pragma_page_count, pragma_freelist_count, pragma_page_size",
                [],
                |row| Ok((unsigned(row, 0)?, unsigned(row, 1)?)),
            )
        })
    }

    /// Shrinks the file to its content. All other processes wait meanwhile.
    pub fn shrink(&mut self) -> Result<(), StoreError> {
        self.query(|db| db.execute_batch("VACUUM"))
    }
}

fn known_sessions(db: &Connection) -> Result<Vec<KnownSession>> {
    let sql = format!(
        "WITH restored (session, ms) AS (
            SELECT transcripts.session, max(accessed_ms) FROM entries CROSS JOIN turns ON turns.entry = entries.id
            CROSS JOIN transcripts ON transcripts.id = turns.transcript WHERE access_count > 0 GROUP BY transcripts.session
         )
         SELECT sessions.id, sessions.session, nullif(max(coalesce(last_ms, 0), coalesce(restored.ms, 0)), 0), moved_ms,
            cold_files.id IS NOT NULL AND EXISTS (
                SELECT 1 FROM transcripts JOIN layout ON layout.transcript = transcripts.id WHERE transcripts.session = sessions.id
                AND NOT EXISTS (SELECT 1 FROM cold WHERE cold.segment = layout.segment AND cold.file = cold_files.id)),
            sessions.id IN (SELECT transcripts.session FROM {PINNED_TURNS} JOIN transcripts ON transcripts.id = turns.transcript)
         FROM sessions LEFT JOIN restored ON restored.session = sessions.id LEFT JOIN cold_files ON cold_files.session = sessions.id
         WHERE EXISTS (SELECT 1 FROM transcripts WHERE transcripts.session = sessions.id) ORDER BY last_ms"
    );
    db.prepare_cached(&sql)?
        .query_map([], |row| {
            let known =
                SessionUsage { used_ms: row.get(2)?, moved_ms: row.get(3)?, has_grown: row.get(4)?, has_kept: row.get(5)? };
            Ok(KnownSession { key: row.get(0)?, session: row.get(1)?, known })
        })?
        .collect()
}

/// Returns segments that belong to no other sessions than these, and meet a condition.
fn candidates(db: &Connection, sessions: &[i64], condition: &'static str) -> Result<Vec<RepackCandidate>> {
    let sql = format!(
        "SELECT id, sha256, bytes, length(data) FROM segments WHERE {condition} AND NOT EXISTS (
            SELECT 1 FROM layout JOIN transcripts ON transcripts.id = layout.transcript
            WHERE layout.segment = segments.id AND transcripts.session NOT IN (SELECT value FROM json_each(?1)))
         ORDER BY id"
    );
    let sessions = serde_json::Value::from(sessions).to_string();
    db.prepare_cached(&sql)?
        .query_map([sessions], |row| {
            Ok(RepackCandidate { id: row.get(0)?, sha256: row.get(1)?, bytes: unsigned(row, 2)?, packed: unsigned(row, 3)? })
        })?
        .collect()
}

/// Returns the position of a segment in any transcript that has it.
fn whereabouts(db: &Connection, segment: i64) -> Result<SegmentPosition> {
    let found = db
        .prepare_cached("SELECT transcript, start FROM layout WHERE segment = ?1 LIMIT 1")?
        .query_row([segment], |row| Ok(SegmentPosition { transcript: row.get(0)?, start: unsigned(row, 1)? }))
        .optional()?;
    Ok(found.unwrap_or(SegmentPosition { transcript: 0, start: 0 }))
}

/// The same content is the same segment, however it is compressed. So only its presence, and that it is not yet warm, is checked.
fn repack(db: &Connection, segment: &Repacked) -> Result<bool> {
    let is_hot = format!("SELECT 1 FROM segments WHERE id = ?1 AND sha256 = ?2 AND {IS_HOT}");
    if !db.prepare_cached(&is_hot)?.exists(params![segment.id, segment.sha256])? {
        return Ok(false);
    }
    let dictionary = segment.data.as_ref().and_then(|(_, dictionary)| *dictionary);
    if let Some((data, _)) = &segment.data {
        db.prepare_cached("UPDATE segments SET data = ?2 WHERE id = ?1")?.execute(params![segment.id, data])?;
    }
    db.prepare_cached("INSERT INTO warm (segment, dictionary) VALUES (?1, ?2)")?.execute(params![segment.id, dictionary])?;
    Ok(true)
}

/// The current generation of the largest transcript first, then those of others, of files beside them, then earlier generations.
fn generations(db: &Connection, session: i64) -> Result<Vec<Generation>> {
    let mut found: Vec<Generation> = Vec::new();
    let mut select = db.prepare_cached(
        "SELECT transcripts.id, path, agent, layout.generation, start, segments.id, segments.bytes, sha256
         FROM transcripts JOIN layout ON layout.transcript = transcripts.id JOIN segments ON segments.id = layout.segment
         WHERE session = ?1
         ORDER BY layout.generation < transcripts.generation, agent IS NOT NULL, agent GLOB '/*', transcripts.bytes DESC, transcripts.id,
            layout.generation DESC, start",
    )?;
    let mut rows = select.query([session])?;
    while let Some(row) = rows.next()? {
        let (transcript, number) = (row.get(0)?, row.get(3)?);
        if found.last().is_none_or(|last| (last.transcript, last.number) != (transcript, number)) {
            found.push(Generation { transcript, path: row.get(1)?, agent: row.get(2)?, number, segments: Vec::new() });
        }
        let wanted = StoredSegmentRef { start: unsigned(row, 4)?, id: row.get(5)?, bytes: row.get(6)?, sha256: row.get(7)? };
        if let Some(last) = found.last_mut() {
            last.segments.push(wanted);
        }
    }
    Ok(found)
}

/// Returns the cold files of all sessions, or of one.
fn cold_files(db: &Connection, session: Option<i64>) -> Result<Vec<ColdFile>> {
    let condition = if session.is_some() { "session = ?1" } else { "?1 IS NULL" };
    let sql = format!(
        "SELECT session, folder, name, bytes, moved_ms FROM cold_files WHERE {condition} ORDER BY moved_ms DESC, id DESC"
    );
    db.prepare_cached(&sql)?
        .query_map([session], |row| {
            Ok(ColdFile {
                session: row.get(0)?,
                folder: row.get(1)?,
                name: row.get(2)?,
                bytes: unsigned(row, 3)?,
                moved_ms: row.get(4)?,
            })
        })?
        .collect()
}

/// Returns the size of each tier: hot, warm, cold.
pub(super) fn tiers(db: &Connection) -> Result<Vec<TierSize>> {
    let mut sizes = Tier::ALL.map(|tier| TierSize { tier, sessions: 0, segments: 0, bytes_raw: 0, bytes_stored: 0 });
    let sql = "SELECT iif(length(data) = 0, 2, EXISTS (SELECT 1 FROM warm WHERE warm.segment = segments.id)) AS place,
            count(*), sum(bytes), sum(length(data)) FROM segments GROUP BY place";
    let mut select = db.prepare_cached(sql)?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        let size = &mut sizes[usize::from(row.get::<_, u8>(0)?)];
        (size.segments, size.bytes_raw, size.bytes_stored) = (unsigned(row, 1)?, unsigned(row, 2)?, unsigned(row, 3)?);
    }
    sizes[2].bytes_stored = db.query_row("SELECT coalesce(sum(bytes), 0) FROM cold_files", [], |row| unsigned(row, 0))?;
    let keys: Vec<i64> =
        db.prepare_cached("SELECT DISTINCT session FROM transcripts")?.query_map([], |row| row.get(0))?.collect::<Result<_>>()?;
    for key in keys {
        sizes[tier(db, key)? as usize].sessions += 1;
    }
    Ok(sizes.into())
}

pub(super) fn tier(db: &Connection, session: i64) -> Result<Tier> {
    if db.prepare_cached("SELECT 1 FROM cold_files WHERE session = ?1")?.exists([session])? {
        return Ok(Tier::Cold);
    }
    // Nothing at all is hot.
    let sql = format!(
        "SELECT count(*), coalesce(sum({IS_HOT}), 0) FROM segments WHERE id IN
            (SELECT segment FROM layout WHERE transcript IN (SELECT id FROM transcripts WHERE session = ?1))"
    );
    let (all, hot): (i64, i64) = db.prepare_cached(&sql)?.query_row([session], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(if all > 0 && hot == 0 { Tier::Warm } else { Tier::Hot })
}

impl TierReader for SqliteStore {
    fn tiers(&mut self) -> Result<Vec<TierSize>, StoreError> {
        self.query(|db| tiers(&*db.unchecked_transaction()?))
    }

    fn tier(&mut self, session: i64) -> Result<Tier, StoreError> {
        self.query(|db| tier(db, session))
    }

    fn cold_folders(&mut self) -> Result<Vec<ColdFolder>, StoreError> {
        self.query(|db| {
            db.prepare_cached("SELECT folder, count(*), sum(bytes) FROM cold_files GROUP BY folder ORDER BY folder")?
                .query_map([], |row| Ok(ColdFolder { folder: row.get(0)?, files: unsigned(row, 1)?, bytes: unsigned(row, 2)? }))?
                .collect()
        })
    }
}
