//! The file of one session or sub-agent: its lines, each chained to the one before.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write as _};
use std::path::Path;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::MadeSession;
use super::budget::Budget;
use super::tool_call::ScriptedCall;
use crate::code::CodeProject;
use crate::rng::Rng;
use crate::words::{Topic, Vocabulary};

pub(super) const CWD: &str = "/home/dev/src/ledger";
pub(super) const MODEL: &str = "claude-sonnet-4-5";
pub(super) const VERSION: &str = "2.1.330";
/// Tokens of the system prompt and the tools.
pub(super) const BASE: u64 = 18_000;
/// 1 June 2026, 9:00.
pub(super) const START: i64 = 1_780_304_400_000;
const DAY: u64 = 86_400_000;

/// Data that the sessions of a seed share.
#[derive(Debug)]
pub(super) struct World {
    pub(super) words: Vocabulary,
    pub(super) project: CodeProject,
}

impl World {
    pub(super) fn new(seed: u64) -> Self {
        Self { words: Vocabulary::new(seed), project: CodeProject::new(seed, CWD) }
    }
}

/// A block of an API answer.
pub(super) enum Block {
    Thinking,
    Text,
    Tool(Box<ScriptedCall>),
}

pub(super) struct Writer<'a> {
    file: BufWriter<File>,
    pub(super) world: &'a World,
    pub(super) rng: Rng,
    pub(super) budget: Budget,
    pub(super) made: MadeSession,
    /// Milliseconds since 1970.
    clock: i64,
    pub(super) parent: Option<String>,
    pub(super) prompt_id: String,
    pub(super) topic: Topic,
    /// The sub-agent whose file this is.
    pub(super) agent: Option<String>,
    /// `true` if each request is recorded, as the client does in print mode.
    pub(super) requests: bool,
    /// Tokens of the conversation so far.
    pub(super) context: u64,
    /// Tokens of it that the API has in its cache.
    pub(super) cached: u64,
    /// Tokens used: input, output, read from the cache, written to it.
    pub(super) tokens: [u64; 4],
}

impl<'a> Writer<'a> {
    /// Appends to the file at `path`, which is made when missing.
    pub(super) fn open(path: &Path, world: &'a World, rng: Rng, budget: Budget) -> io::Result<Self> {
        let mut rng = rng;
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        let topic = world.words.topic(&mut rng);
        let clock = START + (rng.next() % (30 * DAY)) as i64;
        let prompt_id = rng.uuid();
        Ok(Self {
            file: BufWriter::with_capacity(1 << 16, file),
            world,
            rng,
            budget,
            made: MadeSession { path: path.to_owned(), ..MadeSession::default() },
            clock,
            parent: None,
            prompt_id,
            topic,
            agent: None,
            requests: false,
            context: BASE,
            cached: 0,
            tokens: [0; 4],
        })
    }

    pub(super) fn finish(mut self) -> io::Result<MadeSession> {
        self.file.flush()?;
        Ok(self.made)
    }

    /// Lets time pass.
    pub(super) fn wait(&mut self, low: usize, high: usize) {
        self.clock += self.rng.between(low, high) as i64;
    }

    pub(super) fn now(&self) -> String {
        Timestamp::from_millisecond(self.clock)
            .map_or_else(|_| String::new(), |time| time.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string())
    }

    pub(super) fn set_clock(&mut self, time: &str) {
        self.clock = time.parse().map_or(self.clock, |time: Timestamp| time.as_millisecond());
    }

    /// A line as it is.
    pub(super) fn raw(&mut self, line: &Value) -> io::Result<()> {
        let mut bytes = serde_json::to_vec(line)?;
        bytes.push(b'\n');
        self.budget.line(bytes.len());
        self.made.lines += 1;
        self.made.bytes += bytes.len() as u64;
        self.file.write_all(&bytes)
    }

    /// A line with the session's id and no place in the conversation; `after` comes behind the id.
    pub(super) fn aside(&mut self, before: Value, after: Value) -> io::Result<()> {
        let id = json!({ "sessionId": self.made.id });
        self.raw(&joined([before, id, after]))
    }

    /// Writes a line of the conversation: `before` comes before its id and time, `after` behind. Returns the id.
    pub(super) fn chained(&mut self, before: Value, after: Value) -> io::Result<String> {
        let uuid = self.rng.uuid();
        let mut head = json!({ "parentUuid": self.parent, "isSidechain": self.agent.is_some() });
        if before["type"] == "user" {
            head["promptId"] = self.prompt_id.as_str().into();
        }
        if let Some(agent) = &self.agent {
            head["agentId"] = agent.as_str().into();
        }
        let id = json!({ "uuid": uuid, "timestamp": self.now() });
        let tail = json!({
            "userType": "external", "entrypoint": "sdk-cli", "cwd": CWD, "sessionId": self.made.id, "version": VERSION,
            "gitBranch": "main",
        });
        if before["type"] == "user" || before["type"] == "assistant" {
            self.budget.message();
            self.made.messages += 1;
        }
        self.raw(&joined([head, before, id, after, tail]))?;
        self.parent = Some(uuid.clone());
        Ok(uuid)
    }

    /// A `user` line with text.
    pub(super) fn user(&mut self, content: &str, after: Value) -> io::Result<String> {
        self.context += tokens(content.len());
        self.chained(json!({ "type": "user", "message": { "role": "user", "content": content } }), after)
    }

    /// Writes an attachment, which the client adds by itself: as it is in the file, and as it was sent.
    pub(super) fn attachment(&mut self, attachment: &Value, rendered: &str) -> io::Result<()> {
        let sent = format!("<system-reminder>\n{rendered}\n</system-reminder>");
        self.context += tokens(sent.len());
        let after = json!({ "rendered": [{ "content": sent }], "renderedRole": "system" });
        self.chained(json!({ "attachment": attachment, "type": "attachment" }), after).map(drop)
    }

