//! What becomes of a session that the hooks saw: looked at step by step, each as a user or the model would meet it.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use super::SettingsError;
use super::editor::{Editor, InstalledState, UninstalledState};
use super::sample::{ASKED_LATER, COMMAND, ELSEWHERE, FILE, LATER, PROMPT, Place, SESSION, Scratch};
use super::subprocess;
use super::verify::{ArchiveCheck, in_scratch, said};
use super::wiring::{BARE, hooks};
use crate::bundle::{BUNDLES, FOLDER, Line, Op};
use crate::hook::{Event, EventLog};
use ctxbridge_archive::quote::head;
use ctxbridge_common::paths::create_private_dir;

/// How long to wait for a command.
const LIMIT: Duration = Duration::from_secs(30);

/// How often a prompt is tried: where a hook has no time to look something up, it says nothing.
const ATTEMPTS: usize = 5;

/// Characters of a line that are shown.
const SHOWN: usize = 72;

/// A step, and how it went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// Which: write, event log, bundle, archive, search, recall, restore.
    pub name: &'static str,
    /// Whether it went well.
    pub ok: bool,
    /// What there is now.
    pub said: Option<String>,
    /// What is wrong.
    pub problem: Option<String>,
}

impl Check {
    fn of(name: &'static str, result: Result<String, String>) -> Self {
        match result {
            Ok(said) => Self { name, ok: true, said: Some(said), problem: None },
            Err(problem) => Self { name, ok: false, said: None, problem: Some(problem) },
        }
    }
}

/// Looks at what the hooks of these events left behind. What needs a hook that is not wired is left out.
///
/// # Errors
/// When the program cannot be started.
pub(super) fn checks(
    program: &Path,
    events: &[Event],
    scratch: &Scratch,
    archive: Option<&ArchiveCheck>,
    restored: Option<&[u8]>,
    tell: &dyn Fn(&str),
) -> Result<Vec<Check>, SettingsError> {
    let has = |event| events.contains(&event);
    let mut checks = vec![Check::of("write", wrote(events, scratch)), Check::of("event log", logged(events, scratch))];
    let notes = has(Event::UserPromptSubmit) && has(Event::PostToolUse);
    if notes {
        checks.push(Check::of("bundle", noted(scratch)));
    }
    let Some(archive) = archive else { return Ok(checks) };
    let ArchiveCheck { sessions, turns, problem, .. } = archive;
    let what = format!("{sessions} session, {turns} turns");
    checks.push(Check::of("archive", problem.clone().map_or(Ok(what), Err)));
    let failed = |cause| SettingsError::Scratch { step: "try what the hooks left behind", cause };
    tell("search");
    checks.push(Check::of("search", found(program, scratch).map_err(failed)?));
    if notes {
        tell("recall");
        checks.push(Check::of("recall", recalled(program, scratch).map_err(failed)?));
    }
    tell("restore");
    checks.push(Check::of("restore", came_back(program, scratch, restored).map_err(failed)?));
    Ok(checks)
}

/// The hooks can be wired in settings, and are gone again without trace.
fn wrote(events: &[Event], scratch: &Scratch) -> Result<String, String> {
    let file = scratch.home.join(".claude").join("settings.json");
    let editor = Editor::new(&scratch.data, &|_| {});
    let wanted = hooks(events, BARE);
    let installed = editor.install(&file, &wanted, true).map_err(|error| error.to_string())?;
    let uninstalled = editor.uninstall(&file).map_err(|error| error.to_string())?;
    match (installed.state, uninstalled.state, file.exists()) {
        (InstalledState::Installed, UninstalledState::Deleted, false) => {
            Ok(format!("{} into settings, and out again", count(wanted.len(), "hook")))
        }
        _ => Err("settings are not what they were after the hooks were taken out".to_owned()),
    }
}

/// What the hooks were told is in the event log.
fn logged(events: &[Event], scratch: &Scratch) -> Result<String, String> {
    let folder = EventLog::in_dir(&scratch.data).folder().join(SESSION);
    for event in events {
        let path = folder.join(event.name()).with_extension("jsonl");
        let text = fs::read_to_string(&path).map_err(|error| format!("{} is not logged: {error}", event.name()))?;
        let is_entry =
            |line: &str| serde_json::from_str::<Value>(line).is_ok_and(|line| line["payload"]["session_id"] == SESSION);
        if text.is_empty() || !text.lines().all(is_entry) {
            return Err(format!("the log of {} is not what the hook was told", event.name()));
        }
    }
    Ok(format!("{} logged", count(events.len(), "event")))
}

fn count(number: usize, name: &str) -> String {
    format!("{number} {name}{}", if number == 1 { "" } else { "s" })
}

/// What was asked and done is in the project.
fn noted(scratch: &Scratch) -> Result<String, String> {
    let folder = scratch.project.join(FOLDER).join(BUNDLES);
    let mut lines = Vec::new();
    for entry in fs::read_dir(&folder).map_err(|error| format!("nothing is noted down in the project: {error}"))? {
        let text = entry.and_then(|entry| fs::read_to_string(entry.path())).map_err(|error| error.to_string())?;
        lines.extend(text.lines().filter_map(Line::parse).map(|line| line.op));
    }
    let is_there = |wanted: &Op| lines.contains(wanted);
    let wanted = [
        ("the prompt", Op::Prompt(PROMPT.to_owned())),
        ("what was read", Op::Read(FILE.to_owned())),
        ("what was changed", Op::Edit(FILE.to_owned())),
        ("the command", Op::Command(COMMAND.to_owned())),
    ];
    let missing: Vec<&str> = wanted.iter().filter(|(_, op)| !is_there(op)).map(|(name, _)| *name).collect();
    match missing[..] {
        [] => Ok(format!("{} lines of what was asked and done", lines.len())),
        _ => Err(format!("not noted down: {}", missing.join(", "))),
    }
}

