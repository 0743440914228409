//! One line of a bundle: something that was done, in JSON.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use ctxbridge_archive::quote::cut;

/// Maximum characters of a prompt, of a command and of a sub-agent's task.
const PROMPT_CHARS: usize = 400;
const COMMAND_CHARS: usize = 300;
const TASK_CHARS: usize = 200;
/// Maximum characters of a file's name: longer than any that people give.
const FILE_CHARS: usize = 400;

/// Something that was done.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum BundleAction {
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
    Episode(Box<EpisodeSummary>),
}

/// The task of a sub-agent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Task {
    /// Description of the task.
    pub description: String,
    /// The kind of agent.
    pub agent: Option<String>,
}

/// Summary of an episode.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct EpisodeSummary {
    /// The session.
    pub session: String,
    /// The prompt; empty for work before any prompt.
    pub prompt: String,
    /// Files that were written or changed.
    pub changed: Vec<String>,
    /// Files that were only read.
    pub read: Vec<String>,
    /// Commands.
    pub commands: Vec<String>,
    /// Tasks of sub-agents.
    pub tasks: Vec<Task>,
}

/// Something that was done, and its time.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BundleLine {
    /// The time, to the second; none in lines of other tools.
    pub at: Option<Timestamp>,
    /// The action.
    pub action: BundleAction,
}

impl BundleAction {
    /// Puts each text on one line and cuts it to a sensible length.
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

    /// Changes each text. A folded episode stays, since its texts were changed before.
    pub fn map(self, change: &mut dyn FnMut(&str) -> String) -> Self {
        match self {
            Self::Read(file) => Self::Read(change(&file)),
            Self::Write(file) => Self::Write(change(&file)),
            Self::Edit(file) => Self::Edit(change(&file)),
            Self::Command(command) => Self::Command(change(&command)),
            Self::Task(Task { description: what, agent }) => {
                Self::Task(Task { description: change(&what), agent: agent.map(|agent| change(&agent)) })
            }
            Self::Prompt(text) => Self::Prompt(change(&text)),
            Self::Episode(_) => self,
        }
    }

    /// `true` if its text is empty.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Read(text) | Self::Write(text) | Self::Edit(text) | Self::Command(text) | Self::Prompt(text) => text.is_empty(),
            Self::Task(task) => task.description.is_empty(),
            Self::Episode(_) => false,
        }
    }
}

fn one_line(text: &str, chars: usize) -> String {
    let words: Vec<&str> = text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty()).collect();
    cut(&words.join(" "), chars)
}

impl BundleLine {
    /// Converts it to JSON as it is written, with its line break.
    pub fn to_json(&self) -> String {
        let mut line = match &self.action {
            BundleAction::Read(file) => json!({ "op": "read", "file": file }),
            BundleAction::Write(file) => json!({ "op": "write", "file": file }),
            BundleAction::Edit(file) => json!({ "op": "edit", "file": file }),
            BundleAction::Command(command) => json!({ "op": "command", "cmd": command }),
            BundleAction::Task(Task { description: what, agent: Some(agent) }) => {
                json!({ "op": "task", "desc": what, "agent": agent })
            }
            BundleAction::Task(Task { description: what, agent: None }) => json!({ "op": "task", "desc": what }),
            BundleAction::Prompt(text) => json!({ "op": "prompt", "text": text }),
            BundleAction::Episode(folded) => json!({
                "op": "episode", "session": folded.session, "text": folded.prompt, "changed": folded.changed, "read": folded.read,
                "cmds": folded.commands, "tasks": folded.tasks.iter().map(Task::to_value).collect::<Vec<_>>(),
            }),
        };
        if let (Value::Object(line), Some(at)) = (&mut line, self.at) {
            line.insert("ts".to_owned(), at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string().into());
        }
        format!("{line}\n")
    }

    /// Parses a line; none if its kind is unknown. Unknown fields are ignored.
    pub fn parse(text: &str) -> Option<Self> {
        let Ok(Value::Object(line)) = serde_json::from_str(text) else { return None };
        let string = |key: &str| line.get(key).and_then(Value::as_str).map(str::to_owned);
        let op = match line.get("op")?.as_str()? {
            "read" => BundleAction::Read(string("file")?),
            "write" => BundleAction::Write(string("file")?),
            "edit" => BundleAction::Edit(string("file")?),
            "command" => BundleAction::Command(string("cmd")?),
            "task" => BundleAction::Task(Task { description: string("desc")?, agent: string("agent") }),
            "prompt" => BundleAction::Prompt(string("text")?),
            "episode" => BundleAction::Episode(Box::new(folded(&line)?)),
            _ => return None,
        };
        // What is older than all computers' clocks is no time, and months are named by four digits.
        let at = string("ts").and_then(|ts| ts.parse().ok()).filter(|at| *at >= Timestamp::UNIX_EPOCH);
        Some(Self { at, action: op })
    }
}

