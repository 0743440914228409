//! Lines as the client writes them, written by hand.

use serde_json::{Value, json};

pub const SESSION: &str = "11111111-2222-4333-8444-555555555555";

/// The object with these keys besides, or instead.
pub fn with(mut line: Value, more: Value) -> Value {
    let keys = line.as_object_mut().unwrap();
    keys.extend(more.as_object().unwrap().clone());
    line
}

/// A line of the conversation, written `number` seconds into 1 June 2026.
pub fn line(number: u32, of: Value) -> Value {
    with(
        json!({
            "parentUuid": null, "isSidechain": false, "userType": "external", "cwd": "/work/p", "sessionId": SESSION,
            "version": "2.1.330", "gitBranch": "main", "uuid": uuid(number), "timestamp": time(number),
        }),
        of,
    )
}

pub fn uuid(number: u32) -> String {
    format!("{number:08x}-0000-4000-8000-000000000000")
}

pub fn time(number: u32) -> String {
    format!("2026-06-01T{:02}:{:02}:{:02}.000Z", number / 3600, number / 60 % 60, number % 60)
}

pub fn user(number: u32, content: impl Into<Value>) -> Value {
    line(number, json!({ "type": "user", "message": { "role": "user", "content": content.into() } }))
}

/// A line of an answer: one block, and what the whole answer took.
pub fn answer(number: u32, message: &str, block: Value) -> Value {
    let usage = json!({
        "input_tokens": 10, "cache_creation_input_tokens": 200, "cache_read_input_tokens": 30_000, "output_tokens": 50,
        "service_tier": "standard",
    });
    let message = json!({
        "id": message, "type": "message", "role": "assistant", "model": "claude-sonnet-4-5", "content": [block],
        "stop_reason": null, "usage": usage,
    });
    line(number, json!({ "type": "assistant", "requestId": "req_1", "message": message }))
}

/// An answer in one line.
pub fn says(number: u32, what: &str) -> Value {
    answer(number, &format!("msg_{number}"), words(what))
}

pub fn words(what: &str) -> Value {
    json!({ "type": "text", "text": what })
}

pub fn call(name: &str, input: Value) -> Value {
    json!({ "type": "tool_use", "id": format!("toolu_{name}"), "name": name, "input": input })
}

/// An answer of one call.
pub fn calls(number: u32, name: &str, input: Value) -> Value {
    answer(number, &format!("msg_{number}"), call(name, input))
}

pub fn result(number: u32, content: impl Into<Value>) -> Value {
    user(number, json!([{ "type": "tool_result", "tool_use_id": "toolu_1", "content": content.into() }]))
}

/// A line of a sub-agent.
pub fn of_agent(line: Value) -> Value {
    with(line, json!({ "isSidechain": true, "agentId": "a1b2c3d" }))
}

pub fn boundary(number: u32) -> Value {
    line(
        number,
        json!({
            "type": "system", "subtype": "compact_boundary", "content": "Conversation compacted", "level": "info",
            "logicalParentUuid": uuid(number - 1), "compactMetadata": { "trigger": "auto", "preTokens": 150_000 },
        }),
    )
}

pub fn compact_summary(number: u32, what: &str) -> Value {
    with(user(number, what), json!({ "isCompactSummary": true, "isVisibleInTranscriptOnly": true }))
}

/// The file that these lines make.
pub fn text(lines: &[Value]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}
