//! What was pruned comes back by its handle: from the transcript, from the archive, to the byte.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use ctxbridge::archive::handle_lookup::{find_in_archive, find_in_transcripts, partition_transcripts};
use ctxbridge::archive::ingest::ingest;
use ctxbridge::archive::store::Transcript;
use ctxbridge::archive::store::sqlite::{LockPolicy, SqliteStore};
use ctxbridge::prune::{self, Handle, PruneSettings, Step};
use ctxbridge_testkit::transcript::{Kind, Spec, generate};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A home with a project of one session.
struct World {
    folder: TempDir,
}

impl World {
    fn new() -> Self {
        let world = Self { folder: tempfile::tempdir().unwrap() };
        fs::create_dir_all(world.project().join("src")).unwrap();
        fs::create_dir_all(world.sessions()).unwrap();
        world
    }

    fn project(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join("project")
    }

    fn client(&self) -> PathBuf {
        self.folder.path().join("home/.claude")
    }

    fn sessions(&self) -> PathBuf {
        let name = self.project().to_string_lossy().replace(|c: char| !c.is_ascii_alphanumeric(), "-");
        self.client().join("projects").join(name)
    }

    fn write(&self, name: &str, messages: &[Value]) -> PathBuf {
        let path = self.sessions().join(name);
        let lines: String = messages.iter().map(|message| format!("{message}\n")).collect();
        fs::write(&path, lines).unwrap();
        path
    }

    fn recall(&self, folder: &Path, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ctxbridge"));
        command
            .env_clear()
            .env("HOME", self.folder.path().join("home"))
            .env("CTXBRIDGE_DATA_DIR", self.folder.path().join("data"));
        command.current_dir(folder).arg("recall").args(args).output().unwrap()
    }

    fn store(&self) -> SqliteStore {
        let data = self.folder.path().join("data");
        fs::create_dir_all(&data).unwrap();
        SqliteStore::open(&data, LockPolicy::Background).unwrap()
    }
}

fn message(uuid: &str, text: &str) -> Value {
    json!({"type": "user", "uuid": uuid, "sessionId": "s", "message": {"role": "user", "content": text}})
}

fn handle(text: &str) -> Handle {
    text.parse().unwrap()
}

#[test]
fn every_cut_of_a_session_comes_back() {
    let world = World::new();
    let made = generate(&Spec::new(Kind::Tools, 400, 7), &world.sessions()).unwrap();
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
    let mut store = world.store();
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
    let world = World::new();
    world.write("s.jsonl", &[message("aaaaaaaa-0", "other"), message("1a2b3c4d-1", "the whole\u{1b}[31m text\n")]);
    for folder in [world.project(), world.project().join("src"), world.folder.path().to_owned()] {
        let output = world.recall(&folder, &["ctx:1a2b3c4d.0"]);
        assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(0), "the whole\u{1b}[31m text\n".as_bytes()));
    }
    let output = world.recall(&world.project(), &["ctx:1a2b3c4d.0", "--json"]);
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&value["text"], &value["session"], &value["is_ambiguous"]),
        (&json!("the whole\u{1b}[31m text\n"), &json!("s"), &json!(false))
    );
}

#[test]
fn the_archive_has_what_the_transcript_lost() {
    let world = World::new();
    let path = world.write("s.jsonl", &[message("1a2b3c4d-1", "the first text"), message("1a2b3c4d-2", "end")]);
    let transcript = Transcript::at(&path);
    let mut store = world.store();
    ingest(&mut store, &transcript, &path).unwrap();
    // A rewritten transcript, and then none.
    world.write("s.jsonl", &[message("bbbbbbbb-1", "rewritten")]);
    ingest(&mut store, &transcript, &path).unwrap();
    fs::remove_file(&path).unwrap();
    drop(store);
    let output = world.recall(&world.project(), &["ctx:1a2b3c4d.0"]);
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(0), b"end".as_slice()));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("several messages have the handle ctx:1a2b3c4d.0; this is the newest"), "{said}");
}

#[test]
fn what_is_not_there_is_said() {
    let world = World::new();
    world.write("s.jsonl", &[message("1a2b3c4d-1", "text"), json!({"parentUuid": "99999999-1", "uuid": "88888888-1"})]);
    for other in ["ctx:99999999.0", "ctx:1a2b3c4d.1", "ctx:1a2b3c4d.0.0"] {
        let output = world.recall(&world.project(), &[other]);
        assert_eq!(output.status.code(), Some(1), "{other}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains(&format!("has a message with the handle {other}")), "{said}");
    }
    let text = "not the handle of a text, such as ctx:1a2b3c4d.0";
    let turn = "not the handle of a turn, such as ctx:1a2b3c4d";
    let wrong = [("ctx:1a2b3c4d.", text), ("ctx:1a2b.0", text), ("ctx:1a2b3c4d.0.0.0", text), ("ctx:x", turn)];
    for (wrong, expected) in wrong {
        let output = world.recall(&world.project(), &[wrong]);
        assert_eq!(output.status.code(), Some(2), "{wrong}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains(expected), "{said}");
    }
}

/// Lines arrive in pieces of any size, without an end, and with what is no text in them.
#[test]
fn lines_are_found_wherever_they_are_cut() {
    let world = World::new();
    let long = "x".repeat(300_000);
    let path = world.write("s.jsonl", &[message("11111111-1", &long), message("22222222-1", &long)]);
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
    let world = World::new();
    let own = world.write("s.jsonl", &[message("1a2b3c4d-1", "own")]);
    let elsewhere = world.client().join("projects/-elsewhere");
    fs::create_dir_all(&elsewhere).unwrap();
    fs::write(elsewhere.join("t.jsonl"), "{}\n").unwrap();
    let (near, others) = partition_transcripts(&world.client(), &world.project().join("src"));
    assert_eq!((near, others), (vec![own], vec![elsewhere.join("t.jsonl")]));
}
