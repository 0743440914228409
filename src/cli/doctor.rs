//! `ctxbridge doctor`

use serde_json::{Value, json};

use super::output::{BAD, BOLD, DIM, GOOD, Output, size, styled};
use super::{Answer, Usage};
use crate::doctor::{Check, Status, Surroundings, examine};
use crate::hook::{Entry, Event, EventLog};
use ctxbridge_archive::quote;
use ctxbridge_common::paths;
use ctxbridge_config::plain;

/// Events of a session unless asked for others.
const LIMIT: u64 = 100;

/// Characters of what is said of an event.
const WIDEST: usize = 100;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ctxbridge doctor                              is everything as it should be
  ctxbridge doctor --events                     sessions in the event log
  ctxbridge doctor --events --session 5f0c1d    what the hooks of one were told

Exit code 1 when something does not work; what is only worth a look is no reason. The event log is off unless the setting event.log
is on (CTXBRIDGE_EVENT_LOG=1), or a hook is run with --debug.")]
pub(super) struct DoctorArgs {
    /// Show the event log instead
    #[arg(long)]
    events: bool,
    /// The events of this session; the begin of its id is enough
    #[arg(long, value_name = "PREFIX", requires = "events")]
    session: Option<String>,
    /// Only this event, such as PostToolUse
    #[arg(long, value_name = "NAME", requires = "session", value_parser = event)]
    event: Option<Event>,
    /// Events or sessions at most, the newest
    #[arg(long, value_name = "N", requires = "events", default_value_t = LIMIT, value_parser = clap::value_parser!(u64).range(1..))]
    limit: u64,
}

fn event(name: &str) -> Result<Event, String> {
    let found = Event::ALL.into_iter().find(|event| event.name().eq_ignore_ascii_case(name) || event.slug() == name);
    found.ok_or_else(|| format!("it is one of {}", Event::ALL.map(Event::name).join(", ")))
}

impl DoctorArgs {
    pub fn run(&self, output: &mut Output) -> anyhow::Result<Answer> {
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

fn look(output: &mut Output) -> anyhow::Result<Answer> {
    let current = std::env::current_dir()?;
    let at = Surroundings::of_process(paths::data_dir()?, current);
    let checks = examine(&at, &|step| output.progress(step));
    output.clear_progress();
    let ok = checks.iter().all(|check| check.status != Status::Failed);
    if output.json {
        output.value(&json!({ "ok": ok, "checks": checks }))?;
    } else {
        for Check { id, status, detail, next } in &checks {
            let mark = match status {
                Status::Ok => styled(GOOD, "✓"),
                Status::Warning => styled(BOLD, "!"),
                Status::Failed => styled(BAD, "✗"),
            };
            let next = next.as_ref().map(|next| styled(DIM, format!(" – {}", plain(next)))).unwrap_or_default();
            output.line(format!("{mark} {:<14} {detail}{next}", id.replace('_', " ")))?;
        }
    }
    Ok(if ok { Answer::Yes } else { Answer::No })
}

fn sessions(log: &EventLog, limit: usize, output: &mut Output) -> anyhow::Result<Answer> {
    let mut found = log.sessions("")?;
    found.truncate(limit);
    if output.json {
        let as_json = |session: &crate::hook::SessionLog| json!({ "session": session.session, "changed": stamp(session.changed_ms), "events": session.events, "size_bytes": session.size_bytes });
        output.value(&json!({ "folder": log.folder(), "sessions": found.iter().map(as_json).collect::<Vec<_>>() }))?;
        return Ok(if found.is_empty() { Answer::No } else { Answer::Yes });
    }
    if found.is_empty() {
        output.line("the event log is empty")?;
        output.line(styled(DIM, "CTXBRIDGE_EVENT_LOG=1, or `log = true` under [event] in config.toml, turns it on"))?;
        return Ok(Answer::No);
    }
    for session in &found {
        let events: Vec<String> = session.events.iter().map(|(event, count)| format!("{event} {count}")).collect();
        let bytes = size(i64::try_from(session.size_bytes).unwrap_or(i64::MAX));
        let time = local(&stamp(session.changed_ms).unwrap_or_default());
        output.line(format!("{}  {}  {bytes:>10}  {}", plain(&session.session), styled(DIM, time), events.join(", ")))?;
    }
    Ok(Answer::Yes)
}

fn one(log: &EventLog, prefix: &str, only: Option<Event>, limit: usize, output: &mut Output) -> anyhow::Result<Answer> {
    let mut sessions: Vec<String> = log.sessions(prefix)?.into_iter().map(|log| log.session).collect();
    if let Some(exact) = sessions.iter().position(|session| session == prefix) {
        sessions = vec![sessions.swap_remove(exact)];
    }
    let session = match sessions.as_slice() {
        [] => {
            output.note(&format!(
                "no session in the event log begins with {}; `ctxbridge doctor --events` lists them",
                plain(prefix)
            ));
            return Ok(Answer::No);
        }
        [session] => session,
        several => {
            let told =
                format!("several sessions begin with {}: {}; give more of the id", plain(prefix), plain(&several.join(", ")));
            return Err(Usage(told).into());
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
            output.line(format!("{}  {:<16}  {bytes:>10}  {}", styled(DIM, local(&entry.ts)), entry.event, about(entry)))?;
        }
    }
    match found.skipped {
        0 => {}
        1 => output.note("1 line of the log is torn or none of ours, and was skipped"),
        skipped => output.note(&format!("{skipped} lines of the log are torn or none of ours, and were skipped")),
    }
    Ok(if found.entries.is_empty() { Answer::No } else { Answer::Yes })
}

/// What of an event says most: the tool, what the user typed, or why it happened.
fn about(entry: &Entry) -> String {
    let payload = entry.payload.as_ref();
    let field = |name: &str| payload.and_then(|payload| payload.get(name)).and_then(Value::as_str);
    let said = ["tool_name", "prompt", "source", "trigger", "reason", "agent_type"].into_iter().find_map(field);
    let said = said.or(entry.payload_text.as_deref()).unwrap_or_default();
    plain(&quote::cut(&quote::line(quote::head(said, 4 * WIDEST)), WIDEST))
}

fn stamp(ms: i64) -> Option<String> {
    jiff::Timestamp::from_millisecond(ms).ok().map(|time| format!("{time:.3}"))
}

/// Local time, to the second; what is no time is shown as it is.
fn local(ts: &str) -> String {
    match ts.parse::<jiff::Timestamp>() {
        Ok(time) => time.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string(),
        Err(_) => plain(quote::head(ts, 24)),
    }
}
