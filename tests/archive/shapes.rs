//! Transcripts as they may be: torn, damaged, empty, huge, of unknown kinds. Every byte comes back, every turn is there.

use std::fs;

use ctxbridge_testkit::is_full_run;
use ctxbridge_testkit::sandbox::{Sandbox, Talk, session_id};
use ctxbridge_testkit::transcript::{Kind, append_turn};
use serde_json::{Value, json};

use super::lines::Lines;

/// Panics unless these bytes are archived whole, with so many turns and bad lines.
#[track_caller]
fn archived(bytes: impl AsRef<[u8]>, turns: usize, bad_lines: u64) -> (Sandbox, Talk, Value) {
    let sandbox = Sandbox::new();
    let talk = sandbox.talk(1, bytes);
    sandbox.quiet_hook("stop", &talk.input());
    sandbox.assert_sound();
    sandbox.assert_archived(&talk);
    let shown = sandbox.json(&["archive", "show", &talk.id]);
    assert_eq!(shown["turns"].as_array().unwrap().len(), turns);
    assert_eq!(shown["bad_lines"].as_u64().unwrap(), bad_lines);
    (sandbox, talk, shown)
}

fn lines() -> Lines {
    Lines::of(&session_id(1))
}

#[test]
fn an_empty_file() {
    let sandbox = Sandbox::new();
    let talk = sandbox.talk(1, "");
    sandbox.quiet_hook("stop", &talk.input());
    talk.append("\n\n  \r\n\t\n");
    sandbox.quiet_hook("stop", &talk.input());
    sandbox.assert_archived(&talk);
    talk.append(lines().turns(2));
    sandbox.quiet_hook("stop", &talk.input());
    sandbox.assert_sound();
    sandbox.assert_archived(&talk);
}

/// Cut at every place that matters, and completed in two steps.
#[test]
fn a_torn_last_line() {
    let mut lines = lines();
    let (head, last) = (lines.turns(3), lines.prompt("Torn ü") + &lines.answer("Whole."));
    let umlaut = last.find('ü').unwrap();
    for cut in [1, 30, umlaut + 1, last.find('\n').unwrap(), last.find('\n').unwrap() + 1, last.len() - 1] {
        let sandbox = Sandbox::new();
        let talk = sandbox.talk(1, head.as_bytes());
        talk.append(&last.as_bytes()[..cut]);
        for rest in [&last.as_bytes()[cut..cut], &last.as_bytes()[cut..], lines_of_another().as_bytes()] {
            talk.append(rest);
            sandbox.quiet_hook("user-prompt-submit", &talk.input());
            sandbox.assert_archived(&talk);
        }
        let shown = sandbox.json(&["archive", "show", &talk.id]);
        assert_eq!((shown["turns"].as_array().unwrap().len(), shown["bad_lines"].as_u64().unwrap()), (5, 0));
        assert!(shown["turns"][3]["summary"].as_str().unwrap().starts_with("Torn ü | Whole."));
    }
}

fn lines_of_another() -> String {
    lines().seed(5).turn("Another")
}

#[test]
fn lines_that_are_damaged() {
    let mut lines = lines();
    let mut bytes = lines.turn("Before").into_bytes();
    bytes.extend(b"\xff\xfe garbage \xc3\n{\"type\":\"user\",\"message\"\n[1,2]\n\"text\"\nnull\n{}}\n");
    // Not even JSON.parse takes a control character as it is.
    bytes.extend(lines.prompt("Half a word: X").replace('X', "\u{1}").into_bytes());
    bytes.extend(lines.turn("After").into_bytes());
    let (_, _, shown) = archived(bytes, 2, 7);
    assert!(shown["turns"][1]["summary"].as_str().unwrap().starts_with("After"));
}

#[test]
fn invalid_utf8() {
    let mut lines = lines();
    let damaged: Vec<u8> = lines.prompt("Half a word: @").bytes().map(|byte| if byte == b'@' { 0xff } else { byte }).collect();
    let bytes = [lines.turn("Before").into_bytes(), damaged, lines.answer("Yes.").into_bytes(), lines.turn("After").into_bytes()];
    let (_, _, shown) = archived(bytes.concat(), 3, 1);
    assert_eq!(shown["turns"][1]["summary"], "Half a word: \u{fffd} | Yes.");
}

