//! The redacted bytes of an archived transcript, as a [`TranscriptSource`] for the reader that fills the other store.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, Read, Seek, SeekFrom, Write};

use memchr::memchr_iter;
use serde::{Deserialize, Serialize};
use tempfile::SpooledTempFile;

use ctxbridge_archive::generation_match;
use ctxbridge_archive::reader::{CHECKED_BYTES, TranscriptSource};
use ctxbridge_archive::store::{EVERYTHING, SegmentReader, StoreError, StoredTranscript};
use ctxbridge_redact::{RedactionCounts, Redactor};
use ctxbridge_transcript::blank::blank_private;

/// Bytes of one transcript that are held in memory; larger ones are spooled to an unnamed file.
const MAX_MEMORY_BYTES: usize = 64 << 20;

/// Minimum number of bytes between two remembered offsets.
const MAPPING_INTERVAL_BYTES: u64 = 16 << 10;

/// The same position, between two lines, here and in the other store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OffsetMapping {
    /// Offset in the transcript, in bytes.
    pub local: u64,
    /// Offset in the redacted bytes that are sent.
    pub sent: u64,
}

/// The redacted bytes of a transcript, starting at an offset.
#[derive(Debug)]
pub(super) struct RedactedStream {
    from: OffsetMapping,
    bytes: SpooledTempFile,
    length: u64,
    resume_at: OffsetMapping,
    /// `true` if the reader asked for bytes before the start.
    is_read_before_start: bool,
}

impl RedactedStream {
    /// Reads a transcript up to an offset, and redacts it.
    ///
    /// # Errors
    /// If it cannot be read, or there is no space to spool it.
    pub fn read(
        store: &mut dyn SegmentReader,
        (transcript, generation): (i64, u32),
        (from, to): (OffsetMapping, u64),
        redactor: &Redactor,
        found: &mut RedactionCounts,
    ) -> Result<Self, StoreError> {
        let mut lines = LineRedactor {
            redactor,
            found,
            bytes: SpooledTempFile::new(MAX_MEMORY_BYTES),
            rest: Vec::new(),
            at: from,
            marks: VecDeque::from([from]),
        };
        store.read_bytes(transcript, generation, (from.local, to), &mut lines)?;
        let again = lines.finish()?;
        Ok(Self { from, bytes: lines.bytes, length: lines.at.sent, resume_at: again, is_read_before_start: false })
    }

    /// Reads a side file and redacts it as one text: a secret may have several lines. `None` if it is no text, in which secrets would not
    /// be found.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn read_file(
        store: &mut dyn SegmentReader,
        (file, generation): (i64, u32),
        redactor: &Redactor,
        found: &mut RedactionCounts,
    ) -> Result<Option<Self>, StoreError> {
        let mut bytes = Vec::new();
        store.read_bytes(file, generation, EVERYTHING, &mut bytes)?;
        let Some(text) = String::from_utf8(bytes).ok().filter(|text| !text.contains('\0')) else { return Ok(None) };
        let clean = redact_file(&text, redactor, found);
        let mut bytes = SpooledTempFile::new(MAX_MEMORY_BYTES);
        bytes.write_all(clean.as_bytes())?;
        let from = OffsetMapping::default();
        Ok(Some(Self { from, bytes, length: clean.len() as u64, resume_at: from, is_read_before_start: false }))
    }

    /// Length in bytes, including those before the start.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// The offset where the next run starts.
    pub fn resume_at(&self) -> OffsetMapping {
        self.resume_at
    }

    /// The first generation of the other store, at or after `from`, that starts with these bytes. For streams read from offset 0.
    ///
    /// # Errors
    /// If the other store cannot be read.
    pub fn find_matching_generation_in(
        &mut self,
        store: &mut dyn SegmentReader,
        there: &StoredTranscript,
        from: u32,
    ) -> Result<Option<u32>, StoreError> {
        generation_match::find_matching_generation(store, there.key, from..=there.generation, (&mut self.bytes, self.length))
    }

    /// `true` if the stream has to start earlier.
    pub fn needs_earlier_start(&self) -> bool {
        self.is_read_before_start
    }
}

/// A shared stream, which is read again when a pass restarts.
pub(super) struct SharedStream<'s>(pub &'s RefCell<RedactedStream>);

