//! The blank bytes of a restored transcript: those that were forgotten, and those that were marked as private.

use std::io::{self, Write};
use std::ops::Range;

use crate::cli::output::{Output, count};
use ctxbridge_transcript::blank;

/// Maximum number of ranges that are named.
const MAX_NAMED_RANGES: usize = 5;

/// Passes the bytes of a transcript on, and notes what is blank in them.
pub(super) struct BlankNotes<'s> {
    sink: &'s mut dyn Write,
    line: Vec<u8>,
    start: u64,
    forgotten: Vec<Range<u64>>,
    private: Vec<Range<u64>>,
}

impl<'s> BlankNotes<'s> {
    pub fn new(sink: &'s mut dyn Write) -> Self {
        Self { sink, line: Vec::new(), start: 0, forgotten: Vec::new(), private: Vec::new() }
    }

    fn end_line(&mut self) {
        let range = |within: Range<usize>| self.start + within.start as u64..self.start + within.end as u64;
        if blank::is_forgotten(&self.line) {
            add(&mut self.forgotten, range(0..self.line.len()));
        } else if blank::has_private(&self.line) {
            let is_blank = |within: &Range<usize>| self.line[within.clone()].iter().all(|byte| *byte == b' ');
            blank::private_ranges(&self.line)
                .into_iter()
                .filter(is_blank)
                .for_each(|within| add(&mut self.private, range(within)));
        }
        self.start += self.line.len() as u64;
        self.line.clear();
    }

    /// Tells the user what is blank.
    pub fn tell(mut self, output: &Output) {
        self.end_line();
        for (ranges, why) in [(&self.forgotten, "were forgotten"), (&self.private, "were marked as private")] {
            if ranges.is_empty() {
                continue;
            }
            let named: Vec<String> =
                ranges.iter().take(MAX_NAMED_RANGES).map(|range| format!("{}–{}", range.start, range.end)).collect();
            let more = ranges.len().saturating_sub(MAX_NAMED_RANGES);
            let more = if more > 0 { format!(", and {} more", count(more as u64, "range")) } else { String::new() };
            let bytes: u64 = ranges.iter().map(|range| range.end - range.start).sum();
            output.note(&format!("left out: {}, which {why} (from–to: {}{more})", count(bytes, "byte"), named.join(", ")));
        }
    }
}

/// Adds a range to those before it.
fn add(ranges: &mut Vec<Range<u64>>, new: Range<u64>) {
    match ranges.last_mut() {
        Some(last) if last.end == new.start => last.end = new.end,
        _ => ranges.push(new),
    }
}

impl Write for BlankNotes<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.sink.write_all(bytes)?;
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                self.end_line();
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }
}
