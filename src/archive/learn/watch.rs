/*!
Follows a transcript record by record: learnings in the model's words, and results of its tools.

State that a later record may refer to is kept from one pass to the next, within limits: calls without a result, failed calls that
did not pass since, and the last message. So nothing is read twice.
*/

use std::collections::BTreeMap;

use indexmap::IndexSet;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Fix, Learning, LearningBatch, LearningId, LearningPatterns, extract};
use crate::quote;
use ctxbridge_transcript::{Content, Record, RecordKind, RepeatedRows};

/// Share of its confidence that a learning keeps if a call follows: most of what is said between two calls is the next step, and no
/// person is told.
const CONFIDENCE_BEFORE_CALL: f64 = 0.8;

/// Maximum number of remembered calls without a result, and of remembered failures.
const MAX_PENDING_CALLS: usize = 64;
const MAX_FAILED_CALLS: usize = 32;
/// Maximum number of files of a turn, or between a failure and its fix.
const MAX_CHANGED_FILES: usize = 40;
/// Maximum number of checkpoints; the newest are kept.
const MAX_CHECKPOINTS: usize = 100;

/// Maximum characters of a sentence, of the messages around it, of a call, and of its error.
const SENTENCE_CHARS: usize = 700;
const NEIGHBOR_MESSAGE_CHARS: usize = 200;
const CALL_CHARS: usize = 200;
const ERROR_CHARS: usize = 200;

/// Starts of results of tools stopped by the user: no failure of anything.
const USER_STOP_PREFIXES: [&str; 3] = ["The user doesn't want", "[Request interrupted", "User rejected"];

/// Statistics of the calls of one tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ToolCallStats {
    /// Calls that have a result.
    pub calls: u64,
    /// Of these, failures.
    pub errors: u64,
    /// Total duration, in milliseconds.
    pub total_ms: u64,
    /// Duration of the longest, in milliseconds.
    pub longest_ms: u64,
}

/// Sub-agents of a conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AgentStats {
    /// Number of calls by kind of sub-agent.
    pub asked: BTreeMap<String, u64>,
    /// Number of hand-overs between agents, as `main → Explore`.
    pub transitions: BTreeMap<String, u64>,
}

/// A state to come back to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// Time, in milliseconds since 1970.
    pub at_ms: i64,
    /// The command that made it.
    pub command: String,
}

/// Statistics of a conversation's tools.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ToolStats {
    /// By tool.
    pub tools: BTreeMap<String, ToolCallStats>,
    /// Sub-agents.
    pub agents: AgentStats,
    /// Commits, tags and deployments by command, newest last.
    pub checkpoints: Vec<Checkpoint>,
}

/// A call without a result yet.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct PendingCall {
    id: String,
    tool: String,
    call: String,
    file: Option<String>,
    agent: Option<String>,
    at_ms: i64,
}

/// A call that failed and did not pass since.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct FailedCall {
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
    /// Rows that were said before are not learned from again.
    pub(super) repeated: RepeatedRows,
    tally: ToolStats,
    running: Vec<PendingCall>,
    failures: Vec<FailedCall>,
    /// Start of the last message.
    last: String,
    /// Tools of the open turn, in order of first use, and files changed in it.
    tools: IndexSet<String>,
    changed: Vec<String>,
    /// The sub-agent that is at work.
    at_work: Option<String>,
    /// Index of the first learning of this batch without a message after it.
    #[serde(skip)]
    waiting: usize,
    /// Number of learnings of this batch that a call is known to follow or not to follow.
    #[serde(skip)]
    weighed: usize,
}

/// Origin of a record.
#[derive(Clone, Copy, Debug)]
pub(super) struct RecordOrigin<'a> {
    pub turn: [u8; 16],
    pub agent: Option<&'a str>,
    pub folder: Option<&'a str>,
}

impl Watcher {
    /// Statistics of the tools so far.
    pub fn tally(&self) -> &ToolStats {
        &self.tally
    }

    /// Starts another batch.
    pub(super) fn begin(&mut self) {
        self.waiting = 0;
        self.weighed = 0;
    }

    /// Processes a record. Its time is that of its line.
    pub(super) fn take(
        &mut self,
        patterns: &LearningPatterns,
        record: &Record<'_>,
        whose: RecordOrigin<'_>,
        batch: &mut LearningBatch,
    ) {
        // Older clients write what sub-agents do into the same file.
        if record.is_sidechain() && whose.agent.is_none() {
            return;
        }
        let at_ms = record.timestamp().unwrap_or_default();
        let Some(content) = record.content() else { return };
        match record.kind() {
            RecordKind::Prompt => {
                self.tools.clear();
                self.changed.clear();
                for text in content.texts() {
                    self.said(text, batch);
                }
            }
            RecordKind::Answer => self.answered(patterns, content, (at_ms, whose), batch),
            RecordKind::ToolResults => {
                for block in content.blocks() {
                    if let (Some((result, is_error)), Some(id)) = (block.tool_result(), block.answers()) {
                        let said = result.map(|content| content.texts().collect::<Vec<_>>().join("\n")).unwrap_or_default();
                        self.returned(id, &said, is_error, (at_ms, whose), batch);
                    }
                }
            }
            _ => {}
        }
    }

