/*!
The journal: one line for each change, in the order in which they happened.

A line counts once its line break is written; anything after the last line break is from an unfinished write. Each line starts
with a checksum of itself and of all lines before it ([`journal_line`]). A damaged, lost, doubled or moved line is noticed. Where one
bit was flipped, the line is read as it was, and whoever holds the lock writes the right byte back.
*/

use std::fs::{File, Metadata};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};

use serde::{Deserialize, Serialize};

use super::folder::{Folder, JOURNAL_FILE};
use super::journal_line::{self, Correction, FlippedByte, Position};
use crate::store::StoreError;
use crate::store::sqlite::SqliteStore;
use ctxbridge_common::files;
use ctxbridge_common::sqlite::DatabaseOpenError;

/// The format version. It changes when an older ctxbridge could not read a new journal.
pub(super) const FORMAT: u32 = 1;

/// Size of the read buffer, in bytes.
const BUFFER: usize = 256 << 10;

/// The first line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct JournalHeader {
    /// [`FORMAT`].
    pub format: u32,
    /// The version of the tables whose rows follow.
    pub schema: u32,
    /// Unique id of the journal.
    pub id: String,
    /// Extent of the entries file when the journal was started.
    pub entries: Extent,
    /// Number of turns whose rows follow.
    pub turns: u64,
}

/// Size of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Extent {
    pub bytes: u64,
    pub lines: u64,
}

/// The first line, as it is written.
#[derive(Serialize, Deserialize)]
struct JournalHeaderLine {
    journal: JournalHeader,
}

/// A journal, up to where it was read.
#[derive(Debug)]
pub(super) struct ChangeJournal {
    folder: Folder,
    file: File,
    pub head: JournalHeader,
    /// Position up to which it was read.
    pub at: Position,
    /// Length of the file when it was read, in bytes; anything after the position is no complete line.
    seen: u64,
    /// Bytes up to the last of its initial rows.
    pub begin: u64,
    /// Bytes with a flipped bit, which are read as they were.
    flipped: Vec<FlippedByte>,
}

/// State of the file since it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JournalState {
    /// It is unchanged.
    Same,
    /// It may have grown, or an unfinished line was cut off.
    Grown,
    /// Another file replaced it.
    Replaced,
    /// It is gone.
    Gone,
}

/// Callback for lines: receives the position and the text of each.
type Take<'t> = &'t mut dyn FnMut(&Position, &[u8]) -> Result<(), StoreError>;

impl ChangeJournal {
    /// Opens the journal of a folder. Returns `None` if there is none, or no complete line in it.
    pub fn open(folder: &Folder, is_to_be_written: bool) -> Result<Option<Self>, StoreError> {
        let mut options = files::private();
        options.write(is_to_be_written).read(true);
        let Some(file) = folder.open_if_there(JOURNAL_FILE, &mut options)? else { return Ok(None) };
        let head = JournalHeader { format: FORMAT, schema: 0, id: String::new(), entries: Extent::default(), turns: 0 };
        let mut journal =
            Self { folder: folder.clone(), file, head, at: Position::default(), seen: 0, begin: 0, flipped: Vec::new() };
        let mut first = None;
        // Just the first line: the others are read by who knows what they mean.
        journal.read_some(1, &mut |_, line| {
            first = serde_json::from_slice::<JournalHeaderLine>(line).ok();
            Ok(())
        })?;
        if journal.at == Position::default() {
            return Ok(None);
        }
        let Some(JournalHeaderLine { journal: head }) = first else {
            return Err(journal.damaged(1, "it is not how a journal begins"));
        };
        for (found, known) in [(head.format, FORMAT), (head.schema, SqliteStore::SCHEMA)] {
            if found > known {
                return Err(journal.newer(found, known));
            }
        }
        journal.begin = journal.at.bytes;
        Ok(Some(Self { head, ..journal }))
    }

    /// Creates a journal in a file, which is emptied.
    pub fn create(folder: &Folder, name: &str, head: JournalHeader) -> Result<Self, StoreError> {
        let file = folder.open(name, files::private().read(true).create(true).truncate(true))?;
        let mut journal =
            Self { folder: folder.clone(), file, head, at: Position::default(), seen: 0, begin: 0, flipped: Vec::new() };
        let line = json(&JournalHeaderLine { journal: journal.head.clone() })?;
        journal.append(&line)?;
        journal.begin = journal.at.bytes;
        Ok(journal)
    }

    /// Compares the file on the disk with the one that was read.
    pub fn state(&self) -> Result<JournalState, StoreError> {
        let failed = |cause| self.folder.explain(JOURNAL_FILE, cause);
        let there = match std::fs::symlink_metadata(self.folder.file(JOURNAL_FILE)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(JournalState::Gone),
            there => there.map_err(failed)?,
        };
        if !self.is_this(&there).map_err(failed)? || there.len() < self.at.bytes {
            return Ok(JournalState::Replaced);
        }
        // What was no line may have become one of the same length.
        let is_same = there.len() == self.seen && self.seen == self.at.bytes;
        Ok(if is_same { JournalState::Same } else { JournalState::Grown })
    }

    /// `true` if exactly these lines precede a position; the checksum of the last one covers all.
    pub fn has(&self, at: &Position) -> bool {
        let right = journal_line::prefix(at.crc);
        let mut begin = right.map(|_| 0);
        let mut end = [0];
        let mut read = || {
            let mut file = &self.file;
            file.seek(SeekFrom::Start(at.last))?;
            file.read_exact(&mut begin)?;
            file.seek(SeekFrom::Start(at.bytes.saturating_sub(1)))?;
            file.read_exact(&mut end)
        };
        read().is_ok() && end == *b"\n" && begin == right
    }

