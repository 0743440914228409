//! Sessions that only they have: their entries become turns, with all that was known of them.

use std::collections::BTreeSet;

use ctxbridge_testkit::sandbox::{FOLDER, Sandbox, run};
use ctxbridge_testkit::transcript::{Kind, Spec, generate};
use serde_json::Value;

use super::theirs::{NOW, Theirs, database as write, json_file, of_transcript, open, put};
use super::{counts, database, found, import, project, store, turns_of};
use ctxbridge::archive::store::{SearchStore, SessionReader, UsageWriter};

/// What their hook keeps of a generated session, somewhere where its transcript is not found.
fn generated(sandbox: &Sandbox, kind: Kind, seed: u64) -> (String, Vec<Theirs>) {
    let made = generate(&Spec::new(kind, 120, seed), &sandbox.path("elsewhere")).unwrap();
    let session = &made.sessions[0];
    (session.id.clone(), of_transcript(&std::fs::read(&session.path).unwrap(), &session.id))
}

#[test]
fn everything_is_kept_and_nothing_is_doubled() {
    let sandbox = Sandbox::new();
    let (chat, mut rows) = generated(&sandbox, Kind::Chat, 1);
    let (tools, of_tools) = generated(&sandbox, Kind::Tools, 2);
    rows.extend(of_tools);
    for (number, one) in rows.iter_mut().enumerate() {
        one.access_count = (number % 4) as i64;
        one.accessed_ms = NOW + number as i64;
        one.confidence = 0.1 + 0.9 * (number % 10) as f64 / 10.0;
    }
    write(&database(&sandbox), &rows);
    let told = import(&sandbox, &project(&sandbox));
    assert_eq!((told["from"].as_str(), told["sessions"].as_u64()), (Some("claude-flow"), Some(2)));
    assert_eq!(told["sources"], serde_json::json!([database(&sandbox)]));
    assert_eq!(counts(&told), [rows.len() as u64, 0, 0, 0]);

    for session in [&chat, &tools] {
        // Each entry is in the transcript, whole, with what was known of it.
        let lines: Vec<Value> = sandbox
            .restored(session, &[])
            .split(|byte| *byte == b'\n')
            .filter_map(|line| serde_json::from_slice(line).ok())
            .collect();
        let ids: BTreeSet<&str> = lines.iter().filter_map(|line| line["claudeFlow"]["id"].as_str()).collect();
        let of_session = || rows.iter().filter(|one| one.session == **session);
        assert_eq!(ids, of_session().map(|one| one.id.as_str()).collect());
        let text: String = lines.iter().map(|line| said(line) + "\n").collect();
        for one in of_session() {
            let line = lines.iter().find(|line| line["claudeFlow"]["id"] == one.id.as_str()).unwrap();
            assert_eq!(line["claudeFlow"]["key"], one.key().as_str());
            assert_eq!(line["claudeFlow"]["metadata"], one.metadata());
            assert_eq!(line["sessionId"], session.as_str());
            let (asked, answered) = one.content[6..].split_once("\n\nAssistant: ").unwrap();
            assert!(text.contains(asked) && text.contains(answered), "{one:?}");
        }
        let turns = turns_of(&sandbox, session);
        assert!(!turns.is_empty() && turns.iter().all(|turn| turn.turn.started_ms == NOW));
        let named: BTreeSet<&String> = turns.iter().flat_map(|turn| turn.turn.tools.iter().chain(&turn.turn.files)).collect();
        assert_eq!(named, of_session().flat_map(|one| one.tools.iter().chain(&one.files)).collect());
    }
    // In a chat, each of theirs is a turn of ours.
    for (turn, one) in turns_of(&sandbox, &chat).iter().zip(&rows) {
        assert_eq!(i64::from(turn.access_count), one.access_count);
        assert!((turn.confidence - one.confidence).abs() < 1e-6, "{} {}", turn.confidence, one.confidence);
    }
    let before = (sandbox.restored(&chat, &[]), sandbox.json(&["archive", "status"])["turns"].clone());
    let again = import(&sandbox, &project(&sandbox));
    assert_eq!(counts(&again), [0, 0, rows.len() as u64, 0]);
    assert_eq!((again["updated"].as_u64(), again["embeddings"].as_u64()), (Some(0), Some(0)));
    assert_eq!(before, (sandbox.restored(&chat, &[]), sandbox.json(&["archive", "status"])["turns"].clone()));

    // The same from another place, and from the JSON file, is the same.
    json_file(&sandbox.path("project/.claude-flow/data/transcript-archive.json"), &rows);
    let copy = sandbox.path("transcript-archive.db");
    std::fs::copy(database(&sandbox), &copy).unwrap();
    assert_eq!(counts(&import(&sandbox, &project(&sandbox))), [0, 0, 2 * rows.len() as u64, 0]);
    assert_eq!(counts(&import(&sandbox, &copy)), [0, 0, rows.len() as u64, 0]);
    assert_eq!(before.1, sandbox.json(&["archive", "status"])["turns"]);
}

