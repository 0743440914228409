//! The archive changes while the server runs, and never by it.

use std::fs;

use rusqlite::Connection;
use serde_json::json;

use super::sandbox::{World, handle};

#[test]
fn every_call_sees_what_was_archived_before_it() {
    let world = World::new();
    let mut server = world.server();
    assert_eq!(server.answer("search", json!({ "query": "ospreys" })).all("hits", "handle"), [""; 0]);
    world.session(1, &[("Ospreys?", "They fish.")]);
    assert_eq!(server.answer("search", json!({ "query": "ospreys" })).all("hits", "handle"), [handle(1, 0)]);
    world.session(1, &[("Ospreys?", "They fish."), ("And plovers?", "They run.")]);
    assert_eq!(server.answer("search", json!({ "query": "plovers run" })).all("hits", "handle")[0], handle(1, 1));
    world.session(2, &[("Herons?", "They stand.")]);
    assert_eq!(server.answer("search", json!({ "query": "herons" })).all("hits", "handle"), [handle(2, 0)]);
    assert_eq!(server.answer("timeline", json!({ "session": "1a" })).all("events", "handle"), [handle(1, 0), handle(1, 1)]);
    assert_eq!(server.answer("session", json!({})).value["sessions"].as_array().unwrap().len(), 2);
}

#[test]
fn a_large_archive_is_indexed_over_several_searches() {
    let world = World::new();
    let turns: Vec<(String, String)> = (0..200).map(|n| (format!("Bird {n}?"), format!("Feather number {n}."))).collect();
    for number in 1..=3 {
        let turns: Vec<(&str, String)> = turns.iter().map(|(p, a)| (p.as_str(), format!("{a} Of session {number}."))).collect();
        let turns: Vec<(&str, &str)> = turns.iter().map(|(prompt, answer)| (*prompt, answer.as_str())).collect();
        world.session(number, &turns);
    }
    let mut server = world.server();
    let first = server.answer("search", json!({ "query": "feather" }));
    assert!(first.text.contains("ctxbridge archive optimize"), "{}", first.text);
    let second = server.answer("search", json!({ "query": "feather" }));
    assert_eq!(second.value["notes"], json!(null), "{}", second.text);
}

#[test]
fn an_idle_server_is_in_nobodys_way_when_the_archive_is_healed() {
    let world = World::new();
    world.session(1, &[("Ospreys?", "They fish.")]);
    let mut server = world.server();
    server.answer("search", json!({ "query": "ospreys" }));

    // The transcript is still there, so all of it comes back.
    for suffix in ["-wal", "-shm"] {
        fs::remove_file(world.data().join(format!("archive.db{suffix}"))).ok();
    }
    fs::write(world.data().join("archive.db"), "no database at all, but long enough to be taken for a damaged one").unwrap();
    let output = world.command(&["archive", "import"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(world.data().join("archive.db.damaged-1").exists(), "{output:?}");

    world.session(2, &[("Herons?", "They stand.")]);
    for (query, found) in [("ospreys", handle(1, 0)), ("herons", handle(2, 0))] {
        assert_eq!(server.answer("search", json!({ "query": query })).all("hits", "handle"), [found]);
    }
    server.close();
    assert!(server.end().success());
    let sound: String = Connection::open(world.data().join("archive.db"))
        .unwrap()
        .query_row("SELECT group_concat(integrity_check) || count(*) FROM pragma_integrity_check", [], |row| row.get(0))
        .unwrap();
    assert_eq!(sound, "ok1");
    let restored = world.command(&["archive", "sessions", "--json"]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&restored.stdout).matches("\"session\":").count(), 2, "{restored:?}");
}

#[test]
fn a_damaged_archive_is_said() {
    let world = World::new();
    world.session(1, &[("Ospreys?", "They fish.")]);
    let mut server = world.server();
    for suffix in ["-wal", "-shm"] {
        fs::remove_file(world.data().join(format!("archive.db{suffix}"))).ok();
    }
    fs::write(world.data().join("archive.db"), "no database at all, but long enough to be taken for a damaged one").unwrap();
    let answer = server.answer("search", json!({ "query": "ospreys" }));
    assert!(answer.text.contains("ctxbridge archive import"), "{}", answer.text);
}

#[test]
fn nothing_is_written_to_the_archive() {
    let world = World::new();
    let session = world.session(1, &[("Ospreys?", "They fish."), ("Plovers?", "They run.")]);
    let dump = || {
        let db = Connection::open(world.data().join("archive.db")).unwrap();
        let mut dump = Vec::new();
        for table in ["sessions", "transcripts", "segments", "layout", "entries", "turns", "compactions", "notes"] {
            let mut statement = db
                .prepare(&format!("SELECT * FROM {table} ORDER BY rowid"))
                .or_else(|_| db.prepare(&format!("SELECT * FROM {table}")))
                .unwrap();
            let columns = statement.column_count();
            let mut rows = statement.query([]).unwrap();
            while let Some(row) = rows.next().unwrap() {
                dump.push(format!("{table} {:?}", (0..columns).map(|at| row.get_ref(at).unwrap()).collect::<Vec<_>>()));
            }
        }
        dump
    };
    let before = dump();
    assert!(before.len() > 5);
    let mut server = world.server();
    server.answer("search", json!({ "query": "ospreys" }));
    server.answer("recall", json!({ "handle": handle(1, 0) }));
    server.answer("timeline", json!({ "session": session }));
    server.answer("session", json!({ "session": session }));
    server.request("resources/read", json!({ "uri": format!("ctxbridge://turn/{}", handle(1, 1)) }));
    server.close();
    server.end();
    assert_eq!(dump(), before);
}
