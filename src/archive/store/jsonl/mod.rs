/*!
The archive in a folder of JSON Lines, for machines that can have no SQLite file: everything in it is text, and only ever grows.

- `journal.jsonl`: what happened, a line each (`journal`). A change has happened when its line is whole.
- `transcripts/`: what transcripts were, byte for byte, a file for each generation (`raw`).
- `entries.jsonl`: what turns say, for `jq` and `grep` (`entries`).
- `lock`: held by the one who writes.
- `journal.image`: a cache of what the journal comes to (`image`).

To open it is to read the journal: its changes happen once more, to a [`SqliteStore`] in memory, whose own code answers every question. So this store cannot
behave otherwise than that one. Readers need no lock, since the last whole line is what counts; a writer takes it, reads what others have added, makes
its change in memory, writes bytes, entries and at last the line, and takes all of it back when that cannot be done.

As in the database, writes are not synced, but for large pieces of transcripts by those whom nobody waits for: after a power failure, the last changes may be missing, and
are made again by the next pass. The journal is made small by `compact`, which `archive optimize` does.
*/

mod aside;
mod change;
mod check;
mod compact;
mod entries;
mod folder;
mod image;
mod journal;
mod raw;
mod replay;
mod store;

pub use aside::Mark;
pub use check::Finding;

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::path::Path;

use change::Change;
use folder::{Folder, transcript_file};
use journal::{Extent, FORMAT, Head, Journal, State, json};
use replay::Replayed;

use super::sqlite::{Patience, SqliteStore};
use super::{Adopted, Batch, Store, StoreError, Transcript};
use crate::entry::Entry;
use ctxbridge_common::digest;

/// Lines and turns to replay that are worth an image, and those that are even where a user waits: it saves more than it takes.
const MUCH: u64 = 64;
const TOO_MUCH: u64 = 256;

/// An archive in a folder of JSON Lines.
#[derive(Debug)]
pub struct JsonlStore {
    folder: Folder,
    patience: Patience,
    /// Whether nothing is written.
    is_read_only: bool,
    journal: Journal,
    replayed: Replayed,
    raw: raw::Files,
    /// The file of a transcript that is being written, and what it had before.
    writing: Option<(String, u64)>,
}

impl JsonlStore {
    /// The name of the folder in the data folder.
    pub const FOLDER: &str = "archive-jsonl";

    /// Opens or creates the archive in a folder.
    ///
    /// # Errors
    /// When it cannot be opened, is damaged, or was written by a newer version.
    pub fn open(folder: &Path, patience: Patience) -> Result<Self, StoreError> {
        match Self::open_once(folder, patience) {
            // It was moved away just then.
            Err(error) if is_not_there(&error) => Self::open_once(folder, patience),
            opened => opened,
        }
    }

    fn open_once(folder: &Path, patience: Patience) -> Result<Self, StoreError> {
        let folder = Folder::make(folder)?;
        let opened = Journal::open(&folder, true).and_then(|journal| match journal {
            Some(journal) => Self::read(&folder, journal, patience, false),
            None => Self::create(&folder, patience),
        });
        match opened {
            // Somebody may have been writing just then.
            Err(error) if error.is_damage() => {
                let _alone = folder.lock(patience)?;
                match Journal::open(&folder, true)? {
                    Some(journal) => Self::read(&folder, journal, patience, false),
                    None => Err(error),
                }
            }
            opened => opened,
        }
    }

    /// Opens the archive in a folder to look at, if there is one: nothing is written.
    ///
    /// # Errors
    /// When it cannot be opened, is damaged, or is of a newer version.
    pub fn open_read_only(folder: &Path) -> Result<Option<Self>, StoreError> {
        let folder = Folder::at(folder);
        let read = || match Journal::open(&folder, false)? {
            Some(journal) => Self::read(&folder, journal, Patience::Patient, true).map(Some),
            None => Ok(None),
        };
        match read() {
            Err(error) if error.is_damage() => {
                // Where there can be no lock, nobody writes.
                let _alone = folder.lock(Patience::Patient).ok();
                read()
            }
            opened => opened,
        }
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// How many learnings there are of each kind, the most first; those that were taken back do not count.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn learnings_by_kind(&mut self) -> Result<Vec<(String, u64)>, StoreError> {
        self.now()?.learnings_by_kind()
    }

