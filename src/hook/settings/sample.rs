//! A small session in a scratch home, and what the client would say on stdin at its events.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::hook::{Event, Log};
use crate::paths::create_private_dir;

/// Characters of an error that are told: it stands on one line.
const LONGEST_ERROR: usize = 300;

const SESSION: &str = "5e551011-0000-4000-8000-000000000001";
const AGENT: &str = "a9e17001";
const SUMMARY: &str = "The parser was made to accept empty lines; its tests pass.";

/// A scratch home with one session in it.
#[derive(Debug)]
pub(super) struct Scratch {
    pub home: PathBuf,
    pub data: PathBuf,
    pub project: PathBuf,
    transcript: PathBuf,
    agent_transcript: PathBuf,
    /// The size of the session's own transcript.
    pub transcript_bytes: u64,
}

impl Scratch {
    /// Makes it in a folder that is empty.
    pub fn new(root: &Path) -> io::Result<Self> {
        let (home, data, project) = (root.join("home"), root.join("data"), root.join("project"));
        let sessions = home.join(".claude/projects/scratch");
        let agents = sessions.join(SESSION).join("subagents");
        for folder in [&agents, &data, &project] {
            create_private_dir(folder)?;
        }
        let cwd = project.to_string_lossy().into_owned();
        let transcript = sessions.join(format!("{SESSION}.jsonl"));
        let text = lines(
            &cwd,
            &[
                ("user", "Empty lines break the parser in src/parser.rs. Please fix that."),
                ("assistant", "I changed the loop in src/parser.rs to skip empty lines, and added a test."),
                ("user", "Good. Do all tests pass?"),
                ("assistant", "Yes, all 12 of them."),
            ],
        );
        fs::write(&transcript, &text)?;
        let agent_transcript = agents.join(format!("agent-{AGENT}.jsonl"));
        fs::write(
            &agent_transcript,
            lines(&cwd, &[("user", "Look for callers of the parser."), ("assistant", "There are two.")]),
        )?;
        Ok(Self { home, data, project, transcript, agent_transcript, transcript_bytes: text.len() as u64 })
    }

    /// What the client says at an event.
    pub fn input(&self, event: Event) -> Value {
        let own = match event {
            Event::SessionStart => json!({ "source": "startup" }),
            Event::UserPromptSubmit => json!({ "prompt": "What did we change in the parser?" }),
            Event::PreToolUse => {
                json!({ "tool_name": "Read", "tool_input": { "file_path": self.project.join("src/parser.rs") } })
            }
            Event::PostToolUse => json!({
                "tool_name": "Read", "tool_input": { "file_path": self.project.join("src/parser.rs") },
                "tool_response": { "type": "text" },
            }),
            Event::PreCompact => json!({ "trigger": "manual", "custom_instructions": "" }),
            Event::PostCompact => json!({ "trigger": "manual", "compact_summary": SUMMARY }),
            Event::Stop => json!({ "stop_hook_active": false }),
            Event::SubagentStop => json!({
                "stop_hook_active": false, "agent_id": AGENT, "agent_transcript_path": self.agent_transcript,
            }),
            Event::SessionEnd => json!({ "reason": "other" }),
        };
        let mut input = json!({
            "session_id": SESSION, "transcript_path": self.transcript, "cwd": self.project, "hook_event_name": event.name(),
        });
        if let (Some(input), Value::Object(own)) = (input.as_object_mut(), own) {
            input.extend(own);
        }
        input
    }

    /// The newest failure in the hooks' log behind the first `read` bytes, which become all that is there.
    pub fn new_failure(&self, read: &mut usize) -> Option<String> {
        let log = fs::read(self.data.join("logs").join(Log::FILE)).ok()?;
        let new = log.get(*read..).unwrap_or(&log);
        let line = String::from_utf8_lossy(new).lines().next_back()?.to_owned();
        *read = log.len();
        let error = serde_json::from_str::<Value>(&line).ok().and_then(|line| Some(line.get("error")?.as_str()?.to_owned()));
        let words = error.unwrap_or(line);
        Some(words.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(LONGEST_ERROR).collect())
    }

    /// At the start after a compaction, which is where turns come back.
    pub fn input_after_compaction(&self) -> Value {
        let mut input = self.input(Event::SessionStart);
        input["source"] = "compact".into();
        input
    }
}

/// A transcript: one line each, chained, in the shape of the client's.
fn lines(cwd: &str, said: &[(&str, &str)]) -> String {
    let uuid = |index: usize| format!("00000000-0000-4000-8000-{index:012}");
    let line = |(index, (kind, text)): (usize, &(&str, &str))| {
        let message = match *kind {
            "user" => json!({ "role": "user", "content": text }),
            _ => json!({
                "id": format!("msg_{index}"), "type": "message", "role": "assistant", "model": "claude-sample",
                "content": [{ "type": "text", "text": text }], "stop_reason": "end_turn",
                "usage": {
                    "input_tokens": 10, "output_tokens": 20, "cache_read_input_tokens": 1000, "cache_creation_input_tokens": 0,
                },
            }),
        };
        let line = json!({
            "parentUuid": index.checked_sub(1).map(uuid), "isSidechain": false, "userType": "external", "cwd": cwd,
            "sessionId": SESSION, "version": "2.1.330", "gitBranch": "main", "type": kind, "message": message,
            "uuid": uuid(index), "timestamp": format!("2026-01-01T00:00:{index:02}.000Z"),
        });
        format!("{line}\n")
    };
    said.iter().enumerate().map(line).collect()
}
