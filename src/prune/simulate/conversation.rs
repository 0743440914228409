//! Reads a transcript's lines into API calls: the messages before each answer, and its usage.

use std::collections::HashSet;

use serde_json::Value;

use crate::ConversationSize;
use ctxbridge_transcript::{Interpreter, LineCondition, Record, RepeatedRows, WholeFile, read_line, replace_lone_surrogates};

/// A message of the conversation, in the client's form.
#[derive(Debug, Clone, PartialEq)]
pub struct ReplayMessage {
    /// Its line in the transcript, from 1.
    pub line: usize,
    /// The line, without fields that only the client's screen needs.
    pub value: Value,
    /// Time of writing, in milliseconds since 1970; that of the message before if the line has none.
    pub at_ms: i64,
    /// `true` if it stands for what was compacted while the session was recorded: a summary, or what a plugin gave in its place.
    pub is_stand_in: bool,
}

/// An answer of the API: lines that share a `message.id` are one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReplayCall {
    /// Number of messages of [`ReplayConversation::messages`] before it.
    pub messages_before: usize,
    /// Tokens that were read for it, from the cache or not. None if the API did not say.
    pub context_tokens: Option<u64>,
    /// Tokens of the answer: those of its text, or what its usage says if that is more (it is often the figure at its start).
    pub output_tokens: u64,
    /// Time of the request: that of the newest message in it.
    pub at_ms: i64,
}

/// The main conversation of a transcript: sub-agents' lines are left out, and so are lines that are no message.
///
/// The order is the file's, which is the client's. What was rewound is left out.
#[derive(Debug, Clone, Default)]
pub struct ReplayConversation {
    /// All messages, over all compactions.
    pub messages: Vec<ReplayMessage>,
    /// The calls, in order.
    pub calls: Vec<ReplayCall>,
    /// Indexes of messages at which a recorded compaction made the client start over, with the messages from there on.
    pub resets: Vec<usize>,
    /// The model of most answers.
    pub model: Option<String>,
    /// The release of the client that wrote the last line.
    pub version: Option<String>,
    /// Size of the model's window in tokens, if the client recorded it.
    pub window: Option<u64>,
    /// `true` if cache entries were mostly written for an hour rather than for five minutes.
    pub is_hourly: bool,
}

/// Fields that repeat the message for the client's screen. They are not sent, and may be larger than the message.
const NOT_SENT: [&str; 2] = ["toolUseResult", "snapshot"];

/// Lines of a transcript.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LineCounts {
    /// Lines that could be read.
    pub good: u64,
    /// Lines that could not, or only in part.
    pub bad: u64,
    /// Number of the first of these, from 1; 0 if there is none.
    pub first_bad: u64,
}

/// Collects a [`ReplayConversation`] record by record.
#[derive(Debug, Default)]
struct ReplayReader {
    conversation: ReplayConversation,
    seen: HashSet<String>,
    /// `message.id` of the answer whose lines are coming.
    open_answer: Option<String>,
    models: Vec<(String, u64)>,
    written: [u64; 2],
    last_ms: i64,
    /// The size of the open answer.
    answer_size: ConversationSize,
    repeated: RepeatedRows,
    /// `true` for a sub-agent's transcript.
    is_agent: bool,
}

