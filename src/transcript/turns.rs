/*!
From lines to turns.

A turn starts at a human prompt and contains everything up to the next one. Lines come one at a time, in file order. The state of
the open turn can be serialized, so that a pass over new lines never needs the old ones. This state has a bounded
size: the content itself goes into a digest that can be suspended.
*/

use std::collections::VecDeque;

use indexmap::IndexSet;
use serde::{Deserialize, Serialize};

use super::branches::{History, Move, PathChange, TurnSpan};
use super::content;
use super::lines::read_line;
use super::record::{CompactionDetails, Content, MessageBlock, Record, RecordKind};
use super::repeated::RepeatedRows;
use super::todo_list::TodoList;
use ctxbridge_common::digest::{self, Hasher};

/// Maximum number of answers whose lines may be mixed: older clients write those of sub-agents, of which up to ten run at once,
/// into the same file.
const MAX_INTERLEAVED_ANSWERS: usize = 16;

/// Text in the place of a summary where a plugin answered the compaction with messages.
const NO_SUMMARY: &str = "Compacted without a summary: a plugin chose the messages that stay.";

/// A turn. The open one has only its data so far.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    /// Its index in the transcript, from 0.
    pub index: u32,
    /// Byte offset of its first line.
    pub start: u64,
    /// Byte offset after its last line.
    pub end: u64,
    /// The UUID of its first line. If that is no UUID, the id is a hash of it; if it is missing, a hash of the turn's start.
    #[serde(with = "digest::hexadecimal")]
    pub id: [u8; 16],
    /// Time when its first line was written, in milliseconds since 1970; 0 if no line says.
    pub started_ms: i64,
    /// Time when its last line was written.
    pub ended_ms: i64,
    /// SHA-256 of its content.
    #[serde(with = "digest::hexadecimal")]
    pub content_sha256: digest::Sha256Digest,
    /// Characters of its content.
    pub content_chars: u64,
    /// Tools used, in order of first use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// Files read or written, as named in the tool calls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// Sub-agents that worked for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<String>,
    /// Size of the context at its last answer, in tokens.
    pub context_tokens: Option<u64>,
    /// Tokens of its answers; each answer counts once, even if it has several lines.
    pub output_tokens: u64,
    /// `true` if it ends with an answer of the model, so that no work was in progress.
    pub is_answered: bool,
    /// Open entries of the to-do list at its end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub open_work: Vec<String>,
    /// `true` if its prompt asks to pin it: `#keep`.
    pub is_kept: bool,
}

/// A compaction summary, which replaced the conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompactSummary {
    /// Its text.
    pub text: String,
    /// Time when it was written, in milliseconds since 1970.
    pub at_ms: i64,
    /// Turns before it.
    pub turns: u32,
    /// Byte offset of the line that marks the compaction, or of its own if there is none; `None` if a hook reported it.
    pub start: Option<u64>,
    /// Other details of the compaction.
    pub noted: CompactionDetails,
}

/// Size of the context at the model's first answer after a compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FirstContext {
    /// Position of the compaction, as in [`CompactSummary::start`].
    pub start: u64,
    /// Tokens.
    pub tokens: u64,
}

/// Splits lines into turns.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Splitter {
    open: Option<OpenTurn>,
    next_index: u32,
    /// `true` for a sub-agent's file, which is one turn: it has prompts, but no human's.
    is_agent: bool,
    work: TodoList,
    last_ms: i64,
    /// Characters said since the last compaction.
    context_chars: u64,
    /// Size of the context at the last answer since then, in tokens.
    context_tokens: Option<u64>,
    /// Position and details of a compaction whose summary has not come yet.
    boundary: Option<(u64, CompactionDetails)>,
    /// Position of a compaction after which the model has not answered yet.
    unanswered: Option<u64>,
    /// Turns that were rewound.
    rewound_turns: u32,
    #[serde(skip)]
    finished: Vec<Turn>,
    #[serde(skip)]
    summaries: Vec<CompactSummary>,
    #[serde(skip)]
    first_contexts: Vec<FirstContext>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct OpenTurn {
    index: u32,
    start: u64,
    end: u64,
    id: [u8; 16],
    started_ms: i64,
    ended_ms: i64,
    content: Hasher,
    chars: u64,
    tools: IndexSet<String>,
    files: IndexSet<String>,
    agents: IndexSet<String>,
    context_tokens: Option<u64>,
    output_tokens: u64,
    /// The last answers that `output_tokens` includes, with the tokens counted for each.
    last_answers: VecDeque<(String, u64)>,
    is_answered: bool,
    is_kept: bool,
}

impl Splitter {
    /// Creates a splitter for the file of a sub-agent: everything is one turn.
    pub fn of_agent() -> Self {
        Self { is_agent: true, ..Self::default() }
    }

