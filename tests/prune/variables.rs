//! The variables that set the policy, in both languages.

use std::collections::BTreeMap;
use std::ops::Range;

use ctxbridge::prune::{
    HANDLES_VAR, KEEP_VAR, MAX_CHARS_VAR, PruneScope, PruneSettings, SCOPE_VAR, STEP_VAR, SWITCH_VAR, Step, TAIL_VAR,
    THRESHOLD_VAR,
};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use crate::prune::messages::{before_prompts, marker, user};
use crate::prune::{assert_untouched, is_input, prune_with_both, settings};

/// Environment variables by name.
pub type Environment = BTreeMap<&'static str, String>;

/// Two kept turns, 10 characters, and a boundary that moves with every message, as far as it may.
pub fn small() -> Environment {
    let variables = [(KEEP_VAR, "2"), (THRESHOLD_VAR, "0"), (MAX_CHARS_VAR, "10"), (TAIL_VAR, "0"), (STEP_VAR, "1")];
    variables.map(|(name, value)| (name, value.to_owned())).into()
}

/// [`small`] with one variable of another value.
pub fn with(name: &'static str, value: &str) -> Environment {
    let mut environment = small();
    environment.insert(name, value.to_owned());
    environment
}

/// What is no whole number, for the one or the other reason.
const ODD_NUMBERS: [&str; 16] =
    ["", " ", "-1", "+1", " 1", "1 ", "1\n", "1.0", "1e2", "0x1", "1_000", "x", "NaN", "٣", "½", "2^53"];

/// One more than JavaScript's largest safe integer, and than the largest of 64 bits.
const TOO_LARGE: [&str; 2] = ["9007199254740992", "18446744073709551616"];

/// Settings under which most of these conversations are pruned, some are not, and some values are
/// nonsense.
pub fn environments() -> impl Strategy<Value = Environment> {
    let switch = select(vec!["0", "false", "off", "no", "OFF", "1", "true", "", "00"]).prop_map(str::to_owned);
    let step = prop_oneof![
        6 => number(1..2_000),
        2 => number(1..4).prop_map(|number| number + "turns"),
        1 => select(vec!["turns", "3 turns", "2TURNS", "0turns"]).prop_map(str::to_owned),
    ];
    let scope = select(vec!["text", "tools", "all", "ALL", "none", ""]).prop_map(str::to_owned);
    let threshold = prop_oneof![8 => number(0..2_000), 1 => number(0..30_000)];
    let tail = prop_oneof![8 => number(0..1_000), 1 => number(0..30_000)];
    (
        option::weighted(0.1, switch.clone()),
        option::weighted(0.9, number(1..4)),
        option::weighted(0.95, threshold),
        option::weighted(0.8, number(0..100)),
        option::weighted(0.95, tail),
        option::weighted(0.95, step),
        option::weighted(0.7, scope),
        option::weighted(0.3, switch),
    )
        .prop_map(|(switch, keep, threshold, max_chars, tail, step, scope, handles)| {
            let variables = [
                (SWITCH_VAR, switch),
                (KEEP_VAR, keep),
                (THRESHOLD_VAR, threshold),
                (MAX_CHARS_VAR, max_chars),
                (TAIL_VAR, tail),
                (STEP_VAR, step),
                (SCOPE_VAR, scope),
                (HANDLES_VAR, handles),
            ];
            variables.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
        })
}

fn number(range: Range<u32>) -> impl Strategy<Value = String> {
    prop_oneof![
        12 => range.prop_map(|number| number.to_string()),
        1 => select(ODD_NUMBERS.to_vec()).prop_map(str::to_owned),
        1 => select(vec!["0", "00", "007", "9007199254740991"]).prop_map(str::to_owned),
        1 => "[0-9]{1,25}",
    ]
}

/// A text that is cut by [`small`] and by the defaults.
fn long() -> String {
    "x".repeat(300)
}

/// Every number set to the same value.
fn all_numbers(value: &str) -> Environment {
    [KEEP_VAR, THRESHOLD_VAR, MAX_CHARS_VAR, TAIL_VAR, STEP_VAR].map(|name| (name, value.to_owned())).into()
}

#[test]
fn it_can_be_switched_off() {
    let messages = before_prompts(user(long()), 2);
    for off in ["0", "false", "off", "no", "OFF", "False"] {
        assert_untouched(&messages, &with(SWITCH_VAR, off));
    }
    for on in ["1", "true", "on", "", " 0", "00", "none"] {
        let pruned = prune_with_both(&messages, &with(SWITCH_VAR, on));
        assert!(!is_input(&pruned), "{on:?}");
    }
}

