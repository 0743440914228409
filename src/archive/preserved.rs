//! The client's mark of a compaction in a transcript, and the messages that it says to have left in the window word for word
//! (`compactMetadata.preservedMessages`).

use std::collections::HashSet;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;

use ctxbridge_common::files;
use memchr::{memmem, memrchr};
use serde_json::Value;

/// Text of the line that marks a compaction.
const BOUNDARY: &[u8] = b"\"compact_boundary\"";

/// Bytes at the end of a transcript in which the newest mark is looked for: it was just written.
const READ_BYTES: u64 = 4 << 20;
/// Age of the mark in milliseconds up to which it is that of the compaction which just ended.
const MARK_IS_NEW_MS: i64 = 60_000;

/// Returns the ids of the turns whose prompt is still in the window; none where the client does not say so.
pub fn turns_in_window(transcript: &Path, now_ms: i64) -> HashSet<[u8; 16]> {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = files::open(transcript)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(READ_BYTES)))?;
        let mut bytes = Vec::new();
        file.take(READ_BYTES).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    // Without it, some turns are said twice.
    read().map(|bytes| turns_of(&bytes, now_ms)).unwrap_or_default()
}

/// Returns the lines of a transcript from the newest mark of a compaction on; all, if there is none.
pub fn since_last_compaction(transcript: &[u8]) -> &[u8] {
    let Some(mark) = memmem::rfind(transcript, BOUNDARY) else { return transcript };
    let start = memrchr(b'\n', &transcript[..mark]).map_or(0, |at| at + 1);
    &transcript[start..]
}

fn turns_of(bytes: &[u8], now_ms: i64) -> HashSet<[u8; 16]> {
    let line = since_last_compaction(bytes).split(|byte| *byte == b'\n').next().unwrap_or_default();
    let mark: Value = serde_json::from_slice(line).unwrap_or_default();
    let time = mark["timestamp"].as_str().and_then(|time| time.parse::<jiff::Timestamp>().ok());
    if time.is_none_or(|time| now_ms - time.as_millisecond() > MARK_IS_NEW_MS) {
        return HashSet::new();
    }
    let kept = &mark["compactMetadata"]["preservedMessages"]["uuids"];
    kept.as_array().into_iter().flatten().filter_map(Value::as_str).map(ctxbridge_transcript::turn_id).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_newest_mark_counts_and_only_for_a_while() {
        let mark = |time: &str, uuid: &str| {
            let kept = json!({ "preservedMessages": { "anchorUuid": "a", "uuids": [uuid, 7] } });
            json!({ "type": "system", "subtype": "compact_boundary", "timestamp": time, "compactMetadata": kept }).to_string()
        };
        let [old, new] = ["2026-11-01T10:00:00.000Z", "2026-11-01T11:00:00.000Z"];
        let [one, other] = [1, 2].map(uuid_of);
        let text = format!("{{}}\n{}\n{}\n{{\"type\":\"user\"}}\n", mark(old, &one), mark(new, &other));
        let now = new.parse::<jiff::Timestamp>().expect("a time").as_millisecond();
        assert_eq!(turns_of(text.as_bytes(), now + 1_000), HashSet::from([2_u128.to_be_bytes()]));
        assert_eq!(turns_of(text.as_bytes(), now + 61_000), HashSet::new());
        for text in ["", "\"compact_boundary\"", &json!({ "subtype": "compact_boundary", "timestamp": new }).to_string()] {
            assert_eq!(turns_of(text.as_bytes(), now), HashSet::new(), "{text}");
        }
    }

    #[test]
    fn only_what_came_since_the_last_compaction_is_read() {
        let mark = "{\"type\":\"system\",\"subtype\":\"compact_boundary\"}\n";
        let lines = format!("{{\"a\":1}}\n{mark}{{\"b\":2}}\n{mark}{{\"c\":3}}\n");
        assert_eq!(since_last_compaction(lines.as_bytes()), format!("{mark}{{\"c\":3}}\n").as_bytes());
        assert_eq!(since_last_compaction(mark.as_bytes()), mark.as_bytes());
        assert_eq!(since_last_compaction(b"{}\n"), b"{}\n");
    }

    fn uuid_of(number: u128) -> String {
        format!("00000000-0000-0000-0000-{number:012x}")
    }
}
