//! Lines that nobody should write, and what is still read of them and around them.

use ctxbridge::transcript::{Interpreter, Record};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::generated::are_sane;
use super::lines::{answer, boundary, call, calls, compact_summary, of_agent, result, says, text, user, uuid, words as said};
use super::read;

/// The bytes of a prompt, these, and of another prompt: what is bad in between stays between.
fn between(bytes: &[u8]) -> super::Found {
    let mut all = text(&[user(1, "One.")]).into_bytes();
    all.extend_from_slice(bytes);
    all.push(b'\n');
    all.extend_from_slice(text(&[user(2, "Two.")]).as_bytes());
    read(&all)
}

#[test]
fn a_bad_line_is_counted_and_the_rest_goes_on() {
    let first = text(&[user(1, "One.")]).len() as u64;
    for bad in [
        &b"{\"type\":\"user\",\"mess"[..],
        b"not json",
        b"\xff\xfe\xfd",
        b"{\"type\":\"user\"} {\"type\":\"user\"}",
        b"null",
        b"17",
        b"\"a string\"",
        b"[]",
        b"[\"user\",null,null]",
    ] {
        let found = between(bad);
        let name = String::from_utf8_lossy(bad);
        assert_eq!((found.seen.lines, found.seen.bad_lines, found.seen.first_bad), (3, 1, Some(first)), "{name}");
        assert_eq!(found.words, ["Human: One.", "Human: Two."], "{name}");
    }
}

#[test]
fn blank_lines_are_none() {
    for blank in [&b""[..], b"\r", b" \t ", b"\n\n\r\n", b"\0\0\0\0", b"\xef\xbb\xbf"] {
        let found = between(blank);
        assert_eq!((found.seen.lines, found.seen.bad_lines, found.turns.len()), (2, 0, 2));
    }
}

#[test]
fn line_ends_of_windows() {
    let lines = [user(1, "One."), says(2, "a\r\nb"), user(3, "Two.")];
    let unix = read(text(&lines).as_bytes());
    let windows = text(&lines).replace('\n', "\r\n");
    let found = read(windows.as_bytes());
    assert_eq!(found.words, unix.words);
    assert_eq!(found.turns.last().unwrap().end, windows.len() as u64);
    assert_eq!(found.seen.bad_lines, 0);
}

#[test]
fn a_damaged_character_costs_only_itself() {
    let mut line = text(&[user(9, "Grüße")]).into_bytes();
    let at = line.windows(2).position(|pair| pair == "ü".as_bytes()).unwrap();
    line.remove(at + 1);
    line.pop();
    let found = between(&line);
    assert_eq!(found.words[1], "Human: Gr\u{fffd}ße");
    assert_eq!(found.seen.bad_lines, 1);
}

#[test]
fn half_a_character_of_javascript_costs_only_itself() {
    // What JavaScript cuts in the middle of a surrogate pair, it writes like this: valid JSON, but no text.
    for (escaped, read) in [
        (r"cut \ud83d", "cut \u{fffd}"),
        (r"\udc00 cut", "\u{fffd} cut"),
        (r"\uD83D\uDE00 \uD83Dx \\ud83d", "😀 \u{fffd}x \\ud83d"),
        (r"\ud83d\ud83d\ude00", "\u{fffd}😀"),
        (r"\ud83d\n", "\u{fffd}\n."),
    ] {
        let plain = |line: Value| line.to_string().replace("HERE", escaped);
        for (line, kind) in [
            (plain(user(3, "HERE.")), "Human: "),
            (plain(user(3, json!([said("HERE.")]))), "Human: "),
            (plain(says(3, "HERE.")), "Assistant: "),
            (plain(result(3, "HERE.")), "Result: "),
            (plain(result(3, json!([said("HERE.")]))), "Result: "),
        ] {
            let found = between(line.as_bytes());
            assert_eq!(found.seen.bad_lines, 0, "{line}");
            let wanted = format!("{kind}{}.", read.trim_end_matches('.'));
            assert!(found.words.iter().any(|words| words.ends_with(&wanted)), "{wanted} in {:?}", found.words);
        }
        let edit = plain(calls(3, "Edit", json!({ "file_path": "/work/p/a.rs", "new_string": "HERE" })));
        assert_eq!(between(edit.as_bytes()).turns[0].files, ["/work/p/a.rs"], "{edit}");
    }
}

