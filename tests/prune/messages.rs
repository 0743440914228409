//! Claude Code's internal messages, as tests write them.

use serde_json::{Value, json};

/// A user message with the given content.
pub fn user<C: Into<Value>>(content: C) -> Value {
    let message = json!({"role": "user", "content": content.into()});
    json!({"type": "user", "message": message, "uuid": ""})
}

/// A message of the model with the given content.
pub fn assistant<C: Into<Value>>(content: C) -> Value {
    let usage = json!({"input_tokens": 7, "output_tokens": 3});
    let message = json!({"id": "msg_1", "role": "assistant", "content": content.into(), "usage": usage});
    json!({"type": "assistant", "message": message, "uuid": "", "requestId": "req_1"})
}

/// A text block.
pub fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// `message`, behind which `prompts` human turns follow.
pub fn before_prompts(message: Value, prompts: usize) -> Vec<Value> {
    std::iter::once(message).chain((0..prompts).map(|_| user("go on"))).collect()
}

/// What stands at the end of a text that was cut, without a handle.
pub fn marker(original_chars: usize) -> String {
    ctxbridge::prune::marker(original_chars as u64, None)
}
