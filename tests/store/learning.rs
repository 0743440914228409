//! Confidence and access: the figures of the design.

use ctxbridge::archive::maintain::run_maintenance;
use ctxbridge::archive::maintenance::{MaintenanceMode, RetentionSettings};
use ctxbridge::archive::store::Store;
use ctxbridge::config;

use super::kinds::Kind;
use super::lines::{says, user};
use super::{Place, turns};

on_every_store!(
    what_is_restored_is_trusted_more_up_to_one,
    confidence_falls_by_the_hour_and_not_by_the_run,
    a_clock_that_goes_back_takes_nothing_away,
    a_turn_that_grows_keeps_what_was_learned,
);

const HOUR: i64 = 3_600_000;
const NOW: i64 = 1_780_000_000_000;

fn place(kind: Kind, prompts: u32) -> (Place, Box<dyn Store>) {
    let place = Place::new(kind);
    let mut store = place.open();
    let lines: Vec<_> = (0..prompts).flat_map(|n| [user(n * 2, format!("Prompt {n}.")), says(n * 2 + 1, "Yes.")]).collect();
    place.archive(&mut *store, "s", &lines);
    (place, store)
}

fn confidence(store: &mut dyn Store) -> Vec<f64> {
    turns(store, "s").iter().map(|turn| (turn.confidence * 1e9).round() / 1e9).collect()
}

/// A cycle with the settings that nobody changed.
fn optimize(store: &mut dyn Store, now_ms: i64) {
    run_maintenance(store, &RetentionSettings::from(&config::ArchiveSettings::default()), MaintenanceMode::Apply, now_ms)
        .unwrap();
}

fn what_is_restored_is_trusted_more_up_to_one(kind: Kind) {
    let (_place, mut store) = place(kind, 3);
    let entries: Vec<i64> = turns(&mut *store, "s").iter().map(|turn| turn.entry).collect();
    assert_eq!(confidence(&mut *store), [0.8, 0.8, 0.8]);
    store.touch(&entries[1..2], NOW).unwrap();
    assert_eq!(confidence(&mut *store), [0.8, 0.83, 0.8]);
    (0..9).for_each(|_| store.touch(&entries[1..], NOW).unwrap());
    assert_eq!(confidence(&mut *store), [0.8, 1.0, 1.0]);
    assert_eq!(turns(&mut *store, "s").iter().map(|turn| turn.access_count).collect::<Vec<_>>(), [0, 10, 9]);
    store.touch(&[], NOW).unwrap();
    store.touch(&[987_654], NOW).unwrap();
}

fn confidence_falls_by_the_hour_and_not_by_the_run(kind: Kind) {
    let (_place, mut store) = place(kind, 2);
    let first = turns(&mut *store, "s")[0].entry;
    store.touch(&[first], NOW).unwrap();
    optimize(&mut *store, NOW);
    assert_eq!(confidence(&mut *store), [0.83, 0.8], "the first time only sets the clock");
    optimize(&mut *store, NOW + 10 * HOUR);
    assert_eq!(confidence(&mut *store), [0.78, 0.75]);
    (0..5).for_each(|_| optimize(&mut *store, NOW + 10 * HOUR));
    assert_eq!(confidence(&mut *store), [0.78, 0.75], "no time has passed");
    (1..=60).for_each(|minute| optimize(&mut *store, NOW + 10 * HOUR + minute * 60_000));
    assert_eq!(confidence(&mut *store), [0.775, 0.745], "an hour in sixty runs");
    optimize(&mut *store, NOW + 100 * HOUR);
    assert_eq!(confidence(&mut *store), [0.33, 0.3]);
    optimize(&mut *store, NOW + 10_000 * HOUR);
    assert_eq!(confidence(&mut *store), [0.1, 0.1], "never below");
    store.touch(&[first], NOW).unwrap();
    assert_eq!(confidence(&mut *store), [0.13, 0.1]);
}

fn a_clock_that_goes_back_takes_nothing_away(kind: Kind) {
    let (_place, mut store) = place(kind, 1);
    optimize(&mut *store, NOW);
    optimize(&mut *store, NOW - 1_000 * HOUR);
    assert_eq!(confidence(&mut *store), [0.8]);
    optimize(&mut *store, NOW - 990 * HOUR);
    assert_eq!(confidence(&mut *store), [0.75], "and counts from there");
    optimize(&mut *store, i64::MIN);
    optimize(&mut *store, i64::MAX);
    assert_eq!(confidence(&mut *store), [0.1]);
}

fn a_turn_that_grows_keeps_what_was_learned(kind: Kind) {
    let (place, mut store) = place(kind, 1);
    let stored = turns(&mut *store, "s").remove(0);
    store.touch(&[stored.entry], NOW).unwrap();
    place.archive(&mut *store, "s", &[user(0, "Prompt 0."), says(1, "Yes."), says(2, "And more.")]);
    let grown = turns(&mut *store, "s").remove(0);
    assert_eq!((grown.entry, grown.access_count, confidence(&mut *store)), (stored.entry, 1, vec![0.83]));
    assert_ne!(grown.turn.content_sha256, stored.turn.content_sha256);
    // Unless another turn has the same content: that one has not grown.
    place.archive(&mut *store, "t", &[user(0, "Prompt 0."), says(1, "Yes."), says(2, "And more.")]);
    place.archive(&mut *store, "t", &[user(0, "Prompt 0."), says(1, "Yes."), says(2, "And more."), says(3, "Still more.")]);
    let [s, t] = ["s", "t"].map(|id| turns(&mut *store, id).remove(0));
    assert_eq!((s.entry, s.access_count, t.access_count), (grown.entry, 1, 0));
    place.check_sound();
}
