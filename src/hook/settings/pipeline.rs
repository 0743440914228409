//! Checks of the results of a hooked session, step by step, each as a user or the model would see it.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use super::HookSettingsError;
use super::editor::{Editor, InstalledState, UninstalledState};
use super::sample::{ASKED_LATER, COMMAND, ELSEWHERE, FILE, LATER, PROMPT, SESSION, ScratchHome, ScratchPaths};
use super::subprocess;
use super::tried_settings::TriedSettings;
use super::wiring::{HookForm, PROGRAM_NAME, hooks};
use crate::bundle::{BUNDLES_FOLDER, BundleAction, BundleLine, PROJECT_DATA_FOLDER};
use crate::hook::{Event, EventLog};
use ctxbridge_archive::quote::head;
use ctxbridge_common::paths::create_private_dir;
use ctxbridge_picker::text::count;

/// Environment variables that are passed on: enough to start a program.
const KEPT_VARIABLES: &[&str] = &[
    "PATH",
    "TEMP",
    "TMP",
    "TMPDIR",
    "LANG",
    "LD_LIBRARY_PATH",
    "LLVM_PROFILE_FILE",
    // Of Windows.
    "SYSTEMROOT",
    "SYSTEMDRIVE",
    "COMSPEC",
    "PATHEXT",
    "USERNAME",
];

/// Time limit for a command.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(30);

/// Number of attempts at a prompt: a hook that runs out of time adds nothing.
const ATTEMPTS: usize = 5;

/// Maximum number of characters shown of a line.
const MAX_SHOWN_CHARS: usize = 72;

/// Result of one step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PipelineCheck {
    /// Name: write, event log, bundle, archive, search, recall, restore.
    pub name: &'static str,
    /// `true` if it succeeded.
    pub ok: bool,
    /// Result, if it succeeded.
    pub said: Option<String>,
    /// Problem, if it failed.
    pub problem: Option<String>,
}

impl PipelineCheck {
    fn of(name: &'static str, result: Result<String, String>) -> Self {
        match result {
            Ok(said) => Self { name, ok: true, said: Some(said), problem: None },
            Err(problem) => Self { name, ok: false, said: None, problem: Some(problem) },
        }
    }
}

/// Checks the results of the hooks of these events. Checks that need a hook that is not installed, or a feature that is off, are skipped.
///
/// # Errors
/// If the program cannot be started.
pub(super) fn checks(
    program: &Path,
    events: &[Event],
    scratch: &ScratchHome,
    archive: Option<&ArchiveCheck>,
    restored: Option<&[u8]>,
    settings: &TriedSettings,
    tell: &dyn Fn(&str),
) -> Result<Vec<PipelineCheck>, HookSettingsError> {
    let has = |event| events.contains(&event);
    let mut checks = vec![
        PipelineCheck::of("write", check_settings_edit(events, scratch)),
        PipelineCheck::of("event log", check_event_log(events, scratch)),
    ];
    let notes = has(Event::UserPromptSubmit) && has(Event::PostToolUse) && !settings.is_off("bundle.enabled");
    if notes {
        checks.push(PipelineCheck::of("bundle", check_bundle(scratch)));
    }
    let Some(archive) = archive else { return Ok(checks) };
    let ArchiveCheck { sessions, turns, problem, .. } = archive;
    let what = format!("{sessions} session, {turns} turns");
    checks.push(PipelineCheck::of("archive", problem.clone().map_or(Ok(what), Err)));
    let failed = |cause| HookSettingsError::Scratch { step: "try what the hooks left behind", cause };
    tell("search");
    checks.push(PipelineCheck::of("search", check_search(program, scratch).map_err(failed)?));
    if notes && !settings.is_off("recall.prompts") {
        tell("recall");
        checks.push(PipelineCheck::of("recall", check_recall(program, scratch).map_err(failed)?));
    }
    tell("restore");
    let restored = restored.filter(|_| !settings.is_off("archive.restore_budget"));
    checks.push(PipelineCheck::of("restore", check_restore(program, scratch, restored).map_err(failed)?));
    Ok(checks)
}

/// Checks that the hooks can be installed in settings, and removed without a trace.
fn check_settings_edit(events: &[Event], scratch: &ScratchHome) -> Result<String, String> {
    let file = scratch.home.join(".claude").join("settings.json");
    let editor = Editor::new(&scratch.data, &|_| {});
    let wanted = hooks(events, PROGRAM_NAME, HookForm::Shell);
    let installed = editor.install(&file, &wanted, true).map_err(|error| error.to_string())?;
    let uninstalled = editor.uninstall(&file).map_err(|error| error.to_string())?;
    match (installed.state, uninstalled.state, file.exists()) {
        (InstalledState::Installed, UninstalledState::Deleted, false) => {
            Ok(format!("{} into settings, and out again", count(wanted.len() as u64, "hook")))
        }
        _ => Err("settings are not what they were after the hooks were taken out".to_owned()),
    }
}

/// Checks that the hooks' inputs are in the event log.
fn check_event_log(events: &[Event], scratch: &ScratchHome) -> Result<String, String> {
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
    Ok(format!("{} logged", count(events.len() as u64, "event")))
}

