//! Sample session in a scratch home, with the client's input to each hook.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::bundle::{BUNDLES_FOLDER, PROJECT_DATA_FOLDER};
use crate::hook::{Event, Log};
use ctxbridge_common::paths::create_private_dir;

/// Maximum number of characters shown of an error, which is printed on one line.
const MAX_SHOWN_ERROR_CHARS: usize = 300;

/// Id of the session.
pub(super) const SESSION: &str = "5e551011-0000-4000-8000-000000000001";
/// Ids of a later session, and of a colleague's.
pub(super) const LATER: &str = "5e551011-0000-4000-8000-000000000002";
pub(super) const ELSEWHERE: &str = "5e551011-0000-4000-8000-000000000003";
const AGENT: &str = "a9e17001";
/// Prompt of the session, and of a later one about the same topic, with words that a search can find.
pub(super) const PROMPT: &str = "Empty lines break the parser in src/parser.rs. Please fix that.";
pub(super) const ASKED_LATER: &str = "The parser fails on empty lines again: what did we change in src/parser.rs?";
/// File and command that the session used.
pub(super) const FILE: &str = "src/parser.rs";
pub(super) const COMMAND: &str = "cargo test parser";
const SUMMARY: &str = "The parser was made to accept empty lines; its tests pass.";

/// Scratch home with one session in it.
#[derive(Debug)]
pub(super) struct ScratchHome {
    pub home: PathBuf,
    pub data: PathBuf,
    pub project: PathBuf,
    /// The session's own transcript.
    pub transcript: PathBuf,
    agent_transcript: PathBuf,
    /// The size of the session's own transcript.
    pub transcript_bytes: u64,
    /// The user's settings that the hooks are tried with, as environment variables.
    variables: Vec<(&'static str, String)>,
}

/// Folders and settings that a command is run with.
#[derive(Debug, Clone, Copy)]
pub(super) struct ScratchPaths<'a> {
    pub home: &'a Path,
    pub data: &'a Path,
    pub project: &'a Path,
    pub variables: &'a [(&'static str, String)],
}

impl ScratchHome {
    /// Returns the folders of the session.
    pub fn here(&self) -> ScratchPaths<'_> {
        ScratchPaths { home: &self.home, data: &self.data, project: &self.project, variables: &self.variables }
    }

    /// Creates it in an empty folder.
    pub fn new(root: &Path, variables: Vec<(&'static str, String)>) -> io::Result<Self> {
        let (home, data, project) = (root.join("home"), root.join("data"), root.join("project"));
        let sessions = home.join(".claude/projects/scratch");
        let agents = sessions.join(SESSION).join("subagents");
        // What is noted down in a project is noted down where there is git.
        // With bundles, as if somebody had wanted them there.
        let bundles = project.join(PROJECT_DATA_FOLDER).join(BUNDLES_FOLDER);
        for folder in [&agents, &data, &project.join(".git"), &bundles] {
            create_private_dir(folder)?;
        }
        let cwd = project.to_string_lossy().into_owned();
        let transcript = sessions.join(format!("{SESSION}.jsonl"));
        let text = lines(
            &cwd,
            &[
                ("user", PROMPT.into()),
                ("assistant", called(&project, "Read")),
                ("user", answered("Read", "for line in lines { parse(line)?; }")),
                ("assistant", called(&project, "Edit")),
                ("user", answered("Edit", "The file was updated.")),
                ("assistant", called(&project, "Bash")),
                ("user", answered("Bash", "12 passed")),
                ("assistant", spoken("I changed the loop in src/parser.rs to skip empty lines, and added a test.")),
                ("user", "Good. Do all tests pass?".into()),
                ("assistant", spoken("Yes, all 12 of them.")),
            ],
        );
        fs::write(&transcript, &text)?;
        let agent_transcript = agents.join(format!("agent-{AGENT}.jsonl"));
        fs::write(
            &agent_transcript,
            lines(&cwd, &[("user", "Look for callers of the parser.".into()), ("assistant", spoken("There are two."))]),
        )?;
        Ok(Self { home, data, project, transcript, agent_transcript, transcript_bytes: text.len() as u64, variables })
    }

    /// Builds the client's input for an event. `variant` is the source of a start, or the tool.
    pub fn input(&self, event: Event, variant: Option<&str>) -> Value {
        let own = match event {
            Event::SessionStart => json!({ "source": variant.unwrap_or("startup") }),
            Event::UserPromptSubmit => json!({ "prompt": PROMPT }),
            Event::PreToolUse | Event::PostToolUse => {
                let tool = variant.unwrap_or("Read");
                let mut own = json!({ "tool_name": tool, "tool_input": tool_input(&self.project, tool) });
                if event == Event::PostToolUse {
                    own["tool_response"] = json!({ "type": "text" });
                }
                own
            }
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

    /// Builds the client's input when another session in the folder `cwd` asks about the same topic.
    pub fn input_later(&self, session: &str, cwd: &Path) -> Value {
        let mut input = self.input(Event::UserPromptSubmit, None);
        input["session_id"] = session.into();
        input["cwd"] = json!(cwd);
        // Which is written when the model has answered.
        input["transcript_path"] = json!(self.transcript.with_file_name(format!("{session}.jsonl")));
        input["prompt"] = ASKED_LATER.into();
        input
    }

    /// Returns the newest failure in the hooks' log after the first `read` bytes, and sets `read` to its length.
    pub fn new_failure(&self, read: &mut usize) -> Option<String> {
        let log = fs::read(self.data.join("logs").join(Log::FILE)).ok()?;
        let new = log.get(*read..).unwrap_or(&log);
        let line = String::from_utf8_lossy(new).lines().next_back()?.to_owned();
        *read = log.len();
        let error = serde_json::from_str::<Value>(&line).ok().and_then(|line| Some(line.get("error")?.as_str()?.to_owned()));
        let words = error.unwrap_or(line);
        Some(words.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(MAX_SHOWN_ERROR_CHARS).collect())
    }
}

/// Builds the input of a tool.
fn tool_input(project: &Path, tool: &str) -> Value {
    match tool {
        "Bash" => json!({ "command": COMMAND, "description": "Run the tests" }),
        "Edit" => json!({
            "file_path": project.join(FILE), "old_string": "parse(line)?;", "new_string": "if !line.is_empty() { parse(line)?; }",
        }),
        "Agent" => json!({
            "description": "find callers", "prompt": "Look for callers of the parser.", "subagent_type": "general-purpose",
        }),
        _ => json!({ "file_path": project.join(FILE) }),
    }
}

fn spoken(text: &str) -> Value {
    json!([{ "type": "text", "text": text }])
}

fn called(project: &Path, tool: &str) -> Value {
    json!([{ "type": "tool_use", "id": format!("toolu_{tool}"), "name": tool, "input": tool_input(project, tool) }])
}

fn answered(tool: &str, text: &str) -> Value {
    json!([{ "type": "tool_result", "tool_use_id": format!("toolu_{tool}"), "content": text }])
}

/// Builds a transcript with one line each, chained, in the client's format.
fn lines(cwd: &str, said: &[(&str, Value)]) -> String {
    let uuid = |index: usize| format!("00000000-0000-4000-8000-{index:012}");
    let line = |(index, (kind, content)): (usize, &(&str, Value))| {
        let message = match *kind {
            "user" => json!({ "role": "user", "content": content }),
            _ => json!({
                "id": format!("msg_{index}"), "type": "message", "role": "assistant", "model": "claude-sample",
                "content": content, "stop_reason": if content[0]["type"] == "tool_use" { "tool_use" } else { "end_turn" },
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
