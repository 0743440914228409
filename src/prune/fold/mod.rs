/*!
Folding: whole old rounds leave the request, oldest first, until the newest tokens are left that the user wants to keep.

A *round* is an answer of the model, with all messages of its id, and the results of its calls. A folded round is a line or two of a
digest that stands in its place, with a handle by which all of it can be recalled. Prompts stay, but for the rest of very long ones. What the client wrote stays.

It is a function of the messages alone, settled by prefixes of the array: no clock, no randomness, and integers only, so that the twin in
JavaScript comes to the same. Sizes are those of the messages before they were folded.

# When

At each request, with K the tokens to keep, at most half of what the window has beside system prompt and tools:

- the window is full: what was sent last and what came since leave less than [`ROOM_TOKENS`] to where the client compacts; or
- the cache is cold: its entries have expired, so a change costs nothing, and 8,000 tokens or more came since the last time; or
- four times K came since the last time, and the rewrite of what is left (K or more, and half of K before anything is planned) pays.

# What

First all thinking, and what goes beyond 4,000 characters of prompts with more than 6,000, but for those of the
newest human turns. Then, until K is left (when cold, one and a half times K), whichever of these steps is of the
oldest round, counting the tokens behind a round twice for the first kind:

1. a round becomes a line for each call (tool, target, handle) and the start of each text;
2. nothing is left of it but its place in the count of rounds; of the last answer before a prompt, also the start of its text.

A client that asks what is to be kept of a conversation that it is about to compact gets the same ([`Fold::compact`]): if it is long
prompts that fill the window, with fewer of them whole.

Never the newest round, never one with less than [`TAIL_TOKENS`] behind it, never in a turn whose prompt says `#keep`, never with a protected
tool or file. In the newest human turns ([`PruneSettings::keep_turns`]) texts stay whole.
*/

mod account;
mod digest;
pub(crate) mod prompt;
mod round;
mod view;

pub use view::{MessageView, fold};

use serde_json::Value;

use self::account::Account;
use self::round::{Level, Protection, Round};
use super::message;
use super::settings::PruneSettings;
use super::size::{ConversationSize, TOKENS_PER_MEDIA_BLOCK};
use super::window::window_for;

/// Tokens of the system prompt and the tools, until an answer's usage says it.
pub const DEFAULT_BASE_TOKENS: u64 = 40_000;
/// Tokens before the client's compaction at which the window counts as full.
pub const ROOM_TOKENS: i64 = 10_000;
/// Tokens at the end that are never folded.
pub const TAIL_TOKENS: i64 = 8_000;
/// Minimum tokens that came since the last time, when the cache is cold.
const MIN_GROWN_TOKENS: i64 = 8_000;
/// Minimum tokens that are saved, or nothing is done.
const MIN_SAVED_TOKENS: i64 = 4_000;
/// Tokens that a compaction has to free, or it is the client's.
const MIN_FREED_TOKENS: i64 = 4_000;
/// Times K that have to come before a prune that is not free.
const STEPS: i64 = 4;

/// A token has 2.6 UTF-16 code units: with that, sizes agree best with those of real sessions, what the client adds unseen included.
fn tokens(units: i64) -> i64 {
    units * 5 / 13
}

fn units(tokens: i64) -> i64 {
    tokens * 13 / 5
}

/// Tokens that stay by default: 15,000 of a window of 200,000, and 23,000 of 1,000,000.
pub fn default_keep_tokens(window_tokens: u64) -> u64 {
    13_000 + window_tokens / 100
}

/// A message of the conversation.
#[derive(Debug, Clone, Copy, Default)]
struct FoldedMessage {
    /// Its size, and that of the thinking in it.
    units: i64,
    thinking_units: i64,
    is_thinking_gone: bool,
    /// `true` if its turn stays whole.
    is_pinned: bool,
    /// Its round.
    round: Option<usize>,
}

/// A human prompt.
#[derive(Debug, Clone, Copy)]
struct Prompt {
    index: usize,
    is_pinned: bool,
    /// Code units that go when it is old.
    long_units: i64,
    is_cut: bool,
}

