//! The searchable text of a turn, in separate fields by speaker.

use serde_json::Value;

use super::content::{as_typed, records};
use super::record::{Content, Record, RecordKind};

/// The words of a turn. Ids, times and the model's thinking are not among them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SearchableText {
    /// The human's prompts; of a sub-agent, its instructions.
    pub prompt: String,
    /// The model's answers.
    pub answer: String,
    /// Tool calls: names of tools, and every text in their arguments.
    pub input: String,
    /// Tool results, and messages of sub-agents.
    pub output: String,
}

impl SearchableText {
    /// Reads the bytes of a turn; lines that cannot be read are left out. `is_agent` is `true` for a
    /// sub-agent's own transcript.
    pub fn of(bytes: &[u8], is_agent: bool) -> Self {
        let mut fields = Self::default();
        records(bytes, &mut |record| fields.take(record, is_agent));
        fields
    }

    pub(super) fn take(&mut self, record: &Record<'_>, is_agent: bool) {
        let Some(content) = record.content() else {
            if let Some(prompt) = record.queued_prompt() {
                said(&mut self.prompt, prompt);
            }
            return;
        };
        let is_aside = record.is_sidechain() && !is_agent;
        match record.kind() {
            RecordKind::Prompt => said(&mut self.prompt, content),
            RecordKind::Added if is_agent => said(&mut self.prompt, content),
            RecordKind::Added if is_aside => said(&mut self.output, content),
            RecordKind::Echo => said(&mut self.output, content),
            RecordKind::Answer => {
                said(if is_aside { &mut self.output } else { &mut self.answer }, content);
                for (name, input) in content.blocks().iter().filter_map(|block| block.tool_call()) {
                    add(&mut self.input, name);
                    if let Ok(input) = serde_json::from_str(input) {
                        texts(&input, &mut self.input);
                    }
                }
            }
            RecordKind::ToolResults => {
                for block in content.blocks() {
                    match block.tool_result() {
                        Some((Some(result), _)) => said(&mut self.output, &result),
                        Some((None, _)) => {}
                        None => block.text().into_iter().for_each(|text| add(&mut self.prompt, &as_typed(text))),
                    }
                }
            }
            RecordKind::Added | RecordKind::CompactSummary | RecordKind::CompactBoundary | RecordKind::Bookkeeping => {}
        }
    }
}

fn said(sink: &mut String, content: &Content<'_>) {
    content.texts().for_each(|text| add(sink, &as_typed(text)));
}

fn add(sink: &mut String, text: &str) {
    if !text.is_empty() {
        if !sink.is_empty() {
            sink.push('\n');
        }
        sink.push_str(text);
    }
}

/// Adds every string of a value. Names of arguments are left out: they belong to the tool, and say nothing about the call.
fn texts(value: &Value, sink: &mut String) {
    match value {
        Value::String(text) => add(sink, text),
        Value::Array(values) => values.iter().for_each(|value| texts(value, sink)),
        Value::Object(fields) => fields.values().for_each(|value| texts(value, sink)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
