//! Report on the window, for the model and the user.

use super::state::{Observation, share_of};
use super::{Phase, Trend, WindowState};
use ctxbridge_config::{self as config, NotifyLevel};

/// Cells of the bar.
const BAR: usize = 20;

/// Formats the report on a window, in the form of the design, followed by the trend:
/// `[ContextAutopilot] [=====---------------] 24.4% context used (~48.8K/200.0K tokens, 53 turns) Status: OK`.
pub fn report(observation: &Observation) -> String {
    let Observation { phase, tokens, window, share, turns, trend, .. } = observation;
    let filled = ((share * BAR as f64).round() as usize).min(BAR);
    let bar = format!("[{}{}]", "=".repeat(filled), "-".repeat(BAR - filled));
    let (used, tokens, window) = (percent_text(*share), tokens_text(*tokens), tokens_text(*window));
    let s = if *turns == 1 { "" } else { "s" };
    let status = phase.status();
    let line =
        format!("[ContextAutopilot] {bar} {used} context used (~{tokens}/{window} tokens, {turns} turn{s}) Status: {status}");
    match trend {
        Some(trend) => format!("{line} | {}", trend_text(trend)),
        None => line,
    }
}

/// Formats the report from the stored state of a session.
pub fn report_of(state: &WindowState, config: &config::AutopilotSettings) -> String {
    let window = state.window_tokens(config);
    let share = share_of(state.last_token_estimate, window);
    let phase = Phase::at(share, config);
    report(&Observation {
        phase,
        before: phase,
        tokens: state.last_token_estimate,
        window,
        share,
        turns: state.history.last().map_or(0, |point| point.turns),
        trend: Trend::of(&state.history, window),
    })
}

/// `true` if a prompt gets the report, which costs tokens each time.
pub fn should_report(config: &config::AutopilotSettings, observation: &Observation) -> bool {
    config.enabled
        && match config.notify {
            NotifyLevel::Off => false,
            NotifyLevel::Change => observation.has_changed(),
            NotifyLevel::Warn => observation.has_changed() || observation.phase >= Phase::Warn,
            NotifyLevel::Always => true,
        }
}

/// Formats tokens for people: `900`, `48.8K`, `1.0M`.
pub fn tokens_text(tokens: u64) -> String {
    match tokens {
        0..1_000 => tokens.to_string(),
        // From here on it would be rounded to 1000.0K.
        1_000..999_950 => format!("{:.1}K", tokens as f64 / 1e3),
        _ => format!("{:.1}M", tokens as f64 / 1e6),
    }
}

/// Converts a share to a percentage for JSON, without the digits that binary fractions add.
pub fn percent(share: f64) -> f64 {
    (share * 1e6).round() / 1e4
}

pub(super) fn percent_text(share: f64) -> String {
    format!("{:.1}%", share * 100.0)
}

/// Formats a rate with its sign.
pub(super) fn rate_text(tokens_per_turn: f64) -> String {
    let sign = if tokens_per_turn.round() < 0.0 { '-' } else { '+' };
    format!("{sign}{}", tokens_text(tokens_per_turn.abs().round() as u64))
}

fn trend_text(trend: &Trend) -> String {
    let rate = format!("{} tokens a turn", rate_text(trend.tokens_per_turn));
    match trend.turns_left {
        Some(1) => format!("{rate}, ~1 turn left"),
        Some(turns) => format!("{rate}, ~{turns} turns left"),
        None => rate,
    }
}