/// A search finds the session; it also makes the index that prompts are looked up in.
fn found(program: &Path, scratch: &Scratch) -> io::Result<Result<String, String>> {
    let output = match run(program, &scratch.here(), &["archive", "search", "--json", "empty lines", "parser"], b"")? {
        Ok(output) => output,
        Err(problem) => return Ok(Err(problem)),
    };
    let sessions = sessions_of(&output);
    Ok(if sessions.contains(SESSION) {
        Ok("the session is found by its words".to_owned())
    } else {
        Err("the session is not found by its words".to_owned())
    })
}

fn sessions_of(output: &[u8]) -> BTreeSet<String> {
    let value: Value = serde_json::from_slice(output).unwrap_or_default();
    let results = value["results"].as_array().cloned().unwrap_or_default();
    results.iter().filter_map(|result| Some(result["session"].as_str()?.to_owned())).collect()
}

/// A later session that asks about the same is told of it; so is one in a clone, where there is no archive.
fn recalled(program: &Path, scratch: &Scratch) -> io::Result<Result<String, String>> {
    let Some(line) = prompted(program, scratch, &scratch.here(), LATER, "ctx:")? else {
        return Ok(Err(format!("a later session that asks `{ASKED_LATER}` is not told of the turn before")));
    };
    let clone = scratch.project.with_file_name("clone");
    let (to, data) = (clone.join(FOLDER).join(BUNDLES), clone.with_file_name("data-of-clone"));
    for folder in [&clone.join(".git"), &to, &data] {
        create_private_dir(folder)?;
    }
    for entry in fs::read_dir(scratch.project.join(FOLDER).join(BUNDLES)).into_iter().flatten() {
        let entry = entry?;
        fs::copy(entry.path(), to.join(entry.file_name()))?;
    }
    let place = Place { data: &data, project: &clone, ..scratch.here() };
    // It reads what came with the clone to the end. A hook that has no time for that leaves it to a process that would outlive the scratch folder.
    if let Err(problem) = run(program, &place, &["bundle", "search", "--json", "parser"], b"")? {
        return Ok(Err(problem));
    }
    Ok(match prompted(program, scratch, &place, ELSEWHERE, FILE)? {
        Some(_) => Ok(format!("a later prompt is given `{}`, and in a clone what was done", head(&line, SHOWN))),
        None => Err("a session in a clone is not told of what was done, which its bundles say".to_owned()),
    })
}

/// The line with the sample's prompt that a later prompt is given, if it has this in it as well.
fn prompted(program: &Path, scratch: &Scratch, place: &Place<'_>, session: &str, with: &str) -> io::Result<Option<String>> {
    let input = scratch.input_later(session, place.project).to_string();
    for _ in 0..ATTEMPTS {
        let Ok(output) = run(program, place, &["hook", Event::UserPromptSubmit.slug()], input.as_bytes())? else {
            return Ok(None);
        };
        let context = context(&output).unwrap_or_default();
        let begin = PROMPT.split('.').next().unwrap_or(PROMPT);
        if let Some(line) = context.lines().find(|line| line.contains(begin) && line.contains(with)) {
            return Ok(Some(line.trim_start_matches("- ").to_owned()));
        }
    }
    Ok(None)
}

/// Turns come back after a compaction, and the transcript to the byte.
fn came_back(program: &Path, scratch: &Scratch, restored: Option<&[u8]>) -> io::Result<Result<String, String>> {
    let transcript = fs::read(&scratch.transcript)?;
    let output = match run(program, &scratch.here(), &["archive", "restore", SESSION], b"")? {
        Ok(output) => output,
        Err(problem) => return Ok(Err(problem)),
    };
    if output != transcript {
        return Ok(Err("the transcript that comes out of the archive is not the one that went in".to_owned()));
    }
    let whole = "the transcript to the byte";
    let Some(restored) = restored else { return Ok(Ok(whole.to_owned())) };
    let turns = context(restored).unwrap_or_default().lines().filter(|line| line.starts_with("- ctx:")).count();
    Ok(if turns > 0 {
        Ok(format!("{turns} turns after the compaction, {whole}"))
    } else {
        Err("no turn comes back after a compaction".to_owned())
    })
}

/// What a hook adds to the context.
fn context(output: &[u8]) -> Option<String> {
    let value: Value = serde_json::from_slice(output).ok()?;
    Some(value["hookSpecificOutput"]["additionalContext"].as_str()?.to_owned())
}

/// What a command printed, or why it failed.
fn run(program: &Path, place: &Place<'_>, args: &[&str], input: &[u8]) -> io::Result<Result<Vec<u8>, String>> {
    let mut command = in_scratch(program, place);
    command.args(args);
    let finished = subprocess::run(&mut command, input, LIMIT)?;
    Ok(match finished.code {
        Some(0) => Ok(finished.stdout),
        _ => Err(format!("`ctxbridge {}` failed{}", args.join(" "), said(&finished.stderr))),
    })
}
