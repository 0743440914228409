//! `ctxbridge autopilot …`

use clap::Subcommand;
use serde_json::{Value, json};

use super::config::load;
use super::format::count;
use super::output::{DIM, styled};
use super::{CommandOutcome, Output};
use crate::autopilot::{Phase, Trend, WindowState, WindowStateStore, chart, percent, report_of};
use ctxbridge_common::paths;
use ctxbridge_config as config;

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  ctxbridge autopilot status")]
pub(super) struct AutopilotArgs {
    #[command(subcommand)]
    command: AutopilotCommand,
}

#[derive(Debug, Subcommand)]
enum AutopilotCommand {
    /// Show how full a session's context window is, and its history
    Status(AutopilotStatusArgs),
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  ctxbridge autopilot status --json

Exits 1 if the session is unknown.")]
struct AutopilotStatusArgs {
    /// Session id [default: the most recent session]
    #[arg(value_name = "SESSION")]
    session: Option<String>,
}

impl AutopilotArgs {
    pub fn run(&self, output: &mut Output) -> anyhow::Result<CommandOutcome> {
        match &self.command {
            AutopilotCommand::Status(args) => args.run(output),
        }
    }
}

impl AutopilotStatusArgs {
    fn run(&self, output: &mut Output) -> anyhow::Result<CommandOutcome> {
        let config = load(output).autopilot;
        let store = WindowStateStore::in_dir(&paths::data_dir()?);
        let state = match &self.session {
            Some(session) => store.load(session),
            None => store.newest(),
        };
        let Some(state) = state else {
            if output.json {
                output.value(&json!({ "session": null }))?;
            } else {
                let which = if self.session.is_some() { "this session" } else { "any session" };
                output.prose(
                    2,
                    format!("nothing is known of {which}; hooks watch the window once `ctxbridge hooks install` has run"),
                )?;
            }
            return Ok(CommandOutcome::No);
        };
        if output.json {
            output.value(&as_json(&state, &config))?;
        } else {
            tell(&state, &config, output)?;
        }
        Ok(CommandOutcome::Yes)
    }
}

fn tell(state: &WindowState, config: &config::AutopilotSettings, output: &mut Output) -> anyhow::Result<()> {
    if state.history.is_empty() {
        output.prose(2, "not measured yet; the next prompt is")?;
    } else {
        output.prose(2, report_of(state, config))?;
        let width = terminal_size::terminal_size().map_or(80, |(width, _)| usize::from(width.0));
        output.prose(2, "")?;
        output.text(chart(&state.history, config, width))?;
        output.prose(2, "")?;
    }
    let session: String = state.session_id.chars().flat_map(char::escape_debug).collect();
    Ok(output.prose(2, styled(DIM, format!("session {session}, {}", count(state.prune_count, "optimize cycle"))))?)
}

fn as_json(state: &WindowState, config: &config::AutopilotSettings) -> Value {
    let window = state.window_tokens(config);
    let share = state.last_token_estimate as f64 / window as f64;
    let history = state.history.iter().map(
        |point| json!({ "ts_ms": point.ts, "tokens": point.tokens, "used_percentage": percent(point.pct), "turns": point.turns }),
    );
    json!({
        "session": state.session_id, "tokens": state.last_token_estimate, "window": window, "used_percentage": percent(share),
        "phase": Phase::at(share, config), "turns": state.history.last().map(|point| point.turns),
        "trend": Trend::of(&state.history, window), "optimize_cycles": state.prune_count,
        "warning_issued": state.warning_issued, "last_check_ms": state.last_check, "blocked_at_ms": state.blocked_at,
        "history": history.collect::<Vec<_>>(),
    })
}
