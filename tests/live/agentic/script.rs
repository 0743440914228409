//! A session of an agent: six prompts, each answered after many calls of tools on files that the script makes.
//!
//! All text is seeded and none of it comes twice: the newest clients do not send a file again that has not changed.

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};

use ctxbridge::stub::{ApiRequest, Responder, ScriptedReply, ToolCall};
use ctxbridge_testkit::Rng;
use serde_json::{Value, json};

/// What the human says, so many times.
const PROMPTS: usize = 6;

/// The options that let the client run the tools of the script.
pub const ALLOWED_TOOLS: &str = "Read,Bash,Grep,Glob,Write,Edit";

/// Least and most characters of what a tool brings.
const RESULT_CHARS: (usize, usize) = (4_000, 8_000);
const WRITTEN_CHARS: usize = 3_000;
const EDITED_CHARS: usize = 500;
const PROMPT_CHARS: usize = 1_200;
const ANSWER_CHARS: usize = 1_500;

/// The steps between a prompt and its answer, one request each. A capital works on a file of its own, or on the one before it (`E`).
const STEPS: &str = "R B G R E B W R B P E R B L W R B";

const WORDS: [&str; 24] = [
    "token",
    "window",
    "session",
    "prefix",
    "budget",
    "marker",
    "handle",
    "segment",
    "cursor",
    "archive",
    "journal",
    "turn",
    "summary",
    "digest",
    "record",
    "client",
    "request",
    "answer",
    "boundary",
    "policy",
    "result",
    "release",
    "module",
    "signature",
];

/// The session: what is said to the client, and what it is answered.
pub struct Script {
    /// What the human says, turn by turn.
    pub prompts: Vec<String>,
    steps: VecDeque<Step>,
}

/// The model's answer to one request.
enum Step {
    Calls(Vec<ToolCall>),
    /// Calls for a client that has the tool, and for one that has not.
    Either(ToolCall, ToolCall),
    Answer(String),
}

impl Script {
    /// Makes the files in `project`. The same script comes out each time, but for the folder's name.
    pub fn new(project: &Path) -> Self {
        let mut writer = Writer { project: project.to_owned(), rng: Rng::new(5), files: 0, newest: None };
        let mut steps = VecDeque::new();
        let mut prompts = Vec::new();
        for number in 1..=PROMPTS {
            prompts.push(format!("Task {number}: look into it and tell me what you find.\n{}", writer.text(PROMPT_CHARS)));
            steps.extend(STEPS.split(' ').map(|kind| writer.step(kind)));
            steps.push_back(Step::Answer(format!("Task {number} is done.\n{}", writer.text(ANSWER_CHARS).trim_end())));
        }
        Self { prompts, steps }
    }

    /// Requests of the main conversation that it takes.
    pub fn calls(&self) -> usize {
        self.steps.len()
    }
}

impl Responder for Script {
    fn reply(&mut self, request: &ApiRequest) -> ScriptedReply {
        match self.steps.pop_front() {
            Some(Step::Calls(calls)) => ScriptedReply::ToolUses(calls),
            Some(Step::Either(one, other)) => ScriptedReply::ToolUses(vec![if offers(request, &one.name) { one } else { other }]),
            Some(Step::Answer(text)) => ScriptedReply::Text(text),
            None => ScriptedReply::Text("There is nothing left to do.".into()),
        }
    }
}

fn offers(request: &ApiRequest, tool: &str) -> bool {
    request.body["tools"].as_array().into_iter().flatten().any(|offered| offered["name"] == tool)
}

/// Writes the files and the calls that work on them.
struct Writer {
    project: PathBuf,
    rng: Rng,
    files: usize,
    /// The newest file that was read, which alone may be edited, and what it says.
    newest: Option<(PathBuf, String)>,
}

impl Writer {
    fn step(&mut self, kind: &str) -> Step {
        match kind {
            "R" => Step::Calls(vec![self.read()]),
            "P" => Step::Calls(vec![self.read(), self.read()]),
            "B" => Step::Calls(vec![self.bash()]),
            "W" => Step::Calls(vec![self.write()]),
            "E" => Step::Calls(vec![self.edit()]),
            "G" => self.grep(),
            "L" => self.glob(),
            other => unreachable!("no step {other}"),
        }
    }

    fn read(&mut self) -> ToolCall {
        let (path, text) = self.file();
        let call = call("Read", json!({ "file_path": path }));
        self.newest = Some((path, text));
        call
    }

    fn bash(&mut self) -> ToolCall {
        let (path, text) = self.file();
        let command = format!("sed -n '2,{}p' {}", text.lines().count(), path.display());
        call("Bash", json!({ "command": command, "description": "Print the log" }))
    }

    fn grep(&mut self) -> Step {
        let (path, _) = self.file();
        let found = json!({ "pattern": "token|session|prefix|cursor", "path": path, "output_mode": "content", "-n": true });
        let command = format!("grep -nE 'token|session|prefix|cursor' {}", path.display());
        Step::Either(call("Grep", found), call("Bash", json!({ "command": command, "description": "Search the file" })))
    }

    fn glob(&mut self) -> Step {
        let command = json!({ "command": format!("ls {}/*1.txt", self.project.display()), "description": "List files" });
        Step::Either(call("Glob", json!({ "pattern": "*1.txt", "path": self.project })), call("Bash", command))
    }

    fn write(&mut self) -> ToolCall {
        let path = self.next_path();
        let text = self.text(WRITTEN_CHARS);
        call("Write", json!({ "file_path": path, "content": text }))
    }

    /// Replaces some lines of what was read last.
    fn edit(&mut self) -> ToolCall {
        let (path, text) = self.newest.take().expect("a file was read before");
        let end = text[..EDITED_CHARS].rfind('\n').expect("more than one line");
        let new = self.text(EDITED_CHARS);
        call("Edit", json!({ "file_path": path, "old_string": &text[..end], "new_string": new.trim_end() }))
    }

    fn file(&mut self) -> (PathBuf, String) {
        let path = self.next_path();
        let (least, most) = RESULT_CHARS;
        let chars = least + self.below(most - least);
        let text = self.text(chars);
        fs::write(&path, &text).unwrap();
        (path, text)
    }

    fn next_path(&mut self) -> PathBuf {
        self.files += 1;
        self.project.join(format!("notes-{:03}.txt", self.files))
    }

    /// Whole lines, at least so many characters.
    fn text(&mut self, chars: usize) -> String {
        let mut text = String::new();
        while text.len() < chars {
            text += &format!("{:06}", self.below(1_000_000));
            for _ in 0..8 {
                text += " ";
                text += WORDS[self.below(WORDS.len())];
            }
            text += "\n";
        }
        text
    }

    fn below(&mut self, end: usize) -> usize {
        (self.rng.roll() * end as f64) as usize
    }
}

fn call(name: &str, input: Value) -> ToolCall {
    ToolCall { name: name.into(), input }
}
