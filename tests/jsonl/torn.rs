//! A write that stopped at any byte, since the process was killed or the power failed: it has not happened, and happens when it is made again.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use ctxbridge::archive::store::jsonl::JsonlStore;
use ctxbridge::archive::store::sqlite::LockPolicy;
use ctxbridge::archive::store::{
    Compaction, SessionReader, Snapshot, Store, TranscriptAppender, TurnReader, TurnSelection, UsageWriter,
};
use ctxbridge_testkit::share_of;
use serde_json::Value;

use super::lines::{boundary, compact_summary, says, user};
use super::place::{NOW, Place, dump, files, put};

type Files = BTreeMap<PathBuf, Vec<u8>>;

/// An archive in which something of everything is.
fn begun(place: &Place) -> Vec<Value> {
    let lines =
        vec![user(1, "Go on?"), says(2, "Yes."), boundary(3), compact_summary(4, "It went."), user(5, "And?"), says(6, "No.")];
    let mut store = place.open();
    place.archive(&mut store, "s", &lines);
    place.archive(&mut store, "t", &lines[..2]);
    let key = store.session("s").unwrap().unwrap().key;
    let entry = store.turns(key, TurnSelection::All).unwrap()[0].entry;
    store.touch(&[entry], NOW).unwrap();
    lines
}

/// What a process leaves that stops in the middle of a write: bytes, then entries, then the journal; a new file is there from its first byte on.
fn cuts(before: &Files, after: &Files) -> Vec<Files> {
    let order = |name: &Path| match name.to_str().unwrap() {
        "entries.jsonl" => 1,
        "journal.jsonl" => 2,
        _ => 0,
    };
    let mut changed: Vec<&PathBuf> = after.keys().filter(|name| before.get(*name) != after.get(*name)).collect();
    changed.sort_by_key(|name| order(name));
    let mut state = before.clone();
    let mut found = Vec::new();
    for name in changed {
        let whole = &after[name];
        let from = before.get(name).map_or(0, Vec::len);
        assert!(before.get(name).is_none_or(|bytes| whole.starts_with(bytes)), "{name:?} only grows");
        for end in from..whole.len() {
            found.push(Files::from_iter(state.clone().into_iter().chain([(name.clone(), whole[..end].to_vec())])));
        }
        state.insert(name.clone(), whole.clone());
    }
    assert_eq!(&state, after);
    found
}

/// That each cut of what `write` does is as if it had not been begun, to readers and to the next writer.
fn check(name: &str, write: impl Fn(&Place, &mut dyn Store, &mut Vec<Value>)) {
    let place = Place::new();
    let mut lines = begun(&place);
    let (before, expected) = (files(&place.folder()), dump(&mut place.look()));
    let begin = lines.clone();
    write(&place, &mut place.open(), &mut lines);
    let (after, done) = (files(&place.folder()), dump(&mut place.look()));
    assert_ne!(expected, done, "{name} does something");
    let cuts = cuts(&before, &after);
    assert!(cuts.len() > 60, "{name}: {}", cuts.len());
    let mark = |store: &mut dyn Store| format!("{:?}", (store.changes(None).unwrap(), store.totals().unwrap().compactions));
    put(&place.folder(), &before);
    let was = mark(&mut place.look());
    // In a full run every byte; else a share of them, and both ends.
    let stride = cuts.len().div_ceil(share_of(cuts.len() as u32) as usize);
    let looked_into = (cuts.len() / stride / share_of(24) as usize).max(1);
    let is_end = |number: usize| number + 2 >= cuts.len();
    for (number, cut) in cuts.iter().enumerate().filter(|(number, _)| number.is_multiple_of(stride) || is_end(*number)) {
        let said = || format!("{name}, cut {number} of {}", cuts.len());
        fs::remove_dir_all(place.folder()).unwrap();
        put(&place.folder(), cut);
        let mut reader = place.look();
        assert_eq!(mark(&mut reader), was, "{}", said());
        // All of it at some, and at both ends.
        if !(number / stride).is_multiple_of(looked_into) && !is_end(number) {
            continue;
        }
        assert_eq!(dump(&mut reader), expected, "{}", said());
        assert_eq!(&files(&place.folder()), cut, "{}: who looks writes nothing", said());
        write(&place, &mut place.open(), &mut begin.clone());
        assert_eq!(dump(&mut place.look()), done, "{}: made again", said());
        assert_eq!(dump(&mut reader), done, "{}: as seen by who was there", said());
        place.assert_sound();
        for torn in ["entries.jsonl", "journal.jsonl"] {
            let text = fs::read_to_string(place.file(torn)).unwrap();
            assert!(text.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()), "{}: {torn}", said());
        }
    }
}

