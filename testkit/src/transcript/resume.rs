//! Sessions that go on: one more turn, or a second session with a copy of the first's history.

use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use serde_json::{Value, json};

use super::budget::Budget;
use super::session::{World, Writer};
use super::{Kind, MadeSession, Spec};
use crate::rng::Rng;

/// Bytes at the end of a file in which the last line of a conversation is searched.
const TAIL: u64 = 1 << 20;

/// Kinds of lines that a copy leaves out: records of the process that wrote them.
const LEFT_OUT: &[&str] = &[
    "queue-operation",
    "api-request",
    "api-request-blob",
    "file-history-snapshot",
    "last-prompt",
    "mode",
    "atis-latch",
    "cost-state",
];

/// The second session: a copy of the first's conversation with the ids of its lines, and then turns of its own.
pub(super) fn write(spec: &Spec, first: &MadeSession, out: &Path) -> io::Result<MadeSession> {
    let world = World::new(spec.seed);
    let mut rng = Rng::new(spec.seed).fork(0x7265_7375);
    let id = rng.uuid();
    let path = out.join(format!("{id}.jsonl"));
    fs::write(&path, "")?;
    let (messages, bytes) = (spec.messages / 3, spec.target() / 5);
    let mut writer = Writer::open(&path, &world, rng, Budget::new(bytes, messages))?;
    writer.made.id = id;
    writer.requests = true;
    writer.aside(json!({ "type": "mode", "mode": "normal" }), json!({}))?;
    for line in BufReader::new(File::open(&first.path)?).lines() {
        let mut line: Value = serde_json::from_str(&line?)?;
        let kind = line["type"].as_str().unwrap_or_default();
        if LEFT_OUT.contains(&kind) {
            continue;
        }
        if kind == "assistant" {
            line["requestSessionId"] = first.id.as_str().into();
            let usage = |key: &str| line["message"]["usage"][key].as_u64().unwrap_or_default();
            writer.cached = usage("input_tokens") + usage("cache_read_input_tokens") + usage("cache_creation_input_tokens");
            writer.context = writer.cached + usage("output_tokens");
        }
        if line.get("sessionId").is_some() {
            line["sessionId"] = writer.made.id.as_str().into();
        }
        writer.raw(&line)?;
        if let (Some(uuid), Some(time)) = (line["uuid"].as_str(), line["timestamp"].as_str()) {
            writer.parent = Some(uuid.to_owned());
            writer.set_clock(time);
        }
    }
    let made = &mut writer.made;
    (made.messages, made.answers, made.tool_calls) = (first.messages, first.answers, first.tool_calls);
    (made.human_turns, made.copied_turns) = (first.human_turns, first.human_turns);
    // The copy is not what the budget is for.
    writer.budget = Budget::new(bytes, messages);
    writer.turns(Kind::Resumed, bytes)?;
    writer.finish()
}

/// Adds a turn to a session's file, as the client would: a prompt and its answer, three messages.
///
/// The counts are of what was added.
///
/// # Errors
/// When the file cannot be read or written, or has no line of a conversation at its end.
pub fn append_turn(path: &Path, seed: u64) -> io::Result<MadeSession> {
    let last = last_line(path)?;
    let world = World::new(seed);
    let mut writer = Writer::open(path, &world, Rng::new(seed), Budget::new(5_400, 3))?;
    writer.made.id = last["sessionId"].as_str().unwrap_or_default().to_owned();
    writer.parent = last["uuid"].as_str().map(str::to_owned);
    writer.set_clock(last["timestamp"].as_str().unwrap_or_default());
    writer.turn(Kind::Chat, 3, 0)?;
    writer.finish()
}

/// The last line with an id of its own.
fn last_line(path: &Path) -> io::Result<Value> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL)))?;
    let mut tail = Vec::new();
    file.read_to_end(&mut tail)?;
    let lines = tail.rsplit(|&byte| byte == b'\n').filter_map(|line| serde_json::from_slice::<Value>(line).ok());
    lines.into_iter().find(|line| line["uuid"].is_string()).ok_or_else(|| {
        let what = format!("{}: no line of a conversation at its end; generate the session first", path.display());
        io::Error::new(io::ErrorKind::InvalidData, what)
    })
}
