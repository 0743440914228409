//! The pruning policy: its rules one by one, its invariants on generated conversations, and that
//! the Rust and the injected JavaScript agree on every conversation that appears in either.
#![allow(clippy::unwrap_used)]

#[path = "prune/conversations.rs"]
mod conversations;
#[path = "prune/messages.rs"]
mod messages;
#[path = "prune/node.rs"]
mod node;
#[path = "prune/rules.rs"]
mod rules;
#[path = "prune/variables.rs"]
mod variables;

use std::borrow::Cow;
use std::process::Command;

use ctxbridge::prune::{self, Cut, MARKER, Pruned, RUNTIME, RUNTIME_FUNCTION, Settings};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use serde_json::Value;

use conversations::conversations;
use variables::{Environment, environments};

fn settings(environment: &Environment) -> Settings {
    Settings::from_env(|name| environment.get(name).cloned())
}

/// Prunes with both twins and returns what Rust made of it, having checked that they agree on the
/// conversation, on what was cut and on returning the input itself.
fn prune_with_both<'a>(messages: &'a [Value], environment: &Environment) -> Pruned<'a> {
    let pruned = prune::prune(messages, &settings(environment));
    let javascript = node::prune(messages, environment);
    let cut: Vec<_> = pruned.cuts.iter().map(|cut| (cut.message_index, cut.block_index)).collect();
    assert_eq!(javascript.messages, pruned.messages.as_ref(), "the twins differ under {environment:?}");
    assert_eq!(javascript.changed, cut, "identity under {environment:?}");
    assert_eq!(javascript.same_array, is_input(&pruned), "the array under {environment:?}");
    pruned
}

fn is_input(pruned: &Pruned) -> bool {
    matches!(pruned.messages, Cow::Borrowed(_))
}

#[track_caller]
fn assert_untouched(messages: &[Value], environment: &Environment) {
    assert!(is_input(&prune_with_both(messages, environment)));
}

/// Where the text of a cut stands.
fn text_at<'a>(messages: &'a mut [Value], cut: &Cut) -> &'a mut Value {
    let content = &mut messages[cut.message_index]["message"]["content"];
    match cut.block_index {
        Some(index) => &mut content[index]["text"],
        None => content,
    }
}

fn utf16(text: &Value) -> Vec<u16> {
    text.as_str().expect("a text").encode_utf16().collect()
}

/// The definition of a human prompt once more, in other words than the code's.
fn is_prompt(message: &Value) -> bool {
    let content = &message["message"]["content"];
    let blocks = content.as_array();
    let tool_results = blocks.is_some_and(|all| all.iter().any(|block| block["type"] == "tool_result"));
    message["type"] == "user" && (content.is_string() || blocks.is_some()) && !tool_results && !is_flagged(message)
}

fn is_of_conversation(message: &Value) -> bool {
    message["type"] == "user" || message["type"] == "assistant"
}

fn is_flagged(message: &Value) -> bool {
    let falsy = [Value::Null, false.into(), 0.into(), "".into()];
    ["isMeta", "isCompactSummary"].iter().any(|flag| !falsy.contains(&message[*flag]))
}

