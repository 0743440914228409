//! The variables that set the policy, in both languages.

use std::collections::BTreeMap;
use std::ops::Range;

use ctxbridge::prune::{
    COMPACT_WINDOW_VAR, KEEP_TOKENS_VAR, KEEP_VAR, MAX_CHARS_VAR, POLICY_VAR, PrunePolicy, PruneSettings, SWITCH_VAR,
    THRESHOLD_VAR, WINDOW_VAR,
};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use crate::prune::messages::Talk;
use crate::prune::{assert_untouched, is_input, prune_with_both, settings};

/// Environment variables by name.
pub type Environment = BTreeMap<&'static str, String>;

/// One kept turn, and 10,000 tokens of a conversation of any size.
pub fn small() -> Environment {
    let variables = [(KEEP_VAR, "1"), (THRESHOLD_VAR, "0"), (KEEP_TOKENS_VAR, "10000")];
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
    let policy = select(vec!["fold", "Fold", "reference", "none", ""]).prop_map(str::to_owned);
    (
        option::weighted(0.1, switch),
        option::weighted(0.2, policy),
        option::weighted(0.8, number(1..5)),
        option::weighted(0.9, number(0..30_000)),
        option::weighted(0.5, number(0..400)),
        option::weighted(0.8, number(1..20_000)),
        option::weighted(0.5, number(50_000..300_000)),
        option::weighted(0.2, number(50_000..300_000)),
    )
        .prop_map(|(switch, policy, keep, threshold, max_chars, keep_tokens, window, compact_window)| {
            let variables = [
                (SWITCH_VAR, switch),
                (POLICY_VAR, policy),
                (KEEP_VAR, keep),
                (THRESHOLD_VAR, threshold),
                (MAX_CHARS_VAR, max_chars),
                (KEEP_TOKENS_VAR, keep_tokens),
                (WINDOW_VAR, window),
                (COMPACT_WINDOW_VAR, compact_window),
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

/// A conversation that is folded by [`small`].
fn long() -> Talk {
    let mut talk = Talk::default();
    talk.prompt("Look.").reads(10, 26_000).waits(300).prompt("So?");
    talk
}

/// Every number set to the same value.
fn all_numbers(value: &str) -> Environment {
    [KEEP_VAR, THRESHOLD_VAR, MAX_CHARS_VAR, KEEP_TOKENS_VAR, WINDOW_VAR].map(|name| (name, value.to_owned())).into()
}

#[test]
fn it_can_be_switched_off() {
    let messages = long().messages;
    for off in ["0", "false", "off", "no", "OFF", "False"] {
        assert_untouched(&messages, &with(SWITCH_VAR, off));
    }
    for on in ["1", "true", "on", "", " 0", "00", "none"] {
        assert!(!is_input(&prune_with_both(&messages, &with(SWITCH_VAR, on))), "{on:?}");
    }
}

/// The other way round where the patch was applied with another default: then only a word for it switches on.
#[test]
fn what_is_off_can_be_switched_on() {
    let off = PruneSettings { enabled: false, ..PruneSettings::default() };
    let with = |value: &str| off.clone().with_env(|_| Some(value.to_owned()));
    for on in ["1", "true", "on", "yes", "ON"] {
        assert!(with(on).enabled, "{on}");
    }
    for other in ["0", "", "maybe", "off"] {
        assert!(!with(other).enabled, "{other}");
    }
}

#[test]
fn what_is_no_number_counts_as_unset() {
    let messages = long().messages;
    let unset = prune_with_both(&messages, &Environment::new());
    for odd in ODD_NUMBERS.into_iter().chain(TOO_LARGE) {
        assert_eq!(settings(&all_numbers(odd)), PruneSettings::default(), "{odd:?}");
        assert_eq!(prune_with_both(&messages, &all_numbers(odd)), unset, "{odd:?}");
    }
}

#[test]
fn zero_is_in_range_for_the_threshold_and_characters() {
    let expected = PruneSettings { threshold_tokens: 0, max_chars: 0, ..PruneSettings::default() };
    assert_eq!(settings(&all_numbers("000")), expected);
    prune_with_both(&long().messages, &all_numbers("000"));
}

#[test]
fn the_largest_number_is_the_largest_safe_integer() {
    let messages = long().messages;
    for name in [KEEP_VAR, THRESHOLD_VAR, MAX_CHARS_VAR, KEEP_TOKENS_VAR, WINDOW_VAR] {
        prune_with_both(&messages, &with(name, "9007199254740991"));
    }
    assert_eq!(settings(&all_numbers("9007199254740991")).keep_turns, (1 << 53) - 1);
}

#[test]
fn a_policy_is_a_word() {
    for (written, policy) in
        [("fold", PrunePolicy::Fold), ("Reference", PrunePolicy::Reference), ("both", PrunePolicy::Fold), ("", PrunePolicy::Fold)]
    {
        assert_eq!(settings(&with(POLICY_VAR, written)).policy, policy, "{written}");
    }
}
