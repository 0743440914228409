//! What holds for every conversation and all settings.

use ctxbridge::prune::{self, PruneSettings};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use serde_json::Value;

use crate::prune::conversations::conversations;
use crate::prune::variables::environments;
use crate::prune::{is_input, node, prune_with_both, settings};

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: ctxbridge_testkit::share_of(3_000),
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
        ..ProptestConfig::default()
    }
}

fn is_digest(message: &Value) -> bool {
    message["isMeta"] == true
        && message["message"]["content"].as_str().is_some_and(|text| text.starts_with("[earlier context folded: "))
}

fn blocks(message: &Value) -> &[Value] {
    message["message"]["content"].as_array().map_or(&[], Vec::as_slice)
}

fn is_thinking(block: &Value) -> bool {
    block["type"] == "thinking" || block["type"] == "redacted_thinking"
}

/// Requests stand before answers, and nowhere else: their indexes.
fn requests(messages: &[Value]) -> Vec<usize> {
    let mut newest = None;
    let mut is_new = |message: &Value| {
        let id = message["message"]["id"].as_str().or(message["uuid"].as_str()).map(str::to_owned);
        let is_answer = message["type"] == "assistant" && message.get("message").is_some();
        let has_call = || blocks(message).iter().any(|block| block["type"] == "tool_use");
        let is_own = message["message"]["model"] != "<synthetic>";
        let is_round = is_answer && (is_own || has_call());
        let is_next = is_round && newest.replace(id.clone()) != Some(id);
        is_next && is_own
    };
    messages.iter().enumerate().filter(|(_, message)| is_new(message)).map(|(index, _)| index).collect()
}

/// Ids of calls, or of what results answer.
fn ids<'m>(messages: &'m [Value], kind: &str, field: &str) -> Vec<&'m str> {
    let all = messages.iter().flat_map(blocks).filter(|block| block["type"] == *kind);
    let mut ids: Vec<&str> = all.filter_map(|block| block[field].as_str()).collect();
    ids.sort_unstable();
    ids
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn the_twins_agree(messages in conversations(), environment in environments()) {
        prune_with_both(&messages, &environment);
    }

    /// The query loop goes on with what was sent: it comes to the same as the whole conversation.
    #[test]
    fn a_pruned_past_has_the_same_future(
        messages in conversations(), environment in environments(), shares in proptest::collection::vec(0.0..1.0, 1..4),
    ) {
        let requests = requests(&messages);
        let mut ends: Vec<usize> = shares.iter().filter_map(|share| requests.get((requests.len() as f64 * share) as usize).copied()).collect();
        ends.sort_unstable();
        // Before a request stands what was asked.
        ends.retain(|end| messages[..*end].iter().any(|message| message["type"] != "assistant" && message["uuid"].is_string()));
        let looped = node::prune_in_loop(&messages, &environment, &ends);
        prop_assert_eq!(looped.messages, prune::prune(&messages, &settings(&environment)).into_owned());
    }

    /// Between two prunes, a longer request begins with the same messages.
    #[test]
    fn what_was_decided_stays(messages in conversations(), environment in environments()) {
        let settings = PruneSettings { policy: prune::PrunePolicy::Fold, enabled: true, ..settings(&environment) };
        let mut fold = prune::fold::Fold::new(&settings);
        let (mut prunes, mut before, requests) = (0, Vec::new(), requests(&messages));
        for (index, message) in messages.iter().enumerate() {
            if requests.contains(&index) {
                let mut now = fold.clone();
                now.request();
                let views = now.views(messages[..index].iter());
                if now.prunes == prunes {
                    prop_assert_eq!(&views[..before.len()], &before[..]);
                }
                (prunes, before) = (now.prunes, views);
            }
            fold.push(message);
        }
    }

    #[test]
    fn only_rounds_and_thinking_go(messages in conversations(), environment in environments()) {
        let settings = PruneSettings { policy: prune::PrunePolicy::Fold, ..settings(&environment) };
        let pruned = prune::prune(&messages, &settings);
        prop_assert!(settings.enabled || is_input(&pruned));
        let mut rest = messages.iter();
        for sent in pruned.iter().filter(|message| !is_digest(message)) {
            let found = rest.by_ref().find(|message| message["uuid"] == sent["uuid"]);
            let Some(original) = found else { return Err(TestCaseError::fail(format!("{sent} is out of order"))) };
            if original != sent && !sent["message"]["content"].to_string().contains("[earlier context folded: the rest of ") {
                let others: Vec<&Value> = blocks(original).iter().filter(|block| !is_thinking(block)).collect();
                prop_assert_eq!(others, blocks(sent).iter().collect::<Vec<_>>());
            }
        }
        // What nobody but the model or a tool wrote is the only thing that goes.
        for message in &messages {
            let is_of_round = message["type"] == "assistant" || blocks(message).iter().any(|block| block["type"] == "tool_result");
            let is_there = || pruned.iter().any(|sent| sent["uuid"] == message["uuid"] && !is_digest(sent));
            prop_assert!(is_of_round || !message.is_object() || is_there(), "{}", message);
        }
        // No call loses its result, and no result its call.
        let unmatched = |messages: &[Value]| {
            let (calls, results) = (ids(messages, "tool_use", "id"), ids(messages, "tool_result", "tool_use_id"));
            let lonely = calls.iter().filter(|id| !results.contains(id)).count();
            lonely + results.iter().filter(|id| !calls.contains(id)).count()
        };
        prop_assert!(unmatched(&pruned) <= unmatched(&messages));
    }

    #[test]
    fn every_digest_says_what_it_stands_for(messages in conversations(), environment in environments()) {
        let settings = PruneSettings { policy: prune::PrunePolicy::Fold, ..settings(&environment) };
        let pruned = prune::prune(&messages, &settings);
        for digest in pruned.iter().filter(|message| is_digest(message)) {
            let text = digest["message"]["content"].as_str().unwrap();
            let head = text.lines().next().unwrap();
            if let Some((_, range)) = head.strip_suffix(']').and_then(|head| head.split_once(", recall ")) {
                let range: prune::RangeHandle = range.parse().unwrap();
                for digits in [range.first, range.last] {
                    let is_of = |message: &Value| message["uuid"].as_str().is_some_and(|uuid| uuid.to_lowercase().starts_with(&digits));
                    prop_assert!(messages.iter().any(is_of) && !pruned.iter().any(|message| is_of(message) && !is_digest(message)));
                }
            }
        }
    }

    #[test]
    fn no_value_of_a_variable_is_an_error(value in ".*") {
        let PruneSettings { keep_turns, threshold_tokens, max_chars, keep_tokens, window_tokens, .. } =
            PruneSettings::from_env(|_| Some(value.clone()));
        prop_assert!(keep_turns >= 1 && keep_tokens != Some(0) && window_tokens != Some(0));
        let numbers = [Some(keep_turns), Some(threshold_tokens), Some(max_chars), keep_tokens, window_tokens];
        prop_assert!(numbers.into_iter().flatten().max() < Some(1 << 53));
    }
}