fn config() -> ProptestConfig {
    ProptestConfig {
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn the_twins_agree(messages in conversations(), environment in environments()) {
        prune_with_both(&messages, &environment);
    }

    #[test]
    fn only_the_cuts_change(messages in conversations(), environment in environments()) {
        let pruned = prune::prune(&messages, &settings(&environment));
        let mut restored = pruned.messages.to_vec();
        for cut in &pruned.cuts {
            *text_at(&mut restored, cut) = text_at(&mut messages.clone(), cut).clone();
        }
        prop_assert_eq!(&restored, &messages);
        prop_assert_eq!(is_input(&pruned), pruned.cuts.is_empty());
    }

    #[test]
    fn a_cut_keeps_the_start_and_gets_shorter(
        messages in conversations(),
        environment in environments(),
    ) {
        let max_chars = settings(&environment).max_chars;
        let mut pruned = prune::prune(&messages, &settings(&environment));
        for cut in &pruned.cuts {
            let original = utf16(text_at(&mut messages.clone(), cut));
            let shortened = utf16(text_at(pruned.messages.to_mut(), cut));
            let (start, end) = shortened.split_at(cut.kept_chars as usize);
            prop_assert_eq!(original.len() as u64, cut.original_chars);
            prop_assert!(original.starts_with(start));
            prop_assert_eq!(end, MARKER.encode_utf16().collect::<Vec<_>>());
            prop_assert!(shortened.len() < original.len());
            // One unit less where a surrogate pair is in the way, and only there.
            let splits_pair = (0xdc00..0xe000).contains(&original[max_chars as usize]);
            prop_assert_eq!(cut.kept_chars, max_chars - u64::from(splits_pair));
        }
    }

    #[test]
    fn the_newest_turns_are_untouched(messages in conversations(), environment in environments()) {
        let Settings { keep_turns, .. } = settings(&environment);
        for cut in prune::plan(&messages, &settings(&environment)) {
            let message = &messages[cut.message_index];
            prop_assert!(is_of_conversation(message) && !is_flagged(message));
            let newer = messages[cut.message_index + 1..].iter().filter(|newer| is_prompt(newer));
            prop_assert!(newer.count() as u64 >= keep_turns);
        }
    }

    #[test]
    fn everything_old_is_cut(messages in conversations(), environment in environments()) {
        let settings =
            Settings { enabled: true, threshold_tokens: 0, ..settings(&environment) };
        let is_prompt_at = |&index: &usize| is_prompt(&messages[index]);
        let prompts: Vec<_> = (0..messages.len()).filter(is_prompt_at).collect();
        let keep = usize::try_from(settings.keep_turns).expect("64 bits");
        let boundary = if prompts.len() > keep { prompts[prompts.len() - keep] } else { 0 };
        let pruned = prune::prune(&messages, &settings);
        let longest = settings.max_chars.saturating_add(MARKER.len() as u64);
        for message in &pruned.messages[..boundary] {
            if is_flagged(message) || !is_of_conversation(message) {
                continue;
            }
            let content = &message["message"]["content"];
            let blocks = content.as_array().into_iter().flatten();
            let texts = blocks.filter(|block| block["type"] == "text").map(|block| &block["text"]);
            for text in texts.chain([content]).filter(|text| text.is_string()) {
                prop_assert!(utf16(text).len() as u64 <= longest);
            }
        }
    }

    #[test]
    fn pruning_again_changes_nothing(messages in conversations(), environment in environments()) {
        let settings = settings(&environment);
        let once = prune::prune(&messages, &settings);
        prop_assert_eq!(prune::plan(&once.messages, &settings), []);
        // Not even when the threshold, below which the first pass may have brought it, is gone.
        let always = Settings { threshold_tokens: 0, ..settings };
        let once = prune::prune(&messages, &always);
        prop_assert_eq!(prune::plan(&once.messages, &always), []);
    }

    #[test]
    fn a_growing_conversation_keeps_its_cuts(
        messages in conversations(),
        environment in environments(),
        share in 0.0..1.0,
    ) {
        let settings = settings(&environment);
        let earlier = (messages.len() as f64 * share) as usize;
        let later = prune::plan(&messages, &settings);
        for cut in prune::plan(&messages[..earlier], &settings) {
            prop_assert!(later.contains(&cut));
        }
    }

    #[test]
    fn no_value_of_a_variable_is_an_error(value in ".*") {
        let Settings { keep_turns, threshold_tokens, max_chars, .. } =
            Settings::from_env(|_| Some(value.clone()));
        prop_assert!(keep_turns >= 1);
        prop_assert!([keep_turns, threshold_tokens, max_chars].into_iter().max() < Some(1 << 53));
    }
}

/// Constants exist once in each language; these are the lines where the JavaScript has them.
#[test]
fn the_twins_have_the_same_constants() {
    let constants = [
        format!("const MARKER = {MARKER:?};"),
        format!("const DEFAULT_KEEP_TURNS = {};", prune::DEFAULT_KEEP_TURNS),
        format!("const DEFAULT_THRESHOLD_TOKENS = {};", prune::DEFAULT_THRESHOLD_TOKENS),
        format!("const DEFAULT_MAX_CHARS = {};", prune::DEFAULT_MAX_CHARS),
        format!("const CHARS_PER_TOKEN = {};", prune::CHARS_PER_TOKEN),
        format!("const TOKENS_PER_MEDIA_BLOCK = {};", prune::TOKENS_PER_MEDIA_BLOCK),
    ];
    for constant in constants {
        assert_eq!(RUNTIME.matches(&constant).count(), 1, "{constant}");
    }
    for variable in [prune::SWITCH_VAR, prune::KEEP_VAR, prune::THRESHOLD_VAR, prune::MAX_CHARS_VAR] {
        assert!(RUNTIME.contains(variable), "{variable}");
    }
}

/// The client's bundle may be Latin-1, and may be a module or the body of a function.
#[test]
fn the_runtime_is_one_small_ascii_function() {
    assert!(RUNTIME.is_ascii());
    assert!(RUNTIME.len() < 6 * 1024, "{} bytes", RUNTIME.len());
    assert!(RUNTIME.starts_with(&format!("function {RUNTIME_FUNCTION}(messages) {{\n")));
    assert!(RUNTIME.ends_with("\n}\n"));
}

/// What only JavaScript can do to it: throwing getters, proxies, lone surrogates, a hostile
/// environment.
#[test]
fn the_runtime_withstands_its_surroundings() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/prune/runtime.test.mjs");
    let run = Command::new("node").arg(script).output().expect("Node.js 18 or newer");
    let [printed, errors] = [&run.stdout, &run.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    assert!(run.status.success(), "{printed}{errors}");
}
