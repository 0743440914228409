//! Comparison of a session, or of several, without and with pruning.

use serde::Serialize;

use super::plot::group_thousands;
use super::replay::ReplayTotals;

/// Ratio of costs up to which they count as the same.
const SAME: f64 = 0.01;

/// Number of sessions by what pruning does to their cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct CostTally {
    /// Sessions that cost less.
    pub cheaper: u64,
    /// Sessions that cost the same, within a hundredth.
    pub same: u64,
    /// Sessions that cost more.
    pub dearer: u64,
}

impl CostTally {
    /// Counts a session.
    pub fn add(&mut self, without: &ReplayTotals, pruned: &ReplayTotals) {
        match cost_ratio(without, pruned) {
            ratio if ratio < 1.0 - SAME => self.cheaper += 1,
            ratio if ratio > 1.0 + SAME => self.dearer += 1,
            _ => self.same += 1,
        }
    }

    /// Says it in a sentence.
    pub fn sentence(self) -> String {
        let Self { cheaper, same, dearer } = self;
        format!("{} cheaper, {same} the same (within 1 %), {dearer} dearer", count(cheaper, "session"))
    }
}

/// Ratio of what a session costs pruned to what it costs otherwise.
pub fn cost_ratio(without: &ReplayTotals, pruned: &ReplayTotals) -> f64 {
    if without.cost_usd > 0.0 { pruned.cost_usd / without.cost_usd } else { 1.0 }
}

/// Says what pruning changes: `No compaction instead of 2, 18 % fewer tokens, $3.10 instead of $3.90, 96 % verbatim`.
pub fn sentence(without: &ReplayTotals, pruned: &ReplayTotals) -> String {
    let instead =
        |pruned: String, without: String| if pruned == without { pruned } else { format!("{pruned} instead of {without}") };
    let compactions = match (pruned.compactions, without.compactions) {
        (0, 0) => "No compaction either way".to_owned(),
        (0, before) => format!("No compaction instead of {before}"),
        (now, before) if now == before => format!("{} either way", count(now, "compaction")),
        (now, before) => format!("{} instead of {before}", count(now, "compaction")),
    };
    let difference = pruned.input_tokens as f64 - without.input_tokens as f64;
    let change = difference / without.input_tokens.max(1) as f64 * 100.0;
    let tokens = match change.abs().round() {
        0.0 => "as many tokens".to_owned(),
        percent if change < 0.0 => format!("{percent} % fewer tokens"),
        percent => format!("{percent} % more tokens"),
    };
    let cost = instead(format!("${:.2}", pruned.cost_usd), format!("${:.2}", without.cost_usd));
    let share = |totals: &ReplayTotals| format!("{:.0} %", totals.verbatim_share() * 100.0);
    let verbatim = if without.compactions == 0 {
        format!("{} verbatim", share(pruned))
    } else {
        format!("{} verbatim", instead(share(pruned), share(without)))
    };
    format!("{compactions}, {tokens}, {cost}, {verbatim}")
}

fn count(number: u64, thing: &str) -> String {
    format!("{} {thing}{}", group_thousands(number), if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn totals(compactions: u64, input_tokens: u64, cost_usd: f64, verbatim_chars: u64) -> ReplayTotals {
        ReplayTotals { compactions, input_tokens, cost_usd, verbatim_chars, text_chars: 100, ..ReplayTotals::default() }
    }

    #[test]
    fn a_sentence_says_what_changes() {
        for (without, pruned, said) in [
            (
                totals(2, 1_000, 3.9, 12),
                totals(0, 820, 3.1, 96),
                "No compaction instead of 2, 18 % fewer tokens, $3.10 instead of $3.90, 96 % instead of 12 % verbatim",
            ),
            (
                totals(0, 1_000, 1.0, 100),
                totals(0, 1_000, 1.0, 100),
                "No compaction either way, as many tokens, $1.00, 100 % verbatim",
            ),
            (
                totals(1, 1_000, 1.0, 50),
                totals(1, 1_060, 1.01, 50),
                "1 compaction either way, 6 % more tokens, $1.01 instead of $1.00, 50 % verbatim",
            ),
            (totals(3, 0, 0.0, 0), totals(1, 0, 0.0, 0), "1 compaction instead of 3, as many tokens, $0.00, 0 % verbatim"),
        ] {
            assert_eq!(sentence(&without, &pruned), said);
        }
    }

    #[test]
    fn within_a_percent_is_the_same() {
        let mut tally = CostTally::default();
        for cost in [0.5, 0.989, 0.991, 1.0, 1.009, 1.011] {
            tally.add(&totals(0, 0, 1.0, 0), &totals(0, 0, cost, 0));
        }
        tally.add(&totals(0, 0, 0.0, 0), &totals(0, 0, 0.0, 0));
        assert_eq!(tally, CostTally { cheaper: 2, same: 4, dearer: 1 });
        assert_eq!(tally.sentence(), "2 sessions cheaper, 4 the same (within 1 %), 1 dearer");
    }
}