/// A conversation, and what of it is folded.
#[derive(Debug, Clone)]
pub struct Fold {
    settings: PruneSettings,
    protection: Protection,
    messages: Vec<FoldedMessage>,
    rounds: Vec<Round>,
    prompts: Vec<Prompt>,
    /// Id of the newest answer.
    answer: Option<String>,
    account: Account,
    base: Option<i64>,
    /// Tokens that were read for the newest answer.
    usage: Option<i64>,
    /// The most that was read for an answer.
    largest: i64,
    /// The window of the model that answered last, if it is known.
    model_window: Option<u64>,
    /// `true` if usage is told, rather than read from the messages.
    is_told: bool,
    /// Number of messages at the newest request.
    requested: usize,
    /// Newest timestamp, and that at the request before.
    newest_ms: Option<i64>,
    requested_ms: Option<i64>,
    /// Size of the conversation as it is sent, and what the last prune left of it.
    left: i64,
    after: i64,
    /// `true` if requests are not pruned.
    only_compacts: bool,
    /// Number of prunes.
    pub prunes: u64,
}

/// A step of a plan: the new level of a round.
type Step = (usize, Level);

impl Fold {
    /// Starts with an empty conversation.
    pub fn new(settings: &PruneSettings) -> Self {
        Self {
            settings: settings.clone(),
            protection: Protection::of(settings),
            messages: Vec::new(),
            rounds: Vec::new(),
            prompts: Vec::new(),
            answer: None,
            account: Account::default(),
            base: None,
            usage: None,
            largest: 0,
            model_window: None,
            is_told: false,
            requested: 0,
            newest_ms: None,
            requested_ms: None,
            left: 0,
            after: 0,
            only_compacts: false,
            prunes: 0,
        }
    }

    /// Starts with an empty conversation of which nothing is folded but in the place of a compaction.
    pub fn for_compactions(settings: &PruneSettings) -> Self {
        Self { only_compacts: true, ..Self::new(settings) }
    }

    /// Adds the next message, as it was before anything was folded. Before an answer stands a request.
    pub fn push(&mut self, message: &Value) {
        let id = round::answer_id(message);
        if id.is_some() && id != self.answer.as_deref() {
            if !round::is_made_anew(message) {
                self.request();
                self.account.note_cache_writes(&message["message"]["usage"]);
                if let Some(model) = message["message"]["model"].as_str() {
                    self.model_window = self.settings.model_windows.of(model);
                }
            }
            self.answer = id.map(str::to_owned);
            self.rounds.push(Round::new(self.messages.len(), self.prompts.len(), &self.settings));
        }
        let index = self.messages.len();
        let mut new = FoldedMessage { units: size(message), ..FoldedMessage::default() };
        if id.is_some() && !self.is_told {
            self.note_usage(round::context_tokens(message));
        }
        if id.is_some() || round::has_result(message) {
            new.thinking_units = round::thinking_units(message);
            new.round = self.rounds.len().checked_sub(1);
            if let Some(round) = self.rounds.last_mut() {
                round.add(index, message, new.units, &self.protection);
            }
        }
        if let Some(earlier) = round::EarlierDigest::of(message).filter(|_| self.only_compacts) {
            new.round = Some(self.rounds.len());
            self.rounds.push(Round::of_digest(index, self.prompts.len(), new.units, earlier, &self.settings));
        }
        if message::is_human_prompt(message) {
            let is_pinned = message::is_pinning_prompt(message);
            self.prompts.push(Prompt { index, is_pinned, long_units: prompt::long_units(message), is_cut: false });
            if let Some(round) = self.rounds.last_mut() {
                round.ends_turn = true;
            }
        }
        new.is_pinned = self.prompts.last().is_some_and(|prompt| prompt.is_pinned);
        self.newest_ms = self.newest_ms.max(round::timestamp_ms(message));
        self.messages.push(new);
    }

    /// Says what was read for the newest request, where the messages' usage is of other requests.
    pub fn tell_context(&mut self, tokens: u64) {
        self.is_told = true;
        self.note_usage(Some(tokens.cast_signed()));
    }

    /// Says how long cache entries live, where the messages' usage is of other requests.
    pub fn tell_lifetime(&mut self, is_hourly: bool) {
        self.account.is_told_hourly = Some(is_hourly);
    }

    fn note_usage(&mut self, context: Option<i64>) {
        let Some(context) = context else { return };
        self.usage = Some(context);
        self.largest = self.largest.max(context);
        if self.base.is_none() {
            let before = self.messages[..self.requested].iter().map(|message| message.units).sum();
            self.base = Some((context - tokens(before)).max(0));
        }
    }

