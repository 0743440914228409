//! The folder is gone, moved, full of something else or not to be written; files are damaged.

use std::fs;

use ctxbridge_testkit::sandbox::{Talk, run};

use super::place::Place;

fn cold() -> (Place, [Talk; 2]) {
    let place = Place::new();
    let (first, _) = place.old(1, 30);
    let (second, _) = place.old(2, 30);
    place.import();
    assert_eq!(place.optimize()["cold"]["sessions"], 2);
    (place, [first, second])
}

/// Puts the lines of a session into the present, so that it is not cold.
fn hot(place: &Place, number: u32) -> Talk {
    let (talk, _) = place.old(number, 5);
    let now = jiff::Timestamp::now().strftime("%Y-%m-%d").to_string();
    talk.write(String::from_utf8(talk.bytes()).unwrap().replace("2026-06-01", &now));
    place.import();
    talk
}

#[test]
fn the_folder_is_gone_and_comes_back() {
    let (place, talks) = cold();
    let present = hot(&place, 3);
    let gone = place.sandbox.path("gone");
    fs::rename(place.cold(), &gone).unwrap();
    let ran = run(place.command(&["archive", "restore", &talks[0].id]), b"").with_code(3);
    assert!(
        ran.stderr.contains(place.file(&talks[0]).to_str().unwrap()) && ran.stderr.contains("archive.cold_folder"),
        "{}",
        ran.stderr
    );
    let cold = |place: &Place| {
        // It also looks for a client, which is not here.
        let output = place.command(&["doctor", "--json"]).output().unwrap();
        let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let check = found["checks"].as_array().unwrap().iter().find(|check| check["id"] == "cold").unwrap().clone();
        (check["status"].as_str().unwrap().to_owned(), check["detail"].as_str().unwrap().to_owned())
    };
    let (status, detail) = cold(&place);
    assert!(status == "failed" && detail.starts_with("2 of 2 sessions"), "{status}: {detail}");
    // Lists go on without it, and all others are as ever.
    let shown = place.sandbox.cli(&["archive", "show", &talks[0].id]).stdout;
    assert_eq!(shown.matches("in cold storage").count(), 30, "{shown}");
    place.assert_all(&[&present]);
    assert_eq!(place.sandbox.json(&["archive", "sessions"])["sessions"].as_array().unwrap().len(), 3);
    // An empty folder is not taken for the one that was there, and none is made.
    let (other, _) = place.old(4, 5);
    place.import();
    for is_mounted in [false, true] {
        if is_mounted {
            fs::create_dir(place.cold()).unwrap();
        }
        let said = place.optimize();
        assert!(said["failed"][0]["error"].as_str().unwrap().contains("none of the 2 files"), "{said}");
        assert_eq!(place.cold().exists(), is_mounted);
        assert_eq!((place.files().len(), place.tier(&other).as_str()), (0, "hot"));
    }
    // The index is made anew meanwhile, and gets what it could not read when that is there again.
    fs::remove_file(place.sandbox.data().join("search.db")).unwrap();
    place.sandbox.json(&["archive", "search", "question"]);
    fs::remove_dir(place.cold()).unwrap();
    fs::rename(&gone, place.cold()).unwrap();
    assert_eq!(cold(&place).0, "ok");
    let found = place.sandbox.json(&["archive", "search", "question", "--session", &talks[0].id]);
    assert!(!found["results"].as_array().unwrap().is_empty(), "{found}");
    assert_eq!(place.optimize()["cold"]["sessions"], 1);
    place.assert_all(&[&talks[0], &talks[1], &present, &other]);
}

#[test]
fn the_folder_is_another_now() {
    let (place, talks) = cold();
    let moved = place.sandbox.path("moved");
    fs::rename(place.cold(), &moved).unwrap();
    let mut command = place.command(&["archive", "optimize"]);
    command.env("CTXBRIDGE_ARCHIVE_COLD_FOLDER", &moved);
    run(command, b"").done();
    place.assert_all(&[&talks[0], &talks[1]]);
    assert_eq!(place.sandbox.json(&["archive", "status"])["cold_folders"][0]["folder"], moved.to_str().unwrap());
    // Without a folder, what is cold stays so, and is read.
    place.warm();
    place.assert_all(&[&talks[0], &talks[1]]);
    assert_eq!(super::place::files(&moved).len(), 2);
}

#[test]
fn a_damaged_file_is_named_and_spoils_no_other() {
    let (place, talks) = cold();
    let file = place.file(&talks[0]);
    let whole = fs::read(&file).unwrap();
    for damaged in [whole[..10].to_vec(), Vec::new(), [&whole[..40], &[0x55; 20], &whole[60..]].concat()] {
        fs::write(&file, damaged).unwrap();
        let ran = run(place.command(&["archive", "restore", &talks[0].id]), b"").with_code(3);
        assert!(ran.stderr.contains(file.to_str().unwrap()), "{}", ran.stderr);
        place.assert_all(&[&talks[1]]);
        assert_eq!(place.optimize()["back"]["sessions"], 0);
        // It is wanted again, and stays where it is.
        place.use_it_silently(&talks[0]);
        let said = place.optimize();
        assert_eq!(said["failed"][0]["session"], talks[0].id.as_str(), "{said}");
        assert!(said["failed"][0]["error"].as_str().unwrap().contains(file.to_str().unwrap()));
        assert!(file.exists());
    }
    fs::write(&file, whole).unwrap();
    assert_eq!(place.optimize()["back"]["sessions"], 1);
    place.assert_all(&[&talks[0], &talks[1]]);
}