#[test]
fn deep_and_long_lines() {
    let deep = format!("{}1{}", "[".repeat(5_000), "]".repeat(5_000));
    let input = calls(3, "Odd", json!({ "x": "HERE" })).to_string().replace("\"HERE\"", &deep);
    let found = between(input.as_bytes());
    assert_eq!((found.seen.bad_lines, found.turns[0].tools.as_slice()), (0, &["Odd".to_owned()][..]));
    let content = user(3, "HERE").to_string().replace("\"HERE\"", &deep);
    assert_eq!((between(content.as_bytes()).seen.bad_lines, between(content.as_bytes()).turns.len()), (0, 3));
    let long = says(3, &"long ".repeat(1_000_000));
    assert_eq!(between(long.to_string().as_bytes()).turns[0].content_chars, 5_000_000 + 26);
}

#[test]
fn figures_out_of_all_proportion() {
    let mut lines = vec![user(1, "Go.")];
    for number in 2..6 {
        let mut line = answer(number, &format!("msg_{number}"), said("x"));
        let most = u64::MAX;
        line["message"]["usage"] = json!({ "input_tokens": most, "cache_read_input_tokens": most, "output_tokens": most });
        lines.push(line);
    }
    let turn = read(text(&lines).as_bytes()).turns.remove(0);
    assert_eq!((turn.output_tokens, turn.context_tokens), (u64::MAX, Some(u64::MAX)));
    for odd in ["-5", "1.5", "1e300", "\"7\"", "null", "[1]", "18446744073709551616"] {
        let line = says(2, "x").to_string().replace("\"output_tokens\":50", &format!("\"output_tokens\":{odd}"));
        let found = between(line.as_bytes());
        assert_eq!((found.seen.bad_lines, found.turns[0].output_tokens, found.turns[0].is_answered), (0, 0, true), "{odd}");
    }
}

/// Every value in a tree, one after the other, replaced.
fn replaced(value: &Value, by: &Value) -> Vec<Value> {
    let mut all = vec![by.clone()];
    match value {
        Value::Object(object) => {
            for (key, inner) in object {
                for inner in replaced(inner, by) {
                    let mut copy = object.clone();
                    copy.insert(key.clone(), inner);
                    all.push(copy.into());
                }
                let mut copy = object.clone();
                copy.remove(key);
                all.push(copy.into());
            }
        }
        Value::Array(array) => {
            for (at, inner) in array.iter().enumerate() {
                for inner in replaced(inner, by) {
                    let mut copy = array.clone();
                    copy[at] = inner;
                    all.push(copy.into());
                }
            }
        }
        _ => {}
    }
    all
}

#[test]
fn any_field_may_be_missing_or_of_another_type() {
    let mut agent = result(6, json!([said("x")]));
    agent["toolUseResult"] = json!({ "agentId": "a", "status": "completed" });
    let shapes = [
        user(3, "Go."),
        user(3, json!([said("Go."), { "type": "image", "source": { "data": "AAAA" } }])),
        answer(3, "msg_1", call("Edit", json!({ "file_path": "/a", "todos": [{ "content": "c", "status": "pending" }] }))),
        calls(3, "TodoWrite", json!({ "todos": [{ "content": "c", "status": "pending" }] })),
        calls(3, "TaskUpdate", json!({ "taskId": "1", "status": "completed" })),
        agent,
        of_agent(says(3, "x")),
        boundary(3),
        compact_summary(3, "s"),
        super::lines::line(3, json!({ "type": "attachment", "attachment": { "type": "queued_command", "prompt": [said("x")] } })),
        json!({ "type": "cost-state", "modelUsage": { "m": { "contextWindow": 200_000 } } }),
    ];
    let others =
        [json!(null), json!(true), json!(-7), json!(7.5), json!("text"), json!([]), json!([[1]]), json!({}), json!({ "a": {} })];
    for shape in &shapes {
        for other in &others {
            for line in replaced(shape, other) {
                let found = between(line.to_string().as_bytes());
                assert_eq!(found.seen.bad_lines, u64::from(!line.is_object()), "{line}");
                assert!((2..=3).contains(&found.turns.len()), "{line}");
                assert!(found.words.last().unwrap().ends_with("Human: Two."), "{line}");
            }
        }
    }
}

