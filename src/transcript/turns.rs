/*!
From lines to turns.

A turn starts at a human prompt and holds everything up to the next one. Lines come one at a time, in file order; what is known of
the turn that is still open can be written down and read back, so that a pass over new lines never needs the old ones. What is
kept between passes has a size of its own: the content itself goes into a digest that can be suspended.
*/

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::content;
use super::record::{Block, Compacted, Content, Kind, Record};
use super::work::Work;
use ctxbridge_common::digest::{self, Hasher};

/// Answers whose lines may be mixed with each other's: older clients write those of sub-agents, which run up to ten at once, into the
/// same file.
const AT_ONCE: usize = 16;

/// A turn, or what there is of the one that is still open.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    /// Its place in the transcript, from 0.
    pub index: u32,
    /// Byte offset of its first line.
    pub start: u64,
    /// Byte offset behind its last line.
    pub end: u64,
    /// The id of its first line, a UUID; made of what stands there instead, or of where it begins, when that is none.
    #[serde(with = "digest::hexadecimal")]
    pub id: [u8; 16],
    /// When its first line was written, in milliseconds since 1970; 0 when no line says.
    pub started_ms: i64,
    /// When its last line was written.
    pub ended_ms: i64,
    /// SHA-256 of its content.
    #[serde(with = "digest::hexadecimal")]
    pub content_sha256: digest::Bytes,
    /// Characters of its content.
    pub content_chars: u64,
    /// Tools used, in order of first use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// Files read or written, as the tools were told.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// Sub-agents that worked for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<String>,
    /// Size of the context at its last answer, in tokens.
    pub context_tokens: Option<u64>,
    /// Tokens of its answers; each answer counts once, however many lines it has.
    pub output_tokens: u64,
    /// Whether the model's last word is an answer: nothing was being worked on.
    pub is_answered: bool,
    /// What is still on the list of things to do when it ends.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub open_work: Vec<String>,
    /// Whether its prompt asks to keep it: `#keep`.
    pub is_kept: bool,
}

/// A summary that took the conversation's place.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompactSummary {
    /// What it says.
    pub text: String,
    /// When it was written, in milliseconds since 1970.
    pub at_ms: i64,
    /// Turns before it.
    pub turns: u32,
    /// Byte offset of the line that says where the compaction was, or of its own where none does; nothing where a hook told.
    pub start: Option<u64>,
    /// What else is known of the compaction.
    pub noted: Compacted,
}

/// How large the context was when the model answered for the first time after a compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FirstContext {
    /// Where the compaction was, as [`CompactSummary::start`].
    pub start: u64,
    /// Tokens.
    pub tokens: u64,
}

/// Splits lines into turns.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Splitter {
    open: Option<Open>,
    next_index: u32,
    /// A sub-agent's file is one piece of work: it has prompts, but no human's.
    is_agent: bool,
    work: Work,
    last_ms: i64,
    /// Characters said since the last compaction.
    context_chars: u64,
    /// Size of the context at the last answer since then, in tokens.
    context_tokens: Option<u64>,
    /// Where a compaction was whose summary is still to come, and what was noted of it.
    boundary: Option<(u64, Compacted)>,
    /// Where one was after which the model has not answered yet.
    unanswered: Option<u64>,
    #[serde(skip)]
    finished: Vec<Turn>,
    #[serde(skip)]
    summaries: Vec<CompactSummary>,
    #[serde(skip)]
    first_contexts: Vec<FirstContext>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Open {
    index: u32,
    start: u64,
    end: u64,
    id: [u8; 16],
    started_ms: i64,
    ended_ms: i64,
    content: Hasher,
    chars: u64,
    tools: Vec<String>,
    files: Vec<String>,
    agents: Vec<String>,
    context_tokens: Option<u64>,
    output_tokens: u64,
    /// The answers that `output_tokens` counted last, and what it counted for each.
    last_answers: VecDeque<(String, u64)>,
    is_answered: bool,
    is_kept: bool,
}

impl Splitter {
    /// For the file of a sub-agent: everything is one turn.
    pub fn of_agent() -> Self {
        Self { is_agent: true, ..Self::default() }
    }

    /// For what follows a turn boundary in the middle of a file.
    pub fn starting_at(index: u32) -> Self {
        Self { next_index: index, ..Self::default() }
    }

    /// The next line, which stands at these bytes of the file.
    pub fn feed(&mut self, start: u64, end: u64, record: &Record<'_>) {
        if let Some(now) = record.timestamp() {
            self.last_ms = now;
        }
        let kind = record.kind();
        self.watch_compactions(start, record, kind);
        let starts = match kind {
            Kind::Prompt => !self.is_agent || self.open.is_none(),
            // What a model said before any prompt, e.g. behind a summary at the start of a file, is a turn as well.
            Kind::Answer | Kind::ToolResults => self.open.is_none(),
            Kind::Added => self.is_agent && self.open.is_none(),
            _ => false,
        };
        if starts {
            self.close();
            let (index, id) = (self.next_index, id_of(record.uuid(), start));
            self.open = Some(Open { index, start, id, started_ms: self.last_ms, ..Open::default() });
            self.next_index += 1;
        }
        // Lines before the first turn belong to none.
        let Some(open) = &mut self.open else { return };
        open.end = end;
        open.ended_ms = self.last_ms;
        let before = open.chars;
        open.take(record, kind, self.is_agent, &mut self.work);
        self.context_chars += open.chars - before;
    }

