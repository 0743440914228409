//! How fast the window fills.

use serde::Serialize;

use super::Point;

/// How fast the window fills.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Trend {
    /// Tokens that a turn adds; negative where the context shrinks without being compacted, as it does when old text is pruned.
    pub tokens_per_turn: f64,
    /// Turns until the window is full at this rate; nothing when it does not fill.
    pub turns_left: Option<u64>,
}

/// Points that the rate is taken from: older ones tell of other work.
const RECENT: usize = 10;

/// A fall below this share of the tokens before is a compaction, or another session's history; what lies before it says nothing
/// about what comes.
const COMPACTED: f64 = 0.75;

/// Slower than this, in tokens a turn, is no growth.
const STANDSTILL: f64 = 1.0;

impl Trend {
    /// The trend of a history, oldest first, in a window of so many tokens. Nothing until two turns since the last compaction are
    /// known. Times are not looked at, since clocks go backwards and people go for lunch.
    pub fn of(history: &[Point], window: u64) -> Option<Self> {
        let breaks = |pair: &[Point]| {
            let fell = (pair[1].tokens as f64) < pair[0].tokens as f64 * COMPACTED;
            fell || pair[1].turns < pair[0].turns
        };
        let start = history.windows(2).rposition(breaks).map_or(0, |index| index + 1);
        let start = start.max(history.len().saturating_sub(RECENT));
        let (first, last) = (history.get(start)?, history.last()?);
        let turns = last.turns.checked_sub(first.turns).filter(|turns| *turns > 0)?;
        let tokens_per_turn = (last.tokens as f64 - first.tokens as f64) / turns as f64;
        let room = window.saturating_sub(last.tokens) as f64;
        let turns_left = (tokens_per_turn >= STANDSTILL).then(|| (room / tokens_per_turn) as u64);
        Some(Self { tokens_per_turn, turns_left })
    }
}
