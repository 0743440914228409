//! Compactions: announced by one hook, told by another, and found in the transcript.

use ctxbridge::archive::store::{Compaction, Store};

use super::kinds::{self, Kind};
use super::lines::{boundary, compact_summary, says, user};
use super::{Place, session};

on_every_store!(
    the_same_summary_in_other_wrapping_is_one,
    the_transcript_may_be_first,
    two_compactions_of_the_same_words_are_two,
    a_summary_without_words_is_none,
);

const NOW: i64 = 1_780_000_000_000;

fn told(store: &mut dyn Store) -> Vec<(String, u32)> {
    let key = session(store, "s").unwrap().key;
    store.summaries(key).unwrap().into_iter().map(|summary| (summary.text, summary.turns)).collect()
}

fn announce(store: &mut dyn Store, is_blocked: bool) {
    let compaction =
        Compaction { at_ms: NOW, cause: Some("auto".to_owned()), context_tokens: Some(167_000), is_blocked, turns: None };
    store.record_compaction("s", &compaction).unwrap();
}

fn rows(store: &mut dyn Store) -> usize {
    store.compactions(None, i64::MIN).unwrap().len()
}

fn the_same_summary_in_other_wrapping_is_one(kind: Kind) {
    let place = Place::new(kind);
    let mut store = place.open();
    let lines = [user(1, "Go."), says(2, "Gone.")];
    place.archive(&mut *store, "s", &lines);
    announce(&mut *store, false);
    assert_eq!(store.totals().unwrap().compactions, 0, "announced is not done");
    // PostCompact hands over the model's answer as it came.
    store.add_summary("s", "<analysis>Hm.</analysis>\n<summary>\nAll is well.\n</summary>", NOW + 1).unwrap();
    store.add_summary("s", "<summary>All is well.</summary>", NOW + 2).unwrap();
    store.add_summary("s", "All is well.", NOW + 3).unwrap();
    assert_eq!(told(&mut *store), [("All is well.".to_owned(), 1)]);
    assert_eq!((rows(&mut *store), store.totals().unwrap().compactions), (1, 1));
    if kind == Kind::Sqlite {
        assert_eq!(kinds::value::<f64>(place.data.path(), "SELECT confidence FROM entries WHERE text IS NOT NULL"), 1.0);
    }
    // The transcript has it later, with a sentence before it.
    let whole = "This session is being continued from a previous one.\n\nAll is well.";
    let mut more = lines.to_vec();
    more.extend([boundary(3), compact_summary(4, whole), user(5, "On.")]);
    place.archive(&mut *store, "s", &more);
    assert_eq!(told(&mut *store), [(whole.to_owned(), 1)]);
    store.add_summary("s", "Another one.", NOW + 4).unwrap();
    assert_eq!(told(&mut *store).len(), 2);
    assert_eq!(rows(&mut *store), 2);
    place.check_sound();
}

fn the_transcript_may_be_first(kind: Kind) {
    let place = Place::new(kind);
    let mut store = place.open();
    announce(&mut *store, true);
    place.archive(&mut *store, "s", &[user(1, "Go."), boundary(2), compact_summary(3, "Before. All is well.")]);
    store.add_summary("s", "<summary>All is well.</summary>", NOW).unwrap();
    assert_eq!(told(&mut *store), [("Before. All is well.".to_owned(), 1)]);
    assert_eq!(rows(&mut *store), 2, "one was blocked, and stays so");
    let compactions = store.compactions(None, i64::MIN).unwrap();
    let blocked: Vec<_> = compactions.iter().filter(|one| one.is_blocked && one.summary.is_none()).collect();
    assert_eq!((blocked.len(), compactions.iter().filter(|one| one.is_blocked).count()), (1, 1));
    place.check_sound();
}

fn two_compactions_of_the_same_words_are_two(kind: Kind) {
    let place = Place::new(kind);
    let mut store = place.open();
    place.archive(
        &mut *store,
        "s",
        &[user(1, "Go."), boundary(2), compact_summary(3, "Well."), user(4, "On."), boundary(5), compact_summary(6, "Well.")],
    );
    assert_eq!(told(&mut *store), [("Well.".to_owned(), 2), ("Well.".to_owned(), 1)]);
    let entries: Vec<_> = store.compactions(None, i64::MIN).unwrap().iter().map(|one| one.summary).collect();
    assert!(entries[0].is_some() && entries[0] == entries[1], "they say the same: {entries:?}");
    // Read once more, from the begin: nothing is added.
    std::fs::write(place.path("s.jsonl"), "").unwrap();
    place.archive(&mut *store, "s", &[user(1, "Go!"), boundary(2), compact_summary(3, "Well.")]);
    assert_eq!(rows(&mut *store), 2);
}

fn a_summary_without_words_is_none(kind: Kind) {
    let place = Place::new(kind);
    let mut store = place.open();
    place.archive(&mut *store, "s", &[user(1, "Go."), boundary(2), compact_summary(3, "")]);
    store.add_summary("s", "<analysis>Hm.</analysis><summary> </summary>", NOW).unwrap();
    assert!(told(&mut *store).is_empty());
    store.add_summary("s", "Words.", NOW).unwrap();
    assert_eq!(told(&mut *store).len(), 1);
}