fn said(line: &Value) -> String {
    match &line["message"]["content"] {
        Value::String(text) => text.clone(),
        blocks => blocks.as_array().unwrap().iter().filter_map(|block| block["text"].as_str()).collect(),
    }
}

#[test]
fn turns_are_found_shown_and_exported() {
    let sandbox = Sandbox::new();
    let mut rows = vec![
        Theirs::new(0, "older", "Where do ospreys nest?", "On poles near the water."),
        Theirs::new(1, "older", "And plovers?", ""),
        Theirs::new(1, "older", "And plovers?", "I look it up."),
        Theirs::new(1, "older", "And plovers?", "On shingle, in the open."),
    ];
    for (number, one) in rows.iter_mut().enumerate() {
        one.id = format!("ctx-{number}");
        one.at_ms += number as i64;
    }
    rows[3].tools = vec!["Read".to_owned()];
    rows[3].files = vec!["/notes/birds.md".to_owned()];
    json_file(&sandbox.path("transcript-archive.json"), &rows);
    assert_eq!(counts(&import(&sandbox, &sandbox.path("transcript-archive.json"))), [4, 0, 0, 0]);
    let turns = turns_of(&sandbox, "older");
    assert_eq!(turns.len(), 2, "what was written down while it went on is one turn: {turns:#?}");
    assert_eq!((&turns[1].turn.tools, &turns[1].turn.files), (&rows[3].tools, &rows[3].files));
    let [(handle, text)] = &found(&sandbox, "shingle")[..] else { panic!("{:?}", found(&sandbox, "shingle")) };
    assert!(text.contains("On shingle"), "{text}");
    let shown = sandbox.cli(&["archive", "show", handle]).stdout;
    assert!(shown.contains("And plovers?") && shown.contains("I look it up."), "{shown}");
    assert!(sandbox.cli(&["recall", handle]).stdout.contains("On shingle, in the open."));
    let exported = sandbox.cli(&["archive", "export", "older", "--format", "markdown"]).stdout;
    assert!(exported.contains("On poles near the water.") && exported.contains("/notes/birds.md"), "{exported}");
}

#[test]
fn what_grew_there_is_taken_over_and_nothing_is_lowered() {
    let sandbox = Sandbox::new();
    let mut rows: Vec<Theirs> = (0..3).map(|number| Theirs::new(number, "s", &format!("Question {number}?"), "Yes.")).collect();
    let db = open(&database(&sandbox));
    put(&db, &rows);
    import(&sandbox, &database(&sandbox));
    // Here, the last one was restored more often than there.
    let entries: Vec<i64> = turns_of(&sandbox, "s").iter().map(|turn| turn.entry).collect();
    for _ in 0..5 {
        store(&sandbox).touch(&entries[2..], NOW).unwrap();
    }
    for (one, count) in rows.iter_mut().zip([0, 7, 2]) {
        one.access_count = count;
        one.confidence = if count == 0 { 0.3 } else { 0.85 };
        one.accessed_ms = NOW + 1_000;
    }
    rows.push(Theirs::new(3, "s", "One more?", "Yes."));
    // The turn that was open when it was written down.
    let mut grown = rows[3].clone();
    grown.id += "-grown";
    grown.at_ms += 1;
    grown.content += " And it is done.";
    rows.push(grown);
    put(&db, &rows);
    let told = import(&sandbox, &database(&sandbox));
    assert_eq!(counts(&told), [2, 0, 3, 0]);
    // The last one only learns that it was restored later than here.
    assert_eq!(told["updated"], 2, "{told}");
    let turns = turns_of(&sandbox, "s");
    assert_eq!(turns.iter().map(|turn| turn.access_count).collect::<Vec<_>>(), [0, 7, 5, 0]);
    let confidence: Vec<_> = turns.iter().map(|turn| (turn.confidence * 100.0).round()).collect();
    assert_eq!(confidence, [80.0, 85.0, 95.0, 80.0]);
    // What is gone there stays here.
    db.execute("DELETE FROM transcript_entries WHERE chunk_index < 2", []).unwrap();
    assert_eq!(counts(&import(&sandbox, &database(&sandbox))), [0, 0, 3, 0]);
    assert_eq!(turns_of(&sandbox, "s").len(), 4);
}

