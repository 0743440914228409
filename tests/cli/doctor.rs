//! `doctor`: what it says of machines in different states; and the event log, from the hook to what is shown of it.

use std::fs;

use ctxbridge_testkit::sandbox::{Ran, Sandbox, run};

use super::filters;

/// Room on the disk and times are of the machine.
fn of_the_machine() -> [insta::internals::SettingsBindDropGuard; 2] {
    let general = filters();
    let mut settings = insta::Settings::clone_current();
    settings.add_filter(r"[\d.]+ GB free", "[GB] GB free");
    settings.add_filter(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?Z?", "[TIME]");
    settings.add_filter(r"\d{4}-\d\d-\d\d \d\d:\d\d\b", "[TIME]");
    // The last one has to go first.
    [settings.bind_to_scope(), general]
}

fn hook(sandbox: &Sandbox, args: &[&str], on: bool, input: &str) -> Ran {
    let mut command = sandbox.command(&[&["hook"], args].concat());
    if on {
        command.env("CTXBRIDGE_HOOKS_EVENT_LOG", "1");
    }
    sandbox.masked(run(command, input.as_bytes()))
}

/// A sandbox whose event log has two sessions.
fn logged() -> Sandbox {
    let sandbox = Sandbox::new();
    let tool = r#"{"session_id":"5f0c1d2e-1","hook_event_name":"PostToolUse","tool_name":"Bash\u001b[31m","tool_input":{"command":"export API_TOKEN=abcdefgh"}}"#;
    assert_eq!(hook(&sandbox, &["post-tool-use"], true, tool).to_string(), "exit code: 0\n");
    let prompt = r#"{"session_id":"5f0c1d2e-1","prompt":"Why does the\nparser hang? My password: hunter2"}"#;
    hook(&sandbox, &["user-prompt-submit"], true, prompt);
    hook(&sandbox, &["--debug", "session-start"], false, r#"{"session_id":"../../escape","source":"startup"}"#);
    sandbox
}

#[test]
fn a_new_machine() {
    let _filters = of_the_machine();
    let sandbox = Sandbox::new();
    insta::assert_snapshot!(sandbox.run(&["doctor"]));
    insta::assert_snapshot!("a_new_machine_json", sandbox.run(&["doctor", "--json"]));
}

#[test]
fn a_machine_where_all_is_well_but_the_model() {
    let _filters = of_the_machine();
    let sandbox = Sandbox::new();
    let script = sandbox.install("e4d", "home/.claude/local/node_modules/@anthropic-ai/claude-code");
    assert_eq!(sandbox.run(&["patch", "apply", "--no-smoke", script.to_str().unwrap()]).code, Some(0));
    assert_eq!(sandbox.run(&["hooks", "install"]).code, Some(0));
    let line = r#"{"type":"user","uuid":"u1","sessionId":"s1","timestamp":"2026-11-22T10:00:00.000Z","message":{"role":"user","content":"Hello"}}"#;
    sandbox.write("home/.claude/projects/work/s1.jsonl", format!("{line}\n"));
    assert_eq!(sandbox.run(&["archive", "import"]).code, Some(0));
    assert_eq!(sandbox.run(&["archive", "search", "hello"]).code, Some(0));
    insta::assert_snapshot!(sandbox.run(&["doctor"]));
}

#[cfg(unix)]
#[test]
fn a_machine_where_little_works() {
    use std::os::unix::fs::PermissionsExt;
    let _filters = of_the_machine();
    let sandbox = Sandbox::new();
    let data = sandbox.data();
    fs::create_dir_all(data.join("logs")).unwrap();
    fs::set_permissions(&data, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(data.join("archive.db"), "this is no database, whatever else it may be").unwrap();
    let failure =
        |ts: &str, error: &str| serde_json::json!({ "ts": ts, "event": "Stop", "session": null, "error": error }).to_string();
    let log = [failure("2020-01-01T00:00:00Z", "long ago"), "torn".into(), failure("2999-01-01T00:00:00Z", "no\u{1b}[31m room")];
    fs::write(data.join("logs/errors.log"), log.join("\n")).unwrap();
    sandbox.write("home/.claude/settings.json", "{ broken");
    let mut command = sandbox.command(&["doctor"]);
    command.env("CTXBRIDGE_AUTOPILOT_WARN", "much").env("CTXBRIDGE_HOOKS_EVENT_LOG", "maybe");
    insta::assert_snapshot!(sandbox.masked(command.output().unwrap()));
    assert!(data.join("archive.db").exists(), "nothing is repaired");
}

/// The checks of the patch, the mod and hooks, and the way that is in force.
fn ways(sandbox: &Sandbox) -> String {
    let said = sandbox.run(&["doctor"]);
    let has = |line: &&str| {
        ["patch ", "mod ", "hooks  ", "pruning "].iter().any(|name| line[line.find(' ').unwrap() + 1..].starts_with(name))
    };
    let lines: Vec<_> = said.stdout.lines().filter(has).collect();
    lines.join("\n")
}

/// A client of a release that asks plugins.
fn new_client(sandbox: &Sandbox) -> std::path::PathBuf {
    let path = sandbox.install("e4d", "home/.claude/local/node_modules/@anthropic-ai/claude-code");
    for file in [path.clone(), path.with_file_name("package.json")] {
        let text = fs::read_to_string(&file).unwrap();
        fs::write(&file, text.replace("2.1.213", "2.1.330")).unwrap();
    }
    path
}

const WITH_MOD: &str = r#"{ "enabledPlugins": { "ctxbridge@ctxbridge": true } }"#;

fn is_loaded(sandbox: &Sandbox, session: &str) {
    let input = format!("{{\"session_id\":\"{session}\"}}");
    assert_eq!(run(sandbox.command(&["mod", "loaded"]), input.as_bytes()).code, Some(0));
}

#[test]
fn the_way_in_force_is_told() {
    let _filters = of_the_machine();
    let sandbox = Sandbox::new();
    let client = new_client(&sandbox);
    insta::assert_snapshot!("neither", ways(&sandbox));
    sandbox.write("home/.claude/settings.json", WITH_MOD);
    insta::assert_snapshot!("mod_not_loaded", ways(&sandbox));
    is_loaded(&sandbox, "s-1");
    insta::assert_snapshot!("mod", ways(&sandbox));
    let answer = |after: Option<u32>| serde_json::json!({ "at_ms": 1_795_000_000_000_u64, "session": "s-1", "cause": "auto", "messages_before": 9, "messages_after": after, "reason": null });
    sandbox.write("data/mod/answers.jsonl", format!("{}\n{}\n{}\n", answer(Some(3)), answer(None), answer(Some(2))));
    assert!(ways(&sandbox).contains("; 2 compactions answered, 1 left to the client"), "{}", ways(&sandbox));
    let mut off = sandbox.command(&["doctor"]);
    off.env("CLAUDE_TEXT_PRUNE", "0");
    let off = sandbox.masked(off.output().unwrap()).stdout;
    assert!(off.contains("! pruning        switched off: compactions are the client's"), "{off}");
    assert_eq!(sandbox.run(&["patch", "apply", "--no-smoke", client.to_str().unwrap()]).code, Some(0));
    insta::assert_snapshot!("both", ways(&sandbox));
    sandbox.write("home/.claude/settings.json", "{}");
    assert_eq!(sandbox.run(&["hooks", "install"]).code, Some(0));
    insta::assert_snapshot!("patch", ways(&sandbox));
}

/// A server's flag, a policy or a folder that is not trusted may switch modules off at any time.
#[test]
fn a_mod_that_sessions_do_not_load_any_more_is_not_in_force() {
    let _filters = of_the_machine();
    let sandbox = Sandbox::new();
    new_client(&sandbox);
    sandbox.write("home/.claude/settings.json", WITH_MOD);
    let days_ago = |days: i64| jiff::Timestamp::now() - jiff::SignedDuration::from_hours(24 * days);
    let mark = serde_json::json!({ "at_ms": days_ago(5).as_millisecond(), "session": "s-1" });
    sandbox.write("data/mod/loaded.jsonl", format!("{mark}\n"));
    let start = serde_json::json!({ "ts": format!("{:.3}", days_ago(1)), "event": "SessionStart", "session": "s-2", "ms": 1.0, "ok": true });
    sandbox.write("data/logs/metrics.jsonl", format!("{start}\n"));
    insta::assert_snapshot!("mod_not_any_more", ways(&sandbox));
    is_loaded(&sandbox, "s-3");
    assert!(ways(&sandbox).contains("✓ pruning        mod (at compaction)"), "{}", ways(&sandbox));
}

#[test]
fn an_old_client_is_no_trouble() {
    let _filters = of_the_machine();
    let sandbox = Sandbox::new();
    let client = sandbox.install("e2", "home/.claude/local/node_modules/@anthropic-ai/claude-code");
    assert_eq!(sandbox.run(&["patch", "apply", "--no-smoke", client.to_str().unwrap()]).code, Some(0));
    insta::assert_snapshot!("old_client", ways(&sandbox));
    sandbox.write("home/.claude/settings.json", WITH_MOD);
    insta::assert_snapshot!("old_client_with_mod", ways(&sandbox));
}

#[test]
fn an_event_log_that_is_off_says_how_to_turn_it_on() {
    let sandbox = Sandbox::new();
    hook(&sandbox, &["post-tool-use"], false, r#"{"session_id":"s"}"#);
    insta::assert_snapshot!(sandbox.run(&["doctor", "--events"]), @"
    exit code: 1
    the event log is empty
    CTXBRIDGE_HOOKS_EVENT_LOG=1, or `event_log = true` under [hooks] in config.toml, turns it on
    ");
    assert!(!sandbox.path("data/logs/events").exists());
}

#[test]
fn what_hooks_were_told_is_shown_without_secrets() {
    let _filters = of_the_machine();
    let sandbox = logged();
    let path = sandbox.path("data/logs/events/5f0c1d2e-1/PostToolUse.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    insta::assert_snapshot!(text, @r#"{"ts":"[TIME]","payload":{"session_id":"5f0c1d2e-1","hook_event_name":"PostToolUse","tool_name":"Bash\u001b[31m","tool_input":{"command":"export API_TOKEN=[redacted:named-secret]"}}}"#);
    fs::write(&path, format!("{text}{{\"ts\":\"2026-")).unwrap();
    let mut names: Vec<String> = fs::read_dir(sandbox.path("data/logs/events"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names.len(), 2);
    assert!(names[1].starts_with("hash-"), "{names:?}");
    let sessions = sandbox.run(&["doctor", "--events", "--json"]).json();
    assert_eq!(sessions["sessions"].as_array().unwrap().len(), 2);
    assert!(sandbox.run(&["doctor", "--events"]).stdout.contains("PostToolUse 1, UserPromptSubmit 1"));
    insta::assert_snapshot!("events", sandbox.run(&["doctor", "--events", "--session", "5f0c"]));
    insta::assert_snapshot!("events_newest", sandbox.run(&["doctor", "--events", "--session", "5f0c", "--limit", "1"]));
    let of_one = ["doctor", "--events", "--session", "5f0c", "--event", "user-prompt-submit", "--json"];
    insta::assert_snapshot!("events_json", sandbox.run(&of_one));
}

#[test]
fn sessions_of_the_log_that_cannot_be_told_apart() {
    let sandbox = logged();
    insta::assert_snapshot!(sandbox.run(&["doctor", "--events", "--session", "nobody"]), @"
    exit code: 1
    --- stderr
    no session in the event log begins with nobody; `ctxbridge doctor --events` lists them
    ");
    let said = sandbox.run(&["doctor", "--events", "--session", ""]);
    assert_eq!(said.code, Some(2));
    assert!(said.stderr.contains("several sessions begin with"), "{}", said.stderr);
    assert_eq!(sandbox.run(&["doctor", "--session", "a"]).code, Some(2));
    assert_eq!(sandbox.run(&["doctor", "--events", "--session", "a", "--event", "Nonsense"]).code, Some(2));
}

/// Whatever is wrong with the log, a hook does what it does without it.
#[test]
fn a_log_that_cannot_be_written_disturbs_nobody() {
    let sandbox = Sandbox::new();
    let logs = sandbox.path("data/logs");
    fs::create_dir_all(&logs).unwrap();
    fs::write(logs.join("events"), "a file").unwrap();
    for event in ["post-tool-use", "session-start", "post-tool-use"] {
        assert_eq!(hook(&sandbox, &[event], true, r#"{"session_id":"s"}"#).to_string(), "exit code: 0\n");
    }
    let log = fs::read_to_string(logs.join("errors.log")).unwrap();
    assert_eq!(log.lines().count(), 1, "{log}");
    assert!(log.contains("the event log in"), "{log}");
}

/// What is no JSON is kept as well: it is what somebody looks for then.
#[test]
fn input_that_is_no_json_is_logged_as_text() {
    let sandbox = Sandbox::new();
    hook(&sandbox, &["post-tool-use"], true, "no JSON, password=hunter2");
    let text = fs::read_to_string(sandbox.path("data/logs/events/no-session/PostToolUse.jsonl")).unwrap();
    assert!(text.ends_with("\"payload_text\":\"no JSON, password=[redacted:named-secret]\"}\n"), "{text}");
}

#[test]
fn what_the_client_deletes_soon_is_compared_with_the_archive() {
    let sandbox = Sandbox::new();
    let line = |text: &str| serde_json::json!({ "type": "user", "uuid": text, "message": { "role": "user", "content": text } });
    let cleanup = || {
        let checks = sandbox.run(&["doctor", "--json"]).json();
        let check = checks["checks"].as_array().unwrap().iter().find(|check| check["id"] == "cleanup").cloned().unwrap();
        format!("{}: {}", check["status"].as_str().unwrap(), check["detail"].as_str().unwrap())
    };
    let talk = sandbox.talk(1, format!("{}\n", line("one")));
    sandbox.talk(2, format!("{}\n", line("two")));
    assert_eq!(cleanup(), "ok: the client deletes transcripts 30 days after their last use; none goes within 7 days");
    let days_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(25 * 24 * 3600);
    fs::File::options().append(true).open(&talk.path).unwrap().set_modified(days_ago).unwrap();
    let missing = "of 1 within 7 days, 1 not archived in full";
    assert_eq!(cleanup(), format!("warning: the client deletes transcripts 30 days after their last use; {missing}"));
    assert_eq!(sandbox.run(&["archive", "import"]).code, Some(0));
    assert_eq!(cleanup(), "ok: the client deletes transcripts 30 days after their last use; 1 within 7 days, all archived");
    sandbox.write("home/.claude/settings.json", r#"{ "cleanupPeriodDays": 365 }"#);
    assert_eq!(cleanup(), "ok: the client deletes transcripts 365 days after their last use; none goes within 7 days");
}
