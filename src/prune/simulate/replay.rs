//! Replays a session's calls under a policy.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::ops::AddAssign;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::cache::{self, CacheableRequest, SimulatedCache};
use super::conversation::ReplayConversation;
use super::micro_compact::MicroCompact;
use super::needs::{NeedsCount, NeedsCounter, Remains};
use super::policy::{BlockCut, Policy, PolicyTracker};
use super::prices::Price;
use super::references::{BlockPosition, References};
use super::weigh::{WeighedBlock, WeighedConversation};
use crate::CHARS_PER_TOKEN;
use crate::fold::MessageView;
use crate::fold::prompt;
use crate::text::utf16_len;

/// Median of the tokens that 93 real compactions left beside system prompt and tools: the summary, files that the client reads again,
/// and the like.
pub const LEFT_TOKENS: u64 = 12_000;
/// Tokens of the answer with a summary: the summary itself is about half of it, the rest is what the model thinks before.
pub const SUMMARY_OUTPUT_TOKENS: u64 = 6_000;

/// Content id of the block with tools and system.
const SYSTEM: u64 = u64::MAX;

/// Conditions of a replay, apart from the policy.
#[derive(Debug, Clone)]
pub struct ReplayTerms {
    /// Size of the context at which the client compacts.
    pub threshold: u64,
    /// `true` if the client clears old tool results before; see [`micro_compacts`](crate::window::micro_compacts).
    pub micro_compacts: bool,
    /// Model of the cache.
    pub cache: cache::CacheModel,
    /// `true` if cache entries live for an hour rather than for five minutes.
    pub is_hourly: bool,
    /// Prices of tokens.
    pub price: Price,
}

/// Totals of a replay.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct ReplayTotals {
    /// Number of requests: one for each answer, and one for each compaction.
    pub calls: u64,
    /// Tokens sent, charged in any way.
    pub input_tokens: u64,
    /// Tokens read from the cache.
    pub cache_read_tokens: u64,
    /// Tokens written to the cache.
    pub cache_write_tokens: u64,
    /// Tokens that were neither.
    pub uncached_tokens: u64,
    /// Tokens of the answers.
    pub output_tokens: u64,
    /// Cost, in US dollars.
    pub cost_usd: f64,
    /// Tokens of the largest request.
    pub peak_tokens: u64,
    /// Number of compactions that the client would have made.
    pub compactions: u64,
    /// Number of those that were answered, so that it made none.
    #[serde(default)]
    pub answered: u64,
    /// Number of requests that, because of a cut, do not begin with the whole request before.
    pub prefix_changes: u64,
    /// UTF-16 code units of all texts up to the last request.
    pub text_chars: u64,
    /// Number of them that the last request has, word for word.
    pub verbatim_chars: u64,
    /// Counts of the texts that answers needed; zeros if that was not looked at.
    #[serde(flatten)]
    pub needs: NeedsCount,
}

impl ReplayTotals {
    /// Share of all texts that the last request still has; 1 if there are none.
    pub fn verbatim_share(&self) -> f64 {
        if self.text_chars == 0 { 1.0 } else { self.verbatim_chars as f64 / self.text_chars as f64 }
    }
}

impl AddAssign for ReplayTotals {
    fn add_assign(&mut self, other: Self) {
        self.calls += other.calls;
        self.input_tokens += other.input_tokens;
        self.cache_read_tokens += other.cache_read_tokens;
        self.cache_write_tokens += other.cache_write_tokens;
        self.uncached_tokens += other.uncached_tokens;
        self.output_tokens += other.output_tokens;
        self.cost_usd += other.cost_usd;
        self.peak_tokens = self.peak_tokens.max(other.peak_tokens);
        self.compactions += other.compactions;
        self.answered += other.answered;
        self.prefix_changes += other.prefix_changes;
        self.text_chars += other.text_chars;
        self.verbatim_chars += other.verbatim_chars;
        self.needs += other.needs;
    }
}

/// Result of a replay.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ReplayOutcome {
    /// The totals.
    pub totals: ReplayTotals,
    /// Number of each answer, and size of its context in tokens. At a compaction there are two: the size before, then the size
    /// after, both with the number of the answer.
    pub contexts: Vec<(usize, u64)>,
}

