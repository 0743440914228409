//! One line of a bundle: what was done, in JSON.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use ctxbridge_archive::quote::cut;

/// Characters of a prompt, of a command and of what a sub-agent is asked to do.
const PROMPT_CHARS: usize = 400;
const COMMAND_CHARS: usize = 300;
const TASK_CHARS: usize = 200;
/// Characters of a file's name: longer than any that people give.
const FILE_CHARS: usize = 400;

/// Something that was done.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// A file was read.
    Read(String),
    /// A file was written.
    Write(String),
    /// A file was changed.
    Edit(String),
    /// A command was run.
    Command(String),
    /// A sub-agent was asked to do something.
    Task(Task),
    /// The user sent a prompt.
    Prompt(String),
    /// An episode of an older bundle, folded into one line.
    Episode(Box<Folded>),
}

/// What a sub-agent is asked to do.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Task {
    /// What.
    pub what: String,
    /// Which kind of agent.
    pub agent: Option<String>,
}

/// What is left of an episode.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Folded {
    /// The session.
    pub session: String,
    /// What the user sent; empty for what was done before any prompt.
    pub prompt: String,
    /// Files that were written or changed.
    pub changed: Vec<String>,
    /// Files that were only read.
    pub read: Vec<String>,
    /// Commands.
    pub commands: Vec<String>,
    /// What sub-agents were asked to do.
    pub tasks: Vec<Task>,
}

/// When something was done, and what.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Line {
    /// To the second; none in lines of other tools.
    pub at: Option<Timestamp>,
    /// What.
    pub op: Op,
}

impl Op {
    /// With each text on one line and no longer than what is sane.
    pub fn trimmed(self) -> Self {
        let is_file = matches!(self, Self::Read(_) | Self::Write(_) | Self::Edit(_));
        let chars = match self {
            Self::Command(_) => COMMAND_CHARS,
            Self::Prompt(_) => PROMPT_CHARS,
            _ if is_file => FILE_CHARS,
            _ => TASK_CHARS,
        };
        self.map(&mut |text| one_line(text, chars))
    }

    /// With each text changed; what was folded was before.
    pub fn map(self, change: &mut dyn FnMut(&str) -> String) -> Self {
        match self {
            Self::Read(file) => Self::Read(change(&file)),
            Self::Write(file) => Self::Write(change(&file)),
            Self::Edit(file) => Self::Edit(change(&file)),
            Self::Command(command) => Self::Command(change(&command)),
            Self::Task(Task { what, agent }) => {
                Self::Task(Task { what: change(&what), agent: agent.map(|agent| change(&agent)) })
            }
            Self::Prompt(text) => Self::Prompt(change(&text)),
            Self::Episode(_) => self,
        }
    }

    /// Whether it says nothing.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Read(text) | Self::Write(text) | Self::Edit(text) | Self::Command(text) | Self::Prompt(text) => text.is_empty(),
            Self::Task(task) => task.what.is_empty(),
            Self::Episode(_) => false,
        }
    }
}

fn one_line(text: &str, chars: usize) -> String {
    let words: Vec<&str> = text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty()).collect();
    cut(&words.join(" "), chars)
}

impl Line {
    /// As it is written, with its line break.
    pub fn to_json(&self) -> String {
        let mut line = match &self.op {
            Op::Read(file) => json!({ "op": "read", "file": file }),
            Op::Write(file) => json!({ "op": "write", "file": file }),
            Op::Edit(file) => json!({ "op": "edit", "file": file }),
            Op::Command(command) => json!({ "op": "command", "cmd": command }),
            Op::Task(Task { what, agent: Some(agent) }) => json!({ "op": "task", "desc": what, "agent": agent }),
            Op::Task(Task { what, agent: None }) => json!({ "op": "task", "desc": what }),
            Op::Prompt(text) => json!({ "op": "prompt", "text": text }),
            Op::Episode(folded) => json!({
                "op": "episode", "session": folded.session, "text": folded.prompt, "changed": folded.changed, "read": folded.read,
                "cmds": folded.commands, "tasks": folded.tasks.iter().map(Task::to_value).collect::<Vec<_>>(),
            }),
        };
        if let (Value::Object(line), Some(at)) = (&mut line, self.at) {
            line.insert("ts".to_owned(), at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string().into());
        }
        format!("{line}\n")
    }

    /// Reads a line; nothing where it is none that is known. What else it may have is left alone.
    pub fn parse(text: &str) -> Option<Self> {
        let Ok(Value::Object(line)) = serde_json::from_str(text) else { return None };
        let string = |key: &str| line.get(key).and_then(Value::as_str).map(str::to_owned);
        let op = match line.get("op")?.as_str()? {
            "read" => Op::Read(string("file")?),
            "write" => Op::Write(string("file")?),
            "edit" => Op::Edit(string("file")?),
            "command" => Op::Command(string("cmd")?),
            "task" => Op::Task(Task { what: string("desc")?, agent: string("agent") }),
            "prompt" => Op::Prompt(string("text")?),
            "episode" => Op::Episode(Box::new(folded(&line)?)),
            _ => return None,
        };
        // What is older than all computers' clocks is no time, and months are named by four digits.
        let at = string("ts").and_then(|ts| ts.parse().ok()).filter(|at| *at >= Timestamp::UNIX_EPOCH);
        Some(Self { at, op })
    }
}