    /// What is known of turns' entries that were restored, or are trusted otherwise than one that is new, by what they say.
    pub(crate) fn uses(&mut self) -> Result<Vec<(digest::Bytes, Adopted)>, StoreError> {
        self.now()?.uses()
    }

    fn read(folder: &Folder, mut journal: Journal, patience: Patience, is_read_only: bool) -> Result<Self, StoreError> {
        let mut replayed = match image::read(folder, &mut journal) {
            Some(replayed) => replayed,
            None => Replayed::new(folder, &journal.head)?,
        };
        replayed.follow(&mut journal)?;
        let (folder, raw) = (folder.clone(), raw::Files::default());
        let mut store = Self { folder, patience, is_read_only, journal, replayed, raw, writing: None };
        let much = match patience {
            Patience::Patient => MUCH,
            Patience::Hurried => TOO_MUCH,
        };
        if store.replayed.steps > much {
            store.take_image();
        }
        Ok(store)
    }

    /// Spares others what was replayed, where nobody writes just now. It is a cache: that there is no room for it is no reason not to go on.
    fn take_image(&mut self) {
        let Self { folder, journal, replayed, is_read_only: false, .. } = self else { return };
        if let Ok(Some(_alone)) = folder.try_lock() {
            image::write(folder, journal, replayed).ok();
        }
    }

    fn create(folder: &Folder, patience: Patience) -> Result<Self, StoreError> {
        let _alone = folder.lock(patience)?;
        if let Some(journal) = Journal::open(folder, true)? {
            // Somebody else has.
            return Self::read(folder, journal, patience, false);
        }
        if folder.has_transcripts()? {
            return Err(folder.without_journal());
        }
        let head = Head { format: FORMAT, schema: SqliteStore::SCHEMA, id: new_id()?, entries: Extent::default(), turns: 0 };
        let journal = Journal::create(folder, journal::FILE, head)?;
        Self::read(folder, journal, patience, false)
    }

    /// The archive as it is now, whoever wrote it.
    fn now(&mut self) -> Result<&mut SqliteStore, StoreError> {
        self.refresh()?;
        Ok(&mut self.replayed.memory)
    }

    /// Reads what others have written.
    fn refresh(&mut self) -> Result<(), StoreError> {
        match self.catch_up() {
            Err(error) if error.is_damage() => {
                // Somebody may have been writing just then. Where there can be no lock, nobody is.
                let _alone = self.folder.lock(self.patience).ok();
                self.catch_up()
            }
            done => done,
        }
    }

    fn catch_up(&mut self) -> Result<(), StoreError> {
        match self.journal.state()? {
            // One that was moved away is read on as it was.
            State::Same | State::Gone => Ok(()),
            State::Grown => self.replayed.follow(&mut self.journal),
            State::Replaced => {
                // None that is whole, for the moment.
                let Some(journal) = Journal::open(&self.folder, !self.is_read_only)? else { return Ok(()) };
                *self = Self::read(&self.folder, journal, self.patience, self.is_read_only)?;
                Ok(())
            }
        }
    }

    /// Keeps others from writing, and reads what they have written.
    fn alone(&mut self) -> Result<Option<File>, StoreError> {
        if self.is_read_only {
            let cause = io::ErrorKind::ReadOnlyFilesystem.into();
            return Err(StoreError::File { path: self.folder.path().to_owned(), cause });
        }
        loop {
            if self.journal.state()? == State::Gone {
                // Somebody has moved all of it away.
                *self = Self::open(self.folder.path(), self.patience)?;
            }
            let alone = match self.folder.lock(self.patience) {
                // Just now.
                Err(error) if is_not_there(&error) => continue,
                locked => locked?,
            };
            if self.journal.state()? != State::Gone {
                return self.catch_up().map(|()| alone);
            }
        }
    }

