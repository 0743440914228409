//! The prompt cache, by the rules that the API documents.
//!
//! A prompt is a sequence of blocks: each tool, each block of the system prompt, each content block of each message, in this order.
//! A content string is one text block, as in the API; so a client may mark a string by turning it into a block. The documents
//! ("Prompt caching", *How automatic prefix checking works*) give these rules:
//!
//! - A block with `cache_control` is a breakpoint; a request has at most four. Entries are **written** at breakpoints and nowhere
//!   else. An entry is the hash of everything before, model and block included.
//! - The longest entry that an earlier request wrote is **read**. It is looked for at each breakpoint and before it, at most 20
//!   positions, the breakpoint being the first. A run of tool calls counts as one position, and so does a run of their results.
//! - Blocks after the entry, up to the last breakpoint, are written now; blocks after that are plain input.
//! - A prefix of fewer than 1,024 tokens (the models differ; that of Sonnet 4.5, which the clients here ask for) is not cached.
//! - An entry that was not used for some time (5 minutes, where nothing else is asked for) is forgotten.
//!
//! Blocks are compared byte by byte, except for two things that the model does not read: `cache_control` itself, which moves with
//! the conversation, and the billing line ([`BILLING_LINE`]). Settings outside the prompt that make the API forget messages
//! (`tool_choice`, `thinking`) are ignored: a client keeps them through a conversation.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::respond::ReplyUsage;
use super::tokens::{CacheUsage, estimate_tokens};
use ctxbridge_common::digest::{Hasher, Sha256Digest};

/// Positions that are looked at for each breakpoint, itself included.
const LOOK_BACK: usize = 20;

/// The shortest prefix that is cached, in tokens.
const MINIMUM_TOKENS: u64 = 1_024;

/// The start of the first system block of newer clients, before their version and entry point. Against the stub it stays the same
/// through a session: 2.1.112 sends `cch=00000`, 2.1.330 leaves `cch` out. Users see a `cch` that differs from request to request,
/// and caches of other services spoiled by it (anthropics/claude-code, issue 68900). The API removes the line from the prompt, so
/// all such lines count as equal here.
pub(super) const BILLING_LINE: &str = "x-anthropic-billing-header:";

/// The part of a request that the line is in.
const SYSTEM: &str = "system";

/// Rules for the prompt cache of a stub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheRules {
    /// Positions that are looked at for each breakpoint, itself included; `None` looks at all.
    pub look_back: Option<usize>,
    /// Time that an entry is kept after its last use; `None` keeps it for as long as the stub runs.
    pub time_to_live: Option<Duration>,
}

impl CacheRules {
    /// The API's, but nothing expires: a slow machine gets the same figures.
    pub const API: Self = Self { look_back: Some(LOOK_BACK), time_to_live: None };

    /// An ideal cache: every written entry is found again, however far before the breakpoint.
    pub const EXACT: Self = Self { look_back: None, time_to_live: None };
}

/// The entries of all models.
#[derive(Debug)]
pub(super) struct CachedPrompts {
    rules: CacheRules,
    /// Time of last use, by prefix.
    entries: HashMap<Sha256Digest, Instant>,
}

impl CachedPrompts {
    pub(super) fn new(rules: CacheRules) -> Self {
        Self { rules, entries: HashMap::new() }
    }

    /// Does the cache reads and writes of a valid request.
    pub(super) fn serve(&mut self, body: &Value, now: Instant) -> CacheUsage {
        if let Some(limit) = self.rules.time_to_live {
            self.entries.retain(|_, used| now.duration_since(*used) < limit);
        }
        let prefixes = prefixes(body);
        let breakpoints: Vec<usize> = (0..prefixes.len()).filter(|&at| prefixes[at].is_breakpoint()).collect();
        let found = breakpoints.iter().filter_map(|&at| self.look_back(&prefixes[..=at])).max();
        let cacheable = breakpoints.last().map_or(0, |&at| prefixes[at].tokens);
        let read = found.map_or(0, |at| prefixes[at].tokens);
        for at in breakpoints.into_iter().chain(found) {
            self.entries.insert(prefixes[at].digest, now);
        }
        CacheUsage { read, written: cacheable - read }
    }

    /// The longest prefix with an entry, ending at the last of these or not too far before it.
    fn look_back(&self, prefixes: &[PromptPrefix]) -> Option<usize> {
        let mut positions = 0;
        let mut run = None;
        for (at, prefix) in prefixes.iter().enumerate().rev() {
            if prefix.run.is_none() || prefix.run != run {
                positions += 1;
            }
            run = prefix.run;
            if self.rules.look_back.is_some_and(|limit| positions > limit) {
                return None;
            }
            if self.entries.contains_key(&prefix.digest) {
                return Some(at);
            }
        }
        None
    }
}

