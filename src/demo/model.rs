//! The model of the demo: a script that knows nothing but what the client sends it.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};

use ctxbridge_stub::{ApiRequest, RequestKind, Responder, ScriptedReply};

/// The first prompt, by which the model reads the log of a migration.
pub const MIGRATE: &str = "The migration of the orders table failed. Why? See migration.log.";
/// The answer to it.
pub const MIGRATION_ANSWER: &str = "On a unique index. I would look for rows with the same reference.";
/// The last prompt.
pub const QUESTION: &str = "Word for word: with which error did the migration fail?";
/// The error, which is in the log of the migration and nowhere else.
pub const ERROR: &str = "ERROR 23505: index \"orders_ref_key\": B-20417 is in rows 88112 and 91733";

/// The name of the migration's log.
pub const MIGRATION_LOG: &str = "migration.log";

/// A summary as a model writes it: what happened, without the words.
const SUMMARY: &str = "<analysis>A migration, then logs of workers.</analysis>\n<summary>The user had a migration looked at, which \
failed on a unique index, and then the logs of several workers, in which nothing stood out.</summary>";

/// Tools that run a command, of which a client offers one at least.
const SHELLS: [&str; 2] = ["Bash", "PowerShell"];

/// An answer to [`QUESTION`].
#[derive(Clone, Debug)]
pub struct Answer {
    /// The answer.
    pub text: String,
    /// Source of the answer.
    pub source: AnswerSource,
    /// Number of the request that was answered, among those of the conversation, from 1.
    pub request: usize,
}

/// Source of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnswerSource {
    /// The error was in what the client sent.
    Sent,
    /// The model recalled it by this handle, and got this text.
    Recalled {
        /// The handle.
        handle: String,
        /// The text.
        text: String,
    },
    /// The error was nowhere.
    Nowhere,
}

/// The log that the model read, and its answers.
#[derive(Debug, Default)]
pub struct ModelLog {
    /// The log of the migration, as the client sent it first.
    pub original: String,
    /// Its answers to [`QUESTION`].
    pub answers: Vec<Answer>,
}

/// The script.
pub struct Model {
    log: Arc<Mutex<ModelLog>>,
    /// The file to read for each of the other prompts.
    files: std::vec::IntoIter<PathBuf>,
    migration: PathBuf,
    /// Name of the program that recalls.
    program: String,
    /// The handle that is being recalled.
    recalling: Option<String>,
}

impl Model {
    /// A model that reads the log of the migration first, then one of the files for each prompt.
    pub fn new(log: Arc<Mutex<ModelLog>>, migration: PathBuf, files: Vec<PathBuf>, program: String) -> Self {
        Self { log, files: files.into_iter(), migration, program, recalling: None }
    }

    fn answer(&mut self, request: &ApiRequest) -> ScriptedReply {
        let sent = request.body["messages"].to_string();
        let recalled = self.recalling.take().zip(newest_result(request));
        let is_there = |text: &str| text.contains(ERROR);
        let (text, source) = match recalled {
            Some((handle, text)) if is_there(&text) => (ERROR, AnswerSource::Recalled { handle, text }),
            Some(_) => ("What I recalled does not say.", AnswerSource::Nowhere),
            None if sent.contains(json!(ERROR).to_string().trim_matches('"')) => (ERROR, AnswerSource::Sent),
            None => match (handle_of(request), shell(request)) {
                (Some(handle), Some(shell)) => {
                    let command = format!("{} recall {handle}", self.program);
                    self.recalling = Some(handle);
                    let input = json!({ "command": command, "description": "Recall the log" });
                    return ScriptedReply::ToolUse { name: shell.into(), input };
                }
                _ => ("It failed on a unique index. I no longer have the words of the error.", AnswerSource::Nowhere),
            },
        };
        let answer = Answer { text: text.to_owned(), source, request: request.number };
        self.log.lock().unwrap_or_else(PoisonError::into_inner).answers.push(answer);
        ScriptedReply::Text(text.to_owned())
    }
}

impl Responder for Model {
    fn reply(&mut self, request: &ApiRequest) -> ScriptedReply {
        let newest = request.human_prompts().pop().unwrap_or_default();
        if newest.contains(QUESTION) {
            return self.answer(request);
        }
        let is_migration = newest.contains(MIGRATE);
        match newest_result(request) {
            Some(result) if is_migration => {
                self.log.lock().unwrap_or_else(PoisonError::into_inner).original = result;
                ScriptedReply::Text(MIGRATION_ANSWER.into())
            }
            Some(_) => ScriptedReply::Text("Nothing stands out: each job finished.".into()),
            None => match if is_migration { Some(self.migration.clone()) } else { self.files.next() } {
                Some(path) => ScriptedReply::ToolUse { name: "Read".into(), input: json!({ "file_path": path }) },
                None => ScriptedReply::Text("There is nothing left to read.".into()),
            },
        }
    }

    fn side_reply(&mut self, request: &ApiRequest) -> ScriptedReply {
        ScriptedReply::Text(if request.kind == RequestKind::Compaction { SUMMARY.into() } else { "OK.".into() })
    }
}

/// The text of the newest message's tool result, if it has one, without the reminders that the client adds to it.
fn newest_result(request: &ApiRequest) -> Option<String> {
    const REMINDER: &str = "\n<system-reminder>";
    let blocks = request.messages().last()?["content"].as_array()?;
    let result = blocks.iter().find(|block| block["type"] == "tool_result")?;
    let mut text = match &result["content"] {
        Value::String(text) => text.clone(),
        texts => texts.as_array()?.iter().filter_map(|text| text["text"].as_str()).collect::<Vec<_>>().join("\n"),
    };
    text.truncate(text.find(REMINDER).unwrap_or(text.len()));
    Some(text)
}

/// The handle of what was folded behind the first prompt, or that of its turn in what a hook puts back.
fn handle_of(request: &ApiRequest) -> Option<String> {
    const DIGEST: &str = "[earlier context folded: ";
    let blocks = request.text_blocks();
    let (at, line) =
        blocks.iter().enumerate().find_map(|(at, block)| Some((at, block.text.lines().find(|line| line.contains(MIGRATE))?)))?;
    let handle = |text: &str| {
        let handle = &text[text.find("ctx:")?..];
        Some(handle[..handle.find([' ', ')', ']', '\n']).unwrap_or(handle.len())].to_owned())
    };
    handle(line).or_else(|| {
        let digest = blocks[at..].iter().find(|block| block.text.starts_with(DIGEST))?;
        // A line that names the file is better than all of the steps.
        let of_file = digest.text.lines().filter(|line| line.contains(MIGRATION_LOG)).find_map(handle);
        of_file.or_else(|| handle(digest.text))
    })
}

/// The tool by which the client runs commands.
fn shell(request: &ApiRequest) -> Option<&'static str> {
    let tools = request.body["tools"].as_array()?;
    SHELLS.into_iter().find(|shell| tools.iter().any(|tool| tool["name"] == **shell))
}