impl TranscriptSource for SharedStream<'_> {
    fn read(&mut self, start: u64, length: u64, bytes: &mut Vec<u8>) -> io::Result<()> {
        let mut stream = self.0.borrow_mut();
        let Some(start) = start.checked_sub(stream.from.sent) else {
            stream.is_read_before_start = true;
            return Err(io::Error::other("what is sent begins later"));
        };
        stream.bytes.seek(SeekFrom::Start(start))?;
        (&mut stream.bytes).take(length).read_to_end(bytes).map(drop)
    }
}

/// A side file without its secrets. Many have what a tool answered in JSON: its strings are looked at as they are meant, with the
/// names of their keys, and then all of it as text, since the fields that a transcript's line keeps are the client's.
fn redact_file(text: &str, redactor: &Redactor, found: &mut RedactionCounts) -> String {
    let mut add = |counts: RedactionCounts| counts.into_iter().for_each(|(rule, count)| *found.entry(rule).or_default() += count);
    let is_json = text.trim_start().starts_with(['{', '[']);
    let of_values = if is_json {
        let (clean, counts) = redactor.redact_line(text.as_bytes());
        add(counts);
        String::from_utf8_lossy(&clean).into_owned()
    } else {
        text.to_owned()
    };
    let redacted = redactor.redact(&of_values);
    add(redacted.found);
    redacted.text.into_owned()
}

/// Receives bytes in pieces and redacts them line by line. The secrets of a line depend only on that line, so the result is
/// the same wherever reading starts.
struct LineRedactor<'c> {
    redactor: &'c Redactor,
    found: &'c mut RedactionCounts,
    bytes: SpooledTempFile,
    /// The start of an incomplete line.
    rest: Vec<u8>,
    at: OffsetMapping,
    /// Ends of lines, the newest last. It holds as many as are needed to resume far enough from the end.
    marks: VecDeque<OffsetMapping>,
}

impl LineRedactor<'_> {
    fn line(&mut self, line: &[u8]) -> io::Result<()> {
        let mut shown = line.to_vec();
        blank_private(&mut shown);
        let (cleaned, found) = self.redactor.redact_line(&shown);
        found.into_iter().for_each(|(rule, count)| *self.found.entry(rule).or_default() += count);
        self.bytes.write_all(&cleaned)?;
        self.at = OffsetMapping { local: self.at.local + line.len() as u64, sent: self.at.sent + cleaned.len() as u64 };
        Ok(())
    }

    fn remember_mapping(&mut self) {
        if self.marks.back().is_none_or(|last| self.at.sent >= last.sent + MAPPING_INTERVAL_BYTES) {
            self.marks.push_back(self.at);
        }
        while self.marks.get(1).is_some_and(|second| second.sent + CHECKED_BYTES <= self.at.sent) {
            self.marks.pop_front();
        }
    }

    /// Handles a last line without a line end. A complete JSON value is sent, and sent again when it grows. A partial one is not:
    /// a secret may be cut in two there and not be recognized.
    fn finish(&mut self) -> io::Result<OffsetMapping> {
        let again = self.marks.front().copied().unwrap_or_default();
        let rest = std::mem::take(&mut self.rest);
        if serde_json::from_slice::<serde::de::IgnoredAny>(&rest).is_ok() {
            self.line(&rest)?;
        }
        Ok(again)
    }
}

impl Write for LineRedactor<'_> {
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
            self.remember_mapping();
        }
        self.rest.extend_from_slice(&bytes[done..]);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_in_json_are_redacted_by_their_values() {
        // As text, the name of a list and an escaped letter say nothing.
        let text = "{\n  \"passwords\": [\"night-owl-a\", \"night-owl-b\"],\n  \"hash\": \"password=kQ83mxP02v\"\n}\n";
        let mut found = RedactionCounts::new();
        let clean = redact_file(text, Redactor::standard(), &mut found);
        assert!(!clean.contains("night-owl") && !clean.contains("kQ83"), "{clean}");
        assert_eq!(found.values().sum::<usize>(), 3, "{clean}");
        serde_json::from_str::<serde_json::Value>(&clean).expect("still JSON");
        assert_eq!(redact_file("no secret", Redactor::standard(), &mut found), "no secret");
    }
}
