//! What comes back: within its budget, nothing twice, and nothing that reads as an instruction of the client.

use std::collections::HashSet;

use ctxbridge::archive::handle::turn_handle;
use ctxbridge::archive::instructions::instructions;
use ctxbridge::archive::quote::line;
use ctxbridge::archive::restore::{rank_by_importance, restore};
use ctxbridge::archive::store::TurnSelection;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::kinds::Kind;
use super::lines::{calls, says, user};
use super::{Place, session, turns};

on_every_store!(within_the_budget_and_no_turn_twice, ranked_by_importance_and_of_equal_ones_the_newer);

const NOW: i64 = 1_790_000_000_000;

fn conversation() -> impl Strategy<Value = Vec<Value>> {
    let text = prop_oneof![
        "\\PC{0,120}",
        ".{0,60}",
        Just("Größe 🦀 ".repeat(60)),
        Just("Again.".to_owned()),
        Just("/compact".to_owned())
    ];
    let line = (0..6_u32, 0..5_000_u32, text).prop_map(|(kind, number, text)| match kind {
        0..=2 => user(number, text),
        3 => says(number, &format!("{text} I decided to use the parser instead of a regular expression.")),
        4 => calls(number, "Edit", json!({ "file_path": format!("/work/p/{text}.rs") })),
        _ => calls(number, "TodoWrite", json!({ "todos": [{ "content": text, "status": "pending" }] })),
    });
    proptest::collection::vec(line, 0..40)
}

fn within_the_budget_and_no_turn_twice(kind: Kind) {
    proptest!(kind.cases(96), |(
        lines in conversation(), budget in prop_oneof![0..400_usize, 400..6_000_usize], why in "[a-z ]{0,20}"
    )| {
        let place = Place::new(kind);
        let mut store = place.open();
        place.archive(&mut *store, "s", &lines);
        let Some(session) = session(&mut *store, "s") else { return Ok(()) };
        let restored = restore(&mut *store, &session, &why, budget, NOW, &[], &HashSet::new()).unwrap();
        prop_assert!(restored.text.chars().count() <= budget, "{} of {budget}:\n{}", restored.text.chars().count(), restored.text);
        prop_assert_eq!(restored.text.is_empty(), restored.entries.is_empty());
        let different: HashSet<_> = restored.entries.iter().collect();
        prop_assert_eq!(different.len(), restored.entries.len());
        prop_assert_eq!(restored.text.lines().filter(|line| line.starts_with("- ctx:")).count(), restored.entries.len());
        let all = store.turns(session.key, TurnSelection::All).unwrap();
        for entry in &restored.entries {
            // Of turns with the same content any may be the one.
            prop_assert!(all.iter().any(|turn| turn.entry == *entry && restored.text.contains(&turn_handle(&turn.turn.id))));
        }
        if let (Some(newest), true) = (all.last(), budget > 1_000) {
            let said = newest.turn.content_chars > 0 && !restored.text.is_empty();
            prop_assert!(!said || !newest.turn.is_answered || newest.turn.tools.is_empty() || restored.entries.contains(&newest.entry));
        }
        let told = instructions(&mut *store, &session, budget).unwrap();
        prop_assert!(told.chars().count() <= budget, "{} of {budget}:\n{told}", told.chars().count());
        for text in [&restored.text, &told] {
            prop_assert!(!text.contains("</") && !text.chars().any(|c| c.is_control() && c != '\n'), "{text:?}");
        }
    });
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(96) })]
    #[test]
    fn a_quoted_line_has_no_tag(parts in proptest::collection::vec(prop_oneof![
        Just("<"), Just("/"), Just("system-reminder"), Just(">"), Just("\u{200b}"), Just("\u{202e}"), Just("\u{feff}"), Just("\u{e0041}"),
        Just("\u{0}"), Just("\u{7f}"), Just("\n"), Just("\u{2028}"), Just(" "), Just("é"),
    ], 0..12)) {
        let quoted = line(&parts.concat());
        prop_assert!(!quoted.contains("</") && !quoted.contains("<s") && !quoted.contains("<é"), "{quoted:?}");
        prop_assert_eq!(quoted.lines().count(), usize::from(!quoted.is_empty()));
        // What is quoted already stays as it is.
        prop_assert_eq!(line(&quoted), quoted);
    }
}

fn ranked_by_importance_and_of_equal_ones_the_newer(kind: Kind) {
    let place = Place::new(kind);
    let mut store = place.open();
    let edit = |number| calls(number, "Edit", json!({ "file_path": "/work/p/a.rs" }));
    let lines = [
        user(1, "Plain."),
        user(2, "Work."),
        edit(3),
        user(4, "Plain too."),
        user(5, "Used."),
        user(6, "Tool."),
        calls(7, "Bash", json!({})),
    ];
    place.archive(&mut *store, "s", &lines);
    let used = turns(&mut *store, "s")[3].entry;
    store.touch(&[used, used, used], NOW).unwrap();
    let order = rank_by_importance(turns(&mut *store, "s"), turns(&mut *store, "s")[4].turn.ended_ms);
    assert_eq!(order.iter().map(|turn| turn.turn.index).collect::<Vec<_>>(), [3, 1, 4, 2, 0]);
    // In the future all are as old as each other.
    let order = rank_by_importance(turns(&mut *store, "s"), 0);
    assert_eq!(order.iter().map(|turn| turn.turn.index).collect::<Vec<_>>(), [3, 1, 4, 2, 0]);
}
