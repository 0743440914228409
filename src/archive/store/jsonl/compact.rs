/*!
Making it small again: entries without versions that were replaced, and a journal that begins with what all of its changes came to.

Both are written beside, synced and renamed while nobody else writes, entries first: a new journal never counts bytes of entries that an old
file does not have. Who still reads the old journal goes on with it, until the next look at the folder. Where the process is killed, there is an old
file or a new one, and what lies beside is written over the next time.
*/

use std::fs;

use super::entries::{self, Rewriting};
use super::folder::Folder;
use super::journal::{self, Extent, FORMAT, Head, Journal};
use super::{JsonlStore, image, new_id};
use crate::entry::Entry;
use crate::store::sqlite::{Patience, SqliteStore};
use crate::store::{Store, StoreError};
use ctxbridge_common::digest;

/// A journal, and entries, with fewer bytes are left as they are by who only adds something.
const SMALL_JOURNAL: u64 = 4 << 20;
const SMALL_ENTRIES: u64 = 8 << 20;

/// About what a turn takes in a journal, where each is there once.
const BYTES_OF_A_TURN: u64 = 600;

impl JsonlStore {
    /// Makes it small, where more than half of a large file is of no use any more and nobody waits.
    pub(super) fn compact_if_worthwhile(&mut self) -> Result<(), StoreError> {
        if self.patience == Patience::Hurried || !(self.is_journal_half_dead()? || self.are_entries_half_dead()?) {
            return Ok(());
        }
        let _alone = self.alone()?;
        // Somebody else may have done it.
        if self.is_journal_half_dead()? || self.are_entries_half_dead()? { self.compact() } else { Ok(()) }
    }

    fn is_journal_half_dead(&mut self) -> Result<bool, StoreError> {
        let bytes = self.journal.at.bytes;
        if bytes < SMALL_JOURNAL || bytes < 2 * self.journal.begin {
            return Ok(false);
        }
        let new = self.replayed.memory.totals()?.turns.saturating_sub(self.journal.head.turns);
        Ok(bytes > 2 * (self.journal.begin + new * BYTES_OF_A_TURN))
    }

    fn are_entries_half_dead(&mut self) -> Result<bool, StoreError> {
        let Extent { bytes, lines } = self.replayed.entries;
        Ok(bytes > SMALL_ENTRIES && lines > 2 * self.replayed.memory.contents()?.len() as u64)
    }

    /// Makes it as small as it can be. The lock is held.
    pub(super) fn compact(&mut self) -> Result<(), StoreError> {
        const NEW: &str = ".new";
        let (entries_file, journal_file) = (format!("{}{NEW}", entries::FILE), format!("{}{NEW}", journal::FILE));
        self.replayed.memory.forget_changes()?;
        let entries = self.rewrite_entries(&entries_file)?;
        let turns = self.replayed.memory.totals()?.turns;
        let head = Head { format: FORMAT, schema: SqliteStore::SCHEMA, id: new_id()?, entries, turns };
        let mut journal = Journal::create(&self.folder, &journal_file, head)?;
        self.replayed.memory.write_rows(&mut |rows| {
            let mut line = Vec::with_capacity(rows.len() + 16);
            line.extend_from_slice(b"{\"rows\":");
            line.extend_from_slice(rows);
            line.push(b'}');
            journal.append(&line)
        })?;
        journal.begin = journal.at.bytes;
        journal.sync().map_err(|cause| self.folder.explain(&journal_file, cause))?;
        self.rename(&entries_file, entries::FILE)?;
        self.rename(&journal_file, journal::FILE)?;
        sync(&self.folder);
        self.replayed.entries = entries;
        self.replayed.adopt(&journal.head);
        self.journal = journal;
        // The one that there is, is of the journal before. That there is no room for it is no reason to say that this is not done.
        image::write(&self.folder, &self.journal, &mut self.replayed).ok();
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), StoreError> {
        fs::rename(self.folder.file(from), self.folder.file(to)).map_err(|cause| self.folder.explain(to, cause))
    }

    /// The lines that count, and those that should be there and are not.
    fn rewrite_entries(&mut self, name: &str) -> Result<Extent, StoreError> {
        let folder = self.folder.clone();
        let wanted = self.replayed.memory.contents()?;
        let mut rewriting = Rewriting::begin(&folder, name)?;
        let survey = entries::survey(&folder, self.replayed.entries, &wanted, &mut |line| rewriting.line(line))?;
        for content in survey.missing {
            if let Some(entry) = self.entry_of(&content)? {
                rewriting.entry(&entry)?;
            }
        }
        rewriting.end()
    }

    /// The line of a content; nothing where the bytes of all turns that say it are damaged.
    fn entry_of(&mut self, content: &digest::Bytes) -> Result<Option<Entry>, StoreError> {
        let entries = self.replayed.memory.entries(&[*content])?;
        for place in self.replayed.memory.places(&entries)? {
            let Some(stored) = self.replayed.memory.turn_of(&place)? else { continue };
            let mut bytes = Vec::new();
            match self.raw(stored.transcript, stored.generation, (stored.turn.start, stored.turn.end), &mut bytes) {
                Ok(()) => return Ok(Some(Entry::of(&stored.session, stored.agent.as_deref(), &stored.turn, &bytes))),
                Err(error) if error.is_of_one() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }
}

/// That files have other names now is on the disk as well, where that can be waited for.
fn sync(folder: &Folder) {
    if let Ok(folder) = fs::File::open(folder.path()) {
        folder.sync_all().ok();
    }
}
