//! Every shape of line that 2.0.76 and 2.1.330 were seen to write, and what it does to the turns.

use ctxbridge::transcript::Interpreter;
use serde_json::{Value, json};

use super::lines::{
    answer, boundary, call, calls, compact_summary, line, of_agent, result, says, text, time, user, uuid, with, words as said,
};
use super::{read, read_with, turns, words};

/// A prompt, these lines, an answer: whether the lines are part of the one turn.
fn is_one_turn(lines: &[Value]) -> bool {
    let mut all = vec![user(1, "Begin.")];
    all.extend_from_slice(lines);
    all.push(says(99, "End."));
    turns(&all).len() == 1
}

#[test]
fn a_turn_is_a_prompt_and_all_up_to_the_next() {
    let lines = [user(1, "Fix it."), says(2, "Fixed."), user(3, "Thanks."), says(4, "Welcome.")];
    let turns = turns(&lines);
    let whole = text(&lines);
    let first = text(&lines[..2]).len() as u64;
    assert_eq!(
        turns.iter().map(|turn| (turn.index, turn.start, turn.end)).collect::<Vec<_>>(),
        [(0, 0, first), (1, first, whole.len() as u64)]
    );
    assert_eq!(words(&lines), ["Human: Fix it.\n\nAssistant: Fixed.", "Human: Thanks.\n\nAssistant: Welcome."]);
    let ms = |number| time(number).parse::<jiff::Timestamp>().unwrap().as_millisecond();
    assert_eq!((turns[1].started_ms, turns[1].ended_ms), (ms(3), ms(4)));
    assert_eq!(turns[1].id, 0x0000_0003_0000_4000_8000_0000_0000_0000_u128.to_be_bytes());
    assert_eq!((turns[1].context_tokens, turns[1].output_tokens, turns[1].is_answered), (Some(30_210), 50, true));
}

#[test]
fn prompts_are_strings_or_blocks_and_may_have_images() {
    let image = |data: &str| json!({ "type": "image", "source": { "type": "base64", "media_type": "image/png", "data": data } });
    let prompt = |data: &str| user(1, json!([said("What is this?"), image(data)]));
    let one = words(&[prompt("AAAA")]).remove(0);
    assert!(one.starts_with("Human: What is this?\n\nHuman: [image, ") && one.len() < 120, "{one}");
    // Two pictures are two contents, though nothing of them is shown.
    let hash = |data: &str| turns(&[prompt(data)])[0].content_sha256;
    assert_ne!(hash("AAAA"), hash("AAAB"));
    assert_eq!(words(&[user(1, json!([image("AAAA")]))]).len(), 1);
}