/// Checks that prompts and work are recorded in the project.
fn check_bundle(scratch: &ScratchHome) -> Result<String, String> {
    let folder = scratch.project.join(PROJECT_DATA_FOLDER).join(BUNDLES_FOLDER);
    let mut lines = Vec::new();
    for entry in fs::read_dir(&folder).map_err(|error| format!("nothing is noted down in the project: {error}"))? {
        let text = entry.and_then(|entry| fs::read_to_string(entry.path())).map_err(|error| error.to_string())?;
        lines.extend(text.lines().filter_map(BundleLine::parse).map(|line| line.action));
    }
    let is_there = |wanted: &BundleAction| lines.contains(wanted);
    let wanted = [
        ("the prompt", BundleAction::Prompt(PROMPT.to_owned())),
        ("what was read", BundleAction::Read(FILE.to_owned())),
        ("what was changed", BundleAction::Edit(FILE.to_owned())),
        ("the command", BundleAction::Command(COMMAND.to_owned())),
    ];
    let missing: Vec<&str> = wanted.iter().filter(|(_, op)| !is_there(op)).map(|(name, _)| *name).collect();
    match missing[..] {
        [] => Ok(format!("{} lines of what was asked and done", lines.len())),
        _ => Err(format!("not noted down: {}", missing.join(", "))),
    }
}

/// Checks that a search finds the session. This also creates the index that recall uses.
fn check_search(program: &Path, scratch: &ScratchHome) -> io::Result<Result<String, String>> {
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

/// Checks that a later session about the same topic recalls the turn, and also one in a clone, where there is no archive.
fn check_recall(program: &Path, scratch: &ScratchHome) -> io::Result<Result<String, String>> {
    let Some(line) = prompted(program, scratch, &scratch.here(), LATER, "ctx:")? else {
        return Ok(Err(format!("a later session that asks `{ASKED_LATER}` is not told of the turn before")));
    };
    let clone = scratch.project.with_file_name("clone");
    let (to, data) = (clone.join(PROJECT_DATA_FOLDER).join(BUNDLES_FOLDER), clone.with_file_name("data-of-clone"));
    for folder in [&clone.join(".git"), &to, &data] {
        create_private_dir(folder)?;
    }
    for entry in fs::read_dir(scratch.project.join(PROJECT_DATA_FOLDER).join(BUNDLES_FOLDER)).into_iter().flatten() {
        let entry = entry?;
        fs::copy(entry.path(), to.join(entry.file_name()))?;
    }
    let place = ScratchPaths { data: &data, project: &clone, ..scratch.here() };
    // It reads what came with the clone to the end. A hook that has no time for that leaves it to a process that would outlive the scratch folder.
    if let Err(problem) = run(program, &place, &["bundle", "search", "--json", "parser"], b"")? {
        return Ok(Err(problem));
    }
    Ok(match prompted(program, scratch, &place, ELSEWHERE, FILE)? {
        Some(_) => Ok(format!("a later prompt is given `{}`, and in a clone what was done", head(&line, MAX_SHOWN_CHARS))),
        None => Err("a session in a clone is not told of what was done, which its bundles say".to_owned()),
    })
}

/// Sends a later prompt. Returns the recalled line with the sample's prompt, if it also contains `with`.
fn prompted(
    program: &Path,
    scratch: &ScratchHome,
    place: &ScratchPaths<'_>,
    session: &str,
    with: &str,
) -> io::Result<Option<String>> {
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

/// Checks that turns are restored after a compaction, and the transcript byte for byte.
fn check_restore(program: &Path, scratch: &ScratchHome, restored: Option<&[u8]>) -> io::Result<Result<String, String>> {
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

/// Returns the text that a hook adds to the context.
fn context(output: &[u8]) -> Option<String> {
    let value: Value = serde_json::from_slice(output).ok()?;
    Some(value["hookSpecificOutput"]["additionalContext"].as_str()?.to_owned())
}

/// Runs a command. Returns its stdout, or the reason why it failed.
fn run(program: &Path, place: &ScratchPaths<'_>, args: &[&str], input: &[u8]) -> io::Result<Result<Vec<u8>, String>> {
    let mut command = in_scratch(program, place);
    command.args(args);
    let finished = subprocess::run(&mut command, input, COMMAND_TIMEOUT)?;
    Ok(match finished.code {
        Some(0) => Ok(finished.stdout),
        _ => Err(format!("`ctxbridge {}` failed{}", args.join(" "), first_error_line(&finished.stderr))),
    })
}

/// Content of the archive after the hooks.
#[derive(Debug, Default, Serialize)]
pub struct ArchiveCheck {
    /// `true` if the session is in it.
    pub ok: bool,
    /// Number of sessions.
    pub sessions: u64,
    /// Number of turns.
    pub turns: u64,
    /// Bytes of transcripts.
    pub bytes_raw: u64,
    /// Problem, if there is one.
    pub problem: Option<String>,
}

/// The program, with just what it needs to find the scratch folder.
pub(super) fn in_scratch(program: &Path, place: &ScratchPaths<'_>) -> Command {
    let mut command = Command::new(program);
    command.env_clear().current_dir(place.project);
    command.envs(KEPT_VARIABLES.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
    for name in ["HOME", "USERPROFILE"] {
        command.env(name, place.home);
    }
    command.envs(place.variables.iter().map(|(name, value)| (name, value)));
    command.env("CTXBRIDGE_DATA_DIR", place.data).env("CTXBRIDGE_CACHE_DIR", place.home.join("cache"));
    // Windows knows of its folders whatever the home is.
    command.env("CTXBRIDGE_CONFIG_DIR", place.home.join("config"));
    command.env("APPDATA", place.home.join("AppData/Roaming")).env("LOCALAPPDATA", place.home.join("AppData/Local"));
    // What goes on behind a hook would outlive the scratch folder.
    command.env("CTXBRIDGE_ARCHIVE_AUTO_OPTIMIZE", "false").env("CTXBRIDGE_HOOKS_EVENT_LOG", "true");
    command
}

/// The first line of an error that a program has printed, to be added to a sentence.
pub(super) fn first_error_line(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    if line.is_empty() { String::new() } else { format!(": {}", line.trim().chars().take(200).collect::<String>()) }
}
