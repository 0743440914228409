//! Answers of the stub: the script that decides them, and their format on the wire.

use serde_json::{Value, json};

use super::request::{ApiRequest, RequestKind};
use super::tokens::{CacheUsage, estimate_tokens};

/// Characters of text in one `content_block_delta`.
const DELTA_CHARS: usize = 2_000;

/// A summary as clients ask for it; 2.1.330 asks again for one that has no `<summary>`.
const SUMMARY: &str = "<analysis>Short.</analysis>\n<summary>The stub has summed the conversation up.</summary>";

/// The assistant's next answer.
#[derive(Clone, Debug, PartialEq)]
pub enum ScriptedReply {
    /// A text block; the turn ends.
    Text(String),
    /// A call of a client tool; the client comes back with its `tool_result`.
    ToolUse {
        /// The tool, one of those that the request offers.
        name: String,
        /// Its input, a JSON object.
        input: Value,
    },
    /// Several calls in one answer; their results come back in one message.
    ToolUses(Vec<ToolCall>),
    /// A text, and calls in the same answer.
    TextAndToolUses(String, Vec<ToolCall>),
}

/// One of several calls of client tools.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolCall {
    /// The tool, one of those that the request offers.
    pub name: String,
    /// Its input, a JSON object.
    pub input: Value,
}

/// The script of a conversation: decides the answer to each request.
///
/// A closure `FnMut(&Request) -> Reply` is a script too.
pub trait Responder: Send {
    /// The answer to a request of the main conversation.
    fn reply(&mut self, request: &ApiRequest) -> ScriptedReply;

    /// The answer to a side request: warm-ups, titles, compaction.
    ///
    /// Separate, since the number and order of such requests differ from release to release and from
    /// run to run; they use up no step of a script.
    fn side_reply(&mut self, request: &ApiRequest) -> ScriptedReply {
        ScriptedReply::Text(if request.kind == RequestKind::Compaction { SUMMARY.into() } else { "OK.".into() })
    }

    /// The usage that the answer reports. A script that reports more than was sent fills a context window with few words.
    fn usage(&mut self, request: &ApiRequest, reply: &ScriptedReply) -> ReplyUsage {
        ReplyUsage::of(request, reply)
    }
}

impl<F: FnMut(&ApiRequest) -> ScriptedReply + Send> Responder for F {
    fn reply(&mut self, request: &ApiRequest) -> ScriptedReply {
        self(request)
    }
}

/// Answers `Answer 1.`, `Answer 2.` … after [`ApiRequest::number`].
#[derive(Clone, Copy, Debug)]
pub struct NumberedReplies;

impl Responder for NumberedReplies {
    fn reply(&mut self, request: &ApiRequest) -> ScriptedReply {
        ScriptedReply::Text(format!("Answer {}.", request.number))
    }
}

/// Token counts that an answer reports; the client takes them for the size of its context.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplyUsage {
    /// Tokens of the request that were neither read from nor written to the cache.
    pub input_tokens: u64,
    /// Tokens of the answer.
    pub output_tokens: u64,
    /// Tokens written to the prompt cache; 0 if the stub keeps no cache.
    pub cache_creation_input_tokens: u64,
    /// Tokens read from the prompt cache; 0 if the stub keeps no cache.
    pub cache_read_input_tokens: u64,
}

impl ReplyUsage {
    /// The tokens that answering `request` with `reply` would have used.
    pub fn of(request: &ApiRequest, reply: &ScriptedReply) -> Self {
        let called = |name: &str, input: &Value| name.chars().count() + input.to_string().chars().count();
        let all_called = |calls: &[ToolCall]| calls.iter().map(|call| called(&call.name, &call.input)).sum::<usize>();
        let answered = match reply {
            ScriptedReply::Text(text) => text.chars().count(),
            ScriptedReply::ToolUse { name, input } => called(name, input),
            ScriptedReply::ToolUses(calls) => all_called(calls),
            ScriptedReply::TextAndToolUses(text, calls) => text.chars().count() + all_called(calls),
        };
        let CacheUsage { read, written } = request.cached;
        Self {
            input_tokens: request.tokens - read - written,
            output_tokens: estimate_tokens(answered),
            cache_creation_input_tokens: written,
            cache_read_input_tokens: read,
        }
    }

