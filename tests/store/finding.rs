//! From one thing that is known to another: entries, places, turns, and what changed.

use std::collections::HashSet;

use ctxbridge::archive::store::{SessionPart, SessionStats, Store, StoredTurn, Transcript, TurnLocation as Found, TurnSelection};
use serde_json::{Value, json};

use super::kinds::Kind;
use super::lines::{boundary, calls, compact_summary, of_agent, says, text, user, uuid};
use super::{Place, session, transcript, turns};

on_every_store!(
    an_entry_leads_to_all_its_turns,
    a_turn_by_its_place,
    a_summary_by_its_entry,
    what_there_is_of_a_session,
    where_a_conversation_began,
    how_full_the_window_was,
    what_is_kept,
    what_is_used_most,
    what_changed_since,
    tidying_up_takes_nothing_away,
);

const NOW: i64 = 1_780_000_000_000;

fn places(store: &mut dyn Store, entries: &[i64]) -> Vec<Found> {
    let mut places = store.turn_locations(entries).unwrap();
    places.sort_by_key(|place| place.key);
    places
}

/// The id of the turn that begins with such a line.
fn id(number: u32) -> [u8; 16] {
    u128::from_str_radix(&uuid(number).replace('-', ""), 16).unwrap().to_be_bytes()
}

fn an_entry_leads_to_all_its_turns(kind: Kind) {
    let place = Place::new(kind);
    let mut store = place.open();
    let edit = calls(3, "Edit", json!({ "file_path": "/work/p/a.rs" }));
    let both = [user(1, "One."), says(2, "Yes."), user(5, "Two."), edit];
    place.archive(&mut *store, "a", &both);
    place.archive(&mut *store, "b", &both);
    place.archive(&mut *store, "c", &[user(1, "One."), says(2, "No.")]);
    let [a, b, c] = ["a", "b", "c"].map(|name| turns(&mut *store, name));
    let entries: Vec<i64> = a.iter().map(|turn| turn.entry).collect();
    assert_ne!(entries[0], entries[1]);
    store.touch(&entries[1..], NOW).unwrap();

    let found = places(&mut *store, &[entries[1]]);
    let keys: Vec<i64> = ["a", "b"].map(|name| session(&mut *store, name).unwrap().key).to_vec();
    assert_eq!(found.iter().map(|place| place.session).collect::<Vec<_>>(), keys);
    for (place, turn) in found.iter().zip([&a[1], &b[1]]) {
        assert_eq!((place.entry, place.transcript, place.index), (turn.entry, turn.transcript, 1));
        assert_eq!((place.started_ms, place.folder.as_deref()), (turn.turn.started_ms, Some("/work/p")));
        assert_eq!((place.access_count, (place.confidence * 1e9).round()), (1, 0.83e9));
        assert_eq!((place.richness, place.is_superseded), ((true, true), false));
    }
    let mut other = places(&mut *store, &[c[0].entry, entries[0], 987_654]);
    assert_eq!(other.len(), 3, "two of one, one of the other, and none of what is not there");
    assert!(other.iter().all(|place| place.richness == (false, false) && place.access_count == 0));
    assert!(store.turn_locations(&[]).unwrap().is_empty());

    // One that was rewritten still has it, behind those that are as they were.
    place.archive(&mut *store, "b", &[user(1, "Another one."), says(2, "Yes.")]);
    other = places(&mut *store, &[entries[1]]);
    assert_eq!(other.iter().map(|place| place.is_superseded).collect::<Vec<_>>(), [false, true]);
    assert!(other[0].rank() > other[1].rank());
    place.check_sound();
}

