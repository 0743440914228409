use proptest::prelude::*;

use super::super::conversation::{ReplayCall, ReplayMessage};
use super::super::prices::Prices;
use super::*;
use crate::PruneSettings;

/// A message of `tokens` estimated tokens, from the user or the model. A call has its result behind it.
fn message(at: usize, kind: &str, tokens: usize) -> ReplayMessage {
    let text = "abcdefg".repeat(tokens / 2);
    let blocks = match kind {
        "result" => {
            json!([{ "type": "tool_result", "tool_use_id": format!("t{}", at.saturating_sub(1)), "content": text }])
        }
        "call" => json!([
            { "type": "text", "text": text }, { "type": "tool_use", "id": format!("t{at}"), "name": "Read", "input": {} },
        ]),
        _ => json!([{ "type": "text", "text": text }]),
    };
    let role = if is_answer(kind) { "assistant" } else { "user" };
    let message = json!({ "id": format!("m{at}"), "role": role, "content": blocks });
    let value = json!({ "type": role, "uuid": format!("{at:08x}-0"), "message": message });
    ReplayMessage { line: at + 1, value, at_ms: at as i64 * 1_000, is_stand_in: false }
}

fn is_answer(kind: &str) -> bool {
    kind == "assistant" || kind == "call"
}

/// A conversation of these messages, with a call before each answer; 2,000 tokens of tools and system.
fn conversation(messages: &[(&str, usize)]) -> ReplayConversation {
    let mut conversation = ReplayConversation::default();
    let mut context = 2_000;
    for (at, (kind, tokens)) in messages.iter().enumerate() {
        if is_answer(kind) {
            let at_ms = at.saturating_sub(1) as i64 * 1_000;
            let call = ReplayCall { messages_before: at, context_tokens: Some(context), output_tokens: 100, at_ms };
            conversation.calls.push(call);
        }
        context += *tokens as u64;
        conversation.messages.push(message(at, kind, *tokens));
    }
    conversation
}

fn terms(threshold: u64, cache: cache::CacheModel) -> ReplayTerms {
    ReplayTerms {
        threshold,
        micro_compacts: false,
        cache,
        is_hourly: false,
        price: Prices::built_in().unwrap().of("claude-sonnet-4-5", false),
    }
}

fn run(conversation: &ReplayConversation, policy: &Policy, threshold: u64, cache: cache::CacheModel) -> ReplayOutcome {
    replay(
        conversation,
        &WeighedConversation::new(conversation),
        Some(&References::of(conversation)),
        policy,
        &terms(threshold, cache),
    )
}

/// Folding of whatever it may, in a window that is always full.
fn folding() -> Policy {
    let window_tokens = Some(44_000);
    let settings =
        PruneSettings { threshold_tokens: 0, keep_tokens: Some(1), keep_turns: 1, window_tokens, ..PruneSettings::default() };
    Policy::Fold(Box::new(settings))
}

/// Two calls; when the second is answered, the first is old.
fn two_calls() -> ReplayConversation {
    conversation(&[("user", 1_000), ("call", 0), ("result", 30_000), ("call", 0), ("result", 21_000), ("assistant", 0)])
}

#[test]
fn without_pruning_each_request_reads_the_one_before() {
    let conversation = conversation(&[("user", 1_000), ("assistant", 200), ("result", 800), ("assistant", 0)]);
    let found = run(&conversation, &Policy::None, 100_000, cache::CacheModel::Api);
    assert_eq!(found.contexts, [(0, 3_000), (1, 4_000)]);
    let ReplayTotals { calls, input_tokens, cache_read_tokens, cache_write_tokens, uncached_tokens, output_tokens, .. } =
        found.totals;
    assert_eq!((calls, input_tokens, output_tokens), (2, 7_000, 200));
    assert_eq!((cache_read_tokens, cache_write_tokens, uncached_tokens), (3_000, 4_000, 0));
    // 3,000 read at 0.30 and 4,000 written at 3.75 a million, 200 answered at 15.
    assert!((found.totals.cost_usd - (0.000_9 + 0.015 + 0.003)).abs() < 1e-12);
    assert_eq!((found.totals.peak_tokens, found.totals.verbatim_share()), (4_000, 1.0));
}