    fn watch_compactions(&mut self, start: u64, record: &Record<'_>, kind: Kind) {
        match (kind, record.content()) {
            (Kind::CompactBoundary, _) => {
                let noted = record.compacted();
                // What the client notes down may be its estimate.
                let tokens_before = self.context_tokens.take().or(noted.tokens_before);
                self.boundary = Some((start, Compacted { tokens_before, ..noted }));
                self.context_chars = 0;
            }
            (Kind::CompactSummary, Some(content)) => {
                let text = content.texts().collect::<Vec<_>>().join("\n");
                let without = || (start, Compacted { tokens_before: self.context_tokens.take(), ..Compacted::default() });
                let (start, noted) = self.boundary.take().unwrap_or_else(without);
                self.unanswered = Some(start);
                let (at_ms, turns) = (self.last_ms, self.next_index);
                self.summaries.push(CompactSummary { text, at_ms, turns, start: Some(start), noted });
            }
            (Kind::Answer, _) if !record.is_sidechain() && !self.is_agent => {
                let Some(tokens) = record.context_tokens() else { return };
                self.context_tokens = Some(tokens);
                self.first_contexts.extend(self.unanswered.take().map(|start| FirstContext { start, tokens }));
            }
            _ => {}
        }
    }

    /// The turns that were completed since the last call.
    pub fn take_finished(&mut self) -> Vec<Turn> {
        std::mem::take(&mut self.finished)
    }

    /// The summaries that were met since the last call.
    pub fn take_summaries(&mut self) -> Vec<CompactSummary> {
        std::mem::take(&mut self.summaries)
    }

    /// First contexts that were met since the last call.
    pub fn take_first_contexts(&mut self) -> Vec<FirstContext> {
        std::mem::take(&mut self.first_contexts)
    }

    /// What there is of the turn that is still open.
    pub fn open_turn(&self) -> Option<Turn> {
        self.open.as_ref().map(|open| open.turn(&self.work))
    }

    /// Turns so far, the open one included.
    pub fn turns(&self) -> u32 {
        self.next_index
    }

    /// Characters said since the last compaction: the size of the context where no usage tells.
    pub fn context_chars(&self) -> u64 {
        self.context_chars
    }

    fn close(&mut self) {
        self.finished.extend(self.open_turn());
        self.open = None;
    }
}

impl Open {
    fn take(&mut self, record: &Record<'_>, kind: Kind, is_agent: bool, work: &mut Work) {
        let (hasher, chars) = (&mut self.content, &mut self.chars);
        content::pieces(record, kind, &mut |piece| {
            hasher.update(piece.as_bytes());
            *chars += piece.chars().count() as u64;
        });
        if let Some(agent) = record.agent_id() {
            add(&mut self.agents, agent);
        }
        if kind == Kind::ToolResults {
            self.is_answered = false;
        }
        if !is_agent {
            let typed = if kind == Kind::Prompt { record.content() } else { record.queued_prompt() };
            self.is_kept |= typed.is_some_and(asks_to_keep);
        }
        let (Kind::Answer, Some(content)) = (kind, record.content()) else { return };
        for (name, input) in content.blocks().iter().filter_map(Block::tool_call) {
            add(&mut self.tools, name);
            let input = super::input::read(input);
            if let Some(file) = input.file() {
                add(&mut self.files, file);
            }
            work.note(name, &input);
        }
        // A sub-agent's words are no answer to the user, and its context is another one.
        if is_agent || !record.is_sidechain() {
            self.is_answered = !content.blocks().iter().any(|block| block.tool_call().is_some());
            self.context_tokens = record.context_tokens().or(self.context_tokens);
        }
        self.count_output(record);
    }

    fn count_output(&mut self, record: &Record<'_>) {
        let tokens = record.output_tokens().unwrap_or(0);
        let Some(id) = record.message_id() else {
            self.output_tokens = self.output_tokens.saturating_add(tokens);
            return;
        };
        let known = self.last_answers.iter().position(|(last, _)| last == id).and_then(|at| self.last_answers.remove(at));
        let counted = known.map_or(0, |(_, counted)| counted);
        // Lines that are written while the answer streams in have a smaller count than the last one.
        self.output_tokens = self.output_tokens.saturating_add(tokens.saturating_sub(counted));
        self.last_answers.push_back((id.to_owned(), counted.max(tokens)));
        if self.last_answers.len() > AT_ONCE {
            self.last_answers.pop_front();
        }
    }

    fn turn(&self, work: &Work) -> Turn {
        Turn {
            index: self.index,
            start: self.start,
            end: self.end,
            id: self.id,
            started_ms: self.started_ms,
            ended_ms: self.ended_ms,
            content_sha256: self.content.clone().finish_bytes(),
            content_chars: self.chars,
            tools: self.tools.clone(),
            files: self.files.clone(),
            agents: self.agents.clone(),
            context_tokens: self.context_tokens,
            output_tokens: self.output_tokens,
            is_answered: self.is_answered,
            open_work: work.open(),
            is_kept: self.is_kept,
        }
    }
}

fn asks_to_keep(prompt: &Content<'_>) -> bool {
    prompt.texts().any(|text| content::asks_to_keep(&content::as_typed(text)))
}

/// The bytes of a UUID, or as many that are made of what stands there.
fn id_of(uuid: Option<&str>, start: u64) -> [u8; 16] {
    let uuid = uuid.map_or_else(|| start.to_string(), str::to_owned);
    let digits: String = uuid.chars().filter(|c| *c != '-').collect();
    match u128::from_str_radix(&digits, 16) {
        Ok(id) if digits.len() == 32 => id.to_be_bytes(),
        _ => {
            let mut id = [0; 16];
            id.copy_from_slice(&digest::sha256(uuid.as_bytes())[..16]);
            id
        }
    }
}

fn add(names: &mut Vec<String>, name: &str) {
    if !names.iter().any(|known| known == name) {
        names.push(name.to_owned());
    }
}
