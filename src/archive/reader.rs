/*!
Reads what a transcript has got since the last time.

A pass costs the bytes that are new: where it goes on is known from the cursor, and that the file is still the same one up to there
from a hash of the [`CHECKED_BYTES`] before. When they differ, or the file is shorter, it was rewritten: then segments are compared
from the start, and a new generation begins behind those that are still the same.
*/

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use super::segment;
use super::store::{Batch, Cursor, Rewritten, Store, StoreError, Transcript};
use ctxbridge_common::digest;
use ctxbridge_common::parallel::beside;
use ctxbridge_transcript::{Interpreter, Seen};

/// Bytes before the cursor that have to be the same. Clients take lines back from the end of a file (up to 64 KiB of it, as of
/// 2.1), and then append others; nothing but a new file was seen to change earlier ones.
pub const CHECKED_BYTES: u64 = 64 << 10;

/// Bytes that are read, compressed and stored at once: long passes can be interrupted, and others get a turn in between.
const CHUNK_BYTES: u64 = 4 << 20;

/// Below this, a second thread costs more than it saves.
const WORTH_A_THREAD: usize = 256 << 10;

/// How thoroughly known transcripts are compared with the archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// The end of what is archived, as hooks do it.
    End,
    /// Every byte.
    Whole,
}

/// Why a transcript cannot be archived.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// It is a folder, a device or the like.
    #[error("{0} is not a file; give the path of a transcript (.jsonl) or a folder of them")]
    NotAFile(PathBuf),
    /// The system says no.
    #[error("cannot read {path}: {cause}")]
    Io {
        /// The transcript.
        path: PathBuf,
        /// What the system says.
        cause: io::Error,
    },
    /// The store says no.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Where the bytes of a transcript come from.
pub trait Source {
    /// Appends bytes from `start` on; fewer than asked for where it ends before.
    ///
    /// # Errors
    /// When they cannot be read.
    fn read(&mut self, start: u64, length: u64, bytes: &mut Vec<u8>) -> io::Result<()>;
}

impl Source for File {
    fn read(&mut self, start: u64, length: u64, bytes: &mut Vec<u8>) -> io::Result<()> {
        self.seek(SeekFrom::Start(start))?;
        self.take(length).read_to_end(bytes).map(drop)
    }
}

/// A transcript, from the first byte on that is not archived.
pub struct Reader<'s> {
    source: Box<dyn Source + 's>,
    path: PathBuf,
    /// Bytes that it had when it was opened: what comes later is the next pass's.
    length: u64,
    transcript: Transcript,
    follows: Option<(u32, u64)>,
    cursor: Cursor,
    rewritten: Option<Rewritten>,
    /// The last segment, if it is to be joined with what follows.
    tail: Option<(u64, Vec<u8>)>,
    /// Up to [`CHECKED_BYTES`] before the cursor.
    recent: Vec<u8>,
}

impl<'s> Reader<'s> {
    /// Opens a transcript at its cursor.
    ///
    /// # Errors
    /// When it is no file or cannot be read, or the store cannot be.
    pub fn open(store: &mut dyn Store, transcript: &Transcript, path: &Path, comparison: Comparison) -> Result<Self, ReadError> {
        let failed = |cause| ReadError::Io { path: path.to_owned(), cause };
        // Before the file's length: else it may have grown, and another process archived that, and then it would seem to have shrunk.
        let stored = store.cursor(&transcript.path)?;
        // Before it is opened: to open a pipe would wait for somebody to write to it.
        if !std::fs::metadata(path).map_err(failed)?.is_file() {
            return Err(ReadError::NotAFile(path.to_owned()));
        }
        let file = File::open(path).map_err(failed)?;
        let length = file.metadata().map_err(failed)?.len();
        Self::at(store, stored, transcript, (Box::new(file), length), path, comparison)
    }