/// The first round becomes old with the third call. The cache then knows what was before it.
#[test]
fn a_fold_costs_what_is_behind_it() {
    for cache in [cache::CacheModel::Api, cache::CacheModel::Exact] {
        let found = run(&two_calls(), &folding(), 100_000, cache);
        assert_eq!((found.totals.prefix_changes, found.totals.compactions), (1, 0), "{cache:?}");
        let [(_, first), (_, second), (_, third)] = found.contexts[..] else { panic!("{:?}", found.contexts) };
        assert_eq!((first, second), (3_000, 33_000));
        // All of the round but its digest is gone.
        assert!((24_010..24_030).contains(&third), "{third}");
        assert_eq!(found.totals.cache_read_tokens, 3_000 + 3_000, "{cache:?}");
        assert_eq!(found.totals.text_chars - found.totals.verbatim_chars, 30_000 * 7 / 2);
    }
}

#[test]
fn a_full_window_is_compacted_and_charged() {
    let messages = [("user", 1_000), ("assistant", 0), ("result", 17_000), ("assistant", 0), ("result", 500), ("assistant", 0)];
    let found = run(&conversation(&messages), &Policy::None, 20_000, cache::CacheModel::Api);
    // Before and after; the summary is all that is left.
    assert_eq!(found.contexts, [(0, 3_000), (1, 20_000), (1, 14_000), (2, 14_500)]);
    assert_eq!((found.totals.calls, found.totals.compactions, found.totals.peak_tokens), (4, 1, 20_000));
    assert_eq!(found.totals.output_tokens, 3 * 100 + SUMMARY_OUTPUT_TOKENS);
    assert_eq!(found.totals.input_tokens, 3_000 + 20_000 + 14_000 + 14_500);
    assert_eq!(found.totals.text_chars, 18_500 * 7 / 2);
    assert_eq!(found.totals.verbatim_chars, 500 * 7 / 2);
    assert_eq!(found.totals.prefix_changes, 0);
}

#[test]
fn a_summary_that_does_not_fit_is_not_compacted_for_ever() {
    let found =
        run(&conversation(&[("user", 10), ("assistant", 0), ("assistant", 0)]), &Policy::None, 100, cache::CacheModel::Api);
    // The second answer follows the first, which is something new.
    assert_eq!((found.totals.calls, found.totals.compactions), (4, 2));
}

#[test]
fn recorded_compactions_cut_nothing() {
    let mut recorded = conversation(&[("user", 1_000), ("assistant", 0), ("user", 500), ("user", 800), ("assistant", 0)]);
    recorded.messages[2].is_stand_in = true;
    recorded.resets.push(2);
    recorded.calls[1].context_tokens = Some(3_300);
    let found = run(&recorded, &Policy::None, 100_000, cache::CacheModel::Api);
    assert_eq!(found.contexts, [(0, 3_000), (1, 3_800)]);
}

