//! From a hook to a command: what a conversation teaches is kept once, found, shown, and comes back after a compaction.

use ctxbridge::mcp::{Library, tools};
use ctxbridge_testkit::sandbox::{FOLDER, Ran, Sandbox, Talk, run};
use serde_json::{Value, json};

use super::lines::Lines;

/// A call, and what it returned.
fn called(lines: &mut Lines, tool: &str, input: Value, said: &str, is_error: bool) -> String {
    let call = lines.call(tool, input);
    let id = serde_json::from_str::<Value>(&call).unwrap()["message"]["content"][0]["id"].clone();
    let content = json!([{ "type": "tool_result", "tool_use_id": id, "content": said, "is_error": is_error }]);
    call + &lines.other(json!({ "type": "user", "message": { "role": "user", "content": content } }))
}

fn edit(lines: &mut Lines, file: &str) -> String {
    called(lines, "Edit", json!({ "file_path": format!("{FOLDER}/{file}"), "old_string": "a", "new_string": "b" }), "ok", false)
}

/// A test that fails, two files that are changed, and the same test.
fn mended(lines: &mut Lines) -> String {
    let test = || json!({ "command": "cargo test retry" });
    let failed = called(lines, "Bash", test(), "Exit code 101\ntest retry ... FAILED", true);
    let changed = edit(lines, "src/retry.rs") + &edit(lines, "src/backoff.rs");
    failed + &changed + &called(lines, "Bash", test(), "ok", false)
}

fn cli(sandbox: &Sandbox, arguments: &[&str]) -> Ran {
    run(sandbox.command(arguments), b"")
}

fn compact(sandbox: &Sandbox, talk: &Talk) -> Ran {
    sandbox.hook("pre-compact", &talk.input_with(json!({ "trigger": "auto" }))).calm()
}

fn list(sandbox: &Sandbox, more: &[&str]) -> Vec<Value> {
    let ran = cli(sandbox, &[&["learnings", "list", "--json"], more].concat());
    serde_json::from_str::<Value>(&ran.stdout).unwrap()["learnings"].as_array().unwrap().clone()
}

const POLLING: &str = "I went with polling for the webhook status because it is simple.";
const EVENTS: &str = "We switched from polling to events for the webhook status, since most polls bring nothing.";

#[test]
fn a_compaction_keeps_what_was_learned_and_it_comes_back() {
    let sandbox = Sandbox::new();
    let mut lines = Lines::of("s");
    let text = lines.prompt("Make the webhook retry")
        + &mended(&mut lines)
        + &lines.answer(&format!("{POLLING}\n\nThe root cause was a missing jitter.\n\n> We decided to quote somebody."));
    let talk = sandbox.talk(1, text);
    let instructions = compact(&sandbox, &talk).stdout;
    assert!(instructions.contains(POLLING), "{instructions}");

    let found = list(&sandbox, &[]);
    assert_eq!(found.len(), 2, "{found:#?}");
    let decision = found.iter().find(|one| one["kind"] == "decision").unwrap();
    assert_eq!(decision["sentence"], POLLING);
    assert_eq!((&decision["folder"], &decision["said"], &decision["superseded_by"]), (&json!(FOLDER), &json!(1), &Value::Null));
    assert_eq!((&decision["before"], &decision["tools"]), (&json!("Make the webhook retry"), &json!(["Bash", "Edit"])));
    assert_eq!(decision["session"], talk.id);

    let more = lines.summary("So far so good.");
    talk.append(more);
    let restored = sandbox.hook("session-start", &talk.input_with(json!({ "source": "compact" }))).context().unwrap();
    let lines_of: Vec<&str> = restored.lines().collect();
    assert!(lines_of[2].starts_with("- decision (ctx:") && lines_of[2].ends_with(POLLING), "decisions come first: {restored}");
    assert!(restored.chars().count() <= 4_000, "{}", restored.chars().count());

    // A model that asks is told, too.
    let mut library = Library::new(sandbox.data(), FOLDER.into());
    let asked = json!({ "query": "polling webhooks", "kind": "decision", "project": "ledger" });
    let answer = tools::call(&mut library, "learnings", asked.as_object().unwrap()).unwrap();
    assert!(answer.text.starts_with("Quoted history") && answer.text.contains(POLLING), "{}", answer.text);
    assert_eq!(answer.value["learnings"][0]["id"], decision["id"]);
    for none in [json!({ "query": "kubernetes" }), json!({ "kind": "handoff" }), json!({ "project": "/other" })] {
        let answer = tools::call(&mut library, "learnings", none.as_object().unwrap()).unwrap();
        assert!(answer.text.starts_with("Nothing of that kind was learned yet"), "{none}: {}", answer.text);
    }

    // Nothing is learned twice, whoever looks.
    compact(&sandbox, &talk);
    let done = cli(&sandbox, &["archive", "optimize", "--json"]).done().json();
    assert_eq!((&done["learned"], list(&sandbox, &[]).len()), (&json!(0), 2));
}

