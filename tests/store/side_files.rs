//! Files beside a transcript, whatever the archive is kept in.

use std::fs;
use std::path::PathBuf;

use ctxbridge::archive::search::{Mode, SearchRequest, Searcher};
use ctxbridge::archive::side_files::{SideFileEffort, SideFileReport, ingest_side_files};
use ctxbridge::archive::store::{EVERYTHING, SessionPart, Store, TurnSelection};
use ctxbridge::archive::turn_text;
use serde_json::{Value, json};

use super::kinds::Kind;
use super::lines::{calls, result, says, user, with};
use super::{Place, session, transcript, turns};

on_every_store!(
    their_bytes_come_back,
    a_turn_has_the_words_of_its_file,
    one_that_comes_later_is_found,
    generations_share_what_is_the_same,
);

const SESSION: &str = "cccc3333-0000-4000-8000-000000000000";

/// A word that stands in a side file alone.
const NEEDLE: &str = "sandpiperroost";

/// A turn whose result is in `tool-results/out.txt`.
fn lines() -> Vec<Value> {
    let pointing = with(
        result(3, "the first of many lines"),
        json!({ "toolUseResult": { "persistedOutputPath": format!("/gone/{SESSION}/tool-results/out.txt") } }),
    );
    vec![user(1, "Where do they rest?"), calls(2, "Bash", json!({ "command": "ls" })), pointing, says(4, "There.")]
}

fn write(place: &Place, name: &str, bytes: &[u8]) -> PathBuf {
    let path = place.path(SESSION).join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, bytes).unwrap();
    path
}

fn archive_files(place: &Place, store: &mut dyn Store, effort: SideFileEffort) -> SideFileReport {
    let path = place.path(&format!("{SESSION}.jsonl"));
    // As hooks name it: by its real path.
    let path = ctxbridge::common::paths::real(place.projects.path()).unwrap().join(path.file_name().unwrap());
    ingest_side_files(store, &transcript(&path, SESSION), effort, &mut |store, batch| store.append(batch)).unwrap()
}

fn file(store: &mut dyn Store, name: &str, generation: u32) -> Vec<u8> {
    let key = session(store, SESSION).unwrap().key;
    let all = store.transcripts(key).unwrap();
    let found = all.iter().find(|file| file.part == SessionPart::SideFile(name.to_owned())).unwrap();
    let mut bytes = Vec::new();
    store.read_bytes(found.key, generation, EVERYTHING, &mut bytes).unwrap();
    bytes
}

fn finds(place: &Place, store: &mut dyn Store) -> usize {
    let request = SearchRequest { mode: Some(Mode::Lexical), ..SearchRequest::new(NEEDLE) };
    let searched = Searcher::new(place.data.path().to_owned()).search(store, &request, usize::MAX, &mut |_| {});
    searched.unwrap().hits.len()
}

fn their_bytes_come_back(kind: Kind) {
    let place = Place::new(kind);
    let mut store = place.open();
    let binary: Vec<u8> = (0..3_000_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let files: [(&str, &[u8]); 4] = [
        ("tool-results/out.txt", b"text"),
        ("tool-results/binary.pdf", &binary),
        ("deep/er/empty", b""),
        ("tool-results/lines.jsonl", b"{\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":\"No prompt.\"}}\n{"),
    ];
    files.iter().for_each(|(name, bytes)| drop(write(&place, name, bytes)));
    let report = archive_files(&place, &mut *store, SideFileEffort::Whole);
    assert_eq!((report.files, report.failed.len()), (4, 0));
    place.archive(&mut *store, SESSION, &lines());
    for (name, bytes) in files {
        assert!(file(&mut *store, name, 0) == bytes, "{name}");
    }
    let found = session(&mut *store, SESSION).unwrap();
    let stats = store.session_stats(found.key).unwrap();
    assert_eq!((stats.turns, stats.agents, stats.side_files, stats.bad_lines), (1, 0, 4, 0));
    assert_eq!(store.totals().unwrap().transcripts, 1);
    assert!(store.turns(found.key, TurnSelection::Agents).unwrap().is_empty());
    assert_eq!(archive_files(&place, &mut *store, SideFileEffort::Whole).files, 0, "nothing is new");
    place.check_sound();
}

fn a_turn_has_the_words_of_its_file(kind: Kind) {
    let place = Place::new(kind);
    let mut store = place.open();
    write(&place, "tool-results/out.txt", format!("the first of many lines\n{NEEDLE}\n").as_bytes());
    archive_files(&place, &mut *store, SideFileEffort::Prompt);
    place.archive(&mut *store, SESSION, &lines());
    let turn = turns(&mut *store, SESSION).remove(0);
    let text = turn_text::content(&mut *store, &turn).unwrap();
    assert!(text.contains("Result: the first of many lines\n\nResult in full (tool-results/out.txt): the first"), "{text}");
    assert!(text.contains(NEEDLE));
    assert_eq!(finds(&place, &mut *store), 1);
}

fn one_that_comes_later_is_found(kind: Kind) {
    let place = Place::new(kind);
    let mut store = place.open();
    place.archive(&mut *store, SESSION, &lines());
    assert_eq!(finds(&place, &mut *store), 0);
    write(&place, "tool-results/out.txt", NEEDLE.as_bytes());
    archive_files(&place, &mut *store, SideFileEffort::Prompt);
    assert_eq!(finds(&place, &mut *store), 1);
    place.check_sound();
}

fn generations_share_what_is_the_same(kind: Kind) {
    let place = Place::new(kind);
    let mut store = place.open();
    let first: Vec<u8> = (0..900_000_u32).flat_map(|n| format!("{n:09}\n").into_bytes()).collect();
    let mut second = first.clone();
    let end = second.len() - 5;
    second[end] = b'x';
    write(&place, "tool-results/out.txt", &first);
    archive_files(&place, &mut *store, SideFileEffort::Whole);
    write(&place, "tool-results/out.txt", &second);
    let report = archive_files(&place, &mut *store, SideFileEffort::Whole);
    assert!(report.bytes < first.len() as u64 / 2, "{} of {}", report.bytes, first.len());
    assert!(file(&mut *store, "tool-results/out.txt", 0) == first);
    assert!(file(&mut *store, "tool-results/out.txt", 1) == second);
    place.check_sound();
}
