//! Archives that nobody's hook wrote.

use std::fs;

use ctxbridge_testkit::sandbox::{Sandbox, run};
use rusqlite::params;
use serde_json::{Value, json};

use super::theirs::{NOW, Theirs, open, put};
use super::{counts, database, import, project, store, turns_of};
use ctxbridge::archive::store::{SearchStore, SessionReader};

fn failure(told: &Value, id: &str) -> String {
    let failed = told["failed"].as_array().unwrap().iter().find(|failed| failed["id"] == id);
    failed.unwrap_or_else(|| panic!("{id}: {told}"))["reason"].as_str().unwrap().to_owned()
}

#[test]
fn odd_rows_are_read_as_far_as_they_go() {
    let sandbox = Sandbox::new();
    let db = open(&database(&sandbox));
    put(&db, &[Theirs::new(0, "s", "An ordinary question?", "Yes.")]);
    let insert = |id: &str, key: &str, content: &dyn rusqlite::ToSql, session: &dyn rusqlite::ToSql, metadata: &str| {
        db.execute(
            "INSERT INTO transcript_entries (id, key, content, session_id, metadata, created_at, updated_at, last_accessed_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, 'soon', x'00')",
            params![id, key, content, session, metadata, NOW],
        )
        .unwrap();
    };
    let none = rusqlite::types::Null;
    insert("blob", "transcript:s:1:t", &b"User: a\xff\n\nAssistant: b".to_vec(), &"s", "{");
    insert("number", "", &7, &none, "[]");
    insert("path", "x", &"User: up\n\nAssistant: and away", &"../../../etc/passwd", "{}");
    insert("no-parts", "transcript", &"neither asked nor answered", &none, "{\"sessionId\":{}}");
    insert("by-key", "transcript:of-the-key:3:t", &"User: x\n\nAssistant: y", &none, "null");
    insert("\u{1b}[31mred\u{7}", "k", &"User: x\n\nAssistant: z", &"\u{1b}]0;title\u{7}", "{}");
    insert("empty", "k", &"", &"s", "{}");
    insert("long", "k", &"x".repeat((16 << 20) + 1), &"s", "{}");
    db.execute("INSERT INTO transcript_entries (id, key, content, created_at, updated_at, last_accessed_at) VALUES (NULL, 'k', 'User: no\n\nAssistant: id', 'x', 0, 0)", []).unwrap();
    db.execute("UPDATE transcript_entries SET metadata = zeroblob(2000000) WHERE id = 'by-key'", []).unwrap();
    insert("huge", "k", &none_blob(&db), &"s", "{}");
    db.execute("UPDATE transcript_entries SET content = zeroblob(100 << 20) WHERE id = 'huge'", []).unwrap();
    let nan: Vec<u8> = [f32::NAN; 384].iter().flat_map(|value| value.to_le_bytes()).collect();
    db.execute("UPDATE transcript_entries SET embedding = ?1, confidence = 'very', access_count = -5 WHERE id = 'blob'", [&nan])
        .unwrap();
    db.execute("UPDATE transcript_entries SET embedding = zeroblob(2000000), confidence = 9e99 WHERE id = 'path'", []).unwrap();
    drop(db);
    let told = import(&sandbox, &project(&sandbox));
    let [new, ..] = counts(&told);
    assert_eq!(new, 7, "{told}");
    assert!(failure(&told, "empty").contains("empty"));
    assert!(failure(&told, "long").contains("16777217 bytes") && failure(&told, "huge").contains("104857600 bytes"));
    assert!(failure(&told, "by-key").contains("metadata has 2000000 bytes"));
    assert!(failure(&told, "blob").contains("numbers that are none") && failure(&told, "path").contains("too large"));
    let mut store = store(&sandbox);
    assert_eq!(store.imported_embeddings(0, 10).unwrap(), []);
    let mut sessions: Vec<_> = store.sessions("", None, 10).unwrap().into_iter().map(|session| session.session).collect();
    sessions.sort();
    assert_eq!(sessions, ["\u{1b}]0;title\u{7}", "../../../etc/passwd", "claude-flow", "s"]);
    drop(store);
    let turns = turns_of(&sandbox, "../../../etc/passwd");
    assert_eq!((turns.len(), turns[0].confidence), (1, 1.0));
    assert!(String::from_utf8(sandbox.restored("../../../etc/passwd", &[])).unwrap().contains("and away"));
    // Nothing of it is obeyed by a terminal.
    let text =
        run(sandbox.command(&["archive", "import", "--from", "claude-flow", project(&sandbox).to_str().unwrap()]), b"").done();
    assert!(!text.stdout.contains('\u{1b}') && !text.stderr.contains('\u{1b}'), "{text:?}");
    // The same again: nothing new.
    assert_eq!(counts(&import(&sandbox, &project(&sandbox)))[..3], [0, 0, 7]);
}

/// A value that does not matter.
fn none_blob(db: &rusqlite::Connection) -> Vec<u8> {
    db.query_row("SELECT x'41'", [], |row| row.get(0)).unwrap()
}

#[test]
fn a_json_file_of_a_gigabyte_is_not_read() {
    let sandbox = Sandbox::new();
    let path = project(&sandbox).join(".claude-flow/data/transcript-archive.json");
    fs::File::create(&path).unwrap().set_len(1 << 30).unwrap();
    let ran = run(sandbox.command(&["archive", "import", "--from", "claude-flow", path.to_str().unwrap()]), b"").with_code(3);
    assert!(ran.stderr.contains("1073741824 bytes") && ran.stderr.contains("268435456"), "{}", ran.stderr);
}

#[test]
fn items_of_any_kind_are_passed_over_or_read() {
    let sandbox = Sandbox::new();
    let path = project(&sandbox).join(".claude-flow/data/transcript-archive.json");
    let deep = "[".repeat(100_000);
    let list = json!([
        7, null, "x", [], {}, { "id": "a", "content": 3 }, { "id": "b", "content": "User: q\n\nAssistant: r" },
        { "id": "b", "content": "User: q\n\nAssistant: r" }, { "id": "b", "content": "User: q\n\nAssistant: other" },
        { "id": ["c"], "content": "User: c\n\nAssistant: d", "tags": {}, "metadata": [1, 2], "accessCount": "many", "embedding": [1, "x"] },
    ]);
    let text = list.to_string();
    fs::write(&path, format!("{},{deep}", text.strip_suffix(']').unwrap())).unwrap();
    let told = import(&sandbox, &path);
    let [new, matched, unchanged, _] = counts(&told);
    assert_eq!((new, matched, unchanged), (3, 0, 1), "{told}");
    assert!(told["failed"].as_array().unwrap().iter().any(|failed| failed["reason"].as_str().unwrap().contains("breaks off")));
    assert_eq!(turns_of(&sandbox, "claude-flow").len(), 3);
}
