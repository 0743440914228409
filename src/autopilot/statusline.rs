/*!
Status line under the client's prompt.

The client runs the command repeatedly and passes JSON on stdin. Any field may be missing or of another type.
*/

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use super::chart::{DIM, PLAIN, phase_color};
use super::report::{percent_text, rate_text};
use super::state::share_of;
use super::{ContextUsage, Phase, Point, Trend, WindowState, WindowStateStore, sparkline, tokens_text, usage_at_end, window_of};
use crate::client_mod::way::PruningWay;
use ctxbridge_config::{self as config, WINDOW_RANGE};
use ctxbridge_prune::window::DEFAULT_WINDOW_TOKENS;

/// Text shown if the client's input cannot be parsed.
pub const FALLBACK: &str = "ctxbridge";

/// Number of measurements in the sparkline.
const SPARKLINE_POINTS: usize = 8;

/// Maximum plausible number of tokens in a context; larger numbers are ignored.
const MAX_PLAUSIBLE_TOKENS: u64 = 1_000_000_000;

/// Input from the client.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct StatuslineInput {
    /// Session id.
    pub session: Option<String>,
    /// Path of the transcript.
    pub transcript: Option<PathBuf>,
    /// Folder that the client was started in, or else works in.
    pub folder: Option<PathBuf>,
    /// Version of the client.
    pub version: Option<String>,
    /// Size of the window in tokens.
    pub window: Option<u64>,
    /// Tokens in the window.
    pub tokens: Option<u64>,
    /// `true` if the context has more tokens than the smaller window holds.
    pub exceeds_200k: bool,
    /// The model.
    pub model: Option<String>,
    /// The cache of the prompt, if the client reports on it (2.1.33x).
    pub cache: Option<PromptCache>,
}

/// State of the prompt's cache.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PromptCache {
    /// `true` if the next request can read from it.
    pub is_warm: bool,
    /// Share of the input that was read from it so far, where 1 is all.
    pub hit_ratio: Option<f64>,
    /// Tokens that the next request has to write again if it is cold.
    pub rewrite_tokens: Option<u64>,
}

/// Content of the status line.
#[derive(Debug, Clone, PartialEq)]
pub struct StatusLine {
    /// Tokens in the window, if known.
    pub tokens: Option<u64>,
    /// Size of the window in tokens.
    pub window: u64,
    /// The phase.
    pub phase: Phase,
    /// Shares of the window at the newest measurements, oldest first.
    pub history: Vec<f64>,
    /// Rate at which it fills.
    pub trend: Option<Trend>,
    /// Number of optimize runs so far.
    pub optimize_cycles: u64,
    /// State of the prompt's cache, if known.
    pub cache: Option<PromptCache>,
    /// The way in which the context is kept small; `None` if unknown.
    pub way: Option<PruningWay>,
}

impl StatuslineInput {
    /// Parses the client's JSON; `None` if it is not an object.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let value: Value = serde_json::from_slice(bytes).ok().filter(Value::is_object)?;
        let text =
            |pointer: &str| value.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned);
        let window =
            value.pointer("/context_window/context_window_size").and_then(count).filter(|size| WINDOW_RANGE.contains(size));
        let usage = |name: &str| value.pointer(&format!("/context_window/current_usage/{name}")).and_then(count);
        // The same three that count in a transcript; what came out is part of the next request's cache.
        let parts = ["input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"].map(usage);
        let sum = parts.iter().flatten().sum::<u64>();
        let by_share = || {
            let percent = value.pointer("/context_window/used_percentage").and_then(Value::as_f64)?;
            let tokens = percent / 100.0 * window? as f64;
            (tokens > 0.0 && tokens < MAX_PLAUSIBLE_TOKENS as f64).then_some(tokens.round() as u64)
        };
        Some(Self {
            session: text("/session_id"),
            transcript: text("/transcript_path").map(PathBuf::from),
            folder: text("/workspace/project_dir").or_else(|| text("/cwd")).map(PathBuf::from),
            version: text("/version"),
            window,
            tokens: Some(sum).filter(|sum| *sum > 0).or_else(by_share),
            exceeds_200k: value.pointer("/exceeds_200k_tokens").and_then(Value::as_bool).unwrap_or_default(),
            model: text("/model/id"),
            cache: value.get("prompt_cache").and_then(PromptCache::parse),
        })
    }
}

impl PromptCache {
    /// Parses the client's report. `None` if nothing was cached yet.
    fn parse(value: &Value) -> Option<Self> {
        if value["caching_observed"] == false {
            return None;
        }
        Some(Self {
            is_warm: value["warm"].as_bool()?,
            hit_ratio: value["hit_ratio"].as_f64().filter(|ratio| (0.0..=1.0).contains(ratio)),
            rewrite_tokens: count(&value["recache_tokens_if_cold"]).filter(|tokens| *tokens > 0),
        })
    }

