//! How the archive is opened, and what is refused.

use ctxbridge::archive::store::sqlite::{Patience, SqliteStore};
use ctxbridge::archive::store::{Appended, Batch, Cursor, EVERYTHING, Store, StoreError};
use ctxbridge::transcript::Interpreter;

use super::lines::{says, user};
use super::{Place, number, session, transcript, turns};

#[test]
fn an_empty_file_becomes_an_archive() {
    let place = Place::new();
    std::fs::write(place.data.path().join(SqliteStore::FILE), "").unwrap();
    let totals = place.open().totals().unwrap();
    assert_eq!((totals.sessions, totals.entries), (0, 0));
    assert_eq!(number::<String>(&place, "PRAGMA journal_mode"), "wal");
    assert!(number::<u32>(&place, "PRAGMA user_version") > 0);
}

#[test]
fn one_of_a_newer_version_is_left_alone() {
    let place = Place::new();
    place.archive(&mut place.open(), "s", &[user(1, "One.")]);
    place.raw().pragma_update(None, "user_version", 99).unwrap();
    let error = SqliteStore::open(place.data.path(), Patience::Patient).unwrap_err();
    assert!(!error.is_damage() && !error.is_busy(), "or it would be moved aside");
    let said = error.to_string().replace(&place.data.path().display().to_string(), "DATA");
    insta::with_settings!({ filters => vec![(r"knows \(\d+\)", "knows (N)")] }, {
        insta::assert_snapshot!(said, @"cannot open the archive DATA/archive.db: its schema is version 99, newer than this ctxbridge knows (N); upgrade ctxbridge");
    });
    assert_eq!(number::<u32>(&place, "SELECT count(*) FROM turns"), 1);
}

#[test]
fn garbage_is_damage() {
    let place = Place::new();
    std::fs::write(place.data.path().join(SqliteStore::FILE), "no database, but long enough to be looked at ".repeat(50))
        .unwrap();
    let error = SqliteStore::open(place.data.path(), Patience::Hurried).unwrap_err();
    assert!(error.is_damage(), "{error}");
}

#[cfg(unix)]
#[test]
fn nobody_else_may_read_it() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    let data = place.data.path().join("new");
    ctxbridge::paths::create_private_dir(&data).unwrap();
    let mut store = SqliteStore::open(&data, Patience::Patient).unwrap();
    place.archive(&mut store, "s", &[user(1, "Secret.")]);
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&data), 0o700);
    let files: Vec<_> = std::fs::read_dir(&data).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(files.len() >= 2, "the log is there as well: {files:?}");
    for file in files {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
}

#[test]
fn a_batch_that_follows_something_else_changes_nothing() {
    let place = Place::new();
    let mut store = place.open();
    place.archive(&mut store, "s", &[user(1, "One."), says(2, "Yes.")]);
    let path = place.path("s.jsonl");
    let before = turns(&mut store, "s");
    let bytes = store.cursor(&path.to_string_lossy()).unwrap().unwrap().bytes;
    for follows in [None, Some((0, bytes - 1)), Some((0, bytes + 1)), Some((1, bytes))] {
        let cursor = Cursor { generation: 7, bytes: 1, check: [0; 32], interpreter: Interpreter::default() };
        let batch = Batch {
            transcript: transcript(&path, "s"),
            follows,
            rewritten: None,
            segments: Vec::new(),
            turns: Vec::new(),
            summaries: Vec::new(),
            first_contexts: Vec::new(),
            cursor,
        };
        assert_eq!(store.append(&batch).unwrap(), Appended::Moved, "{follows:?}");
    }
    assert_eq!(turns(&mut store, "s"), before);
    assert_eq!(store.cursor(&path.to_string_lossy()).unwrap().unwrap().bytes, bytes);
}

#[test]
fn damaged_bytes_are_told_and_not_handed_out() {
    let place = Place::new();
    let mut store = place.open();
    place.archive(&mut store, "s", &[user(1, "One."), says(2, "Yes.")]);
    let data: Vec<u8> = number(&place, "SELECT data FROM segments");
    let key = session(&mut store, "s").unwrap().key;
    let transcript = store.transcripts(key).unwrap()[0].key;
    for at in 0..data.len() {
        let mut damaged = data.clone();
        damaged[at] ^= 0x10;
        place.raw().execute("UPDATE segments SET data = ?1", [&damaged]).unwrap();
        let mut bytes = Vec::new();
        match store.raw(transcript, 0, EVERYTHING, &mut bytes) {
            Err(StoreError::Segment { start: 0, .. }) => assert!(bytes.is_empty(), "byte {at}"),
            // Not every bit of a frame means something; but then nothing is missing.
            Ok(()) => assert_eq!(bytes, std::fs::read(place.path("s.jsonl")).unwrap(), "byte {at}"),
            Err(other) => panic!("{other}"),
        }
    }
}
