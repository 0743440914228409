//! `ctxbridge doctor`

use serde_json::{Value, json};

use super::output::{BAD, BOLD, DIM, GOOD, Output, size, styled};
use super::{CommandOutcome, UsageError};
use crate::doctor::{Environment, HealthCheck, HealthStatus, run_checks};
use crate::hook::{Event, EventLog, LoggedEvent};
use ctxbridge_archive::quote;
use ctxbridge_common::paths;
use ctxbridge_config::escape_controls;

/// Default maximum number of events.
const DEFAULT_EVENTS: u64 = 100;

/// Maximum number of characters shown of an event.
const MAX_DETAIL_CHARS: usize = 100;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ctxbridge doctor                              check the installation
  ctxbridge doctor --events                     sessions in the event log
  ctxbridge doctor --events --session 5f0c1d    hook events of one session

Exits 1 on errors; warnings alone exit 0. The event log is off unless hooks.event_log is set (CTXBRIDGE_HOOKS_EVENT_LOG=1), or a hook runs \
with --debug.")]
pub(super) struct DoctorArgs {
    /// Show the log of hook events instead
    #[arg(long)]
    events: bool,
    /// Show the events of this session (id or prefix)
    #[arg(long, value_name = "PREFIX", requires = "events")]
    session: Option<String>,
    /// Show only this event, such as PostToolUse
    #[arg(long, value_name = "NAME", requires = "session", value_parser = event)]
    event: Option<Event>,
    /// Maximum number of events or sessions, newest first
    #[arg(long, value_name = "N", requires = "events", default_value_t = DEFAULT_EVENTS, value_parser = clap::value_parser!(u64).range(1..))]
    limit: u64,
}

fn event(name: &str) -> Result<Event, String> {
    let found = Event::ALL.into_iter().find(|event| event.name().eq_ignore_ascii_case(name) || event.slug() == name);
    found.ok_or_else(|| format!("it is one of {}", Event::ALL.map(Event::name).join(", ")))
}

impl DoctorArgs {
    pub fn run(&self, output: &mut Output) -> anyhow::Result<CommandOutcome> {
        if !self.events {
            return look(output);
        }
        let log = EventLog::in_dir(&paths::data_dir()?);
        let limit = usize::try_from(self.limit).unwrap_or(usize::MAX);
        match &self.session {
            None => sessions(&log, limit, output),
            Some(prefix) => one(&log, prefix, self.event, limit, output),
        }
    }
}

fn look(output: &mut Output) -> anyhow::Result<CommandOutcome> {
    let current = std::env::current_dir()?;
    let at = Environment::of_process(paths::data_dir()?, current);
    let checks = run_checks(&at, &|step| output.progress(step));
    output.clear_progress();
    let ok = checks.iter().all(|check| check.status != HealthStatus::Failed);
    if output.json {
        output.value(&json!({ "ok": ok, "checks": checks }))?;
    } else {
        for HealthCheck { id, status, detail, next } in &checks {
            let detail = with_short_home(detail);
            let mark = match status {
                HealthStatus::Ok => styled(GOOD, "✓"),
                HealthStatus::Warning => styled(BOLD, "!"),
                HealthStatus::Failed => styled(BAD, "✗"),
            };
            let next = next.as_ref().map(|next| styled(DIM, format!(" – {}", escape_controls(next)))).unwrap_or_default();
            output.prose(17, format!("{mark} {:<14} {detail}{next}", id.replace('_', " ")))?;
        }
    }
    Ok(if ok { CommandOutcome::Yes } else { CommandOutcome::No })
}

/// Writes the home directory as `~` in a text.
fn with_short_home(text: &str) -> String {
    let home = paths::home_dir().map(|home| format!("{}{}", home.display(), std::path::MAIN_SEPARATOR));
    // A folder that is everything is no home to shorten by.
    home.filter(|home| home.len() > 2)
        .map_or_else(|| text.to_owned(), |home| text.replace(&home, &format!("~{}", std::path::MAIN_SEPARATOR)))
}

