//! What leaves the hot set, what does not, and what brings it back.

use ctxbridge::archive::cycle::Reason;
use ctxbridge::archive::store::{Store, Turns};
use ctxbridge::transcript::CompactSummary;

use super::place::{DAY, HOUR, NOW, Place};

/// A session that is long over, with six turns of so many days ago.
fn over(days: i64) -> Place {
    let mut place = Place::new();
    let turns: Vec<_> = (0..6).map(|content| (NOW - days * DAY, content)).collect();
    place.add("s", &turns);
    place
}

#[test]
fn by_confidence_after_130_hours_and_not_before() {
    let mut place = over(2);
    place.cycle(NOW);
    let before = place.cycle(NOW + 130 * HOUR - 60_000);
    assert_eq!((before.decayed, before.pruned_by_confidence, before.hot), (6, 0, 6));
    let at = place.cycle(NOW + 130 * HOUR);
    assert_eq!((at.pruned_by_confidence, at.pruned_by_age, at.hot, at.pruned), (3, 0, 3, 3));
    assert_eq!(place.pruned("s"), [0, 1, 2]);
    assert_eq!(place.candidates("s"), [3, 4, 5]);
    let key = place.key("s");
    assert_eq!(place.store.turns(key, Turns::All).unwrap().len(), 6, "they are still there");
}

#[test]
fn by_age_after_the_retention() {
    let mut place = over(29);
    assert_eq!(place.cycle(NOW).pruned_by_age, 0);
    assert_eq!(place.cycle(NOW + DAY).pruned_by_age, 0, "that is thirty days");
    let after = place.cycle(NOW + DAY + 1);
    assert_eq!((after.pruned_by_age, after.pruned_by_confidence), (3, 0));
    assert_eq!((after.plan.retention.days, after.plan.retention.reason), (30, Reason::AsSet));
}

#[test]
fn a_session_that_goes_on_is_left_alone() {
    let mut place = Place::new();
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

#[test]
fn what_another_session_still_has_stays() {
    let mut place = over(60);
    place.add("t", &[(NOW - HOUR, 1)]);
    place.cycle(NOW);
    assert_eq!(place.pruned("s"), [0, 2]);
}

#[test]
fn summaries_stay() {
    let mut place = Place::new();
    let text = "All that happened.".to_owned();
    let turns: Vec<_> = (0..6).map(|content| (NOW - 60 * DAY, content)).collect();
    place.add_with("s", &turns, vec![CompactSummary { text, at_ms: NOW - 60 * DAY, turns: 2, ..CompactSummary::default() }]);
    place.cycle(NOW);
    let outcome = place.cycle(NOW + 1_000 * HOUR);
    assert_eq!((outcome.hot, outcome.pruned), (4, 3));
    let key = place.key("s");
    assert_eq!(place.store.summaries(key).unwrap().len(), 1);
}

#[test]
fn restoring_brings_it_back_for_good() {
    let mut place = over(60);
    place.cycle(NOW);
    let entry = place.entry("s", 1);
    let changes = place.store.changes(None).unwrap();
    place.store.touch(&[entry], NOW).unwrap();
    let turn = place.turns("s").remove(1);
    assert_eq!((turn.is_pruned, turn.access_count, (turn.confidence * 1e9).round()), (false, 1, 0.13e9));
    assert_eq!(place.candidates("s"), [1, 3, 4, 5]);
    place.store.touch(&[entry], NOW).unwrap();
    let since = place.store.changes(Some(&changes.mark)).unwrap();
    assert_eq!((since.mark, since.entries), (changes.mark, Some(vec![])), "what it says is the same");
    let later = place.cycle(NOW + 10_000 * HOUR);
    assert_eq!((later.pruned_by_age, later.pruned_by_confidence), (0, 0));
    assert_eq!(place.pruned("s"), [0, 2]);
}

#[test]
fn saying_it_again_brings_it_back_until_that_is_old_as_well() {
    let mut place = over(60);
    place.cycle(NOW);
    assert_eq!(place.pruned("s"), [0, 1, 2]);
    place.add("t", &[(NOW, 1), (NOW, 10), (NOW, 11), (NOW, 12)]);
    assert_eq!(place.pruned("s"), [0, 2]);
    assert_eq!(place.candidates("s"), [1, 3, 4, 5], "in every session that has it");
    assert_eq!(place.candidates("t"), [1, 10, 11, 12]);
    place.cycle(NOW + 31 * DAY);
    assert_eq!(place.pruned("t"), [1]);
}

/// An id that is given away again is not as old as the entry that had it before.
#[test]
fn a_new_entry_is_new_whatever_its_id() {
    let mut place = over(1);
    place.cycle(NOW);
    place.cycle(NOW + 20 * HOUR);
    place.cycle(NOW + 40 * HOUR);
    let last = place.entry("s", 5);
    let db = place.raw();
    db.execute("DELETE FROM turns WHERE entry = ?1", [last]).unwrap();
    db.execute("DELETE FROM entries WHERE id = ?1", [last]).unwrap();
    drop(db);
    place.add("t", &[(NOW, 20)]);
    assert_eq!(place.entry("t", 20), last);
    assert_eq!(place.turns("t")[0].confidence, 0.8);
    assert!((place.turns("s")[0].confidence - 0.6).abs() < 1e-9);
}

/// What a cycle notes down is a line, and forgotten when nobody can tell the difference; to be pruned takes no room.
#[test]
fn the_database_does_not_grow_by_being_pruned() {
    const PAGE: u64 = 4096;
    let made = |optimises: bool| {
        let mut place = Place::new();
        place.add("s", &(0..5_000).map(|content| (NOW - 60 * DAY, content)).collect::<Vec<_>>());
        for hour in 1..300 {
            place.add("t", &[(NOW + hour * HOUR, 10_000 + hour as u32)]);
            if optimises {
                place.cycle(NOW + hour * HOUR);
            }
        }
        place
    };
    let (mut place, mut other) = (made(true), made(false));
    let (totals, others) = (place.store.totals().unwrap(), other.store.totals().unwrap());
    assert!(totals.pruned > 4_900 && others.pruned == 0, "{totals:?}");
    let rows: i64 = place.raw().query_row("SELECT count(*) FROM decays", [], |row| row.get(0)).unwrap();
    assert!(rows <= 141, "{rows} cycles are remembered");
    assert!(totals.bytes_stored <= others.bytes_stored + 3 * PAGE, "{totals:?} {others:?}");
}
