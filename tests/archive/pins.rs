//! Turns that the user asked to keep.

use ctxbridge_testkit::sandbox::{Sandbox, Talk, run};
use rusqlite::Connection;
use serde_json::{Value, json};

use super::lines::Lines;

fn kept(sandbox: &Sandbox) -> Vec<String> {
    let ran = run(sandbox.command(&["archive", "pin", "--json"]), b"");
    let turns = ran.json()["turns"].as_array().unwrap().clone();
    assert_eq!(ran.code, Some(i32::from(turns.is_empty())));
    turns.iter().map(|turn| turn["summary"].as_str().unwrap().split(" | ").next().unwrap().to_owned()).collect()
}

fn handle(sandbox: &Sandbox, talk: &Talk, turn: usize) -> String {
    let shown = sandbox.json(&["archive", "show", &talk.id]);
    shown["turns"][turn]["handle"].as_str().unwrap().to_owned()
}

/// Turns enough that the first ones do not come back by themselves; the second asks to be kept.
fn long() -> String {
    let mut lines = Lines::of("s");
    lines.turn("The port is 8080") + &lines.turn("The key expires in March. #keep") + &lines.turns(40)
}

#[test]
fn a_prompt_asks_for_it() {
    let sandbox = Sandbox::new();
    let talk = sandbox.talk(1, long());
    sandbox.hook("stop", &talk.input()).calm();
    assert_eq!(kept(&sandbox), ["The key expires in March. #keep"]);
    let shown = sandbox.json(&["archive", "show", &talk.id]);
    let flags: Vec<_> = shown["turns"].as_array().unwrap().iter().take(3).map(|turn| turn["is_pinned"].clone()).collect();
    assert_eq!(flags, [json!(false), json!(true), json!(false)]);
    assert!(sandbox.cli(&["archive", "show", &talk.id]).stdout.contains("kept  The key expires in March."));
}

#[test]
fn a_command_does_and_takes_it_back() {
    let sandbox = Sandbox::new();
    let talk = sandbox.talk(1, long());
    sandbox.cli(&["archive", "import"]);
    let (port, key) = (handle(&sandbox, &talk, 0), handle(&sandbox, &talk, 1));
    let told = sandbox.cli(&["archive", "pin", &port]).done().stdout;
    assert!(told.contains(&port) && told.contains("pinned") && told.contains("The port is 8080"), "{told}");
    assert_eq!(kept(&sandbox), ["The key expires in March. #keep", "The port is 8080"], "the newest first");
    sandbox.cli(&["archive", "pin", "--remove", &port, &key]).done();
    assert_eq!(kept(&sandbox), [""; 0]);
    // The prompt still says so, and the turn is read once more when the transcript is compared from the begin.
    let text = String::from_utf8(talk.bytes()).unwrap();
    talk.write(text.replacen("The port is 8080", "The port is 9090", 1));
    sandbox.cli(&["archive", "import"]);
    assert_eq!(kept(&sandbox), [""; 0], "what the user said by hand counts more");
    sandbox.cli(&["archive", "pin", &key]).done();
    assert_eq!(kept(&sandbox).len(), 1);
}

#[test]
fn what_is_no_turn_changes_nothing() {
    let sandbox = Sandbox::new();
    let talk = sandbox.talk(1, Lines::of("s").turn("one"));
    sandbox.cli(&["archive", "import"]);
    let one = handle(&sandbox, &talk, 0);
    let missing = run(sandbox.command(&["archive", "pin", &one, "ctx:00000000"]), b"").with_code(1);
    assert!(missing.stderr.contains("no turn has the handle ctx:00000000"), "{}", missing.stderr);
    let wrong = run(sandbox.command(&["archive", "pin", &one, "one"]), b"").with_code(2);
    assert!(wrong.stderr.contains("one is no handle"), "{}", wrong.stderr);
    assert_eq!(kept(&sandbox), [""; 0], "all of them or none");
    run(sandbox.command(&["archive", "pin", "--remove"]), b"").with_code(2);
}

#[test]
fn what_is_kept_comes_back_first_and_the_client_is_told() {
    let sandbox = Sandbox::new();
    let talk = sandbox.talk(1, long());
    let instructions = sandbox.hook("pre-compact", &talk.input_with(json!({ "trigger": "auto" }))).calm().stdout;
    let key = handle(&sandbox, &talk, 1);
    assert!(
        instructions.contains("The user asked to keep these turns") && instructions.contains(&format!("- {key} ")),
        "{instructions}"
    );
    let lines = |budget: &str| -> Vec<String> {
        let mut command = sandbox.hook_command("session-start");
        command.env("CTXBRIDGE_ARCHIVE_RESTORE_BUDGET", budget);
        let ran = run(command, talk.input_with(json!({ "source": "compact" })).to_string().as_bytes());
        ran.context().unwrap().lines().filter(|line| line.starts_with("- ctx:")).map(str::to_owned).collect()
    };
    for budget in ["700", "1500", "4000"] {
        let at = lines(budget).iter().position(|line| line.contains(&key));
        assert_eq!(at, Some(0), "within {budget} characters");
    }
}

/// Long after everything else of it was pruned.
#[test]
fn what_is_kept_is_never_pruned() {
    let sandbox = Sandbox::new();
    let talk = sandbox.talk(1, long());
    sandbox.hook("session-end", &talk.input_with(json!({ "reason": "other" })));
    let pruned = |talk: &Talk| -> Vec<Value> {
        let shown = sandbox.json(&["archive", "show", &talk.id]);
        shown["turns"].as_array().unwrap().iter().map(|turn| turn["is_pruned"].clone()).collect()
    };
    let long_ago = "UPDATE turns SET started_ms = started_ms - 10000000000; UPDATE sessions SET last_ms = last_ms - 10000000000";
    Connection::open(sandbox.database()).unwrap().execute_batch(long_ago).unwrap();
    sandbox.cli(&["archive", "optimize", talk.path.to_str().unwrap()]);
    let now = pruned(&talk);
    assert_eq!((&now[0], &now[1], &now[2]), (&json!(true), &json!(false), &json!(true)));
    // What is kept from now on is hot again.
    sandbox.cli(&["archive", "pin", &handle(&sandbox, &talk, 0)]).done();
    assert_eq!(pruned(&talk)[0], false);
    sandbox.cli(&["archive", "optimize", talk.path.to_str().unwrap()]);
    assert_eq!(pruned(&talk)[0], false);
}
