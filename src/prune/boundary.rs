//! Where old begins: a line that is drawn anew only once a step, so that the cached prefix lives in between.

use std::collections::VecDeque;

use serde_json::Value;

use super::message;
use super::settings::{Settings, Step};
use super::size::Size;

/// Indexes of messages: what stands before is old.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Boundary {
    /// For results and inputs of tools.
    pub tools: usize,
    /// For what people and the model say; never behind the other.
    pub text: usize,
}

/// Follows a conversation message by message, at the same small cost for each, and says where the boundary is.
///
/// A *checkpoint* is a place between two messages where the conversation, read from its start, has got another [`Settings::step`]
/// larger. It becomes the boundary with the first message that leaves at least [`Settings::tail_tokens`] behind it, in a conversation
/// of at least [`Settings::threshold_tokens`]; and of the human turns that there were up to that message, the newest
/// [`Settings::keep_turns`] are kept out of the text that is old. All of this is settled by a prefix of the conversation, so a longer
/// one has the same past: the boundary moves once a step and never back.
#[derive(Debug, Clone)]
pub struct Boundaries {
    settings: Settings,
    /// Messages seen.
    seen: usize,
    size: Size,
    /// Indexes of human prompts.
    prompts: Vec<usize>,
    /// Whether the turn of each of them is to stay whole.
    kept: Vec<bool>,
    /// Checkpoints that are still too near to the end, and the tokens before each.
    waiting: VecDeque<(usize, u64)>,
    now: Boundary,
}

impl Boundaries {
    /// For a conversation that begins.
    pub fn new(settings: &Settings) -> Self {
        Self {
            settings: settings.clone(),
            seen: 0,
            size: Size::default(),
            prompts: Vec::new(),
            kept: Vec::new(),
            waiting: VecDeque::new(),
            now: Boundary::default(),
        }
    }

    /// The next message, before or after it was pruned.
    pub fn push(&mut self, message: &Value) {
        let before = self.size.tokens();
        self.size += Size::of(message);
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
            self.kept.push(message::asks_to_keep(message));
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

    /// Where the boundary is now; at the start while nothing is old.
    pub fn now(&self) -> Boundary {
        self.now
    }

    /// Whether a message is of a turn that stays whole, however old it is: its prompt says `#keep`.
    pub fn is_kept(&self, index: usize) -> bool {
        let turn = self.prompts.partition_point(|prompt| *prompt <= index);
        turn.checked_sub(1).is_some_and(|turn| self.kept[turn])
    }

    /// Where the newest turns begin that are kept; the start when there are no older ones.
    fn kept_turns(&self) -> usize {
        let keep = usize::try_from(self.settings.keep_turns).unwrap_or(usize::MAX);
        let older = self.prompts.len().saturating_sub(keep);
        if older == 0 { 0 } else { self.prompts[older] }
    }
}
