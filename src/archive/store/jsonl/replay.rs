//! Replays the lines of a journal into an archive in memory.

use std::path::PathBuf;

use super::change::{ChangeOutcome, JournalChange};
use super::folder;
use super::folder::Folder;
use super::journal::{ChangeJournal, Extent, FORMAT, JournalHeader};
use super::journal_line::Position;
use crate::store::StoreError;
use crate::store::sqlite::SqliteStore;
use ctxbridge_common::sqlite::DatabaseOpenError;

/// Start of a line with rows.
const ROWS: &[u8] = b"{\"rows\":";

/// An archive in memory, and the state of its journal.
#[derive(Debug)]
pub(super) struct ReplayedArchive {
    pub memory: SqliteStore,
    /// Extent of the entries file.
    pub entries: Extent,
    folder: Folder,
    /// The journal's id as a number; no other journal has it.
    id: u64,
    schema: u32,
    /// The newest change of entries that has its salt.
    last_change: i64,
    phase: ReplayPhase,
    /// Lines and turns that were replayed since the last checkpoint.
    pub steps: u64,
}

/// Phase of reading a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReplayPhase {
    /// Nothing yet.
    Begin,
    /// Rows of tables.
    Rows,
    /// Changes, each in the transaction that is open.
    Changes,
    /// Changes, with no open transaction.
    Idle,
}

impl ReplayedArchive {
    /// Creates the archive of a journal's first line, before any other.
    pub fn new(folder: &Folder, head: &JournalHeader) -> Result<Self, StoreError> {
        let memory = SqliteStore::in_memory(&folder.file(folder::JOURNAL_FILE), head.schema)?;
        let (folder, entries, schema) = (folder.clone(), head.entries, head.schema);
        Ok(Self { memory, entries, folder, id: id(head), schema, last_change: 0, phase: ReplayPhase::Begin, steps: 0 })
    }

    /// Creates the archive from a checkpoint.
    pub fn from_image(folder: &Folder, head: &JournalHeader, memory: SqliteStore, entries: Extent, last_change: i64) -> Self {
        let (folder, id, schema) = (folder.clone(), id(head), head.schema);
        Self { memory, entries, folder, id, schema, last_change, phase: ReplayPhase::Idle, steps: 0 }
    }

    /// The newest change of entries.
    pub fn last_change(&self) -> i64 {
        self.last_change
    }

    /// Continues with another journal, which starts with everything known so far.
    pub fn switch_journal(&mut self, head: &JournalHeader) {
        self.id = id(head);
        self.entries = head.entries;
    }

    /// Replays all new lines of a journal, or none of them.
    pub fn follow(&mut self, journal: &mut ChangeJournal) -> Result<(), StoreError> {
        let before = (journal.at, self.entries, self.last_change);
        let mut begin = journal.begin;
        let read = journal.read(&mut |at, said| {
            if said.starts_with(ROWS) {
                begin = at.bytes;
            }
            self.take(at, said)
        });
        journal.begin = begin;
        let done = read.and_then(|()| self.end());
        if done.is_err() && matches!(self.phase, ReplayPhase::Changes | ReplayPhase::Idle) {
            // It can be read once more from there.
            self.memory.roll_back()?;
            (journal.at, self.entries, self.last_change) = before;
            self.phase = ReplayPhase::Idle;
        }
        done
    }

    fn take(&mut self, at: &Position, said: &[u8]) -> Result<(), StoreError> {
        if said.starts_with(ROWS) {
            match self.phase {
                ReplayPhase::Begin => self.memory.begin_rows()?,
                ReplayPhase::Rows => {}
                ReplayPhase::Changes | ReplayPhase::Idle => return Err(self.damaged(at, "rows follow a change")),
            }
            self.phase = ReplayPhase::Rows;
            self.steps += 1;
            return self
                .memory
                .read_rows(&said[ROWS.len()..said.len() - 1])
                .map_err(|error| self.damaged(at, &error.to_string()));
        }
        self.begin_changes()?;
        if self.phase == ReplayPhase::Idle {
            self.memory.begin()?;
            self.phase = ReplayPhase::Changes;
        }
        // Its checksum is right: so it is no damage, but something that came later than this program.
        let change: JournalChange = serde_json::from_slice(said).map_err(|_| self.newer())?;
        let is_of_entries = change.is_of_entries();
        self.steps += change.steps();
        if let JournalChange::Append(append) = &change {
            self.entries = append.entries;
            if append.turns.iter().any(|turn| turn.end < turn.start) {
                return Err(self.damaged(at, "a turn ends before it begins"));
            }
        }
        if change.apply(&mut self.memory)? == ChangeOutcome::Conflict {
            return Err(self.damaged(at, "it does not follow what is before it"));
        }
        if is_of_entries { self.salt(at) } else { Ok(()) }
    }

    /// Ends the phase of rows, if there were any.
    fn begin_changes(&mut self) -> Result<(), StoreError> {
        if self.phase == ReplayPhase::Rows {
            self.memory.end_rows()?;
        }
        if matches!(self.phase, ReplayPhase::Begin | ReplayPhase::Rows) {
            self.memory.migrate(self.schema)?;
            if self.phase == ReplayPhase::Begin {
                self.memory.salt_changes(0, self.salt_at(0))?;
            }
            self.last_change = self.memory.last_change()?;
            self.phase = ReplayPhase::Idle;
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), StoreError> {
        self.begin_changes()?;
        if self.phase == ReplayPhase::Changes {
            self.memory.commit()?;
            self.phase = ReplayPhase::Idle;
        }
        Ok(())
    }

    /// Salts the entry changes of a line: every reader of these lines gets the same salt, and no reader of other lines does.
    pub fn salt(&mut self, at: &Position) -> Result<(), StoreError> {
        let last = self.memory.last_change()?;
        if last > self.last_change {
            self.memory.salt_changes(self.last_change, self.salt_at(at.crc))?;
            self.last_change = last;
        }
        Ok(())
    }

    fn salt_at(&self, crc: u32) -> i64 {
        (self.id ^ u64::from(crc) << 32).cast_signed()
    }

    fn damaged(&self, at: &Position, cause: &str) -> StoreError {
        let path = self.folder.path().to_owned();
        StoreError::Damaged { path, cause: format!("line {} of {}: {cause}", at.lines, folder::JOURNAL_FILE) }
    }

    fn newer(&self) -> StoreError {
        let path: PathBuf = self.folder.file(folder::JOURNAL_FILE);
        StoreError::Open { path, cause: DatabaseOpenError::Newer { found: FORMAT + 1, known: FORMAT } }
    }
}

/// Returns the journal's id as a number, for the salt of its changes.
fn id(head: &JournalHeader) -> u64 {
    u64::from_str_radix(&head.id, 16).unwrap_or_default()
}
