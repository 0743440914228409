//! Compactions that the mod answers: what is said twice in the transcript, and the answer itself.

use std::io::Write;
use std::process::Stdio;

use ctxbridge_testkit::sandbox::{Sandbox, Talk, finish, run};
use serde_json::{Value, json};

use super::lines::Lines;

/// Lines as the client writes them again behind a compaction: with their times, and with other ids.
fn again(text: &str) -> String {
    text.lines()
        .map(|line| {
            let mut line: Value = serde_json::from_str(line).unwrap();
            let id = line["uuid"].as_str().unwrap().replacen("-4000-", "-4fff-", 1);
            line["uuid"] = format!("ff{}", &id[2..]).into();
            format!("{line}\n")
        })
        .collect()
}

fn boundary(lines: &mut Lines) -> String {
    lines.other(json!({
        "type": "system", "subtype": "compact_boundary", "content": "Conversation compacted",
        "compactMetadata": { "trigger": "auto", "preTokens": 150_000 },
    }))
}

/// Makes each of some lines follow the one before it, and the first one the last of others.
fn chained(before: &str, lines: &str) -> String {
    let id = |line: &str| serde_json::from_str::<Value>(line).unwrap()["uuid"].clone();
    let mut parent = before.lines().last().map_or(Value::Null, id);
    lines
        .lines()
        .map(|line| {
            let mut line: Value = serde_json::from_str(line).unwrap();
            let name = if line["type"] == "system" { "logicalParentUuid" } else { "parentUuid" };
            line[name] = std::mem::replace(&mut parent, line["uuid"].clone());
            format!("{line}\n")
        })
        .collect()
}

