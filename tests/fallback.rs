//! An archive in JSON Lines: chosen, or in the place of SQLite's while that cannot be opened, and taken over by it afterwards.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

#[path = "archive/invariants.rs"]
#[allow(dead_code, reason = "shared with the tests of the archive, which need more of them")]
mod invariants;
#[path = "archive/lines.rs"]
#[allow(dead_code, reason = "as above")]
mod lines;
#[path = "archive/sandbox.rs"]
#[allow(dead_code, reason = "as above")]
mod sandbox;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ctxbridge::archive::context::handle;
use ctxbridge::archive::store::Store;
use ctxbridge::archive::store::jsonl::JsonlStore;
use ctxbridge::archive::store::sqlite::{Patience, SqliteStore};
use lines::Lines;
use sandbox::{Ran, Sandbox, Talk, run};
use serde_json::{Value, json};

const FOLDER: &str = "archive-jsonl";

fn folder(sandbox: &Sandbox) -> PathBuf {
    sandbox.data().join(FOLDER)
}

/// What makes that SQLite cannot open its file: it is a link to a disk that is not there. What was there waits beside it.
struct Obstacle {
    path: PathBuf,
}

impl Obstacle {
    fn to(sandbox: &Sandbox) -> Self {
        let path = sandbox.database();
        fs::create_dir_all(sandbox.data()).unwrap();
        for suffix in ["", "-wal", "-shm"] {
            let name = |begin: &Path| PathBuf::from(format!("{}{suffix}", begin.display()));
            if name(&path).exists() {
                fs::rename(name(&path), name(&path.with_file_name("waits"))).unwrap();
            }
        }
        std::os::unix::fs::symlink("/no/such/disk/archive.db", &path).unwrap();
        Self { path }
    }

    fn remove(self) {
        fs::remove_file(&self.path).unwrap();
        for suffix in ["", "-wal", "-shm"] {
            let name = |begin: &Path| PathBuf::from(format!("{}{suffix}", begin.display()));
            if name(&self.path.with_file_name("waits")).exists() {
                fs::rename(name(&self.path.with_file_name("waits")), name(&self.path)).unwrap();
            }
        }
    }
}

fn stop(sandbox: &Sandbox, talk: &Talk) -> Ran {
    sandbox.hook("stop", &talk.input())
}

/// As somebody runs it who has chosen JSON Lines.
fn lines_only(sandbox: &Sandbox, arguments: &[&str], input: &[u8]) -> Ran {
    let mut command = sandbox.command(arguments);
    command.env("CTXBRIDGE_ARCHIVE_STORE", "jsonl");
    run(command, input)
}

fn handles(talk: &Talk, sandbox: &Sandbox) -> Vec<String> {
    let mut store = SqliteStore::open(&sandbox.data(), Patience::Patient).unwrap();
    let key = store.session(&talk.id).unwrap().unwrap().key;
    store.turns(key, ctxbridge::archive::store::Turns::All).unwrap().iter().map(|turn| handle(&turn.turn.id)).collect()
}

