//! `hooks verify` with programs that do what hooks must not.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use ctxbridge::config::Config;
use ctxbridge::hook::Event;
use ctxbridge::hook::settings::tried_settings::TriedSettings;
use ctxbridge::hook::settings::verify::{Verified, verify};
use ctxbridge::hook::settings::wiring::WIRED;
use tempfile::TempDir;

/// A program that answers for an archive that got something, and runs this script as its hooks.
fn program(hook: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ctxbridge");
    let script = format!(
        r#"#!/bin/sh
log="$CTXBRIDGE_DATA_DIR/log"
case "$1 $2" in
"archive status") if test -f "$log"; then echo '{{"sessions": 1, "turns": 2, "bytes_raw": 100000}}'; else echo '{{"sessions": 0}}'; fi; exit ;;
"archive search") echo '{{"results": [{{"session": "5e551011-0000-4000-8000-000000000001"}}]}}'; exit ;;
"archive restore") cat "$HOME/.claude/projects/scratch/$3.jsonl"; exit ;;
esac
input=$(cat)
events="$CTXBRIDGE_DATA_DIR/logs/events/5e551011-0000-4000-8000-000000000001"
mkdir -p "$events"
printf '{{"payload":%s}}\n' "$input" >> "$events/$(printf %s "$input" | sed 's/.*"hook_event_name":"\([A-Za-z]*\)".*/\1/').jsonl"
{hook}
"#
    );
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    (folder, path)
}

fn verified(hook: &str, events: &[Event]) -> Verified {
    let (_folder, path) = program(hook);
    verify(&path, events, &TriedSettings::of(&Config::default()), &|_| {}).unwrap()
}

fn told(verified: &Verified) -> String {
    let runs = verified.hooks.iter().map(|run| format!("{} {}", run.event.slug(), run.problem.as_deref().unwrap_or("ok")));
    runs.chain(checks(verified)).collect::<Vec<_>>().join("\n")
}

/// What is wrong behind the hooks.
fn checks(verified: &Verified) -> impl Iterator<Item = String> {
    let checks = verified.checks.iter().filter(|check| !check.ok || check.name == "archive");
    checks.map(|check| format!("{} {}", check.name, check.problem.as_deref().unwrap_or("ok")))
}

#[test]
fn hooks_get_what_the_client_would_say() {
    let (folder, path) = program(
        r#"echo "$2 $input" >> "$log"; cp "$log" "$(dirname "$0")/log"; test -f "$(printf %s "$input" | sed 's/.*"transcript_path":"\([^"]*\)".*/\1/')""#,
    );
    let all: Vec<_> = WIRED.iter().map(|wiring| wiring.event).collect();
    let verified = verify(&path, &all, &TriedSettings::of(&Config::default()), &|_| {}).unwrap();
    assert!(verified.hooks.iter().all(|run| run.ok), "{}", told(&verified));
    let log = fs::read_to_string(folder.path().join("log")).unwrap();
    let inputs: Vec<(String, serde_json::Value)> = log
        .lines()
        .map(|line| line.split_once(' ').unwrap())
        // Those of later sessions come when the hooks are done.
        .filter(|(_, json)| json.contains("-000000000001\""))
        .map(|(slug, json)| (slug.to_owned(), serde_json::from_str(json).unwrap()))
        .collect();
    assert_eq!(inputs.len(), all.len() + 3, "the session starts twice, and three tools run");
    for (slug, input) in &inputs {
        assert_eq!(Event::from_slug(slug).unwrap().name(), input["hook_event_name"]);
        let scratch = input["cwd"].as_str().unwrap();
        assert!(!std::path::Path::new(scratch).exists(), "{scratch} is left over");
    }
}

