//! The messages of a turn, as the page shows them: texts, cut to what a screen needs. The page inserts them as text.

use serde::Serialize;

use crate::export::conversation::{Agent, ExportedCall, ExportedMessage, MessageBody, MessagePart, ToolOutcome};
use crate::export::{tool, visible};
use ctxbridge_archive::quote;
use ctxbridge_transcript::as_typed;

/// Limits of what is shown of a turn.
#[derive(Clone, Copy, Debug)]
pub(super) struct TextLimits {
    /// Characters of a prompt or an answer.
    said: usize,
    /// Characters of the input or the result of a tool.
    tool: usize,
    /// Messages.
    messages: usize,
}

impl TextLimits {
    /// Limits of a page with several turns.
    pub const PAGE: Self = Self { said: 8_000, tool: 1_500, messages: 200 };
    /// Limits of a turn that was asked for by itself.
    pub const WHOLE: Self = Self { said: 400_000, tool: 100_000, messages: 20_000 };
}

/// A message.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ShownMessage {
    /// `prompt`, `answer`, `thinking`, `call`, `result`, `note`, `summary` or `agent`.
    pub kind: &'static str,
    /// Time, in milliseconds since 1970; 0 if it is not known.
    pub at_ms: i64,
    /// Its text; of a call, the input.
    pub text: String,
    /// Number of characters that are cut off.
    pub cut_chars: usize,
    /// The tool of a call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// Subject of the call, in one line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    /// The result of a call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// `true` if the result is an error.
    pub is_error: bool,
    /// Work of the sub-agents that a call started: the messages of each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<Vec<ShownMessage>>,
}

impl ShownMessage {
    /// Characters that are shown.
    pub(super) fn chars(&self) -> usize {
        let below = self.agents.iter().flatten().map(Self::chars).sum::<usize>();
        self.text.len() + self.output.as_ref().map_or(0, String::len) + below
    }
}

/// Shows messages. Returns also the number of those that are omitted, and `true` if anything is missing.
pub(super) fn shown(messages: &[ExportedMessage], limits: TextLimits) -> (Vec<ShownMessage>, usize, bool) {
    let mut room = limits.messages;
    let shown = below(messages, limits, &mut room);
    let count = |messages: &[ShownMessage]| messages.iter().map(count_all).sum::<usize>();
    let all = messages.iter().map(count_exported).sum::<usize>();
    let omitted = all.saturating_sub(count(&shown));
    let is_cut = omitted > 0 || shown.iter().any(is_any_cut);
    (shown, omitted, is_cut)
}

fn below(messages: &[ExportedMessage], limits: TextLimits, room: &mut usize) -> Vec<ShownMessage> {
    let mut shown = Vec::new();
    for message in messages {
        if *room == 0 {
            break;
        }
        *room -= 1;
        shown.push(one(message, limits, room));
    }
    shown
}

fn count_all(message: &ShownMessage) -> usize {
    1 + message.agents.iter().flatten().map(count_all).sum::<usize>()
}

fn count_exported(message: &ExportedMessage) -> usize {
    let of_agents = |agents: &[Agent]| agents.iter().flat_map(|agent| &agent.messages).map(count_exported).sum::<usize>();
    1 + match &message.body {
        MessageBody::Call(call) => of_agents(&call.agents),
        MessageBody::Agent(agent) => of_agents(std::slice::from_ref(agent)),
        _ => 0,
    }
}

fn is_any_cut(message: &ShownMessage) -> bool {
    message.cut_chars > 0 || message.agents.iter().flatten().any(is_any_cut)
}

fn one(message: &ExportedMessage, limits: TextLimits, room: &mut usize) -> ShownMessage {
    let said = |kind, text: &str| {
        let (text, cut_chars) = cut(text, limits.said);
        ShownMessage { kind, text, cut_chars, ..ShownMessage::default() }
    };
    let mut shown = match &message.body {
        MessageBody::Prompt(parts) => {
            let text = joined(parts);
            let typed = as_typed(&text);
            said("prompt", if typed.trim().is_empty() { &text } else { &typed })
        }
        MessageBody::Answer(parts) => said("answer", &joined(parts)),
        MessageBody::Note(parts) => said("note", &joined(parts)),
        MessageBody::Thinking(text) => said("thinking", text),
        MessageBody::Summary(text) => said("summary", text),
        MessageBody::Call(called) => call(called, limits, room),
        MessageBody::Result(outcome) => {
            let (output, cut_chars) = result(outcome, limits);
            let output = Some(output);
            ShownMessage { kind: "result", output, cut_chars, is_error: outcome.is_error, ..ShownMessage::default() }
        }
        MessageBody::Agent(agent) => {
            ShownMessage { kind: "agent", agents: vec![below(&agent.messages, limits, room)], ..ShownMessage::default() }
        }
    };
    shown.at_ms = message.at_ms;
    shown
}

