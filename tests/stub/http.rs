//! Asking a stub, and what to ask it.

use ctxbridge::stub::Stub;
use serde_json::{Value, json};

/// Status, content type and body of an answer.
pub struct Answer {
    pub status: u16,
    pub content_type: String,
    pub body: String,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    /// The type and message of an API error.
    pub fn error(&self) -> (u16, String, String) {
        let body = self.json();
        assert_eq!(body["type"], "error");
        let text = |field: &str| body["error"][field].as_str().unwrap().to_owned();
        (self.status, text("type"), text("message"))
    }
}

pub fn agent() -> ureq::Agent {
    let config = ureq::Agent::config_builder();
    config.http_status_as_error(false).build().into()
}

pub fn post(stub: &Stub, path: &str, body: &str) -> Answer {
    let url = format!("{}{path}", stub.url());
    let request = agent().post(url).header("content-type", "application/json");
    let mut response = request.send(body).unwrap();
    let content_type = response.headers()["content-type"].to_str().unwrap().to_owned();
    Answer { status: response.status().as_u16(), content_type, body: response.body_mut().read_to_string().unwrap() }
}

pub fn ask(stub: &Stub, body: &Value) -> Answer {
    post(stub, "/v1/messages?beta=true", &body.to_string())
}

pub fn request(messages: Value) -> Value {
    json!({ "model": "claude-sonnet-4-5", "max_tokens": 100, "messages": messages })
}

/// A request as the main conversation of a client makes it.
pub fn main_request(messages: Value) -> Value {
    let mut body = request(messages);
    body["system"] = json!([{ "type": "text", "text": "Be helpful." }]);
    body["tools"] = json!([
        { "name": "Task", "input_schema": { "type": "object" } },
        { "name": "Read", "input_schema": { "type": "object" } },
    ]);
    body
}

pub fn user(content: impl Into<Value>) -> Value {
    json!({ "role": "user", "content": content.into() })
}

pub fn assistant(content: impl Into<Value>) -> Value {
    json!({ "role": "assistant", "content": content.into() })
}

pub fn text(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

pub fn cached(mut block: Value) -> Value {
    block["cache_control"] = json!({ "type": "ephemeral" });
    block
}

pub fn call(id: &str) -> Value {
    json!({ "type": "tool_use", "id": id, "name": "Read", "input": {} })
}

pub fn result(id: &str) -> Value {
    json!({ "type": "tool_result", "tool_use_id": id, "content": "done" })
}