    fn to_json(self) -> Value {
        json!({
            "input_tokens": self.input_tokens,
            "cache_creation_input_tokens": self.cache_creation_input_tokens,
            "cache_read_input_tokens": self.cache_read_input_tokens,
            "output_tokens": self.output_tokens,
        })
    }
}

/// The answer to a request without `stream`, beginning with `thought`. `serial` makes its ids unique.
pub(super) fn message(serial: usize, model: &str, thought: Option<Value>, reply: &ScriptedReply, usage: ReplyUsage) -> Value {
    let id = format!("toolu_stub{serial:04}");
    let call = |id: &str, name: &str, input: &Value| json!({ "type": "tool_use", "id": id, "name": name, "input": input });
    let said = |text: &str| json!({ "type": "text", "text": text });
    let all_called = |calls: &[ToolCall]| -> Vec<Value> {
        let calls = calls.iter().enumerate();
        calls.map(|(at, one)| call(&format!("{id}_{at}"), &one.name, &one.input)).collect()
    };
    let (content, stop_reason) = match reply {
        ScriptedReply::Text(text) => (vec![said(text)], "end_turn"),
        ScriptedReply::ToolUse { name, input } => (vec![call(&id, name, input)], "tool_use"),
        ScriptedReply::ToolUses(calls) => (all_called(calls), "tool_use"),
        ScriptedReply::TextAndToolUses(text, calls) => ([vec![said(text)], all_called(calls)].concat(), "tool_use"),
    };
    let content: Vec<Value> = thought.into_iter().chain(content).collect();
    json!({
        "id": format!("msg_stub{serial:04}"),
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": content,
        "stop_reason": stop_reason,
        "stop_sequence": null,
        "usage": usage.to_json(),
    })
}

/// The same answer as server-sent events, from `message_start` to `message_stop`.
pub(super) fn event_stream(message: &Value) -> String {
    let mut stream = EventStream::default();
    let mut head = message.clone();
    head["content"] = json!([]);
    head["stop_reason"] = Value::Null;
    head["usage"]["output_tokens"] = json!(1);
    stream.push(json!({ "type": "message_start", "message": head }));

    for (index, block) in message["content"].as_array().into_iter().flatten().enumerate() {
        let (start, deltas) = unroll(block);
        stream.push(json!({ "type": "content_block_start", "index": index, "content_block": start }));
        stream.push(json!({ "type": "ping" }));
        for delta in deltas {
            stream.push(json!({ "type": "content_block_delta", "index": index, "delta": delta }));
        }
        stream.push(json!({ "type": "content_block_stop", "index": index }));
    }

    stream.push(json!({
        "type": "message_delta",
        "delta": { "stop_reason": message["stop_reason"], "stop_sequence": null },
        "usage": { "output_tokens": message["usage"]["output_tokens"] },
    }));
    stream.push(json!({ "type": "message_stop" }));
    stream.0
}

/// A block as it starts, empty, and the deltas that fill it.
fn unroll(block: &Value) -> (Value, Vec<Value>) {
    let mut start = block.clone();
    if block["type"] == "tool_use" {
        start["input"] = json!({});
        let input = json!({ "type": "input_json_delta", "partial_json": block["input"].to_string() });
        return (start, vec![input]);
    }
    if block["type"] == "thinking" {
        start["thinking"] = json!("");
        start["signature"] = json!("");
        let thinking = json!({ "type": "thinking_delta", "thinking": block["thinking"] });
        return (start, vec![thinking, json!({ "type": "signature_delta", "signature": block["signature"] })]);
    }
    start["text"] = json!("");
    let text: Vec<char> = block["text"].as_str().unwrap_or_default().chars().collect();
    let deltas =
        text.chunks(DELTA_CHARS).map(|part| json!({ "type": "text_delta", "text": part.iter().collect::<String>() })).collect();
    (start, deltas)
}

#[derive(Default)]
struct EventStream(String);

impl EventStream {
    /// Appends one event, named after its own `type`.
    fn push(&mut self, event: Value) {
        let name = event["type"].as_str().unwrap_or_default();
        self.0.push_str(&format!("event: {name}\ndata: {event}\n\n"));
    }
}
