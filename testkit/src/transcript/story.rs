//! The course of a session: prompts, work, answers.

use std::fs;
use std::io;
use std::path::Path;

use serde_json::json;

use super::budget::Budget;
use super::session::{Block, CWD, MODEL, World, Writer};
use super::tool_call::ScriptedCall;
use super::{Kind, MadeSession, Spec};
use crate::rng::Rng;

/// Turns between two starts of the client on the same session.
const TURNS_OF_A_PROCESS: u64 = 25;

/// Writes the session of `spec`, or the first one if it is resumed.
pub(super) fn write(spec: &Spec, out: &Path) -> io::Result<MadeSession> {
    let world = World::new(spec.seed);
    let mut rng = Rng::new(spec.seed).fork(spec.kind as u64);
    let id = rng.uuid();
    let (messages, bytes) = if spec.kind == Kind::Resumed {
        (spec.messages - spec.messages / 3, spec.target() / 5 * 2)
    } else {
        (spec.messages, spec.target())
    };
    let path = out.join(format!("{id}.jsonl"));
    // Made anew when it is there already: the writer appends.
    fs::write(&path, "")?;
    let mut writer = Writer::open(&path, &world, rng, Budget::new(bytes, messages))?;
    writer.made.id = id;
    writer.requests = spec.kind != Kind::Chat;
    writer.turns(spec.kind, bytes)?;
    writer.finish()
}

