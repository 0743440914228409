//! Stored state of a session's window.

use serde::{Deserialize, Serialize};

use super::{Phase, Point, Trend};
use ctxbridge_config as config;
use ctxbridge_prune::fold::DEFAULT_BASE_TOKENS;
use ctxbridge_prune::window::DEFAULT_WINDOW_TOKENS;

/// State of a session's window. The file has these names in camel case; the names of the design come first, with their meaning
/// there.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WindowState {
    /// The client's name for the session.
    pub session_id: String,
    /// Tokens in the window at the last check.
    pub last_token_estimate: u64,
    /// Their share of the window, where 1 is all of it.
    pub last_percentage: f64,
    /// Number of optimize runs so far.
    pub prune_count: u64,
    /// `true` if the phase has been `warn` or above since it was last `ok`.
    pub warning_issued: bool,
    /// Time of the last check, in milliseconds since 1970.
    pub last_check: i64,
    /// The newest [`WindowState::MAX_HISTORY`] measurements, oldest first.
    pub history: Vec<Point>,
    /// Size of the window in tokens, as given by the client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<u64>,
    /// Size of the window in tokens at the last check, from whatever it was known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_window: Option<u64>,
    /// Tokens of the system prompt and the tools, as far as the session told them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_tokens: Option<u64>,
    /// Time when a compaction was blocked, in milliseconds since 1970; `None` if the conversation has continued since.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocked_at: Option<i64>,
    /// Tokens in the window at that time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocked_tokens: Option<u64>,
}

/// Reading of the window by a hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowReading {
    /// Tokens in the window.
    pub tokens: u64,
    /// Size of the window in tokens, see [`window_of`](super::window_of).
    pub window: u64,
    /// Human turns so far.
    pub turns: u64,
    /// Milliseconds since 1970.
    pub at_ms: i64,
}

/// Interpretation of a reading.
#[derive(Debug, Clone, PartialEq)]
pub struct Observation {
    /// The phase now.
    pub phase: Phase,
    /// The phase before; `ok` if there was no check yet.
    pub before: Phase,
    /// Tokens in the window.
    pub tokens: u64,
    /// Size of the window in tokens.
    pub window: u64,
    /// Share of the window that is used, where 1 is all of it; above 1 if the window is smaller than assumed.
    pub share: f64,
    /// Human turns so far.
    pub turns: u64,
    /// Rate at which it fills.
    pub trend: Option<Trend>,
}

impl WindowState {
    /// Maximum number of measurements kept.
    pub const MAX_HISTORY: usize = 50;

    /// Creates the state of a session without any check.
    pub fn new(session_id: &str) -> Self {
        Self { session_id: session_id.to_owned(), ..Self::default() }
    }

    /// Adds a reading. The same reading from another hook of the same turn is not stored twice.
    pub fn observe(&mut self, seen: WindowReading, config: &config::AutopilotSettings) -> Observation {
        let WindowReading { tokens, window, turns, at_ms } = seen;
        let share = share_of(tokens, window);
        let (before, phase) = (Phase::at(self.last_percentage, config), Phase::at(share, config));
        let same = |last: &&mut Point| last.tokens == tokens && last.turns == turns;
        match self.history.last_mut().filter(same) {
            Some(last) => (last.ts, last.pct) = (at_ms, share),
            None => self.history.push(Point { ts: at_ms, tokens, pct: share, turns }),
        }
        self.trim();
        self.last_token_estimate = tokens;
        self.last_window = Some(window);
        self.last_percentage = share;
        self.last_check = at_ms;
        self.warning_issued = phase >= Phase::Warn;
        let trend = Trend::of(&self.history, window);
        Observation { phase, before, tokens, window, share, turns, trend }
    }

    /// Counts an optimize run.
    pub fn record_optimize_run(&mut self) {
        self.prune_count = self.prune_count.saturating_add(1);
    }

    /// Records that a compaction is blocked. Store it before the client learns of it: else the next one could be blocked as well.
    pub fn record_block(&mut self, at_ms: i64) {
        self.blocked_at = Some(at_ms);
        self.blocked_tokens = Some(self.last_token_estimate);
    }

    /// Records a prompt; `tokens` is the context size of the last answer. Clears the block if there was an answer since. Only that
    /// shows that the client continued after the block; a client that did not would not do so the next time, either.
    pub fn clear_block_if_answered(&mut self, tokens: u64) {
        if self.blocked_tokens != Some(tokens) {
            self.blocked_at = None;
            self.blocked_tokens = None;
        }
    }

    /// Tokens of the next request, if these were said since a compaction.
    pub fn tokens_after_compaction(&self, said_tokens: u64) -> u64 {
        self.base_tokens.unwrap_or(DEFAULT_BASE_TOKENS) + said_tokens
    }

    /// Size of the window in tokens, as far as it is known without a new check.
    pub fn window_tokens(&self, config: &config::AutopilotSettings) -> u64 {
        config.window.or(self.last_window).or(self.window).unwrap_or(DEFAULT_WINDOW_TOKENS)
    }

    /// Returns the share of the window used at the last check; `None` if there was none.
    pub fn last_share(&self) -> Option<f64> {
        (!self.history.is_empty()).then_some(self.last_percentage)
    }

    pub(super) fn trim(&mut self) {
        let surplus = self.history.len().saturating_sub(Self::MAX_HISTORY);
        self.history.drain(..surplus);
    }
}

impl Observation {
    /// `true` if the phase has changed.
    pub fn has_changed(&self) -> bool {
        self.phase != self.before
    }
}

/// Returns the share of a window that `tokens` take, rounded to six digits so that it survives a round trip through a file.
pub(super) fn share_of(tokens: u64, window: u64) -> f64 {
    const DIGITS: f64 = 1e6;
    /// Larger shares are implausible.
    const MAX_SHARE: f64 = 1e3;
    ((tokens as f64 / window.max(1) as f64).min(MAX_SHARE) * DIGITS).round() / DIGITS
}
