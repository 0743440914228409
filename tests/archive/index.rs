//! The search index is a cache: whatever happens to it, search works, and says what happened.

use std::fs;

use ctxbridge_testkit::sandbox::{Sandbox, run};
use rusqlite::Connection;
use serde_json::{Value, json};

use super::lines::Lines;

fn search(sandbox: &Sandbox, words: &str) -> Value {
    let ran = run(sandbox.command(&["archive", "search", "--json", "--mode", "lexical", words]), b"");
    assert!(ran.code == Some(0) || ran.code == Some(1), "{}", ran.stderr);
    serde_json::from_str(&ran.stdout).unwrap()
}

fn sessions(found: &Value) -> Vec<&str> {
    found["results"].as_array().unwrap().iter().map(|result| result["session"].as_str().unwrap()).collect()
}

/// Two sessions, and an index of them.
fn indexed() -> Sandbox {
    let sandbox = Sandbox::new();
    for (number, about) in [(1, "herons in the reeds"), (2, "otters by the river")] {
        let mut lines = Lines::of("s").seed(number);
        let talk = sandbox.talk(number as u32, lines.turn(&format!("What do we know of {about}?")));
        sandbox.hook("stop", &talk.input());
    }
    assert_eq!(sessions(&search(&sandbox, "herons")).len(), 1);
    sandbox
}

fn raw(sandbox: &Sandbox) -> Connection {
    Connection::open(sandbox.data().join("search.db")).unwrap()
}

#[test]
fn a_table_that_is_not_what_it_was_is_mended_when_it_is_met() {
    for damage in [
        "DROP TABLE tool_words",
        "DROP TABLE words; CREATE TABLE words (x)",
        "DELETE FROM words_data WHERE id > 10",
        "UPDATE words_data SET block = x'00ff' WHERE id > 10",
        "DROP TABLE excerpts",
        "DROP TABLE notes",
        "UPDATE notes SET value = '1' WHERE key = 'version'",
        "PRAGMA user_version = 99",
    ] {
        let sandbox = indexed();
        raw(&sandbox).execute_batch(damage).unwrap();
        let found = search(&sandbox, "\"herons\" reeds");
        assert_eq!(sessions(&found).len(), 1, "{damage}");
        assert!(found["notes"][0].as_str().is_some_and(|note| note.contains("has been made anew")), "{damage}: {found}");
        assert_eq!(search(&sandbox, "otters")["notes"], json!([]), "{damage}: once");
    }
}

#[test]
fn excerpts_that_are_damaged_or_lost_hide_only_their_own() {
    let sandbox = indexed();
    raw(&sandbox).execute_batch("UPDATE excerpts SET data = x'28b52ffd00' WHERE entry = 1").unwrap();
    assert_eq!(sessions(&search(&sandbox, "herons otters")).len(), 1);
}

#[test]
fn another_archive_in_its_place_is_noticed() {
    let sandbox = indexed();
    let other = Sandbox::new();
    for (number, about) in [(1, "owls"), (2, "badgers")] {
        let talk = other.talk(number as u32, Lines::of("s").seed(7 + number).turn(&format!("What do we know of {about}?")));
        other.hook("stop", &talk.input());
    }
    for suffix in ["", "-wal", "-shm"] {
        let (from, to) = (other.data().join(format!("archive.db{suffix}")), sandbox.data().join(format!("archive.db{suffix}")));
        fs::remove_file(&to).ok();
        fs::copy(from, to).ok();
    }
    assert_eq!(sessions(&search(&sandbox, "herons")).len(), 0);
    assert_eq!(sessions(&search(&sandbox, "badgers")).len(), 1);
}

#[test]
fn an_index_that_another_process_writes_is_searched_as_it_is() {
    let sandbox = indexed();
    let writer = raw(&sandbox);
    writer.execute_batch("BEGIN IMMEDIATE").unwrap();
    let talk = sandbox.talk(3, Lines::of("s").seed(3).turn("And of herons at night?"));
    sandbox.hook("stop", &talk.input());
    let found = search(&sandbox, "herons");
    assert_eq!(sessions(&found).len(), 1);
    assert!(found["notes"][0].as_str().unwrap().contains("another ctxbridge is writing the search index"), "{found}");
    writer.execute_batch("ROLLBACK").unwrap();
    let found = search(&sandbox, "herons");
    assert_eq!((sessions(&found).len(), &found["notes"]), (2, &json!([])));
}

#[test]
fn a_dry_run_looks_at_an_index_and_leaves_it_as_it_is() {
    let sandbox = indexed();
    let index = sandbox.data().join("search.db");
    let dry = || sandbox.json(&["archive", "optimize", "--dry-run"])["indexed"].clone();
    assert_eq!(dry(), 0);
    let talk = sandbox.talk(3, Lines::of("s").seed(3).turn("And of herons at night?"));
    sandbox.hook("stop", &talk.input());
    assert_eq!(dry(), 1);
    fs::remove_file(sandbox.data().join("search.db-wal")).ok();
    fs::write(&index, "no index").unwrap();
    assert_eq!(dry(), 3, "all of it would be made anew");
    assert_eq!(fs::read(&index).unwrap(), b"no index");
    fs::remove_file(&index).unwrap();
    assert_eq!(dry(), 3);
    assert!(!index.exists());
}

/// What another session goes on from is in both; the filter decides which of them is shown.
#[test]
fn of_several_places_one_that_is_let_through_is_shown() {
    let sandbox = Sandbox::new();
    let mut lines = Lines::of("s");
    let shared = lines.turn("What do we know of herons?");
    let (one, two) = (sandbox.talk(1, &shared), sandbox.talk(2, shared.clone() + &lines.turn("And of reeds?")));
    for talk in [&one, &two] {
        sandbox.hook("stop", &talk.input());
    }
    for talk in [&one, &two] {
        let found = sandbox.json(&["archive", "search", "--mode", "lexical", "--session", &talk.id, "herons"]);
        assert!(sessions(&found).iter().all(|session| *session == talk.id) && !sessions(&found).is_empty(), "{found}");
    }
    let found = sandbox.json(&["archive", "search", "--mode", "lexical", "herons"]);
    let about = |result: &&Value| result["summary"].as_str().unwrap().starts_with("What do we know of herons?");
    assert_eq!(found["results"].as_array().unwrap().iter().filter(about).count(), 1, "{found}");
}

#[test]
fn turns_that_begin_alike_are_not_the_same() {
    let sandbox = Sandbox::new();
    let mut lines = Lines::of("s");
    let begin = "Fix the flaky test, please. ".repeat(40);
    let mut turn = |answer: &str| lines.prompt(&begin) + &lines.answer(answer);
    let talk = sandbox.talk(1, turn("The clock was mocked.") + &turn("The port was taken.") + &turn("The port  was taken."));
    sandbox.hook("stop", &talk.input());
    let found = sandbox.json(&["archive", "search", "--mode", "lexical", "flaky"]);
    let results = found["results"].as_array().unwrap();
    let mut duplicates: Vec<u64> = results.iter().map(|result| result["duplicates"].as_u64().unwrap()).collect();
    duplicates.sort_unstable();
    assert_eq!(duplicates, [0, 1], "{found}");
}
