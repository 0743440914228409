//! What was pruned comes back by its handle: from the transcript, from the archive, to the byte.

use std::fs;
use std::path::PathBuf;

use ctxbridge::archive::handle_lookup::{find_in_archive, find_in_transcripts, partition_transcripts};
use ctxbridge::archive::ingest::ingest;
use ctxbridge::archive::store::Transcript;
use ctxbridge::prune::{self, Handle, PruneSettings, Step};
use ctxbridge_testkit::sandbox::{Ran, Sandbox, run};
use ctxbridge_testkit::transcript::{Kind, Spec, generate};
use serde_json::{Value, json};

use crate::kinds::store;

/// The client's folder of transcripts for the project.
fn transcripts(sandbox: &Sandbox) -> PathBuf {
    let name = sandbox.path("work").to_string_lossy().replace(|c: char| !c.is_ascii_alphanumeric(), "-");
    sandbox.home().join(".claude/projects").join(name)
}

fn write(sandbox: &Sandbox, name: &str, messages: &[Value]) -> PathBuf {
    fs::create_dir_all(transcripts(sandbox)).unwrap();
    let path = transcripts(sandbox).join(name);
    let lines: String = messages.iter().map(|message| format!("{message}\n")).collect();
    fs::write(&path, lines).unwrap();
    path
}

fn recall(sandbox: &Sandbox, args: &[&str]) -> Ran {
    run(sandbox.command(&[&["recall"], args].concat()), b"")
}

fn message(uuid: &str, text: &str) -> Value {
    json!({"type": "user", "uuid": uuid, "sessionId": "s", "message": {"role": "user", "content": text}})
}

fn handle(text: &str) -> Handle {
    text.parse().unwrap()
}

#[test]
fn every_cut_of_a_session_comes_back() {
    let sandbox = Sandbox::new();
    let made = generate(&Spec::new(Kind::Tools, 400, 7), &transcripts(&sandbox)).unwrap();
    let path = made.sessions[0].path.clone();
    let lines = fs::read_to_string(&path).unwrap();
    let messages: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let settings = PruneSettings {
        keep_turns: 1,
        threshold_tokens: 0,
        tail_tokens: 100,
        step: Step::Tokens(100),
        ..PruneSettings::default()
    };
    let cuts = prune::plan(&messages, &settings);
    assert!(cuts.len() > 50, "{} cuts", cuts.len());
    let mut store = store(&sandbox);
    ingest(&mut store, &Transcript::at(&path), &path).unwrap();
    for cut in cuts {
        let original = prune::text_at(&messages[cut.message_index], cut.block_index, cut.part).unwrap();
        let handle = cut.handle.expect("ids of the client's");
        let found = find_in_transcripts(&handle, std::slice::from_ref(&path)).expect("in the transcript");
        assert_eq!((found.text.as_str(), found.is_ambiguous), (original, false), "{handle}");
        let archived = find_in_archive(&handle, &mut store).unwrap().expect("in the archive");
        assert_eq!((archived.text, archived.uuid), (found.text, found.uuid), "{handle}");
    }
}

#[test]
fn without_an_archive_the_transcript_is_enough() {
    let sandbox = Sandbox::new();
    write(&sandbox, "s.jsonl", &[message("aaaaaaaa-0", "other"), message("1a2b3c4d-1", "the whole\u{1b}[31m text\n")]);
    fs::create_dir(sandbox.path("work/src")).unwrap();
    for folder in [sandbox.path("work"), sandbox.path("work/src"), sandbox.root().to_owned()] {
        let said = run(sandbox.command(&["recall", "ctx:1a2b3c4d.0"]).current_dir(folder), b"").done();
        assert_eq!(said.stdout, "the whole\u{1b}[31m text\n");
    }
    let value = recall(&sandbox, &["ctx:1a2b3c4d.0", "--json"]).json();
    assert_eq!(
        (&value["text"], &value["session"], &value["is_ambiguous"]),
        (&json!("the whole\u{1b}[31m text\n"), &json!("s"), &json!(false))
    );
}

#[test]
fn the_archive_has_what_the_transcript_lost() {
    let sandbox = Sandbox::new();
    let path = write(&sandbox, "s.jsonl", &[message("1a2b3c4d-1", "the first text"), message("1a2b3c4d-2", "end")]);
    let transcript = Transcript::at(&path);
    let mut store = store(&sandbox);
    ingest(&mut store, &transcript, &path).unwrap();
    // A rewritten transcript, and then none.
    write(&sandbox, "s.jsonl", &[message("bbbbbbbb-1", "rewritten")]);
    ingest(&mut store, &transcript, &path).unwrap();
    fs::remove_file(&path).unwrap();
    drop(store);
    let said = recall(&sandbox, &["ctx:1a2b3c4d.0"]).done();
    assert_eq!(said.stdout, "end");
    let said = said.stderr;
    assert!(said.contains("several messages have the handle ctx:1a2b3c4d.0; this is the newest"), "{said}");
}

#[test]
fn what_is_not_there_is_said() {
    let sandbox = Sandbox::new();
    write(&sandbox, "s.jsonl", &[message("1a2b3c4d-1", "text"), json!({"parentUuid": "99999999-1", "uuid": "88888888-1"})]);
    for other in ["ctx:99999999.0", "ctx:1a2b3c4d.1", "ctx:1a2b3c4d.0.0"] {
        let said = recall(&sandbox, &[other]).says_no().stderr;
        assert!(said.contains(&format!("has a message with the handle {other}")), "{said}");
    }
    let text = "not the handle of a text, such as ctx:1a2b3c4d.0";
    let turn = "not the handle of a turn, such as ctx:1a2b3c4d";
    let wrong = [("ctx:1a2b3c4d.", text), ("ctx:1a2b.0", text), ("ctx:1a2b3c4d.0.0.0", text), ("ctx:x", turn)];
    for (wrong, expected) in wrong {
        let said = recall(&sandbox, &[wrong]).with_code(2).stderr;
        assert!(said.contains(expected), "{said}");
    }
}

/// Lines arrive in pieces of any size, without an end, and with what is no text in them.
#[test]
fn lines_are_found_wherever_they_are_cut() {
    let sandbox = Sandbox::new();
    let long = "x".repeat(300_000);
    let path = write(&sandbox, "s.jsonl", &[message("11111111-1", &long), message("22222222-1", &long)]);
    let mut bytes = fs::read(&path).unwrap();
    bytes.extend_from_slice(b"\xff\xfe not json \"uuid\":\"33333333\n");
    bytes.extend_from_slice(
        br#"{"type":"user","uuid":"33333333-1","message":{"content":[{"type":"text","text":"half \ud83d"}]}}"#,
    );
    fs::write(&path, bytes).unwrap();
    for (digits, text) in [("11111111", long.as_str()), ("22222222", &long), ("33333333", "half \u{fffd}")] {
        let found = find_in_transcripts(&handle(&format!("ctx:{digits}.0")), std::slice::from_ref(&path));
        assert_eq!(found.unwrap().text, text);
    }
}

#[test]
fn the_project_s_own_transcripts_come_first() {
    let sandbox = Sandbox::new();
    let own = write(&sandbox, "s.jsonl", &[message("1a2b3c4d-1", "own")]);
    let other = sandbox.write("home/.claude/projects/-elsewhere/t.jsonl", "{}\n");
    let (near, others) = partition_transcripts(&sandbox.path("home/.claude"), &sandbox.path("work/src"));
    assert_eq!((near, others), (vec![own], vec![other]));
}
