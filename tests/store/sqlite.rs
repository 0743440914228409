//! What holds of a SQLite file only: how it is opened, what is refused, what is damage.

use ctxbridge::archive::store::sqlite::{LockPolicy, SqliteStore};
use ctxbridge::archive::store::{EVERYTHING, StoreError};

use super::kinds::{self, Kind};
use super::lines::{says, user};
use super::{Place, session};

#[test]
fn an_empty_file_becomes_an_archive() {
    let place = Place::new(Kind::Sqlite);
    std::fs::write(place.data.path().join(SqliteStore::FILE), "").unwrap();
    let totals = place.open().totals().unwrap();
    assert_eq!((totals.sessions, totals.entries), (0, 0));
    assert_eq!(kinds::value::<String>(place.data.path(), "PRAGMA journal_mode"), "wal");
    assert!(kinds::value::<u32>(place.data.path(), "PRAGMA user_version") > 0);
}

#[test]
fn one_of_a_newer_version_is_left_alone() {
    let place = Place::new(Kind::Sqlite);
    place.archive(&mut *place.open(), "s", &[user(1, "One.")]);
    kinds::database(place.data.path()).pragma_update(None, "user_version", 99).unwrap();
    let error = SqliteStore::open(place.data.path(), LockPolicy::Background).unwrap_err();
    assert!(!error.is_damage() && !error.is_busy(), "or it would be moved aside");
    let said = error.to_string().replace(&place.data.path().display().to_string(), "DATA");
    insta::with_settings!({ filters => vec![(r"knows \(\d+\)", "knows (N)")] }, {
        insta::assert_snapshot!(said, @"cannot open the archive DATA/archive.db: its schema is version 99, newer than this ctxbridge knows (N); upgrade ctxbridge");
    });
    assert_eq!(kinds::value::<u32>(place.data.path(), "SELECT count(*) FROM turns"), 1);
}

#[test]
fn garbage_is_damage() {
    let place = Place::new(Kind::Sqlite);
    std::fs::write(place.data.path().join(SqliteStore::FILE), "no database, but long enough to be looked at ".repeat(50))
        .unwrap();
    let error = SqliteStore::open(place.data.path(), LockPolicy::Interactive).unwrap_err();
    assert!(error.is_damage(), "{error}");
}

#[cfg(unix)]
#[test]
fn nobody_else_may_read_it() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new(Kind::Sqlite);
    let data = place.data.path().join("new");
    ctxbridge::common::paths::create_private_dir(&data).unwrap();
    let mut store = SqliteStore::open(&data, LockPolicy::Background).unwrap();
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
fn damaged_bytes_are_told_and_not_handed_out() {
    let place = Place::new(Kind::Sqlite);
    let mut store = place.open();
    place.archive(&mut *store, "s", &[user(1, "One."), says(2, "Yes.")]);
    let data: Vec<u8> = kinds::value(place.data.path(), "SELECT data FROM segments");
    let key = session(&mut *store, "s").unwrap().key;
    let transcript = store.transcripts(key).unwrap()[0].key;
    for at in 0..data.len() {
        let mut damaged = data.clone();
        damaged[at] ^= 0x10;
        kinds::database(place.data.path()).execute("UPDATE segments SET data = ?1", [&damaged]).unwrap();
        let mut bytes = Vec::new();
        match store.read_bytes(transcript, 0, EVERYTHING, &mut bytes) {
            Err(StoreError::Segment { start: 0, .. }) => assert!(bytes.is_empty(), "byte {at}"),
            // Not every bit of a frame means something; but then nothing is missing.
            Ok(()) => assert_eq!(bytes, std::fs::read(place.path("s.jsonl")).unwrap(), "byte {at}"),
            Err(other) => panic!("{other}"),
        }
    }
}
