/*!
The line under the client's prompt.

The client runs the command again and again, and tells on stdin what it knows; any of it may be missing or of another type.
*/

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use super::chart::{DIM, PLAIN, colour};
use super::report::{percent_text, rate_text};
use super::state::share_of;
use super::{Phase, Point, State, Store, Trend, Usage, sparkline, tokens_text, usage_at_end};
use ctxbridge_config::{self as config, WINDOWS};

/// What is shown when the client tells nothing that can be understood.
pub const FALLBACK: &str = "ctxbridge";

/// The window of models with the larger one (claude-code-facts, section 5), in tokens.
const LARGE_WINDOW: u64 = 1_000_000;

/// Measurements in the small chart.
const SPARKS: usize = 8;

/// No context has more tokens; what claims to is no figure.
const MOST_TOKENS: u64 = 1_000_000_000;

/// What the client told.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Input {
    /// Its name for the session.
    pub session: Option<String>,
    /// Where it writes the transcript.
    pub transcript: Option<PathBuf>,
    /// Its version.
    pub version: Option<String>,
    /// Tokens that the window holds.
    pub window: Option<u64>,
    /// Tokens in the window.
    pub tokens: Option<u64>,
    /// Whether the context has more tokens than the smaller window holds.
    pub exceeds_200k: bool,
}

/// What the line shows.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// Tokens in the window, where that is known.
    pub tokens: Option<u64>,
    /// Tokens that the window holds.
    pub window: u64,
    /// The phase.
    pub phase: Phase,
    /// Shares of the window at the newest measurements, oldest first.
    pub history: Vec<f64>,
    /// How fast it fills.
    pub trend: Option<Trend>,
    /// Optimise cycles so far.
    pub optimise_cycles: u64,
    /// Whether the client is patched, where that is known.
    pub patched: Option<bool>,
}

impl Input {
    /// Reads the client's JSON; nothing when it is no object.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let value: Value = serde_json::from_slice(bytes).ok().filter(Value::is_object)?;
        let text =
            |pointer: &str| value.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned);
        let window = value.pointer("/context_window/context_window_size").and_then(count).filter(|size| WINDOWS.contains(size));
        let usage = |name: &str| value.pointer(&format!("/context_window/current_usage/{name}")).and_then(count);
        // The same three that count in a transcript; what came out is part of the next request's cache.
        let parts = ["input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"].map(usage);
        let sum = parts.iter().flatten().sum::<u64>();
        let by_share = || {
            let percent = value.pointer("/context_window/used_percentage").and_then(Value::as_f64)?;
            let tokens = percent / 100.0 * window? as f64;
            (tokens > 0.0 && tokens < MOST_TOKENS as f64).then_some(tokens.round() as u64)
        };
        Some(Self {
            session: text("/session_id"),
            transcript: text("/transcript_path").map(PathBuf::from),
            version: text("/version"),
            window,
            tokens: Some(sum).filter(|sum| *sum > 0).or_else(by_share),
            exceeds_200k: value.pointer("/exceeds_200k_tokens").and_then(Value::as_bool).unwrap_or_default(),
        })
    }
}

/// A number of tokens, however it is written.
fn count(value: &Value) -> Option<u64> {
    let whole = value.as_u64().or_else(|| value.as_f64().filter(|number| *number >= 0.0).map(|number| number.round() as u64));
    whole.filter(|tokens| *tokens <= MOST_TOKENS)
}

/// Puts together what the client told, what is remembered of the session, and what its transcript says. A window that the client
/// told is kept for the hooks, who are not told; when that does not work, the next line tries again.
pub fn gather(input: &Input, store: Option<&Store>, patched: Option<bool>, config: &config::Autopilot) -> Line {
    let session = input.session.as_deref().zip(store);
    let mut state = session.and_then(|(session, store)| store.load(session)).unwrap_or_default();
    if let (Some((session, store)), Some(window)) = (session, input.window.filter(|window| state.window != Some(*window))) {
        // Not waited for: the line is drawn again soon.
        store.update(session, Duration::ZERO, |state| state.window = Some(window)).ok();
        state.window = Some(window);
    }
    let tokens = input.tokens.or_else(|| tokens_otherwise(input.transcript.as_deref(), &state));
    Line::of(input, tokens, &state, patched, config)
}

/// Tokens where the client does not tell. The transcript knows more than the state, which is as of the last hook.
fn tokens_otherwise(transcript: Option<&Path>, state: &State) -> Option<u64> {
    match transcript.map_or(Usage::Unknown, usage_at_end) {
        Usage::Tokens(tokens) => Some(tokens),
        Usage::Compacted => None,
        Usage::Unknown => state.last_share().map(|_| state.last_token_estimate),
    }
}

impl Line {
    /// The line for a session.
    pub fn of(input: &Input, tokens: Option<u64>, state: &State, patched: Option<bool>, config: &config::Autopilot) -> Self {
        let told = input.window.or(state.window).or(config.window);
        let window = told.unwrap_or_else(|| if input.exceeds_200k { LARGE_WINDOW } else { config.window_or(None) });
        // What hooks measured when the prompt was sent, and what there is now, which belongs to the turn that follows from it.
        let mut points = state.history.clone();
        if let Some(tokens) = tokens.filter(|tokens| points.last().is_some_and(|last| last.tokens != *tokens)) {
            let turns = points.last().map_or(0, |last| last.turns.saturating_add(1));
            points.push(Point { tokens, turns, ..Point::default() });
        }
        let shares: Vec<f64> = points.iter().map(|point| share_of(point.tokens, window)).collect();
        Self {
            tokens,
            window,
            phase: tokens.map_or(Phase::Ok, |tokens| Phase::at(share_of(tokens, window), config)),
            history: shares[shares.len().saturating_sub(SPARKS)..].to_vec(),
            trend: Trend::of(&points, window),
            optimise_cycles: state.prune_count,
            patched,
        }
    }

    /// The share of the window that is used, 1 being all of it.
    pub fn share(&self) -> Option<f64> {
        self.tokens.map(|tokens| share_of(tokens, self.window))
    }

    /// The line with colours; whoever prints it takes those out where they are not wanted.
    pub fn text(&self) -> String {
        let window = tokens_text(self.window);
        let colour = colour(self.phase);
        let mut parts = vec![match (self.tokens, self.share()) {
            (Some(tokens), Some(share)) => {
                let (used, tokens, phase) = (percent_text(share), tokens_text(tokens), self.phase.name());
                format!("{colour}{used}{PLAIN} {tokens}/{window} {colour}{phase}{PLAIN}")
            }
            _ => format!("-/{window}"),
        }];
        // One bar tells nothing.
        if self.history.len() > 1 {
            let sparks = sparkline(self.history.iter().copied());
            let trend = self.trend.map(|trend| {
                let left = trend.turns_left.map(|turns| format!(", ~{turns} left")).unwrap_or_default();
                format!(" {}/turn{left}", rate_text(trend.tokens_per_turn))
            });
            parts.push(format!("{colour}{sparks}{PLAIN}{DIM}{}{PLAIN}", trend.unwrap_or_default()));
        }
        if self.optimise_cycles > 0 {
            parts.push(format!("{DIM}{} optimised{PLAIN}", self.optimise_cycles));
        }
        match self.patched {
            Some(true) => parts.push(format!("{DIM}patched{PLAIN}")),
            Some(false) => parts.push(format!("{}unpatched{PLAIN}", super::chart::colour(Phase::Warn))),
            None => {}
        }
        parts.join(&format!(" {DIM}·{PLAIN} "))
    }
}
