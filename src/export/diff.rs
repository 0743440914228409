/*!
Two conversations, turn by turn.

Turns that say the same are found first; what is between them is paired by what was asked. So a prompt that was answered again
is one turn that changed, and a turn that only one of them has is shown as that.
*/

use std::fmt::Write as _;

use serde_json::Value;
use similar::{Algorithm, DiffOp, DiffTag, TextDiff, capture_diff_slices};

use super::conversation::{Agent, Body, Conversation, Message, Outcome, Part, Turn, texts};

/// Lines of context around a change.
const CONTEXT: usize = 3;

/// Lines of both texts, times each other, up to which they are compared; longer ones are shown one behind the other.
const COMPARED: usize = 100_000_000;

/// What became of a turn.
#[derive(Clone, Debug, PartialEq)]
pub enum Change<'c> {
    /// Both say the same.
    Same(&'c Turn, &'c Turn),
    /// The same was asked, and something else came of it: as a unified diff.
    Changed(&'c Turn, &'c Turn, String),
    /// Only the first one has it.
    OnlyA(&'c Turn),
    /// Only the second one has it.
    OnlyB(&'c Turn),
}

/// How many turns are how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Counts {
    /// In both, and equal.
    pub same: usize,
    /// In both, and not equal.
    pub changed: usize,
    /// In the first one only.
    pub only_a: usize,
    /// In the second one only.
    pub only_b: usize,
}

impl Counts {
    /// Of these turns.
    pub fn of(changes: &[Change<'_>]) -> Self {
        let mut counts = Self::default();
        for change in changes {
            *match change {
                Change::Same(..) => &mut counts.same,
                Change::Changed(..) => &mut counts.changed,
                Change::OnlyA(_) => &mut counts.only_a,
                Change::OnlyB(_) => &mut counts.only_b,
            } += 1;
        }
        counts
    }

    /// Whether nothing differs.
    pub fn is_equal(&self) -> bool {
        self.changed + self.only_a + self.only_b == 0
    }
}

/// Compares two conversations. What stands before the first turn, and sub-agents without a call, are not compared.
pub fn diff<'c>(a: &'c Conversation, b: &'c Conversation) -> Vec<Change<'c>> {
    let (a, b): (Vec<Told<'c>>, Vec<Told<'c>>) = (told(a), told(b));
    let said = |turns: &[Told<'_>]| turns.iter().map(|turn| turn.text.clone()).collect::<Vec<_>>();
    let mut changes = Vec::new();
    for op in capture_diff_slices(Algorithm::Myers, &said(&a), &said(&b)) {
        let (of_a, of_b) = (&a[op.old_range()], &b[op.new_range()]);
        if op.tag() == DiffTag::Equal {
            changes.extend(of_a.iter().zip(of_b).map(|(a, b)| Change::Same(a.turn, b.turn)));
        } else {
            between(of_a, of_b, &mut changes);
        }
    }
    changes
}

struct Told<'c> {
    turn: &'c Turn,
    prompt: String,
    text: String,
}

fn told(conversation: &Conversation) -> Vec<Told<'_>> {
    conversation.turns.iter().map(|turn| Told { turn, prompt: prompt(turn), text: text(turn) }).collect()
}

/// Turns of which no two are equal at the same place: those with the same prompt are one that changed.
fn between<'c>(a: &[Told<'c>], b: &[Told<'c>], changes: &mut Vec<Change<'c>>) {
    let asked = |turns: &[Told<'_>]| turns.iter().map(|turn| turn.prompt.clone()).collect::<Vec<_>>();
    for op in capture_diff_slices(Algorithm::Myers, &asked(a), &asked(b)) {
        let (of_a, of_b) = (&a[op.old_range()], &b[op.new_range()]);
        match op {
            DiffOp::Equal { .. } => {
                changes.extend(of_a.iter().zip(of_b).map(|(a, b)| Change::Changed(a.turn, b.turn, unified(&a.text, &b.text))));
            }
            _ => {
                changes.extend(of_a.iter().map(|turn| Change::OnlyA(turn.turn)));
                changes.extend(of_b.iter().map(|turn| Change::OnlyB(turn.turn)));
            }
        }
    }
}

fn unified(a: &str, b: &str) -> String {
    let lines = |text: &str| text.lines().count();
    if lines(a).saturating_mul(lines(b)) > COMPARED {
        let all = |sign: char, text: &str| text.lines().map(|line| format!("{sign}{line}\n")).collect::<String>();
        return all('-', a) + &all('+', b);
    }
    TextDiff::from_lines(a, b).unified_diff().context_radius(CONTEXT).missing_newline_hint(false).to_string()
}

fn prompt(turn: &Turn) -> String {
    let prompts = turn.messages.iter().filter_map(|message| match &message.body {
        Body::Prompt(parts) => Some(texts(parts).collect::<Vec<_>>().join("\n")),
        _ => None,
    });
    prompts.take(1).collect()
}

/// What a turn says, in lines. Times, ids and tokens are not part of it.
pub(super) fn text(turn: &Turn) -> String {
    let mut text = String::new();
    messages(&mut text, &turn.messages);
    text
}

fn messages(text: &mut String, messages: &[Message]) {
    for message in messages {
        match &message.body {
            Body::Prompt(said) => parts(text, "Prompt", said),
            Body::Answer(said) => parts(text, "Answer", said),
            Body::Note(said) => parts(text, "Client", said),
            Body::Thinking(said) => block(text, "Thinking", said),
            Body::Summary(said) => block(text, "Compacted", said),
            Body::Result(outcome) => result(text, outcome),
            Body::Agent(agent) => of_agent(text, agent),
            Body::Call(call) => {
                block(text, &format!("Tool {}", call.tool), "");
                input(text, &call.input);
                call.agents.iter().for_each(|agent| of_agent(text, agent));
                call.outcome.iter().for_each(|outcome| result(text, outcome));
            }
        }
    }
}

/// An input, with the lines of its texts, so that a change in one of them is one.
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

fn result(text: &mut String, outcome: &Outcome) {
    parts(text, if outcome.is_error { "Error" } else { "Result" }, &outcome.parts);
}

fn of_agent(text: &mut String, agent: &Agent) {
    block(text, "Sub-agent", "");
    messages(text, &agent.messages);
    block(text, "Sub-agent ends", "");
}

fn parts(text: &mut String, who: &str, parts: &[Part]) {
    let said = parts.iter().map(|part| match part {
        Part::Text(text) => text.clone(),
        Part::Other(stand_in) => stand_in.label(),
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
