//! Charts for the terminal, with colors. The caller strips the colors where they are not wanted.

use super::{Phase, Point};
use ctxbridge_config as config;

/// Eight levels, lowest first.
const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Rows of a chart.
const ROWS: usize = 8;

/// Columns of the axis left of the plot: `100% ┤`.
const AXIS: usize = 6;

/// Maximum width of one point, in columns.
const WIDEST: usize = 3;

/// Escape sequence that ends a style.
pub(super) const PLAIN: &str = "\u{1b}[0m";
/// Escape sequence for less important text.
pub(super) const DIM: &str = "\u{1b}[2m";

/// Returns the escape sequence of a phase's color.
pub(super) fn phase_color(phase: Phase) -> &'static str {
    match phase {
        Phase::Ok => "\u{1b}[32m",
        Phase::Warn => "\u{1b}[33m",
        Phase::Optimize => "\u{1b}[31m",
    }
}

/// Draws shares as one character each; shares above 1 are drawn as 1.
pub fn sparkline(shares: impl IntoIterator<Item = f64>) -> String {
    shares.into_iter().map(|share| LEVELS[eighths(share, 8).saturating_sub(1)]).collect()
}

/// Returns the number of `levels` that a share fills; at least one, so that it can be seen.
fn eighths(share: f64, levels: usize) -> usize {
    // NaN becomes the lowest.
    ((share * levels as f64).ceil() as usize).clamp(1, levels)
}

/// Draws a chart of measurements, oldest first, that fits into `width` columns. The height is the whole window; lines mark the
/// start of the phases. If not all measurements fit, the newest are shown.
pub fn chart(history: &[Point], config: &config::AutopilotSettings, width: usize) -> String {
    let room = width.saturating_sub(AXIS).max(1);
    let shown = &history[history.len().saturating_sub(room)..];
    let wide = (room / shown.len().max(1)).clamp(1, WIDEST);
    let row_of = |share: f64| ((share * ROWS as f64).ceil() as usize).clamp(1, ROWS) - 1;
    let marks = [(config.critical, Phase::Optimize), (config.warn, Phase::Warn)];
    let mut chart = String::new();
    for row in (0..ROWS).rev() {
        let mark = marks.iter().find(|(share, _)| row_of(*share) == row);
        let label = match (mark, row) {
            (Some((share, _)), _) => format!("{:.0}%", share * 100.0),
            (None, row) if row == ROWS - 1 => "100%".to_owned(),
            (None, 0) => "0%".to_owned(),
            _ => String::new(),
        };
        let mut line = StyledRuns::default();
        line.push(DIM, &format!("{label:>4} ┤"));
        for point in shown {
            let filled = eighths(point.pct, ROWS * LEVELS.len());
            let (style, cell) = match (filled.saturating_sub(row * LEVELS.len()), mark) {
                (0, Some((_, phase))) => (phase_color(*phase), '┄'),
                (0, None) => ("", ' '),
                (level, _) => (phase_color(Phase::at(point.pct, config)), LEVELS[level.min(LEVELS.len()) - 1]),
            };
            line.push(style, &cell.to_string().repeat(wide));
        }
        if let Some((_, phase)) = mark
            && AXIS + shown.len() * wide + 1 + phase.name().len() <= width
        {
            line.push(phase_color(*phase), &format!(" {}", phase.name()));
        }
        chart += &line.end();
    }
    if let (Some(first), Some(last)) = (shown.first(), shown.last()) {
        chart += &format!("{DIM}{:AXIS$}turns {} to {}{PLAIN}\n", "", first.turns, last.turns);
    }
    chart
}

/// Builder of a line in which neighbors of the same style share one escape sequence.
#[derive(Default)]
struct StyledRuns(Vec<(&'static str, String)>);

impl StyledRuns {
    fn push(&mut self, style: &'static str, text: &str) {
        match self.0.last_mut().filter(|(last, _)| *last == style) {
            Some((_, run)) => run.push_str(text),
            None => self.0.push((style, text.to_owned())),
        }
    }

    /// Returns the line without trailing blanks.
    fn end(mut self) -> String {
        while self.0.last().is_some_and(|(_, text)| text.trim().is_empty()) {
            self.0.pop();
        }
        let runs =
            self.0.iter().map(|(style, text)| if style.is_empty() { text.clone() } else { format!("{style}{text}{PLAIN}") });
        runs.collect::<String>() + "\n"
    }
}
