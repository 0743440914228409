//! Each rule of the policy on the smallest conversation that shows it, in both languages.

use ctxbridge::prune::{ConversationSize, HANDLES_VAR, MAX_CHARS_VAR, SCOPE_VAR, THRESHOLD_VAR, TextCut};
use serde_json::{Value, json};

use crate::prune::messages::{assistant, before_prompts, marker, text, user};
use crate::prune::variables::{small, with};
use crate::prune::{assert_untouched, is_input, prune_with_both};

/// A text of 245 characters.
const LONG: &str = "Please read every file in the folder before you answer, and say which of them have \
                    changed since the release of last week. Please read every file in the folder before you \
                    answer, and say which of them have changed since the release of last week.";

/// The start of [`LONG`] that is kept under [`small`].
const CUT: &str = "Please rea [earlier context pruned: 245 chars]";

/// What becomes of a message that is old enough, in a conversation with two newer turns.
fn pruned_when_old(message: Value) -> Value {
    let messages = [vec![user("first")], before_prompts(message, 2)].concat();
    prune_with_both(&messages, &small()).messages[1].clone()
}

#[test]
fn a_string_content_is_cut() {
    assert_eq!(pruned_when_old(user(LONG)), user(CUT));
    assert_eq!(pruned_when_old(assistant(LONG)), assistant(CUT));
}

#[test]
fn a_turn_whose_prompt_says_so_stays_whole() {
    let result = |id: &str| user(json!([{"type": "tool_result", "tool_use_id": id, "content": LONG}]));
    let conversation = |prompt: Value| {
        let old = vec![user("first"), prompt, assistant(LONG), result("toolu_1"), user(LONG), assistant(LONG)];
        [old, before_prompts(user("newest"), 4)].concat()
    };
    for asks in [user(format!("{LONG} #keep")), user(json!([text("#Keep, please"), text(LONG)]))] {
        let messages = conversation(asks);
        let pruned = prune_with_both(&messages, &small());
        assert_eq!(pruned.messages[..4], messages[..4]);
        assert_eq!(pruned.messages[4..6], [user(CUT), assistant(CUT)], "the turn behind it is another one");
    }
    // A tag in what a tool returned, or in what was cut before, is none.
    for says in [user(format!("{LONG} #keeper")), user(format!("so #keep {}", marker(900))), assistant(format!("{LONG} #keep"))] {
        let messages = conversation(says);
        let pruned = prune_with_both(&messages, &small());
        assert_eq!(pruned.messages[2], assistant(CUT));
    }
}

