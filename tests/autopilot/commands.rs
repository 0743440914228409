//! `ctxbridge statusline` and `ctxbridge autopilot status`.

use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};

use ctxbridge::autopilot::{WindowReading, WindowState, WindowStateStore};
use ctxbridge::config::AutopilotSettings;
use ctxbridge_testkit::sandbox::{PATIENCE, Sandbox, finish};
use proptest::prelude::*;
use serde_json::{Value, json};

const SESSION: &str = "0b9d2f6a-3c41-4d5e-9f00-112233445566";

fn input() -> Value {
    json!({
        "session_id": SESSION, "transcript_path": "/nowhere/at/all.jsonl", "cwd": "/work", "version": "2.1.330",
        "model": { "id": "claude-sonnet-4-5", "display_name": "Sonnet 4.5" },
        "workspace": { "current_dir": "/work", "project_dir": "/work" }, "cost": { "total_cost_usd": 0.5 },
        "exceeds_200k_tokens": false,
        "context_window": {
            "context_window_size": 200_000, "used_percentage": 24,
            "current_usage": { "input_tokens": 8, "cache_creation_input_tokens": 792, "cache_read_input_tokens": 48_000, "output_tokens": 5_000 },
        },
    })
}

fn store(sandbox: &Sandbox) -> WindowStateStore {
    WindowStateStore::in_dir(&sandbox.data())
}

/// A session that has seen these tokens, a turn each.
fn session(sandbox: &Sandbox, id: &str, tokens: &[u64]) {
    let see = |state: &mut WindowState| {
        for (turns, tokens) in (1..).zip(tokens) {
            state.observe(
                WindowReading { tokens: *tokens, window: 200_000, turns, at_ms: 1_700_000_000_000 },
                &AutopilotSettings::default(),
            );
        }
        state.record_optimize_run();
    };
    store(sandbox).update(id, PATIENCE, see).unwrap();
}

/// Runs a command that reads all of its input; it has to exit like that, with nothing on stderr.
#[track_caller]
fn run(mut command: Command, stdin: &[u8], code: i32) -> String {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut pipe = child.stdin.take().unwrap();
    let stdin = stdin.to_vec();
    let writer = std::thread::spawn(move || pipe.write_all(&stdin));
    let ran = finish(child).with_code(code);
    writer.join().unwrap().unwrap();
    assert_eq!(ran.stderr, "");
    ran.stdout
}

/// The statusline for this input, without colors.
#[track_caller]
fn statusline(sandbox: &Sandbox, input: &str) -> String {
    run(sandbox.command(&["statusline"]), input.as_bytes(), 0)
}