#[test]
fn chosen_it_does_everything() {
    let sandbox = Sandbox::new();
    let mut lines = Lines::of("s");
    let talk = sandbox.talk(1, lines.turns(8) + &lines.turn("The walrus detector is in src/walrus.rs"));
    let hook = |event: &str, input: &Value| lines_only(&sandbox, &["hook", event], input.to_string().as_bytes()).calm();
    assert_eq!(hook("stop", &talk.input()).stdout, "");
    assert!(!sandbox.database().exists(), "no database at all");
    let json = |arguments: &[&str]| lines_only(&sandbox, &[arguments, &["--json"]].concat(), b"").done().json();
    let status = json(&["archive", "status"]);
    assert_eq!((&status["store"], &status["turns"]), (&json!("jsonl"), &json!(9)));
    assert_eq!(status["path"], folder(&sandbox).to_str().unwrap());
    assert_eq!(json(&["archive", "sessions"])["sessions"][0]["turns"], 9);
    let found = json(&["archive", "search", "walrus", "detector"]);
    let walrus = found["results"][0]["handle"].as_str().unwrap().to_owned();
    assert!(lines_only(&sandbox, &["recall", &walrus], b"").done().stdout.contains("src/walrus.rs"));
    let restored = lines_only(&sandbox, &["archive", "restore", &talk.id], b"").done();
    assert!(restored.stdout.as_bytes() == talk.bytes());
    lines_only(&sandbox, &["archive", "tag", &walrus], b"").done();
    // What was said before comes back after a compaction.
    let more = lines.summary("So far so good.");
    talk.append(more);
    let back = hook("session-start", &talk.input_with(json!({ "source": "compact" }))).context().unwrap();
    assert!(back.contains(&walrus), "{back}");
    let tidied = json(&["archive", "optimize"]);
    assert_eq!((&tidied["damaged"], &tidied["findings"], &tidied["hot"]), (&Value::Null, &json!([]), &json!(10)));
    let checked = lines_only(&sandbox, &["doctor"], b"");
    assert!(checked.stdout.contains("in JSON Lines"), "{}", checked.stdout);
    let html = lines_only(&sandbox, &["archive", "export", &talk.id, "--format", "markdown"], b"").done();
    assert!(html.stdout.contains("walrus detector"));
    assert!(!sandbox.database().exists() && !sandbox.data().join("search.db").exists(), "no database at all");
    // Nobody else reads it.
    for path in [folder(&sandbox), folder(&sandbox).join("transcripts")] {
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700, "{path:?}");
    }
    for name in ["journal.jsonl", "entries.jsonl", "lock"] {
        assert_eq!(fs::metadata(folder(&sandbox).join(name)).unwrap().permissions().mode() & 0o777, 0o600, "{name}");
    }
    let entries = fs::read_to_string(folder(&sandbox).join("entries.jsonl")).unwrap();
    assert!(entries.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()));
    assert_eq!(entries.lines().filter(|line| line.contains("walrus detector")).count(), 1, "grep finds it");
}

#[test]
fn it_stands_in_and_is_taken_over() {
    let sandbox = Sandbox::new();
    let mut lines = Lines::of("s");
    let talk = sandbox.talk(1, lines.turns(6));
    stop(&sandbox, &talk);
    let kept = handles(&talk, &sandbox)[1].clone();
    sandbox.cli(&["archive", "tag", &kept]);
    let obstacle = Obstacle::to(&sandbox);
    // Hooks go on, and say so once.
    talk.append(lines.turns(3));
    let notice = stop(&sandbox, &talk).notice().unwrap();
    assert!(notice.contains("unable to open database file") && notice.contains("JSON Lines"), "{notice}");
    talk.append(lines.turns(1));
    assert_eq!(stop(&sandbox, &talk).stdout, "");
    let mut other = Lines::of("t").seed(2);
    let only_there = sandbox.talk(2, other.turns(4));
    stop(&sandbox, &only_there);
    assert_eq!(sandbox.log().len(), 1, "{:?}", sandbox.log());
    assert!(sandbox.log()[0]["error"].as_str().unwrap().contains("JSON Lines"), "{:?}", sandbox.log());
    let status = run(sandbox.command(&["archive", "status"]), b"").done();
    assert!(status.stdout.contains("14 turns, 2 sessions") && status.stderr.contains("JSON Lines"), "{status:?}");
    let recalled = sandbox.json(&["archive", "show", &only_there.id])["turns"][2]["handle"].as_str().unwrap().to_owned();
    for _ in 0..3 {
        sandbox.cli(&["recall", &recalled]);
    }
    sandbox.cli(&["archive", "tag", &recalled]);
    sandbox.hook("session-end", &only_there.input_with(json!({ "reason": "clear" })));
    // It is gone before SQLite's can be opened again.
    fs::remove_file(&only_there.path).unwrap();
    obstacle.remove();
    // One of them archives the transcript that is still there from where it was.
    talk.append(lines.turns(2));
    stop(&sandbox, &talk);
    assert_eq!(sandbox.json(&["archive", "status"])["sessions"], 1, "the other one waits");
    let told = sandbox.cli(&["archive", "optimize"]);
    assert!(told.stderr.contains("were taken over"), "{told:?}");
    assert!(!folder(&sandbox).exists() && sandbox.data().join("archive-jsonl.merged-1/journal.jsonl").is_file());
    for talk in [&talk, &only_there] {
        assert!(sandbox.restored(&talk.id, &[]) == if talk.path.exists() { talk.bytes() } else { other_bytes() }, "{}", talk.id);
    }
    let status = sandbox.json(&["archive", "status"]);
    assert_eq!((&status["sessions"], &status["turns"]), (&json!(2), &json!(16)));
    sandbox.assert_sound();
    let shown = sandbox.json(&["archive", "show", &only_there.id]);
    assert_eq!((&shown["turns"][2]["access_count"], &shown["turns"][2]["is_kept"]), (&json!(3), &json!(true)), "{shown}");
    let mut store = SqliteStore::open(&sandbox.data(), Patience::Patient).unwrap();
    let session = store.session(&only_there.id).unwrap().unwrap();
    assert_eq!(session.end_reason.as_deref(), Some("clear"));
    let ours = store.session(&talk.id).unwrap().unwrap();
    let tagged = store.turns(ours.key, ctxbridge::archive::store::Turns::Kept).unwrap();
    assert_eq!(tagged.iter().map(|turn| handle(&turn.turn.id)).collect::<Vec<_>>(), [kept], "what was kept before stays so");
    // And it is as if nothing had been: the next trouble is told of again.
    assert_eq!(stop(&sandbox, &talk).stdout, "");
    let again = sandbox.cli(&["archive", "optimize"]);
    assert!(!again.stderr.contains("taken over"), "{again:?}");
    let _obstacle = Obstacle::to(&sandbox);
    stop(&sandbox, &talk);
    assert_eq!(sandbox.log().len(), 2);
}