    /// The same for so many bytes of anything, which is called by the transcript's path in messages.
    ///
    /// # Errors
    /// When they cannot be read, or the store cannot be.
    pub fn over(
        store: &mut dyn Store,
        transcript: &Transcript,
        source: (Box<dyn Source + 's>, u64),
        comparison: Comparison,
    ) -> Result<Self, ReadError> {
        let stored = store.cursor(&transcript.path)?;
        Self::at(store, stored, transcript, source, Path::new(&transcript.path), comparison)
    }

    fn at(
        store: &mut dyn Store,
        stored: Option<Cursor>,
        transcript: &Transcript,
        (source, length): (Box<dyn Source + 's>, u64),
        path: &Path,
        comparison: Comparison,
    ) -> Result<Self, ReadError> {
        let follows = stored.as_ref().map(|cursor| (cursor.generation, cursor.bytes));
        let mut reader = Self {
            source,
            path: path.to_owned(),
            length,
            transcript: transcript.clone(),
            follows,
            rewritten: None,
            tail: None,
            recent: Vec::new(),
            cursor: stored.unwrap_or_else(|| first_cursor(transcript)),
        };
        reader.find_place(store, comparison)?;
        Ok(reader)
    }

    /// Bytes of the file that are not archived yet.
    pub fn remaining(&self) -> u64 {
        self.length.saturating_sub(self.cursor.bytes)
    }

    /// What is known of the transcript so far.
    pub fn into_interpreter(self) -> Interpreter {
        self.cursor.interpreter
    }

    /// The next batch; nothing when everything is archived.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn next_batch(&mut self) -> Result<Option<Batch>, ReadError> {
        if self.remaining() == 0 && self.rewritten.is_none() {
            return Ok(None);
        }
        self.catch_up()?;
        let (start, mut bytes) = self.tail.take().unwrap_or((self.cursor.bytes, Vec::new()));
        // Segments of several chunks then begin at multiples of their size.
        let wanted = CHUNK_BYTES.saturating_sub(bytes.len() as u64).min(self.remaining());
        let joined = bytes.len();
        self.read(self.cursor.bytes, wanted, &mut bytes)?;
        if bytes.len() == joined && wanted > 0 && self.rewritten.is_none() {
            // It has shrunk since it was opened: the next pass will see.
            return Ok(None);
        }
        let new = &bytes[joined..];
        let interpreter = &mut self.cursor.interpreter;
        let pack = || segment::pack(start, &bytes);
        let segments = if new.len() < WORTH_A_THREAD {
            interpreter.feed(new);
            pack()
        } else {
            beside(pack, || interpreter.feed(new)).0
        };
        let segments = if new.is_empty() { Vec::new() } else { segments.map_err(|cause| self.failed(cause))? };
        self.recent.extend_from_slice(new);
        self.recent.drain(..self.recent.len().saturating_sub(CHECKED_BYTES as usize));
        self.cursor.check = digest::sha256(&self.recent);
        self.cursor.bytes += new.len() as u64;
        let batch = Batch {
            transcript: self.transcript.clone(),
            follows: self.follows,
            rewritten: self.rewritten.take(),
            segments,
            turns: self.cursor.interpreter.take_turns(),
            summaries: self.cursor.interpreter.take_summaries(),
            first_contexts: self.cursor.interpreter.take_first_contexts(),
            cursor: Cursor { interpreter: self.cursor.interpreter.at_rest(), ..self.cursor },
        };
        self.follows = Some((self.cursor.generation, self.cursor.bytes));
        Ok(Some(batch))
    }

    /// Where to go on: at the cursor, or where a rewritten file begins to differ.
    fn find_place(&mut self, store: &mut dyn Store, comparison: Comparison) -> Result<(), ReadError> {
        if self.follows.is_none() {
            return Ok(());
        }
        let end = self.cursor.bytes;
        let mut is_same = false;
        if end <= self.length {
            self.recent = self.before(end)?;
            is_same = digest::sha256(&self.recent) == self.cursor.check;
        }
        let shared = match comparison {
            Comparison::End if is_same => end,
            Comparison::End | Comparison::Whole => self.shared(store)?,
        };
        if is_same && shared == end {
            if self.remaining() > 0 {
                self.tail = match store.tail(&self.transcript.path, segment::JOINED_BELOW) {
                    // The file still has what was damaged in the archive.
                    Err(StoreError::Segment { start, .. }) => Some((start, self.piece(start, end - start)?)),
                    tail => tail?,
                };
            }
            return Ok(());
        }
        let (position, turns) = self.same_turn(store, shared)?;
        let interpreter = if turns == 0 || self.transcript.agent.is_some() {
            from_the_start(&self.transcript)
        } else {
            Interpreter::starting_at(position, turns, self.seen_before(position)?)
        };
        self.recent = self.before(shared)?;
        self.rewritten = Some(Rewritten { shared, turns });
        self.cursor =
            Cursor { generation: self.cursor.generation + 1, bytes: shared, check: digest::sha256(&self.recent), interpreter };
        Ok(())
    }

    /// Start and index of the last turn whose first line is the same as before: what makes it a turn.
    fn same_turn(&mut self, store: &mut dyn Store, shared: u64) -> Result<(u64, u32), ReadError> {
        let mut before = Some(shared);
        while let Some(byte) = before
            && let Some((start, index)) = store.turn_at(&self.transcript.path, byte)?
        {
            if self.has_whole_line(start, shared)? {
                return Ok((start, index));
            }
            before = start.checked_sub(1);
        }
        Ok((0, 0))
    }

    fn has_whole_line(&mut self, start: u64, end: u64) -> Result<bool, ReadError> {
        for piece in (start..end).step_by(CHECKED_BYTES as usize) {
            if self.piece(piece, CHECKED_BYTES.min(end - piece))?.contains(&b'\n') {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Bytes at the start that are still those of the stored segments.
    fn shared(&mut self, store: &mut dyn Store) -> Result<u64, ReadError> {
        let mut shared = 0;
        for (start, bytes, sha256) in store.layout(&self.transcript.path)? {
            let piece = self.piece(start, bytes.into())?;
            if start != shared || piece.len() != bytes as usize || digest::sha256(&piece) != sha256 {
                break;
            }
            shared = start + u64::from(bytes);
        }
        Ok(shared)
    }

    /// What was met before a turn's begin. Only where there are bad lines to count is it worth reading all that again.
    fn seen_before(&mut self, end: u64) -> Result<Seen, ReadError> {
        let seen = self.cursor.interpreter.seen().clone();
        if seen.bad_lines == 0 {
            return Ok(seen);
        }
        let mut again = Interpreter::default();
        self.show(&mut again, end)?;
        let Seen { lines, bad_lines, first_bad, .. } = *again.seen();
        Ok(Seen { lines, bad_lines, first_bad, ..seen })
    }

    /// Lets the interpreter see again what is archived but was not complete, or stands between a turn's begin and the cursor.
    fn catch_up(&mut self) -> Result<(), ReadError> {
        let mut interpreter = std::mem::take(&mut self.cursor.interpreter);
        let shown = self.show(&mut interpreter, self.cursor.bytes);
        self.cursor.interpreter = interpreter;
        shown
    }

    /// Shows an interpreter the file from where it is to `end`.
    fn show(&mut self, interpreter: &mut Interpreter, end: u64) -> Result<(), ReadError> {
        loop {
            let seen = interpreter.position() + interpreter.waiting() as u64;
            let bytes = self.piece(seen, end.saturating_sub(seen).min(CHUNK_BYTES))?;
            if bytes.is_empty() {
                return Ok(());
            }
            interpreter.feed(&bytes);
        }
    }

    fn before(&mut self, end: u64) -> Result<Vec<u8>, ReadError> {
        let length = end.min(CHECKED_BYTES);
        self.piece(end - length, length)
    }

    fn piece(&mut self, start: u64, length: u64) -> Result<Vec<u8>, ReadError> {
        let mut bytes = Vec::new();
        self.read(start, length, &mut bytes)?;
        Ok(bytes)
    }

    /// Appends bytes of the file; fewer than asked for when it ends before.
    fn read(&mut self, start: u64, length: u64, bytes: &mut Vec<u8>) -> Result<(), ReadError> {
        self.source.read(start, length, bytes).map_err(|cause| self.failed(cause))
    }

    fn failed(&self, cause: io::Error) -> ReadError {
        ReadError::Io { path: self.path.clone(), cause }
    }
}

fn first_cursor(transcript: &Transcript) -> Cursor {
    Cursor { generation: 0, bytes: 0, check: digest::sha256(&[]), interpreter: from_the_start(transcript) }
}

fn from_the_start(transcript: &Transcript) -> Interpreter {
    if transcript.agent.is_some() { Interpreter::of_agent() } else { Interpreter::default() }
}
