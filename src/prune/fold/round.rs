//! Rounds: an answer and the results of its calls, and what is said of them when they are folded.

use regex::Regex;
use serde_json::Value;

use crate::handle::{HANDLE_DIGITS, Handle, RangeHandle};
use crate::message::{DIGEST_BEGIN, conversation_content, is_type, plain_texts};
use crate::settings::PruneSettings;
use crate::size::ConversationSize;
use crate::text::{self, utf16_len};

/// Maximum code units of what a call was about.
const TARGET_UNITS: u64 = 120;

/// Estimated code units of a folded round and of one of its lines, beside what they say.
const ROUND_UNITS: i64 = 10;
const LINE_UNITS: i64 = 26;
const COUNT_UNITS: i64 = 4;

/// Arguments that say what a call was about; the first that there is counts.
const TARGETS: [&str; 6] = ["file_path", "path", "notebook_path", "command", "pattern", "description"];
const PATHS: [&str; 3] = ["file_path", "path", "notebook_path"];

/// Blocks that a round may have. With others, nobody knows what belongs together.
const KNOWN_BLOCKS: [&str; 7] = ["text", "thinking", "redacted_thinking", "tool_use", "tool_result", "image", "document"];

/// The part of a round that is left.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    /// All of it.
    #[default]
    Whole,
    /// A line for each call, and the start of each text.
    Lines,
    /// Its place in the count of rounds.
    Count,
}

/// A call of a tool.
#[derive(Debug, Clone)]
pub(super) struct Call {
    id: String,
    pub name: String,
    /// The first argument that says what it was about, in one line.
    pub target: String,
    /// Handle of its result.
    pub handle: Option<Handle>,
}

/// Tools and files that are never folded.
#[derive(Debug, Clone)]
pub(super) struct Protection {
    tools: Vec<String>,
    files: Vec<Regex>,
}

impl Protection {
    pub fn of(settings: &PruneSettings) -> Self {
        Self { tools: settings.protect_tools.clone(), files: settings.protected_files() }
    }

    fn covers(&self, name: &str, input: &Value) -> bool {
        let paths = || PATHS.iter().filter_map(|name| input.get(*name)?.as_str());
        self.tools.iter().any(|tool| tool == name) || paths().any(|path| self.files.iter().any(|file| file.is_match(path)))
    }
}

/// A digest that an earlier compaction left in the conversation. What it stands for is there no more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EarlierDigest {
    pub steps: usize,
    /// First digits of the ids of the first and the last message that it stands for.
    pub ends: Option<(String, String)>,
    /// Its lines.
    pub lines: String,
}

impl EarlierDigest {
    /// Reads a message that is one.
    pub fn of(message: &Value) -> Option<Self> {
        let texts = plain_texts(message);
        let [(_, text)] = texts[..] else { return None };
        let rest = text.strip_prefix(DIGEST_BEGIN).filter(|_| is_type(message, "user"))?;
        let (head, lines) = rest.split_once('\n').unwrap_or((rest, ""));
        let (steps, recall) = head.strip_suffix(']')?.split_once(" step")?;
        let handle = recall.trim_start_matches('s').strip_prefix(", recall ");
        let range: Option<RangeHandle> = handle.and_then(|handle| handle.parse().ok());
        Some(Self { steps: steps.parse().ok()?, ends: range.map(|range| (range.first, range.last)), lines: lines.to_owned() })
    }
}

/// An answer with the results of its calls.
#[derive(Debug, Clone, Default)]
pub(super) struct Round {
    /// Indexes of its first and its last message.
    pub first: usize,
    pub last: usize,
    /// Number of human prompts before it.
    pub turn: usize,
    /// `true` if a prompt follows it.
    pub ends_turn: bool,
    /// Its size, that of the thinking in it, and that of its answer, in code units.
    pub units: i64,
    pub thinking_units: i64,
    pub answer_units: i64,
    pub level: Level,
    /// Its size when it was folded, and `true` if its texts stayed whole.
    pub size: i64,
    pub has_whole_texts: bool,
    pub calls: Vec<Call>,
    pub texts: Vec<String>,
    /// Ids of calls that have results.
    results: Vec<String>,
    has_odd_blocks: bool,
    is_protected: bool,
    max_chars: u64,
    /// Set if it is none, but a digest of some.
    pub earlier: Option<EarlierDigest>,
}

