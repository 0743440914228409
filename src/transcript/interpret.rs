/*!
From bytes to lines.

Bytes come in pieces of any size. A line that is not complete waits for the rest; one that is no JSON object, or longer than
[`MAX_LINE_BYTES`], is counted and skipped. The state between passes over a growing file is small and can be
serialized: the bytes of an incomplete line are not kept, but read again from [`Interpreter::position`] on.
*/

use serde::{Deserialize, Serialize};

use super::record::{Record, RecordKind};
use super::repair::replace_lone_surrogates;
use super::turns::{CompactSummary, FirstContext, Splitter, Turn};

/// A line longer than this is not interpreted (it is archived all the same): it would have to be in memory at once.
pub const MAX_LINE_BYTES: usize = 256 << 20;

/// Reads the lines of a transcript as its bytes come in.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Interpreter {
    position: u64,
    splitter: Splitter,
    /// `true` inside a line that is too long.
    is_skipping: bool,
    seen: SessionMetadata,
    #[serde(skip)]
    waiting: Vec<u8>,
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
}

impl Interpreter {
    /// Creates an interpreter for the file of a sub-agent.
    pub fn of_agent() -> Self {
        Self { splitter: Splitter::of_agent(), ..Self::default() }
    }

    /// Creates an interpreter for a file that is read again from a turn boundary on; `seen` is the metadata before it.
    pub fn starting_at(position: u64, index: u32, seen: SessionMetadata) -> Self {
        Self { position, splitter: Splitter::starting_at(index), seen, ..Self::default() }
    }

    /// Offset in the file of the next byte for [`feed`](Self::feed), if no bytes are waiting.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Number of bytes of a line that is not complete yet.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Returns the state to save: everything except the bytes of an incomplete line.
    pub fn at_rest(&self) -> Self {
        Self {
            position: self.position,
            splitter: self.splitter.clone(),
            is_skipping: self.is_skipping,
            seen: self.seen.clone(),
            waiting: Vec::new(),
        }
    }

    /// Reads the next bytes of the file.
    pub fn feed(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while let Some(at) = memchr::memchr(b'\n', rest) {
            let (line, behind) = (&rest[..at], &rest[at + 1..]);
            if self.waiting.is_empty() {
                self.line(line);
            } else {
                let mut whole = std::mem::take(&mut self.waiting);
                whole.extend_from_slice(line);
                self.line(&whole);
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

    /// Tokens in the context: as counted for the last answer, or else one token for 3.5 characters.
    pub fn context_tokens(&self) -> u64 {
        self.seen.context_tokens.unwrap_or_else(|| self.splitter.context_chars() * 2 / 7)
    }

    /// Reads a line without its line break.
    fn line(&mut self, line: &[u8]) {
        let start = self.position;
        let end = start + line.len() as u64 + 1;
        self.position = end;
        let was_skipping = std::mem::take(&mut self.is_skipping);
        if line.iter().all(u8::is_ascii_whitespace) && !was_skipping {
            return;
        }
        self.seen.lines += 1;
        let line = &*replace_lone_surrogates(line);
        match Record::parse(line) {
            Ok(record) if !was_skipping => self.record(start, end, &record),
            _ => {
                self.seen.bad_lines += 1;
                self.seen.first_bad.get_or_insert(start);
                // What is readable of a line with a damaged character is worth more than nothing.
                if !was_skipping
                    && let Err(damage) = std::str::from_utf8(line)
                    && damage.valid_up_to() > 0
                    && let Ok(record) = Record::parse(String::from_utf8_lossy(line).as_bytes())
                {
                    self.record(start, end, &record);
                }
            }
        }
    }

    fn record(&mut self, start: u64, end: u64, record: &Record<'_>) {
        let seen = &mut self.seen;
        set(&mut seen.version, record.version());
        if seen.session.is_none() {
            set(&mut seen.session, record.session_id());
        }
        if seen.folder.is_none() {
            set(&mut seen.folder, record.cwd());
        }
        seen.window = record.window().or(seen.window);
        if record.kind() == RecordKind::CompactBoundary {
            seen.context_tokens = None;
        }
        if !record.is_sidechain() {
            set(&mut seen.model, record.model());
            seen.context_tokens = record.context_tokens().or(seen.context_tokens);
        }
        self.splitter.feed(start, end, record);
    }
}

fn set(field: &mut Option<String>, value: Option<&str>) {
    if let Some(value) = value
        && field.as_deref() != Some(value)
    {
        *field = Some(value.to_owned());
    }
}
