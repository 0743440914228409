//! `hooks verify` with programs that do what hooks must not.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use ctxbridge::hook::Event;
use ctxbridge::hook::settings::verify::{Verified, verify};
use ctxbridge::hook::settings::wiring::WIRED;
use tempfile::TempDir;

/// A program that answers `archive status` with what it got, and runs this script as its hooks.
fn program(hook: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ctxbridge");
    let script = format!(
        r#"#!/bin/sh
log="$CTXBRIDGE_DATA_DIR/log"
case "$1 $2" in
"archive status") if test -f "$log"; then echo '{{"sessions": 1, "turns": 2, "bytes_raw": 100000}}'; else echo '{{"sessions": 0}}'; fi; exit ;;
esac
input=$(cat)
{hook}
"#
    );
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    (folder, path)
}

fn verified(hook: &str, events: &[Event]) -> Verified {
    let (_folder, path) = program(hook);
    verify(&path, events, &|_| {}).unwrap()
}

fn told(verified: &Verified) -> String {
    let runs = verified.hooks.iter().map(|run| format!("{} {}", run.event.slug(), run.problem.as_deref().unwrap_or("ok")));
    let archive = verified.archive.iter().map(|archive| format!("archive {}", archive.problem.as_deref().unwrap_or("ok")));
    runs.chain(archive).collect::<Vec<_>>().join("\n")
}

#[test]
fn hooks_get_what_the_client_would_say() {
    let (folder, path) = program(
        r#"echo "$2 $input" >> "$log"; cp "$log" "$(dirname "$0")/log"; test -f "$(printf %s "$input" | sed 's/.*"transcript_path":"\([^"]*\)".*/\1/')""#,
    );
    let all: Vec<_> = WIRED.iter().map(|(event, _)| *event).collect();
    let verified = verify(&path, &all, &|_| {}).unwrap();
    assert!(verified.ok, "{}", told(&verified));
    let log = fs::read_to_string(folder.path().join("log")).unwrap();
    let inputs: Vec<(String, serde_json::Value)> = log
        .lines()
        .map(|line| line.split_once(' ').unwrap())
        .map(|(slug, json)| (slug.to_owned(), serde_json::from_str(json).unwrap()))
        .collect();
    assert_eq!(inputs.len(), all.len() + 1, "the session starts twice");
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
    let logs = "mkdir -p \"$CTXBRIDGE_DATA_DIR/logs\"; echo '{\"error\": \"the archive is locked\"}' >> \"$CTXBRIDGE_DATA_DIR/logs/hooks.log\"";
    // Exit code 0 says nothing: what went wrong is in the log.
    insta::assert_snapshot!(told(&archives(logs)), @"
    stop the archive is locked
    archive ok
    ");
}
