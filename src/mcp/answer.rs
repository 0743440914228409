//! Answers of tools.

use serde::Serialize;
use serde_json::Value;

use super::error::ToolError;

/// The answer of a tool: the same content as text and as data.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolAnswer {
    /// Text, for clients that show text.
    pub text: String,
    /// Data, for clients that show data.
    pub value: Value,
}

impl ToolAnswer {
    pub(super) fn new(text: String, value: &impl Serialize) -> Result<Self, ToolError> {
        let value = serde_json::to_value(value).map_err(|error| ToolError::Unavailable(error.to_string()))?;
        Ok(Self { text, value })
    }
}
