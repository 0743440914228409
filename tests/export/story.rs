//! A conversation with everything that a transcript has.

use ctxbridge_testkit::sandbox::{Sandbox, Talk, session_id};
use serde_json::{Value, json};

use super::lines::Lines;

/// A session with a sub-agent of its own, archived.
pub fn archived(sandbox: &Sandbox) -> Talk {
    let mut lines = Lines::of("s");
    let text = first(&mut lines) + &second(&mut lines) + &third(&mut lines);
    let talk = sandbox.talk(1, text);
    let folder = sandbox.project().join(session_id(1)).join("subagents");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("agent-a1.jsonl"), agent()).unwrap();
    std::fs::write(folder.join("agent-lost.jsonl"), agent().replace("Look for parsers", "Warm up")).unwrap();
    sandbox.cli(&["archive", "import"]);
    talk
}

fn first(lines: &mut Lines) -> String {
    let image =
        json!({ "type": "image", "source": { "type": "base64", "media_type": "image/png", "data": "AAAA".repeat(1_000) } });
    let prompt = json!([{ "type": "text", "text": "Why is *this* slow?\n\n    <T> & co" }, image]);
    lines.other(json!({ "type": "user", "message": { "role": "user", "content": prompt } }))
        + &answer(lines, json!({ "type": "thinking", "thinking": "It must be the parser.", "signature": "x" }))
        + &lines.answer("# Plan\n\n1. Measure `parse`\n2. Mend it\n\n```rust\nfn main() {}\n```")
        + &lines.call("Bash", json!({ "command": "cargo bench | tail -3", "description": "Measure" }))
        + &lines.result("\u{1b}[32mparse\u{1b}[0m 12 ms\nread 3 ms")
        + &lines.call("Read", json!({ "file_path": "/home/dev/src/ledger/src/none.rs", "limit": 20 }))
        + &failed(lines, "There is no such file.")
        + &lines.call("Edit", json!({ "file_path": "src/parse.rs", "old_string": "let a = 1;\nlet b = 2;", "new_string": "let a = 1;\nlet b = 3;" }))
        + &lines.result("The file was changed.")
}

fn second(lines: &mut Lines) -> String {
    lines.prompt("Look around")
        + &lines.call(
            "Task",
            json!({ "description": "Look for parsers", "prompt": "Look for parsers", "subagent_type": "general-purpose" }),
        )
        + &with(&lines.result("There are two."), json!({ "toolUseResult": { "agentId": "a1", "status": "completed" } }))
        + &lines.other(json!({ "type": "attachment", "attachment": { "type": "queued_command", "prompt": "And hurry" } }))
        + &lines.answer("Two of them.")
        + &lines.summary("We looked for *slow* parsers.")
        + &lines.prompt("<command-name>/compact</command-name>")
        + &lines.prompt("<local-command-stdout>Compacted</local-command-stdout>")
}

fn third(lines: &mut Lines) -> String {
    lines.prompt("Write it down")
        + &lines.call("Write", json!({ "file_path": "notes.md", "content": "# Notes\n" }))
        + &lines.result(&"a line\n".repeat(20))
        + &lines.call("mcp__tracker__close", json!({ "issue": 7, "labels": ["fast"] }))
}

fn agent() -> String {
    let mut lines = Lines::of("s").seed(7);
    let text = lines.prompt("Look for parsers")
        + &lines.call("Grep", json!({ "pattern": "fn parse" }))
        + &lines.result("src/parse.rs\nsrc/read.rs")
        + &lines.answer("There are two.");
    text.lines().map(|line| with(line, json!({ "isSidechain": true, "agentId": "a1" }))).collect()
}

/// An answer of this block.
fn answer(lines: &mut Lines, block: Value) -> String {
    lines.other(json!({ "type": "assistant", "message": { "role": "assistant", "id": "msg_x", "content": [block] } }))
}

fn failed(lines: &mut Lines, text: &str) -> String {
    let mut line: Value = serde_json::from_str(&lines.result(text)).unwrap();
    line["message"]["content"][0]["is_error"] = true.into();
    format!("{line}\n")
}

fn with(line: &str, more: Value) -> String {
    let mut line: Value = serde_json::from_str(line).unwrap();
    line.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    format!("{line}\n")
}
