//! Where compactions were, what had been said before them, and finding them by that.

use ctxbridge::archive::project::ProjectScope;
use ctxbridge::archive::snapshot;
use ctxbridge::archive::store::{Compaction, Snapshot, Store, StoredCompaction};
use ctxbridge::transcript::{CompactSummary, FirstContext};

use super::kinds::Kind;
use super::lines::{boundary, compact_summary, says, user};
use super::{Place, session};

on_every_store!(
    each_has_its_place_and_its_sizes,
    a_snapshot_is_found_by_its_words,
    a_pass_takes_what_is_missing,
    what_hooks_announce_is_what_happens,
    places_are_lost_and_found_again,
);

const NOW: i64 = 1_780_000_000_000;

fn conversation() -> Vec<serde_json::Value> {
    vec![
        user(1, "Why does the venue calendar book twice?"),
        says(2, "It has no index."),
        boundary(3),
        compact_summary(4, "The calendar was mended."),
        user(5, "Now the telescope drifts."),
        says(6, "Its encoder counts backwards."),
        boundary(7),
        compact_summary(8, "The telescope was mended."),
        user(9, "And now?"),
    ]
}

fn compactions(store: &mut dyn Store) -> Vec<StoredCompaction> {
    let key = session(store, "s").map(|session| session.key);
    store.compactions(key, i64::MIN).unwrap()
}

fn each_has_its_place_and_its_sizes(kind: Kind) {
    let place = Place::new(kind);
    let mut store = place.open();
    place.archive(&mut *store, "s", &conversation());
    place.archive(&mut *store, "other", &[user(1, "Hm."), boundary(2), compact_summary(3, "Nothing.")]);
    let found = compactions(&mut *store);
    assert_eq!(found.len(), 2);
    let bytes = super::text(&conversation());
    let starts: Vec<u64> =
        bytes.match_indices("compact_boundary").map(|(at, _)| bytes[..at].rfind('\n').unwrap() as u64 + 1).collect();
    let key = session(&mut *store, "s").unwrap().key;
    let key = store.transcripts(key).unwrap()[0].key;
    for (compaction, (start, turns)) in found.iter().zip(starts.iter().zip([1, 2])) {
        assert_eq!((compaction.location, compaction.turns), (Some((key, *start)), turns));
        assert_eq!((compaction.session.as_str(), compaction.cause.as_deref()), ("s", Some("auto")));
        assert!(compaction.is_done && !compaction.is_blocked && compaction.summary.is_some());
        assert_eq!((compaction.snapshot.as_ref(), compaction.took_ms, compaction.learnings), (None, None, 0));
    }
    assert_eq!((found[0].context_tokens, found[0].context_after), (Some(30_210), Some(30_210)), "as the answers counted");
    assert_eq!(found[1].context_after, None, "nobody answered yet");
    assert_eq!(store.compactions(None, i64::MIN).unwrap().len(), 3);
    let times: Vec<i64> = store.compactions(None, i64::MIN).unwrap().iter().map(|one| one.at_ms).collect();
    assert!(times.is_sorted());
    assert_eq!(store.compactions(None, times[2]).unwrap().len(), 1, "not before");
    assert_eq!(store.totals().unwrap().compactions, 3);
    // The same told once more is the same, as `archive optimize` does it for archives of earlier versions.
    let met = CompactSummary {
        text: "The calendar was mended.".to_owned(),
        turns: 1,
        start: Some(starts[0]),
        ..CompactSummary::default()
    };
    store.locate_compactions(key, &[met], &[FirstContext { start: starts[1], tokens: 777 }]).unwrap();
    let again = compactions(&mut *store);
    assert_eq!((again.len(), &again[0], again[1].context_after), (2, &found[0], Some(777)));
    place.check_sound();
}

