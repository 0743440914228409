//! A database that another process has open, or had when it died. Nothing of theirs is touched.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc;

use ctxbridge_testkit::is_full_run;
use ctxbridge_testkit::sandbox::Sandbox;

use super::theirs::{Theirs, database as write, open, put};
use super::{counts, database, import, project, turns_of};

fn rows(from: usize, to: usize) -> Vec<Theirs> {
    (from..to).map(|number| Theirs::new(number, "s", &format!("Question {number}?"), "Yes.")).collect()
}

/// All files of a folder with their bytes.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    paths.map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

#[test]
fn what_is_committed_is_read_while_somebody_writes() {
    let sandbox = Sandbox::new();
    let path = database(&sandbox);
    let db = open(&path);
    put(&db, &rows(0, 10));
    db.execute_batch("BEGIN IMMEDIATE").unwrap();
    put(&db, &rows(10, 12));
    // All of that is in the log only.
    assert!(fs::metadata(path.with_extension("db-wal")).unwrap().len() > 0);
    assert_eq!(counts(&import(&sandbox, &path)), [10, 0, 0, 0]);
    db.execute_batch("COMMIT").unwrap();
    assert_eq!(counts(&import(&sandbox, &path)), [2, 0, 10, 0]);
    assert_eq!(turns_of(&sandbox, "s").len(), 12);
}

#[test]
fn writers_are_not_in_the_way_and_it_is_not_in_theirs() {
    let sandbox = Sandbox::new();
    let path = database(&sandbox);
    write(&path, &rows(0, 50));
    let (stop, stopped) = mpsc::channel::<()>();
    let written = std::thread::scope(|scope| {
        // Taken in here: where the test fails it is dropped before the writer is waited for.
        let stop = stop;
        let path = &path;
        let writer = scope.spawn(move || {
            let mut number = 50;
            // So many that no import could keep up with more, on whatever machine.
            while number < 20_000 && matches!(stopped.try_recv(), Err(mpsc::TryRecvError::Empty)) {
                // As their hook does it: open, write, close.
                let db = open(path);
                db.busy_timeout(std::time::Duration::from_secs(5)).unwrap();
                put(&db, &rows(number, number + 1));
                number += 1;
            }
            number
        });
        for _ in 0..if is_full_run() { 5 } else { 2 } {
            let [_, _, _, failed] = counts(&import(&sandbox, path));
            assert_eq!(failed, 0);
        }
        drop(stop);
        writer.join().unwrap()
    });
    import(&sandbox, &path);
    assert_eq!(turns_of(&sandbox, "s").len(), written);
}

#[test]
fn one_that_nobody_uses_is_left_as_it_is() {
    let sandbox = Sandbox::new();
    write(&database(&sandbox), &rows(0, 10));
    let folder = project(&sandbox).join(".claude-flow/data");
    let before = files(&folder);
    assert_eq!(before.len(), 1);
    assert_eq!(counts(&import(&sandbox, &database(&sandbox))), [10, 0, 0, 0]);
    assert_eq!(files(&folder), before);
}

#[test]
fn a_log_that_was_left_behind_counts() {
    let sandbox = Sandbox::new();
    let path = database(&sandbox);
    let db = open(&path);
    put(&db, &rows(0, 10));
    // As a backup, or a process that was killed, leaves it: without what processes share.
    let copy = sandbox.path("copy");
    fs::create_dir_all(&copy).unwrap();
    for suffix in ["db", "db-wal"] {
        fs::copy(path.with_extension(suffix), copy.join("transcript-archive").with_extension(suffix)).unwrap();
    }
    let before = files(&copy);
    assert_eq!(before.len(), 2);
    assert_eq!(counts(&import(&sandbox, &copy)), [10, 0, 0, 0]);
    assert_eq!(files(&copy), before);
}
