//! Removal of sessions, with all that only they have.

use std::collections::BTreeSet;
use std::path::PathBuf;

use rusqlite::types::FromSql;
use rusqlite::{Connection, OptionalExtension, Result, ToSql, params};

use super::{SqliteQueries, SqliteStore, explain};
use crate::segment;
use crate::store::{MaintenanceStore, StoreError};
use ctxbridge_common::digest;

/// Rows that sessions which were removed had, and maybe others as well.
#[derive(Debug, Default)]
pub(crate) struct RemovedRows {
    segments: BTreeSet<i64>,
    entries: BTreeSet<i64>,
    learnings: BTreeSet<i64>,
    turns: BTreeSet<[u8; 16]>,
    /// Files in cold storage, which nothing needs once the transaction is committed.
    pub cold_files: Vec<PathBuf>,
}

impl SqliteStore {
    /// Runs several changes in one transaction: all of them, or none.
    pub(crate) fn atomically<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T, StoreError>) -> Result<T, StoreError> {
        // What is deleted is overwritten at once.
        self.query(|db| db.pragma_update(None, "secure_delete", true))?;
        let Self { db, path, .. } = self;
        super::retrying(|| db.execute_batch("BEGIN IMMEDIATE").map_err(|cause| explain(path, cause)))?;
        let done = work(self).and_then(|done| self.commit().map(|()| done));
        if done.is_err() {
            self.roll_back().ok();
        }
        done
    }

    /// Removes a session; what only it had goes with [`Self::remove_orphans`].
    pub(crate) fn remove_session(&mut self, session: &str, removed: &mut RemovedRows) -> Result<(), StoreError> {
        self.query(|db| {
            let sql = "SELECT id FROM sessions WHERE session = ?1";
            let key: Option<i64> = db.query_row(sql, [session], |row| row.get(0)).optional()?;
            key.map_or(Ok(()), |key| remove(db, key, removed))
        })
    }

    /// The files in cold storage.
    pub(crate) fn cold_paths(&mut self) -> Result<BTreeSet<PathBuf>, StoreError> {
        self.query(|db| {
            let path = |row: &rusqlite::Row<'_>| Ok(PathBuf::from(row.get::<_, String>(0)?).join(row.get::<_, String>(1)?));
            db.prepare("SELECT folder, name FROM cold_files")?.query_map([], path)?.collect()
        })
    }

    /// Removes the rows that sessions had which were removed, unless another session has them, too.
    pub(crate) fn remove_orphans(&mut self, removed: &RemovedRows) -> Result<(), StoreError> {
        self.query(|db| {
            each(
                db,
                "DELETE FROM segments WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM layout WHERE segment = ?1)",
                &removed.segments,
            )?;
            let has_learning = "EXISTS (SELECT 1 FROM learned WHERE learning = ?1)";
            each(
                db,
                &format!("UPDATE learnings SET superseded_by = NULL WHERE superseded_by = ?1 AND NOT {has_learning}"),
                &removed.learnings,
            )?;
            each(db, &format!("DELETE FROM learning_words WHERE rowid = ?1 AND NOT {has_learning}"), &removed.learnings)?;
            each(db, &format!("DELETE FROM learnings WHERE id = ?1 AND NOT {has_learning}"), &removed.learnings)?;
            each(
                db,
                "DELETE FROM entries WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM turns WHERE entry = ?1)
                     AND NOT EXISTS (SELECT 1 FROM compactions WHERE summary = ?1)",
                &removed.entries,
            )?;
            each(
                db,
                "DELETE FROM kept WHERE uuid = ?1
                     AND NOT EXISTS (SELECT 1 FROM turns WHERE substr(uuid, 1, 4) = substr(?1, 1, 4) AND uuid = ?1)",
                &removed.turns,
            )
        })
    }

    /// Overwrites what is left of removed rows in the file: in dictionaries, in word lists, in free pages, in the log.
    ///
    /// # Errors
    /// If another process has the archive open, or it cannot be written. Nothing is lost then, and it can be done again.
    pub(crate) fn scrub(&mut self) -> Result<(), StoreError> {
        self.remove_dictionaries()?;
        self.query(|db| {
            for table in ["learning_words", "snapshot_words"] {
                db.execute(&format!("INSERT INTO {table} ({table}) VALUES ('optimize')"), [])?;
            }
            db.execute_batch("VACUUM")
        })?;
        self.unpacked = None;
        self.checkpoint()?;
        self.query(|db| db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, bool>(0)))
            .and_then(|is_busy| if is_busy { Err(StoreError::Busy { path: self.path.clone() }) } else { Ok(()) })
    }

    /// Packs all segments without a dictionary, and drops the dictionaries: they are made of pieces of what was archived.
    fn remove_dictionaries(&mut self) -> Result<(), StoreError> {
        let warm: Vec<(i64, digest::Sha256Digest)> = self.query(|db| {
            db.prepare(
                "SELECT segments.id, sha256 FROM warm JOIN segments ON segments.id = segment
                 WHERE dictionary IS NOT NULL AND length(data) > 0",
            )?
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect()
        })?;
        for (id, sha256) in warm {
            let Some(bytes) = self.segment_bytes(id, &sha256)? else { continue };
            let data = segment::compress(&bytes)?;
            self.write(|db| {
                db.execute("UPDATE segments SET data = ?2 WHERE id = ?1 AND sha256 = ?3", params![id, data, sha256])?;
                db.execute("DELETE FROM warm WHERE segment = ?1", [id]).map(drop)
            })?;
        }
        self.write(|db| {
            let unused = "DELETE FROM dictionaries WHERE NOT EXISTS (SELECT 1 FROM warm JOIN segments ON segments.id = segment
                          WHERE dictionary = dictionaries.id AND length(data) > 0)";
            db.execute("UPDATE warm SET dictionary = NULL WHERE (SELECT length(data) FROM segments WHERE id = segment) = 0", [])?;
            db.execute(unused, []).map(drop)
        })
    }
}

