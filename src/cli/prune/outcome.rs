//! Comparison of policies, in words and as a table.

use serde::Serialize;

use crate::cli::output::Output;
use ctxbridge_prune::simulate::ReplayTotals;
use ctxbridge_prune::simulate::plot::group_thousands;

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
    add("tokens sent", &|row| tokens(row.totals.input_tokens));
    add("  read from the cache", &|row| tokens(row.totals.cache_read_tokens));
    add("  written to the cache", &|row| tokens(row.totals.cache_write_tokens));
    add("  neither", &|row| tokens(row.totals.uncached_tokens));
    add("tokens answered", &|row| tokens(row.totals.output_tokens));
    add("cost", &|row| format!("${:.2}", row.totals.cost_usd));
    add("  of the cost unpruned", &|row| row.cost_ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}")));
    add("largest request", &|row| group_thousands(row.totals.peak_tokens));
    add("compactions", &|row| group_thousands(row.totals.compactions));
    add("  answered instead", &|row| group_thousands(row.totals.answered));
    add("changes", &|row| group_thousands(row.totals.prefix_changes));
    add("verbatim", &|row| format!("{:.0} %", row.verbatim_share * 100.0));
    add("lost references", &|row| share(row.totals.needs.lost_references, row.totals.needs.references));
    add("blind edits", &|row| share(row.totals.needs.blind_edits, row.totals.needs.edits));
    for (name, cells) in lines {
        let cells: String = cells.iter().map(|cell| format!(" {cell:>10}")).collect();
        output.line(format!("  {name:23}{cells}"))?;
    }
    Ok(())
}

/// A number of tokens, in the ten places that a column has.
fn tokens(number: u64) -> String {
    if number < 100_000_000 { group_thousands(number) } else { format!("{:.1}M", number as f64 / 1e6) }
}
