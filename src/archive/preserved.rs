//! Messages that a compaction left in the window word for word, as the client's mark of it says (`compactMetadata.preservedMessages`).

use std::collections::HashSet;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;

use memchr::memmem;
use serde_json::Value;

/// Bytes at the end of a transcript in which the newest mark is looked for: it was just written.
const READ_BYTES: u64 = 4 << 20;
/// Age of the mark in milliseconds up to which it is that of the compaction which just ended.
const MARK_IS_NEW_MS: i64 = 60_000;

/// Returns the ids of the turns whose prompt is still in the window; none where the client does not say so.
pub fn turns_in_window(transcript: &Path, now_ms: i64) -> HashSet<[u8; 16]> {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = File::open(transcript)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(READ_BYTES)))?;
        let mut bytes = Vec::new();
        file.take(READ_BYTES).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    // Without it, some turns are said twice.
    read().map(|bytes| turns_of(&bytes, now_ms)).unwrap_or_default()
}

fn turns_of(bytes: &[u8], now_ms: i64) -> HashSet<[u8; 16]> {
    let Some(at) = memmem::rfind(bytes, b"\"compact_boundary\"") else { return HashSet::new() };
    let start = bytes[..at].iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1);
    let line = bytes[start..].split(|byte| *byte == b'\n').next().unwrap_or_default();
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

    fn uuid_of(number: u128) -> String {
        format!("00000000-0000-0000-0000-{number:012x}")
    }
}