fn call(call: &ExportedCall, limits: TextLimits, room: &mut usize) -> ShownMessage {
    let input = serde_json::to_string_pretty(&call.input).unwrap_or_default();
    let (text, input_cut) = cut(&input, limits.tool);
    let output = call.outcome.as_ref().map(|outcome| result(outcome, limits));
    let output_cut = output.as_ref().map_or(0, |(_, cut)| *cut);
    ShownMessage {
        kind: "call",
        text,
        cut_chars: input_cut + output_cut,
        tool: Some(visible::text(&call.tool).into_owned()),
        about: tool::call_summary(call),
        output: output.map(|(output, _)| output),
        is_error: call.outcome.as_ref().is_some_and(|outcome| outcome.is_error),
        agents: call.agents.iter().map(|agent| below(&agent.messages, limits, room)).collect(),
        ..ShownMessage::default()
    }
}

fn result(outcome: &ToolOutcome, limits: TextLimits) -> (String, usize) {
    cut(&joined(&outcome.parts), limits.tool)
}

fn joined(parts: &[MessagePart]) -> String {
    let parts = parts.iter().map(|part| match part {
        MessagePart::Text(text) => text.clone(),
        MessagePart::Other(placeholder) => placeholder.label(),
    });
    parts.collect::<Vec<_>>().join("\n")
}

/// The start of a text with its hidden characters made visible, and the number of characters behind it.
fn cut(text: &str, chars: usize) -> (String, usize) {
    let head = quote::head(text, chars);
    (visible::text(head).into_owned(), text[head.len()..].chars().count())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn said(text: &str) -> ExportedMessage {
        ExportedMessage { at_ms: 7, body: MessageBody::Answer(vec![MessagePart::Text(text.to_owned())]) }
    }

    fn called(agents: Vec<Agent>) -> ExportedMessage {
        let outcome = ToolOutcome { at_ms: 8, is_error: true, parts: vec![MessagePart::Text("no\u{1b}[31m such file".into())] };
        let input = json!({ "file_path": "/work/a.rs" });
        let call = ExportedCall { id: "1".into(), tool: "Read".into(), input, outcome: Some(outcome), agents };
        ExportedMessage { at_ms: 7, body: MessageBody::Call(Box::new(call)) }
    }

    const LIMITS: TextLimits = TextLimits { said: 5, tool: 100, messages: 3 };

    #[test]
    fn long_texts_are_cut_and_calls_have_their_results() {
        let (messages, omitted, is_cut) = shown(&[said("Grüße an alle"), called(Vec::new())], LIMITS); // typos: ignore
        assert_eq!((messages[0].text.as_str(), messages[0].cut_chars, omitted, is_cut), ("Grüße", 8, 0, true));
        let call = &messages[1];
        assert_eq!((call.tool.as_deref(), call.about.as_deref()), (Some("Read"), Some("/work/a.rs")));
        assert_eq!((call.output.as_deref(), call.is_error), (Some("no such file"), true), "without colors of a terminal");
        let (messages, omitted, is_cut) = shown(&[said("Hi"), called(Vec::new())], LIMITS);
        assert_eq!((messages.len(), omitted, is_cut), (2, 0, false));
    }

    #[test]
    fn messages_of_sub_agents_count_as_well() {
        let agent = Agent { id: "a".into(), messages: vec![said("one"), said("two"), said("three")] };
        let (messages, omitted, is_cut) = shown(&[called(vec![agent]), said("Done")], LIMITS);
        assert_eq!((messages.len(), messages[0].agents[0].len(), omitted, is_cut), (1, 2, 2, true));
    }
}
