/*!
Reads the bytes of a transcript that are new since the last time.

A pass costs only the new bytes. The cursor tells where to continue, and a hash of the [`CHECKED_BYTES`] before it shows that the
file is still the same up to there. If the hash differs, or the file is shorter, it was rewritten. Then segments are compared from
the start, and a new generation begins after those that are still the same. The generations share these segments, and turns before
the first difference stay. The old generation is kept and can be restored.

The cursor also has the state of the [`Interpreter`] with the open turn, whose content goes through a digest that can be suspended.
So no byte is read twice.

What is not kept is blanked as it is read ([`forget`](crate::forget)), so that all comparisons are with what is archived.
*/

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::forget::BlankedSource;
use super::segment;
use super::store::{Batch, Cursor, SharedPrefix, StoreError, Transcript};
use crate::store::{CursorReader, StoreReader};
use ctxbridge_common::digest;
use ctxbridge_common::files;
use ctxbridge_common::parallel::join;
use ctxbridge_transcript::{History, Interpreter, SessionMetadata, TurnSpan};

/// Bytes before the cursor that have to be the same. Clients remove lines from the end of a file (up to 64 KiB of it, as of 2.1)
/// and then append others. Only new files were seen to change earlier lines.
pub const CHECKED_BYTES: u64 = 64 << 10;

/// Bytes that are read, compressed and stored at once. Long passes can so be interrupted, and others can write in between.
const CHUNK_BYTES: u64 = 4 << 20;

/// Minimum bytes for a second thread; with fewer, it costs more than it saves.
const MIN_THREADED_BYTES: usize = 256 << 10;

/// Extent of the comparison of known transcripts with the archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// The end of what is archived, as hooks do it.
    End,
    /// Every byte.
    Whole,
}

/// Errors from reading a transcript.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// It is a folder, a device or the like.
    #[error("{0} is not a file; give the path of a transcript (.jsonl) or a folder of them")]
    NotAFile(PathBuf),
    /// It cannot be read.
    #[error("cannot read {path}: {cause}")]
    Io {
        /// The transcript.
        path: PathBuf,
        /// Error from the operating system.
        cause: io::Error,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Source of a transcript's bytes.
pub trait TranscriptSource {
    /// Appends bytes from `start` on; fewer than requested if the source ends before.
    ///
    /// # Errors
    /// If they cannot be read.
    fn read(&mut self, start: u64, length: u64, bytes: &mut Vec<u8>) -> io::Result<()>;
}

impl TranscriptSource for File {
    fn read(&mut self, start: u64, length: u64, bytes: &mut Vec<u8>) -> io::Result<()> {
        self.seek(SeekFrom::Start(start))?;
        self.take(length).read_to_end(bytes).map(drop)
    }
}

/// Reader of a transcript, from the first byte that is not archived.
pub struct TranscriptReader<'s> {
    source: Box<dyn TranscriptSource + 's>,
    path: PathBuf,
    /// Length when it was opened: later bytes are for the next pass.
    length: u64,
    transcript: Transcript,
    expected_cursor: Option<(u32, u64)>,
    cursor: Cursor,
    rewritten: Option<SharedPrefix>,
    /// The last segment, if it is to be joined with what follows.
    tail: Option<(u64, Vec<u8>)>,
    /// Up to [`CHECKED_BYTES`] before the cursor.
    recent: Vec<u8>,
}

impl<'s> TranscriptReader<'s> {
    /// Opens a transcript at its cursor.
    ///
    /// # Errors
    /// If it is no file or cannot be read, or the store cannot be.
    pub fn open(
        store: &mut dyn StoreReader,
        transcript: &Transcript,
        path: &Path,
        comparison: Comparison,
    ) -> Result<Self, ReadError> {
        let failed = |cause| ReadError::Io { path: path.to_owned(), cause };
        // Before the file's length: else it may have grown, and another process archived that, and then it would seem to have shrunk.
        let stored = store.cursor(&transcript.path)?;
        // Before it is opened: to open a pipe would wait for somebody to write to it.
        if !std::fs::metadata(path).map_err(failed)?.is_file() {
            return Err(ReadError::NotAFile(path.to_owned()));
        }
        let file = files::open(path).map_err(failed)?;
        let length = file.metadata().map_err(failed)?.len();
        Self::at(store, stored, transcript, (Box::new(file), length), path, comparison)
    }

