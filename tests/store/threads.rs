//! Several processes at once, as far as threads with connections of their own can stand for them.

use std::fs::File;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

use ctxbridge::archive::ingest::ingest;
use ctxbridge::archive::reader::ReadError;
use ctxbridge::archive::store::sqlite::LockPolicy;
use proptest::prelude::*;
use serde_json::json;

use super::kinds::Kind;
use super::lines::{calls, says, text, user};
use super::sound::{check_contents, fresh, restored};
use super::{Place, session, transcript, turns};

on_every_store!(who_comes_second_looks_again, copies_of_a_session_share_their_entries);

/// A file that grows in pieces of these sizes while others archive it, each pass of them as patient as a hook may be.
fn grow(kind: Kind, pieces: &[usize], readers: &[LockPolicy]) {
    let place = Place::new(kind);
    let path = place.path("s.jsonl");
    let transcript = transcript(&path, "s");
    let lines: Vec<_> = (0..400)
        .map(|number| match number % 4 {
            0 => user(number, format!("Prompt {}.", number % 12)),
            1 => calls(number, "Read", json!({ "file_path": format!("/work/p/{number}.rs") })),
            2 => says(number, &"Long. ".repeat(300)),
            _ => says(number, "Short."),
        })
        .collect();
    let bytes = text(&lines).into_bytes();
    File::create(&path).unwrap();
    drop(place.open());
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for patience in readers {
            scope.spawn(|| {
                let mut store = kind.try_open(place.data.path(), *patience).unwrap();
                while !is_done.load(Ordering::Relaxed) {
                    match ingest(&mut *store, &transcript, &path) {
                        Err(ReadError::Store(error)) if error.is_busy() && *patience == LockPolicy::Interactive => {}
                        pass => drop(pass.unwrap()),
                    }
                }
            });
        }
        let mut file = File::options().append(true).open(&path).unwrap();
        let mut rest = bytes.as_slice();
        for size in pieces.iter().cycle() {
            let (piece, behind) = rest.split_at((*size).min(rest.len()));
            file.write_all(piece).unwrap();
            rest = behind;
            std::thread::yield_now();
            if rest.is_empty() {
                break;
            }
        }
        is_done.store(true, Ordering::Relaxed);
    });
    let mut store = place.open();
    ingest(&mut *store, &transcript, &path).unwrap();
    let session = session(&mut *store, "s").unwrap();
    let stored = store.transcripts(session.key).unwrap();
    assert_eq!(stored[0].generation, 0, "it only ever grew");
    assert!(restored(&mut *store, stored[0].key, 0) == bytes);
    let stored: Vec<_> = turns(&mut *store, "s").into_iter().map(|stored| stored.turn).collect();
    assert_eq!(stored, fresh(&bytes, false));
    check_contents(&mut *store, session.key);
    place.check_sound();
}

fn who_comes_second_looks_again(kind: Kind) {
    proptest!(kind.cases(6), |(pieces in proptest::collection::vec(1..9_000_usize, 1..30))| {
        grow(kind, &pieces, &[LockPolicy::Background, LockPolicy::Background, LockPolicy::Interactive]);
    });
}

fn copies_of_a_session_share_their_entries(kind: Kind) {
    let place = Place::new(kind);
    let lines: Vec<_> =
        (0..120).map(|at| if at % 2 == 0 { user(at, format!("Prompt {at}.")) } else { says(at, "Answer.") }).collect();
    drop(place.open());
    std::thread::scope(|scope| {
        for name in ["a", "b", "c"] {
            let (place, lines) = (&place, &lines);
            scope.spawn(move || {
                let mut store = place.open();
                for end in (10..=120).step_by(10) {
                    place.archive(&mut *store, name, &lines[..end]);
                }
            });
        }
    });
    let mut store = place.open();
    let [a, b, c] = ["a", "b", "c"].map(|name| turns(&mut *store, name).iter().map(|turn| turn.entry).collect::<Vec<_>>());
    assert_eq!((a.len(), &a, &a), (60, &b, &c));
    assert_eq!(store.totals().unwrap().entries, 60);
    place.check_sound();
}
