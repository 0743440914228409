//! The variables that set the policy, in both languages.

use std::collections::BTreeMap;
use std::ops::Range;

use ctxbridge::prune::{KEEP_VAR, MARKER, MAX_CHARS_VAR, SWITCH_VAR, Settings, THRESHOLD_VAR};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use crate::messages::{before_prompts, user};
use crate::{assert_untouched, is_input, prune_with_both, settings};

/// Environment variables by name.
pub type Environment = BTreeMap<&'static str, String>;

/// Two kept turns, no threshold, 10 characters.
pub fn small() -> Environment {
    [(KEEP_VAR, "2"), (THRESHOLD_VAR, "0"), (MAX_CHARS_VAR, "10")].map(|(name, value)| (name, value.to_owned())).into()
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
    let switch = prop_oneof![select(vec!["0", "false", "off", "no", "OFF", "1", "true", "", "00"])];
    let keep = number(1..4);
    let threshold = prop_oneof![8 => number(0..2_000), 1 => number(0..30_000)];
    let max_chars = number(0..100);
    (
        option::weighted(0.1, switch.prop_map(str::to_owned)),
        option::weighted(0.9, keep),
        option::weighted(0.95, threshold),
        option::weighted(0.8, max_chars),
    )
        .prop_map(|(switch, keep, threshold, max_chars)| {
            let variables = [(SWITCH_VAR, switch), (KEEP_VAR, keep), (THRESHOLD_VAR, threshold), (MAX_CHARS_VAR, max_chars)];
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
    "x".repeat(120)
}

/// Every number set to the same value.
fn all_numbers(value: &str) -> Environment {
    [KEEP_VAR, THRESHOLD_VAR, MAX_CHARS_VAR].map(|name| (name, value.to_owned())).into()
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

#[test]
fn what_is_no_number_counts_as_unset() {
    for odd in ODD_NUMBERS.into_iter().chain(TOO_LARGE) {
        assert_eq!(settings(&all_numbers(odd)), Settings::default(), "{odd:?}");

        let odd_keep = with(KEEP_VAR, odd);
        assert_untouched(&before_prompts(user(long()), 3), &odd_keep);
        assert!(!is_input(&prune_with_both(&before_prompts(user(long()), 4), &odd_keep)));

        let odd_threshold = with(THRESHOLD_VAR, odd);
        assert_untouched(&before_prompts(user(long()), 2), &odd_threshold);

        let messages = before_prompts(user(long()), 2);
        let pruned = prune_with_both(&messages, &with(MAX_CHARS_VAR, odd));
        assert_eq!(pruned.cuts[0].kept_chars, 80);
    }
}

#[test]
fn zero_is_in_range_except_for_turns() {
    let expected = Settings { threshold_tokens: 0, max_chars: 0, ..Settings::default() };
    assert_eq!(settings(&all_numbers("000")), expected);
    let messages = before_prompts(user(long()), 4);
    assert_eq!(prune_with_both(&messages, &all_numbers("000")).messages[0], user(MARKER));
    assert_untouched(&messages[1..], &all_numbers("000"));
}

#[test]
fn the_largest_number_is_the_largest_safe_integer() {
    let messages = before_prompts(user(long()), 2);
    for name in [KEEP_VAR, THRESHOLD_VAR, MAX_CHARS_VAR] {
        assert_untouched(&messages, &with(name, "9007199254740991"));
    }
    assert_eq!(settings(&all_numbers("9007199254740991")).keep_turns, (1 << 53) - 1);
}

#[test]
fn the_defaults_are_four_turns_20000_tokens_80_characters() {
    let unset = Environment::new();
    let expected = Settings { enabled: true, keep_turns: 4, threshold_tokens: 20_000, max_chars: 80 };
    assert_eq!(settings(&unset), expected);
    // 70,000 chars are 20,000 tokens. The four newer turns have a few of them.
    let old_turn = |length: usize| before_prompts(user("x".repeat(length)), 4);
    let enough = 70_000 - 4 * "go on".len();
    let messages = old_turn(enough);
    let pruned = prune_with_both(&messages, &unset);
    assert_eq!(pruned.messages[0], user("x".repeat(80) + MARKER));
    assert_untouched(&old_turn(enough - 4), &unset);
    assert_untouched(&old_turn(2 * enough)[..4], &unset);
}