#[test]
fn rows_that_come_again_were_said_once() {
    let sandbox = Sandbox::new();
    let mut lines = Lines::of("s");
    let first = chained("", &lines.turn("Where is the walrus kept?"));
    let second = lines.prompt("Count the penguins")
        + &lines.call("Bash", json!({ "command": "wc -l penguins" }))
        + &lines.result("4711 penguins")
        + &lines.answer("There are 4711.");
    let second = chained(&first, &second);
    let mark = chained(&second, &boundary(&mut lines));
    let compacted = chained(&mark, &(again(&first) + &again(&second)));
    let third = chained(&compacted, &lines.turn("And the seals?"));
    let compacted = mark + &compacted;
    let talk = sandbox.talk(1, &first);
    sandbox.hook("stop", &talk.input());
    // In pieces, as hooks find them: one ends within the rows that come again.
    for piece in [second.as_str(), &compacted[..compacted.len() / 2], &compacted[compacted.len() / 2..], third.as_str()] {
        talk.append(piece);
        sandbox.hook("stop", &talk.input());
    }
    sandbox.assert_archived(&talk);
    let shown = sandbox.json(&["archive", "show", &talk.id]);
    assert_eq!(shown["turns"].as_array().unwrap().len(), 3, "{shown:#}");
    let found = sandbox.json(&["archive", "search", "4711", "penguins"]);
    let hits: Vec<&Value> = found["results"].as_array().unwrap().iter().filter(|hit| hit["text"] == "4711 penguins").collect();
    assert_eq!(hits.len(), 1, "{found:#}");
    let turn = sandbox.cli(&["archive", "show", &talk.id, "--turn", "1"]).stdout;
    assert_eq!(turn.matches("4711 penguins").count(), 1, "{turn}");
    let history = sandbox.json(&["archive", "history", &talk.id]);
    assert_eq!(history["compactions"].as_array().unwrap().len(), 1, "{history:#}");

    // All at once comes to the same.
    let other = Sandbox::new();
    let whole = other.talk(1, talk.bytes());
    other.hook("stop", &whole.input());
    let hashes = |sandbox: &Sandbox| {
        let shown = sandbox.json(&["archive", "show", &talk.id]);
        shown["turns"].as_array().unwrap().iter().map(|turn| turn["handle"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(hashes(&other), hashes(&sandbox));
}

/// A talk that is long enough to be folded, and its rows as the client hands them over.
fn long_talk(sandbox: &Sandbox) -> (Talk, Vec<Value>) {
    let mut lines = Lines::of("s");
    let mut text = String::new();
    for number in 0..8 {
        text += &(lines.prompt(&format!("Look at part {number}"))
            + &lines.call("Bash", json!({ "command": format!("cat part{number}") }))
            + &lines.result(&format!("part {number} says {}", "nothing new ".repeat(4_000)))
            + &lines.answer("I saw it."));
    }
    let rows = text.lines().map(|line| {
        let line: Value = serde_json::from_str(line).unwrap();
        let content = &line["message"]["content"];
        let block = &content[0];
        let mut row = json!({ "role": line["type"], "text": "", "toolUses": [], "handle": line["uuid"] });
        match block["type"].as_str() {
            Some("tool_use") => {
                row["toolUses"] = json!([{ "tool_use_id": block["id"], "tool": block["name"], "input": block["input"] }]);
            }
            Some("tool_result") => {
                row["toolResults"] = json!([{ "tool_use_id": block["tool_use_id"], "text": block["content"], "isError": false }]);
            }
            _ => row["text"] = content.as_str().map_or_else(|| block["text"].clone(), Value::from),
        }
        row
    });
    let rows = rows.collect();
    (sandbox.talk(1, &text), rows)
}

fn answer(sandbox: &Sandbox, input: &Value) -> Value {
    let ran = run(sandbox.command(&["mod", "answer"]), input.to_string().as_bytes());
    assert_eq!(ran.code, Some(0), "{ran:?}");
    serde_json::from_str(&ran.stdout).unwrap()
}

#[test]
fn what_leaves_is_archived_first_and_comes_back_by_its_handle() {
    let sandbox = Sandbox::new();
    let (talk, rows) = long_talk(&sandbox);
    let input = json!({ "session_id": talk.id, "cwd": sandbox.root(), "trigger": "auto", "messages": rows });
    let answered = answer(&sandbox, &input);
    let messages = answered["messages"].as_array().unwrap_or_else(|| panic!("{answered}"));
    assert!(messages.len() < rows.len());
    sandbox.assert_archived(&talk);
    let text = answered.to_string();
    let at = text.find("recall ctx:").expect("a handle") + "recall ".len();
    let handle = &text[at..at + "ctx:1a2b3c4d..5e6f7a8b".len()];
    talk.write("");
    let recalled = sandbox.cli(&["recall", handle]).stdout;
    assert!(recalled.contains("part 0 says nothing new"), "{handle}: {recalled}");

    // The model is told once how to come by it, and nothing that is still there.
    let told = sandbox.hook("session-start", &talk.input_with(json!({ "source": "compact" }))).context().unwrap();
    assert!(told.contains("ctxbridge recall HANDLE") && !told.contains("Look at part"), "{told}");
    let status = sandbox.run(&["mod", "status"]);
    assert!(status.stdout.contains("1 compaction answered, 0 left to the client"), "{status:?}");
}

/// A client that writes the messages and keeps the pipe open is answered; one that never writes them all is not waited for.
#[test]
fn a_pipe_that_stays_open_is_not_waited_for() {
    let sandbox = Sandbox::new();
    let (talk, rows) = long_talk(&sandbox);
    let input = json!({ "session_id": talk.id, "cwd": sandbox.root(), "trigger": "auto", "messages": rows }).to_string();
    let held_open = |arguments: &[&str], text: &str| {
        let mut command = sandbox.command(arguments);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (mut pipe, text) = (child.stdin.take().unwrap(), text.to_owned());
        let writer = std::thread::spawn(move || pipe.write_all(text.as_bytes()).map(|()| pipe));
        let ran = finish(child);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        writer.join().unwrap().ok();
        ran.stdout
    };
    let whole = held_open(&["mod", "answer"], &input);
    assert!(whole.starts_with("{\"messages\":"), "{whole}");
    let half = held_open(&["mod", "answer"], &input[..input.len() / 2]);
    assert!(half.contains("declined") && half.contains("not a whole JSON object"), "{half}");
    assert_eq!(held_open(&["mod", "loaded"], "{\"session_id\":"), "");
}

#[test]
fn whatever_fails_is_left_to_the_client() {
    let sandbox = Sandbox::new();
    let (talk, rows) = long_talk(&sandbox);
    let asked = |more: Value| {
        let mut input = json!({ "session_id": talk.id, "trigger": "auto", "messages": rows });
        input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        input
    };
    for (input, reason) in [
        (asked(json!({ "session_id": "gone" })), "transcript"),
        (asked(json!({ "session_id": null })), "transcript"),
        (asked(json!({ "messages": [] })), "none of the messages"),
        (asked(json!({ "messages": [{ "role": 7 }] })), "another shape"),
        (asked(json!({ "agent_id": "a1" })), "transcript"),
        (asked(json!({ "messages": rows[..3] })), "would not free enough"),
    ] {
        let answered = answer(&sandbox, &input);
        assert!(answered["declined"].as_str().unwrap().contains(reason), "{answered}");
    }
    for bytes in ["", "[]", "no JSON", "{\"session_id\": 1}"] {
        let ran = run(sandbox.command(&["mod", "answer"]), bytes.as_bytes());
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert!(ran.stdout.contains("declined"), "{ran:?}");
        assert_eq!(run(sandbox.command(&["mod", "loaded"]), bytes.as_bytes()).code, Some(0));
    }
    let mut off = sandbox.command(&["mod", "answer"]);
    off.env("CLAUDE_TEXT_PRUNE", "0");
    assert!(run(off, asked(json!({})).to_string().as_bytes()).stdout.contains("switched off"));
    let log = sandbox.log();
    assert!(log.iter().any(|line| line.to_string().contains("a compaction is the client's")), "{log:?}");
    // After the client's own compaction, the best turns come back as ever.
    let told = sandbox.hook("session-start", &talk.input_with(json!({ "source": "compact" }))).context().unwrap();
    assert!(told.contains("Look at part"), "{told}");
}
