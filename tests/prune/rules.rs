//! Each rule of folding on the smallest conversation that shows it, in both languages.

use ctxbridge::prune::{ConversationSize, KEEP_TOKENS_VAR, KEEP_VAR, MAX_CHARS_VAR, THRESHOLD_VAR, WINDOW_VAR};
use serde_json::{Value, json};

use crate::prune::messages::{Talk, assistant, digests, text, user};
use crate::prune::variables::{small, with};
use crate::prune::{assert_untouched, is_input, prune_with_both};

/// Ten reads of 26,000 characters, which count 10,000 tokens each, an answer, and a prompt when the cache is cold.
fn ten_reads() -> Talk {
    let mut talk = Talk::default();
    talk.prompt("Look at all files.").reads(10, 26_000).says("It is in file 7.").waits(300).prompt("And now?");
    talk
}

fn results(messages: &[Value]) -> usize {
    messages.iter().filter(|message| message["message"]["content"][0]["type"] == "tool_result").count()
}

#[test]
fn old_rounds_become_lines_and_then_a_count() {
    let talk = ten_reads();
    let pruned = prune_with_both(&talk.messages, &small());
    let found = digests(&pruned);
    assert_eq!(found.len(), 1);
    assert!(found[0][0].starts_with("[earlier context folded: "), "{found:?}");
    assert!(found[0][0].ends_with(" steps, recall ctx:00001001..00001024]"), "{found:?}");
    assert!(found[0].contains(&"- Read /src/file8.rs (ctx:00001024.0)"), "{found:?}");
    assert!(!found[0].iter().any(|line| line.contains("file0")), "the oldest are only counted: {found:?}");
    // The prompts stand where they were, and the newest answer is whole.
    assert_eq!(pruned.first(), talk.messages.first());
    assert_eq!(pruned.last(), talk.messages.last());
    assert!(pruned.iter().any(|message| message["message"]["content"] == json!([text("It is in file 7.")])));
}

#[test]
fn nothing_happens_below_the_threshold_or_without_growth() {
    let talk = ten_reads();
    assert!(!is_input(&prune_with_both(&talk.messages, &with(THRESHOLD_VAR, "100000"))));
    assert_untouched(&talk.messages, &with(THRESHOLD_VAR, "103000"));
    assert_untouched(&talk.messages[..9], &small());
    // Four times what is to be kept has to come first.
    let mut warm = Talk::default();
    warm.prompt("Look.").reads(10, 26_000).prompt("So?");
    assert_untouched(&warm.messages, &with(KEEP_TOKENS_VAR, "30000"));
    assert_untouched(&[], &small());
}

#[test]
fn a_cold_cache_and_a_full_window_are_reasons() {
    let mut talk = Talk::default();
    talk.prompt("Look.").reads(4, 26_000);
    let settings = with(KEEP_TOKENS_VAR, "15000");
    assert_untouched(&talk.messages, &settings);
    let mut cold = Talk::default();
    cold.prompt("Look.").reads(3, 26_000).waits(279).reads(1, 26_000);
    assert_untouched(&cold.messages, &settings);
    let mut cold = Talk::default();
    cold.prompt("Look.").reads(3, 26_000).waits(280).reads(1, 26_000);
    assert!(!is_input(&prune_with_both(&cold.messages, &settings)));
    // 10,000 tokens before the client would compact, which is 33,000 before the end of the window.
    let mut full = Talk::default();
    full.prompt("Look.").reads(3, 26_000).with_usage(100_000).reads(1, 26_000).with_usage(150_000).prompt("More.");
    assert!(is_input(&prune_with_both(&full.messages[..full.messages.len() - 2], &settings)));
    assert!(!is_input(&prune_with_both(&full.messages, &settings)));
    let mut larger = settings;
    larger.insert(WINDOW_VAR, "1000000".to_owned());
    assert_untouched(&full.messages, &larger);
}

#[test]
fn a_larger_window_is_learned_from_a_request() {
    let mut talk = Talk::default();
    talk.prompt("Look.").reads(1, 26_000).with_usage(201_000).reads(3, 26_000).with_usage(210_000).prompt("More.");
    assert_untouched(&talk.messages, &with(KEEP_TOKENS_VAR, "15000"));
}

#[test]
fn thinking_goes_first_but_not_that_of_the_newest_round() {
    let talk = ten_reads();
    let pruned = prune_with_both(&talk.messages, &small());
    assert!(pruned.iter().all(|message| message["message"]["content"][0]["type"] != "thinking"));
    let mut talk = ten_reads();
    talk.reads(1, 10).prompt("And?");
    let pruned = prune_with_both(&talk.messages, &small());
    let thinking = pruned.iter().filter(|message| message["message"]["content"][0]["type"] == "thinking").count();
    assert_eq!(thinking, 1);
}

#[test]
fn a_turn_whose_prompt_says_so_stays_whole() {
    for (prompt, stays) in [("Look. #keep", true), ("#Keep, please", true), ("#keeper", false)] {
        let mut talk = Talk::default();
        talk.prompt(prompt).reads(6, 26_000).prompt("And now?").reads(6, 26_000).waits(300).prompt("So?");
        let pruned = prune_with_both(&talk.messages, &small());
        assert_eq!(pruned.get(..25) == talk.messages.get(..25), stays, "{prompt}");
        assert!(!digests(&pruned).is_empty());
    }
}

