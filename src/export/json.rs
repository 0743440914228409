/*!
Export of a conversation as JSON: one object, with one line for each turn. `docs/export.md` has the schema.

Texts are unchanged: nothing is cut, cleaned or made visible.
*/

use std::io::{self, Write};

use serde_json::{Map, Value, json};

use super::conversation::{Agent, ExportedConversation, ExportedMessage, ExportedTurn, MessageBody, MessagePart, ToolOutcome};
use ctxbridge_archive::entry::{self, format_timestamp};
use ctxbridge_common::digest;

/// The version of the schema. It changes when a field is removed or changes its meaning, not when one is added.
pub const FORMAT: u32 = 1;

/// Writes the object.
///
/// # Errors
/// If the sink cannot be written.
pub fn write(conversation: &ExportedConversation, sink: &mut dyn Write) -> io::Result<()> {
    let head = json!({
        "format": FORMAT, "session": conversation.session, "title": conversation.title, "state": conversation.state, "folder": conversation.folder,
        "model": conversation.model, "client_version": conversation.version,
        "first": conversation.first_ms().and_then(format_timestamp), "last": conversation.last_ms().and_then(format_timestamp),
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

fn of_turn(session: &str, turn: &ExportedTurn) -> Value {
    let started = format_timestamp(turn.started_ms);
    json!({
        "turn": turn.index, "handle": turn.handle, "is_rewound": turn.is_rewound,
        "key": entry::key(session, turn.index, turn.started_ms),
        "title": turn.title(), "started": started, "ended": format_timestamp(turn.ended_ms), "tools": turn.tools, "files": turn.files,
        "context_tokens": turn.context_tokens, "output_tokens": turn.output_tokens,
        "content_sha256": turn.content_sha256.map(|hash| digest::hex(&hash)), "messages": messages(&turn.messages),
    })
}

fn messages(messages: &[ExportedMessage]) -> Value {
    messages.iter().map(message).collect()
}

fn message(message: &ExportedMessage) -> Value {
    let (kind, fields) = match &message.body {
        MessageBody::Prompt(said) => ("prompt", json!({ "content": parts(said) })),
        MessageBody::Answer(said) => ("answer", json!({ "content": parts(said) })),
        MessageBody::Note(said) => ("note", json!({ "content": parts(said) })),
        MessageBody::Thinking(text) => ("thinking", json!({ "text": text })),
        MessageBody::Summary(text) => ("summary", json!({ "text": text })),
        MessageBody::Result(outcome) => ("result", json!({ "result": result(outcome) })),
        MessageBody::Agent(of) => ("agent", json!({ "agent": agent(of) })),
        MessageBody::Call(call) => (
            "call",
            json!({
                "id": call.id, "tool": call.tool, "input": call.input, "result": call.outcome.as_ref().map(result),
                "agents": call.agents.iter().map(agent).collect::<Value>(),
            }),
        ),
    };
    let mut all = Map::new();
    all.insert("type".to_owned(), kind.into());
    all.insert("at".to_owned(), format_timestamp(message.at_ms).into());
    if let Value::Object(fields) = fields {
        all.extend(fields);
    }
    Value::Object(all)
}

fn parts(parts: &[MessagePart]) -> Value {
    let part = |part: &MessagePart| match part {
        MessagePart::Text(text) => json!({ "type": "text", "text": text }),
        MessagePart::Other(of) => json!({ "type": "other", "kind": of.kind, "media_type": of.media, "bytes": of.bytes }),
    };
    parts.iter().map(part).collect()
}

fn result(outcome: &ToolOutcome) -> Value {
    json!({ "at": format_timestamp(outcome.at_ms), "is_error": outcome.is_error, "content": parts(&outcome.parts) })
}

fn agent(agent: &Agent) -> Value {
    json!({ "id": agent.id, "messages": messages(&agent.messages) })
}
