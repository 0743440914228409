/*!
The client's own micro-compact, up to 2.1.68: old tool results make room before the conversation has to be compacted.

At a request within 20,000 tokens of the compaction, results of all but the newest three calls go, oldest first, until those that are
left have 40,000 tokens; but only if that makes 20,000 tokens of room. They do not come back. Read in 2.0.76; transcripts up to 2.1.22
have it on record, with such a context before.
*/

use serde_json::Value;

use super::policy::BlockCut;
use super::weigh::WeighedBlock;

/// Tools whose results go.
const TOOLS: [&str; 8] = ["Read", "Bash", "Grep", "Glob", "WebSearch", "WebFetch", "Edit", "Write"];
/// The text in their place.
const CLEARED: &str = "[Old tool result content cleared]";
/// Tokens of results that may stay.
const MAX_RESULT_TOKENS: u64 = 40_000;
/// Minimum tokens that go.
const MIN_FREED_TOKENS: u64 = 20_000;
/// Newest calls whose results stay.
const KEPT_CALLS: usize = 3;
/// Tokens before the compaction at which it begins.
const WARNING_TOKENS: u64 = 20_000;
/// Code units that the client takes for a token here.
const UNITS_PER_TOKEN: u64 = 4;

/// A call that was not cleared.
#[derive(Debug)]
struct ClearableCall {
    id: String,
    /// Place of its result: index of the message, and of the block.
    place: Option<(usize, usize)>,
    chars: u64,
}

/// Micro-compact of a growing conversation.
#[derive(Debug)]
pub(super) struct MicroCompact {
    begins_at: u64,
    calls: Vec<ClearableCall>,
}

impl MicroCompact {
    /// Starts with an empty conversation that is compacted at this size.
    pub fn new(threshold: u64) -> Self {
        Self { begins_at: threshold.saturating_sub(WARNING_TOKENS), calls: Vec::new() }
    }

    /// Adds a message, by its index, and its blocks.
    pub fn push(&mut self, index: usize, message: &Value, blocks: &[WeighedBlock]) {
        let content = message["message"]["content"].as_array().into_iter().flatten();
        for (number, (block, weighed)) in content.zip(blocks).enumerate() {
            match block["type"].as_str() {
                Some("tool_use") if block["name"].as_str().is_some_and(|name| TOOLS.contains(&name)) => {
                    let id = block["id"].as_str().unwrap_or_default().to_owned();
                    self.calls.push(ClearableCall { id, place: None, chars: 0 });
                }
                Some("tool_result") => {
                    let id = block["tool_use_id"].as_str().unwrap_or_default();
                    if let Some(call) = self.calls.iter_mut().rfind(|call| call.id == id) {
                        (call.place, call.chars) = (Some((index, number)), weighed.chars);
                    }
                }
                _ => {}
            }
        }
    }

    /// The results that go at a request of this size: indexes of their messages, and cuts.
    pub fn request(&mut self, context_tokens: u64) -> Vec<(usize, BlockCut)> {
        if context_tokens < self.begins_at {
            return Vec::new();
        }
        let tokens = |call: &ClearableCall| call.chars / UNITS_PER_TOKEN;
        let all: u64 = self.calls.iter().map(tokens).sum();
        let mut freed = 0;
        let old = self.calls.len().saturating_sub(KEPT_CALLS);
        let goes: Vec<bool> = self.calls[..old]
            .iter()
            .map(|call| {
                let goes = all - freed > MAX_RESULT_TOKENS;
                freed += if goes { tokens(call) } else { 0 };
                goes
            })
            .collect();
        if freed < MIN_FREED_TOKENS {
            return Vec::new();
        }
        let mut left = Vec::new();
        let mut cuts = Vec::new();
        let goes = goes.into_iter().chain(std::iter::repeat(false));
        for (call, goes) in std::mem::take(&mut self.calls).into_iter().zip(goes) {
            match call.place {
                Some((index, block)) if goes => {
                    let saved = call.chars.saturating_sub(CLEARED.len() as u64);
                    cuts.push((index, BlockCut { block, lost: call.chars, saved, remains: CLEARED.to_owned() }));
                }
                _ => left.push(call),
            }
        }
        self.calls = left;
        cuts
    }
}
