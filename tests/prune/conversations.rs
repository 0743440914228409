//! Generated conversations, in the shape of Claude Code's internal messages.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use crate::prune::messages::{assistant, user};

/// Whole conversations, well-formed for the most part: prompts, answers, rounds of parallel tool
/// calls, and whatever else the client keeps in its array.
pub fn conversations() -> impl Strategy<Value = Vec<Value>> {
    let segment = prop_oneof![
        4 => prompt().prop_map(|message| vec![message]).boxed(),
        3 => answer().prop_map(|message| vec![message]).boxed(),
        12 => large_round().boxed(),
        2 => tool_round().boxed(),
        3 => bystander().prop_map(|message| vec![message]).boxed(),
        1 => malformed().prop_map(|message| vec![message]).boxed(),
    ]
    // On the heap: all of them in one value are more than the stack of a test.
    .boxed();
    let gap = prop_oneof![8 => Just(5), 1 => 250_u64..350, 1 => 3_500_u64..4_000];
    let usage = option::weighted(0.7, (0_u64..260_000, any::<bool>()));
    vec((segment, gap, usage), 0..30).prop_map(|segments| {
        let mut messages: Vec<Value> = Vec::new();
        let mut seconds = 0;
        for (number, (segment, gap, usage)) in segments.into_iter().enumerate() {
            seconds += gap;
            for mut message in segment {
                if let Value::Object(fields) = &mut message {
                    // The client's own ids, and now and then one that is no UUID.
                    let index = messages.len();
                    let id = match index % 11 {
                        6 => format!("uuid-{index}"),
                        7 => format!("{:08X}-0000", 0xbad0_0000_u32 + index as u32),
                        _ => format!("{:08x}-0000-4000-8000-000000000000", 0xbad0_0000_u32 + index as u32),
                    };
                    fields.insert("uuid".into(), json!(id));
                    if index % 13 != 5 {
                        let (hours, minutes) = (seconds / 3_600, seconds / 60 % 60);
                        let day = 1 + hours / 24;
                        fields.insert(
                            "timestamp".into(),
                            json!(format!(
                                "2026-10-{day:02}T{:02}:{minutes:02}:{:02}.{:03}Z",
                                hours % 24,
                                seconds % 60,
                                index % 1_000
                            )),
                        );
                    }
                }
                if message["type"] == "assistant" && message["message"].is_object() {
                    // Two segments may be of one answer.
                    message["message"]["id"] = json!(format!("msg_{}", number - usize::from(number % 9 == 8)));
                    match number % 6 {
                        0 => message["message"]["model"] = json!("claude-opus-5-5"),
                        1 => message["message"]["model"] = json!("claude-sonnet-4-5"),
                        2 => message["message"]["model"] = json!(7),
                        // Made anew in a compaction, if it has calls; else the client's own words.
                        3 if number % 4 == 1 => message["message"]["model"] = json!("<synthetic>"),
                        _ => {}
                    }
                    if let Some((tokens, is_hourly)) = usage {
                        let kind = if is_hourly { "ephemeral_1h_input_tokens" } else { "ephemeral_5m_input_tokens" };
                        message["message"]["usage"] =
                            json!({"input_tokens": 3, "cache_read_input_tokens": tokens, "cache_creation": {kind: 500}});
                    }
                }
                messages.push(message);
            }
        }
        messages
    })
}

/// An answer, a block a message, with calls whose results are large enough to be folded.
fn large_round() -> impl Strategy<Value = Vec<Value>> {
    let size = select(vec![0_usize, 90, 800, 6_000, 20_000, 60_000]);
    let input = prop_oneof![
        select(vec!["/p/a.rs", "/p/CLAUDE.md", "C:\\p\\b.rs", "", "/p/with a\nbreak"])
            .prop_map(|path| json!({"file_path": path})),
        text().prop_map(|command| json!({"command": command})),
        any_json(),
    ]
    .boxed();
    let name = select(vec!["Read", "Bash", "Write", "AskUserQuestion", "mcp__x__y z", ""]);
    let call = (name, input, size.clone());
    (option::of(text()), option::of(size), vec(call, 0..3), any::<u32>()).prop_map(|(said, thought, calls, salt)| {
        let mut messages = Vec::new();
        if let Some(chars) = thought {
            messages.push(assistant(json!([{"type": "thinking", "thinking": "t".repeat(chars), "signature": "c2ln"}])));
        }
        if let Some(said) = said {
            messages.push(assistant(json!([{"type": "text", "text": said}])));
        }
        let id = |index: usize| format!("toolu_{salt}_{index}");
        for (index, (name, input, _)) in calls.iter().enumerate() {
            messages.push(assistant(json!([{"type": "tool_use", "id": id(index), "name": name, "input": input}])));
        }
        for (index, (_, _, chars)) in calls.iter().enumerate() {
            let content = json!([{"type": "tool_result", "tool_use_id": id(index), "content": "r".repeat(*chars)}]);
            messages.push(user(content));
        }
        messages
    })
}

