/*!
Compaction of the files: drops replaced versions of entries, and starts a new journal with the current rows.

Both are written to temporary files, synced and renamed while nobody else writes. Entries come first: a new journal never counts
bytes that an old entries file does not have. Readers of the old journal continue with it until they next look at the folder. If
the process is killed, each file is the old one or the new one, and the next run overwrites the temporary files.
*/

use std::fs;

use super::entries::{self, Rewriting};
use super::folder::{Folder, JOURNAL_FILE, transcript_file};
use super::journal::{ChangeJournal, Extent, FORMAT, JournalHeader};
use super::{JsonlStore, checkpoint, new_id, sums};
use crate::entry::Entry;
use crate::store::sqlite::{LockPolicy, SqliteStore};
use crate::store::{EVERYTHING, SegmentReader, StoreError, StoreReader, TurnReader};
use ctxbridge_common::{digest, files};

/// A writer that only adds something leaves a journal or an entries file with fewer bytes as it is.
const SMALL_JOURNAL: u64 = 4 << 20;
const SMALL_ENTRIES: u64 = 8 << 20;

/// Estimated bytes of a turn in a compacted journal.
const BYTES_OF_A_TURN: u64 = 600;

impl JsonlStore {
    /// Compacts the files if more than half of a large one is dead and nobody waits.
    pub(super) fn compact_if_worthwhile(&mut self) -> Result<(), StoreError> {
        if self.lock_policy == LockPolicy::Interactive || !(self.is_journal_half_dead()? || self.are_entries_half_dead()?) {
            return Ok(());
        }
        let _alone = self.lock_and_refresh()?;
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

    /// Compacts the files. The caller holds the lock.
    pub(super) fn compact(&mut self) -> Result<(), StoreError> {
        const NEW: &str = ".new";
        let (entries_file, journal_file) = (format!("{}{NEW}", entries::FILE), format!("{}{NEW}", JOURNAL_FILE));
        self.replayed.memory.forget_changes()?;
        let entries = self.rewrite_entries(&entries_file)?;
        let turns = self.replayed.memory.totals()?.turns;
        let head = JournalHeader { format: FORMAT, schema: SqliteStore::SCHEMA, id: new_id()?, entries, turns };
        let mut journal = ChangeJournal::create(&self.folder, &journal_file, head)?;
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
        self.rename(&journal_file, JOURNAL_FILE)?;
        sync(&self.folder);
        self.replayed.entries = entries;
        self.replayed.switch_journal(&journal.head);
        self.journal = journal;
        // The one that there is, is of the journal before. That there is no room for it is no reason to say that this is not done.
        checkpoint::write(&self.folder, &self.journal, &mut self.replayed).ok();
        Ok(())
    }

    /// Gives each piece that is as it was archived its checksums, and drops lines of pieces that are gone. The caller holds the lock.
    pub(super) fn renew_sums(&mut self) -> Result<(), StoreError> {
        for (key, path, session, newest) in self.replayed.memory.all_transcripts()? {
            for generation in 0..=newest {
                let name = transcript_file(&session, &path, generation);
                let mut lines = String::new();
                for (start, bytes, sha256) in self.replayed.memory.segments_of(key, generation, EVERYTHING)? {
                    self.raw.forget();
                    let piece = (start, bytes, &sha256);
                    match self.raw.piece(&self.folder, &name, piece).whole() {
                        Ok(piece) => lines += &sums::line(start, piece, &sha256),
                        // It tells which of the bytes are damaged.
                        Err(_) => lines += &sums::line_about(&self.folder, &name, piece).unwrap_or_default(),
                    }
                }
                sums::replace(&self.folder, &name, &lines);
            }
        }
        self.raw.forget();
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), StoreError> {
        let rename = || fs::rename(self.folder.file(from), self.folder.file(to));
        files::patiently(rename).map_err(|cause| self.folder.explain(to, cause))
    }

    /// Writes the current lines, and those that are missing, to a new file.
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

    /// Returns the line of a content, or `None` if the bytes of all its turns are damaged.
    fn entry_of(&mut self, content: &digest::Sha256Digest) -> Result<Option<Entry>, StoreError> {
        let entries = self.replayed.memory.entries(&[*content])?;
        for place in self.replayed.memory.turn_locations(&entries)? {
            let Some(stored) = self.replayed.memory.turn_by_location(&place)? else { continue };
            let mut bytes = Vec::new();
            match self.read_bytes(stored.transcript, stored.generation, (stored.turn.start, stored.turn.end), &mut bytes) {
                Ok(()) => return Ok(Some(Entry::of(&stored.session, stored.agent.as_deref(), &stored.turn, &bytes))),
                Err(error) if error.is_session_local() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }
}

/// Syncs the folder, so that renames are on the disk too, where the system supports it.
fn sync(folder: &Folder) {
    if let Ok(folder) = fs::File::open(folder.path()) {
        folder.sync_all().ok();
    }
}