fn each<T: ToSql>(db: &Connection, sql: &str, values: &BTreeSet<T>) -> Result<()> {
    let mut statement = db.prepare_cached(sql)?;
    values.iter().try_for_each(|value| statement.execute([value]).map(drop))
}

fn collect<T: Ord + FromSql>(db: &Connection, sql: &str, session: i64, into: &mut BTreeSet<T>) -> Result<()> {
    for value in db.prepare_cached(sql)?.query_map([session], |row| row.get(0))? {
        into.insert(value?);
    }
    Ok(())
}

fn remove(db: &Connection, session: i64, removed: &mut RemovedRows) -> Result<()> {
    const TRANSCRIPTS: &str = "(SELECT id FROM transcripts WHERE session = ?1)";
    collect(db, &format!("SELECT segment FROM layout WHERE transcript IN {TRANSCRIPTS}"), session, &mut removed.segments)?;
    collect(db, &format!("SELECT entry FROM turns WHERE transcript IN {TRANSCRIPTS}"), session, &mut removed.entries)?;
    collect(db, "SELECT summary FROM compactions WHERE session = ?1 AND summary IS NOT NULL", session, &mut removed.entries)?;
    collect(db, "SELECT learning FROM learned WHERE session = ?1", session, &mut removed.learnings)?;
    collect(db, &format!("SELECT uuid FROM turns WHERE transcript IN {TRANSCRIPTS}"), session, &mut removed.turns)?;
    let mut files = db.prepare_cached("SELECT folder, name FROM cold_files WHERE session = ?1")?;
    for file in files.query_map([session], |row| Ok(PathBuf::from(row.get::<_, String>(0)?).join(row.get::<_, String>(1)?)))? {
        removed.cold_files.push(file?);
    }
    // Segments that others need are in the database, whatever cold files have them.
    for sql in [
        "DELETE FROM cold_files WHERE session = ?1",
        &format!("DELETE FROM learning_progress WHERE transcript IN {TRANSCRIPTS}"),
        &format!("DELETE FROM layout WHERE transcript IN {TRANSCRIPTS}"),
        "DELETE FROM snapshot_words WHERE rowid IN (SELECT id FROM compactions WHERE session = ?1)",
        "DELETE FROM compactions WHERE session = ?1",
        "DELETE FROM learned WHERE session = ?1",
        "DELETE FROM fixes WHERE session = ?1",
        "DELETE FROM changed_files WHERE session = ?1",
        &format!("DELETE FROM turns WHERE transcript IN {TRANSCRIPTS}"),
        "DELETE FROM transcripts WHERE session = ?1",
        "DELETE FROM sessions WHERE id = ?1",
    ] {
        db.execute(sql, [session])?;
    }
    Ok(())
}