#[test]
fn a_folder_that_cannot_be_one() {
    let place = Place::new();
    let (talk, _) = place.old(1, 10);
    place.import();
    fs::write(place.cold(), "a file").unwrap();
    let said = place.optimize();
    assert!(said["failed"][0]["error"].as_str().unwrap().contains("archive.cold_folder"), "{said}");
    assert_eq!(place.tier(&talk), "hot");
    place.assert_all(&[&talk]);
    for wrong in ["relative/path", "~other/path"] {
        let mut command = place.command(&["archive", "optimize"]);
        command.env("CTXBRIDGE_ARCHIVE_COLD_FOLDER", wrong);
        let ran = run(command, b"").done();
        assert!(ran.stderr.contains("a folder with its whole path"), "{}", ran.stderr);
    }
    fs::remove_file(place.cold()).unwrap();
    assert_eq!(place.optimize()["cold"]["sessions"], 1);
    place.assert_all(&[&talk]);
}

/// One whose bytes are damaged in the database cannot be written to a file.
#[test]
fn one_that_cannot_be_moved_is_not_in_the_way_of_others() {
    let place = Place::new();
    let large = Talk::from(&place.sandbox.generate(ctxbridge_testkit::transcript::Kind::Tools, 400, 2)[0]);
    let (small, _) = place.old(1, 10);
    place.import();
    let db = rusqlite::Connection::open(place.sandbox.database()).unwrap();
    let damage =
        "UPDATE segments SET data = x'00' WHERE id = (SELECT segment FROM layout JOIN transcripts ON transcripts.id = transcript
        JOIN sessions ON sessions.id = transcripts.session WHERE sessions.session = ?1 LIMIT 1)";
    assert_eq!(db.execute(damage, [&large.id]).unwrap(), 1);
    drop(db);
    // Its file would bring them back.
    fs::remove_file(&large.path).unwrap();
    let said = place.optimize();
    assert_eq!(said["failed"][0]["session"], large.id.as_str(), "{said}");
    assert_eq!((place.tier(&large).as_str(), place.tier(&small).as_str()), ("hot", "cold"), "others go on");
    assert!(place.sandbox.restored(&small.id, &[]) == small.bytes());
    assert_eq!(place.files(), [place.file(&small)], "nothing is left of what could not be written");
}

/// An archive of a version before there were tiers is brought up to date, with all it has.
#[test]
fn an_older_archive() {
    let place = Place::new();
    let (talk, _) = place.old(1, 10);
    place.import();
    let db = rusqlite::Connection::open(place.sandbox.database()).unwrap();
    db.execute_batch(
        "DROP TABLE dictionary_copies; DROP TRIGGER dictionary_added; DROP TRIGGER dictionary_gone;
         DROP TRIGGER entry_changed; ALTER TABLE entries DROP COLUMN side_revision;
         CREATE TRIGGER entry_changed AFTER UPDATE OF id, sha256, text ON entries BEGIN INSERT INTO changes (entry) VALUES (new.id); END;
         DROP TABLE folders; DROP INDEX sessions_by_folder; ALTER TABLE sessions DROP COLUMN moved_from;
         ALTER TABLE learned DROP COLUMN is_rewound; ALTER TABLE compactions DROP COLUMN is_rewound;
         ALTER TABLE sessions DROP COLUMN title;
         DROP TABLE imported; DROP TABLE cold; DROP TABLE cold_files; DROP TABLE warm; DROP TABLE dictionaries",
    )
    .unwrap();
    let version: u32 = db.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
    db.pragma_update(None, "user_version", version - 4).unwrap();
    drop(db);
    assert!(place.sandbox.restored(&talk.id, &[]) == talk.bytes());
    place.optimize();
    assert_eq!(place.tier(&talk), "cold");
    place.assert_all(&[&talk]);
}

/// A copy of the data folder, as a backup makes one, needs the files that were there then.
#[test]
fn a_backup_of_the_database_can_be_read_later() {
    let place = Place::new();
    let (talk, _) = place.old(1, 30);
    place.import();
    place.optimize();
    let backup = place.sandbox.path("backup");
    std::fs::create_dir(&backup).unwrap();
    std::fs::copy(place.sandbox.database(), backup.join("archive.db")).unwrap();
    place.use_it(&talk);
    assert_eq!(place.optimize()["back"]["sessions"], 1);
    let mut command = place.command(&["archive", "restore", &talk.id]);
    command.env("CTXBRIDGE_DATA_DIR", &backup);
    assert!(run(command, b"").done().stdout.as_bytes() == talk.bytes());
}

/// Who looks after the archive in a terminal hears of it before it is needed.
#[test]
fn a_file_that_was_cut_off_is_told() {
    let place = Place::new();
    let (talk, _) = place.old(1, 30);
    place.import();
    place.optimize();
    let file = std::fs::OpenOptions::new().write(true).open(place.file(&talk)).unwrap();
    file.set_len(100).unwrap();
    let said = place.optimize();
    assert!(said["failed"].to_string().contains("has 100 bytes instead of"), "{said}");
}