#[test]
fn vectors_are_kept_with_what_made_them() {
    let sandbox = Sandbox::new();
    let row = |number: usize| Theirs::new(number, "s", &format!("Question {number}?"), "Fünf Größen.");
    let mut rows = vec![row(0).with_hash(768), row(1).with_hash(384), row(2), row(3), row(4)];
    let encoded: Vec<f32> = (0..384).map(|at| (at as f32 / 100.0).sin() / 14.0).collect();
    rows[2].embedding = Some(encoded);
    rows[3].embedding = Some(vec![0.5; 10]);
    let db = open(&database(&sandbox));
    put(&db, &rows);
    assert_eq!(import(&sandbox, &database(&sandbox))["embeddings"], 4);
    let kept = store(&sandbox).imported_embeddings(0, 100).unwrap();
    let turns = turns_of(&sandbox, "s");
    let models: Vec<_> = kept.iter().map(|(_, one)| (one.model.as_str(), one.source_id.as_str(), one.entry)).collect();
    let expected = ["hash-768", "hash-384", "minilm-384", "unknown"];
    let expected: Vec<_> =
        expected.iter().zip(&rows).zip(&turns).map(|((model, one), turn)| (*model, &*one.id, turn.entry)).collect();
    assert_eq!(models, expected);
    for ((_, kept), one) in kept.iter().zip(&rows) {
        assert_eq!((Some(&kept.vector), kept.source.as_str()), (one.embedding.as_ref(), "claude-flow"));
    }
    // One at a time.
    let second = store(&sandbox).imported_embeddings(kept[0].0, 1).unwrap();
    assert_eq!(second, kept[1..2]);
    // An old vector is replaced there.
    rows[0] = row(0).with_hash(384);
    put(&db, &rows);
    assert_eq!(import(&sandbox, &database(&sandbox))["embeddings"], 1);
    let kept = store(&sandbox).imported_embeddings(0, 100).unwrap();
    assert_eq!((kept.len(), kept[0].1.model.as_str(), kept[0].1.vector.len()), (4, "hash-384", 384));
}

#[test]
fn the_first_form_of_their_table_is_read() {
    let sandbox = Sandbox::new();
    let db = rusqlite::Connection::open(database(&sandbox)).unwrap();
    db.execute_batch(super::theirs::FIRST_TABLE).unwrap();
    let one = Theirs::new(0, "s", "Where do ospreys nest?", "On poles.");
    db.execute(
        "INSERT INTO transcript_entries (id, key, content, created_at, updated_at, last_accessed_at, access_count, metadata)
         VALUES (?1, ?2, ?3, ?4, ?4, ?4, 2, ?5)",
        rusqlite::params![one.id, one.key(), one.content, NOW, one.metadata().to_string()],
    )
    .unwrap();
    drop(db);
    assert_eq!(counts(&import(&sandbox, &project(&sandbox))), [1, 0, 0, 0]);
    let turns = turns_of(&sandbox, "s");
    assert_eq!((turns.len(), turns[0].access_count, turns[0].confidence), (1, 2, 0.8));
    assert_eq!(store(&sandbox).session("s").unwrap().unwrap().folder, Some(project(&sandbox).display().to_string()));
}

#[test]
fn where_there_is_nothing_it_says_so() {
    let sandbox = Sandbox::new();
    let import = |path: &str| run(sandbox.command(&["archive", "import", "--from", "claude-flow", path]), b"");
    std::fs::create_dir_all(sandbox.path("empty")).unwrap();
    let none = import(sandbox.path("empty").to_str().unwrap()).with_code(1);
    assert!(none.stderr.contains("transcript-archive.db") && none.stdout.is_empty(), "{none:?}");
    let missing = import("/no/such/folder").with_code(3);
    assert!(missing.stderr.contains("/no/such/folder"), "{}", missing.stderr);
    // Without a path: the folder that one is in, and the home.
    std::fs::create_dir_all(sandbox.home().join(".claude-flow/data")).unwrap();
    json_file(&sandbox.home().join(".claude-flow/data/transcript-archive.json"), &[Theirs::new(0, "s", "a", "b")]);
    let told = sandbox.json(&["archive", "import", "--from", "claude-flow"]);
    assert_eq!(counts(&told), [1, 0, 0, 0]);
    // Whose sessions they were, an archive in the home does not say.
    assert_eq!(store(&sandbox).session("s").unwrap().unwrap().folder, None);
    assert_ne!(store(&sandbox).session("s").unwrap().unwrap().folder.as_deref(), Some(FOLDER));
    let text = sandbox.cli(&["archive", "import", "--from", "claude-flow"]).stdout;
    assert!(text.contains("1 entry of 1 session") && text.contains("earlier import"), "{text}");
    assert!(run(sandbox.command(&["archive", "import", "--from", "nothing"]), b"").code == Some(2));
}