#[test]
fn a_batch() {
    check("a batch", |place, store, lines| {
        lines.extend([user(7, "Once more."), says(8, "Well.")]);
        drop(place.archive(store, "s", lines));
    });
}

#[test]
fn a_new_transcript() {
    check("a new transcript", |place, store, lines| drop(place.archive(store, "u", &lines[4..])));
}

#[test]
fn a_transcript_that_was_rewritten() {
    check("a rewritten transcript", |place, store, lines| {
        lines[4] = user(5, "Another?");
        drop(place.archive(store, "s", lines));
    });
}

#[test]
fn everything_else() {
    check("a touch", |_, store, _| {
        let entries: Vec<i64> = store.turns_by_id("").unwrap().iter().map(|turn| turn.entry).collect();
        store.touch(&entries, NOW).unwrap();
    });
    check("an announcement", |_, store, _| {
        store
            .record_compaction("s", &Compaction { at_ms: NOW, cause: None, context_tokens: None, is_blocked: true, turns: None })
            .unwrap();
    });
    check("a summary", |_, store, _| store.add_summary("t", "In other words.", NOW).unwrap());
    check("an end", |_, store, _| store.end_session("t", "clear", NOW).unwrap());
    check("a snapshot", |_, store, _| {
        let key = store.compactions(None, i64::MIN).unwrap()[0].key;
        store.save_snapshot(key, &Snapshot { messages: 2, first: "Word".to_owned(), ..Snapshot::default() }).unwrap();
    });
}

/// After a power failure, the end of a file may be there and what is before it not.
#[test]
fn a_line_without_its_begin() {
    let place = Place::new();
    let mut lines = begun(&place);
    let expected = dump(&mut place.look());
    let journal = place.file("journal.jsonl");
    let begin = fs::read(&journal).unwrap().len();
    lines.push(says(9, "Well."));
    place.archive(&mut place.open(), "s", &lines);
    let done = dump(&mut place.look());
    let whole = fs::read(&journal).unwrap();
    for holes in [begin..begin + 40, begin..whole.len() - 1, begin..whole.len(), begin + 100..begin + 101] {
        let mut torn = whole.clone();
        torn[holes.clone()].fill(0);
        fs::write(&journal, torn).unwrap();
        assert_eq!(dump(&mut place.look()), expected, "{holes:?}");
        place.archive(&mut place.open(), "s", &lines);
        assert_eq!(dump(&mut place.look()), done, "{holes:?}");
        place.assert_sound();
    }
}

/// Nothing at all, or not even one line: there is no archive yet.
#[test]
fn the_first_line() {
    let place = Place::new();
    drop(place.open());
    let head = fs::read(place.file("journal.jsonl")).unwrap();
    for end in 0..head.len() {
        fs::write(place.file("journal.jsonl"), &head[..end]).unwrap();
        assert!(JsonlStore::open_read_only(&place.folder()).unwrap().is_none(), "{end}");
        let mut store = JsonlStore::open(&place.folder(), LockPolicy::Interactive).unwrap();
        store.end_session("s", "clear", NOW).unwrap();
        place.assert_sound();
    }
}
