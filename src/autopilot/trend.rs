//! Rate at which the window fills.

use serde::{Deserialize, Serialize};

/// A measurement.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Point {
    /// Milliseconds since 1970.
    pub ts: i64,
    /// Tokens in the window.
    pub tokens: u64,
    /// Their share of the window, where 1 is all of it.
    pub pct: f64,
    /// Human turns so far.
    pub turns: u64,
}

/// Rate at which the window fills.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Trend {
    /// Tokens that a turn adds; negative if the context shrinks without a compaction, as when old text is pruned.
    pub tokens_per_turn: f64,
    /// Turns until the window is full at this rate; `None` if it does not fill.
    pub turns_left: Option<u64>,
}

/// Number of newest points used for the rate: older ones belong to other work.
const RECENT_POINTS: usize = 10;

/// A drop below this share of the previous tokens is a compaction, or another session's history. Earlier points then say nothing
/// about the future.
const COMPACTION_RATIO: f64 = 0.75;

/// Minimum rate that counts as growth, in tokens per turn.
const MIN_TOKENS_PER_TURN: f64 = 1.0;

impl Trend {
    /// Computes the trend of a history, oldest first, in a window of `window` tokens. Returns `None` until two turns since the last
    /// compaction are known. Times are ignored, because clocks go backwards and people take breaks.
    pub fn of(history: &[Point], window: u64) -> Option<Self> {
        let breaks = |pair: &[Point]| {
            let fell = (pair[1].tokens as f64) < pair[0].tokens as f64 * COMPACTION_RATIO;
            fell || pair[1].turns < pair[0].turns
        };
        let start = history.windows(2).rposition(breaks).map_or(0, |index| index + 1);
        let start = start.max(history.len().saturating_sub(RECENT_POINTS));
        let (first, last) = (history.get(start)?, history.last()?);
        let turns = last.turns.checked_sub(first.turns).filter(|turns| *turns > 0)?;
        let tokens_per_turn = (last.tokens as f64 - first.tokens as f64) / turns as f64;
        let room = window.saturating_sub(last.tokens) as f64;
        let turns_left = (tokens_per_turn >= MIN_TOKENS_PER_TURN).then(|| (room / tokens_per_turn) as u64);
        Some(Self { tokens_per_turn, turns_left })
    }
}
