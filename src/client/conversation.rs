//! What is said to a client in print mode, and what comes back.

use std::process::ExitStatus;
use std::time::Duration;

use serde_json::{Value, json};

/// How long a client may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// From a prompt to its result; the first prompt's includes the start of the client.
    pub turn: Duration,
    /// From start to exit.
    pub total: Duration,
}

impl Default for Limits {
    /// A minute a turn, five in all: some ten times what a slow machine needs.
    fn default() -> Self {
        Self { turn: Duration::from_secs(60), total: Duration::from_secs(300) }
    }
}

/// What came of a conversation.
#[derive(Clone, Debug)]
pub struct Conversation {
    /// One entry a prompt.
    pub turns: Vec<Turn>,
    /// From start to exit.
    pub duration: Duration,
    /// How the client ended; it reports failure when its last turn was an error.
    pub status: ExitStatus,
    /// The end of what it wrote to stderr, and to stdout outside of JSON.
    pub diagnostics: String,
}

impl Conversation {
    /// Whether every turn had an answer and the client reported success.
    pub fn ended_well(&self) -> bool {
        self.status.success() && self.turns.iter().all(|turn| !turn.is_error)
    }
}

/// The result of one prompt.
#[derive(Clone, Debug)]
pub struct Turn {
    /// The answer, or what the client says went wrong.
    pub text: String,
    /// Whether the client calls it an error, e.g. since the API refused the request.
    pub is_error: bool,
    /// From the prompt to the result.
    pub duration: Duration,
}

impl Turn {
    /// What a line of output says about the turn, if it is the one that ends it.
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

/// A result that is no success has no text, but a list of errors or nothing but its subtype.
fn result_text(line: &Value) -> String {
    match (&line["result"], &line["errors"]) {
        (Value::String(text), _) => text.clone(),
        (_, Value::Array(errors)) => Value::from(errors.clone()).to_string(),
        _ => line["subtype"].as_str().unwrap_or("no result").to_owned(),
    }
}
