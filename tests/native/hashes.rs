//! The hash of a large file is remembered as long as nothing says that it changed, and only where a wrong one does no harm.

use std::fs;
#[cfg(unix)]
use std::io::{Seek, SeekFrom, Write};
use std::thread::sleep;
use std::time::Duration;

use ctxbridge::patch::attributes::FileStat;
use ctxbridge::patch::inspect::TargetState;
use ctxbridge::patch::patcher::AppliedState;

use crate::native::client::{Installation, LOOPS, arm64, chunks};

/// Longer than it takes until a change would show in the times of a file. Nothing is said about how long anything takes.
fn settle() {
    sleep(Duration::from_millis(2_100));
}

fn remembered(installation: &Installation) -> Vec<String> {
    let journal = installation.journal();
    let mut statement = journal.prepare("SELECT sha256 FROM hashes").unwrap();
    statement.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap()
}

/// Puts a hash into the journal as that of the file as it is now.
fn poison(installation: &Installation, sha256: &str) {
    let fingerprint = serde_json::to_string(&FileStat::at(&installation.path()).unwrap().fingerprint()).unwrap();
    let sql = "INSERT OR REPLACE INTO hashes (path, fingerprint, sha256) VALUES (?1, ?2, ?3)";
    let changed = installation.journal().execute(sql, [installation.path().to_str().unwrap(), &fingerprint, sha256]).unwrap();
    assert_eq!(changed, 1);
}

#[test]
fn a_settled_file_is_not_read_again() {
    let installation = Installation::of(&arm64(&chunks(LOOPS[2])));
    installation.apply();
    settle();
    let current = installation.verify().current_sha256;
    assert_eq!(remembered(&installation), std::slice::from_ref(&current));
    // Who reads the file could not believe this.
    poison(&installation, &"5".repeat(64));
    let believed = installation.verify();
    assert_eq!(believed.current_sha256, "5".repeat(64));
    // To write, nothing is believed; and what is found is remembered.
    assert_eq!(installation.apply().patched_sha256, current);
    assert_eq!(remembered(&installation), [current]);
    assert_eq!(installation.state(), TargetState::Patched);
}

#[test]
fn a_file_that_changed_lately_is_not_remembered() {
    let installation = Installation::of(&arm64(&chunks(LOOPS[2])));
    // A time to come: whatever is written until then would not show.
    let file = fs::File::options().write(true).open(installation.path()).unwrap();
    file.set_modified(std::time::SystemTime::now() + Duration::from_secs(3600)).unwrap();
    assert_eq!(installation.state(), TargetState::Unpatched);
    assert_eq!(remembered(&installation), Vec::<String>::new());
}

/// The size is the same and the time of the change was set back: that it was changed shows all the same.
#[test]
#[cfg(unix)]
fn a_change_that_hides_is_noticed() {
    let installation = Installation::of(&arm64(&chunks(LOOPS[2])));
    installation.apply();
    settle();
    assert_eq!(installation.state(), TargetState::Patched);
    assert_eq!(remembered(&installation).len(), 1);

    let before = fs::metadata(installation.path()).unwrap();
    let mut file = fs::File::options().write(true).open(installation.path()).unwrap();
    file.seek(SeekFrom::Start(0x1000)).unwrap();
    file.write_all(b"!").unwrap();
    file.set_modified(before.modified().unwrap()).unwrap();
    drop(file);
    let after = fs::metadata(installation.path()).unwrap();
    assert_eq!((after.len(), after.modified().unwrap()), (before.len(), before.modified().unwrap()));
    assert_eq!(installation.state(), TargetState::Modified);
}

/// Another file of the same size and times is another file.
#[test]
#[cfg(unix)]
fn a_file_that_took_the_place_is_noticed() {
    let original = arm64(&chunks(LOOPS[2]));
    let installation = Installation::of(&original);
    installation.apply();
    settle();
    assert_eq!(installation.state(), TargetState::Patched);
    let time = fs::metadata(installation.path()).unwrap().modified().unwrap();
    let mut other = installation.bytes();
    other[0x1000] ^= 1;
    installation.install(&other);
    fs::File::options().write(true).open(installation.path()).unwrap().set_modified(time).unwrap();
    assert_eq!(installation.state(), TargetState::Modified);
}

/// A journal that is wrong about a file must not make `apply` or `revert` do anything wrong.
#[test]
fn a_wrong_hash_misleads_nobody_who_writes() {
    let original = arm64(&chunks(LOOPS[2]));
    let installation = Installation::of(&original);
    let patched = installation.apply().patched_sha256;
    installation.revert();
    poison(&installation, &patched);
    assert_eq!(installation.apply().state, AppliedState::Patched);
    assert_eq!(installation.state_without_journal(), TargetState::Patched);
    let applied = installation.bytes();

    let mut changed = applied;
    changed[0x1000] ^= 1;
    installation.install(&changed);
    poison(&installation, &patched);
    let refused = installation.try_revert().unwrap_err().to_string();
    assert!(refused.contains("was changed after it was patched"), "{refused}");
    assert_eq!(installation.bytes(), changed);
}