#[test]
fn ends_of_lines_of_other_systems() {
    let text = lines().turns(3).replace('\n', "\r\n");
    archived(&text, 3, 0);
    // Without an end, with a byte order mark, with blank lines in between.
    archived(text.trim_end(), 3, 0);
    archived(text.replace("\r\n", "\n\n \n\r\n"), 3, 0);
    archived(format!("\u{feff}{text}"), 3, 0);
}

#[test]
fn bytes_that_are_none() {
    let mut lines = lines();
    let bytes = [lines.turn("Before").into_bytes(), vec![0; 10_000], b"\n".to_vec(), lines.turn("After \u{0}").into_bytes()];
    archived(bytes.concat(), 2, 0);
    // A disk that was full, or a machine that lost power: zeros in the place of the last lines, then the client goes on.
    let (sandbox, talk, _) = archived([lines.turn("Once more").into_bytes(), vec![0; 200_000]].concat(), 1, 0);
    talk.append(b"\n");
    talk.append(lines.turn("And on"));
    sandbox.quiet_hook("stop", &talk.input());
    sandbox.assert_archived(&talk);
}

/// An image, or what a tool printed: 100 MB at night, and ten by day.
#[test]
fn a_line_of_many_megabytes() {
    let megabytes = if is_full_run() { 100 } else { 10 };
    let mut lines = lines();
    let bytes = lines.prompt("Read it.")
        + &lines.call("Read", json!({ "file_path": "/x" }))
        + &lines.result(&"0123456789".repeat(megabytes * 100_000));
    let begun = std::time::Instant::now();
    let sandbox = Sandbox::new();
    let talk = sandbox.talk(1, bytes + &lines.answer("It is long.") + &lines.turn("After"));
    sandbox.quiet_hook("stop", &talk.input());
    println!("archived in {:?}", begun.elapsed());
    sandbox.assert_archived(&talk);
    talk.append(lines.turn("And on"));
    sandbox.quiet_hook("user-prompt-submit", &talk.input());
    sandbox.assert_archived(&talk);
    assert!(sandbox.json(&["archive", "status"])["bytes_stored"].as_u64().unwrap() < 1_000_000);
}

/// The bytes of a line that is never completed are kept as well.
#[test]
fn a_line_that_never_ends() {
    let head = lines().turns(2);
    let (sandbox, talk, _) = archived(head + "{\"type\":\"user\",\"message\":\"" + &"x".repeat(3_000_000), 2, 0);
    for _ in 0..3 {
        talk.append("y".repeat(1_000_000));
        sandbox.quiet_hook("user-prompt-submit", &talk.input());
        sandbox.assert_archived(&talk);
    }
}

#[test]
fn kinds_that_nobody_knows() {
    let mut lines = lines();
    let mut text = lines.other(json!({ "type": "brand-new", "payload": { "a": [1, { "b": null }] } }));
    text += &lines.turn("First");
    for kind in [json!("brand-new"), json!(7), json!(null), json!({ "x": 1 }), json!("summary"), json!("system")] {
        text += &lines.other(json!({ "type": kind, "message": "text", "uuid": 7, "timestamp": "never", "isMeta": "yes" }));
    }
    text += &lines.other(json!({ "type": "user", "message": { "content": { "no": "blocks" } } }));
    text += &lines
        .other(json!({ "type": "assistant", "message": { "content": [1, null, { "type": "brand-new" }], "usage": "much" } }));
    text += "{}\n{\"type\":\"user\"}\n";
    text += &lines.turn("Last");
    let (_, _, shown) = archived(text, 2, 0);
    assert!(shown["turns"][1]["summary"].as_str().unwrap().starts_with("Last"));
}

