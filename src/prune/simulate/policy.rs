//! The policies that are compared, and the cuts of each in a growing conversation.

use std::collections::VecDeque;

use serde_json::Value;

use super::weigh::WeighedBlock;
use crate::fold::Fold;
use crate::text::{self, utf16_len};
use crate::window::reserve_tokens;
use crate::{CHARS_PER_TOKEN, PrunePolicy, PruneSettings, TOKENS_PER_MEDIA_BLOCK, reference};

/// Policy by which requests are pruned.
#[derive(Debug, Clone)]
pub enum Policy {
    /// No pruning.
    None,
    /// The [reference design](mod@crate::reference), with the numbers of these settings.
    Reference(Box<PruneSettings>),
    /// [Folding](crate::fold), with these settings.
    Fold(Box<PruneSettings>),
    /// Nothing but an [answer](crate::compaction) to each compaction, with these settings.
    Mod(Box<PruneSettings>),
    /// Folding, and an answer where the client compacts all the same.
    Both(Box<PruneSettings>),
}

impl Policy {
    /// A policy with the user's settings, on even if they switch it off, for a session of a release of the client, with this window if
    /// they set none.
    pub fn of(policy: PrunePolicy, settings: &PruneSettings, window_tokens: u64, version: Option<&str>) -> Self {
        let window_tokens = settings.window_tokens.or(Some(window_tokens));
        let reserve_tokens = reserve_tokens(version);
        let settings = Box::new(PruneSettings { enabled: true, policy, window_tokens, reserve_tokens, ..settings.clone() });
        match policy {
            PrunePolicy::Fold => Self::Fold(settings),
            PrunePolicy::Reference => Self::Reference(settings),
        }
    }

    /// The same with answers to compactions, instead of folding at each request or beside it.
    pub fn answering(self, beside_folding: bool) -> Self {
        match self {
            Self::Fold(settings) if beside_folding => Self::Both(settings),
            Self::Fold(settings) => Self::Mod(settings),
            other => other,
        }
    }

    /// `true` if compactions are answered.
    pub(super) fn answers(&self) -> bool {
        matches!(self, Self::Mod(_) | Self::Both(_))
    }
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
pub enum PolicyTracker {
    /// No pruning.
    None,
    /// The reference design.
    Reference(Box<ReferenceTracker>),
    /// Folding.
    Fold(Box<Fold>),
}

/// The boundary of the reference design.
#[derive(Debug)]
pub struct ReferenceTracker {
    settings: PruneSettings,
    seen: usize,
    chars: u64,
    media: u64,
    /// Indexes of the newest `user` messages, and of the one before them.
    newest: VecDeque<usize>,
}

impl PolicyTracker {
    /// Starts with an empty conversation, and cache entries that live for an hour or for five minutes.
    pub fn new(policy: &Policy, is_hourly: bool) -> Self {
        match policy {
            Policy::None => Self::None,
            Policy::Reference(settings) => Self::Reference(Box::new(ReferenceTracker::new(settings))),
            Policy::Fold(settings) | Policy::Mod(settings) | Policy::Both(settings) => {
                let mut fold =
                    if matches!(policy, Policy::Mod(_)) { Fold::for_compactions(settings) } else { Fold::new(settings) };
                fold.tell_lifetime(is_hourly);
                Self::Fold(Box::new(fold))
            }
        }
    }

    /// Adds the next message and its blocks.
    pub fn push(&mut self, message: &Value, blocks: &[WeighedBlock]) {
        match self {
            Self::None => {}
            Self::Reference(tracker) => tracker.push(message, blocks),
            Self::Fold(fold) => fold.push(message),
        }
    }
}

impl ReferenceTracker {
    fn new(settings: &PruneSettings) -> Self {
        Self { settings: settings.clone(), seen: 0, chars: 0, media: 0, newest: VecDeque::new() }
    }

    fn push(&mut self, message: &Value, blocks: &[WeighedBlock]) {
        if message["type"] != "attachment" {
            self.chars += blocks.iter().map(|block| block.chars).sum::<u64>();
            self.media += blocks.iter().map(|block| block.media).sum::<u64>();
        }
        if message["type"] == "user" {
            self.newest.push_back(self.seen);
            if self.newest.len() as u64 > self.settings.keep_turns + 1 {
                self.newest.pop_front();
            }
        }
        self.seen += 1;
    }

    /// The index before which messages are cut.
    pub fn boundary(&self) -> usize {
        let tokens = (self.chars as f64 / CHARS_PER_TOKEN).ceil() as u64 + self.media * TOKENS_PER_MEDIA_BLOCK;
        let has_older = self.newest.len() as u64 > self.settings.keep_turns;
        if has_older && tokens >= self.settings.threshold_tokens { self.newest[1] } else { 0 }
    }

    /// The cuts of a message before the boundary.
    pub fn block_cuts(&self, message: &Value) -> Vec<BlockCut> {
        let cut = |(block, text): (usize, &str)| {
            let short = reference::shortened(text, self.settings.max_chars)?;
            let kept = text::prefix(text, self.settings.max_chars);
            let lost = utf16_len(text) - utf16_len(kept);
            Some(BlockCut { block, lost, saved: utf16_len(text) - utf16_len(&short), remains: kept.to_owned() })
        };
        reference::cuttable_texts(message).into_iter().filter_map(cut).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn push(tracker: &mut ReferenceTracker, message: &Value, chars: u64) {
        tracker.push(message, &[WeighedBlock { chars, ..WeighedBlock::default() }]);
    }

    #[test]
    fn the_reference_design_counts_tool_results_as_turns() {
        let mut tracker = ReferenceTracker::new(&PruneSettings::default());
        let results = json!({ "type": "user", "message": { "content": [{ "type": "tool_result" }] } });
        for _ in 0..4 {
            push(&mut tracker, &results, 17_499);
        }
        assert_eq!(tracker.boundary(), 0, "nothing is older than the newest four");
        push(&mut tracker, &json!({ "type": "assistant" }), 0);
        push(&mut tracker, &results, 0);
        assert_eq!(tracker.boundary(), 0, "69,996 characters are less than 20,000 tokens");
        push(&mut tracker, &results, 4);
        assert_eq!(tracker.boundary(), 2);
    }

    #[test]
    fn the_reference_design_cuts_text_that_gets_shorter() {
        let long = "x".repeat(106);
        let message = json!({ "type": "user", "message": { "content": [
            { "type": "text", "text": &long[1..] }, { "type": "tool_result", "content": long }, { "type": "text", "text": long },
        ] } });
        let tracker = ReferenceTracker::new(&PruneSettings::default());
        assert_eq!(tracker.block_cuts(&message), [BlockCut { block: 2, lost: 26, saved: 1, remains: long[..80].to_owned() }]);
        let mut meta = message.clone();
        meta["isMeta"] = true.into();
        assert!(tracker.block_cuts(&meta).is_empty());
    }
}