fn prompt() -> impl Strategy<Value = Value> {
    let blocks = vec(prop_oneof![3 => text_block(), 1 => media_block(), 1 => odd_block()], 0..4);
    let long = || (5_990_usize..9_000, text()).prop_map(|(length, start)| start + &"p".repeat(length));
    let long_block = (text_block(), long()).prop_map(|(block, text)| json!([block, {"type": "text", "text": text}]));
    let content = prop_oneof![
        6 => text().prop_map(Value::from),
        6 => blocks.prop_map(Value::from),
        2 => long().prop_map(Value::from),
        1 => long_block,
    ];
    content.prop_map(user::<Value>)
}

fn answer() -> impl Strategy<Value = Value> {
    let block = prop_oneof![
        4 => text_block(),
        2 => thinking_block(),
        1 => odd_block(),
    ];
    let content = prop_oneof![
        1 => text().prop_map(Value::from),
        5 => vec(block, 0..4).prop_map(Value::from),
    ];
    content.prop_map(assistant::<Value>)
}

/// An assistant message with parallel tool calls, and the user message with their results.
fn tool_round() -> impl Strategy<Value = Vec<Value>> {
    let call = (prop_oneof![any_json(), written()], tool_output());
    let names = select(vec!["Bash", "Write", "Edit", "MultiEdit", "NotebookEdit", "Writer"]);
    (option::of(text_block()), vec(call, 1..4), option::of(text_block()), names).prop_map(|(preamble, calls, reminder, name)| {
        let (inputs, outputs): (Vec<_>, Vec<_>) = calls.into_iter().unzip();
        let calls = inputs.into_iter().enumerate().map(|(index, input)| {
            let id = format!("toolu_{index}");
            json!({"type": "tool_use", "id": id, "name": name, "input": input})
        });
        let results = outputs.into_iter().enumerate().map(|(index, output)| {
            let id = format!("toolu_{index}");
            json!({"type": "tool_result", "tool_use_id": id, "content": output})
        });
        vec![assistant(preamble.into_iter().chain(calls).collect::<Value>()), user(results.chain(reminder).collect::<Value>())]
    })
}

/// The input of a tool that writes, more or less.
fn written() -> impl Strategy<Value = Value> {
    let edit = prop_oneof![
        6 => (text(), text()).prop_map(|(old, new)| json!({"old_string": old, "new_string": new, "replace_all": true})),
        1 => odd_value(),
    ];
    let keys = select(vec!["content", "old_string", "new_string", "new_source", "edits"]);
    prop_oneof![
        2 => text().prop_map(|content| json!({"file_path": "/a", "content": content})),
        2 => edit.clone(),
        2 => vec(edit, 0..3).prop_map(|edits| json!({"file_path": "/a", "edits": edits})),
        1 => (keys, odd_value()).prop_map(|(key, value)| json!({key: value})),
    ]
}

fn tool_output() -> impl Strategy<Value = Value> {
    let block = prop_oneof![4 => text_block(), 1 => media_block(), 1 => odd_block()];
    prop_oneof![
        4 => text().prop_map(Value::from),
        3 => vec(block, 0..3).prop_map(Value::from),
        1 => odd_value(),
    ]
}

/// What stands between the turns, and is neither a prompt nor to be cut.
fn bystander() -> impl Strategy<Value = Value> {
    let flagged = (
        prop_oneof![prompt(), answer()],
        select(vec!["isMeta", "isCompactSummary", "isVisibleInTranscriptOnly"]),
        // Falsy values leave a message what it is.
        select(vec![json!(true), json!(1), json!("yes"), json!(false), json!(0), json!(""), Value::Null]),
    );
    let other_type = select(vec!["system", "attachment", "progress", "tombstone"]);
    prop_oneof![
        4 => flagged.prop_map(|(mut message, flag, value)| {
            message[flag] = value;
            message
        }),
        1 => text().prop_map(|text| json!({"type": "system", "subtype": "local", "content": text})),
        1 => text().prop_map(|text| json!({"type": "attachment", "attachment": {"content": text}})),
        1 => answer().prop_map(|inner| json!({"type": "progress", "data": {"message": inner}})),
        1 => (prompt(), other_type).prop_map(|(mut message, kind)| {
            message["type"] = json!(kind);
            message
        }),
    ]
}