proptest! {
    #[test]
    fn whatever_the_bytes(lines in proptest::collection::vec(any_line(), 0..12)) {
        let bytes = lines.concat();
        let found = read(&bytes);
        prop_assert!(are_sane(&found.turns, bytes.len() as u64));
        let mut agent = Interpreter::of_agent();
        agent.feed(&bytes);
        prop_assert!(agent.take_turns().len() <= 1);
        for line in bytes.split(|byte| *byte == b'\n') {
            if let Ok(record) = Record::parse(line) {
                record.kind();
            }
        }
    }
}

/// A line of a transcript, often damaged.
pub fn any_line() -> impl Strategy<Value = Vec<u8>> {
    let whole = prop_oneof![
        (any::<u16>(), ".{0,40}").prop_map(|(at, text)| user(at.into(), text)),
        (any::<u16>(), ".{0,40}").prop_map(|(at, text)| says(at.into(), &text)),
        (any::<u16>(), "[A-Z]{1,3}", ".{0,9}").prop_map(|(at, tool, file)| calls(at.into(), &tool, json!({ "file_path": file }))),
        any::<u16>().prop_map(|at| result(at.into(), "ok")),
        any::<u16>().prop_map(|at| of_agent(says(at.into(), "sub"))),
        (1..u16::MAX).prop_map(|at| boundary(at.into())),
        any::<u16>().prop_map(|at| compact_summary(at.into(), "Summary.")),
        Just(user(3, "<local-command-stdout></local-command-stdout>")),
        Just(json!({ "type": "mode" })),
    ];
    // Some are in a tree: few lines, so that they are often there.
    let number = 0_u32..12;
    let in_tree = (number.clone(), proptest::option::of(number), proptest::option::weighted(0.3, 0_u32..3));
    let whole = (whole, proptest::option::of(in_tree)).prop_map(|(mut line, in_tree)| {
        if let Some((own, parent, message)) = in_tree {
            line["uuid"] = json!(uuid(own));
            line["parentUuid"] = json!(parent.map(uuid));
            if let Some(message) = message.filter(|_| line["message"].is_object()) {
                line["message"]["id"] = json!(format!("m{message}"));
            }
        }
        line
    });
    let leaf = (0_u32..12, any::<bool>()).prop_map(
        |(leaf, explicit)| json!({ "type": "last-prompt", "leafUuid": (leaf > 0).then(|| uuid(leaf)), "explicit": explicit }),
    );
    let whole = prop_oneof![12 => whole, 1 => leaf];
    let whole = whole.prop_map(|line| line.to_string().into_bytes());
    let damaged = (whole.clone(), any::<proptest::sample::Index>(), any::<u8>()).prop_map(|(mut line, at, byte)| {
        let at = at.index(line.len());
        line[at] = byte;
        line
    });
    let end = prop_oneof![8 => Just(&b"\n"[..]), 1 => Just(&b"\r\n"[..]), 1 => Just(&b""[..]), 1 => Just(&b"\n\n"[..])];
    let body = prop_oneof![6 => whole, 2 => damaged, 1 => proptest::collection::vec(any::<u8>(), 0..30)];
    (body, end).prop_map(|(mut body, end)| {
        body.extend_from_slice(end);
        body
    })
}

#[test]
fn an_answer_whose_prompt_was_lost_stands_alone() {
    let chained = |mut line: serde_json::Value, own: u32, parent: u32| {
        line["uuid"] = json!(uuid(own));
        line["parentUuid"] = json!(uuid(parent));
        line.to_string()
    };
    let (first, answer) = (chained(user(1, "One."), 1, 0), chained(says(2, "Yes."), 2, 1));
    let (lost, orphan) = (chained(user(3, "Two."), 3, 2), chained(says(4, "To the second."), 4, 3));
    let half = &lost[..lost.len() / 2];
    for (damaged, name) in [(format!("{half}{orphan}"), "on its line"), (format!("{half}\n{orphan}"), "on a line before")] {
        let found = read(format!("{first}\n{answer}\n{damaged}\n").as_bytes());
        assert_eq!(found.words, ["Human: One.\n\nAssistant: Yes.", "Assistant: To the second."], "{name}");
    }
    // Nothing was lost where a file was cut together.
    let found = read(format!("{first}\n{answer}\n{orphan}\n").as_bytes());
    assert_eq!(found.words, ["Human: One.\n\nAssistant: Yes.\n\nAssistant: To the second."]);
}
