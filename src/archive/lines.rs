//! Whole lines of an archived transcript.

use super::store::{Store, StoreError, StoredTranscript};

/// Bytes that are read at once.
const AT_ONCE: u64 = 4 << 20;

/// The next lines from a byte on, up to another: about 4 MB of them, and at least one. What is missing at the end of the transcript's last line is
/// not waited for.
///
/// # Errors
/// When the store cannot be read.
pub fn next(store: &mut dyn Store, transcript: &StoredTranscript, from: u64, to: u64) -> Result<Vec<u8>, StoreError> {
    let to = to.min(transcript.bytes);
    let mut bytes = Vec::new();
    let mut end = from;
    // A line that is longer than what is read at once is read with what follows.
    while end < to && !bytes.contains(&b'\n') {
        let more = end.saturating_add(AT_ONCE).min(to);
        store.raw(transcript.key, transcript.generation, (end, more), &mut bytes)?;
        end = more;
    }
    if end < to {
        bytes.truncate(bytes.iter().rposition(|byte| *byte == b'\n').map_or(bytes.len(), |at| at + 1));
    }
    Ok(bytes)
}