/// The other way round where the patch was applied with another default: then only a word for it switches on.
#[test]
fn what_is_off_can_be_switched_on() {
    let off = PruneSettings { enabled: false, handles: false, ..PruneSettings::default() };
    let with = |value: &str| off.clone().with_env(|_| Some(value.to_owned()));
    for on in ["1", "true", "on", "yes", "ON"] {
        assert_eq!((with(on).enabled, with(on).handles), (true, true), "{on}");
    }
    for other in ["0", "", "maybe", "off"] {
        assert_eq!((with(other).enabled, with(other).handles), (false, false), "{other}");
    }
}

#[test]
fn what_is_no_number_counts_as_unset() {
    for odd in ODD_NUMBERS.into_iter().chain(TOO_LARGE) {
        assert_eq!(settings(&all_numbers(odd)), PruneSettings::default(), "{odd:?}");

        let odd_keep = with(KEEP_VAR, odd);
        assert_untouched(&before_prompts(user(long()), 3), &odd_keep);
        assert!(!is_input(&prune_with_both(&before_prompts(user(long()), 4), &odd_keep)));

        let messages = before_prompts(user(long()), 2);
        for name in [THRESHOLD_VAR, TAIL_VAR, STEP_VAR] {
            assert_untouched(&messages, &with(name, odd));
        }
        let pruned = prune_with_both(&messages, &with(MAX_CHARS_VAR, odd));
        assert_eq!(pruned.cuts[0].kept_chars, 80);
    }
}

#[test]
fn zero_is_in_range_except_for_turns_and_steps() {
    let expected = PruneSettings { threshold_tokens: 0, max_chars: 0, tail_tokens: 0, ..PruneSettings::default() };
    assert_eq!(settings(&all_numbers("000")), expected);
    let mut zero = all_numbers("000");
    zero.insert(STEP_VAR, "1".into());
    let messages = before_prompts(user(long()), 4);
    assert_eq!(prune_with_both(&messages, &zero).messages[0], user(marker(300)));
    assert_untouched(&messages[1..], &zero);
}

#[test]
fn the_largest_number_is_the_largest_safe_integer() {
    let messages = before_prompts(user(long()), 2);
    for name in [KEEP_VAR, THRESHOLD_VAR, MAX_CHARS_VAR, TAIL_VAR, STEP_VAR] {
        assert_untouched(&messages, &with(name, "9007199254740991"));
    }
    assert_eq!(settings(&all_numbers("9007199254740991")).keep_turns, (1 << 53) - 1);
}

#[test]
fn a_step_is_of_tokens_or_of_turns() {
    for (written, step) in
        [("1", Step::Tokens(1)), ("007", Step::Tokens(7)), ("8turns", Step::Turns(8)), ("2TURNS", Step::Turns(2))]
    {
        assert_eq!(settings(&with(STEP_VAR, written)).step, step);
    }
    for odd in ["turns", "0turns", "8 turns", "8turn", "8.5turns", "-1turns", "9007199254740992turns"] {
        assert_eq!(settings(&with(STEP_VAR, odd)).step, PruneSettings::default().step, "{odd}");
    }
}

#[test]
fn a_scope_is_a_word() {
    for (written, scope) in [
        ("text", PruneScope::Text),
        ("Tools", PruneScope::Tools),
        ("ALL", PruneScope::All),
        ("both", PruneScope::All),
        ("", PruneScope::All),
    ] {
        assert_eq!(settings(&with(SCOPE_VAR, written)).scope, scope, "{written}");
    }
}

#[test]
fn the_defaults() {
    let unset = Environment::new();
    let expected = PruneSettings {
        enabled: true,
        keep_turns: 4,
        threshold_tokens: 20_000,
        max_chars: 80,
        tail_tokens: 10_000,
        step: Step::Tokens(40_000),
        scope: PruneScope::All,
        handles: true,
    };
    assert_eq!(settings(&unset), expected);
    // 140,000 chars are a step of 40,000 tokens; 35,000 more are the 10,000 that are left alone.
    let old_turn = |newer: usize| {
        let mut messages = before_prompts(user("x".repeat(140_000)), 4);
        messages[1] = user("y".repeat(newer));
        messages
    };
    let enough = 35_000 - 3 * "go on".len();
    assert_eq!(prune_with_both(&old_turn(enough), &unset).messages[0], user("x".repeat(80) + &marker(140_000)));
    assert_untouched(&old_turn(enough - 4), &unset);
    assert_untouched(&old_turn(2 * enough)[..4], &unset);
}
