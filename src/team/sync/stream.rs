//! The bytes of an archived transcript without its secrets, as a [`Source`] for the reader that fills the other store.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, Read, Seek, SeekFrom, Write};

use memchr::memchr_iter;
use serde::{Deserialize, Serialize};
use tempfile::SpooledTempFile;

use ctxbridge_archive::reader::{CHECKED_BYTES, Source};
use ctxbridge_archive::same;
use ctxbridge_archive::store::{Store, StoreError, StoredTranscript};
use ctxbridge_redact::{Found, Redactor};

/// Bytes of one transcript that are held in memory; more than that waits in a file without a name.
const IN_MEMORY: usize = 64 << 20;

/// Bytes between two places that are remembered.
const BETWEEN_MARKS: u64 = 16 << 10;

/// The same place, between two lines, here and there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// Bytes before it in the transcript.
    pub local: u64,
    /// Bytes before it in what is sent.
    pub sent: u64,
}

/// What is sent of a transcript, from a mark on.
#[derive(Debug)]
pub(super) struct Stream {
    from: Mark,
    bytes: SpooledTempFile,
    length: u64,
    again: Mark,
    /// Whether somebody asked for what is before.
    is_asked_before: bool,
}

impl Stream {
    /// Reads a transcript up to a byte.
    ///
    /// # Errors
    /// When it cannot be read, or there is no room for it.
    pub fn read(
        store: &mut dyn Store,
        (transcript, generation): (i64, u32),
        (from, to): (Mark, u64),
        redactor: &Redactor,
        found: &mut Found,
    ) -> Result<Self, StoreError> {
        let mut lines = Lines {
            redactor,
            found,
            bytes: SpooledTempFile::new(IN_MEMORY),
            rest: Vec::new(),
            at: from,
            marks: VecDeque::from([from]),
        };
        store.raw(transcript, generation, (from.local, to), &mut lines)?;
        let again = lines.finish()?;
        Ok(Self { from, bytes: lines.bytes, length: lines.at.sent, again, is_asked_before: false })
    }

    /// Bytes in all, with those before the mark.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Where to begin the next time.
    pub fn again(&self) -> Mark {
        self.again
    }

    /// The first generation of the other store, from one on, that begins with this; for what was read from its begin.
    ///
    /// # Errors
    /// When the other store cannot be read.
    pub fn generation_in(
        &mut self,
        store: &mut dyn Store,
        there: &StoredTranscript,
        from: u32,
    ) -> Result<Option<u32>, StoreError> {
        same::first_with(store, there.key, from..=there.generation, (&mut self.bytes, self.length))
    }

    /// Whether it has to begin earlier.
    pub fn begins_too_late(&self) -> bool {
        self.is_asked_before
    }
}

/// A stream that is read again where a pass begins again.
pub(super) struct Shared<'s>(pub &'s RefCell<Stream>);

impl Source for Shared<'_> {
    fn read(&mut self, start: u64, length: u64, bytes: &mut Vec<u8>) -> io::Result<()> {
        let mut stream = self.0.borrow_mut();
        let Some(start) = start.checked_sub(stream.from.sent) else {
            stream.is_asked_before = true;
            return Err(io::Error::other("what is sent begins later"));
        };
        stream.bytes.seek(SeekFrom::Start(start))?;
        (&mut stream.bytes).take(length).read_to_end(bytes).map(drop)
    }
}

/// Takes bytes in pieces and cleans them line by line: what is a secret in a line depends on nothing but that line, so it is the same
/// wherever one begins.
struct Lines<'c> {
    redactor: &'c Redactor,
    found: &'c mut Found,
    bytes: SpooledTempFile,
    /// The begin of a line.
    rest: Vec<u8>,
    at: Mark,
    /// Ends of lines, the newest last, as many as are needed to begin again far enough from the end.
    marks: VecDeque<Mark>,
}

impl Lines<'_> {
    fn line(&mut self, line: &[u8]) -> io::Result<()> {
        let (cleaned, found) = self.redactor.redact_line(line);
        found.into_iter().for_each(|(rule, count)| *self.found.entry(rule).or_default() += count);
        self.bytes.write_all(&cleaned)?;
        self.at = Mark { local: self.at.local + line.len() as u64, sent: self.at.sent + cleaned.len() as u64 };
        Ok(())
    }

    fn mark(&mut self) {
        if self.marks.back().is_none_or(|last| self.at.sent >= last.sent + BETWEEN_MARKS) {
            self.marks.push_back(self.at);
        }
        while self.marks.get(1).is_some_and(|second| second.sent + CHECKED_BYTES <= self.at.sent) {
            self.marks.pop_front();
        }
    }

    /// A last line without an end is sent like any other, and once more when it goes on; but not the begin of one, where a secret may be cut in two
    /// and look like none.
    fn finish(&mut self) -> io::Result<Mark> {
        let again = self.marks.front().copied().unwrap_or_default();
        let rest = std::mem::take(&mut self.rest);
        if serde_json::from_slice::<serde::de::IgnoredAny>(&rest).is_ok() {
            self.line(&rest)?;
        }
        Ok(again)
    }
}

impl Write for Lines<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut done = 0;
        for end in memchr_iter(b'\n', bytes) {
            let line = &bytes[done..=end];
            done = end + 1;
            if self.rest.is_empty() {
                self.line(line)?;
            } else {
                let mut whole = std::mem::take(&mut self.rest);
                whole.extend_from_slice(line);
                self.line(&whole)?;
            }
            self.mark();
        }
        self.rest.extend_from_slice(&bytes[done..]);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