#[test]
fn the_statusline_shows_the_client_s_figures() {
    let sandbox = Sandbox::new();
    insta::assert_snapshot!(statusline(&sandbox, &input().to_string()), @"24.4% 48.8K/200.0K ok · unpatched");
    session(&sandbox, SESSION, &[10_000, 20_000, 30_000, 41_000]);
    insta::assert_snapshot!(statusline(&sandbox, &input().to_string()), @"24.4% 48.8K/200.0K ok · ▁▁▂▂▂ +9.7K/turn, ~15 left · 1 optimized · unpatched");
    let mut full = input();
    full["context_window"]["current_usage"]["cache_read_input_tokens"] = json!(170_000);
    insta::assert_snapshot!(statusline(&sandbox, &full.to_string()), @"85.4% 170.8K/200.0K optimize · ▁▁▂▂▇ +40.2K/turn, ~0 left · 1 optimized · unpatched");
    let mut colored = sandbox.command(&["statusline"]);
    colored.env_remove("NO_COLOR");
    let colored = run(colored, full.to_string().as_bytes(), 0);
    insta::assert_snapshot!(colored.replace('\u{1b}', "ESC"), @"ESC[31m85.4%ESC[0m 170.8K/200.0K ESC[31moptimizeESC[0m ESC[2m·ESC[0m ESC[31m▁▁▂▂▇ESC[0mESC[2m +40.2K/turn, ~0 leftESC[0m ESC[2m·ESC[0m ESC[2m1 optimizedESC[0m ESC[2m·ESC[0m ESC[33munpatchedESC[0m");
    let never = run(sandbox.command(&["statusline", "--color", "never"]), full.to_string().as_bytes(), 0);
    assert_eq!(never, statusline(&sandbox, &full.to_string()));
    let json = run(sandbox.command(&["statusline", "--json"]), full.to_string().as_bytes(), 0);
    insta::assert_snapshot!(json, @r#"
    {
      "tokens": 170800,
      "window": 200000,
      "used_percentage": 85.4,
      "phase": "optimize",
      "trend": {
        "tokens_per_turn": 40200.0,
        "turns_left": 0
      },
      "optimize_cycles": 1,
      "patched": false,
      "way": "neither"
    }
    "#);
}

/// A mark of the mod, and settings that enable it; both are small.
#[cfg(unix)]
#[test]
fn the_statusline_shows_the_way_in_force() {
    let sandbox = Sandbox::new();
    let line = |version: &str| {
        let mut told = input();
        told["version"] = json!(version);
        let line = statusline(&sandbox, &told.to_string());
        line.trim_end().rsplit(" · ").next().unwrap().to_owned()
    };
    sandbox.write("home/.claude/settings.json", r#"{ "enabledPlugins": { "ctxbridge@ctxbridge": true } }"#);
    assert_eq!(line("2.1.330"), "unpatched", "no session has loaded it");
    sandbox.write("data/mod/loaded.jsonl", "{\"at_ms\":1795000000000,\"session\":\"s\"}\n");
    assert_eq!((line("2.1.330").as_str(), line("2.1.200").as_str()), ("mod", "unpatched"));
    let client = sandbox.install("e2", "client");
    std::os::unix::fs::symlink(&client, sandbox.path("bin/claude")).unwrap();
    sandbox.cli(&["patch", "apply", "--no-smoke", "-q"]);
    assert_eq!(line("2.1.45"), "patched");
    let json = run(sandbox.command(&["statusline", "--json"]), input().to_string().as_bytes(), 0);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["patched"], &json["way"]), (&json!(false), &json!("mod")));
    sandbox.write("home/.claude/settings.json", "{ broken");
    assert_eq!(line("2.1.330"), "unpatched");
}

/// Hooks are not told the window, so the statusline keeps it for them.
#[test]
fn the_client_s_window_is_kept() {
    let sandbox = Sandbox::new();
    let mut large = input();
    large["context_window"]["context_window_size"] = json!(1_000_000);
    insta::assert_snapshot!(statusline(&sandbox, &large.to_string()), @"4.9% 48.8K/1.0M ok · unpatched");
    let kept = || store(&sandbox).load(SESSION).and_then(|state| state.window);
    assert_eq!(kept(), Some(1_000_000));
    // An older client, or a model that tells nothing: what was told last counts.
    large["context_window"] = Value::Null;
    statusline(&sandbox, &large.to_string());
    assert_eq!(kept(), Some(1_000_000));
    statusline(&sandbox, &input().to_string());
    assert_eq!(kept(), Some(200_000));
}