#[test]
fn what_a_hook_does_wrong_is_said() {
    let archives = |then: &str| verified(&format!("touch \"$log\"\n{then}"), &[Event::Stop]);
    insta::assert_snapshot!(told(&verified("true", &[Event::UserPromptSubmit])), @"
    user-prompt-submit ok
    archive the session is not in the archive
    ");
    insta::assert_snapshot!(told(&archives("echo 'no such table' >&2; exit 3")), @"
    stop exit code 3: no such table
    archive ok
    ");
    insta::assert_snapshot!(told(&archives("echo done")), @"
    stop it prints text, which the client ignores at Stop
    archive ok
    ");
    insta::assert_snapshot!(told(&archives("kill -9 $$")), @"
    stop it was ended by a signal
    archive ok
    ");
    insta::assert_snapshot!(told(&archives("sleep 5 & exit 0")), @"
    stop it left a process behind that holds its output open, and the client waits for that
    archive ok
    ");
    assert!(!archives("exit 2").ok && archives("true").ok);
    let logs = "mkdir -p \"$CTXBRIDGE_DATA_DIR/logs\"; echo '{\"error\": \"the archive is locked\"}' >> \"$CTXBRIDGE_DATA_DIR/logs/errors.log\"";
    // Exit code 0 says nothing: what went wrong is in the log.
    insta::assert_snapshot!(told(&archives(logs)), @"
    stop the archive is locked
    archive ok
    ");
}

/// The program itself, but for what this script does before it.
fn spoiled(script: &str) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ctxbridge");
    let real = env!("CARGO_BIN_EXE_ctxbridge");
    fs::write(&path, format!("#!/bin/sh\n{script}\nexec '{real}' \"$@\"\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let all: Vec<_> = WIRED.iter().map(|wiring| wiring.event).collect();
    let verified = verify(&path, &all, &TriedSettings::of(&Config::default()), &|_| {}).unwrap();
    assert!(verified.hooks.iter().all(|run| run.ok), "{}", told(&verified));
    assert_eq!(verified.ok, verified.checks.iter().all(|check| check.ok));
    let names: Vec<_> = verified.checks.iter().map(|check| check.name).collect();
    assert_eq!(names, ["write", "event log", "bundle", "archive", "search", "recall", "restore"]);
    checks(&verified).collect()
}

#[test]
fn each_step_is_looked_at() {
    assert_eq!(spoiled(""), ["archive ok"]);
    let told = |script: &str| spoiled(script).join("\n");
    insta::assert_snapshot!(told("export CTXBRIDGE_BUNDLE_ENABLED=false"), @"
    bundle not noted down: the prompt, what was read, what was changed, the command
    archive ok
    recall `ctxbridge bundle search --json parser` failed
    ");
    insta::assert_snapshot!(told("export CTXBRIDGE_HOOKS_EVENT_LOG=false"), @"
    event log SessionStart is not logged: No such file or directory (os error 2)
    archive ok
    ");
    insta::assert_snapshot!(told("test \"$2\" = post-tool-use && exit"), @"
    event log PostToolUse is not logged: No such file or directory (os error 2)
    bundle not noted down: the prompt, what was read, what was changed, the command
    archive ok
    recall `ctxbridge bundle search --json parser` failed
    ");
    insta::assert_snapshot!(told("test \"$1 $2\" = 'archive search' && echo '{\"results\": []}' && exit"), @"
    archive ok
    search the session is not found by its words
    recall a later session that asks `The parser fails on empty lines again: what did we change in src/parser.rs?` is not told of the turn before
    ");
    insta::assert_snapshot!(told("export CTXBRIDGE_RECALL_PROMPTS=false"), @"
    archive ok
    recall a later session that asks `The parser fails on empty lines again: what did we change in src/parser.rs?` is not told of the turn before
    ");
    // Only the clone has no archive.
    insta::assert_snapshot!(told("case \"$CTXBRIDGE_DATA_DIR\" in *clone) test \"$1\" = hook && exit;; esac"), @"
    archive ok
    recall a session in a clone is not told of what was done, which its bundles say
    ");
    insta::assert_snapshot!(told("test \"$1 $2\" = 'archive restore' && echo x"), @"
    archive ok
    restore the transcript that comes out of the archive is not the one that went in
    ");
    insta::assert_snapshot!(told("export CTXBRIDGE_ARCHIVE_RESTORE_BUDGET=0"), @"
    archive ok
    restore no turn comes back after a compaction
    ");
}