    fn text(self) -> String {
        match (self.is_warm, self.hit_ratio, self.rewrite_tokens) {
            (true, Some(ratio), _) => format!("cache {:.0}%", ratio * 100.0),
            (true, None, _) => "cache warm".to_owned(),
            (false, _, Some(tokens)) => format!("cache cold, {} to write", tokens_text(tokens)),
            (false, _, None) => "cache cold".to_owned(),
        }
    }
}

/// Parses a number of tokens, as an integer or a float.
fn count(value: &Value) -> Option<u64> {
    let whole = value.as_u64().or_else(|| value.as_f64().filter(|number| *number >= 0.0).map(|number| number.round() as u64));
    whole.filter(|tokens| *tokens <= MAX_PLAUSIBLE_TOKENS)
}

/// Combines the client's input, the stored state of the session and its transcript. A window size from the client is stored for the
/// hooks, which do not get it. If that fails, the next call tries again.
pub fn gather(
    input: &StatuslineInput,
    store: Option<&WindowStateStore>,
    way: Option<PruningWay>,
    compact_window: Option<u64>,
    config: &config::AutopilotSettings,
) -> StatusLine {
    let session = input.session.as_deref().zip(store);
    let mut state = session.and_then(|(session, store)| store.load(session)).unwrap_or_default();
    if let (Some((session, store)), Some(window)) = (session, input.window.filter(|window| state.window != Some(*window))) {
        // Not waited for: the line is drawn again soon.
        store.update(session, Duration::ZERO, |state| state.window = Some(window)).ok();
        state.window = Some(window);
    }
    if let (Some(store), Some(model), Some(window)) = (store, &input.model, input.window) {
        store.learn_window(model, window, Duration::ZERO).ok();
    }
    let tokens = input.tokens.or_else(|| fallback_tokens(input.transcript.as_deref(), &state));
    let known = store.map(WindowStateStore::model_windows).unwrap_or_default();
    let told = input.window.or(state.window);
    let of_model = || input.model.as_deref().and_then(|model| known.of(model));
    // A hook may have seen more than this input says.
    let told = told.or_else(of_model).or(state.last_window);
    let exceeding = if input.exceeds_200k && told.is_none() { DEFAULT_WINDOW_TOKENS + 1 } else { 0 };
    let window = window_of(config, told, None, &known, tokens.unwrap_or(0).max(exceeding));
    let window = compact_window.map_or(window, |smaller| window.min(smaller));
    StatusLine::of(input, tokens, window, &state, way, config)
}

/// Returns the tokens if the client gives none. The transcript is newer than the state, which is as of the last hook.
fn fallback_tokens(transcript: Option<&Path>, state: &WindowState) -> Option<u64> {
    match transcript.map_or(ContextUsage::Unknown, usage_at_end) {
        ContextUsage::Tokens(tokens) => Some(tokens),
        ContextUsage::Compacted(said) => Some(state.tokens_after_compaction(said)),
        ContextUsage::Unknown => state.last_share().map(|_| state.last_token_estimate),
    }
}

impl StatusLine {
    /// Builds the line for a session.
    pub fn of(
        input: &StatuslineInput,
        tokens: Option<u64>,
        window: u64,
        state: &WindowState,
        way: Option<PruningWay>,
        config: &config::AutopilotSettings,
    ) -> Self {
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
            history: shares[shares.len().saturating_sub(SPARKLINE_POINTS)..].to_vec(),
            trend: Trend::of(&points, window),
            optimize_cycles: state.prune_count,
            cache: input.cache,
            way,
        }
    }

    /// Returns the share of the window that is used, where 1 is all of it.
    pub fn share(&self) -> Option<f64> {
        self.tokens.map(|tokens| share_of(tokens, self.window))
    }

    /// Formats the line with colors. The caller strips the colors where they are not wanted.
    pub fn text(&self) -> String {
        let window = tokens_text(self.window);
        let color = phase_color(self.phase);
        let mut parts = vec![match (self.tokens, self.share()) {
            (Some(tokens), Some(share)) => {
                let (used, tokens, phase) = (percent_text(share), tokens_text(tokens), self.phase.name());
                format!("{color}{used}{PLAIN} {tokens}/{window} {color}{phase}{PLAIN}")
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
            parts.push(format!("{color}{sparks}{PLAIN}{DIM}{}{PLAIN}", trend.unwrap_or_default()));
        }
        if let Some(cache) = self.cache {
            let color = if cache.is_warm { DIM } else { super::chart::phase_color(Phase::Warn) };
            parts.push(format!("{color}{}{PLAIN}", cache.text()));
        }
        if self.optimize_cycles > 0 {
            parts.push(format!("{DIM}{} optimized{PLAIN}", self.optimize_cycles));
        }
        if let Some(way) = self.way {
            let color = if way == PruningWay::Neither { super::chart::phase_color(Phase::Warn) } else { DIM };
            parts.push(format!("{color}{}{PLAIN}", way.mark()));
        }
        parts.join(&format!(" {DIM}·{PLAIN} "))
    }
}
