//! What holds for every conversation and all settings.

use ctxbridge::prune::{self, Boundary, BoundaryTracker, ConversationSize, PruneSettings, Step, TextCut};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use serde_json::Value;

use crate::prune::conversations::conversations;
use crate::prune::variables::environments;
use crate::prune::{is_input, prune_with_both, settings};

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: ctxbridge_testkit::share_of(10_000),
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
        ..ProptestConfig::default()
    }
}

fn text_at(messages: &[Value], cut: &TextCut) -> String {
    prune::text_of_cut(&mut messages.to_vec(), cut).and_then(|text| text.as_str()).expect("a text").to_owned()
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

/// All that is neither a text nor part of what a tool returned or was given to write: what stays to the byte.
fn skeleton(message: &Value) -> Value {
    let mut message = message.clone();
    if !is_of_conversation(&message) || is_flagged(&message) {
        return message;
    }
    match message.pointer_mut("/message/content") {
        Some(text @ Value::String(_)) => *text = "".into(),
        Some(Value::Array(blocks)) => {
            for block in blocks {
                let cut: &[&str] = match block["type"].as_str() {
                    Some("text") => &["/text"],
                    Some("tool_result") => &["/content"],
                    Some("tool_use") => &["/input"],
                    _ => &[],
                };
                for field in cut {
                    if let Some(value) = block.pointer_mut(field) {
                        *value = Value::Null;
                    }
                }
            }
        }
        _ => {}
    }
    message
}

fn tokens(messages: &[Value]) -> u64 {
    messages.iter().map(ConversationSize::of).fold(ConversationSize::default(), |sum, size| sum + size).tokens()
}

fn boundaries(messages: &[Value], settings: &PruneSettings) -> BoundaryTracker {
    let mut boundaries = BoundaryTracker::new(settings);
    messages.iter().for_each(|message| boundaries.push(message));
    boundaries
}

fn boundary(messages: &[Value], settings: &PruneSettings) -> Boundary {
    boundaries(messages, settings).now()
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
            *prune::text_of_cut(&mut restored, cut).unwrap() = text_at(&messages, cut).into();
        }
        prop_assert_eq!(&restored, &messages);
        prop_assert_eq!(is_input(&pruned), pruned.cuts.is_empty());
        prop_assert_eq!(pruned.messages.len(), messages.len());
        for (before, after) in messages.iter().zip(pruned.messages.iter()) {
            prop_assert_eq!(skeleton(before), skeleton(after));
        }
    }

    #[test]
    fn a_cut_keeps_the_start_and_says_the_rest(messages in conversations(), environment in environments()) {
        let settings = settings(&environment);
        let pruned = prune::prune(&messages, &settings);
        for cut in &pruned.cuts {
            let [original, shortened] = [&messages, &pruned.messages.to_vec()].map(|messages| text_at(messages, cut));
            let units: Vec<u16> = original.encode_utf16().collect();
            let (kept, chars) = prune::parse_marker(&shortened).expect("a marker");
            prop_assert_eq!((units.len() as u64, kept.encode_utf16().count() as u64), (cut.original_chars, cut.kept_chars));
            prop_assert_eq!(chars, cut.original_chars);
            prop_assert!(original.starts_with(kept));
            prop_assert!(shortened.encode_utf16().count() as u64 + prune::MIN_SAVED_CHARS <= cut.original_chars);
            prop_assert_eq!(cut.saved_chars(), cut.original_chars - shortened.encode_utf16().count() as u64);
            // One unit less where a surrogate pair is in the way, and only there.
            let splits_pair = (0xdc00..0xe000).contains(&units[settings.max_chars as usize]);
            prop_assert_eq!(cut.kept_chars, settings.max_chars - u64::from(splits_pair));
            let uuid = messages[cut.message_index]["uuid"].as_str().unwrap_or_default();
            let has_handle = settings.handles && !uuid.starts_with("uuid");
            prop_assert_eq!(cut.handle.is_some(), has_handle);
            if let Some(handle) = &cut.handle {
                let id = format!("{}.{}", &uuid[..8].to_lowercase(), cut.block_index);
                let handle = handle.to_string();
                prop_assert!(handle.strip_prefix("ctx:").unwrap().starts_with(&id) && shortened.contains(&handle));
            }
        }
    }

    #[test]
    fn what_is_new_is_untouched(messages in conversations(), environment in environments()) {
        let settings = settings(&environment);
        let cuts = prune::plan(&messages, &settings);
        if tokens(&messages) < settings.threshold_tokens {
            prop_assert_eq!(&cuts, &[]);
        }
        for cut in cuts {
            let (upto, newer) = messages.split_at(cut.message_index + 1);
            let message = &upto[cut.message_index];
            prop_assert!(is_of_conversation(message) && !is_flagged(message));
            prop_assert!(tokens(&messages) - tokens(upto) >= settings.tail_tokens);
            let content = &message["message"]["content"];
            if content.is_string() || content[cut.block_index]["type"] == "text" {
                prop_assert!(newer.iter().filter(|newer| is_prompt(newer)).count() as u64 >= settings.keep_turns);
            }
        }
    }

    #[test]
    fn all_that_is_old_is_cut(messages in conversations(), environment in environments()) {
        let settings = PruneSettings { enabled: true, ..settings(&environment) };
        let Boundary { tools, text } = boundary(&messages, &settings);
        prop_assert!(text <= tools && tools <= messages.len());
        let pruned = prune::prune(&messages, &settings);
        let longest = settings.max_chars.saturating_add(prune::MIN_SAVED_CHARS + 100);
        let boundaries = boundaries(&messages, &settings);
        let cut = |(index, message): &(usize, &Value)| !is_flagged(message) && !boundaries.is_in_pinned_turn(*index);
        for (index, message) in pruned.messages.iter().enumerate().filter(cut) {
            let content = &message["message"]["content"];
            let mut old = Vec::new();
            if is_of_conversation(message) && index < text && settings.scope != prune::PruneScope::Tools {
                old.push(content);
            }
            for block in content.as_array().into_iter().flatten().filter(|_| is_of_conversation(message)) {
                if block["type"] == "text" && index < text && settings.scope != prune::PruneScope::Tools {
                    old.push(&block["text"]);
                }
                if block["type"] == "tool_result" && index < tools && settings.scope != prune::PruneScope::Text {
                    old.push(&block["content"]);
                }
            }
            for text in old.into_iter().filter_map(Value::as_str).filter(|text| prune::parse_marker(text).is_none()) {
                prop_assert!(text.encode_utf16().count() as u64 <= longest, "{text}");
            }
        }
    }

    #[test]
    fn pruning_again_changes_nothing(messages in conversations(), environment in environments()) {
        let settings = settings(&environment);
        let once = prune::prune(&messages, &settings);
        prop_assert_eq!(prune::plan(&once.messages, &settings), []);
        prop_assert_eq!(tokens(&once.messages), tokens(&messages));
    }

    /// The query loop goes on with what was sent, and the next prompt begins with the whole again.
    #[test]
    fn a_pruned_past_has_the_same_future(messages in conversations(), environment in environments(), share in 0.0..1.0) {
        let settings = settings(&environment);
        let (past, new) = messages.split_at((messages.len() as f64 * share) as usize);
        let went_on = [prune::prune(past, &settings).messages.as_ref(), new].concat();
        prop_assert_eq!(prune::prune(&went_on, &settings).messages, prune::prune(&messages, &settings).messages);
    }

    /// Once a step at most: in between, a longer conversation begins with the same bytes.
    #[test]
    fn the_past_changes_once_a_step(messages in conversations(), environment in environments()) {
        let settings = settings(&environment);
        let mut boundaries = BoundaryTracker::new(&settings);
        let mut moves = 0;
        let mut last = Boundary::default();
        let mut sent: Vec<Value> = Vec::new();
        for (index, message) in messages.iter().enumerate() {
            boundaries.push(message);
            let now = boundaries.now();
            prop_assert!(now.tools >= last.tools && now.text >= last.text);
            let pruned = prune::prune(&messages[..=index], &settings);
            if now == last {
                prop_assert_eq!(&pruned.messages[..index], &sent[..]);
            }
            moves += u64::from(now != last);
            last = now;
            sent = pruned.messages.into_owned();
        }
        let steps = match settings.step {
            Step::Tokens(step) => tokens(&messages) / step,
            Step::Turns(step) => messages.iter().filter(|message| is_prompt(message)).count() as u64 / step,
        };
        prop_assert!(moves <= steps, "{moves} moves in {steps} steps");
    }

    #[test]
    fn no_value_of_a_variable_is_an_error(value in ".*") {
        let PruneSettings { keep_turns, threshold_tokens, max_chars, tail_tokens, step, .. } =
            PruneSettings::from_env(|_| Some(value.clone()));
        let (Step::Tokens(step) | Step::Turns(step)) = step;
        prop_assert!(keep_turns >= 1 && step >= 1);
        prop_assert!([keep_turns, threshold_tokens, max_chars, tail_tokens, step].into_iter().max() < Some(1 << 53));
    }
}
