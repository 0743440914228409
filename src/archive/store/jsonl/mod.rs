/*!
The archive in a folder of JSON Lines, for machines that can have no SQLite file: everything in it is text, and only ever grows.

- `journal.jsonl`: the changes, a line each (`journal`). A change has happened once its line is complete.
- `transcripts/`: copies of transcripts, byte for byte, a file for each generation (`transcript_files`, `pieces`), and a file with
  checksums of its blocks (`sums`).
- `entries.jsonl`: the content of turns, for `jq` and `grep` (`entries`).
- `lock`: held by the writer.
- `journal.image`: a cache of the journal's result (`checkpoint`).

Opening it replays the journal into a [`SqliteStore`] in memory, which answers every query. So this store cannot behave
differently from that one. Readers need no lock, since only complete lines count. A writer takes the lock, reads what others have
added, and makes its change in memory. Then it writes bytes, entries and last the line; if that fails, it takes everything back.

As in the database, writes are not synced, except large pieces of transcripts when nobody waits. After a power failure the last
changes may be missing; the next pass makes them again. `archive optimize` makes the journal small again (`compact`).
*/

mod change;
mod check;
mod checkpoint;
mod compact;
mod entries;
mod folder;
mod heal;
mod journal;
mod journal_line;
mod pieces;
mod quarantine;
mod replay;
mod store;
mod sums;
#[cfg(test)]
mod tests;
mod transcript_files;

pub use check::JournalFinding;
pub use quarantine::ReadPosition;
pub(crate) use quarantine::{DAMAGED, MERGED};

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use change::JournalChange;
use folder::{Folder, transcript_file};
use journal::{ChangeJournal, Extent, FORMAT, JournalHeader, JournalState, json};
use replay::ReplayedArchive;

use super::sqlite::{LockPolicy, SqliteStore};
use super::{Batch, ImportedUsage, StoreError, Transcript};
use crate::entry::Entry;
use crate::forget::TombstoneWatch;
use crate::store::{CursorReader, LearningReader, UsageWriter};
use ctxbridge_common::digest;

/// Numbers of replayed lines and turns that are worth a checkpoint: when nobody waits, and when a user does.
const BACKGROUND_CHECKPOINT_STEPS: u64 = 64;
const INTERACTIVE_CHECKPOINT_STEPS: u64 = 256;

/// A transcript: its key, path, session and newest generation.
type FoundTranscript = (i64, String, String, u32);

/// An archive in a folder of JSON Lines.
#[derive(Debug)]
pub struct JsonlStore {
    folder: Folder,
    lock_policy: LockPolicy,
    /// `true` if nothing may be written.
    is_read_only: bool,
    journal: ChangeJournal,
    replayed: ReplayedArchive,
    raw: pieces::TranscriptFiles,
    /// The transcript file that is being written, and its length before.
    writing: Option<(String, u64)>,
    /// The data folder, in which repairs are noted, and what was forgotten.
    data: Option<PathBuf>,
    /// `true` if what the user marked as private is archived.
    keeps_private: bool,
    watch: TombstoneWatch,
}

impl JsonlStore {
    /// The name of the folder in the data folder.
    pub const FOLDER: &str = "archive-jsonl";

    /// Opens or creates the archive in a folder.
    ///
    /// # Errors
    /// If it cannot be opened, is damaged, or was written by a newer version.
    pub fn open(folder: &Path, policy: LockPolicy) -> Result<Self, StoreError> {
        match Self::open_once(folder, policy) {
            // It was moved away just then.
            Err(error) if is_not_there(&error) => Self::open_once(folder, policy),
            opened => opened,
        }
    }

    fn open_once(folder: &Path, policy: LockPolicy) -> Result<Self, StoreError> {
        let folder = Folder::make(folder)?;
        let opened = ChangeJournal::open(&folder, true).and_then(|journal| match journal {
            Some(journal) => Self::read(&folder, journal, policy, false),
            None => Self::create(&folder, policy),
        });
        match opened {
            // Somebody may have been writing just then.
            Err(error) if error.is_damage() => {
                let _alone = folder.lock(policy)?;
                match ChangeJournal::open(&folder, true)? {
                    Some(journal) => Self::read(&folder, journal, policy, false),
                    None => Err(error),
                }
            }
            opened => opened,
        }
    }

