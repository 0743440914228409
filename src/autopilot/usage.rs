//! Size of the context, from the end of a transcript.

use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use ctxbridge_common::files;
use ctxbridge_transcript::{Interpreter, WholeFile};

/// Bytes read from the end of a transcript: some thousand short lines, or one with a large tool result.
const TAIL_BYTES: u64 = 256 << 10;

/// Context size at the end of a transcript.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContextUsage {
    /// Number of tokens in the last request of the main conversation.
    Tokens(u64),
    /// There was a compaction since the last request: an estimate of the tokens said since. The system prompt and the tools come on top.
    Compacted(u64),
    /// The size is not known.
    Unknown,
}

/// Reads the context size from the newest answer of the main conversation (claude-code-facts, section 5). Reads at most the last
/// 256 KB of the transcript.
pub fn usage_at_end(transcript: &Path) -> ContextUsage {
    tail(transcript).map_or(ContextUsage::Unknown, |tail| newest(&tail))
}

fn newest(tail: &[u8]) -> ContextUsage {
    // The newest answer in the file is not that of the conversation if the user went back to an earlier one. A line that is cut off
    // at the front is no JSON, and skipped.
    let mut interpreter = Interpreter::default();
    interpreter.feed_with(tail, &mut WholeFile(tail));
    // The newest line may have no end yet.
    interpreter.feed_with(b"\n", &mut WholeFile(tail));
    match interpreter.session_metadata().context_tokens {
        Some(tokens) => ContextUsage::Tokens(tokens),
        None if memchr::memmem::find(tail, b"\"compact_boundary\"").is_some() => {
            ContextUsage::Compacted(interpreter.said_tokens())
        }
        None => ContextUsage::Unknown,
    }
}

fn tail(path: &Path) -> Option<Vec<u8>> {
    // Before it is opened: a pipe would wait for somebody to write into it.
    if !std::fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let mut file = files::open(path).ok()?;
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES))).ok()?;
    let mut tail = Vec::new();
    file.take(TAIL_BYTES).read_to_end(&mut tail).ok()?;
    Some(tail)
}
