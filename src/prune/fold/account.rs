//! Costs of the requests so far, and those that they would have had unpruned, in a window without end: a prune that is not free has to be
//! within what was saved.

use serde_json::Value;

/// Prices of a token, in hundredths of a token of plain input: read from the cache, and answered.
const READ: i64 = 10;
const OUTPUT: i64 = 500;
/// Price of a token written to the cache, for five minutes or for an hour.
const WRITE: i64 = 125;
const HOURLY_WRITE: i64 = 200;

/// Thousandths of the unpruned cost that a session may be ahead of it: at no moment has pruning cost more than this.
const BUDGET: i64 = 15;

const FIVE_MINUTES_MS: i64 = 300_000;
const ONE_HOUR_MS: i64 = 3_600_000;

/// A request that was not answered yet.
#[derive(Debug, Clone, Copy)]
struct OpenRequest {
    base: i64,
    sent: i64,
    is_cold: bool,
    is_pruned: bool,
}

/// Costs in hundredths of a token, and sizes.
#[derive(Debug, Clone, Default)]
pub(super) struct Account {
    /// Tokens that were written to the cache, for five minutes and for an hour.
    written: [i64; 2],
    cost: i64,
    unpruned_cost: i64,
    /// Tokens of the request before.
    sent: i64,
    unpruned_sent: i64,
    /// Code units of the conversation, had nothing been folded.
    pub whole: i64,
    has_pruned: bool,
    /// `true` or `false` if it is known otherwise how long entries live.
    pub is_told_hourly: Option<bool>,
    open: Option<OpenRequest>,
}

impl Account {
    /// Counts what an answer's request wrote to the cache.
    pub fn note_cache_writes(&mut self, usage: &Value) {
        for (sum, name) in self.written.iter_mut().zip(["ephemeral_5m_input_tokens", "ephemeral_1h_input_tokens"]) {
            *sum += usage["cache_creation"][name].as_i64().unwrap_or(0);
        }
    }

    fn is_hourly(&self) -> bool {
        self.is_told_hourly.unwrap_or(self.written[1] > self.written[0])
    }

    fn write(&self) -> i64 {
        if self.is_hourly() { HOURLY_WRITE } else { WRITE }
    }

    /// Lifetime of a cache entry.
    pub fn lifetime_ms(&self) -> i64 {
        if self.is_hourly() { ONE_HOUR_MS } else { FIVE_MINUTES_MS }
    }

    /// Adds to the conversation.
    pub fn grow(&mut self, units: i64) {
        self.whole += units;
    }

    /// `true` if the rewrite of these tokens is within the budget and what was saved so far.
    pub fn pays(&self, left: i64) -> bool {
        (self.write() - READ) * left * 1_000 <= BUDGET * self.unpruned_cost + 1_000 * (self.unpruned_cost - self.cost)
    }

    /// Notes a request with these tokens of conversation.
    pub fn request(&mut self, base: i64, left: i64, is_cold: bool, is_pruned: bool) {
        self.has_pruned |= is_pruned;
        self.open = Some(OpenRequest { base, sent: base + left, is_cold, is_pruned });
    }

    /// Charges the open request, with the tokens of its answer. Nothing was added to the conversation since.
    pub fn answered(&mut self, answer: i64) {
        let Some(OpenRequest { base, sent, is_cold, is_pruned }) = self.open.take() else { return };
        let (write, output) = (self.write(), OUTPUT * answer);
        let charge = |read: i64, sent: i64| READ * read + write * (sent - read);
        let read = match () {
            () if is_cold => 0,
            () if is_pruned => base.min(sent),
            () => self.sent.min(sent),
        };
        self.cost += charge(read, sent) + output;
        let unpruned = base + super::tokens(self.whole);
        let before = if self.has_pruned { self.unpruned_sent } else { self.sent };
        let read = if is_cold { 0 } else { before.min(unpruned) };
        self.unpruned_cost += charge(read, unpruned) + output;
        (self.sent, self.unpruned_sent) = (sent, unpruned);
    }
}