    fn answered(
        &mut self,
        patterns: &LearningPatterns,
        content: &Content<'_>,
        (at_ms, whose): (i64, RecordOrigin<'_>),
        batch: &mut LearningBatch,
    ) {
        for text in content.texts() {
            let before = self.last.clone();
            self.said(text, batch);
            for found in extract(patterns, text) {
                let sentence = quote::cut(&one_line(&text[found.range]), SENTENCE_CHARS);
                batch.learnings.push(Learning {
                    id: LearningId::of(found.kind, whose.folder, &sentence),
                    kind: found.kind,
                    sentence,
                    confidence: found.confidence,
                    at_ms,
                    turn: whose.turn,
                    before: before.clone(),
                    after: String::new(),
                    agent: whose.agent.map(str::to_owned),
                    tools: self.tools.iter().cloned().collect(),
                });
            }
        }
        for block in content.blocks() {
            if let (Some((tool, input)), Some(id)) = (block.tool_call(), block.call_id()) {
                self.weigh(batch);
                self.called(id, tool, input, at_ms, whose.folder);
            }
        }
    }

    /// Notes a message: it comes after earlier learnings and before later ones.
    fn said(&mut self, text: &str, batch: &mut LearningBatch) {
        let text = quote::cut(&one_line(quote::head(text, 4 * NEIGHBOR_MESSAGE_CHARS)), NEIGHBOR_MESSAGE_CHARS);
        if text.is_empty() {
            return;
        }
        for learning in batch.learnings.iter_mut().skip(self.waiting) {
            learning.after.clone_from(&text);
        }
        self.waiting = batch.learnings.len();
        self.last = text;
    }

    /// Takes confidence from what the last message said, since a call follows it.
    fn weigh(&mut self, batch: &mut LearningBatch) {
        for learning in batch.learnings.iter_mut().skip(self.waiting.max(self.weighed)) {
            learning.confidence *= CONFIDENCE_BEFORE_CALL;
        }
        self.weighed = batch.learnings.len();
    }

    fn called(&mut self, id: &str, tool: &str, input: &str, at_ms: i64, folder: Option<&str>) {
        let input: Value = serde_json::from_str(input).unwrap_or_default();
        let string = |key: &str| input.get(key).and_then(Value::as_str);
        let agent = matches!(tool, "Task" | "Agent").then(|| string("subagent_type").unwrap_or("general-purpose").to_owned());
        if let Some(agent) = &agent {
            *self.tally.agents.asked.entry(agent.clone()).or_default() += 1;
            self.goes_to(Some(agent.clone()));
        }
        if !self.tools.contains(tool) {
            self.tools.insert(tool.to_owned());
        }
        let is_change = matches!(tool, "Edit" | "Write" | "MultiEdit" | "NotebookEdit");
        let file = string("file_path").or_else(|| string("notebook_path")).filter(|_| is_change);
        // As the project calls it.
        let below = |file: &str| Some(file.strip_prefix(folder?)?.strip_prefix(['/', '\\'])?.to_owned());
        let file = file.map(|file| below(file).unwrap_or_else(|| file.to_owned()));
        if self.running.len() >= MAX_PENDING_CALLS {
            self.running.remove(0);
        }
        self.running.push(PendingCall {
            id: id.to_owned(),
            tool: tool.to_owned(),
            call: call_of(tool, &input),
            file,
            agent,
            at_ms,
        });
    }

    fn returned(
        &mut self,
        id: &str,
        said: &str,
        is_error: bool,
        (at_ms, whose): (i64, RecordOrigin<'_>),
        batch: &mut LearningBatch,
    ) {
        let Some(at) = self.running.iter().position(|running| running.id == id) else { return };
        let running = self.running.remove(at);
        if running.agent.is_some() {
            self.goes_to(None);
        }
        if is_error && USER_STOP_PREFIXES.iter().any(|begin| said.starts_with(begin)) {
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
            self.passed(running, at_ms, whose.turn, batch);
        }
    }

    fn failed(&mut self, running: PendingCall, said: &str, at_ms: i64) {
        let error = error_of(said);
        let PendingCall { tool, call, .. } = running;
        match self.failures.iter_mut().find(|failure| failure.tool == tool && failure.call == call) {
            Some(known) => known.error = error,
            None => {
                if self.failures.len() >= MAX_FAILED_CALLS {
                    self.failures.remove(0);
                }
                self.failures.push(FailedCall { tool, call, error, at_ms, changed: Vec::new() });
            }
        }
    }

    fn passed(&mut self, running: PendingCall, at_ms: i64, turn: [u8; 16], batch: &mut LearningBatch) {
        if let Some(file) = &running.file {
            for changed in self.failures.iter_mut().map(|failure| &mut failure.changed).chain([&mut self.changed]) {
                if changed.len() < MAX_CHANGED_FILES && !changed.contains(file) {
                    changed.push(file.clone());
                }
            }
            batch.changed.retain(|(known, _)| *known != turn);
            batch.changed.push((turn, self.changed.clone()));
        }
        if running.tool == "Bash" && is_checkpoint(&running.call) {
            self.tally.checkpoints.push(Checkpoint { at_ms, command: running.call.clone() });
            let more = self.tally.checkpoints.len().saturating_sub(MAX_CHECKPOINTS);
            self.tally.checkpoints.drain(..more);
        }
        let same = |failure: &FailedCall| failure.tool == running.tool && failure.call == running.call;
        if let Some(at) = self.failures.iter().position(same) {
            let FailedCall { tool, call, error, at_ms: failed_ms, changed } = self.failures.remove(at);
            // What passes by itself, nobody mended.
            if !changed.is_empty() {
                batch.fixes.push(Fix { tool, call, error, changed, failed_ms, fixed_ms: at_ms, turn });
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

/// Description of a call, the same whenever the call is repeated.
fn call_of(tool: &str, input: &Value) -> String {
    let string = |key: &str| input.get(key).and_then(Value::as_str);
    let text = match tool {
        "Bash" => string("command").map(same_command),
        _ => string("file_path").or_else(|| string("notebook_path")).or_else(|| string("pattern")).map(str::to_owned),
    };
    quote::cut(&one_line(&text.unwrap_or_else(|| input.to_string())), CALL_CHARS)
}

/// A command without the parts that only limit its output.
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

/// The line of an output that describes the error.
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

    fn follow(lines: &[Value]) -> (Watcher, LearningBatch) {
        let (mut watcher, mut batch) = (Watcher::default(), LearningBatch::default());
        for (number, line) in lines.iter().enumerate() {
            let mut line = line.clone();
            line["timestamp"] = json!(format!("2026-11-20T10:00:{number:02}.000Z"));
            let text = line.to_string();
            let record = Record::parse(text.as_bytes()).expect("a record");
            watcher.take(
                LearningPatterns::standard(),
                &record,
                RecordOrigin { turn: [7; 16], agent: None, folder: Some("/work") },
                &mut batch,
            );
            // What is kept between passes is enough.
            watcher = serde_json::from_str(&serde_json::to_string(&watcher).expect("JSON")).expect("comes back");
            watcher.waiting = batch.learnings.len().min(watcher.waiting);
        }
        (watcher, batch)
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
        let (watcher, batch) = follow(&[
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
        assert_eq!(batch.fixes.len(), 1, "what passes by itself was not mended: {batch:#?}");
        let fix = &batch.fixes[0];
        assert_eq!((fix.tool.as_str(), fix.call.as_str(), fix.error.as_str()), ("Bash", "cargo test", "test parse ... FAILED"));
        assert_eq!((&fix.changed[..], fix.fixed_ms - fix.failed_ms), (&["src/parse.rs".to_owned()][..], 4_000));
        assert_eq!(batch.changed, [([7; 16], vec!["src/parse.rs".to_owned()])]);
        let bash = watcher.tally().tools["Bash"];
        assert_eq!((bash.calls, bash.errors, bash.total_ms, bash.longest_ms), (5, 2, 5_000, 1_000));
        assert_eq!(watcher.tally().checkpoints.len(), 1);
    }

    #[test]
    fn what_a_call_follows_is_less_sure() {
        let (_, batch) = follow(&[
            user("Which codec?"),
            json!({ "type": "assistant", "message": { "content": [{ "type": "text", "text": "I went with swc for now." }] } }),
            call("1", "Bash", json!({ "command": "cargo add zstd" })),
            result("1", "ok", false),
            json!({ "type": "assistant", "message": { "content": [{ "type": "text", "text": "I went with zstd." }] } }),
        ]);
        let confidences: Vec<f64> = batch.learnings.iter().map(|learning| learning.confidence).collect();
        assert_eq!(confidences, [0.9 * CONFIDENCE_BEFORE_CALL, 0.9]);
    }

    #[test]
    fn learnings_have_what_is_around_them() {
        let (watcher, batch) = follow(&[
            user("Which parser do we take?"),
            call("1", "Task", json!({ "subagent_type": "Explore", "prompt": "look" })),
            result("1", "swc is faster. We decided to take none.", false),
            json!({ "type": "assistant", "message": { "content": [
                { "type": "text", "text": "I went with swc because it is maintained.\n\n```\nwe decided to quote\n```" }] } }),
            user("Good. We decided to like it."),
        ]);
        assert_eq!(batch.learnings.len(), 1, "{batch:#?}");
        let learning = &batch.learnings[0];
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
