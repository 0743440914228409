/*!
A transcript, followed record by record: learnings in what the model says, and what its tools did.

What a later record may belong to is kept from one pass to the next, and has a limit: calls that have no result yet, calls that failed and did not
pass since, and what was said last.
*/

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Fix, Id, Learning, Lesson, Patterns, extract};
use crate::quote;
use ctxbridge_transcript::{Content, Kind, Record};

/// Calls without a result, and failures, that are remembered.
const MOST_RUNNING: usize = 64;
const MOST_FAILURES: usize = 32;
/// Files of a turn or between a failure and its end.
const MOST_FILES: usize = 40;
/// Checkpoints that are kept, the newest.
const MOST_CHECKPOINTS: usize = 100;

/// Characters of a sentence, of the messages around it, of a call, of what it said.
const SENTENCE_CHARS: usize = 700;
const AROUND_CHARS: usize = 200;
const CALL_CHARS: usize = 200;
const ERROR_CHARS: usize = 200;

/// What the client says where the user stopped a tool: no failure of anything.
const STOPPED: [&str; 3] = ["The user doesn't want", "[Request interrupted", "User rejected"];

/// Calls of one tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ToolTally {
    /// Calls that have a result.
    pub calls: u64,
    /// Of these, failures.
    pub errors: u64,
    /// Milliseconds that they took together.
    pub total_ms: u64,
    /// The longest.
    pub longest_ms: u64,
}

/// Sub-agents of a conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Agents {
    /// How often each kind was asked.
    pub asked: BTreeMap<String, u64>,
    /// From which to which the work went, as `main → Explore`.
    pub transitions: BTreeMap<String, u64>,
}

/// A state that one can come back to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// When, in milliseconds since 1970.
    pub at_ms: i64,
    /// The command that made it.
    pub command: String,
}

/// What the tools of a conversation did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Tally {
    /// By tool.
    pub tools: BTreeMap<String, ToolTally>,
    /// Sub-agents.
    pub agents: Agents,
    /// Commits, tags and deployments by command, the newest last.
    pub checkpoints: Vec<Checkpoint>,
}

/// A call without a result yet.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Running {
    id: String,
    tool: String,
    call: String,
    file: Option<String>,
    agent: Option<String>,
    at_ms: i64,
}

/// A call that failed and did not pass since.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Failure {
    tool: String,
    call: String,
    error: String,
    at_ms: i64,
    changed: Vec<String>,
}

/// Follows a transcript.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Watcher {
    tally: Tally,
    running: Vec<Running>,
    failures: Vec<Failure>,
    /// The begin of the last message.
    last: String,
    /// Of the open turn: tools, and files that were changed.
    tools: Vec<String>,
    changed: Vec<String>,
    /// The sub-agent that is at work.
    at_work: Option<String>,
    /// Learnings of this lesson from here on have no message behind them yet.
    #[serde(skip)]
    waiting: usize,
}

/// Whose record it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Whose<'a> {
    pub turn: [u8; 16],
    pub agent: Option<&'a str>,
    pub folder: Option<&'a str>,
}

impl Watcher {
    /// What the tools did so far.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Begins another lesson.
    pub(super) fn begin(&mut self) {
        self.waiting = 0;
    }

    /// Takes a record. Its time is that of its line.
    pub(super) fn take(&mut self, patterns: &Patterns, record: &Record<'_>, whose: Whose<'_>, lesson: &mut Lesson) {
        // Older clients write what sub-agents do into the same file.
        if record.is_sidechain() && whose.agent.is_none() {
            return;
        }
        let at_ms = record.timestamp().unwrap_or_default();
        let Some(content) = record.content() else { return };
        match record.kind() {
            Kind::Prompt => {
                self.tools.clear();
                self.changed.clear();
                for text in content.texts() {
                    self.said(text, lesson);
                }
            }
            Kind::Answer => self.answered(patterns, content, (at_ms, whose), lesson),
            Kind::ToolResults => {
                for block in content.blocks() {
                    if let (Some((result, is_error)), Some(id)) = (block.tool_result(), block.answers()) {
                        let said = result.map(|content| content.texts().collect::<Vec<_>>().join("\n")).unwrap_or_default();
                        self.returned(id, &said, is_error, (at_ms, whose), lesson);
                    }
                }
            }
            _ => {}
        }
    }

