/*!
An archive in memory, for a store that keeps its data in another form.

It has the same tables, and so the same answers. Segments have no bytes here. Keys of rows are valid only in this store, so a
journal has to use names that every store knows. The functions here translate between the two.
*/

use std::fs;
use std::io::Read;
use std::path::Path;
use std::sync::OnceLock;

use rusqlite::{Connection, MAIN_DB, OpenFlags, OptionalExtension, Result, params};

use super::{SqliteQueries, SqliteStore, explain, schema, segments};
use crate::store::StoreError;
use ctxbridge_common::digest;

/// Size of a journal from which on its archive is made anew. A copy of an image may not grow beyond a gigabyte.
const MAX_SMALL_JOURNAL_BYTES: u64 = 64 << 20;

/// Capacity of the statement cache: all statements that replaying a journal needs.
const STATEMENTS: usize = 128;

/// Name of a compaction outside of a store: session, time, turns before it, and its number among those that share all three.
pub(in crate::store) type CompactionName = (String, i64, u32, u32);

impl SqliteStore {
    /// An empty archive with the tables of some version, for a journal. `path` is that of the journal, which errors name.
    pub(in crate::store) fn in_memory(path: &Path, schema: u32) -> std::result::Result<Self, StoreError> {
        // With the newest tables. To make them takes longer than to read a small journal, so a process does it once.
        static EMPTY_IMAGE: OnceLock<Vec<u8>> = OnceLock::new();
        let is_large = || fs::metadata(path).is_ok_and(|journal| journal.len() > MAX_SMALL_JOURNAL_BYTES);
        if let Some(pages) = EMPTY_IMAGE.get().filter(|_| schema == Self::SCHEMA && !is_large()) {
            return Self::from_image(path, &mut pages.as_slice(), pages.len());
        }
        let open = || -> Result<Connection> {
            let db = Connection::open_in_memory_with_flags(OpenFlags::default() | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
            db.set_prepared_statement_cache_capacity(STATEMENTS);
            migrate(&db, 0, schema)?;
            db.pragma_update(None, "foreign_keys", true)?;
            Ok(db)
        };
        let mut made = Self::of(open().map_err(|cause| explain(path, cause))?, path.to_owned());
        if schema == Self::SCHEMA {
            made.with_image(&mut |pages| {
                EMPTY_IMAGE.get_or_init(|| pages.to_vec());
                Ok(())
            })?;
        }
        Ok(made)
    }

    /// Opens an archive from the pages that [`with_image`](Self::with_image) returned.
    pub(in crate::store) fn from_image(path: &Path, from: &mut dyn Read, bytes: usize) -> std::result::Result<Self, StoreError> {
        let open = || -> Result<Connection> {
            let mut db = Connection::open_in_memory_with_flags(OpenFlags::default() | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
            db.deserialize_read_exact(MAIN_DB, from, bytes, false)?;
            db.set_prepared_statement_cache_capacity(STATEMENTS);
            db.pragma_update(None, "foreign_keys", true)?;
            Ok(db)
        };
        let db = open().map_err(|cause| explain(path, cause))?;
        Ok(Self::of(db, path.to_owned()))
    }

    /// Hands over all pages.
    pub(in crate::store) fn with_image(
        &mut self,
        sink: &mut dyn FnMut(&[u8]) -> std::result::Result<(), StoreError>,
    ) -> std::result::Result<(), StoreError> {
        let Self { db, path, .. } = self;
        let pages = db.serialize(MAIN_DB).map_err(|cause| explain(path, cause))?;
        sink(&pages)
    }

    /// Brings the tables from some version to the newest.
    pub(in crate::store) fn migrate(&mut self, from: u32) -> std::result::Result<(), StoreError> {
        self.query(|db| migrate(db, from, Self::SCHEMA))
    }

    /// The newest version of the tables.
    pub(in crate::store) const SCHEMA: u32 = schema::MIGRATIONS.len() as u32;

    /// Begins one transaction for several changes, up to [`commit`](Self::commit) or
    /// [`roll_back`](Self::roll_back).
    pub(in crate::store) fn begin(&mut self) -> std::result::Result<(), StoreError> {
        self.query(|db| db.execute_batch("BEGIN"))
    }

    /// Commits the changes since [`begin`](Self::begin).
    pub(in crate::store) fn commit(&mut self) -> std::result::Result<(), StoreError> {
        self.query(|db| db.execute_batch("COMMIT"))
    }

    /// Rolls back the open transaction, if there is one.
    pub(in crate::store) fn roll_back(&mut self) -> std::result::Result<(), StoreError> {
        self.query(|db| if db.is_autocommit() { Ok(()) } else { db.execute_batch("ROLLBACK") })
    }

    /// Start, length and SHA-256 of the segments that a range of a generation touches.
    pub(in crate::store) fn segments_of(
        &mut self,
        transcript: i64,
        generation: u32,
        range: (u64, u64),
    ) -> std::result::Result<Vec<(u64, u32, digest::Sha256Digest)>, StoreError> {
        let found = self.query(|db| segments::segments(db, transcript, generation, range))?;
        Ok(found.into_iter().map(|(start, _, bytes, sha256)| (start, bytes, sha256)).collect())
    }

    /// Path, session and newest generation of a transcript.
    pub(in crate::store) fn transcript_of(
        &mut self,
        transcript: i64,
    ) -> std::result::Result<Option<(String, String, u32)>, StoreError> {
        self.query(|db| {
            db.prepare_cached(
                "SELECT path, sessions.session, generation FROM transcripts JOIN sessions ON sessions.id = transcripts.session
                 WHERE transcripts.id = ?1",
            )?
            .query_row([transcript], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
            .optional()
        })
    }

    /// All transcripts: each with its path, session and newest generation.
    pub(in crate::store) fn all_transcripts(&mut self) -> std::result::Result<Vec<(i64, String, String, u32)>, StoreError> {
        self.query(|db| {
            db.prepare_cached(
                "SELECT transcripts.id, path, sessions.session, generation FROM transcripts
                 JOIN sessions ON sessions.id = transcripts.session ORDER BY transcripts.id",
            )?
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))?
            .collect()
        })
    }

    /// The transcript with a path.
    pub(in crate::store) fn transcript_at(&mut self, path: &str) -> std::result::Result<Option<i64>, StoreError> {
        self.query(|db| {
            db.prepare_cached("SELECT id FROM transcripts WHERE path = ?1")?.query_row([path], |row| row.get(0)).optional()
        })
    }

    /// Returns the hashes of entries; missing entries are left out.
    pub(in crate::store) fn hashes(&mut self, entries: &[i64]) -> std::result::Result<Vec<digest::Sha256Digest>, StoreError> {
        self.query(|db| {
            let mut select = db.prepare_cached("SELECT sha256 FROM entries WHERE id = ?1")?;
            entries.iter().filter_map(|id| select.query_row([id], |row| row.get(0)).optional().transpose()).collect()
        })
    }

    /// Returns the entries with these hashes.
    pub(in crate::store) fn entries(&mut self, hashes: &[digest::Sha256Digest]) -> std::result::Result<Vec<i64>, StoreError> {
        self.query(|db| {
            let mut select = db.prepare_cached("SELECT id FROM entries WHERE sha256 = ?1")?;
            hashes.iter().filter_map(|hash| select.query_row([hash], |row| row.get(0)).optional().transpose()).collect()
        })
    }

    /// Returns the name of a compaction.
    pub(in crate::store) fn compaction_name(
        &mut self,
        compaction: i64,
    ) -> std::result::Result<Option<CompactionName>, StoreError> {
        self.query(|db| {
            db.prepare_cached(
                "SELECT sessions.session, at_ms, turns, (SELECT count(*) FROM compactions AS same WHERE same.session = compactions.session
                    AND same.at_ms = compactions.at_ms AND same.turns = compactions.turns AND same.id < compactions.id)
                 FROM compactions JOIN sessions ON sessions.id = compactions.session WHERE compactions.id = ?1",
            )?
            .query_row([compaction], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))
            .optional()
        })
    }

    /// Returns the compaction with this name.
    pub(in crate::store) fn compaction(
        &mut self,
        (session, at_ms, turns, number): &CompactionName,
    ) -> std::result::Result<Option<i64>, StoreError> {
        self.query(|db| {
            db.prepare_cached(
                "SELECT compactions.id FROM compactions JOIN sessions ON sessions.id = compactions.session
                 WHERE sessions.session = ?1 AND at_ms = ?2 AND turns = ?3 ORDER BY compactions.id LIMIT 1 OFFSET ?4",
            )?
            .query_row(params![session, at_ms, turns, number], |row| row.get(0))
            .optional()
        })
    }

    /// The newest change.
    pub(in crate::store) fn last_change(&mut self) -> std::result::Result<i64, StoreError> {
        self.query(|db| db.prepare_cached("SELECT max(id) FROM changes")?.query_row([], |row| row.get(0)))
    }

    /// Sets the salt of changes from one on. It is not random: every process that replays them must get the same.
    pub(in crate::store) fn salt_changes(&mut self, after: i64, salt: i64) -> std::result::Result<(), StoreError> {
        self.query(|db| db.prepare_cached("UPDATE changes SET salt = ?2 WHERE id > ?1")?.execute([after, salt]).map(drop))
    }

    /// Deletes the oldest changes.
    pub(in crate::store) fn forget_changes(&mut self) -> std::result::Result<(), StoreError> {
        self.write(super::changes::forget)
    }

    /// SHA-256s of the entries that are turns' contents.
    pub(in crate::store) fn contents(&mut self) -> std::result::Result<Vec<digest::Sha256Digest>, StoreError> {
        self.query(|db| {
            db.prepare_cached("SELECT sha256 FROM entries WHERE text IS NULL")?.query_map([], |row| row.get(0))?.collect()
        })
    }
}

fn migrate(db: &Connection, from: u32, to: u32) -> Result<()> {
    schema::MIGRATIONS[..to as usize].iter().skip(from as usize).try_for_each(|migration| db.execute_batch(migration))
}
