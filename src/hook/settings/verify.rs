//! Running the hooks in a scratch home, and checking their replies and effects.

use std::fs;
use std::io;
use std::path::Path;
use std::thread;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use super::HookSettingsError;
use super::pipeline::{self, PipelineCheck};
use super::pipeline::{ArchiveCheck, first_error_line, in_scratch};
use super::sample::ScratchHome;
use super::subprocess::{self, FinishedProcess};
use super::tried_settings::TriedSettings;
use super::wiring::wiring;
use crate::hook::Event;

/// Run time of a hook from which a user would notice it, in milliseconds.
pub const SLOW_MS: u64 = 500;

/// Time limit for the archive's status.
const STATUS_LIMIT: Duration = Duration::from_secs(30);

/// Number of attempts at removing the scratch folder, and the time between them.
const REMOVALS: usize = 20;
const BETWEEN_REMOVALS: Duration = Duration::from_millis(100);

/// Result of a verification.
#[derive(Debug, Serialize)]
pub struct Verified {
    /// `true` if everything succeeded.
    pub ok: bool,
    /// Each run, in order.
    pub hooks: Vec<HookTrial>,
    /// Content of the archive afterwards; `None` if no hook that archives was run.
    pub archive: Option<ArchiveCheck>,
    /// Checks of the results, as far as the installed hooks allow.
    pub checks: Vec<PipelineCheck>,
}

/// One run of a hook.
#[derive(Debug, Serialize)]
pub struct HookTrial {
    /// The event.
    pub event: Event,
    /// Variant of the input: the source of a session's start, or the tool.
    pub input: Option<&'static str>,
    /// `true` if it succeeded.
    pub ok: bool,
    /// Its exit code; `None` if it was ended by a signal.
    pub exit_code: Option<i32>,
    /// Run time, in milliseconds.
    pub elapsed_ms: u64,
    /// Size of its stdout, in bytes.
    pub stdout_bytes: usize,
    /// Problem, if it failed.
    pub problem: Option<String>,
}

/// Runs the hooks of these events with `program` and the user's settings, in the order of a session with a compaction; `tell` receives
/// the name of each.
///
/// # Errors
/// If the scratch folder cannot be created, or the program cannot be started.
pub fn verify(
    program: &Path,
    events: &[Event],
    settings: &TriedSettings,
    tell: &dyn Fn(&str),
) -> Result<Verified, HookSettingsError> {
    let scratch_error = |step| move |cause| HookSettingsError::Scratch { step, cause };
    let folder =
        tempfile::Builder::new().prefix("ctxbridge-verify-").tempdir().map_err(scratch_error("make a scratch folder"))?;
    let scratch = ScratchHome::new(folder.path(), settings.variables.clone()).map_err(scratch_error("write a sample session"))?;
    let mut hooks = Vec::new();
    let mut archive = None;
    let mut restored = None;
    let mut logged = 0;
    for (event, input) in plan(events) {
        tell(event.name());
        let json = scratch.input(event, input);
        let limit = wiring(event).map_or(STATUS_LIMIT, |wiring| Duration::from_secs(wiring.timeout.into()));
        let mut command = in_scratch(program, &scratch.here());
        command.args(["hook", event.slug()]);
        let finished = subprocess::run(&mut command, json.to_string().as_bytes(), limit).map_err(scratch_error("run a hook"))?;
        let mut run = judged(event, input, &finished, limit);
        // Hooks say 0 whatever happens: what did is in their log.
        if let (None, Some(error)) = (&run.problem, scratch.new_failure(&mut logged)) {
            run = HookTrial { ok: false, problem: Some(error), ..run };
        }
        if input == Some("compact") {
            restored = Some(finished.stdout);
        }
        hooks.push(run);
        let archives = !matches!(event, Event::SessionStart | Event::PreToolUse | Event::PostToolUse);
        if archives && archive.is_none() && !settings.is_off("archive.enabled") {
            let mut command = in_scratch(program, &scratch.here());
            command.args(["archive", "status", "--json"]);
            let finished = subprocess::run(&mut command, b"", STATUS_LIMIT).map_err(scratch_error("run `archive status`"))?;
            archive = Some(archive_check(&finished, scratch.transcript_bytes));
        }
    }
    let checks = pipeline::checks(program, events, &scratch, archive.as_ref(), restored.as_deref(), settings, tell)?;
    remove(folder.path()).map_err(scratch_error("remove the scratch folder"))?;
    let ok = hooks.iter().all(|run| run.ok) && checks.iter().all(|check| check.ok);
    Ok(Verified { ok, hooks, archive, checks })
}