    /// The window: what is set, or else the model's, or the one that the requests so far need; no larger than what the client compacts by.
    fn window_tokens(&self) -> u64 {
        let settings = &self.settings;
        let window = settings.window_tokens.unwrap_or_else(|| window_for(self.model_window, self.largest.cast_unsigned()));
        settings.compact_window_tokens.map_or(window, |smaller| window.min(smaller))
    }

    /// Decides what is folded in a request with all messages so far. Returns `true` if that changed.
    pub fn request(&mut self) -> bool {
        if self.requested == self.messages.len() {
            return false;
        }
        let new = &self.messages[self.requested..];
        let new_units: i64 = new.iter().map(|message| message.units).sum();
        let answer_units = self.rounds.last().map_or(0, |round| round.answer_units);
        self.account.answered(tokens(answer_units));
        self.requested = self.messages.len();
        self.left += new_units;
        self.account.grow(new_units);

        let base = self.base.unwrap_or(DEFAULT_BASE_TOKENS.cast_signed());
        let window = self.window_tokens();
        let limit = window.cast_signed() - self.settings.reserve_tokens.cast_signed();
        let is_cold = match (self.requested_ms, self.newest_ms) {
            (Some(before), Some(now)) => now - before >= self.account.lifetime_ms(),
            _ => false,
        };
        self.requested_ms = self.newest_ms;
        let filled = self.usage.map_or(base + tokens(self.left), |usage| usage + tokens(new_units));
        if self.only_compacts {
            return false;
        }
        let is_full = filled >= limit - ROOM_TOKENS;
        let grown = tokens(self.left) - tokens(self.after);
        let keep = self.keep(window, limit - base);
        let has_grown = grown >= STEPS * keep && self.account.pays(keep / 2);
        let is_due = is_full || (is_cold && grown >= MIN_GROWN_TOKENS) || has_grown;
        let mut is_pruned = false;
        if is_due && tokens(self.account.whole) >= self.settings.threshold_tokens.cast_signed() {
            let (left, steps) = self.plan(units(if is_cold { keep * 3 / 2 } else { keep }));
            let pays = is_full || is_cold || self.account.pays(tokens(left));
            if tokens(self.left) - tokens(left) >= MIN_SAVED_TOKENS && pays {
                self.apply(&steps);
                (self.left, self.after) = (left, left);
                self.prunes += 1;
                is_pruned = true;
            }
        }
        self.account.request(base, tokens(self.left), is_cold, is_pruned);
        is_pruned
    }

    /// The tokens to keep, where the conversation has this much room.
    fn keep(&self, window: u64, room: i64) -> i64 {
        let wanted = self.settings.keep_tokens.unwrap_or_else(|| default_keep_tokens(window));
        wanted.cast_signed().min(room / 2).max(0)
    }

    /// Folds what the client is about to compact. Returns `false`, and changes nothing, if that would not free enough: then the client
    /// would ask again at the next request.
    pub fn compact(&mut self) -> bool {
        // Counts what is new; whoever folds at requests has done so.
        self.request();
        let base = self.base.unwrap_or(DEFAULT_BASE_TOKENS.cast_signed());
        let window = self.window_tokens();
        let room = window.cast_signed() - self.settings.reserve_tokens.cast_signed() - base;
        let goal = units(self.keep(window, room));
        let before = tokens(self.left);
        let keep_turns = self.settings.keep_turns;
        let mut is_enough = false;
        // Half of the room is free then, so that it is long until the next one; or a quarter at least.
        let goals = [room / 2, room * 3 / 4].into_iter().flat_map(|most| (1..=keep_turns).rev().map(move |turns| (most, turns)));
        for (most, turns) in goals {
            self.settings.keep_turns = turns;
            let (left, steps) = self.plan(goal);
            is_enough = tokens(left) <= most && before - tokens(left) >= MIN_FREED_TOKENS;
            if is_enough {
                self.apply(&steps);
                (self.left, self.after) = (left, left);
                self.prunes += 1;
                break;
            }
        }
        self.settings.keep_turns = keep_turns;
        is_enough
    }

