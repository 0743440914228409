//! What the stub answers: who decides it, and how it looks on the wire.

use serde_json::{Value, json};

use super::request::{Kind, Request, estimate_tokens};

/// Characters of text in one `content_block_delta`.
const DELTA_CHARS: usize = 2_000;

/// A summary as clients ask for it; 2.1.330 asks again for one that has no `<summary>`.
const SUMMARY: &str = "<analysis>Short.</analysis>\n<summary>The stub has summed the conversation up.</summary>";

/// What the assistant says next.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// A text block; the turn ends.
    Text(String),
    /// A call of a client tool; the client comes back with its `tool_result`.
    ToolUse {
        /// The tool, one of those that the request offers.
        name: String,
        /// Its input, a JSON object.
        input: Value,
    },
}

/// The script of a conversation: decides the answer to each request.
///
/// A closure `FnMut(&Request) -> Reply` is a script too.
pub trait Responder: Send {
    /// The answer to a request of the main conversation.
    fn reply(&mut self, request: &Request) -> Reply;

    /// The answer to what the client asks on the side: warm-ups, titles, compaction.
    ///
    /// Kept apart so that such requests, whose number and order differ from release to release
    /// and from run to run, use up no step of a script.
    fn side_reply(&mut self, request: &Request) -> Reply {
        Reply::Text(if request.kind == Kind::Compaction { SUMMARY.into() } else { "OK.".into() })
    }

    /// The usage that the answer reports. A script that claims more than was sent fills a window with few words.
    fn usage(&mut self, request: &Request, reply: &Reply) -> Usage {
        Usage::of(request, reply)
    }
}

impl<F: FnMut(&Request) -> Reply + Send> Responder for F {
    fn reply(&mut self, request: &Request) -> Reply {
        self(request)
    }
}

/// Answers `Answer 1.`, `Answer 2.` … after [`Request::number`].
#[derive(Clone, Copy, Debug)]
pub struct Numbered;

impl Responder for Numbered {
    fn reply(&mut self, request: &Request) -> Reply {
        Reply::Text(format!("Answer {}.", request.number))
    }
}

/// Token counts that an answer reports; the client takes them for the size of its context.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens of the request that were neither read from nor written to the cache.
    pub input_tokens: u64,
    /// Tokens of the answer.
    pub output_tokens: u64,
    /// Tokens written to the prompt cache; 0, the stub keeps none.
    pub cache_creation_input_tokens: u64,
    /// Tokens read from the prompt cache; 0, the stub keeps none.
    pub cache_read_input_tokens: u64,
}

impl Usage {
    /// What answering `request` with `reply` would have used.
    pub fn of(request: &Request, reply: &Reply) -> Self {
        let answered = match reply {
            Reply::Text(text) => text.chars().count(),
            Reply::ToolUse { name, input } => name.chars().count() + input.to_string().chars().count(),
        };
        Self { input_tokens: request.tokens, output_tokens: estimate_tokens(answered), ..Self::default() }
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

/// The answer as a request without `stream` gets it. `serial` makes its ids unique.
pub(super) fn message(serial: usize, model: &str, reply: &Reply, usage: Usage) -> Value {
    let (block, stop_reason) = match reply {
        Reply::Text(text) => (json!({ "type": "text", "text": text }), "end_turn"),
        Reply::ToolUse { name, input } => {
            let id = format!("toolu_stub{serial:04}");
            let block = json!({ "type": "tool_use", "id": id, "name": name, "input": input });
            (block, "tool_use")
        }
    };
    json!({
        "id": format!("msg_stub{serial:04}"),
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [block],
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