/// Removes the scratch folder. Background processes of a hook may still be writing there.
fn remove(folder: &Path) -> io::Result<()> {
    for _ in 0..REMOVALS {
        if fs::remove_dir_all(folder).is_ok() {
            return Ok(());
        }
        thread::sleep(BETWEEN_REMOVALS);
    }
    fs::remove_dir_all(folder)
}

/// Lists the runs: with tool calls, and a new start after the compaction.
fn plan(events: &[Event]) -> Vec<(Event, Option<&'static str>)> {
    let inputs = |event| match event {
        Event::SessionStart => &[Some("startup")][..],
        Event::PreToolUse => &[Some("Agent")],
        Event::PostToolUse => &[Some("Read"), Some("Edit"), Some("Bash")],
        _ => &[None],
    };
    let wired = Event::ALL.into_iter().filter(|event| events.contains(event));
    let mut plan: Vec<_> = wired.flat_map(|event| inputs(event).iter().map(move |input| (event, *input))).collect();
    if events.contains(&Event::SessionStart) {
        let is_after = |event: Event| matches!(event, Event::Stop | Event::SubagentStop | Event::SessionEnd);
        let at = plan.iter().position(|(event, _)| is_after(*event)).unwrap_or(plan.len());
        plan.insert(at, (Event::SessionStart, Some("compact")));
    }
    plan
}

fn judged(event: Event, input: Option<&'static str>, finished: &FinishedProcess, limit: Duration) -> HookTrial {
    let problem = match finished.code {
        _ if finished.timed_out => {
            Some(format!("it was not done after {} s, which is when the client gives up", limit.as_secs()))
        }
        _ if finished.held_open => {
            Some("it left a process behind that holds its output open, and the client waits for that".to_owned())
        }
        Some(0) => invalid(event, &finished.stdout),
        Some(code) => Some(format!("exit code {code}{}", first_error_line(&finished.stderr))),
        None => Some(format!("it was ended by a signal{}", first_error_line(&finished.stderr))),
    };
    HookTrial {
        event,
        input,
        ok: problem.is_none(),
        exit_code: finished.code,
        elapsed_ms: finished.elapsed.as_millis() as u64,
        stdout_bytes: finished.stdout.len(),
        problem,
    }
}

/// Returns the problem with a reply, if any: the client reads plain text at some events, and each event has its own kind of JSON.
fn invalid(event: Event, stdout: &[u8]) -> Option<String> {
    let Ok(text) = std::str::from_utf8(stdout) else { return Some("its output is not UTF-8".to_owned()) };
    let text = text.trim();
    if text.is_empty() {
        return None;
    }
    // At the first two it becomes context, at the third instructions for the summary.
    let takes_text = matches!(event, Event::SessionStart | Event::UserPromptSubmit | Event::PreCompact);
    if !text.starts_with('{') {
        return (!takes_text).then(|| format!("it prints text, which the client ignores at {}", event.name()));
    }
    let value: Value = match serde_json::from_str(text) {
        Ok(value) => value,
        Err(error) => return Some(format!("its output begins like JSON and is none: {error}")),
    };
    let specific = value.get("hookSpecificOutput")?;
    let takes_context = matches!(event, Event::SessionStart | Event::UserPromptSubmit | Event::PreToolUse | Event::PostToolUse);
    if !takes_context {
        return Some(format!("`hookSpecificOutput` is not known at {}, and the client drops the whole answer", event.name()));
    }
    match specific.get("hookEventName").and_then(Value::as_str) {
        Some(name) if name == event.name() => {}
        name => return Some(format!("`hookEventName` is {}, not {}", name.unwrap_or("missing"), event.name())),
    }
    let context = specific.get("additionalContext");
    context.is_some_and(|context| !context.is_string()).then(|| "`additionalContext` is no text".to_owned())
}

