//! Sessions of a dataset as the client would have written them.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;
use ctxbridge::common::digest;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::dataset::{DatasetSession, DatasetTurn};

/// Writes a session's transcript below a folder of projects.
pub fn write(session: &DatasetSession, projects: &Path) -> Result<PathBuf> {
    let folder = projects.join(session.project.replace(|c: char| !c.is_ascii_alphanumeric(), "-"));
    fs::create_dir_all(&folder)?;
    let id = uuid(&format!("session {}", session.id));
    let mut lines = Lines { session: &id, project: &session.project, text: String::new(), parent: None, count: 0 };
    session.turns.iter().for_each(|turn| lines.turn(turn));
    let path = folder.join(&id).with_extension("jsonl");
    fs::write(&path, lines.text)?;
    Ok(path)
}

/// Id of a turn in the archive: that of its first line.
pub fn turn_id(turn: &str) -> [u8; 16] {
    let mut id = [0; 16];
    id.copy_from_slice(&digest::sha256(format!("turn {turn}").as_bytes())[..16]);
    id
}

fn uuid(name: &str) -> String {
    spelled(u128::from_str_radix(&digest::of_bytes(name.as_bytes())[..32], 16).unwrap_or_default())
}

fn spelled(id: u128) -> String {
    let digits = format!("{id:032x}");
    [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]].join("-")
}

struct Lines<'a> {
    session: &'a str,
    project: &'a str,
    text: String,
    parent: Option<String>,
    count: u32,
}

impl Lines<'_> {
    fn turn(&mut self, turn: &DatasetTurn) {
        let mut at = turn.at;
        let first = spelled(u128::from_be_bytes(turn_id(&turn.id)));
        self.line(first, at, "user", json!({ "role": "user", "content": turn.prompt }));
        for (number, step) in turn.steps.iter().enumerate() {
            let call = format!("toolu_{}_{number}", turn.id);
            self.answer(&mut at, "tool_use", json!({ "type": "tool_use", "id": call, "name": step.tool, "input": step.input }));
            let result = json!({ "tool_use_id": call, "type": "tool_result", "content": step.output, "is_error": step.is_error });
            let id = self.next_id(&mut at);
            self.line(id, at, "user", json!({ "role": "user", "content": [result] }));
        }
        if !turn.answer.is_empty() {
            self.answer(&mut at, "end_turn", json!({ "type": "text", "text": turn.answer }));
        }
    }

    fn answer(&mut self, at: &mut Timestamp, stop: &str, block: Value) {
        let id = self.next_id(at);
        let message = json!({
            "id": format!("msg_{}", &id[..8]), "type": "message", "role": "assistant", "model": "claude-sonnet-4-5", "content": [block],
            "stop_reason": stop, "stop_sequence": null, "usage": { "input_tokens": 1_000, "output_tokens": 100 },
        });
        self.line(id, *at, "assistant", message);
    }

    /// The next line is a second later.
    fn next_id(&mut self, at: &mut Timestamp) -> String {
        *at = at.checked_add(SignedDuration::from_secs(1)).unwrap_or(*at);
        self.count += 1;
        uuid(&format!("line {} {}", self.session, self.count))
    }

    fn line(&mut self, id: String, at: Timestamp, kind: &str, message: Value) {
        let line = json!({
            "parentUuid": self.parent, "isSidechain": false, "type": kind, "message": message, "uuid": id, "timestamp": at.to_string(),
            "userType": "external", "cwd": self.project, "sessionId": self.session, "version": "2.1.330", "gitBranch": "main",
        });
        self.text.push_str(&line.to_string());
        self.text.push('\n');
        self.parent = Some(id);
    }
}
