//! What would be cut of a request.

use ctxbridge::prune::{self as policy, ConversationSize, PruneSettings};
use ctxbridge_testkit::sandbox::Sandbox;
use ctxbridge_testkit::transcript::Kind;
use serde_json::{Value, json};

use super::{prune, prune_with, session};

#[test]
fn of_the_newest_request() {
    let sandbox = Sandbox::new();
    session(&sandbox, "tools.jsonl", Kind::Tools, 480);
    let said = prune(&sandbox, &["preview", "tools.jsonl"]);
    assert!(said.stdout.lines().all(|line| line.chars().count() <= 80), "{said}");
    insta::assert_snapshot!(said);
}

/// What is shown is what the policy does with the messages that stand before that answer.
#[test]
fn it_is_what_the_policy_sends() {
    let sandbox = Sandbox::new();
    session(&sandbox, "tools.jsonl", Kind::Tools, 480);
    let text = std::fs::read_to_string(sandbox.path("work/tools.jsonl")).unwrap();
    let (mut messages, mut answers, mut open) = (Vec::new(), 0, Value::Null);
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        if line["type"] == "assistant" && line["message"]["id"] != open {
            open = line["message"]["id"].clone();
            answers += 1;
            if answers == 120 {
                break;
            }
        }
        if ["user", "assistant", "attachment"].iter().any(|kind| line["type"] == *kind) {
            messages.push(line);
        }
    }
    for name in ["fold", "reference"] {
        let env = [("CLAUDE_TEXT_PRUNE_POLICY", name)];
        let said = prune_with(&sandbox, &["preview", "tools.jsonl", "--json", "--at", "120"], &env).calm().json();
        assert_eq!((&said["request"], &said["policy"]), (&json!(120), &json!(name)));
        let settings = PruneSettings::from_env(|variable| match variable {
            "CLAUDE_TEXT_PRUNE_POLICY" => Some(name.to_owned()),
            "CLAUDE_TEXT_PRUNE_KEEP" => Some("2".to_owned()),
            "CLAUDE_TEXT_PRUNE_KEEP_TOKENS" => Some("10000".to_owned()),
            _ => None,
        });
        let sent = policy::prune(&messages, &settings);
        let size = |messages: &[Value]| messages.iter().map(|message| ConversationSize::of(message).tokens()).sum::<u64>();
        let saved = said["tokens_saved"].as_u64().unwrap().cast_signed();
        let off = (size(&messages) - size(&sent)).cast_signed() - saved;
        assert!(saved > 0 && off.abs() < messages.len() as i64, "{name} {saved} {off}");
        let digests = said["digests"].as_array().unwrap();
        assert!(!digests.is_empty());
        for digest in digests {
            let is_there = |message: &Value| message.to_string().contains(&digest["text"].to_string());
            assert!(sent.iter().any(is_there), "{digest}");
        }
    }
}

#[test]
fn of_the_reference_design() {
    let sandbox = Sandbox::new();
    session(&sandbox, "tools.jsonl", Kind::Tools, 480);
    let said = prune_with(&sandbox, &["preview", "tools.jsonl"], &[("CLAUDE_TEXT_PRUNE_POLICY", "reference")]);
    let said = said.calm();
    assert!(said.stdout.lines().last().unwrap().contains(" texts would be cut, about "), "{said}");
}

/// Of a long prompt that is old, the start stays.
#[test]
fn of_long_prompts() {
    let sandbox = Sandbox::new();
    let mut lines = String::new();
    for turn in 0..8_u64 {
        let uuid = |kind: u64| format!("{turn:07x}{kind:x}-0000-4000-8000-000000000000");
        let log = format!("Log {turn}\n{}", "- line of a log\n".repeat(1_000));
        let prompt = json!({ "type": "user", "uuid": uuid(0), "message": { "role": "user", "content": log } });
        let usage = json!({ "input_tokens": 100_000 + turn * 10_000, "output_tokens": 9 });
        let content = json!([{ "type": "text", "text": "I see." }]);
        let message = json!({ "id": format!("m{turn}"), "model": "claude-opus-4-5", "content": content, "usage": usage });
        lines += &format!("{prompt}\n{}\n", json!({ "type": "assistant", "uuid": uuid(1), "message": message }));
    }
    sandbox.write("work/logs.jsonl", lines);
    let said = prune(&sandbox, &["preview", "logs.jsonl"]).calm();
    assert!(said.stdout.lines().all(|line| line.chars().count() <= 80), "{said}");
    insta::assert_snapshot!(said);
    let said = prune(&sandbox, &["preview", "logs.jsonl", "--json"]).calm().json();
    let prompts: Vec<_> = said["digests"].as_array().unwrap().iter().filter(|row| row["kind"] == "prompt").collect();
    assert!(!prompts.is_empty() && prompts.iter().all(|row| row["steps"] == 0), "{said}");
    assert_eq!(prompts[0]["handle"], "ctx:00000000.0");
}

/// An archived session is named by its id, or by the start of it.
#[test]
fn of_an_archived_session() {
    let sandbox = Sandbox::new();
    let made = sandbox.generate(Kind::Tools, 480, 5).remove(0);
    sandbox.cli(&["archive", "import"]);
    let archived = prune(&sandbox, &["preview", &made.id[..8], "--json"]).calm().json();
    let file = prune(&sandbox, &["preview", made.path.to_str().unwrap(), "--json"]).calm().json();
    assert_eq!((&archived["session"], &archived["transcript"]), (&json!(made.id), &Value::Null));
    assert_eq!(archived["digests"], file["digests"]);
}

#[test]
fn nothing_is_folded_of_the_first_request_or_when_switched_off() {
    let sandbox = Sandbox::new();
    session(&sandbox, "tools.jsonl", Kind::Tools, 90);
    let said = prune(&sandbox, &["preview", "tools.jsonl", "--at", "1"]);
    assert!(
        said.code == Some(0) && said.stdout.starts_with("request 1 of ") && said.stdout.ends_with("nothing would be folded\n")
    );
    let said = prune_with(&sandbox, &["preview", "tools.jsonl"], &[("CLAUDE_TEXT_PRUNE", "0")]);
    assert!(said.stdout.ends_with("nothing would be folded\n"), "{said}");
    assert_eq!(said.stderr, "nothing is pruned while CLAUDE_TEXT_PRUNE is off\n");
}

#[test]
fn a_terminal_obeys_nothing_that_is_shown() {
    let sandbox = Sandbox::new();
    let hostile = format!("\u{1b}]0;owned\u{7}\r\n\u{202e}{}", "x".repeat(100_000));
    let result = json!({ "type": "user", "message": { "role": "user", "content": [
        { "type": "tool_result", "tool_use_id": "t", "content": hostile },
    ] } });
    let usage = json!({ "input_tokens": 30_000, "output_tokens": 1 });
    let answer = |id: &str| json!({ "type": "assistant", "message": { "id": id, "model": "claude-\u{1b}[31m", "content": [], "usage": usage } });
    let lines = [result.clone(), answer("m1"), result, answer("m2")].map(|line| line.to_string() + "\n");
    sandbox.write("work/hostile.jsonl", lines.concat());
    for args in [&["preview", "hostile.jsonl"][..], &["simulate", "hostile.jsonl"], &["preview", "hostile.jsonl", "--json"]] {
        let said = prune(&sandbox, args);
        assert_eq!(said.code, Some(0), "{said}");
        let odd = |text: &str| text.chars().any(|c| (c.is_control() && c != '\n') || c == '\u{202e}');
        assert!(!odd(&said.stdout) && !odd(&said.stderr), "{:?}", said.stdout);
    }
}