/// A prompt up to the end of one of its blocks.
struct PromptPrefix {
    digest: Sha256Digest,
    tokens: u64,
    marked: bool,
    /// Neighboring calls of tools, or results of them, are one position.
    run: Option<ToolRun>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ToolRun {
    Calls,
    Results,
}

impl PromptPrefix {
    /// `true` if the prefix ends at a mark and is long enough. A mark on a shorter prefix has no effect, and is not an error.
    fn is_breakpoint(&self) -> bool {
        self.marked && self.tokens >= MINIMUM_TOKENS
    }
}

/// Every prefix of a prompt, shortest first. The characters of a block include the punctuation around it and the frame of its
/// message, so that the whole prompt has as many tokens as [`ApiRequest::tokens`](super::ApiRequest::tokens) says.
fn prefixes(body: &Value) -> Vec<PromptPrefix> {
    let mut row = PrefixBuilder::of_model(body["model"].as_str().unwrap_or_default());
    row.add_blocks("tools", body.get("tools"), 0);
    row.add_blocks(SYSTEM, body.get(SYSTEM), 0);
    // The opening bracket; a comma, or the closing one, is after each message.
    row.chars += 1;
    for message in body["messages"].as_array().into_iter().flatten() {
        let content = message.get("content");
        let frame = chars(message) + 1 - content.map_or(0, chars);
        row.add_blocks(message["role"].as_str().unwrap_or_default(), content, frame);
    }
    row.prefixes
}

/// Builds the prefixes of a prompt, block by block.
struct PrefixBuilder {
    hasher: Hasher,
    chars: usize,
    prefixes: Vec<PromptPrefix>,
}

impl PrefixBuilder {
    fn of_model(model: &str) -> Self {
        let mut row = Self { hasher: Hasher::default(), chars: 0, prefixes: Vec::new() };
        row.hash(model);
        row
    }

    /// Adds the blocks of a part of the prompt, written by `speaker`, with `frame` characters around them.
    fn add_blocks(&mut self, speaker: &str, content: Option<&Value>, frame: usize) {
        self.chars += frame;
        match content {
            Some(Value::Array(blocks)) => {
                // The opening bracket; a comma, or the closing one, is after each block.
                self.chars += 1;
                for block in blocks {
                    self.chars += chars(block) + 1;
                    self.add(speaker, block);
                }
            }
            Some(Value::String(text)) => {
                self.chars += content.map_or(0, chars);
                self.add(speaker, &json!({ "type": "text", "text": text }));
            }
            _ => {}
        }
    }

    fn add(&mut self, speaker: &str, block: &Value) {
        self.hash(speaker);
        let text = block["text"].as_str().unwrap_or_default();
        if speaker == SYSTEM && text.starts_with(BILLING_LINE) {
            self.hash(BILLING_LINE);
        } else {
            self.hash(&unmarked(block).to_string());
        }
        let run = match block["type"].as_str() {
            Some("tool_use") => Some(ToolRun::Calls),
            Some("tool_result") => Some(ToolRun::Results),
            _ => None,
        };
        self.prefixes.push(PromptPrefix {
            digest: self.hasher.clone().finish_bytes(),
            tokens: estimate_tokens(self.chars),
            marked: is_marked(block),
            run,
        });
    }

    /// Hashes a text. Its length goes first, so that no two sequences of texts are the same bytes.
    fn hash(&mut self, text: &str) {
        self.hasher.update(&(text.len() as u64).to_le_bytes());
        self.hasher.update(text.as_bytes());
    }
}

fn chars(value: &Value) -> usize {
    value.to_string().chars().count()
}

/// `true` if the block, or one inside of it, ends a prefix to be cached.
fn is_marked(block: &Value) -> bool {
    let nested = block["content"].as_array().into_iter().flatten();
    std::iter::once(block).chain(nested).any(|block| block["cache_control"].is_object())
}

/// The block without its marks.
pub(super) fn unmarked(block: &Value) -> Value {
    let mut block = block.clone();
    if let Some(fields) = block.as_object_mut() {
        // The order of what stays is part of the bytes.
        fields.shift_remove("cache_control");
        if let Some(nested) = fields.get_mut("content").and_then(Value::as_array_mut) {
            for inner in nested.iter_mut().filter_map(Value::as_object_mut) {
                inner.shift_remove("cache_control");
            }
        }
    }
    block
}

/// Usage that a stub reported, added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UsageTotals {
    /// Answered requests.
    pub requests: u64,
    /// Plain input tokens.
    pub input: u64,
    /// Tokens read from the cache.
    pub read: u64,
    /// Tokens written to the cache.
    pub written: u64,
    /// Tokens answered.
    pub output: u64,
    /// The largest prompt of a request, in tokens.
    pub peak: u64,
}

impl UsageTotals {
    pub(super) fn add(&mut self, usage: &ReplyUsage) {
        let (read, written) = (usage.cache_read_input_tokens, usage.cache_creation_input_tokens);
        self.requests += 1;
        self.input += usage.input_tokens;
        self.read += read;
        self.written += written;
        self.output += usage.output_tokens;
        self.peak = self.peak.max(usage.input_tokens + read + written);
    }

    /// Tokens of all prompts, cached or not.
    pub fn sent(&self) -> u64 {
        self.input + self.read + self.written
    }

    /// The cost in units of one plain input token: a token read costs 0.1, one written (for five minutes) 1.25, one answered 5, as
    /// in the API's price list for all current models.
    pub fn cost(&self) -> f64 {
        self.input as f64 + 0.1 * self.read as f64 + 1.25 * self.written as f64 + 5.0 * self.output as f64
    }
}