fn malformed() -> impl Strategy<Value = Value> {
    let kind = select(vec!["user", "assistant"]);
    prop_oneof![
        odd_value(),
        kind.clone().prop_map(|kind| json!({ "type": kind })),
        (kind.clone(), odd_value()).prop_map(|(kind, message)| json!({"type": kind, "message": message})),
        (kind, odd_value()).prop_map(|(kind, content)| json!({"type": kind, "message": {"content": content}})),
        odd_value().prop_map(|kind| json!({"type": kind, "message": {"content": "a text of no type"}})),
        text().prop_map(|text| json!({"message": {"content": text}})),
    ]
}

fn text_block() -> impl Strategy<Value = Value> {
    (text(), option::weighted(0.2, Just(json!({"type": "ephemeral"})))).prop_map(|(text, cache)| {
        let mut block = json!({"type": "text", "text": text});
        if let Some(cache) = cache {
            block["cache_control"] = cache;
        }
        block
    })
}

fn thinking_block() -> impl Strategy<Value = Value> {
    prop_oneof![
        text().prop_map(|text| json!({"type": "thinking", "thinking": text, "signature": "c2ln"})),
        text().prop_map(|text| json!({"type": "redacted_thinking", "data": text})),
    ]
}

fn media_block() -> impl Strategy<Value = Value> {
    let source = json!({"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="});
    select(vec!["image", "document"]).prop_map(move |kind| json!({"type": kind, "source": source}))
}

fn odd_block() -> impl Strategy<Value = Value> {
    let known = ["text", "thinking", "tool_use", "tool_result", "image", "server_tool_use"];
    let kind = select(known.to_vec());
    prop_oneof![
        odd_value(),
        kind.clone().prop_map(|kind| json!({ "type": kind })),
        (kind, odd_value()).prop_map(|(kind, value)| {
            let mut block = json!({ "type": kind });
            for field in ["text", "thinking", "input", "content"] {
                block[field] = value.clone();
            }
            block
        }),
        text().prop_map(|text| json!({ "text": text })),
    ]
}

fn odd_value() -> impl Strategy<Value = Value> {
    let values = [json!(null), json!(true), json!(0), json!(42), json!(""), json!("odd"), json!([]), json!([[]]), json!({})];
    select(values.to_vec())
}

/// Arguments of a tool. Numbers are whole, since what is compared is the policy, not how two
/// languages print a fraction.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        text().prop_map(Value::from),
    ];
    let key = prop_oneof!["[a-z_]{1,12}", "[0-9]{1,3}", "\\PC{0,4}", Just("__proto__".to_owned())];
    leaf.prop_recursive(3, 12, 4, move |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            vec((key.clone(), inner), 0..4).prop_map(|entries| entries.into_iter().collect()),
        ]
    })
}

/// Texts around the sizes at which something is decided, many of them with surrogate pairs where
/// the cut falls.
fn text() -> impl Strategy<Value = String> {
    let characters = [
        'a',
        'b',
        ' ',
        '\n',
        '"',
        '\\',
        '\0',
        'é',
        '\u{301}',
        '\u{2028}',
        '漢',
        '\u{ffff}',
        '\u{10000}',
        '😀',
        '\u{1f468}',
        '\u{200d}',
        '\u{10ffff}',
    ];
    prop_oneof![
        2 => "\\PC{0,30}",
        4 => vec(select(characters.to_vec()), 0..160).prop_map(String::from_iter),
        2 => (0..140_usize, "[a-z]{0,3}").prop_map(|(pairs, shift)| shift + &"😀".repeat(pairs)),
        1 => (1..3_000_usize).prop_map(|length| "x".repeat(length)),
        1 => ("(.|\n){0,3}#(keep|Keep|\u{212a}eep)[ -_a-z0-9#/\u{e9}]?", 0..300_usize).prop_map(|(tag, length)| tag + &" x".repeat(length)),
    ]
}