#[test]
fn protected_tools_and_files_stay() {
    let mut talk = Talk::default();
    talk.prompt("Look.");
    talk.calls("AskUserQuestion", &json!({"questions": []}), "y".repeat(26_000).into());
    talk.calls("Read", &json!({"file_path": "/p/CLAUDE.md"}), "y".repeat(26_000).into());
    talk.reads(8, 26_000).waits(300).prompt("So?");
    let pruned = prune_with_both(&talk.messages, &small());
    let kept = pruned
        .iter()
        .filter(|message| message["message"]["content"][0]["content"].as_str().is_some_and(|text| text.starts_with('y')));
    assert_eq!(kept.count(), 2);
    assert_eq!(digests(&pruned).len(), 1);
}

#[test]
fn texts_of_the_newest_turns_stay_whole() {
    let long = "A long answer. ".repeat(40);
    let mut talk = Talk::default();
    talk.prompt("First.").reads(3, 26_000).says(&long).prompt("Second.").reads(3, 26_000).says(&long);
    talk.prompt("Third.").reads(5, 26_000).waits(300).prompt("Fourth.");
    let said = |keep: &str| {
        let pruned = prune_with_both(&talk.messages, &with(KEEP_VAR, keep));
        let texts = pruned.iter().map(Value::to_string).collect::<String>();
        let short = format!("- said: {}\"", &long[..80]).replace('"', "");
        (texts.matches(long.trim_end()).count(), texts.matches(&short).count())
    };
    assert_eq!(said("1"), (0, 2), "the last answer of a turn keeps its start");
    assert_eq!(said("3"), (1, 1));
    assert_eq!(said("4"), (2, 0));
    let short = prune_with_both(&talk.messages, &{
        let mut settings = with(KEEP_VAR, "1");
        settings.insert(MAX_CHARS_VAR, "6".to_owned());
        settings
    });
    assert!(digests(&short)[0].contains(&"- said: A long"), "{:?}", digests(&short));
}

#[test]
fn the_rest_of_long_prompts_goes_when_they_are_old() {
    let long = "pasted ".repeat(1_000);
    let mut talk = Talk::default();
    talk.prompt(&long).reads(5, 26_000).prompt(&long).reads(5, 26_000).waits(300).prompt("So?");
    for (keep, cut) in [("1", 2), ("2", 1), ("3", 0)] {
        let pruned = prune_with_both(&talk.messages, &with(KEEP_VAR, keep));
        let short = format!("{}\n[earlier context folded: the rest of 7000 characters, recall ctx:", &long[..4_000]);
        let starts = |message: &&Value| message["message"]["content"].as_str().is_some_and(|text| text.starts_with(&short));
        assert_eq!(pruned.iter().filter(starts).count(), cut, "{keep}");
        assert_eq!(pruned.iter().filter(|message| message["message"]["content"] == long).count(), 2 - cut, "{keep}");
    }
}

#[test]
fn incomplete_and_odd_rounds_stay() {
    let mut talk = ten_reads();
    // The result of the second read is gone, and the third has a block that nobody knows.
    let second = talk.messages.iter().position(|message| message["message"]["content"][0]["tool_use_id"] == "toolu_2").unwrap();
    talk.messages[second]["message"]["content"] = json!([text("interrupted")]);
    let third = talk.messages.iter().position(|message| message["message"]["content"][0]["tool_use_id"] == "toolu_3").unwrap();
    talk.messages[third]["message"]["content"].as_array_mut().unwrap().push(json!({"type": "server_tool_result"}));
    let pruned = prune_with_both(&talk.messages, &small());
    for kept in ["toolu_2", "toolu_3"] {
        assert!(pruned.iter().any(|message| message["message"]["content"][0]["id"] == *kept), "{kept}");
    }
}

#[test]
fn what_the_client_wrote_parts_digests_and_stays() {
    let mut talk = Talk::default();
    talk.prompt("Look.").reads(4, 26_000).meta("a reminder").reads(6, 26_000).waits(300).prompt("So?");
    talk.messages.insert(9, json!({"type": "progress", "data": {}}));
    talk.messages.insert(13, json!({"type": "attachment", "attachment": {"type": "total_tokens_reminder"}}));
    let pruned = prune_with_both(&talk.messages, &small());
    assert_eq!(digests(&pruned).len(), 2);
    assert!(pruned.iter().any(|message| message["message"]["content"] == "a reminder"));
    for kind in ["progress", "attachment"] {
        assert!(pruned.iter().any(|message| message["type"] == kind), "{kind}");
    }
    assert_eq!(results(&pruned), 1, "with less than 8,000 tokens behind it");
}

#[test]
fn a_digest_is_a_message_of_its_own() {
    let talk = ten_reads();
    let pruned = prune_with_both(&talk.messages, &small());
    assert_eq!(pruned[1]["isMeta"], true);
    assert_eq!(pruned[1]["type"], "user");
    assert_eq!(pruned[1]["uuid"], "00001001-0000-f000-8000-000000000000");
    assert_eq!(pruned[1]["timestamp"], talk.messages[1]["timestamp"]);
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
    ];
    for (message, tokens) in cases {
        assert_eq!(ConversationSize::of(&message).tokens(), tokens, "{message}");
    }
}