    /// Opens the archive in a folder read-only, if there is one.
    ///
    /// # Errors
    /// If it cannot be opened, is damaged, or is of a newer version.
    pub fn open_read_only(folder: &Path) -> Result<Option<Self>, StoreError> {
        let folder = Folder::at(folder);
        let read = || match ChangeJournal::open(&folder, false)? {
            Some(journal) => Self::read(&folder, journal, LockPolicy::Background, true).map(Some),
            None => Ok(None),
        };
        match read() {
            Err(error) if error.is_damage() => {
                // Where there can be no lock, nobody writes.
                let _alone = folder.lock(LockPolicy::Background).ok();
                read()
            }
            opened => opened,
        }
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Number of learnings of each kind, largest first; superseded ones do not count.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn learnings_by_kind(&mut self) -> Result<Vec<(String, u64)>, StoreError> {
        self.now()?.learnings_by_kind()
    }

    /// Usage of the turns' entries that were restored, or whose confidence differs from that of a new one, by the hash of their
    /// content.
    pub(crate) fn entry_usage(&mut self) -> Result<Vec<(digest::Sha256Digest, ImportedUsage)>, StoreError> {
        self.now()?.entry_usage()
    }

    /// Takes over the usage of entries from an archive that this one was copied from.
    pub(crate) fn add_usage_of(&mut self, from: &mut Self) -> Result<(), StoreError> {
        let mut known = Vec::new();
        for (content, usage) in from.entry_usage()? {
            let entries = self.now()?.entries(&[content])?;
            known.extend(entries.first().map(|&entry| ImportedUsage { entry, is_new: true, ..usage }));
        }
        if known.is_empty() { Ok(()) } else { self.merge_usage(&known).map(drop) }
    }

    fn read(folder: &Folder, mut journal: ChangeJournal, policy: LockPolicy, is_read_only: bool) -> Result<Self, StoreError> {
        let mut replayed = match checkpoint::read(folder, &mut journal) {
            Some(replayed) => replayed,
            None => ReplayedArchive::new(folder, &journal.head)?,
        };
        replayed.follow(&mut journal)?;
        let (folder, raw) = (folder.clone(), pieces::TranscriptFiles::default());
        let mut store = Self {
            folder,
            lock_policy: policy,
            is_read_only,
            journal,
            replayed,
            raw,
            writing: None,
            data: None,
            keeps_private: false,
            watch: TombstoneWatch::default(),
        };
        let much = match policy {
            LockPolicy::Background => BACKGROUND_CHECKPOINT_STEPS,
            LockPolicy::Interactive => INTERACTIVE_CHECKPOINT_STEPS,
        };
        if store.replayed.steps > much {
            store.take_image();
        }
        Ok(store)
    }

    /// Writes a checkpoint, if nobody else is writing. It is a cache, so a failure to write it is ignored.
    fn take_image(&mut self) {
        let Self { folder, journal, replayed, is_read_only: false, .. } = self else { return };
        if let Ok(Some(_alone)) = folder.try_lock() {
            checkpoint::write(folder, journal, replayed).ok();
        }
    }

    fn create(folder: &Folder, policy: LockPolicy) -> Result<Self, StoreError> {
        let _alone = folder.lock(policy)?;
        if let Some(journal) = ChangeJournal::open(folder, true)? {
            // Somebody else has.
            return Self::read(folder, journal, policy, false);
        }
        if folder.has_transcripts()? {
            return Err(folder.without_journal());
        }
        let head =
            JournalHeader { format: FORMAT, schema: SqliteStore::SCHEMA, id: new_id()?, entries: Extent::default(), turns: 0 };
        let journal = ChangeJournal::create(folder, folder::JOURNAL_FILE, head)?;
        Self::read(folder, journal, policy, false)
    }

    /// Returns the archive with all changes that others have written.
    fn now(&mut self) -> Result<&mut SqliteStore, StoreError> {
        self.refresh()?;
        Ok(&mut self.replayed.memory)
    }

    /// Reads what others have written.
    fn refresh(&mut self) -> Result<(), StoreError> {
        match self.catch_up() {
            Err(error) if error.is_damage() => {
                // Somebody may have been writing just then. Where there can be no lock, nobody is.
                let _alone = self.folder.lock(self.lock_policy).ok();
                self.catch_up()
            }
            done => done,
        }
    }

    fn catch_up(&mut self) -> Result<(), StoreError> {
        match self.journal.state()? {
            // One that was moved away is read on as it was.
            JournalState::Same | JournalState::Gone => Ok(()),
            JournalState::Grown => self.replayed.follow(&mut self.journal),
            JournalState::Replaced => {
                // None that is whole, for the moment.
                let Some(journal) = ChangeJournal::open(&self.folder, !self.is_read_only)? else { return Ok(()) };
                let read = Self::read(&self.folder, journal, self.lock_policy, self.is_read_only)?;
                self.replace(read);
                Ok(())
            }
        }
    }

    /// Locks out other writers, and reads what they have written.
    fn lock_and_refresh(&mut self) -> Result<Option<File>, StoreError> {
        if self.is_read_only {
            let cause = io::ErrorKind::ReadOnlyFilesystem.into();
            return Err(StoreError::File { path: self.folder.path().to_owned(), cause });
        }
        loop {
            if self.journal.state()? == JournalState::Gone {
                // Somebody has moved all of it away.
                let opened = Self::open(self.folder.path(), self.lock_policy)?;
                self.replace(opened);
            }
            let alone = match self.folder.lock(self.lock_policy) {
                // Just now.
                Err(error) if is_not_there(&error) => continue,
                locked => locked?,
            };
            if self.journal.state()? != JournalState::Gone {
                self.catch_up()?;
                self.turn_back();
                return Ok(alone);
            }
        }
    }

    /// Goes on with an archive that was opened in place of this one.
    fn replace(&mut self, other: Self) {
        let data = self.data.take();
        *self = Self { data, ..other };
    }

    /// Makes a change in memory and writes it to the journal, or does neither. `work` returns the line, if there is anything to
    /// write.
    fn change<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<(T, Option<JournalChange>), StoreError>,
    ) -> Result<T, StoreError> {
        let _alone = self.lock_and_refresh()?;
        let (at, entries) = (self.journal.at, self.replayed.entries);
        self.replayed.memory.begin()?;
        let done = work(self).and_then(|(value, change)| {
            if let Some(change) = change {
                self.journal.append(&json(&change)?)?;
                self.replayed.steps += change.steps();
                if change.is_of_entries() {
                    self.replayed.salt(&self.journal.at)?;
                }
            }
            self.replayed.memory.commit().map(|()| value)
        });
        let writing = self.writing.take();
        if done.is_err() {
            self.replayed.memory.roll_back()?;
            self.replayed.entries = entries;
            if self.journal.at == at {
                entries::cut(&self.folder, entries);
                if let Some((name, known)) = writing {
                    transcript_files::cut(&self.folder, &name, known);
                }
            }
            // Where the line was written, it has happened: it is read from there.
            self.journal.at = at;
        }
        done
    }

