//! Where old begins, and when that moves.

use ctxbridge::prune::{Boundary, BoundaryTracker, KEEP_VAR, PruneSettings, STEP_VAR, Step, TAIL_VAR, THRESHOLD_VAR};
use serde_json::{Value, json};

use crate::prune::messages::{assistant, user};
use crate::prune::prune_with_both;
use crate::prune::variables::{Environment, small, with};

/// A message of that many tokens.
fn of(tokens: usize) -> String {
    "x".repeat(tokens * 7 / 2)
}

/// The boundary after each message; the JavaScript shows the same by what it cuts.
fn boundaries(messages: &[Value], environment: &Environment) -> Vec<Boundary> {
    let settings = PruneSettings::from_env(|name| environment.get(name).cloned());
    let mut boundaries = BoundaryTracker::new(&settings);
    let all = messages.iter().enumerate().map(|(index, message)| {
        boundaries.push(message);
        prune_with_both(&messages[..=index], environment);
        boundaries.now()
    });
    all.collect()
}

fn tools(boundaries: &[Boundary]) -> Vec<usize> {
    boundaries.iter().map(|boundary| boundary.tools).collect()
}

#[test]
fn it_moves_when_a_step_has_left_the_tail_behind() {
    let messages = vec![assistant(of(100)); 10];
    let mut environment = with(STEP_VAR, "300");
    assert_eq!(tools(&boundaries(&messages, &environment)), [0, 0, 3, 3, 3, 6, 6, 6, 9, 9]);
    environment.insert(TAIL_VAR, "200".into());
    assert_eq!(tools(&boundaries(&messages, &environment)), [0, 0, 0, 0, 3, 3, 3, 6, 6, 6]);
    environment.insert(TAIL_VAR, "201".into());
    assert_eq!(tools(&boundaries(&messages, &environment)), [0, 0, 0, 0, 0, 3, 3, 3, 6, 6]);
    environment.insert(THRESHOLD_VAR, "800".into());
    assert_eq!(tools(&boundaries(&messages, &environment)), [0, 0, 0, 0, 0, 0, 0, 3, 6, 6]);
}

#[test]
fn a_message_of_several_steps_is_one() {
    let messages = [assistant(of(1_000)), assistant(of(100)), assistant(of(100))];
    assert_eq!(tools(&boundaries(&messages, &with(STEP_VAR, "300"))), [1, 1, 3]);
}

#[test]
fn text_of_the_newest_turns_is_kept() {
    let turn = || [user(of(50)), assistant(of(50))];
    let messages: Vec<Value> = (0..5).flat_map(|_| turn()).collect();
    let found = boundaries(&messages, &with(STEP_VAR, "100"));
    let text: Vec<usize> = found.iter().map(|boundary| boundary.text).collect();
    assert_eq!(tools(&found), [0, 2, 2, 4, 4, 6, 6, 8, 8, 10]);
    // Two turns stay, and none is old before there are three.
    assert_eq!(text, [0, 0, 0, 0, 0, 2, 2, 4, 4, 6]);
    let mut all = with(STEP_VAR, "100");
    all.insert(KEEP_VAR, "9".into());
    assert!(boundaries(&messages, &all).iter().all(|boundary| boundary.text == 0));
}

/// A prompt that comes later does not move the text's boundary: that would be another change of the prefix in the same step.
#[test]
fn a_new_turn_alone_moves_nothing() {
    let prompts = vec![user(of(10)); 12];
    let found = boundaries(&prompts, &with(STEP_VAR, "50"));
    let text: Vec<usize> = found.iter().map(|boundary| boundary.text).collect();
    assert_eq!(text, [0, 0, 0, 0, 3, 3, 3, 3, 3, 8, 8, 8]);
}

#[test]
fn a_step_can_be_of_turns() {
    let turn = || [user("go on"), assistant(of(50)), user(json!([{"type": "tool_result", "content": of(50)}]))];
    let messages: Vec<Value> = (0..6).flat_map(|_| turn()).collect();
    let environment = with(STEP_VAR, "2turns");
    assert_eq!(PruneSettings::from_env(|name| environment.get(name).cloned()).step, Step::Turns(2));
    assert_eq!(tools(&boundaries(&messages, &environment)), [0, 0, 0, 0, 0, 0, 6, 6, 6, 6, 6, 6, 12, 12, 12, 12, 12, 12]);
    let mut with_tail = environment;
    with_tail.insert(TAIL_VAR, "60".into());
    let found = tools(&boundaries(&messages, &with_tail));
    assert_eq!(found[..10], [0, 0, 0, 0, 0, 0, 0, 0, 6, 6]);
}

#[test]
fn nothing_is_old_in_nothing() {
    assert_eq!(boundaries(&[], &small()), []);
    assert_eq!(tools(&boundaries(&[json!(null), user(""), json!({"type": "system"})], &small())), [0, 0, 0]);
}
