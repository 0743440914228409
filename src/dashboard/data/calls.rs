//! Calls of a session, with the size of their context: from the usage that the client wrote into each answer.

use std::collections::HashSet;
use std::sync::Arc;

use super::savings::MAX_REPLAYED_BYTES;
use super::{DashboardService, DataError, lock};
use ctxbridge_archive::store::{EVERYTHING, Session, Store, StoredTranscript, TurnSelection};
use ctxbridge_transcript::{RecordKind, RepeatedRows, records_from};

/// Maximum number of points of a line: a screen has no more.
const MAX_SERIES_POINTS: usize = 2_000;

/// Context of a call or a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SeriesPoint {
    /// Milliseconds since 1970.
    pub at_ms: i64,
    /// Size of its context.
    pub tokens: u64,
    /// Transcript and byte offset, if they are known.
    pub location: Option<(i64, u64)>,
}

/// Id, bytes and number of rewritings of a session's transcripts: calls stay the same as long as these do.
pub(super) type CallsKey = (String, u64, u64);

impl DashboardService {
    /// Returns the calls of a session in order; none if its transcripts are too large to be read for this.
    pub(super) fn calls(&self, store: &mut dyn Store, session: &Session) -> Result<Option<Arc<Vec<SeriesPoint>>>, DataError> {
        let mut transcripts = store.transcripts(session.key)?;
        transcripts.retain(|transcript| transcript.part.is_conversation());
        let sum = |of: fn(&StoredTranscript) -> u64| transcripts.iter().map(of).sum::<u64>();
        let bytes = sum(|transcript| transcript.bytes);
        if bytes > MAX_REPLAYED_BYTES {
            return Ok(None);
        }
        let key = (session.session.clone(), bytes, sum(|transcript| transcript.generation.into()));
        if let Some((_, calls)) = lock(&self.calls).as_ref().filter(|(of, _)| *of == key) {
            return Ok(Some(Arc::clone(calls)));
        }
        let mut rewound = store.turns(session.key, TurnSelection::Superseded)?;
        rewound.retain(|turn| turn.is_rewound);
        let (mut calls, mut seen) = (Vec::new(), HashSet::new());
        for transcript in &transcripts {
            let mut text = Vec::new();
            match store.read_bytes(transcript.key, transcript.generation, EVERYTHING, &mut text) {
                // Turns still say how large the context was.
                Err(error) if error.is_session_local() => return Ok(None),
                read => read?,
            }
            let of_it = rewound.iter().filter(|turn| turn.transcript == transcript.key);
            let spans: Vec<(u64, u64)> = of_it.map(|turn| (turn.turn.start, turn.turn.end)).collect();
            read_calls(transcript.key, &text, &spans, &mut seen, &mut calls);
        }
        // A copy of a transcript may go on where the other ends.
        if transcripts.len() > 1 {
            calls.sort_by_key(|call: &SeriesPoint| call.at_ms);
        }
        let calls = Arc::new(calls);
        *lock(&self.calls) = Some((key, Arc::clone(&calls)));
        Ok(Some(calls))
    }
}

/// Reads the calls of a transcript that are not in the spans that were rewound. Lines with the same message are one call; a resumed
/// session may repeat them.
fn read_calls(transcript: i64, text: &[u8], rewound: &[(u64, u64)], seen: &mut HashSet<String>, calls: &mut Vec<SeriesPoint>) {
    let mut open: Option<String> = None;
    records_from(text, 0, &mut RepeatedRows::default(), &mut |start, _, record| {
        let is_rewound = rewound.iter().any(|(from, to)| (*from..*to).contains(&start));
        if is_rewound || record.is_sidechain() || record.kind() != RecordKind::Answer || record.model().is_none() {
            return;
        }
        let Some(tokens) = record.context_tokens() else { return };
        let id = record.message_id().or(record.uuid()).unwrap_or_default();
        if open.as_deref() == Some(id) {
            // The first line of a streamed answer may not have the final figures.
            if let Some(call) = calls.last_mut() {
                call.tokens = tokens.max(call.tokens);
            }
        } else if seen.insert(id.to_owned()) {
            open = Some(id.to_owned());
            let before = calls.last().map_or(0, |call| call.at_ms);
            let at_ms = record.timestamp().unwrap_or(before);
            calls.push(SeriesPoint { at_ms, tokens, location: Some((transcript, start)) });
        }
    });
}

/// Numbers of calls and turns begin with 1, as people count.
pub(super) fn numbered(points: &[SeriesPoint]) -> Vec<((usize, i64), u64)> {
    let numbered: Vec<_> = points.iter().enumerate().map(|(at, point)| ((at + 1, point.at_ms), point.tokens)).collect();
    super::downsample(&numbered, MAX_SERIES_POINTS)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn line(second: u32, message: &str, tokens: u64, is_side: bool) -> String {
        let usage = json!({ "input_tokens": 3, "cache_read_input_tokens": tokens - 3, "cache_creation_input_tokens": 0, "output_tokens": 1 });
        let line = json!({ "type": "assistant", "uuid": format!("{message}-{second}"), "isSidechain": is_side,
            "timestamp": format!("2026-11-20T10:00:{second:02}.000Z"),
            "message": { "id": message, "role": "assistant", "model": "m", "usage": usage, "content": [{ "type": "text", "text": "Yes." }] } });
        format!("{line}\n")
    }

    #[test]
    fn each_call_counts_once_and_sub_agents_and_rewound_ones_do_not() {
        let lines = [
            line(1, "a", 100, false),
            line(2, "a", 120, false),
            line(3, "side", 900, true),
            line(4, "b", 200, false),
            line(5, "gone", 300, false),
            line(6, "a", 120, false),
            line(7, "c", 250, false),
        ];
        let start: u64 = lines[..4].iter().map(|line| line.len() as u64).sum();
        let mut calls = Vec::new();
        read_calls(7, lines.concat().as_bytes(), &[(start, start + 1)], &mut HashSet::new(), &mut calls);
        let sizes: Vec<u64> = calls.iter().map(|call| call.tokens).collect();
        assert_eq!(sizes, [120, 200, 250]);
        assert_eq!(calls[0].location, Some((7, 0)));
        assert_eq!(numbered(&calls)[2], ((3, calls[2].at_ms), 250));
    }
}