/// Replays the calls of a conversation. With its references, it also counts what the answers lost.
pub fn replay(
    conversation: &ReplayConversation,
    weighed: &WeighedConversation,
    references: Option<&References>,
    policy: &Policy,
    terms: &ReplayTerms,
) -> ReplayOutcome {
    let mut session = Replayer::new(conversation, weighed, policy, terms);
    let mut needs = references.map(|references| NeedsCounter::new(conversation, references));
    let mut next = 0;
    for (number, call) in conversation.calls.iter().enumerate() {
        for index in next..call.messages_before {
            session.add(index);
        }
        next = call.messages_before;
        let changes = session.clear_old_results() | session.prune();
        session.outcome.totals.prefix_changes += u64::from(changes);
        if session.prompt.tokens() >= terms.threshold && session.live.iter().any(|message| message.source.is_some()) {
            session.outcome.contexts.push((number, session.prompt.tokens()));
            if session.answer() {
                session.outcome.totals.answered += 1;
                session.outcome.totals.prefix_changes += 1;
            } else {
                session.send(call.at_ms, SUMMARY_OUTPUT_TOKENS);
                if let Some(needs) = &mut needs {
                    needs.compact(call.messages_before);
                }
                session.compact();
            }
        }
        session.outcome.contexts.push((number, session.prompt.tokens()));
        session.send(call.at_ms, call.output_tokens);
        if let Some(needs) = &needs {
            let counted = needs.count(number, &|place| session.remains_of(place));
            session.outcome.totals.needs += counted;
        }
    }
    session.finish()
}

/// A message of the client's array.
struct LiveMessage {
    /// Index in the conversation; none for the summary.
    source: Option<usize>,
    /// Position of its first block in the prompt.
    start: usize,
    cuts: Vec<BlockCut>,
    view: MessageView,
}

struct Replayer<'a> {
    conversation: &'a ReplayConversation,
    weighed: &'a WeighedConversation,
    policy: &'a Policy,
    terms: &'a ReplayTerms,
    summary: Value,
    tracker: PolicyTracker,
    live: Vec<LiveMessage>,
    /// Index in `live` of each message of the conversation.
    live_at: HashMap<usize, usize>,
    /// Index before which the reference design has cut.
    boundary: usize,
    micro_compact: Option<MicroCompact>,
    prompt: CacheableRequest,
    /// Number of blocks of the last request, as long as they are in the prompt.
    sent: usize,
    cache: SimulatedCache,
    outcome: ReplayOutcome,
}

impl<'a> Replayer<'a> {
    fn new(
        conversation: &'a ReplayConversation,
        weighed: &'a WeighedConversation,
        policy: &'a Policy,
        terms: &'a ReplayTerms,
    ) -> Self {
        let mut prompt = CacheableRequest::default();
        prompt.push(SYSTEM, weighed.base, None);
        let text = "x".repeat((LEFT_TOKENS as f64 * CHARS_PER_TOKEN) as usize);
        Self {
            conversation,
            weighed,
            policy,
            terms,
            summary: json!({ "type": "user", "isCompactSummary": true, "message": { "role": "user", "content": text } }),
            tracker: PolicyTracker::new(policy, terms.is_hourly),
            live: Vec::new(),
            live_at: HashMap::new(),
            boundary: 0,
            micro_compact: terms.micro_compacts.then(|| MicroCompact::new(terms.threshold)),
            prompt,
            sent: 0,
            cache: SimulatedCache::new(terms.cache, terms.is_hourly),
            outcome: ReplayOutcome::default(),
        }
    }

    /// Adds a message to the conversation.
    fn add(&mut self, index: usize) {
        let message = &self.conversation.messages[index];
        if message.is_stand_in {
            return;
        }
        let blocks = &self.weighed.messages[index];
        self.outcome.totals.text_chars += blocks.iter().map(|block| block.chars).sum::<u64>();
        self.tracker.push(&message.value, blocks);
        let live = LiveMessage { source: Some(index), start: self.prompt.len(), cuts: Vec::new(), view: MessageView::Whole };
        push_blocks(&mut self.prompt, self.weighed, &live);
        if let Some(micro_compact) = &mut self.micro_compact {
            micro_compact.push(self.live.len(), &message.value, blocks);
        }
        self.live_at.insert(index, self.live.len());
        self.live.push(live);
    }