/// Numbers that overflow, keys that come twice, and nesting without an end.
#[test]
fn json_that_is_mean() {
    let mut lines = lines();
    let deep = format!("{{\"type\":\"user\",\"message\":{}{}}}\n", "[".repeat(100_000), "]".repeat(100_000));
    let deep_input = lines
        .call("Bash", json!({ "command": "x" }))
        .replace("\"x\"", &format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000)));
    let twice = "{\"type\":\"user\",\"type\":\"assistant\",\"message\":{},\"message\":7}\n";
    let large = lines.answer("Large").replace("\"output_tokens\":50", "\"output_tokens\":18446744073709551615");
    let larger = lines.answer("Larger").replace("\"output_tokens\":50", "\"output_tokens\":1e999");
    let sum = lines.answer("Sum").replace("\"input_tokens\":10", "\"input_tokens\":18446744073709551615");
    let text = lines.turn("Before") + &deep + &deep_input + twice + &large + &large + &larger + &sum + &lines.turn("After");
    let sandbox = Sandbox::new();
    let talk = sandbox.talk(1, text);
    sandbox.quiet_hook("stop", &talk.input());
    assert_eq!(sandbox.restored(&talk.id, &[]), talk.bytes());
    let shown = sandbox.json(&["archive", "show", &talk.id]);
    assert_eq!(shown["turns"].as_array().unwrap().len(), 2);
    for event in ["session-start", "pre-compact", "user-prompt-submit"] {
        sandbox.hook(event, &talk.input_with(json!({ "source": "compact", "trigger": "auto" })));
    }
    assert!(sandbox.log().is_empty(), "{:?}", sandbox.log());
}

/// Sessions of every kind that the generator knows, imported and then grown.
#[test]
fn all_kinds_of_sessions() {
    let sandbox = Sandbox::new();
    let mut sessions = Vec::new();
    for (seed, kind) in (1..).zip(Kind::ALL) {
        sessions.extend(sandbox.generate(kind, 400, seed));
    }
    let imported = sandbox.json(&["archive", "import"]);
    assert_eq!((&imported["bad_lines"], &imported["failed"]), (&json!(0), &json!([])));
    let all: u64 = sessions.iter().map(|session| session.bytes + session.agent_bytes).sum();
    assert_eq!(imported["bytes"].as_u64().unwrap(), all);
    sandbox.assert_sound();
    for (session, seed) in sessions.iter().zip(100..) {
        let talk = Talk::from(session);
        let shown = sandbox.json(&["archive", "show", &talk.id]);
        assert_eq!(shown["turns"].as_array().unwrap().len() as u64, session.human_turns, "{session:?}");
        assert_eq!(shown["summaries"].as_array().unwrap().len() as u64, session.compactions);
        assert_eq!(shown["agents"].as_u64().unwrap(), session.agents);
        let more = append_turn(&talk.path, seed).unwrap();
        sandbox.hook("user-prompt-submit", &talk.input());
        sandbox.assert_archived(&talk);
        let turns = sandbox.json(&["archive", "show", &talk.id])["turns"].as_array().unwrap().len() as u64;
        assert_eq!(turns, session.human_turns + more.human_turns);
    }
    // A second time, nothing is new.
    let again = sandbox.json(&["archive", "import"]);
    assert_eq!((&again["bytes"], &again["turns"], &again["rewritten"]), (&json!(0), &json!(0), &json!(0)));
}

