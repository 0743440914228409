//! The policies that are compared, and the cuts of each in a growing conversation.

use std::collections::VecDeque;

use serde_json::Value;

use super::weigh::WeighedBlock;
use crate::message;
use crate::text::utf16_len;
use crate::{self as prune, Boundary, BoundaryTracker, CHARS_PER_TOKEN, PruneSettings, TOKENS_PER_MEDIA_BLOCK};

/// Number of the newest messages of type `user` that the reference design keeps.
const REFERENCE_KEEPS: usize = 4;
/// Minimum tokens of a conversation that the reference design prunes.
const REFERENCE_THRESHOLD: u64 = 20_000;
/// Characters that the reference design keeps of a text.
const REFERENCE_CHARS: u64 = 80;
/// Text that the reference design puts behind them.
const REFERENCE_MARKER: &str = " [earlier context pruned]";

/// Policy by which requests are pruned.
#[derive(Debug, Clone)]
pub enum Policy {
    /// No pruning.
    None,
    /// The reference design: text only, no tail. Every message of type `user` counts as a turn, tool results included, and the
    /// newest four stay whole. Everything before them is cut at each request.
    Reference,
    /// [Ours](crate), with these settings.
    Ours(Box<PruneSettings>),
}

/// The part of a block that a cut removed, in UTF-16 code units.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BlockCut {
    /// Index of the block in its message.
    pub block: usize,
    /// Code units of the original that were removed.
    pub lost: u64,
    /// Reduction of the size: the lost code units, less those of the marker.
    pub saved: u64,
}

/// Tracks a conversation under a policy.
#[derive(Debug)]
pub struct PolicyTracker {
    policy: Policy,
    boundaries: Option<BoundaryTracker>,
    seen: usize,
    chars: u64,
    media: u64,
    /// Indexes of the newest `user` messages, for the reference design, and of the one before them.
    newest: VecDeque<usize>,
}

impl PolicyTracker {
    /// Starts with an empty conversation.
    pub fn new(policy: &Policy) -> Self {
        let boundaries = if let Policy::Ours(settings) = policy { Some(BoundaryTracker::new(settings)) } else { None };
        Self { policy: policy.clone(), boundaries, seen: 0, chars: 0, media: 0, newest: VecDeque::new() }
    }

    /// Adds the next message and its blocks.
    pub fn push(&mut self, message: &Value, blocks: &[WeighedBlock]) {
        match (&self.policy, &mut self.boundaries) {
            (Policy::Ours(settings), Some(boundaries)) if settings.enabled => boundaries.push(message),
            (Policy::Reference, _) => {
                if message["type"] != "attachment" {
                    self.chars += blocks.iter().map(|block| block.chars).sum::<u64>();
                    self.media += blocks.iter().map(|block| block.media).sum::<u64>();
                }
                if message["type"] == "user" {
                    self.newest.push_back(self.seen);
                    if self.newest.len() > REFERENCE_KEEPS + 1 {
                        self.newest.pop_front();
                    }
                }
            }
            _ => {}
        }
        self.seen += 1;
    }

    /// The boundary before which messages may be cut.
    pub fn boundary(&self) -> Boundary {
        if let Some(boundaries) = &self.boundaries {
            return boundaries.now();
        }
        let tokens = (self.chars as f64 / CHARS_PER_TOKEN).ceil() as u64 + self.media * TOKENS_PER_MEDIA_BLOCK;
        let has_older = self.newest.len() > REFERENCE_KEEPS;
        let text = if has_older && tokens >= REFERENCE_THRESHOLD { self.newest[1] } else { 0 };
        Boundary { tools: 0, text }
    }

    /// The cuts of a message at its index in the conversation.
    pub fn block_cuts(&self, index: usize, message: &Value, boundary: Boundary) -> Vec<BlockCut> {
        match &self.policy {
            Policy::None => Vec::new(),
            Policy::Reference => reference_cuts(message),
            Policy::Ours(_) if self.boundaries.as_ref().is_some_and(|boundaries| boundaries.is_in_pinned_turn(index)) => {
                Vec::new()
            }
            Policy::Ours(settings) => {
                let mut missing: Vec<BlockCut> = Vec::new();
                for cut in prune::cuts(index, message, boundary, settings) {
                    let (lost, saved) = (cut.original_chars - cut.kept_chars, cut.saved_chars());
                    match missing.last_mut().filter(|last| last.block == cut.block_index) {
                        Some(last) => (last.lost, last.saved) = (last.lost + lost, last.saved + saved),
                        None => missing.push(BlockCut { block: cut.block_index, lost, saved }),
                    }
                }
                missing
            }
        }
    }
}

fn reference_cuts(message: &Value) -> Vec<BlockCut> {
    if message::is_synthetic(message) {
        return Vec::new();
    }
    let cut = |block: usize, text: &str| {
        let chars = utf16_len(text);
        let saved = chars.checked_sub(REFERENCE_CHARS + utf16_len(REFERENCE_MARKER)).filter(|saved| *saved > 0)?;
        Some(BlockCut { block, lost: chars - REFERENCE_CHARS, saved })
    };
    match message::conversation_content(message) {
        Some(Value::String(text)) => cut(0, text).into_iter().collect(),
        Some(Value::Array(blocks)) => {
            let texts = blocks.iter().enumerate().filter(|(_, block)| block["type"] == "text");
            texts.filter_map(|(index, block)| cut(index, block["text"].as_str()?)).collect()
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn push(tracker: &mut PolicyTracker, message: &Value, chars: u64) {
        tracker.push(message, &[WeighedBlock { chars, ..WeighedBlock::default() }]);
    }

    #[test]
    fn the_reference_design_counts_tool_results_as_turns() {
        let mut tracker = PolicyTracker::new(&Policy::Reference);
        let results = json!({ "type": "user", "message": { "content": [{ "type": "tool_result" }] } });
        for _ in 0..4 {
            push(&mut tracker, &results, 17_499);
        }
        assert_eq!(tracker.boundary(), Boundary::default(), "nothing is older than the newest four");
        push(&mut tracker, &json!({ "type": "assistant" }), 0);
        push(&mut tracker, &results, 0);
        assert_eq!(tracker.boundary(), Boundary::default(), "69,996 characters are less than 20,000 tokens");
        push(&mut tracker, &results, 4);
        assert_eq!(tracker.boundary(), Boundary { tools: 0, text: 2 });
    }

    #[test]
    fn the_reference_design_cuts_text_that_gets_shorter() {
        let long = "x".repeat(106);
        let message = json!({ "type": "user", "message": { "content": [
            { "type": "text", "text": &long[1..] }, { "type": "tool_result", "content": long }, { "type": "text", "text": long },
        ] } });
        assert_eq!(reference_cuts(&message), [BlockCut { block: 2, lost: 26, saved: 1 }]);
        let mut meta = message.clone();
        meta["isMeta"] = true.into();
        assert!(reference_cuts(&meta).is_empty());
    }
}