#[test]
fn text_blocks_are_cut_and_their_neighbors_are_not() {
    let blocks = |text: &str| {
        json!([
            {"type": "thinking", "thinking": LONG, "signature": "s"},
            {"type": "redacted_thinking", "data": LONG},
            {"type": "text", "text": text, "cache_control": {"type": "ephemeral"}},
            {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": LONG, "content": LONG}},
            {"type": "image", "source": {"data": LONG}},
            {"type": "document", "source": {"data": LONG}, "title": LONG},
            {"type": "text", "text": text},
        ])
    };
    assert_eq!(pruned_when_old(assistant(blocks(LONG))), assistant(blocks(CUT)));
}

#[test]
fn tool_results_are_cut() {
    let content = |text_of: &str| {
        json!([
            {"type": "tool_result", "tool_use_id": "toolu_1", "content": text_of, "is_error": true},
            {"type": "tool_result", "tool_use_id": "toolu_2", "content": [text("short"), {"type": "image", "source": {"data": LONG}}, text(text_of)]},
            text(text_of),
        ])
    };
    assert_eq!(pruned_when_old(user(content(LONG))), user(content(CUT)));
}

#[test]
fn large_inputs_of_tools_that_write_are_cut() {
    let call = |name: &str, input: Value| assistant(json!([{"type": "tool_use", "id": "toolu_1", "name": name, "input": input}]));
    let write = |text: &str| call("Write", json!({"file_path": LONG, "content": text}));
    assert_eq!(pruned_when_old(write(LONG)), write(CUT));
    let edit = |text: &str| call("Edit", json!({"old_string": text, "new_string": text, "replace_all": false}));
    assert_eq!(pruned_when_old(edit(LONG)), edit(CUT));
    let edits =
        |text: &str| call("MultiEdit", json!({"edits": [null, {"old_string": "a", "new_string": text}, {"old_string": text}]}));
    assert_eq!(pruned_when_old(edits(LONG)), edits(CUT));
    let notebook = |text: &str| call("NotebookEdit", json!({"new_source": text}));
    assert_eq!(pruned_when_old(notebook(LONG)), notebook(CUT));
    for other in ["Bash", "write", "mcp__Write", ""] {
        let call = call(other, json!({"content": LONG}));
        assert_eq!(pruned_when_old(call.clone()), call);
    }
}

#[test]
fn the_scope_says_what_is_cut() {
    let results = json!([{"type": "tool_result", "tool_use_id": "toolu_1", "content": LONG}]);
    let messages = [vec![user(LONG), user(results)], before_prompts(assistant(LONG), 2)].concat();
    for (scope, cut) in [("text", vec![0, 2]), ("tools", vec![1]), ("all", vec![0, 1, 2])] {
        let cuts = prune_with_both(&messages, &with(SCOPE_VAR, scope)).cuts;
        assert_eq!(cuts.iter().map(|cut| cut.message_index).collect::<Vec<_>>(), cut, "{scope}");
    }
}

/// A single turn of many calls can be pruned, too: of its results, only the tail is kept.
#[test]
fn results_of_the_newest_turn_are_old_as_well() {
    let result = |n: u32| user(json!([{"type": "tool_result", "tool_use_id": n, "content": LONG}]));
    let messages = [user(LONG), result(1), assistant(LONG), result(2)];
    let cuts = prune_with_both(&messages, &with(ctxbridge::prune::TAIL_VAR, "71")).cuts;
    assert_eq!(cuts.iter().map(|cut| cut.message_index).collect::<Vec<_>>(), [1]);
}

#[test]
fn a_handle_says_where_the_original_is() {
    let with_id = |content: Value| {
        let mut message = user(content);
        message["uuid"] = json!("1A2B3C4D-0000-4000-8000-000000000000");
        message
    };
    let handles = |content: Value| {
        let messages = before_prompts(with_id(content), 2);
        let pruned = prune_with_both(&messages, &small());
        pruned.cuts.into_iter().map(|cut| cut.handle.expect("a handle").to_string()).collect::<Vec<_>>()
    };
    let long = format!("{LONG}{LONG}");
    assert_eq!(handles(json!(long)), ["ctx:1a2b3c4d.0"]);
    assert_eq!(handles(json!([text("short"), text(&long)])), ["ctx:1a2b3c4d.1"]);
    let result = |content: Value| json!({"type": "tool_result", "tool_use_id": "toolu_1", "content": content});
    assert_eq!(
        handles(json!([result(json!(long)), result(json!([text("a"), text(&long)]))])),
        ["ctx:1a2b3c4d.0", "ctx:1a2b3c4d.1.1"]
    );
    let input = json!({"new_string": long, "edits": [{"old_string": long}, {"new_string": long}]});
    let call = json!({"type": "tool_use", "name": "Edit", "input": input});
    assert_eq!(handles(json!([call])), ["ctx:1a2b3c4d.0.2", "ctx:1a2b3c4d.0.4", "ctx:1a2b3c4d.0.7"]);

    let messages = before_prompts(with_id(json!(long)), 2);
    let pruned = prune_with_both(&messages, &with(HANDLES_VAR, "off"));
    assert_eq!(pruned.messages[0]["message"]["content"], json!(format!("Please rea{}", marker(490))));
    let pruned = prune_with_both(&messages, &small());
    assert_eq!(
        pruned.messages[0]["message"]["content"],
        json!("Please rea [earlier context pruned: 490 chars, recall ctx:1a2b3c4d.0]")
    );
}

#[test]
fn meta_messages_and_summaries_stay() {
    for flag in ["isMeta", "isCompactSummary"] {
        let mut message = user(LONG);
        message[flag] = json!(true);
        assert_eq!(pruned_when_old(message.clone()), message);
        message[flag] = json!(false);
        assert_ne!(pruned_when_old(message.clone()), message);
    }
}

#[test]
fn other_types_stay() {
    for kind in ["system", "attachment", "progress", "of a later release"] {
        let mut message = user(LONG);
        message["type"] = json!(kind);
        assert_eq!(pruned_when_old(message.clone()), message);
    }
}

#[test]
fn the_boundary_is_a_human_prompt() {
    let messages = [user(LONG), assistant(LONG), user(LONG), assistant(LONG), user(LONG)];
    let cuts = prune_with_both(&messages, &small()).cuts;
    assert_eq!(cuts.iter().map(|cut| cut.message_index).collect::<Vec<_>>(), [0, 1]);
    assert_untouched(&messages[1..], &small());
}

#[test]
fn without_an_older_turn_nothing_happens() {
    // The text is old, but only two turns follow, and it starts none.
    assert_untouched(&before_prompts(assistant(LONG), 2), &small());
    assert!(!is_input(&prune_with_both(&before_prompts(assistant(LONG), 3), &small())));
    assert_untouched(&[], &small());
}

#[test]
fn only_a_person_starts_a_turn() {
    let mut meta = user("go on");
    meta["isMeta"] = json!(true);
    let mut summary = user("go on");
    summary["isCompactSummary"] = json!(true);
    let result = user(json!([text("go on"), {"type": "tool_result", "tool_use_id": "toolu_1"}]));
    let system = json!({"type": "system", "message": {"content": "go on"}});
    for other in [meta, summary, result, system, assistant("go on"), user(Value::Null), json!(null)] {
        assert_untouched(&[user(LONG), other, user("go on")], &small());
    }
    for prompt in [user("go on"), user(json!([text("go on")])), user(json!([]))] {
        assert!(!is_input(&prune_with_both(&[user(LONG), prompt, user("go on")], &small())));
    }
}

#[test]
fn a_cut_is_described() {
    let messages = before_prompts(user(json!([text("short"), text(LONG)])), 2);
    let cut = TextCut { message_index: 0, block_index: 1, part: None, original_chars: 245, kept_chars: 10, handle: None };
    assert_eq!(prune_with_both(&messages, &small()).cuts, [cut]);
}

#[test]
fn a_text_is_cut_only_when_that_is_worth_it() {
    // 10 characters, a marker of 36, 100 to be saved.
    let longest_that_stays = "x".repeat(145);
    assert_eq!(pruned_when_old(user(longest_that_stays.as_str())), user(longest_that_stays.as_str()));
    let longer = longest_that_stays + "x";
    assert_eq!(pruned_when_old(user(longer)), user(format!("xxxxxxxxxx{}", marker(146))));
}

#[test]
fn a_surrogate_pair_is_not_split() {
    let emoji = "😀".repeat(130);
    assert_eq!(pruned_when_old(user(emoji.as_str())), user(format!("😀😀😀😀😀{}", marker(260))));
    assert_eq!(pruned_when_old(user(format!("x{emoji}"))), user(format!("x😀😀😀😀{}", marker(261))));
}

#[test]
fn no_characters_leave_the_marker() {
    for original in ["x".repeat(300), "😀".repeat(150)] {
        let messages = before_prompts(user(original), 2);
        let pruned = prune_with_both(&messages, &with(MAX_CHARS_VAR, "0"));
        assert_eq!(pruned.messages[0], user(marker(300)));
    }
    let messages = before_prompts(user("😀".repeat(150)), 2);
    let pruned = prune_with_both(&messages, &with(MAX_CHARS_VAR, "1"));
    assert_eq!(pruned.messages[0], user(marker(300)));
}

/// By its marker, which says how long it was: what is pruned again is pruned alike.
#[test]
fn what_was_cut_stays_and_counts_as_before() {
    let cut = user("x".repeat(400) + &marker(7_000));
    assert_eq!(pruned_when_old(cut.clone()), cut);
    assert_eq!(ConversationSize::of(&cut), ConversationSize { chars: 7_000, media_blocks: 0 });
}

#[test]
fn sizes_count_what_is_documented() {
    let tool_input = json!({"ab": ["cd", {"ef": 12345.678, "g": null}], "h": true, "😀": "é"});
    let cases = [
        (user("x".repeat(7)), 2),
        (user("x".repeat(8)), 3),
        (user("😀é漢"), 2),
        (user(json!([text("1234567"), text("1234567")])), 4),
        (assistant(json!([{"type": "thinking", "thinking": "1234567", "signature": "not counted"}])), 2),
        (assistant(json!([{"type": "redacted_thinking", "data": "not counted"}])), 0),
        // ab cd ef g h 😀 é: 11 code units.
        (assistant(json!([{"type": "tool_use", "name": "not counted", "input": tool_input}])), 4),
        (user(json!([{"type": "tool_result", "content": "1234567"}])), 2),
        (user(json!([{"type": "tool_result", "content": [text("1234567"), {"type": "image"}]}])), 2_002),
        (user(json!([{"type": "image"}, {"type": "document", "title": "not counted"}])), 4_000),
        (json!({"type": "user", "isMeta": true, "message": {"content": "1234567"}}), 2),
        (json!({"type": "attachment", "message": {"content": "not counted"}}), 0),
        (json!({"type": "system", "content": "not counted"}), 0),
        (user(json!([null, 5, "not counted", {"type": "text", "text": 5}, {"text": "not counted"}])), 0),
        (user(marker(70)), 20),
    ];
    for (message, tokens) in cases {
        assert_eq!(ConversationSize::of(&message).tokens(), tokens, "{message}");
        // The JavaScript shows its estimate by where it starts to prune. A multiple of 3.5 chars in
        // the rest of the conversation keeps the rounding where it was.
        let rest = [user("x".repeat(350)), user("1234567"), user("1234567")];
        let messages = [&rest[..], &[message]].concat();
        let at = |tokens: u64| with(THRESHOLD_VAR, &tokens.to_string());
        assert!(!is_input(&prune_with_both(&messages, &at(tokens + 104))));
        assert_untouched(&messages, &at(tokens + 105));
    }
}