    /// Creates a splitter that starts at a turn boundary in the middle of a file.
    pub fn starting_at(index: u32) -> Self {
        Self { next_index: index, ..Self::default() }
    }

    /// Reads the next line, which has these bytes of the file.
    pub fn feed(&mut self, start: u64, end: u64, record: &Record<'_>) {
        if let Some(now) = record.timestamp() {
            self.last_ms = now;
        }
        let kind = record.kind();
        self.watch_compactions(start, record, kind);
        let starts = match kind {
            RecordKind::Prompt => !self.is_agent || self.open.is_none(),
            // What a model said before any prompt, e.g. behind a summary at the start of a file, is a turn as well.
            RecordKind::Answer | RecordKind::ToolResults => self.open.is_none(),
            RecordKind::Added => self.is_agent && self.open.is_none(),
            _ => false,
        };
        if starts {
            self.close();
            let (index, id) = (self.next_index, id_of(record.uuid(), start));
            self.open = Some(OpenTurn { index, start, id, started_ms: self.last_ms, ..OpenTurn::default() });
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

    /// Passes over a line that was said before. The first one behind a compaction takes the place of its summary.
    pub(super) fn pass_over(&mut self, end: u64, record: &Record<'_>, is_first: bool) {
        if is_first && let Some((start, noted)) = self.boundary.take() {
            self.unanswered = Some(start);
            self.note_compaction(NO_SUMMARY.to_owned(), start, noted);
        }
        if let Some(open) = &mut self.open {
            open.end = end;
        }
        self.context_chars +=
            record.content().into_iter().flat_map(Content::texts).map(|text| text.chars().count() as u64).sum::<u64>();
    }

    fn note_compaction(&mut self, text: String, start: u64, noted: CompactionDetails) {
        let (at_ms, turns) = (self.last_ms, self.next_index.saturating_sub(self.rewound_turns));
        self.summaries.push(CompactSummary { text, at_ms, turns, start: Some(start), noted });
    }

    fn watch_compactions(&mut self, start: u64, record: &Record<'_>, kind: RecordKind) {
        match (kind, record.content()) {
            (RecordKind::CompactBoundary, _) => {
                let noted = record.compacted();
                // What the client notes down may be its estimate.
                let tokens_before = self.context_tokens.take().or(noted.tokens_before);
                self.boundary = Some((start, CompactionDetails { tokens_before, ..noted }));
                self.context_chars = 0;
            }
            (RecordKind::CompactSummary, Some(content)) => {
                let text = content.texts().collect::<Vec<_>>().join("\n");
                self.context_chars = text.chars().count() as u64;
                let without =
                    || (start, CompactionDetails { tokens_before: self.context_tokens.take(), ..CompactionDetails::default() });
                let (start, noted) = self.boundary.take().unwrap_or_else(without);
                self.unanswered = Some(start);
                self.note_compaction(text, start, noted);
            }
            (RecordKind::Answer, _) if !record.is_sidechain() && !self.is_agent => {
                let Some(tokens) = record.context_tokens() else { return };
                self.context_tokens = Some(tokens);
                self.first_contexts.extend(self.unanswered.take().map(|start| FirstContext { start, tokens }));
            }
            _ => {}
        }
    }

    /// Returns the turns that were completed since the last call.
    pub fn take_finished(&mut self) -> Vec<Turn> {
        std::mem::take(&mut self.finished)
    }

    /// Returns the summaries since the last call.
    pub fn take_summaries(&mut self) -> Vec<CompactSummary> {
        std::mem::take(&mut self.summaries)
    }

    /// Returns the first contexts since the last call.
    pub fn take_first_contexts(&mut self) -> Vec<FirstContext> {
        std::mem::take(&mut self.first_contexts)
    }

    /// Returns the open turn, with its data so far.
    pub fn open_turn(&self) -> Option<Turn> {
        self.open.as_ref().map(|open| open.turn(&self.work))
    }

    /// Number of turns so far, including the open one.
    pub fn turns(&self) -> u32 {
        self.next_index
    }

    /// Characters since the last compaction: the size of the context if no usage is known.
    pub fn context_chars(&self) -> u64 {
        self.context_chars
    }

    /// `true` for the file of a sub-agent.
    pub fn is_agent(&self) -> bool {
        self.is_agent
    }

    /// Byte offset of the open turn.
    pub fn open_start(&self) -> Option<u64> {
        self.open.as_ref().map(|open| open.start)
    }

    /// Ends the open turn: what follows is none of it.
    pub fn close(&mut self) {
        self.finished.extend(self.open_turn());
        self.open = None;
    }

    /// Goes on with another path. A turn that is only partly on it becomes two; what was rewound of it gets an index of its own.
    pub(super) fn change_path(
        &mut self,
        moved: &Move,
        rewound: &[(u64, u64)],
        context_tokens: Option<u64>,
        history: &mut dyn History,
    ) {
        self.close();
        let behind = moved.changes.iter().map(|change| change.start).min().unwrap_or(u64::MAX);
        let mut spans = history.turns_behind(behind);
        spans.retain(|span| !self.finished.iter().any(|turn| turn.index == span.index));
        spans.extend(self.finished.iter().map(|turn| TurnSpan { index: turn.index, start: turn.start, end: turn.end }));
        spans.sort_unstable_by_key(|span| span.start);
        // Turns are counted as they were when they left, and as they are when they leave: some are split in between.
        let came_back = count_in(&spans, &moved.changes, false);
        let mut edges: Vec<u64> = moved.changes.iter().flat_map(|change| [change.start, change.end]).collect();
        edges.sort_unstable();
        edges.dedup();
        for edge in edges {
            if let Some(at) = spans.iter().position(|span| span.start < edge && edge < span.end)
                && let Some(rest) = self.split(spans[at], edge, history)
            {
                spans[at].end = edge;
                spans.insert(at + 1, rest);
            }
        }
        self.rewound_turns = self.rewound_turns.saturating_sub(came_back) + count_in(&spans, &moved.changes, true);
        self.context_tokens = context_tokens;
        if let Some(tokens) = context_tokens {
            self.context_chars = tokens * 7 / 2;
        }
        let is_rewound = |start: u64| rewound.iter().any(|(from, to)| (*from..*to).contains(&start));
        self.boundary = self.boundary.take().filter(|(start, _)| !is_rewound(*start));
        self.unanswered = self.unanswered.filter(|start| !is_rewound(*start));
        if self.work.is_used() {
            self.work = work_at(moved.fork, rewound, history);
            let is_last = |turn: &&mut Turn| moved.fork.is_some_and(|fork| (turn.start..turn.end).contains(&fork));
            if let Some(last) = self.finished.iter_mut().find(is_last) {
                last.open_work = self.work.open();
            }
        }
    }

    /// Splits a turn at a byte; `None` if what is behind it makes no turn.
    fn split(&mut self, span: TurnSpan, at: u64, history: &mut dyn History) -> Option<TurnSpan> {
        let bytes = history.bytes(span.start..span.end);
        if bytes.len() as u64 != span.end - span.start {
            return None;
        }
        let (before, behind) = bytes.split_at((at - span.start) as usize);
        let rest = Self::read_turn(self.next_index, at, behind)?;
        let shortened = Self::read_turn(span.index, span.start, before)?;
        self.next_index += 1;
        let found = TurnSpan { index: rest.index, start: rest.start, end: rest.end };
        self.finished.retain(|turn| turn.index != span.index);
        self.finished.extend([shortened, rest]);
        Some(found)
    }

    /// Reads the bytes of one turn.
    fn read_turn(index: u32, start: u64, bytes: &[u8]) -> Option<Turn> {
        let mut splitter = Self::starting_at(index);
        records_from(bytes, start, &mut RepeatedRows::default(), &mut |start, end, record| splitter.feed(start, end, record));
        splitter.open_turn().filter(|turn| turn.index == index)
    }
}

/// Number of turns in the parts that were rewound, or in those that came back.
fn count_in(spans: &[TurnSpan], changes: &[PathChange], is_rewound: bool) -> u32 {
    let parts = || changes.iter().filter(|change| change.is_rewound == is_rewound);
    spans.iter().filter(|span| parts().any(|part| (part.start..part.end).contains(&span.start))).count() as u32
}

/// Passes each record of bytes that begin at `start` of their file, with its first byte and the one behind it, but for those that were
/// said before. `repeated` goes with whoever reads a file in pieces.
pub fn records_from(bytes: &[u8], start: u64, repeated: &mut RepeatedRows, sink: &mut dyn FnMut(u64, u64, &Record<'_>)) {
    let mut at = start;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let text = line.strip_suffix(b"\n").unwrap_or(line);
        read_line(text, &mut |range, record| {
            let end = if range.end == text.len() { line.len() } else { range.end };
            if !repeated.includes(record) {
                sink(at + range.start as u64, at + end as u64, record);
            }
        });
        at += line.len() as u64;
    }
}

/// Bytes that are read at once.
const PIECE_BYTES: u64 = 4 << 20;

/// The to-do list up to a line, from the calls that are not rewound.
fn work_at(last: Option<u64>, rewound: &[(u64, u64)], history: &mut dyn History) -> TodoList {
    let mut work = TodoList::default();
    let Some(last) = last else { return work };
    let (mut from, mut rest, mut repeated) = (0, Vec::new(), RepeatedRows::default());
    while from <= last {
        let piece = history.bytes(from..from + PIECE_BYTES);
        let begin = from - rest.len() as u64;
        from += piece.len() as u64;
        rest.extend_from_slice(&piece);
        let is_end = (piece.len() as u64) < PIECE_BYTES;
        let whole = if is_end { rest.len() } else { rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1) };
        records_from(&rest[..whole], begin, &mut repeated, &mut |start, _, record| {
            let is_on = start <= last && !rewound.iter().any(|(from, to)| (*from..*to).contains(&start));
            if is_on && record.kind() == RecordKind::Answer && !record.is_sidechain() {
                let calls = record.content().into_iter().flat_map(|content| content.blocks());
                for (name, input) in calls.filter_map(MessageBlock::tool_call) {
                    work.note(name, &super::input::read(input));
                }
            }
        });
        rest.drain(..whole);
        if is_end {
            break;
        }
    }
    work
}

impl OpenTurn {
    fn take(&mut self, record: &Record<'_>, kind: RecordKind, is_agent: bool, work: &mut TodoList) {
        let (hasher, chars) = (&mut self.content, &mut self.chars);
        content::pieces(record, kind, &mut |piece| {
            hasher.update(piece.as_bytes());
            *chars += piece.chars().count() as u64;
        });
        if let Some(agent) = record.agent_id() {
            add(&mut self.agents, agent);
        }
        if kind == RecordKind::ToolResults {
            self.is_answered = false;
        }
        if !is_agent {
            let typed = if kind == RecordKind::Prompt { record.content() } else { record.queued_prompt() };
            self.is_kept |= typed.is_some_and(asks_to_pin);
        }
        let (RecordKind::Answer, Some(content)) = (kind, record.content()) else { return };
        for (name, input) in content.blocks().iter().filter_map(MessageBlock::tool_call) {
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
        if self.last_answers.len() > MAX_INTERLEAVED_ANSWERS {
            self.last_answers.pop_front();
        }
    }

    fn turn(&self, work: &TodoList) -> Turn {
        Turn {
            index: self.index,
            start: self.start,
            end: self.end,
            id: self.id,
            started_ms: self.started_ms,
            ended_ms: self.ended_ms,
            content_sha256: self.content.clone().finish_bytes(),
            content_chars: self.chars,
            tools: self.tools.iter().cloned().collect(),
            files: self.files.iter().cloned().collect(),
            agents: self.agents.iter().cloned().collect(),
            context_tokens: self.context_tokens,
            output_tokens: self.output_tokens,
            is_answered: self.is_answered,
            open_work: work.open(),
            is_kept: self.is_kept,
        }
    }
}

fn asks_to_pin(prompt: &Content<'_>) -> bool {
    prompt.texts().any(|text| content::asks_to_pin(&content::as_typed(text)))
}

fn id_of(uuid: Option<&str>, start: u64) -> [u8; 16] {
    uuid.map_or_else(|| turn_id(&start.to_string()), turn_id)
}

/// Returns the id of a turn by that of its first line: the bytes of a UUID, or the first 16 bytes of a hash of any other text.
pub fn turn_id(uuid: &str) -> [u8; 16] {
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

fn add(names: &mut IndexSet<String>, name: &str) {
    if !names.contains(name) {
        names.insert(name.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use crate::Interpreter;

    #[test]
    fn names_come_once_in_the_order_of_their_first_use() {
        let call = |agent: &str, tool: &str, file: &str| {
            format!(
                "{{\"type\":\"assistant\",\"message\":{{\"role\":\"assistant\",\"content\":[\
                 {{\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"{tool}\",\"input\":{{\"file_path\":\"{file}\"}}}}]}}}}\n\
                 {{\"type\":\"user\",\"toolUseResult\":{{\"agentId\":\"{agent}\"}},\"message\":{{\"role\":\"user\",\"content\":[\
                 {{\"type\":\"tool_result\",\"tool_use_id\":\"t\",\"content\":\"Done.\"}}]}}}}\n"
            )
        };
        let prompt = "{\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":\"Go.\"}}\n".to_owned();
        let said = [("b", "Write", "/z"), ("a", "Edit", "/a"), ("b", "Write", "/m"), ("c", "Read", "/z"), ("a", "Edit", "/b")];
        let lines = [prompt].into_iter().chain(said.map(|(agent, tool, file)| call(agent, tool, file)));
        let mut interpreter = Interpreter::default();
        for line in lines {
            interpreter.feed(line.as_bytes());
            // As between two hooks.
            let state = serde_json::to_string(&interpreter).expect("JSON");
            interpreter = serde_json::from_str(&state).expect("comes back");
        }
        let turn = interpreter.take_turns().pop().expect("a turn");
        assert_eq!(turn.tools, ["Write", "Edit", "Read"]);
        assert_eq!(turn.files, ["/z", "/a", "/m", "/b"]);
        assert_eq!(turn.agents, ["b", "a", "c"]);
    }
}
