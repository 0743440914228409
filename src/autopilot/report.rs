//! The line that the model and the user get to read.

use super::state::{Observation, share_of};
use super::{Phase, State, Trend};
use ctxbridge_config::{self as config, Say};

/// Cells of the bar.
const BAR: usize = 20;

/// The report on a window, in the form of the design, with the trend behind it:
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

/// The same from what is remembered of a session.
pub fn report_of(state: &State, config: &config::Autopilot) -> String {
    let window = config.window_or(state.window);
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

/// Whether a prompt gets the report. It costs tokens each time.
pub fn should_say(config: &config::Autopilot, observation: &Observation) -> bool {
    config.enabled
        && match config.say {
            Say::Off => false,
            Say::Change => observation.changed(),
            Say::Warn => observation.changed() || observation.phase >= Phase::Warn,
            Say::Always => true,
        }
}

/// Tokens for people: `900`, `48.8K`, `1.0M`.
pub fn tokens_text(tokens: u64) -> String {
    match tokens {
        0..1_000 => tokens.to_string(),
        // From here on it would be rounded to 1000.0K.
        1_000..999_950 => format!("{:.1}K", tokens as f64 / 1e3),
        _ => format!("{:.1}M", tokens as f64 / 1e6),
    }
}

/// A share as a percentage, for JSON: without the digits that binary fractions add.
pub fn percent(share: f64) -> f64 {
    (share * 1e6).round() / 1e4
}

pub(super) fn percent_text(share: f64) -> String {
    format!("{:.1}%", share * 100.0)
}

/// A rate with its sign.
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
