/*!
From bytes to lines.

Bytes come in pieces of any size. A line that is not complete waits for the rest; one that is no JSON object, or longer than
[`MAX_LINE_BYTES`], is counted and skipped. The state between passes over a growing file is small and can be
serialized: the bytes of an incomplete line are not kept, but read again from [`Interpreter::position`] on.
*/

use serde::{Deserialize, Serialize};

use super::blank::without_private;
use super::branches::{Branches, History, Move, NoHistory, PathChange, PathStep};
use super::content;
use super::lines::{LineCondition, read_line};
use super::record::{Record, RecordKind, TitleRank};
use super::repeated::RepeatedRows;
use super::turns::{CompactSummary, FirstContext, Splitter, Turn};

/// A line longer than this is not interpreted (it is archived all the same): it would have to be in memory at once.
pub const MAX_LINE_BYTES: usize = 256 << 20;

/// Reads the lines of a transcript as its bytes come in.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Interpreter {
    position: u64,
    splitter: Splitter,
    branches: Branches,
    repeated: RepeatedRows,
    /// `true` inside a line that is too long.
    is_skipping: bool,
    seen: SessionMetadata,
    /// Start of the last line with damage.
    last_damage: Option<u64>,
    #[serde(skip)]
    waiting: Vec<u8>,
    #[serde(skip)]
    path_changes: Vec<PathChange>,
}

/// Turns and compactions of some lines of a transcript.
#[derive(Clone, Debug, Default)]
pub struct InterpretedLines {
    /// Turns that are new or have grown.
    pub turns: Vec<Turn>,
    /// Summaries of compactions.
    pub summaries: Vec<CompactSummary>,
    /// Context sizes right after compactions, these or earlier ones.
    pub first_contexts: Vec<FirstContext>,
    /// Parts of the transcript that left the conversation, or came back, in order.
    pub path_changes: Vec<PathChange>,
}

/// Metadata of the session, as read so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SessionMetadata {
    /// Complete lines that are not blank.
    pub lines: u64,
    /// Lines that are no JSON object, not UTF-8, or too long.
    pub bad_lines: u64,
    /// Byte offset of the first of them.
    pub first_bad: Option<u64>,
    /// The session named by the first line that has one.
    pub session: Option<String>,
    /// The folder that the client worked in first.
    pub folder: Option<String>,
    /// The client's version, as in the last line.
    pub version: Option<String>,
    /// The model that answered last.
    pub model: Option<String>,
    /// Size of the model's window in tokens, if the client recorded it.
    pub window: Option<u64>,
    /// Size of the context at the last answer of the main conversation, in tokens; unknown right after a compaction.
    pub context_tokens: Option<u64>,
    /// Tokens of what stands before the conversation, the system prompt and the tools: those of the first answer that was counted, less
    /// an estimate of what had been said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_tokens: Option<u64>,
    /// The session's title.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<SessionTitle>,
}

/// A session's title, and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionTitle {
    /// Its source.
    pub rank: TitleRank,
    /// Its text, in one line.
    pub text: String,
    /// Byte offset of the prompt that it is from; 0 for another source. A prompt that was rewound gives no title.
    #[serde(default)]
    pub prompt_start: u64,
}

/// Maximum characters of a title.
const MAX_TITLE_CHARS: usize = 200;

impl SessionTitle {
    /// Creates a title from the start of a text that has words.
    fn new(rank: TitleRank, text: &str) -> Option<Self> {
        let mut title = String::new();
        for word in without_private(text).split_whitespace().take(MAX_TITLE_CHARS) {
            title.push_str(if title.is_empty() { "" } else { " " });
            title.extend(word.chars().take(MAX_TITLE_CHARS));
        }
        let text: String = title.chars().take(MAX_TITLE_CHARS).collect();
        text.chars().any(char::is_alphanumeric).then_some(Self { rank, text, prompt_start: 0 })
    }
}

impl Interpreter {
    /// Creates an interpreter for the file of a sub-agent.
    pub fn of_agent() -> Self {
        Self { splitter: Splitter::of_agent(), ..Self::default() }
    }

    /// Creates an interpreter for a file that is read again from a turn boundary on; `seen` is the metadata before it.
    pub fn starting_at(position: u64, index: u32, seen: SessionMetadata) -> Self {
        let (splitter, branches) = (Splitter::starting_at(index), Branches::starting_at(position));
        Self { position, splitter, branches, seen, ..Self::default() }
    }