    pub(super) fn queue(&mut self, content: &str) -> io::Result<()> {
        let line = |operation, time: String| json!({ "type": "queue-operation", "operation": operation, "timestamp": time });
        let (enqueue, dequeue) = (line("enqueue", self.now()), line("dequeue", self.now()));
        self.aside(enqueue, json!({ "content": content }))?;
        self.aside(dequeue, json!({}))
    }

    /// One answer of the API: a line for each block, all with the same id and usage, then the results of its tools.
    pub(super) fn answer(&mut self, blocks: Vec<Block>) -> io::Result<()> {
        self.wait(900, 6_000);
        let (message, request) = (self.rng.id("msg_01"), self.rng.id("req_011"));
        let reference = self.rng.uuid();
        if self.requests {
            self.record(&reference)?;
        }
        let calls = blocks.iter().any(|block| matches!(block, Block::Tool(_)));
        let stop = if calls { "tool_use" } else { "end_turn" };
        let mut pending = Vec::new();
        let mut contents = Vec::new();
        for block in blocks {
            contents.push(self.block(block, &mut pending));
        }
        let output = contents.iter().map(|(content, _)| tokens(words_of(content))).sum();
        let usage = self.usage(output);
        let mut calls = pending.iter_mut();
        for (at, (content, timing)) in contents.into_iter().enumerate() {
            let after = json!({ "perTurnEffort": null, "madeBy": "model" });
            let is_call = content["type"] == "tool_use";
            let body = json!({ "message": {
                "id": message, "type": "message", "role": "assistant", "model": MODEL, "content": [content],
                "stop_reason": stop, "stop_sequence": null, "usage": usage, "stop_details": null,
            }});
            let mut origin = json!({
                "apiBlockIndex": at, "requestId": request, "requestRef": reference, "requestedModel": MODEL,
                "promptCacheRequested": "5m",
            });
            if self.agent.is_some() {
                origin["attributionAgent"] = "general-purpose".into();
            }
            let line = self.chained(joined([body, timing, origin, json!({ "type": "assistant" })]), after)?;
            if is_call && let Some(call) = calls.next() {
                call.line = line;
            }
        }
        self.made.answers += 1;
        for call in pending {
            self.result(call)?;
        }
        Ok(())
    }

    /// The content of a block and what the client notes of its time; a call waits for its result.
    fn block(&mut self, block: Block, pending: &mut Vec<ScriptedCall>) -> (Value, Value) {
        match block {
            Block::Thinking => {
                let timing = json!({ "thinkingDurationMs": self.rng.between(300, 9_000), "thinkingDisplay": "updates" });
                (self.thinking(), timing)
            }
            Block::Text => {
                let length = self.budget.length(&mut self.rng, 900, 1);
                let path = self.world.project.file(&mut self.rng, &self.world.words).path;
                let text = self.world.words.answer(&mut self.rng, &self.topic, &path, length);
                (json!({ "type": "text", "text": text }), json!({}))
            }
            Block::Tool(mut call) => {
                let timing = json!({ "toolInputStreamMs": self.rng.between(1, 900) });
                if call.id.is_empty() {
                    call.id = self.rng.id("toolu_01");
                }
                let block = json!({ "type": "tool_use", "id": call.id, "name": call.name, "input": call.input });
                pending.push(*call);
                (block, timing)
            }
        }
    }

    fn thinking(&mut self) -> Value {
        let length = self.budget.length(&mut self.rng, 500, 1);
        let text = self.world.words.prose(&mut self.rng, &self.topic, length);
        // What is signed is encrypted and sent back: its length goes with the thought's.
        let signature = self.rng.base64(200 + length / 3 / 4 * 4);
        json!({ "type": "thinking", "thinking": text, "signature": signature })
    }

    /// The result of a tool call, chained to the call and not to the result before.
    fn result(&mut self, call: ScriptedCall) -> io::Result<()> {
        self.wait(20, 3_000);
        self.made.tool_calls += 1;
        self.context += tokens(call.content.to_string().len());
        let mut block = json!({ "tool_use_id": call.id, "type": "tool_result", "content": call.content });
        if call.name == "Bash" || call.error {
            block["is_error"] = call.error.into();
        }
        let mut after = json!({});
        // Seen in sessions only: sub-agents keep what the model was sent and nothing else.
        if self.agent.is_none() {
            after["toolUseResult"] = call.result;
        }
        after["sourceToolAssistantUUID"] = call.line.as_str().into();
        after["permissionDecision"] = json!({ "decision": "accept", "source": "config", "reasonType": "mode" });
        self.parent = Some(call.line);
        let body = json!({ "type": "user", "message": { "role": "user", "content": [block] } });
        self.chained(body, after).map(drop)
    }
}

/// Tokens of `bytes`, as the client estimates them.
fn tokens(bytes: usize) -> u64 {
    (2 * bytes as u64).div_ceil(7)
}

/// Bytes of a block's content: its text, thinking, or input.
fn words_of(block: &Value) -> usize {
    let text = ["text", "thinking"].iter().find_map(|field| block[field].as_str());
    text.map_or_else(|| block["input"].to_string().len(), str::len)
}

/// The keys of several objects, in order.
pub(super) fn joined<const N: usize>(objects: [Value; N]) -> Value {
    let mut all = Map::new();
    for object in objects {
        if let Value::Object(keys) = object {
            all.extend(keys);
        }
    }
    Value::Object(all)
}
