//! Savings by pruning in one session, or in several.

use std::ops::AddAssign;

use serde::Serialize;

use ctxbridge_prune::simulate::ReplayTotals;

/// Savings by pruning; negative if it costs more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct SessionSavings {
    /// Compactions that do not happen.
    pub compactions_avoided: i64,
    /// Tokens that need not be sent.
    pub saved_tokens: i64,
    /// US dollars.
    pub saved_usd: f64,
}

impl SessionSavings {
    /// The differences between two replays.
    pub fn between([without, pruned]: &[ReplayTotals; 2]) -> Self {
        let less = |without: u64, pruned: u64| without.cast_signed() - pruned.cast_signed();
        Self {
            compactions_avoided: less(without.compactions, pruned.compactions),
            saved_tokens: less(without.input_tokens, pruned.input_tokens),
            saved_usd: without.cost_usd - pruned.cost_usd,
        }
    }
}

impl AddAssign for SessionSavings {
    fn add_assign(&mut self, other: Self) {
        self.compactions_avoided += other.compactions_avoided;
        self.saved_tokens += other.saved_tokens;
        self.saved_usd += other.saved_usd;
    }
}