    #[cfg(unix)]
    fn is_this(&self, there: &Metadata) -> io::Result<bool> {
        use std::os::unix::fs::MetadataExt;
        let here = self.file.metadata()?;
        Ok((here.dev(), here.ino()) == (there.dev(), there.ino()))
    }

    #[cfg(not(unix))]
    fn is_this(&self, _: &Metadata) -> io::Result<bool> {
        let mut line = Vec::new();
        BufReader::new(files::open(self.folder.file(JOURNAL_FILE))?).read_until(b'\n', &mut line)?;
        let is_whole = journal_line::checked(&line, 0).is_some();
        let head = is_whole.then(|| serde_json::from_slice::<JournalHeaderLine>(journal_line::said(&mut line)).ok()).flatten();
        Ok(head.is_some_and(|head| head.journal == self.head))
    }

    /// Reads the new lines: the position and the text of each.
    ///
    /// # Errors
    /// If a damaged line is followed by others. Where somebody may be writing just now, check once more.
    pub fn read(&mut self, take: Take<'_>) -> Result<(), StoreError> {
        self.read_some(u64::MAX, take)
    }

    fn read_some(&mut self, most: u64, take: Take<'_>) -> Result<(), StoreError> {
        let failed = |folder: &Folder, cause| folder.explain(JOURNAL_FILE, cause);
        let mut reader = BufReader::with_capacity(BUFFER, &self.file);
        reader.seek(SeekFrom::Start(self.at.bytes)).map_err(|cause| failed(&self.folder, cause))?;
        let mut line = Vec::new();
        for _ in 0..most {
            line.clear();
            let bytes = reader.read_until(b'\n', &mut line).map_err(|cause| failed(&self.folder, cause))? as u64;
            self.seen = self.at.bytes + bytes;
            let crc = match journal_line::checked(&line, self.at.crc) {
                Some(crc) => crc,
                None => match journal_line::corrected(&mut reader, &mut line, &self.at)
                    .map_err(|cause| failed(&self.folder, cause))?
                {
                    Correction::Done(crc, byte) => {
                        if !self.flipped.contains(&byte) {
                            self.flipped.push(byte);
                        }
                        crc
                    }
                    // The disk may have kept the end of a write and lost its begin.
                    Correction::Unfinished => return Ok(()),
                    Correction::Impossible => return Err(self.damaged(self.at.lines + 1, "its checksum is another")),
                },
            };
            let bytes = line.len() as u64;
            let next = Position { bytes: self.at.bytes + bytes, last: self.at.bytes, lines: self.at.lines + 1, crc };
            take(&next, journal_line::said(&mut line))?;
            self.at = next;
        }
        Ok(())
    }

    /// Adds a line, after cutting off an unfinished one. If it cannot be written, the file stays as it was.
    pub fn append(&mut self, said: &[u8]) -> Result<(), StoreError> {
        let (line, crc) = journal_line::line_of(said, self.at.crc);
        let mut write = || {
            if self.file.metadata()?.len() != self.at.bytes {
                self.file.set_len(self.at.bytes)?;
            }
            self.file.seek(SeekFrom::Start(self.at.bytes))?;
            self.file.write_all(&line)
        };
        if let Err(cause) = write() {
            // What cannot be cut off now is no line, and is cut off by who writes next.
            self.file.set_len(self.at.bytes).ok();
            return Err(self.folder.explain(JOURNAL_FILE, cause));
        }
        self.at = Position { bytes: self.at.bytes + line.len() as u64, last: self.at.bytes, lines: self.at.lines + 1, crc };
        self.seen = self.at.bytes;
        Ok(())
    }

    /// Bytes with a flipped bit that were found so far, and are not turned back in the file.
    pub fn flipped(&self) -> &[FlippedByte] {
        &self.flipped
    }

    /// Turns the flipped bits that were found back in the file, and returns their number. The caller holds the lock.
    pub fn turn_back(&mut self) -> u64 {
        let mut file = &self.file;
        let mut turn = |byte: &FlippedByte| -> io::Result<bool> {
            let mut there = [0];
            file.seek(SeekFrom::Start(byte.at))?;
            file.read_exact(&mut there)?;
            // Else somebody was first.
            if there == [byte.is] {
                file.seek(SeekFrom::Start(byte.at))?;
                file.write_all(&[byte.was])?;
            }
            Ok(there == [byte.is])
        };
        // What cannot be written now is found again by whoever reads it next.
        self.flipped.drain(..).filter(|byte| turn(byte).unwrap_or_default()).count() as u64
    }

    /// Waits until the journal is on the disk.
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_all()
    }

    pub fn damaged(&self, line: u64, cause: &str) -> StoreError {
        let path = self.folder.path().to_owned();
        StoreError::Damaged { path, cause: format!("line {line} of {JOURNAL_FILE}: {cause}") }
    }

    pub fn newer(&self, found: u32, known: u32) -> StoreError {
        StoreError::Open { path: self.folder.file(JOURNAL_FILE), cause: DatabaseOpenError::Newer { found, known } }
    }
}

/// Serializes a value as JSON.
pub(super) fn json(value: &impl Serialize) -> Result<Vec<u8>, StoreError> {
    serde_json::to_vec(value).map_err(|error| StoreError::Sink(error.into()))
}
