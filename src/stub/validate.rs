//! The checks that the real API makes before a model sees a request, with its error messages.
//!
//! The messages are those of refusals that users reported and that recorded exchanges show. Only
//! rules that a client can break by editing its own history are here: the shape of messages and
//! blocks, empty text, and the pairing of tool calls with their results (`pairing`). Not checked are
//! the existence of model, tools, images and beta features, the content of thinking signatures (but
//! see [`ThinkingRules`](super::ThinkingRules)), and that a call made while thinking was on follows its thinking block.

mod pairing;

use serde_json::Value;

/// Maximum number of blocks with `cache_control` in a request.
const MAX_CACHE_BREAKPOINTS: usize = 4;

/// A rule of the API that a request breaks; displays as the API's message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Violation(String);

impl Violation {
    /// That of a thinking block whose signature is not the API's, or bound to something else.
    pub(super) fn of_signature(path: &str) -> Self {
        Self(format!("{path}: Invalid `signature` in `thinking` block"))
    }
}

/// The result of a check: nothing, or the first rule that is broken.
type ValidationResult = Result<(), Violation>;

fn refuse<T>(message: impl Into<String>) -> Result<T, Violation> {
    Err(Violation(message.into()))
}

/// Checks the body of a `POST /v1/messages`; the error is the first broken rule.
pub fn validate(body: &Value) -> Result<(), Violation> {
    match body.get("max_tokens") {
        None => return refuse("max_tokens: Field required"),
        Some(max) => match max.as_i64() {
            None => return refuse("max_tokens: Input should be a valid integer"),
            Some(max) if max < 1 => {
                return refuse("max_tokens: must be greater than or equal to 1");
            }
            Some(_) => {}
        },
    }
    validate_prompt(body)
}

/// Checks the part of a request that `POST /v1/messages/count_tokens` has, too: everything but
/// `max_tokens`.
pub fn validate_prompt(body: &Value) -> Result<(), Violation> {
    if required_str(body, "model", "model")?.is_empty() {
        return refuse("model: String should have at least 1 character");
    }
    if let Some(Value::Array(blocks)) = body.get("system") {
        for (index, block) in blocks.iter().enumerate() {
            text_block(block, "system", &format!("system.{index}"))?;
        }
    }
    let messages = match body.get("messages") {
        None => return refuse("messages: Field required"),
        Some(Value::Array(messages)) => messages,
        Some(_) => return refuse("messages: Input should be a valid list"),
    };
    if messages.is_empty() {
        return refuse("messages: at least one message is required");
    }
    for (index, message) in messages.iter().enumerate() {
        self::message(message, index, index + 1 == messages.len())?;
    }
    cache_breakpoints(body)?;
    pairing::check(messages)
}

fn message(message: &Value, index: usize, last: bool) -> ValidationResult {
    let path = format!("messages.{index}");
    let role = required_str(message, "role", &format!("{path}.role"))?;
    match role {
        "user" | "assistant" => {}
        "system" => {
            return refuse(
                "messages: Unexpected role \"system\". The Messages API accepts a top-level `system` \
                 parameter, not \"system\" as an input message role.",
            );
        }
        _ => {
            return refuse(format!("{path}.role: Input should be 'user' or 'assistant'"));
        }
    }
    if index == 0 && role != "user" {
        return refuse("messages: first message must use the \"user\" role");
    }
    let prefill = last && role == "assistant";
    let content = &message["content"];
    let empty = match content {
        Value::Null => return refuse(format!("{path}.content: Field required")),
        Value::String(text) => text.is_empty(),
        Value::Array(blocks) => blocks.is_empty(),
        _ => return refuse(format!("{path}.content: Input should be a valid list")),
    };
    if empty && !prefill {
        return refuse(format!(
            "{path}: all messages must have non-empty content except for the optional final \
             assistant message"
        ));
    }
    if let Value::String(text) = content
        && !empty
    {
        non_blank(text, "messages")?;
    }
    for (at, block) in content.as_array().into_iter().flatten().enumerate() {
        self::block(block, role, &path, &format!("{path}.content.{at}"))?;
    }
    if prefill && last_text(content).is_some_and(|text| text.ends_with(char::is_whitespace)) {
        return refuse("messages: final assistant content cannot end with trailing whitespace");
    }
    Ok(())
}

