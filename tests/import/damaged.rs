//! Archives of theirs that are broken: what can be read is, and what cannot is named.

use std::fs;

use ctxbridge_testkit::sandbox::{Sandbox, run};

use super::theirs::{Theirs, database as write, json_file};
use super::{counts, database, import, project, turns_of};

fn rows(number: usize) -> Vec<Theirs> {
    let answer = |number: usize| format!("Answer {number}: {}", "a word or two ".repeat(20));
    (0..number).map(|number| Theirs::new(number, "s", &format!("Question {number}?"), &answer(number))).collect()
}

/// Their database with these bytes of it overwritten.
fn spoiled(sandbox: &Sandbox, rows: &[Theirs], page: usize) {
    let path = database(sandbox);
    write(&path, rows);
    let mut bytes = fs::read(&path).unwrap();
    bytes[page * 4096..(page + 1) * 4096].fill(0xa5);
    fs::write(&path, bytes).unwrap();
}

#[test]
fn a_page_that_is_gone_costs_the_rows_that_are_in_it() {
    let rows = rows(300);
    let pages = {
        let sandbox = Sandbox::new();
        write(&database(&sandbox), &rows);
        fs::metadata(database(&sandbox)).unwrap().len() as usize / 4096
    };
    let (mut lost_some, mut hopeless) = (0, 0);
    for page in (1..pages).step_by(pages / 12) {
        let sandbox = Sandbox::new();
        spoiled(&sandbox, &rows, page);
        let ran = run(
            sandbox.command(&["archive", "import", "--json", "--from", "claude-flow", database(&sandbox).to_str().unwrap()]),
            b"",
        );
        if ran.code == Some(3) {
            // The root of the table, or what says which tables there are: nothing is left to go by, which is said.
            assert!(ran.stderr.contains("transcript-archive.db"), "{}", ran.stderr);
            hopeless += 1;
            continue;
        }
        let told = ran.done().json();
        let [new, _, _, failed] = counts(&told);
        let read = turns_of(&sandbox, "s").len() as u64;
        assert_eq!(read, new);
        if new < 300 {
            lost_some += 1;
            assert!(failed > 0, "page {page}: what is missing is said: {told}");
            assert!(new > 200, "page {page}: {new} of 300 were read");
        }
    }
    assert!(lost_some > 0 && hopeless <= 2, "{lost_some} pages had rows, {hopeless} all of them");
}

#[test]
fn what_is_no_archive_of_theirs_is_said() {
    let sandbox = Sandbox::new();
    let path = database(&sandbox);
    let refused = |expected: &str| {
        let ran = run(sandbox.command(&["archive", "import", "--from", "claude-flow", path.to_str().unwrap()]), b"").with_code(3);
        assert!(ran.stderr.contains(expected) && ran.stderr.contains("transcript-archive.db"), "{expected}: {}", ran.stderr);
    };
    fs::write(&path, "this is no database, however long it may be; ".repeat(200)).unwrap();
    refused("not a database");
    fs::write(&path, "").unwrap();
    refused("no table transcript_entries");
    fs::remove_file(&path).unwrap();
    rusqlite::Connection::open(&path).unwrap().execute_batch("CREATE TABLE memory_entries (id TEXT, content TEXT)").unwrap();
    refused("no table transcript_entries");
    fs::remove_file(&path).unwrap();
    let view = "CREATE TABLE a (id TEXT, content TEXT); CREATE VIEW transcript_entries AS SELECT * FROM a";
    rusqlite::Connection::open(&path).unwrap().execute_batch(view).unwrap();
    refused("no table transcript_entries");
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    let ran = run(sandbox.command(&["archive", "import", "--from", "claude-flow", path.to_str().unwrap()]), b"").with_code(1);
    assert!(ran.stderr.contains("no archive"), "{}", ran.stderr);
}

#[test]
fn a_json_file_that_breaks_off_has_what_stands_before() {
    let sandbox = Sandbox::new();
    let path = project(&sandbox).join(".claude-flow/data/transcript-archive.json");
    json_file(&path, &rows(20));
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    let told = import(&sandbox, &path);
    let [new, _, _, failed] = counts(&told);
    assert!((8..=11).contains(&new) && failed == 1, "{told}");
    assert!(told["failed"][0]["id"].is_null() && told["failed"][0]["reason"].as_str().unwrap().contains("breaks off"), "{told}");
    // Whole again, the rest comes in.
    fs::write(&path, &bytes).unwrap();
    assert_eq!(counts(&import(&sandbox, &path)), [20 - new, 0, new, 0]);
    assert_eq!(turns_of(&sandbox, "s").len(), 20);
    for text in ["{\"entries\": []}", "", "null"] {
        fs::write(&path, text).unwrap();
        let ran = run(sandbox.command(&["archive", "import", "--from", "claude-flow", path.to_str().unwrap()]), b"").with_code(3);
        assert!(ran.stderr.contains("no list of entries"), "{}", ran.stderr);
    }
}

#[test]
fn one_that_cannot_be_read_does_not_hide_the_other() {
    let sandbox = Sandbox::new();
    fs::write(database(&sandbox), "this is no database, however long it may be; ".repeat(200)).unwrap();
    json_file(&project(&sandbox).join(".claude-flow/data/transcript-archive.json"), &rows(3));
    let told = import(&sandbox, &project(&sandbox));
    assert_eq!(counts(&told), [3, 0, 0, 1]);
}