#[test]
fn what_is_said_again_is_known_and_what_is_taken_back_is_linked() {
    let sandbox = Sandbox::new();
    for (number, answer) in (1..).zip([POLLING, POLLING, EVENTS]) {
        let mut lines = Lines::of("s").seed(number.into());
        // Later sessions are later: the lines of each begin at the same time.
        let before = lines.turns(3 * number as usize);
        let text = before + &lines.prompt("How is the status known?") + &lines.answer(answer);
        sandbox.talk(number, text);
    }
    cli(&sandbox, &["archive", "import"]).done();
    cli(&sandbox, &["archive", "optimize"]).done();
    let found = list(&sandbox, &["--kind", "decision"]);
    assert_eq!(found.len(), 1, "{found:#?}");
    assert_eq!(found[0]["sentence"], EVENTS);
    let all = list(&sandbox, &["--kind", "decision", "--all"]);
    let old = all.iter().find(|one| one["sentence"] == POLLING).unwrap();
    assert_eq!((&old["said"], &old["superseded_by"]), (&json!(2), &found[0]["id"]));
    let shown = cli(&sandbox, &["learnings", "show", found[0]["id"].as_str().unwrap(), "--json"]).done().json();
    assert_eq!(shown["supersedes"], json!([old["id"]]));

    let found = cli(&sandbox, &["learnings", "search", "poll", "webhooks", "--all", "--json"]).done().json();
    assert_eq!(found["learnings"].as_array().unwrap().len(), 2);
    assert_eq!(cli(&sandbox, &["learnings", "search", "kubernetes"]).with_code(1).stdout, "");
    assert_eq!(cli(&sandbox, &["learnings", "list", "--project", "/elsewhere"]).with_code(1).stdout, "");
    assert_eq!(list(&sandbox, &["--project", "ledger", "--since", "2026-01-01"]).len(), 1);
    assert!(cli(&sandbox, &["learnings", "list", "--kind", "wish"]).with_code(2).stderr.contains("decision, solution"));
    assert!(cli(&sandbox, &["learnings", "show", "nonsense"]).with_code(2).stderr.contains("is no learning"));
    assert!(cli(&sandbox, &["learnings", "show", "learn:00000000"]).with_code(1).stderr.contains("there is no"));
}