fn a_turn_by_its_place(kind: Kind) {
    let place = Place::new(kind);
    let mut store = place.open();
    place.archive(&mut *store, "s", &[user(1, "One."), says(2, "Yes."), user(5, "Two."), says(6, "No.")]);
    let all = turns(&mut *store, "s");
    for turn in &all {
        let found = places(&mut *store, &[turn.entry]);
        assert_eq!(store.turn_by_location(&found[0]).unwrap().as_ref(), Some(turn));
        assert_eq!(store.turn(turn.transcript, turn.turn.index).unwrap().as_ref(), Some(turn));
    }
    let old = places(&mut *store, &[all[1].entry]).remove(0);
    assert_eq!(store.turn(all[0].transcript, 2).unwrap(), None);
    assert_eq!(store.turn(all[0].transcript + 1_000, 0).unwrap(), None);
    // A place is that of its turn, also where the conversation has another one there by now.
    place.archive(&mut *store, "s", &[user(1, "One."), says(2, "Yes."), user(7, "Three.")]);
    let kept = store.turn_by_location(&old).unwrap().unwrap();
    assert_eq!((kept.is_superseded, &kept.turn), (true, &all[1].turn));
    let now = store.turn(all[0].transcript, 1).unwrap().unwrap();
    assert_eq!((now.is_superseded, now.turn.id), (false, id(7)));
    assert_eq!(store.turn_by_location(&Found { key: old.key + 1_000, ..old }).unwrap(), None);
}

fn a_summary_by_its_entry(kind: Kind) {
    let place = Place::new(kind);
    let mut store = place.open();
    place.archive(&mut *store, "s", &[user(1, "Go."), boundary(2), compact_summary(3, "All is well.")]);
    let key = session(&mut *store, "s").unwrap().key;
    let summary = store.summaries(key).unwrap().remove(0);
    assert_eq!((summary.text.as_str(), summary.turns), ("All is well.", 1));
    assert_eq!(store.summary_of(summary.entry).unwrap(), Some(("s".to_owned(), summary.clone())));
    let turn = turns(&mut *store, "s").remove(0);
    assert_eq!(store.summary_of(turn.entry).unwrap(), None, "that is a turn");
    assert_eq!(store.summary_of(987_654).unwrap(), None);
    assert!(store.turn_locations(&[summary.entry]).unwrap().is_empty(), "and it is none");
}

fn archive_agent(place: &Place, store: &mut dyn Store, name: &str, lines: &[Value]) {
    let path = place.path(&format!("agent-{name}.jsonl"));
    std::fs::write(&path, text(lines)).unwrap();
    let transcript = Transcript { part: SessionPart::Agent(name.to_owned()), ..transcript(&path, "s") };
    ctxbridge::archive::ingest::ingest(store, &transcript, &path).unwrap();
}

fn what_there_is_of_a_session(kind: Kind) {
    let place = Place::new(kind);
    let mut store = place.open();
    place.archive(&mut *store, "s", &[user(1, "One."), says(2, "Yes."), user(5, "Two.")]);
    for name in ["a1", "a2"] {
        archive_agent(&place, &mut *store, name, &[of_agent(user(8, name)), of_agent(says(9, name))]);
    }
    let path = place.path("s.jsonl");
    let written = std::fs::read_to_string(&path).unwrap() + "{\"type\":\"user\",\n";
    std::fs::write(&path, &written).unwrap();
    ctxbridge::archive::ingest::ingest(&mut *store, &transcript(&path, "s"), &path).unwrap();
    place.archive(&mut *store, "other", &[user(1, "One.")]);

    let key = session(&mut *store, "s").unwrap().key;
    let agents: u64 = ["a1", "a2"].iter().map(|name| place.path(&format!("agent-{name}.jsonl")).metadata().unwrap().len()).sum();
    let bytes = written.len() as u64 + agents;
    let size = store.session_stats(key).unwrap();
    assert_eq!(size, SessionStats { turns: 2, bytes, agents: 2, side_files: 0, bad_lines: 1, rewritten: 0, fuller: None });
    let files = store.transcripts(key).unwrap();
    let names: Vec<_> = files.iter().map(|file| file.part.agent()).collect();
    assert_eq!((names[0], files[0].bytes, files[0].generation), (None, written.len() as u64, 0), "its own first");
    assert_eq!(names[1..].iter().copied().collect::<HashSet<_>>(), HashSet::from([Some("a1"), Some("a2")]));
    let work = store.turns(key, TurnSelection::Agents).unwrap();
    assert!(work.len() == 2 && work.iter().all(|turn| turn.agent.is_some() && turn.session == "s"));
    let totals = store.totals().unwrap();
    let other = place.path("other.jsonl").metadata().unwrap().len();
    assert_eq!((totals.sessions, totals.transcripts, totals.turns, totals.entries), (2, 4, 3, 5));
    assert_eq!((totals.bytes_raw, totals.bad_lines, totals.pruned), (bytes + other, 1, 0));
    assert!(totals.bytes_segments > 0 && totals.bytes_stored > 0, "{totals:?}");

    place.archive(&mut *store, "s", &[user(1, "Another.")]);
    let size = store.session_stats(key).unwrap();
    assert_eq!((size.turns, size.rewritten), (1, 1));
}