    /// Returns the part of a block that the newest request had.
    fn remains_of(&self, (message, block): BlockPosition) -> Remains<'_> {
        let Some(live) = self.live_at.get(&message).and_then(|at| self.live.get(*at)) else { return Remains::Nothing };
        let digest = match &live.view {
            MessageView::Whole | MessageView::WithoutThinking | MessageView::Short => None,
            MessageView::Gone(None) => return Remains::Nothing,
            MessageView::Gone(Some(at)) => self.live.get(*at).map(|live| &live.view),
            digest @ MessageView::Digest(_) => Some(digest),
        };
        if let Some(MessageView::Digest(text)) = digest {
            return Remains::Part(text);
        }
        let cut = live.cuts.iter().find(|cut| cut.block == block);
        cut.map_or(Remains::Whole, |cut| Remains::Part(&cut.remains))
    }

    /// Clears old results as the client does. Returns `true` if this changes a part that was sent before.
    fn clear_old_results(&mut self) -> bool {
        let context = self.prompt.tokens();
        let cuts = self.micro_compact.as_mut().map(|micro_compact| micro_compact.request(context)).unwrap_or_default();
        let mut changed = Vec::new();
        for (index, cut) in cuts {
            let live = &mut self.live[index];
            if live.view == MessageView::Whole {
                live.cuts.push(cut);
                live.cuts.sort_by_key(|cut| cut.block);
                changed.push(index);
            }
        }
        changed.sort_unstable();
        self.lay_out_from(changed.first().copied())
    }

    /// Prunes what became old since the last time. Returns `true` if this changes a part that was sent before.
    fn prune(&mut self) -> bool {
        let mut changed = Vec::new();
        match &mut self.tracker {
            PolicyTracker::None => {}
            PolicyTracker::Reference(tracker) => {
                let boundary = tracker.boundary();
                for index in self.boundary.min(boundary)..boundary {
                    let Some(source) = self.live.get(index).and_then(|live| live.source) else { continue };
                    let cuts = tracker.block_cuts(&self.conversation.messages[source].value);
                    if !cuts.is_empty() {
                        self.live[index].cuts.extend(cuts);
                        self.live[index].cuts.sort_by_key(|cut| cut.block);
                        changed.push(index);
                    }
                }
                self.boundary = boundary;
            }
            PolicyTracker::Fold(fold) => {
                if fold.request() {
                    changed = self.show_fold();
                }
            }
        }
        self.lay_out_from(changed.first().copied())
    }

    /// Answers a compaction, if the policy does.
    fn answer(&mut self) -> bool {
        let is_answered = match &mut self.tracker {
            PolicyTracker::Fold(fold) => self.policy.answers() && fold.compact(),
            _ => false,
        };
        if is_answered {
            let changed = self.show_fold();
            self.lay_out_from(changed.first().copied());
        }
        is_answered
    }

    /// Shows messages as the fold has them now. Returns the indexes of those that changed.
    fn show_fold(&mut self) -> Vec<usize> {
        let PolicyTracker::Fold(fold) = &self.tracker else { return Vec::new() };
        let value = |live: &LiveMessage| live.source.map(|source| &self.conversation.messages[source].value);
        let views = fold.views(self.live.iter().map(|live| value(live).unwrap_or(&self.summary)));
        let mut changed = Vec::new();
        for (index, (live, view)) in self.live.iter_mut().zip(views).enumerate() {
            if live.view != view {
                if let (MessageView::Short, Some(prompt)) = (&view, value(live)) {
                    live.cuts = prompt_cuts(prompt);
                }
                live.view = view;
                changed.push(index);
            }
        }
        changed
    }

    /// Makes the prompt anew from a message on. Returns `true` if this changes a part that was sent before.
    fn lay_out_from(&mut self, first: Option<usize>) -> bool {
        let Some(first) = first else { return false };
        let start = self.live[first].start;
        self.prompt.truncate(start);
        for live in &mut self.live[first..] {
            live.start = self.prompt.len();
            push_blocks(&mut self.prompt, self.weighed, live);
        }
        start < self.sent
    }

    fn compact(&mut self) {
        self.outcome.totals.compactions += 1;
        self.tracker = PolicyTracker::new(self.policy, self.terms.is_hourly);
        self.boundary = 0;
        self.micro_compact = self.terms.micro_compacts.then(|| MicroCompact::new(self.terms.threshold));
        let chars = (LEFT_TOKENS as f64 * CHARS_PER_TOKEN) as u64;
        self.tracker.push(&self.summary, &[WeighedBlock { chars, ..WeighedBlock::default() }]);
        self.prompt.truncate(1);
        self.live = vec![LiveMessage { source: None, start: 1, cuts: Vec::new(), view: MessageView::Whole }];
        self.live_at.clear();
        // Each summary says something else.
        self.prompt.push(SYSTEM - self.outcome.totals.compactions, LEFT_TOKENS, None);
    }

    fn send(&mut self, at_ms: i64, output_tokens: u64) {
        let served = self.cache.send(&mut self.prompt, at_ms);
        self.sent = self.prompt.len();
        let context = self.prompt.tokens();
        if let PolicyTracker::Fold(fold) = &mut self.tracker {
            fold.tell_context(context);
        }
        let totals = &mut self.outcome.totals;
        totals.calls += 1;
        totals.input_tokens += context;
        totals.cache_read_tokens += served.read;
        totals.cache_write_tokens += served.written;
        totals.uncached_tokens += served.uncached;
        totals.output_tokens += output_tokens;
        totals.cost_usd += self.terms.price.of(served, output_tokens);
        totals.peak_tokens = totals.peak_tokens.max(context);
    }

    fn finish(mut self) -> ReplayOutcome {
        for live in &self.live {
            let blocks = live.source.map_or(&[][..], |source| &self.weighed.messages[source]);
            let said = match live.view {
                MessageView::Whole | MessageView::Short => blocks.iter().map(|block| block.chars).sum::<u64>(),
                MessageView::WithoutThinking => blocks.iter().filter(|block| !block.is_thinking).map(|block| block.chars).sum(),
                MessageView::Gone(_) | MessageView::Digest(_) => 0,
            };
            let lost = live.cuts.iter().map(|missing| missing.lost).sum::<u64>();
            self.outcome.totals.verbatim_chars += said.saturating_sub(lost);
        }
        self.outcome
    }
}

