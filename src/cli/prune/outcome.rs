//! Comparison of policies, in words and as a table.

use serde::Serialize;

use crate::cli::output::{Output, count};
use ctxbridge_prune::simulate::ReplayTotals;
use ctxbridge_prune::simulate::plot::group_thousands;

/// Ratio of costs up to which they count as the same.
const SAME: f64 = 0.01;

/// Columns of a terminal that is not wide.
const COLUMNS: usize = 80;

/// Totals of one policy, with its ratio to the first one.
#[derive(Debug, Serialize)]
pub(super) struct PolicyRow {
    /// Its name.
    pub name: &'static str,
    #[serde(flatten)]
    pub totals: ReplayTotals,
    pub cost_ratio: Option<f64>,
    pub verbatim_share: f64,
}

impl PolicyRow {
    /// Rounds the totals of a policy. The baseline is what no pruning cost.
    pub fn new(name: &'static str, totals: ReplayTotals, baseline_usd: f64) -> Self {
        let round = |number: f64, digits: i32| (number * 10_f64.powi(digits)).round() / 10_f64.powi(digits);
        Self {
            name,
            totals: ReplayTotals { cost_usd: round(totals.cost_usd, 6), ..totals },
            cost_ratio: (baseline_usd > 0.0).then(|| round(totals.cost_usd / baseline_usd, 4)),
            verbatim_share: round(totals.verbatim_share(), 4),
        }
    }
}

/// Number of sessions by what pruning does to their cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(super) struct CostTally {
    pub cheaper: u64,
    pub same: u64,
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
pub(super) fn cost_ratio(without: &ReplayTotals, pruned: &ReplayTotals) -> f64 {
    if without.cost_usd > 0.0 { pruned.cost_usd / without.cost_usd } else { 1.0 }
}

/// Says what pruning changes: `No compaction instead of 2, 18 % fewer tokens, $3.10 instead of $3.90, 96 % verbatim`.
pub(super) fn sentence(without: &ReplayTotals, pruned: &ReplayTotals) -> String {
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

/// Prints a sentence in lines of at most [`COLUMNS`] characters, each with an indent. It is parted behind commas and semicolons only.
pub(super) fn wrapped(indent: &str, text: &str, output: &mut Output) -> anyhow::Result<()> {
    let mut left = text;
    let room = COLUMNS - indent.len();
    while left.chars().count() > room {
        let ends = left.match_indices([',', ';']).map(|(at, _)| at + 1).filter(|at| left[*at..].starts_with(' '));
        let Some(end) = ends.take_while(|at| left[..*at].chars().count() <= room).last() else { break };
        output.line(format!("{indent}{}", &left[..end]))?;
        left = left[end..].trim_start();
    }
    Ok(output.line(format!("{indent}{left}"))?)
}

/// Prints a table with a column for each policy.
pub(super) fn table(rows: &[PolicyRow], output: &mut Output) -> anyhow::Result<()> {
    let share = |part: u64, of: u64| if of == 0 { "-".to_owned() } else { format!("{:.1} %", part as f64 * 100.0 / of as f64) };
    let mut lines = vec![("policy", rows.iter().map(|row| row.name.to_owned()).collect::<Vec<_>>())];
    let mut add = |name, cell: &dyn Fn(&PolicyRow) -> String| lines.push((name, rows.iter().map(cell).collect()));
    add("calls", &|row| group_thousands(row.totals.calls));
    add("tokens sent", &|row| group_thousands(row.totals.input_tokens));
    add("  read from the cache", &|row| group_thousands(row.totals.cache_read_tokens));
    add("  written to the cache", &|row| group_thousands(row.totals.cache_write_tokens));
    add("  neither", &|row| group_thousands(row.totals.uncached_tokens));
    add("tokens answered", &|row| group_thousands(row.totals.output_tokens));
    add("cost", &|row| format!("${:.2}", row.totals.cost_usd));
    add("  of the cost unpruned", &|row| row.cost_ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}")));
    add("largest request", &|row| group_thousands(row.totals.peak_tokens));
    add("compactions", &|row| group_thousands(row.totals.compactions));
    add("changes", &|row| group_thousands(row.totals.prefix_changes));
    add("verbatim", &|row| format!("{:.0} %", row.verbatim_share * 100.0));
    add("lost references", &|row| share(row.totals.needs.lost_references, row.totals.needs.references));
    add("blind edits", &|row| share(row.totals.needs.blind_edits, row.totals.needs.edits));
    for (name, cells) in lines {
        let cells: String = cells.iter().map(|cell| format!("  {cell:>15}")).collect();
        output.line(format!("  {name:24}{cells}"))?;
    }
    Ok(())
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