impl Round {
    /// Starts a round with the message at an index.
    pub fn new(first: usize, turn: usize, settings: &PruneSettings) -> Self {
        Self { first, last: first, turn, max_chars: settings.max_chars, ..Self::default() }
    }

    /// Makes one of a digest, which has all its lines.
    pub fn of_digest(index: usize, turn: usize, units: i64, earlier: EarlierDigest, settings: &PruneSettings) -> Self {
        Self { units, earlier: Some(earlier), ..Self::new(index, turn, settings) }
    }

    /// Adds a message of the answer, or with a result.
    pub fn add(&mut self, index: usize, message: &Value, units: i64, protection: &Protection) {
        self.last = index;
        self.units += units;
        self.thinking_units += thinking_units(message);
        let is_answer = is_type(message, "assistant");
        if is_answer {
            self.answer_units += units;
        }
        let uuid = message.get("uuid").and_then(Value::as_str);
        let content = conversation_content(message);
        if let Some(Value::String(text)) = content
            && is_answer
        {
            self.texts.push(text.clone());
        }
        for (number, block) in content.and_then(Value::as_array).into_iter().flatten().enumerate() {
            let field = |name: &str| block.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
            match field("type").as_str() {
                "text" if is_answer => self.texts.push(field("text")),
                "tool_use" => {
                    self.is_protected |= protection.covers(&field("name"), &block["input"]);
                    self.calls.push(Call { id: field("id"), name: field("name"), target: target(&block["input"]), handle: None });
                }
                "tool_result" => {
                    let id = field("tool_use_id");
                    if let Some(call) = self.calls.iter_mut().find(|call| call.id == id) {
                        call.handle = Handle::of(uuid, number, None);
                    }
                    self.results.push(id);
                }
                kind => self.has_odd_blocks |= !KNOWN_BLOCKS.contains(&kind),
            }
        }
    }

    /// `true` if it is complete, and nothing in it is protected: each call has its one result, and each result its call.
    pub fn is_foldable(&self) -> bool {
        let mut calls: Vec<&str> = self.calls.iter().map(|call| call.id.as_str()).collect();
        let mut results: Vec<&str> = self.results.iter().map(String::as_str).collect();
        calls.sort_unstable();
        results.sort_unstable();
        !self.has_odd_blocks && !self.is_protected && calls == results
    }

    /// Its estimated size at a level below [`Level::Whole`].
    pub fn folded_size(&self, level: Level, has_whole_texts: bool) -> i64 {
        let texts = || self.texts_at(level, has_whole_texts).map(|text| utf16_len(text).cast_signed()).sum::<i64>();
        if let Some(earlier) = &self.earlier
            && level == Level::Lines
        {
            return ROUND_UNITS + utf16_len(&earlier.lines).cast_signed();
        }
        if level == Level::Lines {
            let calls = self.calls.iter().map(|call| LINE_UNITS + utf16_len(&call.target).cast_signed());
            return ROUND_UNITS + calls.sum::<i64>() + texts();
        }
        match texts() {
            0 => COUNT_UNITS,
            units => ROUND_UNITS + units,
        }
    }

    /// The parts of its texts that are said at a level.
    pub fn texts_at(&self, level: Level, has_whole_texts: bool) -> impl Iterator<Item = &str> {
        let is_said = level == Level::Lines || has_whole_texts || self.ends_turn;
        let most = if has_whole_texts { u64::MAX } else { self.max_chars };
        self.texts.iter().filter(move |_| is_said).map(move |text| text::prefix(text, most))
    }
}

