/*!
A conversation as JSON: one object, a turn a line. `docs/export.md` has the schema.

Texts are as they were said: nothing is cut, cleaned or made visible.
*/

use std::io::{self, Write};

use serde_json::{Map, Value, json};

use super::conversation::{Agent, Body, Conversation, Message, Outcome, Part, Turn};
use ctxbridge_archive::entry::{self, stamp};
use ctxbridge_common::digest;

/// The version of the schema. It changes when a field goes or means something else, not when one is added.
pub const FORMAT: u32 = 1;

/// Writes the object.
///
/// # Errors
/// When the sink cannot be written.
pub fn write(conversation: &Conversation, sink: &mut dyn Write) -> io::Result<()> {
    let head = json!({
        "format": FORMAT, "session": conversation.session, "state": conversation.state, "folder": conversation.folder,
        "model": conversation.model, "client_version": conversation.version,
        "first": conversation.first_ms().and_then(stamp), "last": conversation.last_ms().and_then(stamp),
        "compactions": conversation.compactions(), "before": messages(&conversation.before),
        "agents": conversation.agents.iter().map(agent).collect::<Value>(),
    });
    let head = head.to_string();
    let open = head.strip_suffix('}').unwrap_or(&head);
    write!(sink, "{open},\n\"turns\":[")?;
    for (number, turn) in conversation.turns.iter().enumerate() {
        let separator = if number > 0 { ",\n" } else { "\n" };
        write!(sink, "{separator}{}", of_turn(&conversation.session, turn))?;
    }
    writeln!(sink, "\n]}}")
}

fn of_turn(session: &str, turn: &Turn) -> Value {
    let started = stamp(turn.started_ms);
    json!({
        "turn": turn.index, "handle": turn.handle,
        "key": entry::key(session, turn.index, turn.started_ms),
        "title": turn.title(), "started": started, "ended": stamp(turn.ended_ms), "tools": turn.tools, "files": turn.files,
        "context_tokens": turn.context_tokens, "output_tokens": turn.output_tokens,
        "content_sha256": turn.content_sha256.map(|hash| digest::hex(&hash)), "messages": messages(&turn.messages),
    })
}

fn messages(messages: &[Message]) -> Value {
    messages.iter().map(message).collect()
}

fn message(message: &Message) -> Value {
    let (kind, fields) = match &message.body {
        Body::Prompt(said) => ("prompt", json!({ "content": parts(said) })),
        Body::Answer(said) => ("answer", json!({ "content": parts(said) })),
        Body::Note(said) => ("note", json!({ "content": parts(said) })),
        Body::Thinking(text) => ("thinking", json!({ "text": text })),
        Body::Summary(text) => ("summary", json!({ "text": text })),
        Body::Result(outcome) => ("result", json!({ "result": result(outcome) })),
        Body::Agent(of) => ("agent", json!({ "agent": agent(of) })),
        Body::Call(call) => (
            "call",
            json!({
                "id": call.id, "tool": call.tool, "input": call.input, "result": call.outcome.as_ref().map(result),
                "agents": call.agents.iter().map(agent).collect::<Value>(),
            }),
        ),
    };
    let mut all = Map::new();
    all.insert("type".to_owned(), kind.into());
    all.insert("at".to_owned(), stamp(message.at_ms).into());
    if let Value::Object(fields) = fields {
        all.extend(fields);
    }
    Value::Object(all)
}

fn parts(parts: &[Part]) -> Value {
    let part = |part: &Part| match part {
        Part::Text(text) => json!({ "type": "text", "text": text }),
        Part::Other(of) => json!({ "type": "other", "kind": of.kind, "media_type": of.media, "bytes": of.bytes }),
    };
    parts.iter().map(part).collect()
}

fn result(outcome: &Outcome) -> Value {
    json!({ "at": stamp(outcome.at_ms), "is_error": outcome.is_error, "content": parts(&outcome.parts) })
}

fn agent(agent: &Agent) -> Value {
    json!({ "id": agent.id, "messages": messages(&agent.messages) })
}
