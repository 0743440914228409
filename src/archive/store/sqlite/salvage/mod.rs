/*!
Salvage of a damaged archive: all rows that can still be read, in a new one.

SQLite gives up a table at its first damaged page. Here the file is read page by page. Rows are found through the trees, as SQLite
finds them. Where a page of a tree is lost, the pages below it are found by going over all pages of the file. The records of our
own tables tell which table such a page is of: each has its number of columns, and types that never change.

What refers to rows that were lost is removed from the new archive, so that it is consistent. What a transcript lost by this is
reported: the transcript's file, or the bytes that are still there, may be read in again.
*/

mod btree;
mod freelist;
mod insert;
mod lost;
mod pages;
mod record;
mod references;
mod shapes;
#[cfg(test)]
mod tests;
mod verify;
mod walk;

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use rusqlite::Connection;

pub(super) use lost::holes;
pub use lost::{Hole, LostLayout, LostTranscript};
pub use pages::SoundPage;

use super::{SqliteStore, rows, schema};
use insert::NewArchive;
use pages::DatabasePages;
use walk::Walk;

/// Result of a salvage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SalvageReport {
    /// Rows in the new archive, by table.
    pub rows: BTreeMap<String, u64>,
    /// Rows that could be read, but refer to lost ones, by table.
    pub removed: BTreeMap<String, u64>,
    /// Numbers of the pages that could not be trusted, from 1.
    pub bad_pages: Vec<u32>,
    /// Pages that are missing at the end of the file.
    pub missing_pages: u32,
    /// Records and cells that could not be read, or are of no table for certain.
    pub unplaced: u64,
    /// Sessions whose own row was lost; it was made again from one of their transcripts, as far as that tells it.
    pub rebuilt_sessions: Vec<i64>,
    /// Transcripts whose own row was lost. Their segments are still there, and nothing refers to them.
    pub lost_transcripts: Vec<LostTranscript>,
    /// Bytes that transcripts lost.
    pub holes: Vec<Hole>,
    /// Keys of transcripts whose bytes may be there, but not all of their turns.
    pub missing_turns: Vec<i64>,
}

impl SalvageReport {
    /// `true` if nothing is missing, as far as can be told.
    pub fn is_whole(&self) -> bool {
        self.bad_pages.is_empty()
            && self.missing_pages == 0
            && self.unplaced == 0
            && self.removed.is_empty()
            && self.rebuilt_sessions.is_empty()
            && self.lost_transcripts.is_empty()
            && self.holes.is_empty()
            && self.missing_turns.is_empty()
    }
}

/// A salvage that could not be carried out.
#[derive(Debug, thiserror::Error)]
pub enum SalvageError {
    /// The damaged file cannot be read.
    #[error("cannot read the damaged archive: {0}")]
    Read(#[from] io::Error),
    /// The new archive cannot be written.
    #[error("cannot write the new archive: {0}")]
    Write(#[from] rusqlite::Error),
    /// The new archive has sessions of its own, which would be replaced.
    #[error("the archive to salvage into is not empty")]
    NotEmpty,
    /// The damaged archive was written by a newer version, whose tables are not known here.
    #[error("its schema is version {found}, newer than this ctxbridge knows ({known}); upgrade ctxbridge")]
    Newer {
        /// The schema of the file.
        found: u32,
        /// The newest this version knows.
        known: u32,
    },
}

/// Puts all rows of a damaged archive that can be read into a new one, which has the current schema and no rows.
///
/// The log beside the damaged file (`-wal`) is read too, also behind a damaged frame. `is_sound` is asked once for each page that is
/// not from the log, with all of its 4096 bytes; without checksums, structure alone tells. All is written in one transaction.
///
/// # Errors
/// If the file cannot be opened or is of a newer version, or the new archive cannot be written or is not new.
pub fn salvage(damaged: &Path, is_sound: SoundPage<'_>, into: &Connection) -> Result<SalvageReport, SalvageError> {
    let is_new: bool =
        into.query_row("SELECT NOT EXISTS (SELECT 1 FROM sessions) AND NOT EXISTS (SELECT 1 FROM segments)", [], |row| {
            row.get(0)
        })?;
    if !is_new {
        return Err(SalvageError::NotEmpty);
    }
    let pages = DatabasePages::open(damaged, is_sound)?;
    let (found, known) = (pages.schema_version, schema::MIGRATIONS.len() as u32);
    if found > known {
        return Err(SalvageError::Newer { found, known });
    }
    let salvaged = rows::begin(into).map_err(SalvageError::from).and_then(|()| fill(pages, into));
    if salvaged.is_err() {
        // What failed first is what counts.
        if !into.is_autocommit() {
            into.execute_batch("ROLLBACK").ok();
        }
        rows::restore_checks(into).ok();
    }
    salvaged
}

fn fill(pages: DatabasePages, into: &Connection) -> Result<SalvageReport, SalvageError> {
    let mut report = SalvageReport {
        bad_pages: pages.bad(),
        missing_pages: pages.expected.unwrap_or_default().saturating_sub(pages.count()),
        ..SalvageReport::default()
    };
    let shapes = shapes::shapes(into)?;
    let mut archive = NewArchive::new(into);
    let mut walk = Walk::new(pages, &shapes);
    walk.run(&mut archive)?;
    report.unplaced = walk.unplaced;
    archive.finish()?;
    let found = count_rows(into)?;
    verify::remove_unreadable(into)?;
    report.rebuilt_sessions = references::rebuild_sessions(into)?;
    report.lost_transcripts = lost::lost_transcripts(into, archive.torn)?;
    report.holes = lost::holes(into)?;
    references::remove_dangling(into)?;
    report.rows = count_rows(into)?;
    let left = |table: &str| report.rows.get(table).copied().unwrap_or_default();
    report.removed = found
        .iter()
        .filter(|(table, count)| **count > left(table))
        .map(|(table, count)| (table.clone(), count - left(table)))
        .collect();
    let is_whole = report.is_whole();
    if !is_whole {
        report.missing_turns = lost::missing_turns(into)?;
    }
    // An archive always has a last change.
    if !is_whole || report.rows.get("changes").is_none_or(|changes| *changes == 0) {
        references::renew_changes(into)?;
    }
    rows::end(into)?;
    Ok(report)
}

fn count_rows(db: &Connection) -> rusqlite::Result<BTreeMap<String, u64>> {
    let count = |table: String| {
        let rows = db.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| super::columns::unsigned(row, 0))?;
        Ok((table, rows))
    };
    rows::tables(db)?.into_iter().map(count).collect()
}

impl SqliteStore {
    /// Fills this archive, which must be new, with what can be read of a damaged one; see [`salvage`].
    ///
    /// # Errors
    /// As there.
    pub fn salvage_from(&mut self, damaged: &Path, is_sound: SoundPage<'_>) -> Result<SalvageReport, SalvageError> {
        salvage(damaged, is_sound, &self.db)
    }

    /// Reads any bytes as a damaged archive, into an archive in memory. For tests with foreign bytes.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn salvage_in_memory(damaged: &Path, is_sound: SoundPage<'_>) -> Result<SalvageReport, SalvageError> {
        let db = Connection::open_in_memory()?;
        schema::MIGRATIONS.iter().try_for_each(|migration| db.execute_batch(migration))?;
        salvage(damaged, is_sound, &db)
    }
}
