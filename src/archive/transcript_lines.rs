//! Whole lines of an archived transcript.

use super::store::{StoreError, StoredTranscript};
use crate::store::SegmentReader;
use ctxbridge_transcript::blank::blank_private_lines;

/// Number of bytes to read at once.
const LINE_CHUNK_BYTES: u64 = 4 << 20;

/// Reads the next lines between two bytes: about 4 MB of them, and at least one. The transcript's last line need not be complete.
///
/// # Errors
/// If the store cannot be read.
pub fn next_lines(
    store: &mut dyn SegmentReader,
    transcript: &StoredTranscript,
    from: u64,
    to: u64,
) -> Result<Vec<u8>, StoreError> {
    let to = to.min(transcript.bytes);
    let mut bytes = Vec::new();
    let mut end = from;
    // A line that is longer than what is read at once is read with what follows.
    while end < to && !bytes.contains(&b'\n') {
        let more = end.saturating_add(LINE_CHUNK_BYTES).min(to);
        store.read_bytes(transcript.key, transcript.generation, (end, more), &mut bytes)?;
        end = more;
    }
    if end < to {
        bytes.truncate(bytes.iter().rposition(|byte| *byte == b'\n').map_or(bytes.len(), |at| at + 1));
    }
    blank_private_lines(&mut bytes);
    Ok(bytes)
}
