//! What leaves the hot set, what does not, and what brings it back.

use ctxbridge::archive::maintain::run_maintenance;
use ctxbridge::archive::maintenance::{MaintenanceMode, Reason};
use ctxbridge::archive::store::TurnSelection;
use ctxbridge::transcript::CompactSummary;

use super::kinds::Kind;
use super::place::{DAY, HOUR, NOW, Place, usual};

on_every_store!(
    by_confidence_after_130_hours_and_not_before,
    by_age_after_the_retention,
    a_session_that_goes_on_is_left_alone,
    what_another_session_still_has_stays,
    summaries_stay,
    restoring_brings_it_back_for_good,
    saying_it_again_brings_it_back_until_that_is_old_as_well,
    two_at_once,
);

/// A session that is long over, with six turns of so many days ago.
pub fn over(kind: Kind, days: i64) -> Place {
    let mut place = Place::new(kind);
    let turns: Vec<_> = (0..6).map(|content| (NOW - days * DAY, content)).collect();
    place.add("s", &turns);
    place
}

fn by_confidence_after_130_hours_and_not_before(kind: Kind) {
    let mut place = over(kind, 2);
    place.cycle(NOW);
    let before = place.cycle(NOW + 130 * HOUR - 60_000);
    assert_eq!((before.decayed, before.pruned_by_confidence, before.hot), (6, 0, 6));
    let at = place.cycle(NOW + 130 * HOUR);
    assert_eq!((at.pruned_by_confidence, at.pruned_by_age, at.hot, at.pruned), (3, 0, 3, 3));
    assert_eq!(place.pruned("s"), [0, 1, 2]);
    assert_eq!(place.candidates("s"), [3, 4, 5]);
    let key = place.key("s");
    assert_eq!(place.store.turns(key, TurnSelection::All).unwrap().len(), 6, "they are still there");
}

fn by_age_after_the_retention(kind: Kind) {
    let mut place = over(kind, 29);
    assert_eq!(place.cycle(NOW).pruned_by_age, 0);
    assert_eq!(place.cycle(NOW + DAY).pruned_by_age, 0, "that is thirty days");
    let after = place.cycle(NOW + DAY + 1);
    assert_eq!((after.pruned_by_age, after.pruned_by_confidence), (3, 0));
    assert_eq!((after.plan.retention.days, after.plan.retention.reason), (30, Reason::AsSet));
}

fn a_session_that_goes_on_is_left_alone(kind: Kind) {
    let mut place = Place::new(kind);
    let old = NOW - 100 * DAY;
    let turns = [(old, 0), (old, 1), (old, 2), (old, 3), (NOW - 23 * HOUR, 4)];
    for session in ["goes on", "ended", "ended and resumed"] {
        let number = session.len() as u32 * 10;
        place.add(session, &turns.map(|(at, content)| (at, number + content)));
    }
    place.store.end_session("ended", "other", NOW - 22 * HOUR).unwrap();
    place.store.end_session("ended and resumed", "other", NOW - 24 * HOUR).unwrap();
    place.cycle(NOW);
    assert_eq!(place.pruned("goes on"), [0; 0]);
    assert_eq!(place.pruned("ended"), [50, 51]);
    assert_eq!(place.pruned("ended and resumed"), [0; 0]);
    place.cycle(NOW + 2 * HOUR);
    assert_eq!(place.pruned("goes on"), [70, 71]);
}

fn what_another_session_still_has_stays(kind: Kind) {
    let mut place = over(kind, 60);
    place.add("t", &[(NOW - HOUR, 1)]);
    place.cycle(NOW);
    assert_eq!(place.pruned("s"), [0, 2]);
}

fn summaries_stay(kind: Kind) {
    let mut place = Place::new(kind);
    let text = "All that happened.".to_owned();
    let turns: Vec<_> = (0..6).map(|content| (NOW - 60 * DAY, content)).collect();
    place.add_with("s", &turns, vec![CompactSummary { text, at_ms: NOW - 60 * DAY, turns: 2, ..CompactSummary::default() }]);
    place.cycle(NOW);
    let outcome = place.cycle(NOW + 1_000 * HOUR);
    assert_eq!((outcome.hot, outcome.pruned), (4, 3));
    let key = place.key("s");
    assert_eq!(place.store.summaries(key).unwrap().len(), 1);
}

fn restoring_brings_it_back_for_good(kind: Kind) {
    let mut place = over(kind, 60);
    place.cycle(NOW);
    let entry = place.entry("s", 1);
    let changes = place.store.changes(None).unwrap();
    place.store.touch(&[entry], NOW).unwrap();
    let turn = place.turns("s").remove(1);
    assert_eq!((turn.is_pruned, turn.access_count, (turn.confidence * 1e9).round()), (false, 1, 0.13e9));
    assert_eq!(place.candidates("s"), [1, 3, 4, 5]);
    place.store.touch(&[entry], NOW).unwrap();
    let since = place.store.changes(Some(&changes.revision)).unwrap();
    assert_eq!((since.revision, since.entries), (changes.revision, Some(vec![])), "what it says is the same");
    let later = place.cycle(NOW + 10_000 * HOUR);
    assert_eq!((later.pruned_by_age, later.pruned_by_confidence), (0, 0));
    assert_eq!(place.pruned("s"), [0, 2]);
}

fn saying_it_again_brings_it_back_until_that_is_old_as_well(kind: Kind) {
    let mut place = over(kind, 60);
    place.cycle(NOW);
    assert_eq!(place.pruned("s"), [0, 1, 2]);
    place.add("t", &[(NOW, 1), (NOW, 10), (NOW, 11), (NOW, 12)]);
    assert_eq!(place.pruned("s"), [0, 2]);
    assert_eq!(place.candidates("s"), [1, 3, 4, 5], "in every session that has it");
    assert_eq!(place.candidates("t"), [1, 10, 11, 12]);
    place.cycle(NOW + 31 * DAY);
    assert_eq!(place.pruned("t"), [1]);
}

/// Two at once: the time is counted once.
fn two_at_once(kind: Kind) {
    let mut place = Place::new(kind);
    place.add("s", &(0..200).map(|content| (NOW - DAY, content)).collect::<Vec<_>>());
    place.cycle(NOW);
    let data = place.data.path().to_owned();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut store = kind.open(&data);
                run_maintenance(&mut *store, &usual(), MaintenanceMode::Apply, NOW + 10 * HOUR).unwrap();
            });
        }
    });
    assert!((place.turns("s")[0].confidence - 0.75).abs() < 1e-9);
}
