//! The archive changes while the server runs, and never by it.

use std::fs;

use ctxbridge_testkit::sandbox::Sandbox;
use rusqlite::Connection;
use serde_json::json;

use super::server::Server;
use super::{archive_session, handle};

#[test]
fn every_call_sees_what_was_archived_before_it() {
    let sandbox = Sandbox::new();
    let mut server = Server::start(&sandbox);
    assert_eq!(server.answer("search", json!({ "query": "ospreys" })).all("hits", "handle"), [""; 0]);
    archive_session(&sandbox, 1, &[("Ospreys?", "They fish.")]);
    assert_eq!(server.answer("search", json!({ "query": "ospreys" })).all("hits", "handle"), [handle(1, 0)]);
    archive_session(&sandbox, 1, &[("Ospreys?", "They fish."), ("And plovers?", "They run.")]);
    assert_eq!(server.answer("search", json!({ "query": "plovers run" })).all("hits", "handle")[0], handle(1, 1));
    archive_session(&sandbox, 2, &[("Herons?", "They stand.")]);
    let herons = json!({ "query": "herons", "mode": "lexical" });
    assert_eq!(server.answer("search", herons).all("hits", "handle"), [handle(2, 0)]);
    assert_eq!(server.answer("timeline", json!({ "session": "1a" })).all("events", "handle"), [handle(1, 0), handle(1, 1)]);
    assert_eq!(server.answer("session", json!({})).value["sessions"].as_array().unwrap().len(), 2);
}

#[test]
fn a_large_archive_is_indexed_over_several_searches() {
    let sandbox = Sandbox::new();
    let turns: Vec<(String, String)> = (0..200).map(|n| (format!("Bird {n}?"), format!("Feather number {n}."))).collect();
    for number in 1..=3 {
        let turns: Vec<(&str, String)> = turns.iter().map(|(p, a)| (p.as_str(), format!("{a} Of session {number}."))).collect();
        let turns: Vec<(&str, &str)> = turns.iter().map(|(prompt, answer)| (*prompt, answer.as_str())).collect();
        archive_session(&sandbox, number, &turns);
    }
    let mut server = Server::start(&sandbox);
    let first = server.answer("search", json!({ "query": "feather" }));
    assert!(first.text.contains("ctxbridge archive optimize"), "{}", first.text);
    let second = server.answer("search", json!({ "query": "feather" }));
    assert_eq!(second.value["notes"], json!(null), "{}", second.text);
}

#[test]
fn an_idle_server_is_in_nobodys_way_when_the_archive_is_healed() {
    let sandbox = Sandbox::new();
    archive_session(&sandbox, 1, &[("Ospreys?", "They fish.")]);
    let mut server = Server::start(&sandbox);
    server.answer("search", json!({ "query": "ospreys" }));

    // The transcript is still there, so all of it comes back.
    for suffix in ["-wal", "-shm"] {
        fs::remove_file(sandbox.data().join(format!("archive.db{suffix}"))).ok();
    }
    fs::write(sandbox.database(), "no database at all, but long enough to be taken for a damaged one").unwrap();
    let output = sandbox.command(&["archive", "import"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(sandbox.data().join("archive.db.damaged-1").exists(), "{output:?}");

    archive_session(&sandbox, 2, &[("Herons?", "They stand.")]);
    for (query, found) in [("ospreys", handle(1, 0)), ("herons", handle(2, 0))] {
        let query = json!({ "query": query, "mode": "lexical" });
        assert_eq!(server.answer("search", query).all("hits", "handle"), [found]);
    }
    server.close();
    assert!(server.end().success());
    let sound: String = Connection::open(sandbox.database())
        .unwrap()
        .query_row("SELECT group_concat(integrity_check) || count(*) FROM pragma_integrity_check", [], |row| row.get(0))
        .unwrap();
    assert_eq!(sound, "ok1");
    let restored = sandbox.command(&["archive", "sessions", "--json"]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&restored.stdout).matches("\"session\":").count(), 2, "{restored:?}");
}

#[test]
fn a_damaged_archive_is_said() {
    let sandbox = Sandbox::new();
    archive_session(&sandbox, 1, &[("Ospreys?", "They fish.")]);
    let mut server = Server::start(&sandbox);
    for suffix in ["-wal", "-shm"] {
        fs::remove_file(sandbox.data().join(format!("archive.db{suffix}"))).ok();
    }
    fs::write(sandbox.database(), "no database at all, but long enough to be taken for a damaged one").unwrap();
    let answer = server.answer("search", json!({ "query": "ospreys" }));
    assert!(answer.text.contains("ctxbridge archive import"), "{}", answer.text);
}

#[test]
fn nothing_is_written_to_the_archive() {
    let sandbox = Sandbox::new();
    let session = archive_session(&sandbox, 1, &[("Ospreys?", "They fish."), ("Plovers?", "They run.")]);
    let dump = || {
        let db = Connection::open(sandbox.database()).unwrap();
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
    let mut server = Server::start(&sandbox);
    server.answer("search", json!({ "query": "ospreys" }));
    server.answer("recall", json!({ "handle": handle(1, 0) }));
    server.answer("timeline", json!({ "session": session }));
    server.answer("session", json!({ "session": session }));
    server.request("resources/read", json!({ "uri": format!("ctxbridge://turn/{}", handle(1, 1)) }));
    server.close();
    server.end();
    assert_eq!(dump(), before);
}