fn messages() -> impl Strategy<Value = Vec<(&'static str, usize)>> {
    let kind = prop_oneof![Just("user"), Just("assistant"), Just("call"), Just("result"), Just("result")];
    proptest::collection::vec((kind, (0_usize..2_000).prop_map(|half| half * 2)), 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ctxbridge_testkit::share_of(512)))]

    #[test]
    fn what_is_sent_is_charged_once(messages in messages(), threshold in 4_000_u64..60_000, gap in 0_i64..400) {
        let mut conversation = conversation(&messages);
        conversation.calls.iter_mut().for_each(|call| call.at_ms *= gap);
        let recorded: u64 = conversation.calls.iter().filter_map(|call| call.context_tokens).sum();
        let weighed = WeighedConversation::new(&conversation);
        let run = |policy: &Policy, threshold: u64, cache: cache::CacheModel| {
            replay(&conversation, &weighed, None, policy, &terms(threshold, cache)).totals
        };
        let whole = run(&Policy::None, u64::MAX, cache::CacheModel::Api);
        prop_assert_eq!(whole.input_tokens, recorded);
        for policy in [Policy::None, Policy::Reference(Box::default()), folding()] {
            let api = run(&policy, threshold, cache::CacheModel::Api);
            let exact = run(&policy, threshold, cache::CacheModel::Exact);
            for totals in [&api, &exact] {
                let sum = totals.cache_read_tokens + totals.cache_write_tokens + totals.uncached_tokens;
                prop_assert_eq!(sum, totals.input_tokens);
                prop_assert!(totals.cost_usd >= 0.0 && totals.cost_usd.is_finite());
                prop_assert!(totals.verbatim_chars <= totals.text_chars);
            }
            prop_assert_eq!(api.input_tokens, exact.input_tokens);
            prop_assert!(exact.cost_usd <= api.cost_usd + 1e-9, "{} {}", exact.cost_usd, api.cost_usd);
            let unlimited = run(&policy, u64::MAX, cache::CacheModel::Api);
            prop_assert!(unlimited.input_tokens <= whole.input_tokens);
        }
    }
}

/// The answer names what was read: it is lost where the round was folded.
#[test]
fn what_an_answer_needs_is_counted() {
    let mut needed = two_calls();
    let read = format!("{}\nlet tail_tokens = 7;", "abcdefg".repeat(15_000));
    needed.messages[2].value["message"]["content"][0]["content"] = read.into();
    needed.messages[5].value["message"]["content"] = json!([
        { "type": "text", "text": "tail_tokens is 7" },
        { "type": "tool_use", "id": "u", "name": "Edit", "input": { "file_path": "a", "old_string": "let tail_tokens = 7;\n" } },
    ]);
    let counted = |policy: &Policy, threshold| run(&needed, policy, threshold, cache::CacheModel::Api).totals.needs;
    let all = NeedsCount { references: 1, lost_references: 0, edits: 1, blind_edits: 0 };
    assert_eq!(counted(&Policy::None, 100_000), all);
    let lost = NeedsCount { lost_references: 1, blind_edits: 1, ..all };
    assert_eq!(counted(&folding(), 100_000), lost);
    // A compaction keeps neither, as nothing of it is a text that a summary takes over.
    assert_eq!(counted(&Policy::None, 50_000), lost);
}

#[test]
fn an_older_client_clears_old_results_before_it_compacts() {
    let rounds: Vec<(&str, usize)> =
        std::iter::repeat_n([("call", 0), ("result", 16_000)], 6).flatten().chain([("assistant", 0)]).collect();
    let conversation = conversation(&[&[("user", 0)], &rounds[..]].concat());
    let weighed = WeighedConversation::new(&conversation);
    let references = References::of(&conversation);
    let contexts = |threshold: u64, micro_compacts: bool| {
        let terms = ReplayTerms { micro_compacts, ..terms(threshold, cache::CacheModel::Exact) };
        let found = replay(&conversation, &weighed, Some(&references), &Policy::None, &terms);
        (found.contexts.iter().map(|(_, tokens)| tokens / 1_000).collect::<Vec<_>>(), found.totals.prefix_changes)
    };
    assert_eq!(contexts(105_000, false), (vec![2, 18, 34, 50, 66, 82, 98], 0));
    // The newest three stay, and all that fits into 40,000.
    assert_eq!(contexts(105_000, true), (vec![2, 18, 34, 50, 66, 82, 50], 1));
    assert_eq!(contexts(119_000, true), (vec![2, 18, 34, 50, 66, 82, 98], 0), "there is room");
    // With four results, one goes: that is too little.
    assert_eq!(contexts(71_000, true).0[..5], [2, 18, 34, 50, 66]);
}