    fn answered(&mut self, patterns: &Patterns, content: &Content<'_>, (at_ms, whose): (i64, Whose<'_>), lesson: &mut Lesson) {
        for text in content.texts() {
            let before = self.last.clone();
            self.said(text, lesson);
            for found in extract(patterns, text) {
                let sentence = quote::cut(&one_line(&text[found.range]), SENTENCE_CHARS);
                lesson.learnings.push(Learning {
                    id: Id::of(found.kind, whose.folder, &sentence),
                    kind: found.kind,
                    sentence,
                    confidence: found.confidence,
                    at_ms,
                    turn: whose.turn,
                    before: before.clone(),
                    after: String::new(),
                    agent: whose.agent.map(str::to_owned),
                    tools: self.tools.clone(),
                });
            }
        }
        for block in content.blocks() {
            if let (Some((tool, input)), Some(id)) = (block.tool_call(), block.call_id()) {
                self.called(id, tool, input, at_ms, whose.folder);
            }
        }
    }

    /// What is said stands behind what was learned before, and before what will be.
    fn said(&mut self, text: &str, lesson: &mut Lesson) {
        let text = quote::cut(&one_line(quote::head(text, 4 * AROUND_CHARS)), AROUND_CHARS);
        if text.is_empty() {
            return;
        }
        for learning in lesson.learnings.iter_mut().skip(self.waiting) {
            learning.after.clone_from(&text);
        }
        self.waiting = lesson.learnings.len();
        self.last = text;
    }

    fn called(&mut self, id: &str, tool: &str, input: &str, at_ms: i64, folder: Option<&str>) {
        let input: Value = serde_json::from_str(input).unwrap_or_default();
        let string = |key: &str| input.get(key).and_then(Value::as_str);
        let agent = matches!(tool, "Task" | "Agent").then(|| string("subagent_type").unwrap_or("general-purpose").to_owned());
        if let Some(agent) = &agent {
            *self.tally.agents.asked.entry(agent.clone()).or_default() += 1;
            self.goes_to(Some(agent.clone()));
        }
        if !self.tools.iter().any(|known| known == tool) {
            self.tools.push(tool.to_owned());
        }
        let is_change = matches!(tool, "Edit" | "Write" | "MultiEdit" | "NotebookEdit");
        let file = string("file_path").or_else(|| string("notebook_path")).filter(|_| is_change);
        // As the project calls it.
        let below = |file: &str| Some(file.strip_prefix(folder?)?.strip_prefix(['/', '\\'])?.to_owned());
        let file = file.map(|file| below(file).unwrap_or_else(|| file.to_owned()));
        if self.running.len() >= MOST_RUNNING {
            self.running.remove(0);
        }
        self.running.push(Running { id: id.to_owned(), tool: tool.to_owned(), call: call_of(tool, &input), file, agent, at_ms });
    }

    fn returned(&mut self, id: &str, said: &str, is_error: bool, (at_ms, whose): (i64, Whose<'_>), lesson: &mut Lesson) {
        let Some(at) = self.running.iter().position(|running| running.id == id) else { return };
        let running = self.running.remove(at);
        if running.agent.is_some() {
            self.goes_to(None);
        }
        if is_error && STOPPED.iter().any(|begin| said.starts_with(begin)) {
            return;
        }
        let took = u64::try_from(at_ms - running.at_ms).unwrap_or_default();
        let tally = self.tally.tools.entry(running.tool.clone()).or_default();
        tally.calls += 1;
        tally.errors += u64::from(is_error);
        tally.total_ms += took;
        tally.longest_ms = tally.longest_ms.max(took);
        if is_error {
            self.failed(running, said, at_ms);
        } else {
            self.passed(running, at_ms, whose.turn, lesson);
        }
    }

    fn failed(&mut self, running: Running, said: &str, at_ms: i64) {
        let error = error_of(said);
        let Running { tool, call, .. } = running;
        match self.failures.iter_mut().find(|failure| failure.tool == tool && failure.call == call) {
            Some(known) => known.error = error,
            None => {
                if self.failures.len() >= MOST_FAILURES {
                    self.failures.remove(0);
                }
                self.failures.push(Failure { tool, call, error, at_ms, changed: Vec::new() });
            }
        }
    }

    fn passed(&mut self, running: Running, at_ms: i64, turn: [u8; 16], lesson: &mut Lesson) {
        if let Some(file) = &running.file {
            for changed in self.failures.iter_mut().map(|failure| &mut failure.changed).chain([&mut self.changed]) {
                if changed.len() < MOST_FILES && !changed.contains(file) {
                    changed.push(file.clone());
                }
            }
            lesson.changed.retain(|(known, _)| *known != turn);
            lesson.changed.push((turn, self.changed.clone()));
        }
        if running.tool == "Bash" && is_checkpoint(&running.call) {
            self.tally.checkpoints.push(Checkpoint { at_ms, command: running.call.clone() });
            let more = self.tally.checkpoints.len().saturating_sub(MOST_CHECKPOINTS);
            self.tally.checkpoints.drain(..more);
        }
        let same = |failure: &Failure| failure.tool == running.tool && failure.call == running.call;
        if let Some(at) = self.failures.iter().position(same) {
            let Failure { tool, call, error, at_ms: failed_ms, changed } = self.failures.remove(at);
            // What passes by itself, nobody mended.
            if !changed.is_empty() {
                lesson.fixes.push(Fix { tool, call, error, changed, failed_ms, fixed_ms: at_ms, turn });
            }
        }
    }

    fn goes_to(&mut self, agent: Option<String>) {
        let name = |agent: &Option<String>| agent.clone().unwrap_or_else(|| "main".to_owned());
        let step = format!("{} → {}", name(&self.at_work), name(&agent));
        if self.at_work != agent {
            *self.tally.agents.transitions.entry(step).or_default() += 1;
        }
        self.at_work = agent;
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What a tool was called with, so that the same call is known again.
fn call_of(tool: &str, input: &Value) -> String {
    let string = |key: &str| input.get(key).and_then(Value::as_str);
    let text = match tool {
        "Bash" => string("command").map(same_command),
        _ => string("file_path").or_else(|| string("notebook_path")).or_else(|| string("pattern")).map(str::to_owned),
    };
    quote::cut(&one_line(&text.unwrap_or_else(|| input.to_string())), CALL_CHARS)
}

/// A command without what only says how much of its output is wanted.
fn same_command(command: &str) -> String {
    const SHORTENS: [&str; 5] = ["tail", "head", "grep", "less", "cat"];
    let mut command = command.trim();
    while let Some((before, last)) = command.rsplit_once('|') {
        let program = last.split_whitespace().next().unwrap_or_default();
        if !SHORTENS.contains(&program) || before.ends_with('|') {
            break;
        }
        command = before.trim_end();
    }
    command.strip_suffix("2>&1").unwrap_or(command).trim_end().to_owned()
}

/// The line of an output that says what is wrong.
fn error_of(said: &str) -> String {
    let lines = || said.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("Exit code"));
    let says = |line: &&str| {
        let line = line.to_lowercase();
        ["error", "fail", "panic", "exception", "not found", "denied"].iter().any(|word| line.contains(word))
    };
    quote::cut(&one_line(lines().find(says).or_else(|| lines().next()).unwrap_or("it failed")), ERROR_CHARS)
}

fn is_checkpoint(command: &str) -> bool {
    let begins = |piece: &str| {
        let piece = piece.trim();
        ["git commit", "git tag ", "git stash push", "git push"].iter().any(|begin| piece.starts_with(begin))
            || piece.contains(" deploy") && !piece.starts_with("git")
    };
    command.split("&&").flat_map(|piece| piece.split(';')).any(begins)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn follow(lines: &[Value]) -> (Watcher, Lesson) {
        let (mut watcher, mut lesson) = (Watcher::default(), Lesson::default());
        for (number, line) in lines.iter().enumerate() {
            let mut line = line.clone();
            line["timestamp"] = json!(format!("2026-11-20T10:00:{number:02}.000Z"));
            let text = line.to_string();
            let record = Record::parse(text.as_bytes()).expect("a record");
            watcher.take(Patterns::standard(), &record, Whose { turn: [7; 16], agent: None, folder: Some("/work") }, &mut lesson);
            // What is kept between passes is enough.
            watcher = serde_json::from_str(&serde_json::to_string(&watcher).expect("JSON")).expect("comes back");
            watcher.waiting = lesson.learnings.len().min(watcher.waiting);
        }
        (watcher, lesson)
    }

    fn user(text: &str) -> Value {
        json!({ "type": "user", "message": { "role": "user", "content": text } })
    }

    fn call(id: &str, tool: &str, input: Value) -> Value {
        json!({ "type": "assistant", "message": { "content": [{ "type": "tool_use", "id": id, "name": tool, "input": input }] } })
    }

    fn result(id: &str, text: &str, is_error: bool) -> Value {
        json!({ "type": "user", "message": { "content": [
            { "type": "tool_result", "tool_use_id": id, "content": text, "is_error": is_error }] } })
    }

    #[test]
    fn a_change_between_a_failure_and_success_is_what_fixed_it() {
        let (watcher, lesson) = follow(&[
            user("Make the tests pass"),
            call("1", "Bash", json!({ "command": "cargo test 2>&1 | tail -5" })),
            result("1", "Exit code 101\nrunning 3 tests\ntest parse ... FAILED\n", true),
            call("2", "Edit", json!({ "file_path": "/work/src/parse.rs" })),
            result("2", "ok", false),
            call("3", "Bash", json!({ "command": "cargo test" })),
            result("3", "ok", false),
            call("4", "Bash", json!({ "command": "cargo fmt && git commit -m 'Parse'" })),
            result("4", "done", false),
            call("5", "Bash", json!({ "command": "flaky" })),
            result("5", "Error: try again", true),
            call("6", "Bash", json!({ "command": "flaky" })),
            result("6", "ok", false),
            call("7", "Bash", json!({ "command": "rm -rf x" })),
            result("7", "The user doesn't want to proceed with this tool use.", true),
        ]);
        assert_eq!(lesson.fixes.len(), 1, "what passes by itself was not mended: {lesson:#?}");
        let fix = &lesson.fixes[0];
        assert_eq!((fix.tool.as_str(), fix.call.as_str(), fix.error.as_str()), ("Bash", "cargo test", "test parse ... FAILED"));
        assert_eq!((&fix.changed[..], fix.fixed_ms - fix.failed_ms), (&["src/parse.rs".to_owned()][..], 4_000));
        assert_eq!(lesson.changed, [([7; 16], vec!["src/parse.rs".to_owned()])]);
        let bash = watcher.tally().tools["Bash"];
        assert_eq!((bash.calls, bash.errors, bash.total_ms, bash.longest_ms), (5, 2, 5_000, 1_000));
        assert_eq!(watcher.tally().checkpoints.len(), 1);
    }

    #[test]
    fn learnings_have_what_is_around_them() {
        let (watcher, lesson) = follow(&[
            user("Which parser do we take?"),
            call("1", "Task", json!({ "subagent_type": "Explore", "prompt": "look" })),
            result("1", "swc is faster. We decided to take none.", false),
            json!({ "type": "assistant", "message": { "content": [
                { "type": "text", "text": "I went with swc because it is maintained.\n\n```\nwe decided to quote\n```" }] } }),
            user("Good. We decided to like it."),
        ]);
        assert_eq!(lesson.learnings.len(), 1, "{lesson:#?}");
        let learning = &lesson.learnings[0];
        assert_eq!(learning.sentence, "I went with swc because it is maintained.");
        assert_eq!(
            (learning.before.as_str(), learning.after.as_str()),
            ("Which parser do we take?", "Good. We decided to like it.")
        );
        assert_eq!(learning.tools, ["Task"]);
        let agents = &watcher.tally().agents;
        assert_eq!(agents.asked["Explore"], 1);
        assert_eq!(agents.transitions.keys().collect::<Vec<_>>(), ["Explore → main", "main → Explore"]);
    }

    #[test]
    fn what_failed_is_the_line_that_says_so() {
        assert_eq!(error_of("Exit code 1\n\nwarning: x\nerror[E0308]: mismatched types\n"), "error[E0308]: mismatched types");
        assert_eq!(error_of("Exit code 1"), "it failed");
        assert_eq!(same_command("a || b | tail -3 | grep x"), "a || b");
        assert_eq!(same_command("a | sort"), "a | sort");
    }
}