impl ReplayReader {
    /// Reads a record and its bytes, of a line that is counted from 1.
    fn take(&mut self, bytes: &[u8], record: &Record<'_>, line: usize) {
        self.conversation.window = self.conversation.window.max(record.window());
        if record.is_sidechain() && !self.is_agent {
            return;
        }
        let is_repeated = self.repeated.includes(record);
        // Resumed sessions may repeat lines.
        if let Some(uuid) = record.uuid()
            && !self.seen.insert(uuid.to_owned())
        {
            return;
        }
        let at_ms = record.timestamp().unwrap_or(self.last_ms);
        if let Some(version) = record.version()
            && self.conversation.version.as_deref() != Some(version)
        {
            self.conversation.version = Some(version.to_owned());
        }
        // What lies before the record is none of it.
        let start = bytes.iter().position(|byte| *byte == b'{').unwrap_or(0);
        let bytes = replace_lone_surrogates(&bytes[start..]);
        let Some(Ok(mut value)) = serde_json::Deserializer::from_slice(&bytes).into_iter::<Value>().next() else { return };
        match value["type"].as_str() {
            Some("system") if value["subtype"] == "compact_boundary" => {
                self.conversation.resets.push(self.conversation.messages.len());
                self.open_answer = None;
            }
            Some("assistant") if !is_repeated => self.answer(record, &value),
            _ => {}
        }
        if !matches!(value["type"].as_str(), Some("user" | "assistant" | "attachment")) {
            return;
        }
        if let Some(fields) = value.as_object_mut() {
            for name in NOT_SENT {
                fields.remove(name);
            }
        }
        let is_stand_in = is_repeated || value["isCompactSummary"] == true;
        // Some releases write the summary and no boundary.
        if is_stand_in && self.conversation.resets.last() != Some(&self.conversation.messages.len()) {
            self.conversation.resets.push(self.conversation.messages.len());
        }
        self.last_ms = self.last_ms.max(at_ms);
        self.conversation.messages.push(ReplayMessage { line, value, at_ms: self.last_ms, is_stand_in });
    }

    fn answer(&mut self, record: &Record<'_>, value: &Value) {
        // The client's own messages in the model's name, about errors for one, are no answers.
        let Some(model) = record.model() else { return };
        let id = record.message_id().or(record.uuid()).unwrap_or_default();
        let usage = &value["message"]["usage"];
        if self.open_answer.as_deref() != Some(id) {
            self.open_answer = Some(id.to_owned());
            self.answer_size = ConversationSize::default();
            let before = self.conversation.messages.len();
            let at_ms = self.conversation.messages.last().map_or(0, |message| message.at_ms);
            self.conversation.calls.push(ReplayCall { messages_before: before, at_ms, ..ReplayCall::default() });
            match self.models.iter_mut().find(|(name, _)| name == model) {
                Some((_, count)) => *count += 1,
                None => self.models.push((model.to_owned(), 1)),
            }
            for (sum, name) in self.written.iter_mut().zip(["ephemeral_5m_input_tokens", "ephemeral_1h_input_tokens"]) {
                *sum += usage["cache_creation"][name].as_u64().unwrap_or(0);
            }
        }
        // The first line of an answer that is streamed may not have the final figures.
        if let Some(call) = self.conversation.calls.last_mut() {
            call.context_tokens = call.context_tokens.max(record.context_tokens());
            self.answer_size += ConversationSize::of(value);
            call.output_tokens = call.output_tokens.max(record.output_tokens().unwrap_or(0)).max(self.answer_size.tokens());
        }
    }

    fn finish(mut self) -> ReplayConversation {
        let most = self.models.into_iter().max_by_key(|(_, count)| *count);
        self.conversation.model = most.map(|(name, _)| name);
        self.conversation.is_hourly = self.written[1] > self.written[0];
        self.conversation
    }
}

impl ReplayConversation {
    /// Reads a transcript, without the parts that were rewound: they are sent no more.
    pub fn read(transcript: &[u8]) -> (Self, LineCounts) {
        Self::read_as(transcript, false)
    }

    /// Reads the transcript of a sub-agent.
    pub fn read_agent(transcript: &[u8]) -> Self {
        Self::read_as(transcript, true).0
    }