    /// Offset in the file of the next byte for [`feed`](Self::feed), if no bytes are waiting.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Number of bytes of a line that is not complete yet.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Returns the interpreter as it is if the file ends here: a last line without a line break counts, if it is whole. `None` if
    /// there is none.
    pub fn at_end(&self, history: &mut dyn History) -> Option<Self> {
        if self.waiting.is_empty() || self.is_skipping || read_line(&self.waiting, &mut |_, _| {}) != LineCondition::Whole {
            return None;
        }
        let mut ended = self.clone();
        let last = std::mem::take(&mut ended.waiting);
        ended.line(&last, 0, history);
        Some(ended)
    }

    /// Returns the state to save: everything except the bytes of an incomplete line.
    pub fn at_rest(&self) -> Self {
        Self {
            position: self.position,
            splitter: self.splitter.clone(),
            branches: self.branches.at_rest(),
            repeated: self.repeated.clone(),
            is_skipping: self.is_skipping,
            seen: self.seen.clone(),
            last_damage: self.last_damage,
            waiting: Vec::new(),
            path_changes: Vec::new(),
        }
    }

    /// Reads the next bytes of a file whose earlier bytes are gone: a rewind to what is no longer in memory is not noticed.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.feed_with(bytes, &mut NoHistory);
    }

    /// Reads the next bytes of the file.
    pub fn feed_with(&mut self, bytes: &[u8], history: &mut dyn History) {
        let mut rest = bytes;
        while let Some(at) = memchr::memchr(b'\n', rest) {
            let (line, behind) = (&rest[..at], &rest[at + 1..]);
            if self.waiting.is_empty() {
                self.line(line, 1, history);
            } else {
                let mut whole = std::mem::take(&mut self.waiting);
                whole.extend_from_slice(line);
                self.line(&whole, 1, history);
            }
            rest = behind;
        }
        if self.is_skipping {
            self.position += rest.len() as u64;
        } else if self.waiting.len() + rest.len() > MAX_LINE_BYTES {
            self.position += (std::mem::take(&mut self.waiting).len() + rest.len()) as u64;
            self.is_skipping = true;
        } else {
            self.waiting.extend_from_slice(rest);
        }
    }

    /// Returns the turns that were completed since the last call, and the open one.
    pub fn take_turns(&mut self) -> Vec<Turn> {
        let mut turns = self.splitter.take_finished();
        turns.extend(self.splitter.open_turn());
        turns
    }

    /// Returns all that was read since the last call.
    pub fn take_all(&mut self) -> InterpretedLines {
        InterpretedLines {
            turns: self.take_turns(),
            summaries: self.take_summaries(),
            first_contexts: self.take_first_contexts(),
            path_changes: self.take_path_changes(),
        }
    }

    /// Returns which parts of the transcript left the conversation since the last call, or came back, in order.
    pub fn take_path_changes(&mut self) -> Vec<PathChange> {
        std::mem::take(&mut self.path_changes)
    }

    /// Parts of the transcript that are not in the conversation any more, in order: first byte, and the byte behind.
    pub fn rewound(&self) -> &[(u64, u64)] {
        self.branches.rewound()
    }

    /// Returns the compaction summaries since the last call.
    pub fn take_summaries(&mut self) -> Vec<CompactSummary> {
        self.splitter.take_summaries()
    }

    /// Returns the context sizes right after compactions since the last call.
    pub fn take_first_contexts(&mut self) -> Vec<FirstContext> {
        self.splitter.take_first_contexts()
    }

    /// Metadata of the session, as read so far.
    pub fn session_metadata(&self) -> &SessionMetadata {
        &self.seen
    }

    /// Number of turns so far, including the open one.
    pub fn turns(&self) -> u32 {
        self.splitter.turns()
    }

    /// Tokens in the context: as counted for the last answer. Before the first one, or right after a compaction, an estimate for the next
    /// request: one token for 3.5 characters, and what stands before the conversation, if that is known.
    pub fn context_tokens(&self) -> u64 {
        self.seen.context_tokens.unwrap_or_else(|| self.seen.base_tokens.unwrap_or(0) + self.said_tokens())
    }

    /// Estimated tokens of what was said since the last compaction, as far as the file was read.
    pub fn said_tokens(&self) -> u64 {
        self.splitter.context_chars() * 2 / 7
    }

    /// Reads a line without its line break, which has `break_bytes`.
    fn line(&mut self, line: &[u8], break_bytes: u64, history: &mut dyn History) {
        let start = self.position;
        let end = start + line.len() as u64 + break_bytes;
        self.position = end;
        let was_skipping = std::mem::take(&mut self.is_skipping);
        if was_skipping {
            self.seen.lines += 1;
            self.note_damage(start);
            return;
        }
        let condition = read_line(line, &mut |range, record| {
            // Half a record may stand before it.
            if range.start > 0 {
                self.last_damage = Some(start);
            }
            let ends_line = range.end == line.len();
            let end = if ends_line { end } else { start + range.end as u64 };
            self.record(start + range.start as u64, end, record, history);
        });
        match condition {
            LineCondition::Blank => {}
            LineCondition::Whole => self.seen.lines += 1,
            LineCondition::Damaged => {
                self.seen.lines += 1;
                self.note_damage(start);
            }
        }
    }

    fn note_damage(&mut self, start: u64) {
        self.seen.bad_lines += 1;
        self.seen.first_bad.get_or_insert(start);
        self.last_damage = Some(start);
    }

    fn record(&mut self, start: u64, end: u64, record: &Record<'_>, history: &mut dyn History) {
        let kind = record.kind();
        let was_within = self.repeated.is_within();
        let is_repeated = self.repeated.includes(record);
        if !self.splitter.is_agent() {
            match self.branches.feed(start, record, history) {
                PathStep::Follows => {}
                // Where the prompt was lost, it would be shown below one that it does not answer.
                PathStep::Orphan if self.last_damage >= self.splitter.open_start() => self.splitter.close(),
                PathStep::Orphan => {}
                PathStep::Moved(moved) => self.change_path(moved, history),
            }
            if !is_repeated {
                self.note_title(start, record, kind);
            }
        }
        if is_repeated {
            self.splitter.pass_over(end, record, !was_within);
            return;
        }
        let seen = &mut self.seen;
        set(&mut seen.version, record.version());
        if seen.session.is_none() {
            set(&mut seen.session, record.session_id());
        }
        if seen.folder.is_none() {
            set(&mut seen.folder, record.cwd());
        }
        seen.window = record.window().or(seen.window);
        if kind == RecordKind::CompactBoundary {
            seen.context_tokens = None;
        }
        if !record.is_sidechain() {
            set(&mut seen.model, record.model());
            if let Some(tokens) = record.context_tokens() {
                if seen.context_tokens.is_none() {
                    let base = tokens.checked_sub(self.splitter.context_chars() * 2 / 7);
                    seen.base_tokens = base.or(seen.base_tokens);
                }
                seen.context_tokens = Some(tokens);
            }
        }
        self.splitter.feed(start, end, record);
    }

    /// Goes on with another path.
    fn change_path(&mut self, moved: Move, history: &mut dyn History) {
        // The size of the context is that of the request for the last answer that is still there.
        self.seen.context_tokens = moved.last_answer.and_then(|start| context_at(start, self.position, history));
        let rewound = self.branches.rewound();
        let is_rewound = |at: u64| rewound.iter().any(|(start, end)| (*start..*end).contains(&at));
        if self.seen.title.as_ref().is_some_and(|title| title.rank == TitleRank::Prompt && is_rewound(title.prompt_start)) {
            self.seen.title = None;
        }
        self.splitter.change_path(&moved, rewound, self.seen.context_tokens, history);
        self.path_changes.extend(moved.changes);
    }

    fn note_title(&mut self, start: u64, record: &Record<'_>, kind: RecordKind) {
        let known = self.seen.title.as_ref().map(|title| title.rank);
        let title = match record.title() {
            // Older clients write summaries of other sessions into the file as well.
            Some((TitleRank::Summary, _)) if !record.summarized().is_some_and(|leaf| self.branches.is_recent(leaf)) => None,
            Some((rank, text)) if known.is_none_or(|known| rank >= known) => SessionTitle::new(rank, text),
            None if known.is_none() && kind == RecordKind::Prompt && !record.is_sidechain() => {
                let prompt = record.content().and_then(|content| content.texts().find_map(typed_prompt));
                let title = prompt.and_then(|prompt| SessionTitle::new(TitleRank::Prompt, &prompt));
                title.map(|title| SessionTitle { prompt_start: start, ..title })
            }
            _ => None,
        };
        if title.is_some() {
            self.seen.title = title;
        }
    }
}

/// Bytes of a line that are read at once.
const LINE_BYTES: u64 = 64 << 10;

/// The size of the context in the line at a byte.
fn context_at(start: u64, end: u64, history: &mut dyn History) -> Option<u64> {
    let mut line = history.bytes(start..(start + LINE_BYTES).min(end));
    if !line.contains(&b'\n') {
        line = history.bytes(start..end);
    }
    let line = line.split(|byte| *byte == b'\n').next()?;
    let mut tokens = None;
    read_line(line, &mut |_, record| tokens = tokens.or(record.context_tokens()));
    tokens
}

/// The prompt as somebody typed it, if it says what the session is about.
fn typed_prompt(text: &str) -> Option<String> {
    let typed = content::as_typed(text);
    content::is_typed(&typed).then_some(typed)
}

fn set(field: &mut Option<String>, value: Option<&str>) {
    if let Some(value) = value
        && field.as_deref() != Some(value)
    {
        *field = Some(value.to_owned());
    }
}
