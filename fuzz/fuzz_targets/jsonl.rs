//! Any bytes as files of an archive in JSON Lines: lines of the journal, with checksums that fit or not, and entries. Whatever can be opened answers, and
//! says the same when it was tidied up.
#![no_main]

use std::fs;
use std::sync::LazyLock;

use ctxbridge::archive::store::jsonl::JsonlStore;
use ctxbridge::archive::store::sqlite::LockPolicy;
use ctxbridge::archive::store::{
    CompactionReader, EVERYTHING, MaintenanceStore, SegmentReader, SessionReader, TurnReader, TurnSelection,
};
use libfuzzer_sys::fuzz_target;
use tempfile::TempDir;

/// A folder with an archive that nothing has happened to.
static NEW: LazyLock<(TempDir, String)> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("a temporary folder");
    drop(JsonlStore::open(folder.path(), LockPolicy::Interactive).expect("a new archive"));
    let head = fs::read_to_string(folder.path().join("journal.jsonl")).expect("a journal");
    (folder, head)
});

fuzz_target!(|input: (&[u8], &[u8], bool)| {
    let (journal, entries, is_signed) = input;
    let (folder, head) = &*NEW;
    let path = |name: &str| folder.path().join(name);
    fs::remove_file(path("journal.image")).ok();
    let mut file = head.clone().into_bytes();
    if is_signed {
        let mut sum = crc32fast::Hasher::new();
        sum.update(&head.as_bytes()[head.find(',').map_or(0, |at| at + 1)..head.len() - 1]);
        for line in journal.split(|byte| *byte == b'\n') {
            let body = line.strip_prefix(b"{").unwrap_or(line);
            sum.update(body);
            file.extend_from_slice(format!("{{\"crc\":\"{:08x}\",", sum.clone().finalize()).as_bytes());
            file.extend_from_slice(body);
            file.push(b'\n');
        }
    } else {
        file.extend_from_slice(journal);
    }
    fs::write(path("journal.jsonl"), &file).expect("a journal");
    fs::write(path("entries.jsonl"), entries).expect("entries");
    let answer = |store: &mut JsonlStore| -> String {
        let mut answer = String::new();
        let Ok(sessions) = store.sessions("", None, 99) else { return answer };
        for session in sessions {
            for which in [TurnSelection::All, TurnSelection::Superseded, TurnSelection::Agents] {
                answer += &format!("{session:?} {:?}", store.turns(session.key, which));
            }
            for transcript in store.transcripts(session.key).unwrap_or_default() {
                let mut bytes = Vec::new();
                let read = store.read_bytes(transcript.key, transcript.generation, EVERYTHING, &mut bytes);
                answer += &format!("{transcript:?} {read:?} {bytes:?}");
            }
        }
        answer + &format!("{:?}", store.compactions(None, i64::MIN))
    };
    let Ok(Some(mut store)) = JsonlStore::open_read_only(folder.path()) else { return };
    let said = answer(&mut store);
    store.integrity_check().ok();
    let Ok(mut writer) = JsonlStore::open(folder.path(), LockPolicy::Interactive) else { return };
    if writer.optimize().is_ok() {
        assert_eq!(answer(&mut store), said, "as seen by who was there");
        let again = JsonlStore::open_read_only(folder.path());
        assert_eq!(again.map(|again| again.map(|mut again| answer(&mut again))).ok().flatten(), Some(said), "as seen by who comes");
    }
});