impl Writer<'_> {
    /// Turns until all messages are written.
    pub(super) fn turns(&mut self, kind: Kind, bytes: u64) -> io::Result<()> {
        let compact_each = self.budget.left().div_ceil(3).min(300);
        let mut since = 0;
        let mut prompt = String::new();
        while self.budget.left() > 0 {
            let messages = turn_length(kind, self.budget.left(), &mut self.rng);
            let opening = if self.parent.is_none() { bytes / 20 } else { 0 };
            prompt = self.turn(kind, messages, opening)?;
            since += messages;
            if kind == Kind::Compacted && since >= compact_each && self.budget.left() > 5 {
                since = 0;
                self.compact()?;
            }
            if self.made.human_turns.is_multiple_of(TURNS_OF_A_PROCESS) {
                self.process_ends(&prompt)?;
            }
        }
        self.process_ends(&prompt)
    }

    /// Writes one turn of exactly this many messages, and returns its prompt. With `opening`, it is the first of a session: the
    /// client's introduction follows, in at most `opening` bytes.
    pub(super) fn turn(&mut self, kind: Kind, messages: u64, opening: u64) -> io::Result<String> {
        let chat = kind == Kind::Chat;
        let night = if self.rng.below(1_000) == 0 { 36_000_000 } else { 0 };
        self.wait(8_000 + night, 60_000 + night);
        self.prompt_id = self.rng.uuid();
        self.topic = self.world.words.topic(&mut self.rng);
        let length = self.budget.length(&mut self.rng, if chat { 350 } else { 500 }, 1);
        let prompt = self.world.words.prose(&mut self.rng, &self.topic, length);
        if !chat || self.rng.chance(30) {
            self.queue(&prompt)?;
        }
        if !chat || self.rng.chance(15) {
            self.snapshot()?;
        }
        let turn = self.made.human_turns + 1;
        let position = json!({ "promptIndex": 0, "turnIndex": turn });
        self.user(
            &prompt,
            json!({ "permissionMode": "acceptEdits", "promptSource": "sdk", "turnOrigin": "sdk", "turnPosition": position }),
        )?;
        self.made.human_turns = turn;
        if opening > 0 {
            self.introduce(opening.min(20_000) as usize)?;
        } else if !chat || self.rng.chance(20) {
            self.remind()?;
        }
        self.work(kind, messages.saturating_sub(1))?;
        if !chat || self.rng.chance(30) {
            self.note_duration()?;
        }
        Ok(prompt)
    }

    /// Writes the work for a prompt, in exactly `left` messages.
    pub(super) fn work(&mut self, kind: Kind, mut left: u64) -> io::Result<()> {
        let mut agents = Vec::new();
        // The last answer, and a notice with its answer for each sub-agent, have to fit behind.
        while left - 2 * agents.len() as u64 > 3 || (left == 3 && agents.is_empty() && self.rng.chance(50)) {
            let room = left - 2 * agents.len() as u64 - 1;
            if kind == Kind::Agents && agents.len() < 3 && room > 8 && self.rng.chance(15) {
                let (call, agent) = self.delegate()?;
                self.answer(vec![Block::Tool(Box::new(call))])?;
                agents.push(agent);
                left -= 2;
            } else {
                left -= self.round(room)?;
            }
            if kind != Kind::Chat {
                self.remind()?;
            }
        }
        let own = left - 2 * agents.len() as u64;
        self.conclude(own)?;
        for agent in agents {
            self.notify(&agent)?;
            self.conclude(1)?;
        }
        Ok(())
    }

    /// An answer with tool calls, and their results: at most `room` messages, at least 2. Returns how many.
    fn round(&mut self, room: u64) -> io::Result<u64> {
        let calls = [1, 1, 1, 2, 3][self.rng.below(5)].min(room / 2);
        let mut blocks = Vec::new();
        if room > 2 * calls && self.rng.chance(40) {
            blocks.push(Block::Thinking);
        }
        if room > 2 * calls + blocks.len() as u64 && self.rng.chance(50) {
            blocks.push(Block::Text);
        }
        let messages = blocks.len() as u64 + 2 * calls;
        for _ in 0..calls {
            blocks.push(Block::Tool(Box::new(self.tool())));
        }
        self.answer(blocks)?;
        Ok(messages)
    }

    /// The answer that ends a turn, in 1 to 3 lines; with none left, the prompt stays without one.
    fn conclude(&mut self, lines: u64) -> io::Result<()> {
        match lines {
            0 => Ok(()),
            1 => self.answer(vec![Block::Text]),
            2 => self.answer(vec![Block::Thinking, Block::Text]),
            _ => self.answer(vec![Block::Thinking, Block::Text, Block::Text]),
        }
    }

    /// A sub-agent and its file; the call that starts it, and its name.
    fn delegate(&mut self) -> io::Result<(ScriptedCall, (String, String))> {
        let id = format!("a{}", self.rng.hex(16));
        let what = self.world.words.title(&mut self.rng, &self.topic);
        let length = self.budget.length(&mut self.rng, 400, 2);
        let task = self.world.words.prose(&mut self.rng, &self.topic, length);
        let folder = self.made.path.with_extension("").join("subagents");
        fs::create_dir_all(&folder)?;
        let path = folder.join(format!("agent-{id}.jsonl"));
        fs::write(&path, "")?;
        let messages = self.rng.between(6, 40) as u64;
        let rng = self.rng.fork(messages);
        let mut agent = Writer::open(&path, self.world, rng, Budget::new(messages * 3_000, messages))?;
        agent.made.id = self.made.id.clone();
        agent.agent = Some(id.clone());
        agent.requests = true;
        agent.prompt_id = self.prompt_id.clone();
        agent.topic = self.topic.clone();
        agent.set_clock(&self.now());
        agent.user(&task, json!({}))?;
        agent.introduce(800)?;
        agent.work(Kind::Tools, messages - 1)?;
        let made = agent.finish()?;
        self.made.agents += 1;
        self.made.agent_messages += made.messages;
        self.made.agent_bytes += made.bytes;

        let call = self.rng.id("toolu_01");
        let meta = json!({
            "agentType": "general-purpose", "isBuiltIn": true, "description": what, "toolUseId": call, "spawnDepth": 1, "model": MODEL,
            "finished": true,
        });
        fs::write(path.with_extension("meta.json"), meta.to_string())?;
        let input = json!({ "description": what, "prompt": task, "subagent_type": "general-purpose" });
        let said = json!([{ "type": "text", "text": format!("The agent works in the background. agentId: {id}") }]);
        let result = json!({
            "isAsync": true, "status": "async_launched", "agentId": id, "description": what, "resolvedModel": MODEL, "prompt": task,
            "canReadOutputFile": true, "canContinueAgent": true,
        });
        let call = ScriptedCall { id: call, ..ScriptedCall::new("Agent", input, said, result) };
        Ok((call, (id, what)))
    }

    /// Writes the `user` line that reports to the model that a sub-agent is done.
    fn notify(&mut self, (id, what): &(String, String)) -> io::Result<()> {
        self.wait(1_000, 20_000);
        self.prompt_id = self.rng.uuid();
        let length = self.budget.length(&mut self.rng, 600, 2);
        let result = self.world.words.answer(&mut self.rng, &self.topic, "src/lib.rs", length);
        let said = format!(
            "<task-notification>\n<task-id>{id}</task-id>\n<status>completed</status>\n<summary>Agent \"{what}\" finished</summary>\n<result>{result}</result>\n</task-notification>"
        );
        self.queue(&said)?;
        let origin = json!({ "kind": "task-notification", "producer": "session-task" });
        self.user(&said, json!({ "origin": origin, "promptSource": "system", "turnOrigin": "task_notification", "queueSkipAttachments": true }))?;
        self.made.notifications += 1;
        Ok(())
    }

    /// Writes the client's introduction to the model, in about `bytes`.
    pub(super) fn introduce(&mut self, bytes: usize) -> io::Result<()> {
        let here = json!({ "workingDirectory": CWD, "isGitRepo": true, "platform": "linux", "shell": "bash" });
        self.attachment(&json!({ "type": "environment", "snapshot": here }), "The working directory is a Git repository.")?;
        self.attachment(&json!({ "type": "date", "date": &self.now()[..10] }), "Mind today's date.")?;
        let rules = self.world.words.prose(&mut self.rng, &self.topic, bytes);
        let prompt = json!({ "type": "prompt_snapshot", "systemPrompt": [rules], "contextRendering": "announced" });
        self.chained(json!({ "attachment": prompt, "type": "attachment" }), json!({})).map(drop)
    }

    fn remind(&mut self) -> io::Result<()> {
        let text = format!("<total_tokens>{} tokens left</total_tokens>", 15_000_000 - self.context.min(14_000_000));
        self.attachment(&json!({ "type": "total_tokens_reminder", "text": text }), &text)
    }

    /// Writes the list of the user's files that are backed up before a prompt. It has neither session nor place in the
    /// conversation.
    fn snapshot(&mut self) -> io::Result<()> {
        let id = self.rng.uuid();
        let snapshot = json!({ "messageId": id, "trackedFileBackups": {}, "timestamp": self.now() });
        self.raw(&json!({ "type": "file-history-snapshot", "messageId": id, "snapshot": snapshot, "isSnapshotUpdate": false }))
    }

    fn note_duration(&mut self) -> io::Result<()> {
        let took = self.rng.between(1_500, 300_000);
        let what = json!({
            "type": "system", "subtype": "turn_duration", "durationMs": took, "messageCount": self.made.messages,
            "pendingBackgroundAgentCount": 0, "pendingWorkflowCount": 0,
        });
        self.chained(what, json!({ "isMeta": false })).map(drop)
    }
}

/// Messages for the next turn, never so that a single one is left over.
fn turn_length(kind: Kind, left: u64, rng: &mut Rng) -> u64 {
    let usual = match kind {
        Kind::Chat => match rng.below(100) {
            0..52 => 2,
            52..79 => 3,
            79..94 => 4,
            _ => 5,
        },
        Kind::OneTurn => left,
        Kind::Tools | Kind::Agents | Kind::Resumed | Kind::Compacted => {
            let most = rng.between(3, 60) as u64;
            rng.between(2, most as usize) as u64 + 10
        }
    };
    if left <= usual + 1 { left } else { usual }
}