    /// Plans the steps that it takes to come to a goal. Returns what is left, in code units, with them.
    fn plan(&self, goal: i64) -> (i64, Vec<Step>) {
        if self.rounds.is_empty() {
            return (self.left, Vec::new());
        }
        let mut left = self.left - self.old_prompts().map(|number| self.prompts[number].long_units).sum::<i64>();
        for message in &self.messages {
            // That of folded rounds is gone already.
            let is_folded = message.round.is_some_and(|round| self.rounds[round].level != Level::Whole);
            if !message.is_thinking_gone && !is_folded && !message.is_pinned {
                left -= message.thinking_units;
            }
        }
        let mut sizes: Vec<i64> = Vec::with_capacity(self.rounds.len());
        for round in &self.rounds {
            // Texts of turns that have become old since are shortened; once they are, nothing changes.
            let is_settled = round.level != Level::Whole && !round.has_whole_texts;
            let size = if is_settled { round.size } else { self.size_of(round, round.level) };
            let before = if round.level == Level::Whole { size } else { round.size };
            left += size - before;
            sizes.push(size);
        }
        let mut order = Vec::new();
        let mut behind = 0;
        let mut at = self.messages.len();
        for (number, round) in self.rounds.iter().enumerate().rev() {
            behind += self.messages[round.last + 1..at].iter().map(|message| message.units).sum::<i64>();
            at = round.last + 1;
            if number + 1 == self.rounds.len()
                || behind < units(TAIL_TOKENS)
                || !round.is_foldable()
                || self.messages[round.first].is_pinned
            {
                continue;
            }
            for (level, key) in [(Level::Lines, 2 * behind), (Level::Count, behind)] {
                if level > round.level {
                    order.push((-key, number, level));
                }
            }
        }
        order.sort_unstable();
        let mut steps = Vec::new();
        for (_, number, level) in order {
            if left <= goal {
                break;
            }
            let size = self.size_of(&self.rounds[number], level);
            if size < sizes[number] {
                left += size - sizes[number];
                sizes[number] = size;
                steps.push((number, level));
            }
        }
        (left, steps)
    }

    /// The size of a round at a level, as of the newest request. Thinking is no part of it: it goes first.
    fn size_of(&self, round: &Round, level: Level) -> i64 {
        let has_whole_texts = self.has_whole_texts(round);
        match level {
            Level::Whole if self.messages[round.first].is_pinned => round.units,
            Level::Whole => round.units - round.thinking_units,
            level => round.folded_size(level, has_whole_texts),
        }
    }

    fn apply(&mut self, steps: &[Step]) {
        if self.rounds.is_empty() {
            return;
        }
        // Thinking is bound to what stood before it: with models that check that, thinking behind a change is refused.
        for message in &mut self.messages {
            message.is_thinking_gone |= !message.is_pinned;
        }
        for number in self.old_prompts().collect::<Vec<_>>() {
            self.prompts[number].is_cut = true;
        }
        for (number, level) in steps {
            let round = &mut self.rounds[*number];
            (round.level, round.has_whole_texts) = (*level, true);
        }
        let texts: Vec<bool> = self.rounds.iter().map(|round| self.has_whole_texts(round)).collect();
        for (round, has_whole_texts) in self.rounds.iter_mut().zip(texts).filter(|(round, _)| round.has_whole_texts) {
            round.has_whole_texts = has_whole_texts;
            round.size = round.folded_size(round.level, has_whole_texts);
        }
    }

    /// Numbers of the prompts that are older than the newest turns, and whole.
    fn old_prompts(&self) -> impl Iterator<Item = usize> {
        let old = (self.prompts.len() as u64).saturating_sub(self.settings.keep_turns) as usize;
        self.prompts[..old].iter().enumerate().filter(|(_, prompt)| !prompt.is_pinned && !prompt.is_cut).map(|(number, _)| number)
    }

    /// `true` if a round is in one of the newest human turns, whose texts stay.
    fn has_whole_texts(&self, round: &Round) -> bool {
        round.turn as u64 + self.settings.keep_turns > self.prompts.len() as u64
    }
}

/// The size of a message in code units; an image or a document counts as many tokens as anywhere.
fn size(message: &Value) -> i64 {
    let ConversationSize { chars, media_blocks } = ConversationSize::of(message);
    (chars + media_blocks * (TOKENS_PER_MEDIA_BLOCK * 13 / 5)).cast_signed()
}