fn other_bytes() -> Vec<u8> {
    Lines::of("t").seed(2).turns(4).into_bytes()
}

#[test]
fn who_only_reads_begins_nothing() {
    let sandbox = Sandbox::new();
    let talk = sandbox.talk(1, Lines::of("s").turns(2));
    let obstacle = Obstacle::to(&sandbox);
    for command in
        [&["archive", "sessions"][..], &["archive", "search", "word"], &["archive", "status"], &["recall", "ctx:00112233"]]
    {
        let said = run(sandbox.command(command), b"").with_code(3);
        assert!(said.stderr.contains("archive.db"), "{command:?}: {}", said.stderr);
        assert!(!folder(&sandbox).exists(), "{command:?}");
    }
    // An import does.
    let said = sandbox.cli(&["archive", "import", talk.path.to_str().unwrap()]);
    assert!(said.stderr.contains("JSON Lines") && folder(&sandbox).exists(), "{said:?}");
    assert!(sandbox.restored(&talk.id, &[]) == talk.bytes());
    obstacle.remove();
    // And takes over what was there before.
    let said = sandbox.cli(&["archive", "import", talk.path.to_str().unwrap()]);
    assert!(said.stderr.contains("0 new turns of 1 session were taken over"), "{said:?}");
    assert!(sandbox.restored(&talk.id, &[]) == talk.bytes());
    assert_eq!(sandbox.json(&["archive", "status"])["turns"], 2);
}

#[test]
fn rewritten_and_grown_transcripts_are_taken_over_whole() {
    let sandbox = Sandbox::new();
    let mut lines = Lines::of("s");
    let begin = lines.turns(5);
    let talk = sandbox.talk(1, &begin);
    stop(&sandbox, &talk);
    let obstacle = Obstacle::to(&sandbox);
    talk.append(lines.turns(2));
    let grown = talk.bytes();
    stop(&sandbox, &talk);
    // The client wrote it anew, from the third turn on.
    let rewritten = begin.lines().take(4).map(|line| format!("{line}\n")).collect::<String>() + &lines.turn("Another way");
    talk.write(&rewritten);
    stop(&sandbox, &talk);
    obstacle.remove();
    sandbox.cli(&["archive", "optimize"]);
    assert!(sandbox.restored(&talk.id, &[]) == rewritten.as_bytes());
    let mut store = SqliteStore::open(&sandbox.data(), Patience::Patient).unwrap();
    let key = store.session(&talk.id).unwrap().unwrap().key;
    let transcript = store.transcripts(key).unwrap().remove(0);
    let mut generations = Vec::new();
    for generation in 0..=transcript.generation {
        let mut bytes = Vec::new();
        store.raw(transcript.key, generation, ctxbridge::archive::store::EVERYTHING, &mut bytes).unwrap();
        generations.push(bytes);
    }
    assert!(generations.contains(&grown), "{:?}", generations.iter().map(Vec::len).collect::<Vec<_>>());
    drop(store);
    sandbox.assert_sound();
}

