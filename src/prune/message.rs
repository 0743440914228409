//! How Claude Code's internal messages are read. Anything may be missing or of another type:
//! foreign data is not an error, it is merely none of ours.

use serde_json::Value;

/// `message.content` of a user or assistant message: what the API gets to see as the conversation.
/// Other types (`system`, `attachment`, `progress`, …) have none in this sense.
pub(super) fn conversation_content(message: &Value) -> Option<&Value> {
    let is_conversation = is_type(message, "user") || is_type(message, "assistant");
    is_conversation.then(|| message.get("message")?.get("content")).flatten()
}

/// Whether a human turn starts here. Tool results are user messages too, but nobody typed them.
pub(super) fn is_human_prompt(message: &Value) -> bool {
    is_type(message, "user")
        && !is_synthetic(message)
        && match conversation_content(message) {
            Some(Value::String(_)) => true,
            Some(Value::Array(blocks)) => !blocks.iter().any(|block| is_type(block, "tool_result")),
            _ => false,
        }
}

/// Whether the client wrote this message, rather than a person or the model.
pub(super) fn is_synthetic(message: &Value) -> bool {
    ["isMeta", "isCompactSummary"].iter().any(|flag| message.get(flag).is_some_and(is_truthy))
}

/// The text of a `text` block.
pub(super) fn block_text(block: &Value) -> Option<&str> {
    if is_type(block, "text") { block.get("text")?.as_str() } else { None }
}

fn is_type(value: &Value, name: &str) -> bool {
    value.get("type").is_some_and(|found| found == name)
}

/// JavaScript's truthiness, by which the client reads its flags.
fn is_truthy(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(flag) => *flag,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(_) | Value::Object(_) => true,
    }
}