/// Model of what the client writes in the model's name.
const NO_MODEL: &str = "<synthetic>";

/// The id of an answer's message: that of the API, or the client's own. What the client writes in the model's name is none, but for answers that it
/// [made anew](is_made_anew).
pub(super) fn answer_id(message: &Value) -> Option<&str> {
    let inner = message.get("message")?;
    let is_answer =
        is_type(message, "assistant") && (inner.get("model").is_none_or(|model| model != NO_MODEL) || has_call(message));
    let text = |value: &'_ Value| -> bool { value.is_string() };
    is_answer.then(|| inner.get("id").filter(|id| text(id)).or(message.get("uuid")).and_then(Value::as_str).unwrap_or_default())
}

/// `true` if an answer stood there before a compaction that a plugin answered. No request is before it any more.
pub(super) fn is_made_anew(message: &Value) -> bool {
    is_type(message, "assistant") && message["message"]["model"] == NO_MODEL && has_call(message)
}

fn has_call(message: &Value) -> bool {
    conversation_content(message).and_then(Value::as_array).into_iter().flatten().any(|block| is_type(block, "tool_use"))
}

/// `true` if a message has the result of a call.
pub(super) fn has_result(message: &Value) -> bool {
    let content = conversation_content(message).and_then(Value::as_array);
    is_type(message, "user") && content.into_iter().flatten().any(|block| is_type(block, "tool_result"))
}

/// Code units of the thinking in a message.
pub(super) fn thinking_units(message: &Value) -> i64 {
    let blocks = conversation_content(message).and_then(Value::as_array).into_iter().flatten();
    blocks.filter(|block| is_thinking(block)).map(|block| ConversationSize::of_block(block).chars.cast_signed()).sum()
}

pub(super) fn is_thinking(block: &Value) -> bool {
    is_type(block, "thinking") || is_type(block, "redacted_thinking")
}

/// Tokens that were read for an answer, from the cache or not, if its usage says so.
pub(super) fn context_tokens(message: &Value) -> Option<i64> {
    let usage = &message["message"]["usage"];
    let parts = ["input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"];
    let sum: i64 = parts.iter().filter_map(|name| usage[*name].as_i64()).filter(|tokens| *tokens > 0).sum();
    (sum > 0).then_some(sum)
}

/// The time of a message of the conversation, in milliseconds since 1970, if it has one in the client's form.
pub(super) fn timestamp_ms(message: &Value) -> Option<i64> {
    if !is_type(message, "user") && !is_type(message, "assistant") {
        return None;
    }
    let text = message.get("timestamp")?.as_str()?;
    // Just this form, which both twins read alike: 2026-11-25T18:00:00.000Z
    let digits = text.bytes().enumerate().all(|(at, byte)| match at {
        4 | 7 => byte == b'-',
        10 => byte == b'T',
        13 | 16 => byte == b':',
        19 => byte == b'.',
        23 => byte == b'Z',
        _ => byte.is_ascii_digit(),
    });
    let instant: jiff::Timestamp = text.parse().ok().filter(|_| digits && text.len() == 24)?;
    Some(instant.as_millisecond())
}

/// The argument that says what a call was about, in one line.
fn target(input: &Value) -> String {
    let found = TARGETS.iter().find_map(|name| input.get(*name)?.as_str().filter(|text| !text.is_empty()));
    one_line(text::prefix(found.unwrap_or_default(), TARGET_UNITS))
}

/// A text with its white space as single spaces.
pub(super) fn one_line(text: &str) -> String {
    let words = text.split([' ', '\t', '\r', '\n']).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join(" ")
}

/// The first digits of a message's id.
pub(super) fn digits(message: &Value) -> Option<String> {
    Handle::of(message.get("uuid")?.as_str(), 0, None).map(|handle| handle.digits).filter(|digits| digits.len() == HANDLE_DIGITS)
}
