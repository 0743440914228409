/*!
Comparison of two conversations, turn by turn.

Turns with the same content are found first. The turns between them are paired by their prompts. So a prompt that was answered again
is one changed turn, and a turn that only one conversation has is shown as such.
*/

use std::fmt::Write as _;

use serde_json::Value;
use similar::{Algorithm, DiffOp, DiffTag, TextDiff, capture_diff_slices};

use super::conversation::{
    Agent, ExportedConversation, ExportedMessage, ExportedTurn, MessageBody, MessagePart, ToolOutcome, texts,
};

/// Lines of context around a change.
const CONTEXT: usize = 3;

/// Maximum product of the line counts of two texts that are compared. Larger ones are shown in sequence.
const MAX_COMPARED_LINE_PAIRS: usize = 100_000_000;

/// The difference of a turn.
#[derive(Clone, Debug, PartialEq)]
pub enum TurnChange<'c> {
    /// Both have the same content.
    Same(&'c ExportedTurn, &'c ExportedTurn),
    /// The same prompt with different content: both turns, and a unified diff.
    Changed(&'c ExportedTurn, &'c ExportedTurn, String),
    /// Only the first conversation has it.
    OnlyA(&'c ExportedTurn),
    /// Only the second conversation has it.
    OnlyB(&'c ExportedTurn),
}

/// Number of turns by their difference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Counts {
    /// Turns in both, and equal.
    pub same: usize,
    /// Turns in both, and not equal.
    pub changed: usize,
    /// Turns in the first one only.
    pub only_a: usize,
    /// Turns in the second one only.
    pub only_b: usize,
}

impl Counts {
    /// Counts these turns.
    pub fn of(changes: &[TurnChange<'_>]) -> Self {
        let mut counts = Self::default();
        for change in changes {
            *match change {
                TurnChange::Same(..) => &mut counts.same,
                TurnChange::Changed(..) => &mut counts.changed,
                TurnChange::OnlyA(_) => &mut counts.only_a,
                TurnChange::OnlyB(_) => &mut counts.only_b,
            } += 1;
        }
        counts
    }

    /// `true` if nothing differs.
    pub fn is_equal(&self) -> bool {
        self.changed + self.only_a + self.only_b == 0
    }
}

/// Compares two conversations. Messages before the first turn, and sub-agents without a call, are not compared.
pub fn diff<'c>(a: &'c ExportedConversation, b: &'c ExportedConversation) -> Vec<TurnChange<'c>> {
    let (a, b): (Vec<ComparedTurn<'c>>, Vec<ComparedTurn<'c>>) = (told(a), told(b));
    let said = |turns: &[ComparedTurn<'_>]| turns.iter().map(|turn| turn.text.clone()).collect::<Vec<_>>();
    let mut changes = Vec::new();
    for op in capture_diff_slices(Algorithm::Myers, &said(&a), &said(&b)) {
        let (of_a, of_b) = (&a[op.old_range()], &b[op.new_range()]);
        if op.tag() == DiffTag::Equal {
            changes.extend(of_a.iter().zip(of_b).map(|(a, b)| TurnChange::Same(a.turn, b.turn)));
        } else {
            between(of_a, of_b, &mut changes);
        }
    }
    changes
}

struct ComparedTurn<'c> {
    turn: &'c ExportedTurn,
    prompt: String,
    text: String,
}

fn told(conversation: &ExportedConversation) -> Vec<ComparedTurn<'_>> {
    conversation.turns.iter().map(|turn| ComparedTurn { turn, prompt: prompt(turn), text: text(turn) }).collect()
}