#[test]
fn without_figures_the_transcript_tells_then_the_state() {
    let sandbox = Sandbox::new();
    let transcript = sandbox.path("session.jsonl");
    let answer = |tokens: u64, sidechain: bool| {
        let usage = json!({ "input_tokens": 5, "cache_read_input_tokens": tokens - 10, "cache_creation_input_tokens": 5, "output_tokens": 999 });
        json!({ "type": "assistant", "isSidechain": sidechain, "message": { "role": "assistant", "usage": usage } }).to_string()
    };
    let line = |lines: &[String]| {
        fs::write(&transcript, lines.join("\n")).unwrap();
        let input = json!({ "session_id": SESSION, "transcript_path": transcript });
        statusline(&sandbox, &input.to_string())
    };
    let empty = line(&[]);
    assert!(empty.starts_with("-/200.0K"), "{empty}");
    assert!(
        line(&[answer(20_000, false), answer(90_000, true), "{\"type\":\"user\"}".to_owned()])
            .starts_with("10.0% 20.0K/200.0K ok")
    );
    // The client's own answers have no usage; a torn line at the end is one that is being written.
    let own = json!({ "type": "assistant", "message": { "usage": { "input_tokens": 0 } } }).to_string();
    assert!(line(&[answer(20_000, false), own, answer(90_000, false)[..50].to_owned()]).starts_with("10.0%"));
    // Only the end is read.
    let long = json!({ "type": "user", "message": { "content": "x".repeat(300_000) } }).to_string();
    assert!(line(&[answer(20_000, false), long.clone()]).starts_with("-/200.0K"));
    assert!(line(&[long, answer(20_000, false)]).starts_with("10.0%"));
    // After a compaction, the next request has what was said since, and the system prompt and the tools.
    session(&sandbox, SESSION, &[60_000]);
    let boundary = json!({ "type": "system", "subtype": "compact_boundary" }).to_string();
    let summary = json!({ "type": "user", "isCompactSummary": true, "message": { "content": "x".repeat(35_000) } }).to_string();
    assert!(line(&[answer(20_000, false), boundary, summary]).starts_with("25.0% 50.0K/200.0K ok"));
    assert!(line(&[]).starts_with("30.0% 60.0K/200.0K ok"));
    fs::remove_file(&transcript).unwrap();
    for path in [json!("/dev/zero"), json!(sandbox.root()), json!(""), json!(7), json!("/nowhere")] {
        let input = json!({ "session_id": SESSION, "transcript_path": path });
        assert!(statusline(&sandbox, &input.to_string()).starts_with("30.0%"), "{path}");
    }
}

#[test]
fn a_larger_window_is_inferred_when_the_smaller_one_cannot_be() {
    let told = json!({ "exceeds_200k_tokens": true, "context_window": { "current_usage": { "input_tokens": 250_000 } } });
    assert!(statusline(&Sandbox::new(), &told.to_string()).starts_with("25.0% 250.0K/1.0M ok"));
}

/// The client shows what the command prints, whatever it was given.
#[test]
fn it_prints_one_line_whatever_comes() {
    let sandbox = Sandbox::new();
    let huge = format!("{{\"session_id\":\"{}\"}}", "a".repeat(10 << 20));
    for garbage in ["", "null", "[]", "7", "{", "\u{0}", "not json", huge.as_str()] {
        assert_eq!(statusline(&sandbox, garbage), "ctxbridge\n");
    }
    let unread = run(sandbox.command(&["statusline"]), b"\xff\xfe{}", 0);
    assert_eq!(unread, "ctxbridge\n");
    insta::assert_snapshot!(statusline(&sandbox, "{}"), @"-/200.0K · unpatched");
    // A folder that cannot be used is no reason to say nothing.
    let mut command = sandbox.command(&["statusline"]);
    command.env("CTXBRIDGE_DATA_DIR", "/dev/null/data");
    insta::assert_snapshot!(run(command, input().to_string().as_bytes(), 0), @"24.4% 48.8K/200.0K ok");
}