#[test]
fn killed_while_it_takes_over_it_goes_on() {
    let sandbox = Sandbox::new();
    let obstacle = Obstacle::to(&sandbox);
    let talks: Vec<Talk> = (1..=12)
        .map(|number| {
            let talk = sandbox.talk(number, Lines::of("s").seed(number.into()).turns(40));
            stop(&sandbox, &talk);
            talk
        })
        .collect();
    obstacle.remove();
    let took = {
        let begun = Instant::now();
        // As long as one takes that is not killed, and of another archive.
        let copy = sandbox.path("copy");
        copy_all(&folder(&sandbox), &copy.join(FOLDER));
        let mut command = sandbox.command(&["archive", "optimize"]);
        command.env("CTXBRIDGE_DATA_DIR", &copy);
        run(command, b"").done();
        begun.elapsed()
    };
    for part in 1..8_u32 {
        let mut child = sandbox.command(&["archive", "optimize"]).stderr(std::process::Stdio::null()).spawn().unwrap();
        std::thread::sleep(took.mul_f64(f64::from(part) / 10.0).min(Duration::from_secs(10)));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    sandbox.cli(&["archive", "optimize"]);
    assert!(!folder(&sandbox).exists());
    for talk in &talks {
        assert!(sandbox.restored(&talk.id, &[]) == talk.bytes(), "{}", talk.id);
    }
    assert_eq!(sandbox.json(&["archive", "status"])["turns"], 12 * 40);
    sandbox.assert_sound();
}

#[test]
fn what_is_archived_meanwhile_is_not_lost() {
    let sandbox = Sandbox::new();
    let obstacle = Obstacle::to(&sandbox);
    let mut lines = Lines::of("s");
    let talk = sandbox.talk(1, lines.turns(300));
    stop(&sandbox, &talk);
    obstacle.remove();
    // One that cannot open SQLite's goes on writing to the folder, whatever becomes of it.
    let mut store = JsonlStore::open(&folder(&sandbox), Patience::Patient).unwrap();
    let merging = sandbox.command(&["archive", "optimize"]).stdout(std::process::Stdio::null()).spawn().unwrap();
    let mut ids = Vec::new();
    for number in 2..40 {
        let other = sandbox.talk(number, Lines::of("s").seed(number.into()).turns(2));
        let transcript = ctxbridge::archive::store::Transcript::at(&other.path);
        ctxbridge::archive::ingest::archive(&mut store, &transcript, &other.path).unwrap();
        fs::remove_file(&other.path).unwrap();
        ids.push(other.id);
        std::thread::sleep(Duration::from_millis(10));
    }
    drop(store);
    let merged = merging.wait_with_output().unwrap();
    assert!(merged.status.success());
    // What came too late is in a folder again, and taken over by the next.
    sandbox.cli(&["archive", "optimize"]);
    assert!(!folder(&sandbox).exists());
    assert_eq!(sandbox.json(&["archive", "status"])["sessions"], 1 + ids.len());
    for id in &ids {
        assert_eq!(sandbox.json(&["archive", "show", id])["turns"].as_array().unwrap().len(), 2);
    }
    sandbox.assert_sound();
}

#[test]
fn a_damaged_folder_is_moved_aside_and_filled_again() {
    let sandbox = Sandbox::new();
    let talk = sandbox.talk(1, Lines::of("s").turns(5));
    lines_only(&sandbox, &["archive", "import", talk.path.to_str().unwrap()], b"").done();
    let journal = folder(&sandbox).join("journal.jsonl");
    fs::remove_file(folder(&sandbox).join("journal.image")).ok();
    let mut bytes = fs::read(&journal).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    // More lines behind it, so that it is no torn end.
    let tail = bytes.clone();
    bytes.extend_from_slice(&tail[tail.len() / 2..]);
    fs::write(&journal, bytes).unwrap();
    let said = lines_only(&sandbox, &["archive", "import", talk.path.to_str().unwrap()], b"").done();
    assert!(said.stdout.contains("damaged") || said.stderr.contains("damaged"), "{said:?}");
    assert!(sandbox.data().join("archive-jsonl.damaged-1/journal.jsonl").is_file());
    let restored = lines_only(&sandbox, &["archive", "restore", &talk.id], b"").done();
    assert!(restored.stdout.as_bytes() == talk.bytes());
}

fn copy_all(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_all(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}