fn where_a_conversation_began(kind: Kind) {
    let place = Place::new(kind);
    let mut store = place.open();
    place.archive(&mut *store, "s", &[user(1, "One."), user(2, "Two.")]);
    archive_agent(&place, &mut *store, "a1", &[of_agent(user(0, "Work."))]);
    let key = session(&mut *store, "s").unwrap().key;
    let first = turns(&mut *store, "s")[0].entry;
    assert_eq!(store.first_entry(key).unwrap(), Some(first));
    assert_eq!(store.first_entry(key + 1_000).unwrap(), None);
    place.archive(&mut *store, "s", &[user(3, "Three."), user(2, "Two.")]);
    let again = store.first_entry(key).unwrap();
    assert!(again != Some(first) && again == Some(turns(&mut *store, "s")[0].entry));
}

fn how_full_the_window_was(kind: Kind) {
    let place = Place::new(kind);
    let mut store = place.open();
    place.archive(&mut *store, "s", &[user(1, "One."), says(2, "Yes."), user(5, "Two."), user(6, "Three."), says(7, "No.")]);
    let key = session(&mut *store, "s").unwrap().key;
    let all = turns(&mut *store, "s");
    let tokens = all[0].turn.context_tokens.unwrap();
    assert!(tokens > 30_000);
    let told = store.contexts(key).unwrap();
    assert_eq!(told, [(all[0].turn.started_ms, tokens), (all[2].turn.started_ms, tokens)], "the one without answer is left out");
    let known = session(&mut *store, "s").unwrap();
    assert_eq!((known.context_tokens, known.model.as_deref()), (Some(tokens), Some("claude-sonnet-4-5")));
}

fn what_is_kept(kind: Kind) {
    let place = Place::new(kind);
    let mut store = place.open();
    let lines = [user(1, "One. #keep"), user(2, "Two."), user(3, "Three."), user(4, "Four.")];
    place.archive(&mut *store, "s", &lines);
    // A fork has the same turns.
    place.archive(&mut *store, "fork", &lines[..2]);
    let kept = |store: &mut dyn Store, limit| {
        let turns: Vec<StoredTurn> = store.pinned(limit).unwrap();
        assert!(turns.iter().all(|turn| turn.is_pinned));
        turns.iter().map(|turn| turn.turn.id).collect::<Vec<_>>()
    };
    assert_eq!(kept(&mut *store, 9), [id(1)], "once, though two sessions have it");
    store.set_pinned(&id(3), true, NOW).unwrap();
    store.set_pinned(&id(2), true, NOW).unwrap();
    store.set_pinned(&[7; 16], true, NOW).unwrap();
    assert_eq!(kept(&mut *store, 9), [id(3), id(2), id(1)], "the newest first");
    assert_eq!(kept(&mut *store, 2), [id(3), id(2)]);
    store.set_pinned(&id(1), false, NOW).unwrap();
    let key = session(&mut *store, "s").unwrap().key;
    let of_session: Vec<_> = store.turns(key, TurnSelection::Pinned).unwrap().iter().map(|turn| turn.turn.id).collect();
    assert_eq!(of_session, [id(3), id(2)]);
    // The prompt still asks for it, and is read once more.
    place.archive(&mut *store, "s", &[user(1, "One. #keep"), says(5, "Well.")]);
    for store in [&mut *store, &mut *place.open()] {
        // The fork still has the second; the third is of a conversation that is no more.
        assert_eq!(kept(store, 9), [id(2), id(3)], "what was taken back by hand stays so");
    }
}

