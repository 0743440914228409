//! From lines of a journal to an archive in memory.

use std::path::PathBuf;

use super::change::{Came, Change};
use super::folder::Folder;
use super::journal::{self, Extent, FORMAT, Head, Journal, Position};
use crate::store::StoreError;
use crate::store::sqlite::SqliteStore;
use ctxbridge_common::sqlite::OpenError;

/// How a line with rows begins.
const ROWS: &[u8] = b"{\"rows\":";

/// An archive in memory, and what the journal says besides.
#[derive(Debug)]
pub(super) struct Replayed {
    pub memory: SqliteStore,
    /// How much there is of the entries.
    pub entries: Extent,
    folder: Folder,
    /// The journal's, since no other has it.
    id: u64,
    schema: u32,
    /// The newest change of entries that has its salt.
    last_change: i64,
    phase: Phase,
    /// Lines and turns that were replayed since there was an image of it all.
    pub steps: u64,
}

/// What a journal says first, and what then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Nothing yet.
    Begin,
    /// Rows of tables.
    Rows,
    /// Changes, each in the transaction that is open.
    Changes,
    /// The same, and there is none open.
    Rest,
}

impl Replayed {
    /// What a journal begins with, before any of its other lines.
    pub fn new(folder: &Folder, head: &Head) -> Result<Self, StoreError> {
        let memory = SqliteStore::in_memory(&folder.file(journal::FILE), head.schema)?;
        let (folder, entries, schema) = (folder.clone(), head.entries, head.schema);
        Ok(Self { memory, entries, folder, id: id(head), schema, last_change: 0, phase: Phase::Begin, steps: 0 })
    }

    /// What an image has.
    pub fn from_image(folder: &Folder, head: &Head, memory: SqliteStore, entries: Extent, last_change: i64) -> Self {
        let (folder, id, schema) = (folder.clone(), id(head), head.schema);
        Self { memory, entries, folder, id, schema, last_change, phase: Phase::Rest, steps: 0 }
    }

    /// The newest change of entries.
    pub fn last_change(&self) -> i64 {
        self.last_change
    }

    /// Goes on with another journal, which begins with all that is known so far.
    pub fn adopt(&mut self, head: &Head) {
        self.id = id(head);
        self.entries = head.entries;
    }

    /// All that a journal has and was not read before, whole or not at all.
    pub fn follow(&mut self, journal: &mut Journal) -> Result<(), StoreError> {
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
        if done.is_err() && matches!(self.phase, Phase::Changes | Phase::Rest) {
            // It can be read once more from there.
            self.memory.roll_back()?;
            (journal.at, self.entries, self.last_change) = before;
            self.phase = Phase::Rest;
        }
        done
    }

    fn take(&mut self, at: &Position, said: &[u8]) -> Result<(), StoreError> {
        if said.starts_with(ROWS) {
            match self.phase {
                Phase::Begin => self.memory.begin_rows()?,
                Phase::Rows => {}
                Phase::Changes | Phase::Rest => return Err(self.damaged(at, "rows follow a change")),
            }
            self.phase = Phase::Rows;
            self.steps += 1;
            return self
                .memory
                .read_rows(&said[ROWS.len()..said.len() - 1])
                .map_err(|error| self.damaged(at, &error.to_string()));
        }
        self.begin_changes()?;
        if self.phase == Phase::Rest {
            self.memory.begin()?;
            self.phase = Phase::Changes;
        }
        // Its checksum is right: so it is no damage, but something that came later than this program.
        let change: Change = serde_json::from_slice(said).map_err(|_| self.newer())?;
        let is_of_entries = change.is_of_entries();
        self.steps += change.steps();
        if let Change::Append(append) = &change {
            self.entries = append.entries;
            if append.turns.iter().any(|turn| turn.end < turn.start) {
                return Err(self.damaged(at, "a turn ends before it begins"));
            }
        }
        if change.apply(&mut self.memory)? == Came::Moved {
            return Err(self.damaged(at, "it does not follow what is before it"));
        }
        if is_of_entries { self.salt(at) } else { Ok(()) }
    }

    /// All rows are there, if there were any.
    fn begin_changes(&mut self) -> Result<(), StoreError> {
        if self.phase == Phase::Rows {
            self.memory.end_rows()?;
        }
        if matches!(self.phase, Phase::Begin | Phase::Rows) {
            self.memory.migrate(self.schema)?;
            if self.phase == Phase::Begin {
                self.memory.salt_changes(0, self.salt_at(0))?;
            }
            self.last_change = self.memory.last_change()?;
            self.phase = Phase::Rest;
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), StoreError> {
        self.begin_changes()?;
        if self.phase == Phase::Changes {
            self.memory.commit()?;
            self.phase = Phase::Rest;
        }
        Ok(())
    }

    /// Gives what the change of a line did to entries a mark that every reader comes to, and nobody who read other lines.
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
        StoreError::Damaged { path, cause: format!("line {} of {}: {cause}", at.lines, journal::FILE) }
    }

    fn newer(&self) -> StoreError {
        let path: PathBuf = self.folder.file(journal::FILE);
        StoreError::Open { path, cause: OpenError::Newer { found: FORMAT + 1, known: FORMAT } }
    }
}

/// What changes that this journal tells of are known by.
fn id(head: &Head) -> u64 {
    u64::from_str_radix(&head.id, 16).unwrap_or_default()
}
