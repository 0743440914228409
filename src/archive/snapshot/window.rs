//! Messages since the last compaction.

use super::topics::{MAX_TOPIC_TEXT_BYTES, topics};
use crate::store::{SegmentReader, Snapshot, StoreError, StoredTranscript};
use crate::{quote, transcript_lines};
use ctxbridge_transcript::{Record, RecordKind, RepeatedRows, as_typed, is_typed, records_from};

/// Maximum characters of the first and the last message: enough to find them and to see their subject.
const MESSAGE_CHARS: usize = 2_000;

/// Characters of a message that are searched for topics. A message begins with its subject, and a pasted log would hide all else.
const TOPIC_SOURCE_CHARS: usize = 600;

/// Contents of a window.
#[derive(Debug, Default)]
pub(super) struct CompactionWindow {
    messages: u64,
    first: Option<String>,
    last: String,
    /// The answer that was counted last: one answer is several lines.
    answer: Option<String>,
    /// Starts of all messages with text.
    begins: Vec<String>,
}

impl CompactionWindow {
    /// Reads a range of a transcript, without the parts that were rewound.
    pub fn read(
        store: &mut dyn SegmentReader,
        transcript: &StoredTranscript,
        (from, to): (u64, u64),
        rewound: &[(u64, u64)],
    ) -> Result<Self, StoreError> {
        let mut window = Self::default();
        let (mut at, mut repeated) = (from, RepeatedRows::default());
        while at < to.min(transcript.bytes) {
            let bytes = transcript_lines::next_lines(store, transcript, at, to)?;
            if bytes.is_empty() {
                break;
            }
            records_from(&bytes, at, &mut repeated, &mut |start, _, record| {
                if !rewound.iter().any(|(from, to)| (*from..*to).contains(&start)) {
                    window.take(record);
                }
            });
            at += bytes.len() as u64;
        }
        Ok(window)
    }

    fn take(&mut self, record: &Record<'_>) {
        let kind = record.kind();
        let (RecordKind::Prompt | RecordKind::Answer | RecordKind::ToolResults, Some(content)) = (kind, record.content()) else {
            return;
        };
        if record.is_sidechain() {
            return;
        }
        let id = record.message_id().filter(|_| kind == RecordKind::Answer);
        if id.is_none() || id != self.answer.as_deref() {
            self.messages += 1;
            self.answer = id.map(str::to_owned);
        }
        match kind {
            RecordKind::Prompt => {
                let typed: Vec<String> = content.texts().map(as_typed).filter(|text| !text.trim().is_empty()).collect();
                // A command, such as the one that compacts, says nothing about the conversation.
                if typed.first().is_some_and(|text| is_typed(text)) {
                    self.say(&typed.join("\n"));
                }
            }
            RecordKind::Answer => {
                let said: Vec<&str> = content.texts().filter(|text| !text.trim().is_empty()).collect();
                if !said.is_empty() {
                    self.say(&said.join("\n"));
                }
            }
            _ => {}
        }
    }

    fn say(&mut self, text: &str) {
        self.last = quote::head(text.trim(), MESSAGE_CHARS).to_owned();
        self.first.get_or_insert_with(|| self.last.clone());
        self.begins.push(quote::head(text, TOPIC_SOURCE_CHARS).to_owned());
    }

    /// All text, or an even sample of it that does not take long.
    fn text(&self) -> String {
        let bytes: usize = self.begins.iter().map(String::len).sum();
        let each = bytes.div_ceil(MAX_TOPIC_TEXT_BYTES).max(1);
        self.begins.iter().step_by(each).flat_map(|begin| [begin, "\n\n"]).collect()
    }

    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            messages: self.messages,
            first: self.first.clone().unwrap_or_default(),
            last: self.last.clone(),
            topics: topics(&self.text()),
        }
    }
}
