//! Each rule of the policy on the smallest conversation that shows it, in both languages.

use ctxbridge::prune::{self, Cut, MARKER, MAX_CHARS_VAR, THRESHOLD_VAR};
use serde_json::{Value, json};

use crate::messages::{assistant, before_prompts, text, user};
use crate::variables::{small, with};
use crate::{assert_untouched, is_input, prune_with_both};

/// A text of 122 characters.
const LONG: &str = "Please read every file in the folder before you answer, and say which of them have \
                    changed since the release of last week.";

/// The start of [`LONG`] that is kept under [`small`].
const CUT: &str = "Please rea [earlier context pruned]";

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
fn text_blocks_are_cut_and_their_neighbours_are_not() {
    let blocks = |text: &str| {
        json!([
            {"type": "thinking", "thinking": LONG, "signature": "s"},
            {"type": "redacted_thinking", "data": LONG},
            {"type": "text", "text": text, "cache_control": {"type": "ephemeral"}},
            {"type": "tool_use", "id": "toolu_1", "name": "Write", "input": {"content": LONG}},
            {"type": "image", "source": {"data": LONG}},
            {"type": "document", "source": {"data": LONG}, "title": LONG},
            {"type": "text", "text": text},
        ])
    };
    assert_eq!(pruned_when_old(assistant(blocks(LONG))), assistant(blocks(CUT)));
}

#[test]
fn tool_results_stay_and_text_beside_them_is_cut() {
    let content = |beside: &str| {
        json!([
            {"type": "tool_result", "tool_use_id": "toolu_1", "content": LONG},
            {"type": "tool_result", "tool_use_id": "toolu_2", "content": [text(LONG)]},
            text(beside),
        ])
    };
    assert_eq!(pruned_when_old(user(content(LONG))), user(content(CUT)));
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
    let cut = Cut { message_index: 0, block_index: Some(1), original_chars: 122, kept_chars: 10 };
    assert_eq!(prune_with_both(&messages, &small()).cuts, [cut]);
}

#[test]
fn a_text_is_cut_only_when_that_makes_it_shorter() {
    let longest_that_stays = "x".repeat(10 + MARKER.len());
    assert_eq!(pruned_when_old(user(longest_that_stays.as_str())), user(longest_that_stays.as_str()));
    let longer = longest_that_stays + "x";
    assert_eq!(pruned_when_old(user(longer)), user(format!("xxxxxxxxxx{MARKER}")));
}

#[test]
fn a_surrogate_pair_is_not_split() {
    let emoji = "😀".repeat(30);
    assert_eq!(pruned_when_old(user(emoji.as_str())), user(format!("😀😀😀😀😀{MARKER}")));
    assert_eq!(pruned_when_old(user(format!("x{emoji}"))), user(format!("x😀😀😀😀{MARKER}")));
}

#[test]
fn no_characters_leave_the_marker() {
    for original in [LONG.to_owned(), "😀".repeat(30)] {
        let messages = before_prompts(user(original), 2);
        let pruned = prune_with_both(&messages, &with(MAX_CHARS_VAR, "0"));
        assert_eq!(pruned.messages[0], user(MARKER));
    }
    let messages = before_prompts(user("😀".repeat(30)), 2);
    let pruned = prune_with_both(&messages, &with(MAX_CHARS_VAR, "1"));
    assert_eq!(pruned.messages[0], user(MARKER));
}

#[test]
fn the_threshold_counts_what_is_documented() {
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
    ];
    for (message, tokens) in cases {
        assert_eq!(prune::estimate_tokens(std::slice::from_ref(&message)), tokens, "{message}");
        // The JavaScript shows its estimate by where it starts to prune. A multiple of 3.5 chars in
        // the rest of the conversation keeps the rounding where it was.
        let rest = [user("x".repeat(63)), user("1234567"), user("1234567")];
        let messages = [&rest[..], &[message]].concat();
        let at = |tokens: u64| with(THRESHOLD_VAR, &tokens.to_string());
        assert!(!is_input(&prune_with_both(&messages, &at(tokens + 22))));
        assert_untouched(&messages, &at(tokens + 23));
    }
}