    /// Like [`Self::open`], for a number of bytes of any source, which messages call by the transcript's path.
    ///
    /// # Errors
    /// If they cannot be read, or the store cannot be.
    pub fn from_source(
        store: &mut dyn StoreReader,
        transcript: &Transcript,
        source: (Box<dyn TranscriptSource + 's>, u64),
        comparison: Comparison,
    ) -> Result<Self, ReadError> {
        let stored = store.cursor(&transcript.path)?;
        Self::at(store, stored, transcript, source, Path::new(&transcript.path), comparison)
    }

    fn at(
        store: &mut dyn StoreReader,
        stored: Option<Cursor>,
        transcript: &Transcript,
        (source, length): (Box<dyn TranscriptSource + 's>, u64),
        path: &Path,
        comparison: Comparison,
    ) -> Result<Self, ReadError> {
        let follows = stored.as_ref().map(|cursor| (cursor.generation, cursor.bytes));
        let (source, length) = if transcript.part.is_transcript() {
            let archived = follows.map_or(0, |(_, bytes)| bytes);
            let blanked = BlankedSource::new(source, length, archived, (store.blanks()?, &transcript.session));
            let blanked = blanked.map_err(|cause| ReadError::Io { path: path.to_owned(), cause })?;
            let length = blanked.length();
            (Box::new(blanked) as Box<dyn TranscriptSource + 's>, length)
        } else {
            (source, length)
        };
        let mut reader = Self {
            source,
            path: path.to_owned(),
            length,
            transcript: transcript.clone(),
            expected_cursor: follows,
            rewritten: None,
            tail: None,
            recent: Vec::new(),
            cursor: stored.unwrap_or_else(|| first_cursor(transcript)),
        };
        reader.locate_start(store, comparison)?;
        Ok(reader)
    }

    /// Bytes of the file that are not archived yet.
    pub fn remaining(&self) -> u64 {
        self.length.saturating_sub(self.cursor.bytes)
    }

    /// `true` for a transcript; the bytes of a side file may be anything.
    fn has_lines(&self) -> bool {
        self.transcript.part.is_transcript()
    }

    /// State of the transcript's interpretation so far.
    pub fn into_interpreter(self) -> Interpreter {
        self.cursor.interpreter
    }

    /// Returns the next batch; `None` if everything is archived. The store has all batches before it.
    ///
    /// # Errors
    /// If the file cannot be read, or the store cannot be.
    pub fn next_batch(&mut self, store: &mut dyn CursorReader) -> Result<Option<Batch>, ReadError> {
        // That there is a side file is worth knowing, even if there is nothing in it.
        let is_empty_file = !self.has_lines() && self.expected_cursor.is_none();
        if self.remaining() == 0 && self.rewritten.is_none() && !is_empty_file {
            return Ok(None);
        }
        if self.has_lines() {
            self.catch_up(store)?;
        }
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
        let pack = || segment::pack(start, &bytes);
        let has_lines = self.has_lines();
        let mut feed = || {
            if !has_lines {
                return Ok(());
            }
            let mut history = ArchivedHistory::of(&mut *self.source, store, &self.transcript, self.rewritten);
            self.cursor.interpreter.feed_with(new, &mut history);
            history.outcome
        };
        let (segments, outcome) = if new.len() < MIN_THREADED_BYTES { (pack(), feed()) } else { join(pack, feed) };
        outcome?;
        let segments = if new.is_empty() { Vec::new() } else { segments.map_err(|cause| self.failed(cause))? };
        self.recent.extend_from_slice(new);
        self.recent.drain(..self.recent.len().saturating_sub(CHECKED_BYTES as usize));
        self.cursor.check = digest::sha256(&self.recent);
        self.cursor.bytes += new.len() as u64;
        let mut told = None;
        if has_lines && self.remaining() == 0 {
            let mut history = ArchivedHistory::of(&mut *self.source, store, &self.transcript, self.rewritten);
            told = self.cursor.interpreter.at_end(&mut history);
            history.outcome?;
        }
        if told.is_some() {
            // It is told by the one that has the last line as well; the cursor stays before that.
            self.cursor.interpreter.take_all();
        }
        let told = told.as_mut().unwrap_or(&mut self.cursor.interpreter).take_all();
        let batch = Batch {
            transcript: self.transcript.clone(),
            expected_cursor: self.expected_cursor,
            rewritten: self.rewritten.take(),
            segments,
            turns: told.turns,
            summaries: told.summaries,
            first_contexts: told.first_contexts,
            path_changes: told.path_changes,
            cursor: Cursor { interpreter: self.cursor.interpreter.at_rest(), ..self.cursor },
        };
        self.expected_cursor = Some((self.cursor.generation, self.cursor.bytes));
        Ok(Some(batch))
    }

    /// Finds where to continue: at the cursor, or where a rewritten file begins to differ.
    fn locate_start(&mut self, store: &mut dyn StoreReader, comparison: Comparison) -> Result<(), ReadError> {
        if self.expected_cursor.is_none() {
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
            Comparison::End | Comparison::Whole => self.unchanged_bytes(store)?,
        };
        if is_same && shared == end {
            if self.remaining() > 0 {
                self.tail = match store.tail(&self.transcript.path, segment::JOIN_BELOW_BYTES) {
                    // The file still has what was damaged in the archive.
                    Err(StoreError::Segment { start, .. }) => Some((start, self.piece(start, end - start)?)),
                    // A transcript that is read again from its first byte has more segments than were read of it.
                    tail => tail?.filter(|(start, bytes)| start + bytes.len() as u64 == end),
                };
            }
            return Ok(());
        }
        // Where branches were left, what stands in one place depends on what stands in others.
        let is_linear = self.cursor.interpreter.rewound().is_empty();
        let (position, turns) = if is_linear { self.last_unchanged_turn(store, shared)? } else { (0, 0) };
        let interpreter = if turns == 0 || !self.transcript.part.is_conversation() {
            from_the_start(&self.transcript)
        } else {
            Interpreter::starting_at(position, turns, self.seen_before(position)?)
        };
        self.recent = self.before(shared)?;
        self.rewritten = Some(SharedPrefix { shared, turns });
        self.cursor =
            Cursor { generation: self.cursor.generation + 1, bytes: shared, check: digest::sha256(&self.recent), interpreter };
        Ok(())
    }

    /// Start and index of the last turn whose first line, which makes it a turn, is unchanged.
    fn last_unchanged_turn(&mut self, store: &mut dyn CursorReader, shared: u64) -> Result<(u64, u32), ReadError> {
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
    fn unchanged_bytes(&mut self, store: &mut dyn CursorReader) -> Result<u64, ReadError> {
        let mut shared = 0;
        for (start, bytes, sha256) in store.segment_index(&self.transcript.path)? {
            let piece = self.piece(start, bytes.into())?;
            if start != shared || piece.len() != bytes as usize || digest::sha256(&piece) != sha256 {
                break;
            }
            shared = start + u64::from(bytes);
        }
        Ok(shared)
    }

    /// Session metadata from before a turn's start. All that is only read again if there are bad lines to count.
    fn seen_before(&mut self, end: u64) -> Result<SessionMetadata, ReadError> {
        let seen = self.cursor.interpreter.session_metadata().clone();
        if seen.bad_lines == 0 {
            return Ok(seen);
        }
        let mut again = Interpreter::default();
        while again.position() + (again.waiting() as u64) < end {
            let seen = again.position() + again.waiting() as u64;
            let bytes = self.piece(seen, (end - seen).min(CHUNK_BYTES))?;
            if bytes.is_empty() {
                break;
            }
            again.feed(&bytes);
            again.take_turns();
        }
        let SessionMetadata { lines, bad_lines, first_bad, .. } = *again.session_metadata();
        Ok(SessionMetadata { lines, bad_lines, first_bad, ..seen })
    }

    /// Feeds the interpreter archived bytes again: those of an incomplete line, or between a turn's start and the cursor.
    fn catch_up(&mut self, store: &mut dyn CursorReader) -> Result<(), ReadError> {
        let mut interpreter = std::mem::take(&mut self.cursor.interpreter);
        loop {
            let seen = interpreter.position() + interpreter.waiting() as u64;
            let bytes = self.piece(seen, self.cursor.bytes.saturating_sub(seen).min(CHUNK_BYTES))?;
            if bytes.is_empty() {
                break;
            }
            let mut history = ArchivedHistory::of(&mut *self.source, store, &self.transcript, self.rewritten);
            interpreter.feed_with(&bytes, &mut history);
            history.outcome?;
        }
        self.cursor.interpreter = interpreter;
        Ok(())
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

    /// Appends bytes of the file; fewer than requested if it ends before.
    fn read(&mut self, start: u64, length: u64, bytes: &mut Vec<u8>) -> Result<(), ReadError> {
        self.source.read(start, length, bytes).map_err(|cause| self.failed(cause))
    }

    fn failed(&self, cause: io::Error) -> ReadError {
        ReadError::Io { path: self.path.clone(), cause }
    }
}

/// The past of a transcript: its bytes in the file, its turns in the archive.
struct ArchivedHistory<'a> {
    source: &'a mut dyn TranscriptSource,
    store: &'a mut dyn CursorReader,
    path: &'a str,
    /// Turns in the archive that are still those of the file, if it was rewritten.
    unchanged_turns: Option<u32>,
    outcome: Result<(), StoreError>,
}

impl<'a> ArchivedHistory<'a> {
    fn of(
        source: &'a mut dyn TranscriptSource,
        store: &'a mut dyn CursorReader,
        transcript: &'a Transcript,
        rewritten: Option<SharedPrefix>,
    ) -> Self {
        Self { source, store, path: &transcript.path, unchanged_turns: rewritten.map(|prefix| prefix.turns), outcome: Ok(()) }
    }
}

impl History for ArchivedHistory<'_> {
    fn bytes(&mut self, range: Range<u64>) -> Vec<u8> {
        let mut bytes = Vec::new();
        // What cannot be read is as if it were not there; the next batch fails then.
        match self.source.read(range.start, range.end.saturating_sub(range.start), &mut bytes) {
            Ok(()) => bytes,
            Err(_) => Vec::new(),
        }
    }

    fn turns_behind(&mut self, byte: u64) -> Vec<TurnSpan> {
        match self.store.turns_behind(self.path, byte) {
            Ok(mut turns) => {
                turns.retain(|turn| self.unchanged_turns.is_none_or(|unchanged| turn.index < unchanged));
                turns
            }
            Err(error) => {
                self.outcome = Err(error);
                Vec::new()
            }
        }
    }
}

fn first_cursor(transcript: &Transcript) -> Cursor {
    Cursor { generation: 0, bytes: 0, check: digest::sha256(&[]), interpreter: from_the_start(transcript) }
}

fn from_the_start(transcript: &Transcript) -> Interpreter {
    if transcript.part.agent().is_some() { Interpreter::of_agent() } else { Interpreter::default() }
}
