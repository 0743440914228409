//! What is known of entries when the archive is merged into a database that knows some of them.

use ctxbridge::archive::ingest::NO_FOLLOW_UP;
use ctxbridge::archive::merge::merge;
use ctxbridge::archive::open::Location;
use ctxbridge::archive::store::sqlite::{LockPolicy, SqliteStore};
use ctxbridge::archive::store::{
    ImportedUsage, PinWriter, SessionReader, Store, StoredTurn, TranscriptAppender, TurnSelection, UsageWriter,
};

use super::lines::{says, user};
use super::place::{HOUR, NOW, Place};

fn turns(store: &mut dyn Store) -> Vec<StoredTurn> {
    let key = store.session("s").unwrap().unwrap().key;
    store.turns(key, TurnSelection::All).unwrap()
}

fn trusted(entry: i64, confidence: f64) -> ImportedUsage {
    ImportedUsage { entry, access_count: 0, accessed_ms: None, confidence, is_new: true }
}

#[test]
fn uses_are_added_and_trust_is_taken_over() {
    let place = Place::new();
    let lines: Vec<_> = (0..4).flat_map(|turn| [user(2 * turn, format!("Ask {turn}.")), says(2 * turn + 1, "So.")]).collect();
    let mut database = SqliteStore::open(place.root(), LockPolicy::Background).unwrap();
    place.archive(&mut database, "s", &lines[..6]);
    let before = turns(&mut database);
    database.touch(&[before[0].entry], NOW).unwrap();
    database.merge_usage(&[trusted(before[2].entry, 0.5)]).unwrap();

    let mut store = place.open();
    place.archive(&mut store, "s", &lines);
    let here = turns(&mut store);
    store.touch(&[here[0].entry], NOW + HOUR).unwrap();
    store.touch(&[here[0].entry, here[1].entry], NOW + 2 * HOUR).unwrap();
    store.merge_usage(&[trusted(here[2].entry, 0.3), trusted(here[3].entry, 0.4)]).unwrap();
    store.set_pinned(&here[3].turn.id, true, NOW).unwrap();
    let expected = turns(&mut store);
    drop(store);

    let location = Location::database(place.root());
    let merged = merge(&location, None, NOW + 3 * HOUR, NO_FOLLOW_UP).unwrap().unwrap();
    assert_eq!((merged.sessions, merged.turns), (1, 2), "one is new, and the one before it was open");
    assert_eq!(turns(&mut database).len(), 4);
    let after = turns(&mut database);
    let counts = |turns: &[StoredTurn]| turns.iter().map(|turn| turn.access_count).collect::<Vec<_>>();
    assert_eq!((counts(&expected), counts(&after)), (vec![2, 1, 0, 0], vec![3, 1, 0, 0]));
    let trust = |turn: &StoredTurn| (turn.confidence * 100.0).round();
    assert_eq!(trust(&after[1]), trust(&expected[1]));
    assert_eq!((trust(&after[2]), trust(&after[3])), (50.0, 40.0), "what is known is not lowered");
    assert_eq!(after.iter().map(|turn| turn.is_pinned).collect::<Vec<_>>(), [false, false, false, true]);
    assert!(merged.moved_to.unwrap().exists() && merge(&location, None, NOW, NO_FOLLOW_UP).unwrap().is_none());
}

/// Whoever had the folder open goes on: in a new one, which is merged as well.
#[test]
fn who_has_it_open_loses_nothing() {
    let place = Place::new();
    let lines = [user(1, "First."), says(2, "So."), user(3, "Then."), says(4, "So.")];
    let mut store = place.open();
    place.archive(&mut store, "s", &lines[..2]);
    let location = Location::database(place.root());
    assert!(merge(&location, None, NOW, NO_FOLLOW_UP).unwrap().unwrap().moved_to.is_some());
    place.archive(&mut store, "s", &lines);
    store.end_session("s", "clear", NOW).unwrap();
    drop(store);
    assert!(merge(&location, None, NOW, NO_FOLLOW_UP).unwrap().unwrap().moved_to.is_some());
    let mut database = SqliteStore::open(place.root(), LockPolicy::Background).unwrap();
    assert_eq!(turns(&mut database).len(), 2);
    let session = database.session("s").unwrap().unwrap();
    assert_eq!(session.end_reason.as_deref(), Some("clear"));
    assert_eq!(database.session_stats(session.key).unwrap().rewritten, 0);
}