/// Pairs turns between two equal ones: those with the same prompt are one changed turn.
fn between<'c>(a: &[ComparedTurn<'c>], b: &[ComparedTurn<'c>], changes: &mut Vec<TurnChange<'c>>) {
    let asked = |turns: &[ComparedTurn<'_>]| turns.iter().map(|turn| turn.prompt.clone()).collect::<Vec<_>>();
    for op in capture_diff_slices(Algorithm::Myers, &asked(a), &asked(b)) {
        let (of_a, of_b) = (&a[op.old_range()], &b[op.new_range()]);
        match op {
            DiffOp::Equal { .. } => {
                changes
                    .extend(of_a.iter().zip(of_b).map(|(a, b)| TurnChange::Changed(a.turn, b.turn, unified(&a.text, &b.text))));
            }
            _ => {
                changes.extend(of_a.iter().map(|turn| TurnChange::OnlyA(turn.turn)));
                changes.extend(of_b.iter().map(|turn| TurnChange::OnlyB(turn.turn)));
            }
        }
    }
}

fn unified(a: &str, b: &str) -> String {
    let lines = |text: &str| text.lines().count();
    if lines(a).saturating_mul(lines(b)) > MAX_COMPARED_LINE_PAIRS {
        let all = |sign: char, text: &str| text.lines().map(|line| format!("{sign}{line}\n")).collect::<String>();
        return all('-', a) + &all('+', b);
    }
    TextDiff::from_lines(a, b).unified_diff().context_radius(CONTEXT).missing_newline_hint(false).to_string()
}

fn prompt(turn: &ExportedTurn) -> String {
    let prompts = turn.messages.iter().filter_map(|message| match &message.body {
        MessageBody::Prompt(parts) => Some(texts(parts).collect::<Vec<_>>().join("\n")),
        _ => None,
    });
    prompts.take(1).collect()
}

/// The content of a turn, in lines. Times, ids and tokens are not part of it.
pub(super) fn text(turn: &ExportedTurn) -> String {
    let mut text = String::new();
    messages(&mut text, &turn.messages);
    text
}

fn messages(text: &mut String, messages: &[ExportedMessage]) {
    for message in messages {
        match &message.body {
            MessageBody::Prompt(said) => parts(text, "Prompt", said),
            MessageBody::Answer(said) => parts(text, "Answer", said),
            MessageBody::Note(said) => parts(text, "Client", said),
            MessageBody::Thinking(said) => block(text, "Thinking", said),
            MessageBody::Summary(said) => block(text, "Compacted", said),
            MessageBody::Result(outcome) => result(text, outcome),
            MessageBody::Agent(agent) => of_agent(text, agent),
            MessageBody::Call(call) => {
                block(text, &format!("Tool {}", call.tool), "");
                input(text, &call.input);
                call.agents.iter().for_each(|agent| of_agent(text, agent));
                call.outcome.iter().for_each(|outcome| result(text, outcome));
            }
        }
    }
}

/// Writes the input of a call, with its texts line by line, so that a change of one line is a change of one line.
fn input(text: &mut String, input: &Value) {
    let Some(fields) = input.as_object() else {
        let _ = writeln!(text, "  {input}");
        return;
    };
    for (name, value) in fields {
        match value.as_str() {
            Some(said) if said.contains('\n') => {
                let _ = writeln!(text, "  {name}:");
                said.lines().for_each(|line| text.extend(["    ", line, "\n"]));
            }
            Some(said) => text.extend(["  ", name, ": ", said, "\n"]),
            None => {
                let _ = writeln!(text, "  {name}: {value}");
            }
        }
    }
}

fn result(text: &mut String, outcome: &ToolOutcome) {
    parts(text, if outcome.is_error { "Error" } else { "Result" }, &outcome.parts);
}

fn of_agent(text: &mut String, agent: &Agent) {
    block(text, "Sub-agent", "");
    messages(text, &agent.messages);
    block(text, "Sub-agent ends", "");
}

fn parts(text: &mut String, who: &str, parts: &[MessagePart]) {
    let said = parts.iter().map(|part| match part {
        MessagePart::Text(text) => text.clone(),
        MessagePart::Other(stand_in) => stand_in.label(),
    });
    block(text, who, &said.collect::<Vec<_>>().join("\n"));
}

fn block(text: &mut String, who: &str, said: &str) {
    text.extend([who, ":"]);
    if said.contains('\n') {
        text.push('\n');
        said.lines().for_each(|line| text.extend(["  ", line, "\n"]));
    } else if said.is_empty() {
        text.push('\n');
    } else {
        text.extend([" ", said, "\n"]);
    }
}
