//! Prompts to a client in print mode, and its results.

use std::process::ExitStatus;
use std::time::Duration;

use serde_json::{Value, json};

/// Time limits for a client.
#[derive(Clone, Copy, Debug)]
pub struct ConversationLimits {
    /// From a prompt to its result; the first prompt's includes the start of the client.
    pub turn: Duration,
    /// From start to exit.
    pub total: Duration,
}

impl Default for ConversationLimits {
    /// One minute a turn, five in all: about ten times what a slow machine needs.
    fn default() -> Self {
        Self { turn: Duration::from_secs(60), total: Duration::from_secs(300) }
    }
}

/// The results of a conversation.
#[derive(Clone, Debug)]
pub struct ClientConversation {
    /// One entry a prompt.
    pub turns: Vec<PromptResult>,
    /// From start to exit.
    pub duration: Duration,
    /// Exit status of the client; it reports failure when its last turn was an error.
    pub status: ExitStatus,
    /// The end of what it wrote to stderr, and to stdout outside of JSON.
    pub diagnostics: String,
}

impl ClientConversation {
    /// `true` if every turn had an answer and the client reported success.
    pub fn is_success(&self) -> bool {
        self.status.success() && self.turns.iter().all(|turn| !turn.is_error)
    }
}

/// The result of one prompt.
#[derive(Clone, Debug)]
pub struct PromptResult {
    /// The answer, or the client's error message.
    pub text: String,
    /// `true` if the client reports an error, e.g. because the API refused the request.
    pub is_error: bool,
    /// From the prompt to the result.
    pub duration: Duration,
}

impl PromptResult {
    /// The result in a line of output, if this is the line that ends the turn.
    pub(super) fn from_line(line: &Value, duration: Duration) -> Option<Self> {
        (line["type"] == "result").then(|| Self {
            text: result_text(line),
            is_error: line["is_error"] == true || line["subtype"] != "success",
            duration,
        })
    }
}

/// A prompt as a line of input.
pub(super) fn prompt_line(prompt: &str) -> String {
    json!({ "type": "user", "message": { "role": "user", "content": prompt } }).to_string()
}

/// The text of a result. One that is not a success has no text: it has a list of errors, or nothing but its subtype.
fn result_text(line: &Value) -> String {
    match (&line["result"], &line["errors"]) {
        (Value::String(text), _) => text.clone(),
        (_, Value::Array(errors)) => Value::from(errors.clone()).to_string(),
        _ => line["subtype"].as_str().unwrap_or("no result").to_owned(),
    }
}