    fn read_as(transcript: &[u8], is_agent: bool) -> (Self, LineCounts) {
        let mut interpreter = Interpreter::default();
        interpreter.feed_with(transcript, &mut WholeFile(transcript));
        let is_rewound = |start: u64| interpreter.rewound().iter().any(|(from, to)| (*from..*to).contains(&start));
        let (mut reader, mut lines, mut at) = (ReplayReader { is_agent, ..ReplayReader::default() }, LineCounts::default(), 0);
        for (number, line) in (1..).zip(transcript.split_inclusive(|byte| *byte == b'\n')) {
            let text = line.strip_suffix(b"\n").unwrap_or(line);
            let condition = read_line(text, &mut |range, record| {
                if !is_rewound(at + range.start as u64) {
                    reader.take(&text[range], record, number);
                }
            });
            at += line.len() as u64;
            match condition {
                LineCondition::Blank => {}
                LineCondition::Whole => lines.good += 1,
                LineCondition::Damaged => {
                    lines.bad += 1;
                    lines.first_bad = if lines.first_bad == 0 { number as u64 } else { lines.first_bad };
                }
            }
        }
        (reader.finish(), lines)
    }

    /// The client's messages when it sent a request, numbered from 0: all since the last recorded compaction. Empty if there is
    /// no such request.
    pub fn messages_of_call(&self, call: usize) -> &[ReplayMessage] {
        let Some(call) = self.calls.get(call) else { return &[] };
        let start = self.resets.iter().rev().find(|reset| **reset < call.messages_before);
        &self.messages[start.copied().unwrap_or(0)..call.messages_before]
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(lines: &[Value]) -> ReplayConversation {
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        ReplayConversation::read(text.as_bytes()).0
    }

    fn user(text: &str) -> Value {
        json!({ "type": "user", "message": { "content": text }, "timestamp": "2026-06-01T09:00:00Z" })
    }

    fn answer(id: &str, input: u64) -> Value {
        let usage = json!({ "input_tokens": input, "cache_read_input_tokens": 0, "output_tokens": 7 });
        json!({ "type": "assistant", "message": { "id": id, "model": "claude-x", "content": [], "usage": usage } })
    }

    #[test]
    fn lines_of_one_answer_are_one_call() {
        let found = read(&[user("a"), answer("m1", 10), answer("m1", 12), user("b"), answer("m2", 20)]);
        let calls: Vec<_> = found.calls.iter().map(|call| (call.messages_before, call.context_tokens)).collect();
        assert_eq!(calls, [(1, Some(12)), (4, Some(20))]);
        assert_eq!(found.calls[1].output_tokens, 7);
        assert_eq!(found.model.as_deref(), Some("claude-x"));
        assert_eq!(found.calls[0].at_ms, 1_780_304_400_000);
    }

    #[test]
    fn what_is_no_message_of_the_main_conversation_is_left_out() {
        let mut agent = user("agent");
        agent["isSidechain"] = true.into();
        let mut repeated = user("once");
        repeated["uuid"] = "u1".into();
        let mut synthetic = answer("m0", 0);
        synthetic["message"]["model"] = "<synthetic>".into();
        let aside = json!({ "type": "mode", "mode": "normal" });
        let found = read(&[aside, agent, repeated.clone(), repeated, synthetic, answer("m1", 5)]);
        assert_eq!(found.messages.iter().map(|message| message.line).collect::<Vec<_>>(), [3, 5, 6]);
        assert_eq!(found.calls.len(), 1);
    }

    #[test]
    fn a_compaction_resets_what_was_sent_and_nothing_else() {
        let boundary = json!({ "type": "system", "subtype": "compact_boundary" });
        let mut summary = user("summary");
        summary["isCompactSummary"] = true.into();
        let found = read(&[user("a"), answer("m1", 10), boundary, summary, user("b"), answer("m2", 6)]);
        assert_eq!(found.messages.len(), 5);
        assert_eq!(found.resets, [2]);
        assert_eq!(found.messages_of_call(0).len(), 1);
        assert_eq!(found.messages_of_call(1).iter().map(|message| message.line).collect::<Vec<_>>(), [4, 5]);
        assert!(found.messages_of_call(2).is_empty());
    }

    #[test]
    fn a_line_that_is_no_object_is_counted_and_the_next_is_read() {
        let text = format!("nonsense\n  \n{}\n", user("a"));
        let (found, lines) = ReplayConversation::read(text.as_bytes());
        assert_eq!(found.messages[0].line, 3);
        assert_eq!(lines, LineCounts { good: 1, bad: 1, first_bad: 1 });
    }
}