    /// Makes a change in memory and writes it down, or does neither. `work` says what its line is, if there is anything to be said.
    fn change<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<(T, Option<Change>), StoreError>) -> Result<T, StoreError> {
        let _alone = self.alone()?;
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
                    raw::cut(&self.folder, &name, known);
                }
            }
            // Where the line was written, it has happened: it is read from there.
            self.journal.at = at;
        }
        done
    }

    /// Writes what a batch has into the other files; says how long they are then.
    fn write_files(&mut self, batch: &Batch, known: u64, new: &[bool]) -> Result<(Extent, u64), StoreError> {
        let Transcript { path, session, agent } = &batch.transcript;
        let generation = batch.cursor.generation;
        let name = transcript_file(session, path, generation);
        let before = generation.checked_sub(1).map(|before| transcript_file(session, path, before));
        let shared = batch.rewritten.map_or(0, |rewritten| rewritten.shared);
        if batch.follows.is_none() || batch.rewritten.is_some() {
            self.writing = Some((name.clone(), 0));
            raw::begin(&self.folder, &name, before.as_deref().map(|before| (before, shared)))?;
        } else {
            self.writing = Some((name.clone(), known));
        }
        let is_patient = self.patience == Patience::Patient;
        let raw = raw::add(&self.folder, &raw::Addition { name: &name, known, segments: &batch.segments, is_patient })?;
        self.raw.forget();
        let mut entries = Vec::new();
        for (turn, _) in batch.turns.iter().zip(new).filter(|(_, is_new)| **is_new) {
            let bytes = self.raw.range(&self.folder, &name, (turn.start, turn.end))?;
            entries.push(Entry::of(session, agent.as_deref(), turn, &bytes));
        }
        Ok((entries::add(&self.folder, self.replayed.entries, &entries)?, raw))
    }

    /// Bytes of a transcript's generation that are there before a batch.
    fn known_bytes(&mut self, batch: &Batch) -> Result<u64, StoreError> {
        if let Some(rewritten) = batch.rewritten {
            return Ok(rewritten.shared);
        }
        let layout = self.replayed.memory.layout(&batch.transcript.path)?;
        Ok(layout.last().map_or(0, |(start, bytes, _)| start + u64::from(*bytes)))
    }

    /// Which of a batch's turns say what nobody has said yet.
    fn new_turns(&mut self, batch: &Batch) -> Result<Vec<bool>, StoreError> {
        let mut seen = HashSet::new();
        let is_new = |content: &digest::Bytes| Ok(seen.insert(*content) && self.replayed.memory.entries(&[*content])?.is_empty());
        batch.turns.iter().map(|turn| &turn.content_sha256).map(is_new).collect()
    }

    /// A piece of a transcript as it was archived.
    fn piece(&mut self, transcript: i64, generation: u32, piece: (u64, u32, &digest::Bytes)) -> Result<&[u8], StoreError> {
        let Some((path, session, _)) = self.replayed.memory.transcript_of(transcript)? else { return Ok(&[]) };
        let name = transcript_file(&session, &path, generation);
        let file = self.folder.file(&name);
        let damaged = |cause| StoreError::Segment { path: file, transcript, start: piece.0, cause };
        self.raw.piece(&self.folder, &name, piece).map_err(damaged)
    }
}

/// Whether the folder is gone.
fn is_not_there(error: &StoreError) -> bool {
    matches!(error, StoreError::File { cause, .. } if cause.kind() == io::ErrorKind::NotFound)
}

/// What no other journal has.
fn new_id() -> Result<String, StoreError> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(|error| StoreError::Sink(io::Error::other(error)))?;
    Ok(digest::hex(&bytes))
}