fn a_snapshot_is_found_by_its_words(kind: Kind) {
    let place = Place::new(kind);
    let mut store = place.open();
    place.archive(&mut *store, "s", &conversation());
    let found = compactions(&mut *store);
    let snapshot = |first: &str, last: &str, topics: &[&str]| Snapshot {
        messages: 2,
        first: first.to_owned(),
        last: last.to_owned(),
        topics: topics.iter().map(|topic| (*topic).to_owned()).collect(),
    };
    let calendar = snapshot("Why does the venue calendar book twice?", "It has no index.", &["calendar", "venue"]);
    let telescope = snapshot("Now the telescope drifts.", "Its \"encoder\" counts\u{0}.", &["telescope mount"]);
    store.save_snapshot(found[0].key, &calendar).unwrap();
    store.save_snapshot(found[1].key, &Snapshot::default()).unwrap();
    store.save_snapshot(found[1].key, &telescope).unwrap();
    let kept: Vec<_> = compactions(&mut *store).into_iter().map(|one| one.snapshot.unwrap()).collect();
    assert_eq!(kept, [calendar, telescope]);
    for store in [&mut *store, &mut *place.open()] {
        for (words, project, expected) in [
            ("calendar", None, vec![0]),
            ("telescop", Some("/work/p"), vec![1]),
            ("telescop", Some("/work/q"), vec![]),
            ("encod", None, vec![1]),
            ("index", Some("/work"), vec![0]),
            ("calendar OR telescop", None, vec![0, 1]),
            ("calendar telescop", None, vec![]),
            ("submarin", None, vec![]),
        ] {
            let scope = project.map(ProjectScope::at);
            let found_now = store.search_compactions(words, scope.as_ref(), 9).unwrap();
            let mut keys: Vec<i64> = found_now.iter().map(|one| one.key).collect();
            keys.sort_unstable();
            let expected: Vec<i64> = expected.into_iter().map(|at: usize| found[at].key).collect();
            assert_eq!(keys, expected, "{words} {project:?}");
        }
        assert_eq!(store.search_compactions("calendar OR telescop", None, 1).unwrap().len(), 1);
    }
}

fn a_pass_takes_what_is_missing(kind: Kind) {
    let place = Place::new(kind);
    let mut store = place.open();
    place.archive(&mut *store, "s", &conversation());
    let of = session(&mut *store, "s").unwrap();
    assert_eq!(snapshot::take_snapshots(&mut *store, &of, None).unwrap().snapshots, 2);
    assert_eq!(snapshot::take_snapshots(&mut *store, &of, None).unwrap().snapshots, 0);
    let taken: Vec<_> = compactions(&mut *place.open()).into_iter().map(|one| one.snapshot.unwrap()).collect();
    assert_eq!(taken.iter().map(|one| one.messages).collect::<Vec<_>>(), [2, 2], "since the one before");
    assert_eq!(
        (taken[0].first.as_str(), taken[1].last.as_str()),
        ("Why does the venue calendar book twice?", "Its encoder counts backwards.")
    );
}

fn what_hooks_announce_is_what_happens(kind: Kind) {
    let place = Place::new(kind);
    let mut store = place.open();
    // Before there is anything else of it.
    let announced =
        Compaction { at_ms: NOW, cause: Some("manual".to_owned()), context_tokens: Some(150_000), is_blocked: true, turns: None };
    store.record_compaction("s", &announced).unwrap();
    assert_eq!(session(&mut *store, "s"), None, "nothing is archived of it");
    place.archive(&mut *store, "s", &[user(1, "Go."), says(2, "Gone.")]);
    store.record_compaction("s", &Compaction { at_ms: NOW + 1, is_blocked: false, ..announced }).unwrap();
    store.add_summary("s", "<summary>It went.</summary>", NOW + 9_001).unwrap();
    let found = compactions(&mut *store);
    let [blocked, done] = &found[..] else { panic!("{found:?}") };
    assert_eq!((blocked.is_blocked, blocked.is_done, blocked.turns, blocked.at_ms), (true, false, 0, NOW));
    assert_eq!((done.is_blocked, done.is_done, done.turns, done.took_ms), (false, true, 1, Some(9_000)));
    assert_eq!((done.context_tokens, done.cause.as_deref(), done.location), (Some(150_000), Some("manual"), None));
    store.end_session("s", "clear", NOW + 10_000).unwrap();
    let ended = session(&mut *store, "s").unwrap();
    assert_eq!(ended.end_reason.as_deref(), Some("clear"));
    assert_eq!(store.session("s").unwrap(), Some(ended));
    assert_eq!(store.session("nobody").unwrap(), None);
}

fn places_are_lost_and_found_again(kind: Kind) {
    let place = Place::new(kind);
    let mut store = place.open();
    place.archive(&mut *store, "s", &conversation());
    let before = compactions(&mut *store);
    let mut other = conversation();
    other[0] = user(1, "Something else.");
    place.archive(&mut *store, "s", &other[..6]);
    let after = compactions(&mut *store);
    assert_eq!(after.len(), 2);
    assert!(after[0].location.is_some() && after[1].location.is_none(), "the rewritten one has only the first: {after:?}");
    assert_eq!(after[1].summary, before[1].summary, "what it said is known all the same");
    place.check_sound();
}
