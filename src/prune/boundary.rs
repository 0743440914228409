//! The boundary between old and new messages. It moves only once a step, so that the cached prefix stays valid in between.
//!
//! It is a function of the conversation alone, settled by prefixes of the message array. So a longer conversation has the same
//! past.

use std::collections::VecDeque;

use serde_json::Value;

use super::message;
use super::settings::{PruneSettings, Step};
use super::size::ConversationSize;

/// Indexes of messages: everything before them is old.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Boundary {
    /// For results and inputs of tools.
    pub tools: usize,
    /// For texts of people and the model; never behind the other.
    pub text: usize,
}

/// Follows a conversation message by message, at the same small cost for each, and tracks the boundary.
///
/// A *checkpoint* is a place between two messages where the conversation, read from its start, has grown by another
/// [`PruneSettings::step`]. It becomes the boundary at the first message that leaves at least [`PruneSettings::tail_tokens`]
/// behind it, in a conversation of at least [`PruneSettings::threshold_tokens`]. Of the human turns up to that message, the
/// newest [`PruneSettings::keep_turns`] never count as old text. All of this depends only on a prefix of the conversation, so a
/// longer one has the same past: the boundary moves once a step and never back.
#[derive(Debug, Clone)]
pub struct BoundaryTracker {
    settings: PruneSettings,
    /// Number of messages so far.
    seen: usize,
    size: ConversationSize,
    /// Indexes of human prompts.
    prompts: Vec<usize>,
    /// For each of them, `true` if its turn stays whole.
    pinned: Vec<bool>,
    /// Checkpoints that are still too near to the end, with the tokens before each.
    waiting: VecDeque<(usize, u64)>,
    now: Boundary,
}

impl BoundaryTracker {
    /// Starts with an empty conversation.
    pub fn new(settings: &PruneSettings) -> Self {
        Self {
            settings: settings.clone(),
            seen: 0,
            size: ConversationSize::default(),
            prompts: Vec::new(),
            pinned: Vec::new(),
            waiting: VecDeque::new(),
            now: Boundary::default(),
        }
    }

    /// Adds the next message, before or after it was pruned.
    pub fn push(&mut self, message: &Value) {
        let before = self.size.tokens();
        self.size += ConversationSize::of(message);
        let after = self.size.tokens();
        let is_prompt = message::is_human_prompt(message);
        match self.settings.step {
            Step::Tokens(step) if after / step > before / step => self.waiting.push_back((self.seen + 1, after)),
            Step::Turns(step) if is_prompt && !self.prompts.is_empty() && (self.prompts.len() as u64).is_multiple_of(step) => {
                self.waiting.push_back((self.seen, before));
            }
            Step::Tokens(_) | Step::Turns(_) => {}
        }
        if is_prompt {
            self.prompts.push(self.seen);
            self.pinned.push(message::is_pinning_prompt(message));
        }
        self.seen += 1;
        while let Some((place, tokens)) = self.waiting.front().copied()
            && after - tokens >= self.settings.tail_tokens
            && after >= self.settings.threshold_tokens
        {
            self.waiting.pop_front();
            self.now = Boundary { tools: place, text: place.min(self.kept_turns()) };
        }
    }

    /// The present boundary; at the start while nothing is old.
    pub fn now(&self) -> Boundary {
        self.now
    }

    /// `true` if a message belongs to a turn that stays whole at any age: its prompt says `#keep`.
    pub fn is_in_pinned_turn(&self, index: usize) -> bool {
        let turn = self.prompts.partition_point(|prompt| *prompt <= index);
        turn.checked_sub(1).is_some_and(|turn| self.pinned[turn])
    }

    /// Start of the newest turns that are kept; 0 if there are no older ones.
    fn kept_turns(&self) -> usize {
        let keep = usize::try_from(self.settings.keep_turns).unwrap_or(usize::MAX);
        let older = self.prompts.len().saturating_sub(keep);
        if older == 0 { 0 } else { self.prompts[older] }
    }
}
