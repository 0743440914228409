//! The reference design's own prune, in both languages.

use ctxbridge::prune::{MAX_CHARS_VAR, POLICY_VAR, THRESHOLD_VAR};
use serde_json::{Value, json};

use crate::prune::messages::{assistant, text, user};
use crate::prune::variables::Environment;
use crate::prune::{assert_untouched, prune_with_both};

const LONG: &str =
    "Please read every file in the folder before you answer, and say which of them have changed since the release.";

fn environment() -> Environment {
    [(POLICY_VAR, "reference"), (THRESHOLD_VAR, "0")].map(|(name, value)| (name, value.to_owned())).into()
}

fn newer() -> Vec<Value> {
    (0..4).map(|_| user(json!([{"type": "tool_result", "tool_use_id": "t", "content": "short"}]))).collect()
}

#[test]
fn text_before_the_newest_messages_of_people_is_cut() {
    let old = [
        user(LONG),
        assistant(json!([text(LONG), {"type": "tool_use", "id": "t", "name": "Write", "input": {"content": LONG}}])),
        user(json!([{"type": "tool_result", "tool_use_id": "t", "content": LONG}])),
    ];
    let messages = [&old[..], &newer()].concat();
    let pruned = prune_with_both(&messages, &environment());
    let short = format!("{} [earlier context pruned]", &LONG[..80]);
    assert_eq!(pruned[0], user(short.as_str()));
    assert_eq!(pruned[1]["message"]["content"][0], text(&short));
    assert_eq!((&pruned[1]["message"]["content"][1], &pruned[2..]), (&messages[1]["message"]["content"][1], &messages[2..]));
    assert_untouched(&pruned, &environment());
}

#[test]
fn settings_bound_it() {
    let messages = [&[user(LONG)], &newer()[..]].concat();
    let mut settings = environment();
    settings.insert(MAX_CHARS_VAR, "10".to_owned());
    assert_eq!(prune_with_both(&messages, &settings)[0], user(format!("{} [earlier context pruned]", &LONG[..10])));
    settings.insert(THRESHOLD_VAR, "1000".to_owned());
    assert_untouched(&messages, &settings);
    assert_untouched(&messages[1..], &environment());
    for flag in ["isMeta", "isCompactSummary"] {
        let mut messages = messages.clone();
        messages[0][flag] = true.into();
        assert_untouched(&messages, &environment());
    }
}