impl Task {
    /// Converts it to the description alone if there is no more.
    fn to_value(&self) -> Value {
        match &self.agent {
            Some(agent) => json!({ "desc": self.description, "agent": agent }),
            None => self.description.clone().into(),
        }
    }

    fn of_value(value: &Value) -> Option<Self> {
        let what = value.as_str().or_else(|| value.get("desc")?.as_str())?.to_owned();
        Some(Self { description: what, agent: value.get("agent").and_then(Value::as_str).map(str::to_owned) })
    }
}

fn folded(line: &Map<String, Value>) -> Option<EpisodeSummary> {
    let values = |key: &str| line.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let list = |key: &str| values(key).iter().filter_map(|value| value.as_str().map(str::to_owned)).collect();
    let string = |key: &str| line.get(key).and_then(Value::as_str).map(str::to_owned);
    Some(EpisodeSummary {
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

    fn ops() -> impl Strategy<Value = BundleAction> {
        let text = "\\PC{0,500}|[a-z\n\t\"\\\\é😀]{0,500}";
        let list = || proptest::collection::vec(text, 0..3);
        let task = || (text, proptest::option::of(text)).prop_map(|(what, agent)| Task { description: what, agent });
        prop_oneof![
            text.prop_map(BundleAction::Read),
            text.prop_map(BundleAction::Write),
            text.prop_map(BundleAction::Edit),
            text.prop_map(BundleAction::Command),
            task().prop_map(BundleAction::Task),
            text.prop_map(BundleAction::Prompt),
            (text, text, list(), list(), list(), proptest::collection::vec(task(), 0..3)).prop_map(
                |(session, prompt, changed, read, commands, tasks)| {
                    BundleAction::Episode(Box::new(EpisodeSummary { session, prompt, changed, read, commands, tasks }))
                }
            ),
        ]
    }

    #[test]
    fn lines_are_as_the_format_has_them() {
        let at = "2026-11-20T18:05:09Z".parse().ok();
        let line = |op| BundleLine { at, action: op }.to_json();
        assert_eq!(
            line(BundleAction::Read("src/a.rs".into())),
            "{\"op\":\"read\",\"file\":\"src/a.rs\",\"ts\":\"2026-11-20T18:05:09Z\"}\n"
        );
        assert_eq!(
            line(BundleAction::Command("cargo test".into())),
            "{\"op\":\"command\",\"cmd\":\"cargo test\",\"ts\":\"2026-11-20T18:05:09Z\"}\n"
        );
        let task = BundleAction::Task(Task { description: "look".into(), agent: Some("Explore".into()) });
        assert_eq!(line(task), "{\"op\":\"task\",\"desc\":\"look\",\"agent\":\"Explore\",\"ts\":\"2026-11-20T18:05:09Z\"}\n");
        assert_eq!(
            BundleLine { at: None, action: BundleAction::Prompt("go".into()) }.to_json(),
            "{\"op\":\"prompt\",\"text\":\"go\"}\n"
        );
    }

    #[test]
    fn what_is_unknown_is_none() {
        for text in ["", "{", "[]", "{}", "<<<<<<< HEAD", r#"{"op":"dance"}"#, r#"{"op":"read"}"#, r#"{"op":"read","file":1}"#] {
            assert_eq!(BundleLine::parse(text), None, "{text}");
        }
        let line = Some(BundleLine { at: None, action: BundleAction::Read("a".into()) });
        for ts in ["7", "\"-000044-03-15T12:00:00Z\"", "\"yesterday\""] {
            assert_eq!(BundleLine::parse(&format!(r#"{{"op":"read","file":"a","by":"other","ts":{ts}}}"#)), line, "{ts}");
        }
    }

    proptest! {
        #[test]
        fn comes_back(op in ops(), at in proptest::option::of(0_i64..4_000_000_000)) {
            let line = BundleLine { at: at.and_then(|at| Timestamp::from_second(at).ok()), action: op };
            let text = line.to_json();
            prop_assert_eq!(text.matches('\n').count(), 1);
            prop_assert_eq!(BundleLine::parse(&text), Some(line));
        }

        #[test]
        fn trimmed_is_short_whole_and_stays(op in ops()) {
            let trimmed = op.trimmed();
            let written = BundleLine { at: None, action: trimmed.clone() }.to_json().chars().count();
            prop_assert!(matches!(trimmed, BundleAction::Episode(_)) || written < 5_000, "{written}");
            prop_assert_eq!(trimmed.clone().trimmed(), trimmed);
        }

        #[test]
        fn any_text_is_read_without_panic(text in "\\PC{0,80}") {
            BundleLine::parse(&text);
        }
    }
}