#[test]
fn people_read_them() {
    let sandbox = Sandbox::new();
    let mut lines = Lines::of("s");
    let text = lines.prompt("How is it known? \u{1b}[31m") + &lines.answer(POLLING) + &lines.prompt("Good\nso");
    sandbox.talk(1, text);
    cli(&sandbox, &["archive", "import"]).done();
    let done = cli(&sandbox, &["archive", "optimize", "-v"]).done().stdout;
    assert!(done.contains("1 learning new; 0 calls found that failed and passed after a change"), "{done}");
    let listed = cli(&sandbox, &["learnings", "list"]).done().stdout;
    let id = &listed[..14];
    insta::assert_snapshot!(listed, @"
    learn:4d3b4be9  decision    2026-06-01 08:02  ctx:9e3779b9  /home/dev/src/ledger
      I went with polling for the webhook status because it is simple.
    ");
    insta::assert_snapshot!(cli(&sandbox, &["learnings", "show", id]).done().stdout, @"
    learn:4d3b4be9  decision
      I went with polling for the webhook status because it is simple.
      said        2026-06-01 08:02
      session     5e551040-0000-4000-8000-000000000001
      turn        ctx:9e3779b9 (`ctxbridge recall ctx:9e3779b9`)
      project     /home/dev/src/ledger
      before      How is it known? [31m
      after       Good so
      confidence  0.90
    ");
}

#[test]
fn patterns_are_what_happens_again() {
    let sandbox = Sandbox::new();
    for number in 1..=2 {
        let mut lines = Lines::of("s").seed(number.into());
        let text = lines.prompt("Mend it") + &mended(&mut lines) + &lines.answer("Done.");
        sandbox.talk(number, text);
    }
    cli(&sandbox, &["archive", "import"]).done();
    assert!(cli(&sandbox, &["learnings", "patterns"]).with_code(1).stderr.contains("archive optimize"));
    cli(&sandbox, &["archive", "optimize"]).done();
    insta::assert_snapshot!(cli(&sandbox, &["learnings", "patterns"]).done().stdout, @"
    cargo test retry  Bash
      failed 2 times in 2 sessions, last 2026-06-01 08:09: test retry ... FAILED
      passed after a change of src/backoff.rs (2), src/retry.rs (2)
    src/backoff.rs  src/retry.rs  2 of 2 turns that changed one of them
    ");
    assert_eq!(
        cli(&sandbox, &["learnings", "patterns", "--project", "/other", "--json"]).with_code(1).json()["failures"],
        json!([])
    );
    let session = list_of_sessions(&sandbox)[0].clone();
    assert_eq!(
        cli(&sandbox, &["learnings", "stats", &session]).done().stdout,
        "tools: 4 calls of 2 tools, 1 failed\nlearnings: 0 decisions, 0 solutions, 0 outcomes, 0 handoffs, 0 checkpoints\n"
    );
    insta::assert_snapshot!(cli(&sandbox, &["learnings", "stats", &session, "-v"]).done().stdout, @"
    conversation
      Bash                 2 calls, 1 failed  60.0 s on average, 60.0 s at most
      Edit                 2 calls  60.0 s on average, 60.0 s at most
    learnings: 0 decisions, 0 solutions, 0 outcomes, 0 handoffs, 0 checkpoints
    ");
    let stats = cli(&sandbox, &["learnings", "stats", &session, "--json"]).done().json();
    assert_eq!(
        stats["transcripts"][0]["tools"]["Bash"],
        json!({ "calls": 2, "errors": 1, "total_ms": 120_000, "longest_ms": 60_000 })
    );
}

fn list_of_sessions(sandbox: &Sandbox) -> Vec<String> {
    let sessions = sandbox.json(&["archive", "sessions"]);
    sessions["sessions"].as_array().unwrap().iter().map(|one| one["session"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_transcript_that_was_rewritten_teaches_no_twice_and_patterns_of_the_user_count() {
    let sandbox = Sandbox::new();
    let mut lines = Lines::of("s");
    let text = lines.prompt("How?") + &lines.answer(POLLING) + &lines.turn("More") + &lines.answer("House rule: no panics.");
    let talk = sandbox.talk(1, &text);
    compact(&sandbox, &talk);
    assert_eq!(list(&sandbox, &[]).len(), 1);
    let config = sandbox.home().join(".config/ctxbridge");
    std::fs::create_dir_all(&config).unwrap();
    let table = "[[cue]]\nid = 'rule'\nkind = 'decision'\nregex = '\\bhouse rule:'\n";
    std::fs::write(config.join("learnings.toml"), table).unwrap();
    compact(&sandbox, &talk);
    assert_eq!(list(&sandbox, &[]).len(), 2, "what is there already is looked at again");
    // Another beginning: the same sentences are the same learnings.
    talk.write(lines.other(json!({ "type": "mode", "mode": "normal" })) + &text);
    compact(&sandbox, &talk);
    assert_eq!(list(&sandbox, &[]).len(), 2);
    assert!(list(&sandbox, &[]).iter().all(|one| one["said"] == 1), "{:#?}", list(&sandbox, &[]));
    // One that cannot be used is no reason to learn nothing, and is said to whoever reads the log.
    std::fs::write(config.join("learnings.toml"), "[[cue]]\nid = 'rule'\n").unwrap();
    talk.append(lines.prompt("And?") + &lines.answer("Deployed to staging at noon."));
    compact(&sandbox, &talk);
    assert_eq!(list(&sandbox, &["--kind", "checkpoint"]).len(), 1);
    assert!(sandbox.log().iter().any(|line| line["error"].as_str().unwrap().contains("learnings.toml")), "{:?}", sandbox.log());
}
