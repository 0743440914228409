//! What a turn says, by who says it: the parts that are searched, each on its own.

use serde_json::Value;

use super::content::{as_typed, records};
use super::record::{Content, Kind, Record};

/// The words of a turn. Ids, times and the model's thinking are not among them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields {
    /// What a human typed; of a sub-agent, what it was told.
    pub prompt: String,
    /// What the model said.
    pub answer: String,
    /// What tools were called with: their names, and every text in their arguments.
    pub input: String,
    /// What tools returned, and what sub-agents said on the way.
    pub output: String,
}

impl Fields {
    /// From the bytes that a turn takes in its transcript; lines that cannot be read are left out. `is_agent` says that the
    /// transcript is a sub-agent's own.
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
            Kind::Prompt => said(&mut self.prompt, content),
            Kind::Added if is_agent => said(&mut self.prompt, content),
            Kind::Added if is_aside => said(&mut self.output, content),
            Kind::Echo => said(&mut self.output, content),
            Kind::Answer => {
                said(if is_aside { &mut self.output } else { &mut self.answer }, content);
                for (name, input) in content.blocks().iter().filter_map(|block| block.tool_call()) {
                    add(&mut self.input, name);
                    if let Ok(input) = serde_json::from_str(input) {
                        texts(&input, &mut self.input);
                    }
                }
            }
            Kind::ToolResults => {
                for block in content.blocks() {
                    match block.tool_result() {
                        Some((Some(result), _)) => said(&mut self.output, &result),
                        Some((None, _)) => {}
                        None => block.text().into_iter().for_each(|text| add(&mut self.prompt, &as_typed(text))),
                    }
                }
            }
            Kind::Added | Kind::CompactSummary | Kind::CompactBoundary | Kind::Bookkeeping => {}
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

/// Every string of a value; names of arguments are the tool's, and say nothing of the call.
fn texts(value: &Value, sink: &mut String) {
    match value {
        Value::String(text) => add(sink, text),
        Value::Array(values) => values.iter().for_each(|value| texts(value, sink)),
        Value::Object(fields) => fields.values().for_each(|value| texts(value, sink)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