#[test]
fn status_shows_the_newest_session() {
    let sandbox = Sandbox::new();
    let status = |args: &[&str], code| run(sandbox.command(&[&["autopilot", "status"], args].concat()), b"", code);
    insta::assert_snapshot!(status(&[], 1), @"nothing is known of any session; hooks watch the window once `ctxbridge hooks install` has run");
    assert_eq!(status(&["--json"], 1), "{\n  \"session\": null\n}\n");
    session(&sandbox, "older", &[10_000]);
    let old = fs::File::open(sandbox.data().join("autopilot/older.json")).unwrap();
    old.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    session(&sandbox, SESSION, &[20_000, 55_000, 90_000, 150_000, 180_000]);
    insta::assert_snapshot!(status(&[], 0), @"
    [ContextAutopilot] [==================--] 90.0% context used (~180.0K/200.0K tokens, 5 turns) Status: OPTIMIZING | +40.0K tokens a turn, ~0 turns left

    100% ┤            ▂▂▂
     85% ┤┄┄┄┄┄┄┄┄┄┄┄┄███ optimize
     70% ┤┄┄┄┄┄┄┄┄┄██████ warn
         ┤         ██████
         ┤      ▅▅▅██████
         ┤   ▂▂▂█████████
         ┤   ████████████
      0% ┤▇▇▇████████████
          turns 1 to 5

    session 0b9d2f6a-3c41-4d5e-9f00-112233445566, 1 optimize cycle
    ");
    let json: Value = serde_json::from_str(&status(&["older", "--json"], 0)).unwrap();
    insta::assert_snapshot!(json, @r#"{"session":"older","tokens":10000,"window":200000,"used_percentage":5.0,"phase":"ok","turns":1,"trend":null,"optimize_cycles":1,"warning_issued":false,"last_check_ms":1700000000000,"blocked_at_ms":null,"history":[{"ts_ms":1700000000000,"tokens":10000,"used_percentage":5.0,"turns":1}]}"#);
    insta::assert_snapshot!(status(&["nobody"], 1), @"nothing is known of this session; hooks watch the window once `ctxbridge hooks install` has run");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Any of it may be missing or of another type.
    #[test]
    fn any_json_is_one_line(values in proptest::collection::vec(prop_oneof![
        Just(json!(null)), Just(json!(-1)), Just(json!(1e300)), Just(json!("x\n\u{1b}[31m")), Just(json!([])), Just(json!({})),
        Just(json!(u64::MAX)), Just(json!(0.5)), Just(json!(true)), Just(json!(200_000)),
    ], 9)) {
        let mut told = json!({ "context_window": { "current_usage": {} } });
        for (path, value) in ["session_id", "transcript_path", "version", "exceeds_200k_tokens"].iter().zip(&values) {
            told[*path] = value.clone();
        }
        told["context_window"]["context_window_size"] = values[4].clone();
        told["context_window"]["used_percentage"] = values[5].clone();
        for (name, value) in ["input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"].iter().zip(&values[6..]) {
            told["context_window"]["current_usage"][*name] = value.clone();
        }
        use ctxbridge::autopilot::{StatuslineInput, gather};
        let input = StatuslineInput::parse(told.to_string().as_bytes()).unwrap();
        let text = gather(&input, None, None, None, &ctxbridge::config::AutopilotSettings::default()).text();
        prop_assert!(text.contains('/') && text.lines().count() == 1 && !text.contains("31m\n"), "{}", text);
    }
}

/// Neither a hook's input nor a transcript says the window of a model that has the larger one on request.
#[test]
fn a_window_is_learned_for_later_sessions() {
    let sandbox = Sandbox::new();
    let told = |model: &str, window: u64| {
        let mut told = input();
        told["model"] = json!({ "id": model });
        told["context_window"]["context_window_size"] = json!(window);
        statusline(&sandbox, &told.to_string());
    };
    let other = |model: &str, tokens: u64| {
        let usage = json!({ "input_tokens": tokens });
        json!({ "session_id": "another", "model": { "id": model }, "context_window": { "current_usage": usage } }).to_string()
    };
    told("claude-next-1", 500_000);
    // The same session goes on with another model of that window.
    told("claude-next-2", 500_000);
    for model in ["claude-next-1", "claude-next-2"] {
        assert!(statusline(&sandbox, &other(model, 250_000)).starts_with("50.0% 250.0K/500.0K"), "{model}");
    }
    // The user asked for that window in one session.
    told("claude-sonnet-4-6[1m]", 1_000_000);
    assert!(statusline(&sandbox, &other("claude-sonnet-4-6", 50_000)).starts_with("25.0% 50.0K/200.0K"));
    told("claude-sonnet-4-6", 200_000);
    assert!(statusline(&sandbox, &other("claude-sonnet-4-6[1m]", 50_000)).starts_with("5.0% 50.0K/1.0M"));
    assert!(statusline(&sandbox, &other("claude-opus-5-5", 100_000)).starts_with("10.0% 100.0K/1.0M"), "this is in the table");
    assert!(statusline(&sandbox, &other("claude-sonnet-4-5", 250_000)).starts_with("25.0% 250.0K/1.0M"), "this needs it");
    // What the client says of a session counts, and not a flag beside it.
    let mut full = input();
    full["exceeds_200k_tokens"] = json!(true);
    full["context_window"]["current_usage"] = json!({ "input_tokens": 196_000 });
    assert!(statusline(&sandbox, &full.to_string()).starts_with("98.0% 196.0K/200.0K"));
    let mut smaller = sandbox.command(&["statusline"]);
    smaller.env("CLAUDE_CODE_AUTO_COMPACT_WINDOW", "400000");
    let smaller = run(smaller, other("claude-next-1", 100_000).as_bytes(), 0);
    assert!(smaller.starts_with("25.0% 100.0K/400.0K"), "the client compacts by this: {smaller}");
    let mut set = sandbox.command(&["statusline"]);
    set.env("CTXBRIDGE_AUTOPILOT_WINDOW", "400000");
    let set = run(set, other("claude-next-1", 100_000).as_bytes(), 0);
    assert!(set.starts_with("25.0% 100.0K/400.0K"), "what the user set comes first: {set}");

    // A measured context above the smaller window says it as well, to every command.
    let transcript = |name: &str, tokens: u64| {
        let usage = json!({ "input_tokens": 5, "cache_read_input_tokens": tokens - 5, "output_tokens": 9 });
        let lines = [
            json!({ "type": "user", "uuid": "1", "sessionId": name, "message": { "role": "user", "content": "Go on." } }),
            json!({ "type": "assistant", "uuid": "2", "parentUuid": "1", "sessionId": name,
                "message": { "id": "m", "role": "assistant", "model": "claude-next-3", "content": [{ "type": "text", "text": "Yes." }], "usage": usage } }),
        ];
        let path = sandbox.home().join(format!(".claude/projects/-p/{name}.jsonl"));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, lines.map(|line| line.to_string() + "\n").concat()).unwrap();
        path
    };
    let window = |name: &str| {
        let found = sandbox.run(&["prune", "simulate", "--json", name]).json();
        found["transcripts"][0]["window_tokens"].as_u64().unwrap()
    };
    let (large, small) = (transcript("large", 300_000), transcript("small", 50_000));
    assert_eq!(window(small.to_str().unwrap()), 200_000);
    let prompt =
        json!({ "session_id": "large", "transcript_path": large, "hook_event_name": "UserPromptSubmit", "prompt": "On." });
    run(sandbox.command(&["hook", "user-prompt-submit"]), prompt.to_string().as_bytes(), 0);
    assert_eq!(window(small.to_str().unwrap()), 1_000_000);
}

#[test]
fn the_statusline_shows_the_cache() {
    let sandbox = Sandbox::new();
    let with = |cache: serde_json::Value| {
        let mut input = input();
        input["prompt_cache"] = cache;
        statusline(&sandbox, &input.to_string())
    };
    let cache =
        json!({ "warm": true, "caching_observed": true, "ttl": "1h", "hit_ratio": 0.968, "recache_tokens_if_cold": 48_000 });
    insta::assert_snapshot!(with(cache.clone()), @"24.4% 48.8K/200.0K ok · cache 97% · unpatched");
    let mut cold = cache.clone();
    cold["warm"] = json!(false);
    insta::assert_snapshot!(with(cold), @"24.4% 48.8K/200.0K ok · cache cold, 48.0K to write · unpatched");
    insta::assert_snapshot!(with(json!({ "warm": true, "hit_ratio": null })), @"24.4% 48.8K/200.0K ok · cache warm · unpatched");
    for odd in [json!(null), json!(7), json!({}), json!({ "warm": "yes" }), json!({ "warm": true, "caching_observed": false })] {
        assert!(!with(odd.clone()).contains("cache"), "{odd}");
    }
}
