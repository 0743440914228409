//! The policies that are compared, and the cuts of each in a growing conversation.

use std::collections::VecDeque;

use serde_json::Value;

use super::weigh::WeighedBlock;
use crate::fold::{Fold, FoldSettings};
use crate::message;
use crate::text::{self, utf16_len};
use crate::{self as prune, Boundary, BoundaryTracker, CHARS_PER_TOKEN, PruneSettings, TOKENS_PER_MEDIA_BLOCK, TextCut};

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
    /// Steps and a tail: [ours](crate), with these settings.
    Ours(Box<PruneSettings>),
    /// Whole old rounds are [folded](crate::fold).
    Fold(Box<FoldSettings>),
}

/// The part of a block that a cut removed, in UTF-16 code units.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BlockCut {
    /// Index of the block in its message.
    pub block: usize,
    /// Code units of the original that were removed.
    pub lost: u64,
    /// Reduction of the size: the lost code units, less those of the marker.
    pub saved: u64,
    /// The texts of the block after the cut.
    pub remains: String,
}

/// Tracks a conversation under a policy.
#[derive(Debug)]
pub struct PolicyTracker {
    policy: Policy,
    boundaries: Option<BoundaryTracker>,
    pub(super) fold: Option<Fold>,
    seen: usize,
    chars: u64,
    media: u64,
    /// Indexes of the newest `user` messages, for the reference design, and of the one before them.
    newest: VecDeque<usize>,
}

impl PolicyTracker {
    /// Starts with an empty conversation.
    pub fn new(policy: &Policy, is_hourly: bool) -> Self {
        let boundaries = if let Policy::Ours(settings) = policy { Some(BoundaryTracker::new(settings)) } else { None };
        let fold = if let Policy::Fold(settings) = policy { Some(Fold::new(settings)) } else { None };
        let fold = fold.map(|mut fold| {
            fold.tell_lifetime(is_hourly);
            fold
        });
        Self { policy: policy.clone(), boundaries, fold, seen: 0, chars: 0, media: 0, newest: VecDeque::new() }
    }

    /// Adds the next message and its blocks.
    pub fn push(&mut self, message: &Value, blocks: &[WeighedBlock]) {
        match (&self.policy, &mut self.boundaries) {
            (Policy::Ours(settings), Some(boundaries)) if settings.enabled => boundaries.push(message),
            (Policy::Fold(_), _) => {
                if let Some(fold) = &mut self.fold {
                    fold.push(message);
                }
            }
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

    /// The fold, if the policy is one.
    pub fn fold(&mut self) -> Option<&mut Fold> {
        self.fold.as_mut()
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
            Policy::None | Policy::Fold(_) => Vec::new(),
            Policy::Reference => reference_cuts(message),
            Policy::Ours(_) if self.boundaries.as_ref().is_some_and(|boundaries| boundaries.is_in_pinned_turn(index)) => {
                Vec::new()
            }
            Policy::Ours(settings) => {
                let cuts = prune::cuts(index, message, boundary, settings);
                cuts.chunk_by(|a, b| a.block_index == b.block_index).map(|cuts| of_block(message, cuts)).collect()
            }
        }
    }
}

/// All cuts of one block as one.
fn of_block(message: &Value, cuts: &[TextCut]) -> BlockCut {
    let block_index = cuts.first().map_or(0, |cut| cut.block_index);
    let content = message::conversation_content(message);
    let texts = match content {
        Some(Value::Array(blocks)) => message::all_texts_of_block(blocks.get(block_index).unwrap_or(&Value::Null)),
        Some(Value::String(text)) => vec![(None, text.as_str())],
        _ => Vec::new(),
    };
    let remains = texts.into_iter().map(|(part, text)| {
        let cut = cuts.iter().find(|cut| cut.part == part && prune::text_at(message, block_index, part) == Some(text));
        cut.map_or(text, |cut| text::prefix(text, cut.kept_chars))
    });
    BlockCut {
        block: block_index,
        lost: cuts.iter().map(|cut| cut.original_chars - cut.kept_chars).sum(),
        saved: cuts.iter().map(TextCut::saved_chars).sum(),
        remains: remains.collect::<Vec<_>>().join("\n"),
    }
}

fn reference_cuts(message: &Value) -> Vec<BlockCut> {
    if message::is_synthetic(message) {
        return Vec::new();
    }
    let cut = |block: usize, text: &str| {
        let chars = utf16_len(text);
        let saved = chars.checked_sub(REFERENCE_CHARS + utf16_len(REFERENCE_MARKER)).filter(|saved| *saved > 0)?;
        let remains = text::prefix(text, REFERENCE_CHARS).to_owned();
        Some(BlockCut { block, lost: chars - REFERENCE_CHARS, saved, remains })
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
        let mut tracker = PolicyTracker::new(&Policy::Reference, false);
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
        assert_eq!(reference_cuts(&message), [BlockCut { block: 2, lost: 26, saved: 1, remains: long[..80].to_owned() }]);
        let mut meta = message.clone();
        meta["isMeta"] = true.into();
        assert!(reference_cuts(&meta).is_empty());
    }
}
