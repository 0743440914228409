//! Tool calls.

use serde_json::Value;

/// A tool call with its result.
pub(super) struct ScriptedCall {
    /// The id, given by the API; empty until the call is written, unless it is needed before.
    pub(super) id: String,
    pub(super) name: &'static str,
    pub(super) input: Value,
    /// The result that is sent to the model.
    pub(super) content: Value,
    /// The result that the client keeps for itself.
    pub(super) result: Value,
    pub(super) error: bool,
    /// The id of the call's line, once it is written.
    pub(super) line: String,
}

impl ScriptedCall {
    pub(super) fn new(name: &'static str, input: Value, content: impl Into<Value>, result: Value) -> Self {
        Self { id: String::new(), name, input, content: content.into(), result, error: false, line: String::new() }
    }

    pub(super) fn failed(self) -> Self {
        Self { error: true, ..self }
    }
}