#[test]
fn an_answer_of_several_lines_counts_once() {
    let lines = [
        user(1, "Look."),
        answer(2, "msg_a", json!({ "type": "thinking", "thinking": "Secret thought.", "signature": "xyz" })),
        answer(3, "msg_a", said("I'll look.")),
        answer(4, "msg_a", call("Read", json!({ "file_path": "/work/p/a.rs" }))),
        result(5, "fn a() {}"),
        // The rest of the same answer, written behind the first result.
        answer(6, "msg_a", call("Read", json!({ "file_path": "/work/p/b.rs" }))),
        result(7, json!([said("fn b() {}")])),
        answer(8, "msg_b", said("Two functions.")),
    ];
    let turn = turns(&lines).remove(0);
    assert_eq!(turn.output_tokens, 100);
    assert_eq!((turn.tools, turn.files), (vec!["Read".to_owned()], vec!["/work/p/a.rs".to_owned(), "/work/p/b.rs".to_owned()]));
    insta::assert_snapshot!(words(&lines)[0], @r#"
    Human: Look.

    Assistant: I'll look.

    Tool Read: {"file_path":"/work/p/a.rs"}

    Result: fn a() {}

    Tool Read: {"file_path":"/work/p/b.rs"}

    Result: fn b() {}

    Assistant: Two functions.
    "#);
}

#[test]
fn a_count_that_grows_while_the_answer_streams_in_counts_once() {
    let partial = |number, tokens: u64| {
        let mut line = answer(number, "msg_a", said("x"));
        line["message"]["usage"]["output_tokens"] = tokens.into();
        line
    };
    assert_eq!(turns(&[user(1, "Go."), partial(2, 3), partial(3, 3), partial(4, 120)])[0].output_tokens, 120);
}

#[test]
fn answers_of_parallel_agents_in_one_file_count_once_each() {
    let of = |number, message: &str| of_agent(answer(number, message, said("x")));
    let lines = [user(1, "Go."), of(2, "msg_a"), of(3, "msg_b"), of(4, "msg_a"), of(5, "msg_b"), of(6, "msg_c"), of(7, "msg_a")];
    assert_eq!(turns(&lines)[0].output_tokens, 150);
}

#[test]
fn results_are_no_prompts() {
    assert!(is_one_turn(&[calls(2, "Bash", json!({ "command": "ls" })), result(3, "a b")]));
    // With words of the user beside them: what was typed to turn a call down.
    let mixed =
        user(3, json!([{ "type": "tool_result", "tool_use_id": "t", "content": "no", "is_error": true }, said("Not that.")]));
    assert!(is_one_turn(std::slice::from_ref(&mixed)));
    assert_eq!(words(&[user(1, "Go."), mixed])[0], "Human: Go.\n\nError: no\n\nHuman: Not that.");
    let lines = [user(1, "Go."), calls(2, "Bash", json!({})), result(3, "done")];
    assert!(!turns(&lines)[0].is_answered, "the model has not spoken since");
}

#[test]
fn what_the_client_adds_is_no_prompt() {
    assert!(is_one_turn(&[with(user(2, "Caveat: The messages below were generated"), json!({ "isMeta": true }))]));
    assert!(is_one_turn(&[with(user(2, json!([said("<local-command-caveat>x")])), json!({ "isMeta": true }))]));
    for echo in [
        "<command-name>/clear</command-name>\n            <command-message>clear</command-message>\n            <command-args></command-args>",
        "<local-command-stdout>Compacted</local-command-stdout>",
        "<local-command-stderr>Error</local-command-stderr>",
        "<bash-stdout>x</bash-stdout><bash-stderr></bash-stderr>",
        "<task-notification>\n<task-id>a</task-id>\n</task-notification>",
        "[Request interrupted by user]",
        "[Request interrupted by user for tool use]",
        "Unknown slash command: clear",
    ] {
        assert!(is_one_turn(&[user(2, echo)]), "{echo}");
        assert!(is_one_turn(&[user(2, json!([said(echo)]))]), "{echo} in a block");
    }
    // What a human writes about them is one.
    for prompt in ["What is <command-name>?", "Why [Request interrupted by user]?", " Unknown slash command: why?", "<div>"] {
        assert!(!is_one_turn(&[user(2, prompt)]), "{prompt}");
    }
}

#[test]
fn a_command_that_is_a_prompt_is_one() {
    let own = "<command-message>review is running…</command-message>\n<command-name>/review</command-name>\n<command-args>42</command-args>";
    let lines =
        [user(1, own), with(user(2, json!([said("Review the pull request 42.")])), json!({ "isMeta": true })), says(3, "Done.")];
    assert_eq!(turns(&lines).len(), 1);
    assert!(!is_one_turn(&[user(2, own)]));
}

#[test]
fn a_compaction_is_no_prompt_and_its_summary_is_told() {
    let lines = [
        user(1, "Go."),
        says(2, "Gone."),
        boundary(3),
        compact_summary(4, "This session is being continued from a previous conversation. All is well."),
        with(user(5, "<local-command-caveat>x</local-command-caveat>"), json!({ "isMeta": true })),
        user(6, "<command-name>/compact</command-name>"),
        with(user(7, "<local-command-stdout>Compacted</local-command-stdout>"), json!({ "repeatsCompactSummary": true })),
        user(8, "On."),
    ];
    let found = read(text(&lines).as_bytes());
    assert_eq!(found.turns.len(), 2);
    assert_eq!(found.summaries, [("This session is being continued from a previous conversation. All is well.".to_owned(), 1)]);
    assert!(!found.words[0].contains("continued"), "{}", found.words[0]);
    assert_eq!(found.seen.context_tokens, None, "nobody knows until the next answer");
    let mut interpreter = Interpreter::default();
    interpreter.feed(text(&lines).as_bytes());
    // Without a count, a token for 3.5 characters said since: the summary, "Human: On." and the command's echoes.
    assert!((20..100).contains(&interpreter.said_tokens()), "{}", interpreter.said_tokens());
    // The system prompt and the tools come with the next request, too.
    let base = interpreter.session_metadata().base_tokens.expect("the first answer tells");
    assert_eq!(interpreter.context_tokens(), base + interpreter.said_tokens());
    let blocks = with(compact_summary(4, ""), json!({ "message": { "role": "user", "content": [said("One."), said("Two.")] } }));
    assert_eq!(read(text(&[blocks]).as_bytes()).summaries, [("One.\nTwo.".to_owned(), 0)]);
}

#[test]
fn a_file_may_begin_with_a_summary_and_an_answer() {
    let title = json!({ "type": "summary", "summary": "Parser work", "leafUuid": uuid(1) });
    let lines = [title, compact_summary(1, "So far."), says(2, "I go on."), user(3, "Good.")];
    let found = read(text(&lines).as_bytes());
    assert_eq!(found.words, ["Assistant: I go on.", "Human: Good."]);
    assert_eq!(found.turns[0].start, text(&lines[..2]).len() as u64);
    assert_eq!(found.turns.iter().map(|turn| turn.index).collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn agents_inside_the_file_belong_to_the_turn() {
    let lines = [
        user(1, "Ask somebody."),
        calls(2, "Task", json!({ "description": "d", "prompt": "Find x." })),
        of_agent(user(3, "Find x.")),
        of_agent(calls(4, "Grep", json!({ "pattern": "x" }))),
        of_agent(result(5, "x.rs:1")),
        of_agent(says(6, "It is in x.rs.")),
        with(result(7, "It is in x.rs."), json!({ "toolUseResult": { "agentId": "a1b2c3d", "status": "completed" } })),
        says(8, "In x.rs."),
    ];
    let turn = turns(&lines).remove(0);
    assert_eq!(
        (turn.tools.join(" "), turn.agents.join(" "), turn.is_answered),
        ("Task Grep".to_owned(), "a1b2c3d".to_owned(), true)
    );
    assert_eq!(turn.output_tokens, 200);
    assert!(!words(&lines)[0].contains("Human: Find x."), "what an agent is told is not what a human said");
    // Its context is not the conversation's.
    let mut busy = says(9, "x");
    busy["message"]["usage"]["cache_read_input_tokens"] = 190_000.into();
    let mut more = lines.to_vec();
    more.push(of_agent(busy));
    let found = read(text(&more).as_bytes());
    assert_eq!((found.seen.context_tokens, found.turns[0].context_tokens), (Some(30_210), Some(30_210)));
}

#[test]
fn the_file_of_an_agent_is_one_turn() {
    let lines = [
        of_agent(user(1, "Warmup")),
        of_agent(says(2, "I am ready.")),
        of_agent(user(3, "Find y.")),
        of_agent(calls(4, "Read", json!({ "file_path": "/work/p/y.rs" }))),
        of_agent(result(5, "y")),
        of_agent(says(6, "Found.")),
    ];
    let found = read_with(Interpreter::of_agent(), text(&lines).as_bytes());
    assert_eq!((found.turns.len(), found.turns[0].start, found.turns[0].is_answered), (1, 0, true));
    assert_eq!(found.turns[0].files, ["/work/p/y.rs"]);
}

#[test]
fn notes_of_the_client_are_passed_over() {
    for note in [
        json!({ "type": "queue-operation", "operation": "enqueue", "content": "Do that too.", "sessionId": "s" }),
        json!({ "type": "last-prompt", "lastPrompt": "Begin.", "leafUuid": uuid(1) }),
        json!({ "type": "mode", "mode": "normal" }),
        json!({ "type": "atis-latch", "atis": "" }),
        json!({ "type": "tools-used", "tools": ["Read"] }),
        json!({ "type": "api-request", "params": { "model": "x" } }),
        json!({ "type": "api-request-shape", "shape": { "messages": [{ "role": "user", "content": "Begin." }] } }),
        json!({ "type": "api-request-blob", "message": { "role": "user", "content": "Begin." } }),
        json!({ "type": "file-history-snapshot", "messageId": uuid(1), "snapshot": {} }),
        json!({ "type": "progress", "data": {} }),
        json!({ "type": "of-next-year", "message": { "content": "x" } }),
        line(
            2,
            json!({ "type": "system", "subtype": "local_command", "content": "<local-command-stdout>x</local-command-stdout>" }),
        ),
        line(2, json!({ "type": "system", "subtype": "turn_duration", "durationMs": 1 })),
        line(2, json!({ "type": "attachment", "attachment": { "type": "hook_additional_context", "content": ["x"] } })),
        line(2, json!({ "type": "attachment", "attachment": { "type": "hook_success", "stdout": "x" } })),
        json!({}),
    ] {
        assert!(is_one_turn(std::slice::from_ref(&note)), "{note}");
        let found = read(text(&[user(1, "Begin."), note.clone()]).as_bytes());
        assert_eq!((found.seen.lines, found.seen.bad_lines), (2, 0), "{note}");
        // A window or a folder may be told there, but nobody's words.
        if !note.get("message").is_some_and(|_| note["type"] == "of-next-year") {
            assert_eq!(found.words[0], "Human: Begin.", "{note}");
        }
        assert!(turns(&[note]).is_empty(), "alone it is no turn");
    }
}

#[test]
fn what_was_typed_meanwhile_is_part_of_the_turn() {
    let queued = line(3, json!({ "type": "attachment", "attachment": { "type": "queued_command", "prompt": "And the tests." } }));
    let lines = [user(1, "Fix."), calls(2, "Bash", json!({})), queued, says(4, "Both done.")];
    assert_eq!(turns(&lines).len(), 1);
    assert!(words(&lines)[0].contains("Human: And the tests."), "{}", words(&lines)[0]);
}

#[test]
fn session_folder_version_model_and_window() {
    let model = |window| json!({ "inputTokens": 1, "contextWindow": window });
    let lines = [
        json!({ "type": "mode", "mode": "normal" }),
        user(1, "Go."),
        with(says(2, "Gone."), json!({ "version": "2.1.400", "cwd": "/elsewhere" })),
        // The client's own words in the model's name: an error of the API.
        {
            let mut error = with(says(3, "API Error"), json!({ "version": "2.1.401" }));
            error["message"]["model"] = "<synthetic>".into();
            error["message"]["usage"] = json!({ "input_tokens": 0, "output_tokens": 0 });
            error
        },
        json!({ "type": "cost-state", "modelUsage": { "small": model(200_000), "big": model(1_000_000), "odd": 7 } }),
    ];
    let seen = read(text(&lines).as_bytes()).seen;
    assert_eq!(seen.session.as_deref(), Some(super::lines::SESSION));
    assert_eq!((seen.folder.as_deref(), seen.version.as_deref()), (Some("/work/p"), Some("2.1.401")));
    assert_eq!(
        (seen.model.as_deref(), seen.window, seen.context_tokens),
        (Some("claude-sonnet-4-5"), Some(1_000_000), Some(30_210))
    );
    // 2.1.330 tells of models, but not of their windows.
    let without = json!({ "type": "cost-state", "modelUsage": { "m": { "inputTokens": 5 } } });
    assert_eq!(read(text(&[without]).as_bytes()).seen.window, None);
}

#[test]
fn time_may_go_backwards_or_not_be_told() {
    let lines = [user(50, "Go."), says(20, "Gone."), user(10, "On."), with(says(11, "x"), json!({ "timestamp": "yesterday" }))];
    let ms = |number| time(number).parse::<jiff::Timestamp>().unwrap().as_millisecond();
    let times: Vec<_> = turns(&lines).iter().map(|turn| (turn.started_ms, turn.ended_ms)).collect();
    assert_eq!(times, [(ms(50), ms(20)), (ms(10), ms(10))]);
    assert_eq!(turns(&[with(user(1, "Go."), json!({ "timestamp": null }))])[0].started_ms, 0);
}

#[test]
fn a_fork_is_what_its_file_says() {
    // 2.0.76 leaves the old session's id on some of the lines that it copies.
    let lines = [with(user(1, "Go."), json!({ "sessionId": "old" })), says(2, "Gone."), user(3, "On.")];
    assert_eq!(turns(&lines).len(), 2);
    // The same words are the same content, whatever else stands on the lines.
    let copy = with(user(77, "Go."), json!({ "promptId": "p", "uuid": uuid(8) }));
    assert_eq!(turns(&[copy, says(78, "Gone.")])[0].content_sha256, turns(&lines)[0].content_sha256);
}
