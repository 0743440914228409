//! What is remembered of a session's window.

use serde::{Deserialize, Serialize};

use super::{Phase, Trend};
use ctxbridge_config as config;

/// The state of a session. The file has these names in camel case; those of the design come first, with their meaning.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct State {
    /// The client's name for the session.
    pub session_id: String,
    /// Tokens in the window when it was last looked at.
    pub last_token_estimate: u64,
    /// Their share of the window, 1 being all of it.
    pub last_percentage: f64,
    /// Optimise cycles so far.
    pub prune_count: u64,
    /// Whether the phase is `warn` or above since it was last `ok`.
    pub warning_issued: bool,
    /// When it was last looked at, in milliseconds since 1970.
    pub last_check: i64,
    /// The newest [`State::LONGEST_HISTORY`] measurements, oldest first.
    pub history: Vec<Point>,
    /// Tokens in the window, as the client told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<u64>,
    /// When a compaction was blocked, in milliseconds since 1970, unless the conversation went on since.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocked_at: Option<i64>,
    /// Tokens in the window then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocked_tokens: Option<u64>,
}

/// A measurement.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Point {
    /// Milliseconds since 1970.
    pub ts: i64,
    /// Tokens in the window.
    pub tokens: u64,
    /// Their share of the window, 1 being all of it.
    pub pct: f64,
    /// Human turns so far.
    pub turns: u64,
}

/// What a hook sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// Tokens in the window.
    pub tokens: u64,
    /// Tokens that the window holds: [`config::Autopilot::window_or`] of [`State::window`].
    pub window: u64,
    /// Human turns so far.
    pub turns: u64,
    /// Milliseconds since 1970.
    pub at_ms: i64,
}

/// What a measurement means.
#[derive(Debug, Clone, PartialEq)]
pub struct Observation {
    /// The phase now.
    pub phase: Phase,
    /// The phase before; `ok` when it was never looked at.
    pub before: Phase,
    /// Tokens in the window.
    pub tokens: u64,
    /// Tokens that the window holds.
    pub window: u64,
    /// The share that is used, 1 being all of it; more than 1 when the window is smaller than was thought.
    pub share: f64,
    /// Human turns so far.
    pub turns: u64,
    /// How fast it fills.
    pub trend: Option<Trend>,
}

impl State {
    /// Measurements that are kept.
    pub const LONGEST_HISTORY: usize = 50;

    /// Of a session that was never looked at.
    pub fn new(session_id: &str) -> Self {
        Self { session_id: session_id.to_owned(), ..Self::default() }
    }

    /// Takes a measurement in. The same one again, from another hook of the same turn, is not kept twice.
    pub fn observe(&mut self, seen: Seen, config: &config::Autopilot) -> Observation {
        let Seen { tokens, window, turns, at_ms } = seen;
        let share = share_of(tokens, window);
        let (before, phase) = (Phase::at(self.last_percentage, config), Phase::at(share, config));
        let same = |last: &&mut Point| last.tokens == tokens && last.turns == turns;
        match self.history.last_mut().filter(same) {
            Some(last) => (last.ts, last.pct) = (at_ms, share),
            None => self.history.push(Point { ts: at_ms, tokens, pct: share, turns }),
        }
        self.trim();
        self.last_token_estimate = tokens;
        self.last_percentage = share;
        self.last_check = at_ms;
        self.warning_issued = phase >= Phase::Warn;
        let trend = Trend::of(&self.history, window);
        Observation { phase, before, tokens, window, share, turns, trend }
    }

    /// An optimise cycle was run.
    pub fn optimised(&mut self) {
        self.prune_count = self.prune_count.saturating_add(1);
    }

    /// A compaction is blocked. It has to be stored before the client hears of it: what is not stored could be blocked twice.
    pub fn blocked(&mut self, at_ms: i64) {
        self.blocked_at = Some(at_ms);
        self.blocked_tokens = Some(self.last_token_estimate);
    }

    /// The user sent a prompt, and the last answer had this many tokens before it. Only an answer since shows that the client went on
    /// when it was blocked: one that did not would not do so the next time, either.
    pub fn prompt_seen(&mut self, tokens: u64) {
        if self.blocked_tokens != Some(tokens) {
            self.blocked_at = None;
            self.blocked_tokens = None;
        }
    }

    /// The share of the window that was used when it was last looked at; nothing when it never was.
    pub fn last_share(&self) -> Option<f64> {
        (!self.history.is_empty()).then_some(self.last_percentage)
    }

    pub(super) fn trim(&mut self) {
        let surplus = self.history.len().saturating_sub(Self::LONGEST_HISTORY);
        self.history.drain(..surplus);
    }
}

impl Observation {
    /// Whether the phase is another than before.
    pub fn changed(&self) -> bool {
        self.phase != self.before
    }
}

/// The share of a window that so many tokens take, to six digits: so it is the same when it is read from a file again.
pub(super) fn share_of(tokens: u64, window: u64) -> f64 {
    const DIGITS: f64 = 1e6;
    /// More is no figure.
    const MOST: f64 = 1e3;
    ((tokens as f64 / window.max(1) as f64).min(MOST) * DIGITS).round() / DIGITS
}
