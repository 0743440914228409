//! Bytes of a transcript without what is not kept, wherever a reader begins and ends: a line is blank or not as a whole line.

use std::io;

use super::tombstones::Tombstones;
use crate::reader::TranscriptSource;
use ctxbridge_transcript::blank;

/// Bytes that are read at once to find where a line begins or ends.
const STEP_BYTES: u64 = 64 << 10;

/// Rules for the parts of lines that are not kept.
#[derive(Clone, Debug, Default)]
pub struct Blanks {
    /// Hashes of what was forgotten.
    pub tombstones: Tombstones,
    /// `true` if what the user marked as private is kept.
    pub keeps_private: bool,
}

impl Blanks {
    /// For bytes that come from an archive, which has left out what is not kept.
    pub fn none() -> Self {
        Self { tombstones: Tombstones::default(), keeps_private: true }
    }

    /// Blanks what is not kept in some whole lines of a session.
    pub fn apply(&self, session: &str, lines: &mut [u8]) {
        if !self.may_apply(lines) {
            return;
        }
        for line in lines.split_mut(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            // What follows it may be the other half of a line end.
            let end = if line.ends_with(b"\r") { line.len() - 1 } else { line.len() };
            let line = &mut line[..end];
            if self.tombstones.has_line(session, line) {
                line.copy_from_slice(&blank::forgotten(line));
            } else if !self.keeps_private {
                blank::blank_private(line);
            }
        }
    }

    /// `true` if these bytes, or the lines that they are of, may have anything that is not kept.
    fn may_apply(&self, bytes: &[u8]) -> bool {
        !self.tombstones.is_empty() || (!self.keeps_private && blank::has_private(bytes))
    }
}

/// A transcript whose lines are blanked as they are read.
pub(crate) struct BlankedSource<'s> {
    source: Box<dyn TranscriptSource + 's>,
    blanks: Blanks,
    session: String,
    /// Bytes up to which lines are complete, or nothing is to be blanked.
    length: u64,
}

impl<'s> BlankedSource<'s> {
    /// `archived` bytes are already in the archive as they are.
    pub fn new(
        mut source: Box<dyn TranscriptSource + 's>,
        length: u64,
        archived: u64,
        (blanks, session): (Blanks, &str),
    ) -> io::Result<Self> {
        let begin = begin_of_line(&mut *source, length)?;
        let length = if begin < length {
            let mut last = Vec::new();
            source.read(begin, length - begin, &mut last)?;
            // Of a line that is still being written, nobody knows yet.
            let is_open = blanks.may_apply(&last) && serde_json::from_slice::<serde::de::IgnoredAny>(&last).is_err();
            if is_open { begin.max(archived.min(length)) } else { length }
        } else {
            length
        };
        Ok(Self { source, blanks, session: session.to_owned(), length })
    }

    /// Bytes that can be archived now.
    pub fn length(&self) -> u64 {
        self.length
    }
}

impl TranscriptSource for BlankedSource<'_> {
    fn read(&mut self, start: u64, length: u64, bytes: &mut Vec<u8>) -> io::Result<()> {
        let end = start.saturating_add(length).min(self.length);
        if end <= start {
            return Ok(());
        }
        let begin = begin_of_line(&mut *self.source, start)?;
        let mut lines = Vec::new();
        self.source.read(begin, end - begin, &mut lines)?;
        if (lines.len() as u64) < end - begin {
            // It has shrunk, and nobody knows what its last line will be.
            return Ok(());
        }
        while lines.last() != Some(&b'\n') {
            let known = lines.len();
            self.source.read(begin + known as u64, STEP_BYTES, &mut lines)?;
            if lines.len() == known {
                break;
            }
            if let Some(at) = memchr::memchr(b'\n', &lines[known..]) {
                lines.truncate(known + at + 1);
            }
        }
        self.blanks.apply(&self.session, &mut lines);
        bytes.extend_from_slice(&lines[(start - begin) as usize..(end - begin) as usize]);
        Ok(())
    }
}

/// Position of the first byte of the line that a byte is in.
fn begin_of_line(source: &mut dyn TranscriptSource, byte: u64) -> io::Result<u64> {
    let mut end = byte;
    let mut step = 1;
    while end > 0 {
        // Mostly it is where a line begins.
        let start = end.saturating_sub(step);
        let mut bytes = Vec::new();
        source.read(start, end - start, &mut bytes)?;
        if let Some(at) = memchr::memrchr(b'\n', &bytes) {
            return Ok(start + at as u64 + 1);
        }
        end = start;
        step = STEP_BYTES;
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::tombstones::Tombstone;
    use super::*;

    impl TranscriptSource for &[u8] {
        fn read(&mut self, start: u64, length: u64, bytes: &mut Vec<u8>) -> io::Result<()> {
            let clamp = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(self.len());
            bytes.extend_from_slice(&self[clamp(start)..clamp(start.saturating_add(length))]);
            Ok(())
        }
    }

    fn prompt(uuid: &str, text: &str) -> String {
        format!(r#"{{"type":"user","uuid":"{uuid}","message":{{"role":"user","content":"{text}"}}}}"#)
    }

    #[test]
    fn every_range_is_cut_from_the_same_blanked_bytes() {
        let data = tempfile::tempdir().expect("a folder");
        let gone = prompt("gone", &"do not tell anybody of this ".repeat(6));
        let lines = [prompt("a", "first"), gone.clone(), prompt("b", "<private>psst</private> last")].join("\n") + "\n";
        let tombstones =
            Tombstones::change(data.path(), &BTreeSet::new(), &BTreeSet::from([Tombstone::of_line("s", gone.as_bytes())]));
        let tombstones = tombstones.expect("written");
        let blanks = Blanks { tombstones, keeps_private: false };
        let mut whole = lines.clone().into_bytes();
        blanks.apply("s", &mut whole);
        let text = String::from_utf8(whole.clone()).expect("UTF-8");
        assert!(!text.contains("anybody") && !text.contains("psst") && text.contains("first") && text.contains("last"));
        let mut source = BlankedSource::new(Box::new(lines.as_bytes()), lines.len() as u64, 0, (blanks, "s")).expect("readable");
        assert_eq!(source.length(), lines.len() as u64);
        for start in 0..lines.len() {
            for end in [start, start + 1, start + 40, lines.len(), lines.len() + 9] {
                let mut read = Vec::new();
                source.read(start as u64, (end - start) as u64, &mut read).expect("readable");
                assert_eq!(read, whole[start..end.clamp(start, lines.len())], "{start}..{end}");
            }
        }
    }

    #[test]
    fn a_line_that_is_still_written_waits_only_where_it_may_be_blanked() {
        let length = |text: &str, archived: u64| {
            let blanks = Blanks { tombstones: Tombstones::default(), keeps_private: false };
            BlankedSource::new(Box::new(text.as_bytes()), text.len() as u64, archived, (blanks, "s")).expect("readable").length()
        };
        let first = prompt("a", "first") + "\n";
        let open = |last: &str| length(&format!("{first}{last}"), 0) == first.len() as u64;
        assert!(!open(r#"{"type":"user","message":{"content":"no ta"#));
        assert!(open(r#"{"type":"user","message":{"content":"<private>psst"#));
        assert!(!open(&prompt("b", "<private>psst</private>")), "it is whole but for its end");
        assert_eq!(length(r#"{"content":"<private>ps"#, 20), 20, "what is archived is not taken back");
    }
}