fn archive_check(finished: &FinishedProcess, transcript_bytes: u64) -> ArchiveCheck {
    let failed = |problem: String| ArchiveCheck { problem: Some(problem), ..ArchiveCheck::default() };
    let value: Value = match (finished.code, serde_json::from_slice(&finished.stdout)) {
        (Some(0), Ok(value)) => value,
        _ => return failed(format!("`ctxbridge archive status --json` failed{}", first_error_line(&finished.stderr))),
    };
    let number = |key: &str| value.get(key).and_then(Value::as_u64).unwrap_or(0);
    let (sessions, turns, bytes_raw) = (number("sessions"), number("turns"), number("bytes_raw"));
    let problem = if sessions == 0 || turns == 0 {
        Some("the session is not in the archive".to_owned())
    } else if bytes_raw < transcript_bytes {
        Some(format!("the archive has {bytes_raw} of the transcript's {transcript_bytes} bytes"))
    } else {
        None
    };
    ArchiveCheck { ok: problem.is_none(), sessions, turns, bytes_raw, problem }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hook::settings::wiring::WIRED;

    #[test]
    fn answers_are_judged_by_what_the_client_reads_at_the_event() {
        let context = |name: &str| format!(r#"{{"hookSpecificOutput":{{"hookEventName":"{name}","additionalContext":"x"}}}}"#);
        assert_eq!(invalid(Event::Stop, b" \n"), None);
        assert_eq!(invalid(Event::SessionStart, context("SessionStart").as_bytes()), None);
        assert_eq!(invalid(Event::PreCompact, b"Keep the names of files."), None);
        assert_eq!(invalid(Event::Stop, br#"{"systemMessage":"x"}"#), None);
        let wrong = |event, output: &str| invalid(event, output.as_bytes()).expect("wrong");
        insta::assert_snapshot!(wrong(Event::SessionStart, &context("Stop")), @"`hookEventName` is Stop, not SessionStart");
        insta::assert_snapshot!(wrong(Event::PostCompact, &context("PostCompact")), @"`hookSpecificOutput` is not known at PostCompact, and the client drops the whole answer");
        insta::assert_snapshot!(wrong(Event::Stop, "done"), @"it prints text, which the client ignores at Stop");
        insta::assert_snapshot!(wrong(Event::UserPromptSubmit, "{\"a\":"), @"its output begins like JSON and is none: EOF while parsing a value at line 1 column 5");
        let number = r#"{"hookSpecificOutput":{"hookEventName":"SessionStart","additionalContext":1}}"#;
        insta::assert_snapshot!(wrong(Event::SessionStart, number), @"`additionalContext` is no text");
    }

    #[test]
    fn a_session_starts_again_after_its_compaction() {
        let names = |events: &[Event]| {
            plan(events)
                .iter()
                .map(|(event, input)| format!("{}{}", event.slug(), input.map_or(String::new(), |input| format!(":{input}"))))
                .collect::<Vec<_>>()
                .join(" ")
        };
        let wired: Vec<_> = WIRED.iter().map(|wiring| wiring.event).collect();
        insta::assert_snapshot!(names(&wired), @"session-start:startup user-prompt-submit pre-tool-use:Agent post-tool-use:Read post-tool-use:Edit post-tool-use:Bash pre-compact post-compact session-start:compact stop subagent-stop session-end");
        assert_eq!(names(&[Event::Stop]), "stop");
    }
}