/// Adds the blocks of a message to the prompt, after its cuts.
fn push_blocks(prompt: &mut CacheableRequest, weighed: &WeighedConversation, live: &LiveMessage) {
    let Some(source) = live.source else {
        return;
    };
    if let MessageView::Digest(text) = &live.view {
        let tokens = utf16_len(text) as f64 / CHARS_PER_TOKEN * weighed.slope;
        return prompt.push(hash_of(text), tokens.round() as u64, None);
    }
    if matches!(live.view, MessageView::Gone(_)) {
        return;
    }
    let mut missing = live.cuts.iter().peekable();
    for (index, block) in weighed.messages[source].iter().enumerate() {
        if block.is_thinking && live.view == MessageView::WithoutThinking {
            continue;
        }
        let saved = missing.next_if(|missing| missing.block == index).map_or(0, |missing| missing.saved);
        prompt.push(content(source, index, saved), shortened(block, saved), block.run);
    }
}

fn hash_of(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

/// The cuts of the long texts of a prompt.
fn prompt_cuts(message: &Value) -> Vec<BlockCut> {
    let cut = |(block, text): (usize, &str)| {
        let remains = prompt::shortened(message, block, text);
        let saved = utf16_len(text).saturating_sub(utf16_len(&remains));
        BlockCut { block, lost: saved, saved, remains }
    };
    prompt::long_texts(message).into_iter().map(cut).collect()
}

/// Identifies the content of a block: its position, and how much was cut of it.
fn content(message: usize, block: usize, saved: u64) -> u64 {
    ((message as u64) << 40) ^ ((block as u64) << 28) ^ saved
}

/// The tokens of a block with some of its characters cut.
fn shortened(block: &WeighedBlock, saved: u64) -> u64 {
    if saved == 0 || block.chars == 0 {
        return block.tokens;
    }
    let estimate = |chars: u64| WeighedBlock { chars, ..*block }.estimate();
    let share = estimate(block.chars.saturating_sub(saved)) / estimate(block.chars);
    block.unseen + ((block.tokens - block.unseen) as f64 * share).round() as u64
}

#[cfg(test)]
#[path = "replay/tests.rs"]
mod tests;
