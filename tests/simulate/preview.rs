//! What would be cut of a request.

use ctxbridge::prune::{PruneSettings, plan};
use ctxbridge_testkit::sandbox::Sandbox;
use ctxbridge_testkit::transcript::Kind;
use serde_json::{Value, json};

use super::{prune, prune_with, session};

#[test]
fn of_the_newest_request() {
    let sandbox = Sandbox::new();
    session(&sandbox, "tools.jsonl", Kind::Tools, 200);
    insta::assert_snapshot!(prune(&sandbox, &["preview", "tools.jsonl"]));
}

/// What is shown is what the policy does with the messages that stand before that answer.
#[test]
fn it_is_the_plan_of_the_policy() {
    let sandbox = Sandbox::new();
    session(&sandbox, "tools.jsonl", Kind::Tools, 300);
    let text = std::fs::read_to_string(sandbox.path("work/tools.jsonl")).unwrap();
    let said = prune(&sandbox, &["preview", "tools.jsonl", "--json", "--at", "60"]).calm().json();
    assert_eq!(said["request"], 60);
    let (mut messages, mut answers, mut open) = (Vec::new(), 0, Value::Null);
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        if line["type"] == "assistant" && line["message"]["id"] != open {
            open = line["message"]["id"].clone();
            answers += 1;
            if answers == 60 {
                break;
            }
        }
        if ["user", "assistant", "attachment"].iter().any(|kind| line["type"] == *kind) {
            messages.push(line);
        }
    }
    let settings = PruneSettings::from_env(|name| match name {
        "CLAUDE_TEXT_PRUNE_KEEP" => Some("2".to_owned()),
        _ => None,
    });
    let wanted: Vec<_> = plan(&messages, &settings)
        .into_iter()
        .map(|cut| json!([cut.handle.map(|handle| handle.to_string()), cut.original_chars]))
        .collect();
    let shown = said["cuts"].as_array().unwrap().iter().map(|cut| json!([cut["handle"], cut["chars_before"]]));
    assert!(!wanted.is_empty());
    assert_eq!(shown.collect::<Vec<_>>(), wanted);
}

#[test]
fn nothing_is_cut_of_the_first_request_or_when_switched_off() {
    let sandbox = Sandbox::new();
    session(&sandbox, "tools.jsonl", Kind::Tools, 90);
    let said = prune(&sandbox, &["preview", "tools.jsonl", "--at", "1"]);
    assert!(said.code == Some(0) && said.stdout.starts_with("request 1 of ") && said.stdout.ends_with("nothing would be cut\n"));
    let said = prune_with(&sandbox, &["preview", "tools.jsonl"], &[("CLAUDE_TEXT_PRUNE", "0")]);
    assert!(said.stdout.ends_with("nothing would be cut\n"), "{said}");
    assert_eq!(said.stderr, "nothing is cut while CLAUDE_TEXT_PRUNE is off\n");
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
    assert!(prune(&sandbox, &["preview", "hostile.jsonl"]).stdout.contains("]0;owned xxxx"));
}
