//! A damaged archive: bytes written over one that was good, or any bytes. What can be read of it is put into a new one, and nothing else happens.
#![no_main]

use std::fs;
use std::sync::LazyLock;

use ctxbridge::archive::store::sqlite::{LockPolicy, SqliteStore};
use ctxbridge::archive::store::TranscriptAppender;
use libfuzzer_sys::fuzz_target;
use tempfile::TempDir;

/// A folder, and the bytes of an archive that has little.
static GOOD: LazyLock<(TempDir, Vec<u8>)> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut store = SqliteStore::open(folder.path(), LockPolicy::Background).expect("a new archive");
    for number in 0..200 {
        store.end_session(&format!("session {number}"), "other", number).expect("a session");
    }
    drop(store);
    let bytes = fs::read(folder.path().join(SqliteStore::FILE)).expect("an archive");
    (folder, bytes)
});

fuzz_target!(|input: (Vec<(u32, Vec<u8>)>, Option<Vec<u8>>, Vec<u8>, u8)| {
    let (splices, whole, log, unsound) = input;
    let (folder, good) = &*GOOD;
    let mut bytes = whole.unwrap_or_else(|| good.clone());
    for (at, over) in splices {
        let at = at as usize % bytes.len().max(1);
        bytes.iter_mut().skip(at).zip(over).for_each(|(byte, over)| *byte = over);
    }
    let path = folder.path().join("damaged.db");
    fs::write(&path, &bytes).expect("written");
    fs::write(folder.path().join("damaged.db-wal"), &log).expect("written");
    let report = SqliteStore::salvage_in_memory(&path, &|number, _| number % 256 != u32::from(unsound)).expect("a salvage");
    assert!(report.bad_pages.iter().all(|page| *page as usize <= bytes.len() / 4096 + log.len() / 4096));
});