fn what_is_used_most(kind: Kind) {
    let place = Place::new(kind);
    let mut store = place.open();
    let lines = [user(1, "One."), user(2, "Two."), compact_summary(3, "What was said."), user(4, "Four.")];
    place.archive(&mut *store, "s", &lines);
    place.archive(&mut *store, "fork", &lines[..1]);
    let used = |store: &mut dyn Store, limit| {
        store.most_used(limit).unwrap().iter().map(|turn| (turn.turn.id, turn.access_count)).collect::<Vec<_>>()
    };
    assert_eq!(used(&mut *store, 9), [], "nothing was restored yet");
    let all = turns(&mut *store, "s");
    let key = session(&mut *store, "s").unwrap().key;
    let summary = store.summaries(key).unwrap()[0].entry;
    store.touch(&[all[0].entry, all[1].entry, summary], NOW).unwrap();
    store.touch(&[all[1].entry, summary], NOW + 1).unwrap();
    for store in [&mut *store, &mut *place.open()] {
        assert_eq!(used(store, 9), [(id(2), 2), (id(1), 1)], "each once, and no summary");
        assert_eq!(used(store, 1), [(id(2), 2)]);
    }
}

fn what_changed_since(kind: Kind) {
    let place = Place::new(kind);
    let mut store = place.open();
    place.archive(&mut *store, "s", &[user(1, "One."), user(2, "Two.")]);
    let begin = store.changes(None).unwrap();
    assert_eq!(begin.entries, None, "all of it, for who knows nothing");
    let none = store.changes(Some(&begin.revision)).unwrap();
    assert_eq!((none.entries, &none.revision), (Some(Vec::new()), &begin.revision));
    place.archive(&mut *store, "s", &[user(1, "One."), user(2, "Two."), says(3, "Yes."), user(4, "Three.")]);
    let all = turns(&mut *store, "s");
    let some = store.changes(Some(&begin.revision)).unwrap();
    let mut entries = some.entries.unwrap();
    entries.sort_unstable();
    assert_eq!(entries, [all[1].entry, all[2].entry], "one has grown, one is new");
    assert_ne!(some.revision, begin.revision);
    // What ranks them is no change; a summary is.
    store.touch(&[all[0].entry], NOW).unwrap();
    store.end_session("s", "other", NOW).unwrap();
    assert_eq!(store.changes(Some(&some.revision)).unwrap().entries, Some(Vec::new()));
    store.add_summary("s", "In short.", NOW).unwrap();
    let key = session(&mut *store, "s").unwrap().key;
    let summary = store.summaries(key).unwrap()[0].entry;
    assert_eq!(store.changes(Some(&some.revision)).unwrap().entries, Some(vec![summary]));
    // The same for whoever opens it later.
    let mut other = place.open();
    assert_eq!(other.changes(Some(&some.revision)).unwrap(), store.changes(Some(&some.revision)).unwrap());
    assert_eq!(other.changes(Some(&begin.revision)).unwrap(), store.changes(Some(&begin.revision)).unwrap());
    for strange in ["", "1", "x:y", "0:0", "999999:1", "1:999"] {
        assert_eq!(store.changes(Some(strange)).unwrap().entries, None, "{strange}");
    }
    // A mark of another archive is none of this one.
    let elsewhere = Place::new(kind);
    let mut another = elsewhere.open();
    elsewhere.archive(&mut *another, "s", &[user(1, "One."), user(2, "Two.")]);
    assert_eq!(another.changes(Some(&begin.revision)).unwrap().entries, None);
}

fn tidying_up_takes_nothing_away(kind: Kind) {
    let place = Place::new(kind);
    let mut store = place.open();
    let mut lines = Vec::new();
    for number in 0..30 {
        lines.extend([user(number * 3, format!("Prompt {number}.")), says(number * 3 + 1, "Yes.")]);
        place.archive(&mut *store, "s", &lines);
    }
    let mark = store.changes(None).unwrap().revision;
    let before = turns(&mut *store, "s");
    let mut other = place.open();
    store.checkpoint().unwrap();
    store.optimize().unwrap();
    for store in [&mut *store, &mut *other, &mut *place.open()] {
        assert_eq!(turns(store, "s"), before);
        assert_eq!(store.changes(Some(&mark)).unwrap().entries, Some(Vec::new()));
        let transcript = before[0].transcript;
        assert!(super::sound::restored(store, transcript, 0) == text(&lines).into_bytes());
    }
    place.archive(&mut *store, "s", &[&lines[..], &[user(500, "On.")]].concat());
    assert_eq!(turns(&mut *other, "s").len(), 31, "and it goes on");
    place.check_sound();
}
