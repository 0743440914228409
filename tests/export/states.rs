//! A session as it was.

use ctxbridge_testkit::sandbox::{Ran, Sandbox, Talk, run};
use ctxbridge_testkit::transcript::Kind;
use serde_json::Value;

use super::lines::Lines;

fn export(sandbox: &Sandbox, what: &str) -> Ran {
    run(sandbox.command(&["archive", "export", what, "--json"]), b"")
}

fn prompts(sandbox: &Sandbox, what: &str) -> Vec<String> {
    let value = export(sandbox, what).done().json();
    let turns = value["turns"].as_array().unwrap();
    turns.iter().map(|turn| turn["title"].as_str().unwrap().to_owned()).collect()
}

/// Three turns, with compactions behind the first and the second; a line a minute from 8:01 on.
fn compacted(sandbox: &Sandbox) -> Talk {
    let mut lines = Lines::of("s");
    let text = lines.turn("one") + &lines.summary("S1") + &lines.turn("two") + &lines.summary("S2") + &lines.turn("three");
    let talk = sandbox.talk(1, text);
    sandbox.cli(&["archive", "import"]);
    talk
}

#[test]
fn before_a_compaction() {
    let sandbox = Sandbox::new();
    let id = compacted(&sandbox).id;
    assert_eq!(prompts(&sandbox, &id), ["one", "two", "three"]);
    assert_eq!(prompts(&sandbox, &format!("{id}@1")), ["one"]);
    assert_eq!(prompts(&sandbox, &format!("{}@2", &id[..8])), ["one", "two"]);
    let value = export(&sandbox, &format!("{id}@2")).json();
    assert_eq!(value["compactions"], 1);
    assert_eq!(value["state"], "before compaction 2");
    assert!(!value.to_string().contains("S2") && value.to_string().contains("S1"));
    let none = export(&sandbox, &format!("{id}@3")).with_code(1);
    assert!(none.stderr.contains("has no compaction 3; it has 2 compactions"), "{}", none.stderr);
    assert!(export(&sandbox, &format!("{id}@0")).with_code(1).json()["error"].is_string());
}

#[test]
fn at_a_time() {
    let sandbox = Sandbox::new();
    let id = compacted(&sandbox).id;
    // The first line is of 8:01.
    let at = |time: &str| prompts(&sandbox, &format!("{id}@2026-06-01T{time}Z"));
    assert_eq!(at("08:01:00"), ["one"]);
    assert_eq!(at("08:05:30"), ["one", "two"]);
    assert_eq!(at("23:00:00"), ["one", "two", "three"]);
    let value = export(&sandbox, &format!("{id}@2026-06-01T08:01:30Z")).json();
    assert_eq!(value["turns"][0]["messages"].as_array().unwrap().len(), 1, "the answer came later");
    assert_eq!(value["turns"][0]["content_sha256"], Value::Null);
    let early = export(&sandbox, &format!("{id}@2026-05-01")).with_code(1);
    assert!(
        early.stderr.contains("had not begun at 2026-05-01T") && early.stderr.contains("2026-06-01T08:01:00Z"),
        "{}",
        early.stderr
    );
}

#[test]
fn what_a_rewritten_transcript_lost_was_there_then() {
    let sandbox = Sandbox::new();
    let mut lines = Lines::of("s");
    let kept = lines.turn("one");
    let talk = sandbox.talk(1, kept.clone() + &lines.turn("two") + &lines.turn("three"));
    sandbox.cli(&["archive", "import"]);
    talk.write(kept + &lines.turn("another two"));
    sandbox.cli(&["archive", "import"]);
    assert_eq!(prompts(&sandbox, &talk.id), ["one", "another two"]);
    assert_eq!(prompts(&sandbox, &format!("{}@2026-06-01T08:06:30Z", talk.id)), ["one", "two", "three"]);
    assert_eq!(prompts(&sandbox, &format!("{}@2026-06-01T08:03:30Z", talk.id)), ["one", "two"]);
    assert_eq!(prompts(&sandbox, &format!("{}@2026-06-01T08:07:00Z", talk.id)), ["one", "another two"]);
}

#[test]
fn what_is_no_state_is_said() {
    let sandbox = Sandbox::new();
    let id = compacted(&sandbox).id;
    let wrong = export(&sandbox, &format!("{id}@never")).with_code(2);
    assert!(wrong.stderr.contains("is no time") && wrong.stderr.contains("compaction, the first is 1"), "{}", wrong.stderr);
    let missing = export(&sandbox, "0000@1").with_code(1);
    assert!(missing.stderr.contains("no session begins with 0000;"), "{}", missing.stderr);
}

/// Nothing of what was said gets lost, whatever a session is like.
#[test]
fn generated_sessions_are_whole() {
    let sandbox = Sandbox::new();
    for (seed, kind) in (1..).zip(Kind::ALL) {
        for session in sandbox.generate(kind, 300, seed) {
            sandbox.cli(&["archive", "import"]);
            let value = sandbox.json(&["archive", "export", &session.id]);
            let count = |kind: &str| of_type(&value, kind);
            assert_eq!(value["turns"].as_array().unwrap().len() as u64, session.human_turns, "{kind:?}");
            assert_eq!(value["compactions"], session.compactions, "{kind:?}");
            let own: u64 = value["turns"]
                .as_array()
                .unwrap()
                .iter()
                .map(|turn| {
                    turn["messages"].as_array().unwrap().iter().filter(|message| message["type"] == "call").count() as u64
                })
                .sum();
            assert_eq!(own, session.tool_calls, "{kind:?}");
            assert!(count("call") >= own && count("result") == 0, "each result has its call: {kind:?}");
            let agents: usize = value["turns"].as_array().unwrap().iter().map(agents_in).sum();
            assert_eq!(agents as u64 + value["agents"].as_array().unwrap().len() as u64, session.agents, "{kind:?}");
        }
    }
}

/// Messages of a type, wherever they are.
fn of_type(value: &Value, kind: &str) -> u64 {
    match value {
        Value::Array(values) => values.iter().map(|value| of_type(value, kind)).sum(),
        Value::Object(fields) => {
            let own = u64::from(fields.get("type").is_some_and(|own| own == kind) && fields.contains_key("at"));
            // An input may have any shape.
            own + fields.iter().filter(|(name, _)| *name != "input").map(|(_, value)| of_type(value, kind)).sum::<u64>()
        }
        _ => 0,
    }
}

fn agents_in(turn: &Value) -> usize {
    let calls = turn["messages"].as_array().unwrap().iter().filter_map(|message| message["agents"].as_array());
    calls.map(Vec::len).sum()
}
