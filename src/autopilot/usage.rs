//! How large the context is, from the end of a transcript.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use ctxbridge_transcript::{Kind, Record};

/// How much of a transcript's end is read, in bytes: some thousand short lines, or one with a large tool result.
const TAIL: u64 = 256 << 10;

/// What the end of a transcript says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Usage {
    /// So many tokens were in the last request of the main conversation.
    Tokens(u64),
    /// It was compacted since the last request, so nothing is known yet.
    Compacted,
    /// Nothing.
    Unknown,
}

/// Reads at most the last 256 KB of a transcript: the newest answer of the main conversation says how much went in
/// (claude-code-facts, section 5).
pub fn usage_at_end(transcript: &Path) -> Usage {
    tail(transcript).map_or(Usage::Unknown, |tail| newest(&tail))
}

fn newest(tail: &[u8]) -> Usage {
    // Most lines have neither word, and need not be parsed. A line that is cut off at the front is no JSON.
    let lines = tail.rsplit(|byte| *byte == b'\n').filter(|line| {
        memchr::memmem::find(line, b"\"usage\"").is_some() || memchr::memmem::find(line, b"\"compact_boundary\"").is_some()
    });
    for record in lines.filter_map(|line| Record::parse(line).ok()) {
        match record.kind() {
            Kind::CompactBoundary => return Usage::Compacted,
            Kind::Answer if !record.is_sidechain() => {
                if let Some(tokens) = record.context_tokens() {
                    return Usage::Tokens(tokens);
                }
            }
            _ => {}
        }
    }
    Usage::Unknown
}

fn tail(path: &Path) -> Option<Vec<u8>> {
    // Before it is opened: a pipe would wait for somebody to write into it.
    if !std::fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let mut file = File::open(path).ok()?;
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL))).ok()?;
    let mut tail = Vec::new();
    file.take(TAIL).read_to_end(&mut tail).ok()?;
    Some(tail)
}