fn sessions(log: &EventLog, limit: usize, output: &mut Output) -> anyhow::Result<CommandOutcome> {
    let mut found = log.sessions("")?;
    found.truncate(limit);
    if output.json {
        let as_json = |session: &crate::hook::SessionLog| json!({ "session": session.session, "changed": stamp(session.changed_ms), "events": session.events, "size_bytes": session.size_bytes });
        output.value(&json!({ "folder": log.folder(), "sessions": found.iter().map(as_json).collect::<Vec<_>>() }))?;
        return Ok(if found.is_empty() { CommandOutcome::No } else { CommandOutcome::Yes });
    }
    if found.is_empty() {
        output.prose(17, "the event log is empty")?;
        output.prose(
            2,
            styled(DIM, "CTXBRIDGE_HOOKS_EVENT_LOG=1, or `event_log = true` under [hooks] in config.toml, turns it on"),
        )?;
        return Ok(CommandOutcome::No);
    }
    for session in &found {
        let events: Vec<String> = session.events.iter().map(|(event, count)| format!("{event} {count}")).collect();
        let bytes = size(i64::try_from(session.size_bytes).unwrap_or(i64::MAX));
        let time = local(&stamp(session.changed_ms).unwrap_or_default());
        output.prose(
            17,
            format!("{}  {}  {bytes:>10}  {}", escape_controls(&session.session), styled(DIM, time), events.join(", ")),
        )?;
    }
    Ok(CommandOutcome::Yes)
}

fn one(log: &EventLog, prefix: &str, only: Option<Event>, limit: usize, output: &mut Output) -> anyhow::Result<CommandOutcome> {
    let mut sessions: Vec<String> = log.sessions(prefix)?.into_iter().map(|log| log.session).collect();
    if let Some(exact) = sessions.iter().position(|session| session == prefix) {
        sessions = vec![sessions.swap_remove(exact)];
    }
    let session = match sessions.as_slice() {
        [] => {
            output.note(&format!(
                "no session in the event log begins with {}; `ctxbridge doctor --events` lists them",
                escape_controls(prefix)
            ));
            return Ok(CommandOutcome::No);
        }
        [session] => session,
        several => {
            let told = format!(
                "several sessions begin with {}: {}; give more of the id",
                escape_controls(prefix),
                escape_controls(&several.join(", "))
            );
            return Err(UsageError(told).into());
        }
    };
    let mut found = log.entries(session, only);
    let left_out = found.entries.len().saturating_sub(limit);
    found.entries.drain(..left_out);
    if output.json {
        output.value(&json!({ "session": session, "entries": found.entries, "left_out": left_out, "skipped": found.skipped }))?;
    } else {
        if left_out > 0 {
            output.note(&format!("older events that are left out: {left_out}; --limit N shows more"));
        }
        for entry in &found.entries {
            let bytes = size(i64::try_from(entry.size_bytes).unwrap_or(i64::MAX));
            output.prose(17, format!("{}  {:<16}  {bytes:>10}  {}", styled(DIM, local(&entry.ts)), entry.event, about(entry)))?;
        }
    }
    match found.skipped {
        0 => {}
        1 => output.note("1 line of the log is torn or none of ours, and was skipped"),
        skipped => output.note(&format!("{skipped} lines of the log are torn or none of ours, and were skipped")),
    }
    Ok(if found.entries.is_empty() { CommandOutcome::No } else { CommandOutcome::Yes })
}

/// Most telling detail of an event: the tool, the prompt, or the reason.
fn about(entry: &LoggedEvent) -> String {
    let payload = entry.payload.as_ref();
    let field = |name: &str| payload.and_then(|payload| payload.get(name)).and_then(Value::as_str);
    let said = ["tool_name", "prompt", "source", "trigger", "reason", "agent_type"].into_iter().find_map(field);
    let said = said.or(entry.payload_text.as_deref()).unwrap_or_default();
    escape_controls(&quote::cut(&quote::line(quote::head(said, 4 * MAX_DETAIL_CHARS)), MAX_DETAIL_CHARS))
}

fn stamp(ms: i64) -> Option<String> {
    jiff::Timestamp::from_millisecond(ms).ok().map(|time| format!("{time:.3}"))
}

/// Formats local time to the second; text that is not a time is shown unchanged.
fn local(ts: &str) -> String {
    match ts.parse::<jiff::Timestamp>() {
        Ok(time) => time.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string(),
        Err(_) => escape_controls(quote::head(ts, 24)),
    }
}