    /// Writes the content of a batch to the other files, and returns their new sizes.
    fn write_files(&mut self, batch: &Batch, known: u64, new: &[bool]) -> Result<(Extent, u64), StoreError> {
        let Transcript { path, session, part } = &batch.transcript;
        let generation = batch.cursor.generation;
        let name = transcript_file(session, path, generation);
        let before = generation.checked_sub(1).map(|before| transcript_file(session, path, before));
        let shared = batch.rewritten.map_or(0, |rewritten| rewritten.shared);
        if batch.expected_cursor.is_none() || batch.rewritten.is_some() {
            self.writing = Some((name.clone(), 0));
            transcript_files::begin(&self.folder, &name, before.as_deref().map(|before| (before, shared)))?;
        } else {
            self.writing = Some((name.clone(), known));
        }
        let is_patient = self.lock_policy == LockPolicy::Background;
        let raw = transcript_files::add(
            &self.folder,
            &transcript_files::Addition { name: &name, known, segments: &batch.segments, is_patient },
        )?;
        self.raw.forget();
        let mut entries = Vec::new();
        for (turn, _) in batch.turns.iter().zip(new).filter(|(_, is_new)| **is_new) {
            let bytes = self.raw.range(&self.folder, &name, (turn.start, turn.end))?;
            entries.push(Entry::of(session, part.agent(), turn, &bytes));
        }
        Ok((entries::add(&self.folder, self.replayed.entries, &entries)?, raw))
    }

    /// Bytes of a transcript's generation before a batch.
    fn known_bytes(&mut self, batch: &Batch) -> Result<u64, StoreError> {
        if let Some(rewritten) = batch.rewritten {
            return Ok(rewritten.shared);
        }
        let layout = self.replayed.memory.segment_index(&batch.transcript.path)?;
        Ok(layout.last().map_or(0, |(start, bytes, _)| start + u64::from(*bytes)))
    }

    /// For each turn of a batch, returns `true` if its content is new.
    fn new_turns(&mut self, batch: &Batch) -> Result<Vec<bool>, StoreError> {
        let mut seen = HashSet::new();
        let is_new =
            |content: &digest::Sha256Digest| Ok(seen.insert(*content) && self.replayed.memory.entries(&[*content])?.is_empty());
        batch.turns.iter().map(|turn| &turn.content_sha256).map(is_new).collect()
    }
}

/// `true` if the folder is gone.
fn is_not_there(error: &StoreError) -> bool {
    matches!(error, StoreError::File { cause, .. } if cause.kind() == io::ErrorKind::NotFound)
}

/// Returns a random id for a journal.
fn new_id() -> Result<String, StoreError> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(|error| StoreError::Sink(io::Error::other(error)))?;
    Ok(digest::hex(&bytes))
}