/// Checks one content block. `message` and `path` are the paths of its message and of itself.
fn block(block: &Value, role: &str, message: &str, path: &str) -> ValidationResult {
    match required_str(block, "type", &format!("{path}.type"))? {
        "text" => text_block(block, "messages", path),
        "thinking" => {
            required_str(block, "thinking", &format!("{path}.thinking.thinking"))?;
            let signature = required_str(block, "signature", &format!("{path}.thinking.signature"))?;
            if signature.is_empty() {
                return Err(Violation::of_signature(path));
            }
            Ok(())
        }
        "redacted_thinking" => required_str(block, "data", &format!("{path}.redacted_thinking.data")).map(drop),
        "tool_use" if role != "assistant" => refuse(format!("{message}: `tool_use` blocks can only be in `assistant` messages")),
        "tool_use" => tool_use(block, path),
        "tool_result" if role != "user" => refuse(format!("{message}: `tool_result` blocks can only be in `user` messages")),
        "tool_result" => {
            let path = format!("{path}.tool_result.tool_use_id");
            required_str(block, "tool_use_id", &path).map(drop)
        }
        // Images, documents, server tools, whatever a newer client knows: none of our business.
        _ => Ok(()),
    }
}

fn tool_use(block: &Value, path: &str) -> ValidationResult {
    let id = required_str(block, "id", &format!("{path}.tool_use.id"))?;
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if id.is_empty() || !id.chars().all(allowed) {
        return refuse(format!("{path}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"));
    }
    if required_str(block, "name", &format!("{path}.tool_use.name"))?.is_empty() {
        return refuse(format!("{path}.tool_use.name: String should have at least 1 character"));
    }
    match block.get("input") {
        None => refuse(format!("{path}.tool_use.input: Field required")),
        Some(Value::Object(_)) => Ok(()),
        Some(_) => refuse(format!("{path}.tool_use.input: Input should be a valid dictionary")),
    }
}

/// Checks a text block of `scope` (`messages` or `system`).
fn text_block(block: &Value, scope: &str, path: &str) -> ValidationResult {
    let text = required_str(block, "text", &format!("{path}.text.text"))?;
    if text.is_empty() && has_breakpoint(block) {
        return refuse(format!("{path}.text: cache_control cannot be set for empty text blocks"));
    }
    non_blank(text, scope)
}

fn non_blank(text: &str, scope: &str) -> ValidationResult {
    if text.is_empty() {
        refuse(format!("{scope}: text content blocks must be non-empty"))
    } else if text.trim().is_empty() {
        refuse(format!("{scope}: text content blocks must contain non-whitespace text"))
    } else {
        Ok(())
    }
}

fn cache_breakpoints(body: &Value) -> ValidationResult {
    let top = ["system", "tools"].into_iter().filter_map(|part| body[part].as_array()).flatten();
    let messages = body["messages"].as_array().into_iter().flatten();
    let content = messages.filter_map(|message| message["content"].as_array()).flatten();
    let found = top.chain(content.clone()).filter(|block| has_breakpoint(block)).count()
        + content.filter_map(|block| block["content"].as_array()).flatten().filter(|nested| has_breakpoint(nested)).count();
    if found > MAX_CACHE_BREAKPOINTS {
        return refuse(format!(
            "A maximum of {MAX_CACHE_BREAKPOINTS} blocks with cache_control may be provided. \
             Found {found}."
        ));
    }
    Ok(())
}

fn has_breakpoint(block: &Value) -> bool {
    block["cache_control"].is_object()
}

/// The text that `content` ends with, if it ends with text.
fn last_text(content: &Value) -> Option<&str> {
    match content {
        Value::String(text) => Some(text),
        Value::Array(blocks) => blocks.last().filter(|block| block["type"] == "text").and_then(|block| block["text"].as_str()),
        _ => None,
    }
}

fn required_str<'a>(object: &'a Value, field: &str, path: &str) -> Result<&'a str, Violation> {
    match object.get(field) {
        None => refuse(format!("{path}: Field required")),
        Some(Value::String(text)) => Ok(text),
        Some(_) => refuse(format!("{path}: Input should be a valid string")),
    }
}