/// Up to 2.0 the file of a sub-agent lies beside the session's, later below it. Both belong to the session.
#[test]
fn sub_agents_in_both_places() {
    let sandbox = Sandbox::new();
    let mut lines = lines();
    let done = json!({ "type": "user", "toolUseResult": { "agentId": "a1" }, "message": { "role": "user", "content":
        [{ "type": "tool_result", "tool_use_id": "toolu_1", "content": "Done." }] } });
    let talk = sandbox.talk(
        1,
        lines.prompt("Look at it.")
            + &lines.call("Task", json!({ "prompt": "Look." }))
            + &lines.other(done)
            + &lines.answer("Seen."),
    );
    let agent = |id: &str| {
        let mut lines = Lines::of(&session_id(1)).seed(9);
        lines.other(json!({ "type": "user", "isSidechain": true, "agentId": id, "message": { "role": "user", "content": format!("Look, {id}.") } }))
            + &lines.other(json!({ "type": "assistant", "isSidechain": true, "agentId": id, "message": { "role": "assistant", "id": "msg_a",
                "content": [{ "type": "text", "text": "I have looked." }] } }))
    };
    let beside = sandbox.project().join("agent-a1.jsonl");
    fs::write(&beside, agent("a1")).unwrap();
    let below = talk.path.with_extension("").join("subagents/agent-b2.jsonl");
    fs::create_dir_all(below.parent().unwrap()).unwrap();
    fs::write(&below, agent("b2")).unwrap();
    // Another session's, whose name nobody has said here.
    fs::write(sandbox.project().join("agent-c3.jsonl"), agent("c3").replace(&session_id(1), &session_id(2))).unwrap();
    sandbox.quiet_hook("stop", &talk.input());
    let check = |transcripts: u64| {
        let shown = sandbox.json(&["archive", "show", &talk.id]);
        assert_eq!((shown["agents"].as_u64().unwrap(), shown["turns"].as_array().unwrap().len()), (2, 1));
        assert_eq!(shown["turns"][0]["agents"], json!(["a1"]));
        assert_eq!(sandbox.json(&["archive", "status"])["transcripts"].as_u64().unwrap(), transcripts);
        for (id, path) in [("a1", &beside), ("b2", &below)] {
            assert_eq!(sandbox.restored(&talk.id, &["--agent", id]), fs::read(path).unwrap());
        }
        sandbox.assert_sound();
        sandbox.assert_archived(&talk);
    };
    check(3);
    sandbox.cli(&["archive", "import"]);
    check(4);
    // One that the hook is told of, and one that does not exist.
    let told = below.with_file_name("agent-d4.jsonl");
    let input = |path: &std::path::Path| talk.input_with(json!({ "agent_transcript_path": path }));
    sandbox.quiet_hook("subagent-stop", &input(&told));
    fs::write(&told, agent("d4")).unwrap();
    sandbox.quiet_hook("subagent-stop", &input(&told));
    assert_eq!(sandbox.restored(&talk.id, &["--agent", "d4"]), fs::read(&told).unwrap());
}

/// A copy of a session's history is another transcript, and the same content.
#[test]
fn a_resumed_session_shares_what_was_said() {
    let sandbox = Sandbox::new();
    let sessions = sandbox.generate(Kind::Resumed, 300, 3);
    for session in &sessions {
        sandbox.hook("stop", &Talk::from(session).input());
    }
    let (turns, contents) = ("SELECT count(*) FROM turns", "SELECT count(DISTINCT entry) FROM turns");
    let all: u64 = sessions.iter().map(|session| session.human_turns).sum();
    assert_eq!(sandbox.count(turns), all as i64);
    assert_eq!(sandbox.count(contents), (all - sessions[1].copied_turns) as i64);
    sandbox.assert_sound();
    for session in &sessions {
        sandbox.assert_archived(&Talk::from(session));
    }
    // Each goes on by itself: what one of them has open is no longer the other's.
    for (seed, session) in (7..).zip(&sessions) {
        append_turn(&session.path, seed).unwrap();
        sandbox.hook("stop", &Talk::from(session).input());
        sandbox.assert_archived(&Talk::from(session));
    }
}

/// A fork shares the turn that was open when it was made, until one of them goes on.
#[test]
fn a_fork_of_an_open_turn() {
    let sandbox = Sandbox::new();
    let mut lines = lines();
    let text = lines.turns(2) + &lines.prompt("Open");
    let (one, other) = (sandbox.talk(1, &text), sandbox.talk(2, &text));
    let contents = || sandbox.count("SELECT count(DISTINCT entry) FROM turns");
    for talk in [&one, &other] {
        sandbox.quiet_hook("stop", &talk.input());
    }
    assert_eq!(contents(), 3);
    one.append(lines.answer("So."));
    sandbox.quiet_hook("stop", &one.input());
    assert_eq!(contents(), 4);
    other.append(lines.answer("So."));
    sandbox.quiet_hook("stop", &other.input());
    assert_eq!(contents(), 3);
    assert_eq!(sandbox.count("SELECT count(*) FROM turns"), 6);
    sandbox.assert_sound();
    for talk in [&one, &other] {
        sandbox.assert_archived(talk);
    }
}
