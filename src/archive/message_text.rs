//! Messages as text: everything that they say, each after a line with its role, tools and time.

use serde_json::Value;

use ctxbridge_common::digest;

/// An original message.
#[derive(Clone, Debug, PartialEq)]
pub struct OriginalMessage {
    /// Its id.
    pub uuid: String,
    /// The role: user or assistant.
    pub role: String,
    /// Its time, as the client wrote it.
    pub time: Option<String>,
    /// Tools that it calls, or has the results of.
    pub tools: Vec<String>,
    /// Its content, as in the transcript.
    pub content: Value,
}

/// Before the header of a message.
const HEADER: &str = "== ";

/// Everything that messages say. The words before the blocks are those of turns.
pub(super) fn text_of(messages: &[OriginalMessage]) -> String {
    let mut text = String::new();
    for message in messages {
        text.push_str(HEADER);
        text.push_str(&message.role);
        // A call and its result are one tool, and calls of the same tool are one name.
        let mut named: Vec<&String> = message.tools.iter().collect();
        named.dedup();
        for part in named.into_iter().chain(&message.time) {
            text.push_str(", ");
            text.push_str(part);
        }
        text.push_str("\n\n");
        let who = if message.role == "assistant" { "Assistant" } else { "Human" };
        match &message.content {
            Value::Array(blocks) => blocks.iter().for_each(|block| add_block(who, block, &mut text)),
            content => add_part(who, content, &mut text),
        }
    }
    text
}

/// Text of a block of a message, in words.
pub(super) fn of_block(message: &Value, block: usize) -> Option<String> {
    let mut text = String::new();
    add_block("Message", message.pointer("/message/content")?.get(block)?, &mut text);
    Some(text.trim_end().to_owned())
}

fn add(label: &str, said: &str, text: &mut String) {
    text.push_str(label);
    text.push_str(": ");
    text.push_str(said);
    text.push_str("\n\n");
}

fn add_block(who: &str, block: &Value, text: &mut String) {
    let field = |name: &str| block.get(name).and_then(Value::as_str).unwrap_or_default();
    match field("type") {
        "thinking" => add("Thinking", field("thinking"), text),
        // Only the model's server can read it.
        "redacted_thinking" => add("Thinking", "[redacted]", text),
        "tool_use" => {
            let input = block.get("input").map(Value::to_string).unwrap_or_default();
            add(&format!("Tool {}", field("name")), &input, text);
        }
        "tool_result" => {
            let label = if block.get("is_error") == Some(&Value::Bool(true)) { "Error" } else { "Result" };
            match block.get("content") {
                None | Some(Value::Null) => add(label, "", text),
                Some(Value::Array(parts)) => parts.iter().for_each(|part| add_part(label, part, text)),
                Some(content) => add_part(label, content, text),
            }
        }
        _ => add_part(who, block, text),
    }
}

/// Adds a text. Of an image or a document, its size says enough; anything else is added as it is.
fn add_part(label: &str, part: &Value, text: &mut String) {
    let kind = part.get("type").and_then(Value::as_str).unwrap_or_default();
    match (part, part.get("text"), part.pointer("/source/data")) {
        (Value::String(said), ..) => add(label, said, text),
        (_, Some(Value::String(said)), _) if kind == "text" => add(label, said, text),
        (_, _, Some(Value::String(data))) => {
            let hash = &digest::of_bytes(data.as_bytes())[..16];
            add(label, &format!("[{kind}, {} bytes, sha256 {hash}]", data.len()), text);
        }
        _ => add(label, &part.to_string(), text),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn message(role: &str, tools: &[&str], time: Option<&str>, content: Value) -> OriginalMessage {
        OriginalMessage {
            uuid: "u".into(),
            role: role.into(),
            time: time.map(str::to_owned),
            tools: tools.iter().map(|tool| (*tool).to_owned()).collect(),
            content,
        }
    }

    #[test]
    fn a_picture_is_said_to_be_one() {
        let image = json!({ "type": "image", "source": { "type": "base64", "data": "AAAA" } });
        let result = json!({ "type": "tool_result", "tool_use_id": "1", "content": [image] });
        let message = json!({ "message": { "content": [result] } });
        assert_eq!(of_block(&message, 0).as_deref(), Some("Result: [image, 4 bytes, sha256 63c1dd951ffedf6f]"));
        assert_eq!(of_block(&message, 1), None);
    }

    #[test]
    fn everything_is_in_it() {
        let answer = json!([
            { "type": "thinking", "thinking": "Which port?", "signature": "x" },
            { "type": "redacted_thinking", "data": "x" },
            { "type": "text", "text": "I look." },
            { "type": "tool_use", "id": "1", "name": "Read", "input": { "file_path": "a.rs", "limit": 3 } },
            { "type": "tool_use", "id": "2", "name": "Read", "input": {} },
            { "type": "new_kind", "of": ["a"] },
        ]);
        let results = json!([
            { "type": "tool_result", "tool_use_id": "1", "content": [
                { "type": "text", "text": "one\n" },
                { "type": "image", "source": { "type": "base64", "media_type": "image/png", "data": "AAAA" } },
            ] },
            { "type": "tool_result", "tool_use_id": "2", "content": "no such file", "is_error": true },
            { "type": "tool_result", "tool_use_id": "3" },
        ]);
        let messages = [
            message("assistant", &["Read", "Read"], Some("2026-05-01T10:00:00.000Z"), answer),
            message("user", &["Read", "Bash"], None, results),
            message("assistant", &[], None, json!("It is 80.")),
        ];
        insta::assert_snapshot!(text_of(&messages), @r#"
        == assistant, Read, 2026-05-01T10:00:00.000Z

        Thinking: Which port?

        Thinking: [redacted]

        Assistant: I look.

        Tool Read: {"file_path":"a.rs","limit":3}

        Tool Read: {}

        Assistant: {"type":"new_kind","of":["a"]}

        == user, Read, Bash

        Result: one


        Result: [image, 4 bytes, sha256 63c1dd951ffedf6f]

        Error: no such file

        Result: 

        == assistant

        Assistant: It is 80.
        "#);
    }
}