impl Task {
    /// Text alone where there is no more.
    fn to_value(&self) -> Value {
        match &self.agent {
            Some(agent) => json!({ "desc": self.what, "agent": agent }),
            None => self.what.clone().into(),
        }
    }

    fn of_value(value: &Value) -> Option<Self> {
        let what = value.as_str().or_else(|| value.get("desc")?.as_str())?.to_owned();
        Some(Self { what, agent: value.get("agent").and_then(Value::as_str).map(str::to_owned) })
    }
}

fn folded(line: &Map<String, Value>) -> Option<Folded> {
    let values = |key: &str| line.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let list = |key: &str| values(key).iter().filter_map(|value| value.as_str().map(str::to_owned)).collect();
    let string = |key: &str| line.get(key).and_then(Value::as_str).map(str::to_owned);
    Some(Folded {
        session: string("session")?,
        prompt: string("text").unwrap_or_default(),
        changed: list("changed"),
        read: list("read"),
        commands: list("cmds"),
        tasks: values("tasks").iter().filter_map(Task::of_value).collect(),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ops() -> impl Strategy<Value = Op> {
        let text = "\\PC{0,500}|[a-z\n\t\"\\\\é😀]{0,500}";
        let list = || proptest::collection::vec(text, 0..3);
        let task = || (text, proptest::option::of(text)).prop_map(|(what, agent)| Task { what, agent });
        prop_oneof![
            text.prop_map(Op::Read),
            text.prop_map(Op::Write),
            text.prop_map(Op::Edit),
            text.prop_map(Op::Command),
            task().prop_map(Op::Task),
            text.prop_map(Op::Prompt),
            (text, text, list(), list(), list(), proptest::collection::vec(task(), 0..3)).prop_map(
                |(session, prompt, changed, read, commands, tasks)| {
                    Op::Episode(Box::new(Folded { session, prompt, changed, read, commands, tasks }))
                }
            ),
        ]
    }

    #[test]
    fn lines_are_as_the_format_has_them() {
        let at = "2026-11-20T18:05:09Z".parse().ok();
        let line = |op| Line { at, op }.to_json();
        assert_eq!(
            line(Op::Read("src/a.rs".into())),
            "{\"op\":\"read\",\"file\":\"src/a.rs\",\"ts\":\"2026-11-20T18:05:09Z\"}\n"
        );
        assert_eq!(
            line(Op::Command("cargo test".into())),
            "{\"op\":\"command\",\"cmd\":\"cargo test\",\"ts\":\"2026-11-20T18:05:09Z\"}\n"
        );
        let task = Op::Task(Task { what: "look".into(), agent: Some("Explore".into()) });
        assert_eq!(line(task), "{\"op\":\"task\",\"desc\":\"look\",\"agent\":\"Explore\",\"ts\":\"2026-11-20T18:05:09Z\"}\n");
        assert_eq!(Line { at: None, op: Op::Prompt("go".into()) }.to_json(), "{\"op\":\"prompt\",\"text\":\"go\"}\n");
    }

    #[test]
    fn what_is_unknown_is_none() {
        for text in ["", "{", "[]", "{}", "<<<<<<< HEAD", r#"{"op":"dance"}"#, r#"{"op":"read"}"#, r#"{"op":"read","file":1}"#] {
            assert_eq!(Line::parse(text), None, "{text}");
        }
        let line = Some(Line { at: None, op: Op::Read("a".into()) });
        for ts in ["7", "\"-000044-03-15T12:00:00Z\"", "\"yesterday\""] {
            assert_eq!(Line::parse(&format!(r#"{{"op":"read","file":"a","by":"other","ts":{ts}}}"#)), line, "{ts}");
        }
    }

    proptest! {
        #[test]
        fn comes_back(op in ops(), at in proptest::option::of(0_i64..4_000_000_000)) {
            let line = Line { at: at.and_then(|at| Timestamp::from_second(at).ok()), op };
            let text = line.to_json();
            prop_assert_eq!(text.matches('\n').count(), 1);
            prop_assert_eq!(Line::parse(&text), Some(line));
        }

        #[test]
        fn trimmed_is_short_whole_and_stays(op in ops()) {
            let trimmed = op.trimmed();
            let written = Line { at: None, op: trimmed.clone() }.to_json().chars().count();
            prop_assert!(matches!(trimmed, Op::Episode(_)) || written < 5_000, "{written}");
            prop_assert_eq!(trimmed.clone().trimmed(), trimmed);
        }

        #[test]
        fn any_text_is_read_without_panic(text in "\\PC{0,80}") {
            Line::parse(&text);
        }
    }
}
