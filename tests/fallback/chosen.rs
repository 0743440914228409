//! `archive.store = "jsonl"`, from the first hook to `optimize`.

use std::fs;
use std::os::unix::fs::MetadataExt;

use serde_json::{Value, json};

use super::lines::Lines;
use super::sandbox::{Sandbox, run};

#[test]
fn everything_works_without_a_database() {
    let sandbox = Sandbox::new();
    let mut lines = Lines::of("s");
    let talk = sandbox.talk(1, lines.turns(3) + &lines.turn("The port is 8080 #keep"));
    sandbox.lines_hook("stop", &talk.input());
    talk.append(lines.turn("What came last"));
    sandbox.lines_hook("session-end", &talk.input_with(json!({ "reason": "other" })));
    let other = sandbox.talk(2, Lines::of("t").seed(7).turns(2));
    let imported = sandbox.lines_json(&["archive", "import"]);
    assert_eq!((&imported["transcripts"], &imported["turns"]), (&json!(2), &json!(2)));
    assert!(!sandbox.database().exists(), "no database was made");

    let sessions = sandbox.lines_json(&["archive", "sessions"]);
    assert_eq!(sessions["sessions"].as_array().unwrap().len(), 2);
    let shown = sandbox.lines_json(&["archive", "show", &talk.id]);
    assert_eq!(shown["turns"].as_array().unwrap().len(), 5);
    assert!(sandbox.lines_restored(&talk) == talk.bytes());
    assert!(sandbox.lines_restored(&other) == other.bytes());
    let status = sandbox.lines_json(&["archive", "status"]);
    assert_eq!((&status["store"], &status["turns"]), (&json!("jsonl"), &json!(7)));
    assert_eq!(status["path"], sandbox.lines().to_str().unwrap());
    let told = run(sandbox.choosing_lines(&["archive", "status"]), b"").done().stdout;
    assert!(told.contains(&format!("JSON Lines in {}", sandbox.lines().display())), "{told}");

    // A compaction: the best of it comes back.
    let reply = sandbox.lines_hook("session-start", &talk.input_with(json!({ "source": "compact" })));
    assert!(reply.context().unwrap().contains("The port is 8080"));
    let dry = sandbox.lines_json(&["archive", "optimize", "--dry-run"]);
    assert_eq!((&dry["dry_run"], &dry["damaged"], &dry["hot"]), (&json!(true), &Value::Null, &json!(7)));
    let done = sandbox.lines_json(&["archive", "optimize"]);
    assert_eq!((&done["damaged"], &done["hot"], &done["tiers"]), (&Value::Null, &json!(7), &Value::Null));
    assert!(sandbox.lines_restored(&talk) == talk.bytes());
    assert_eq!(sandbox.log(), [] as [Value; 0]);
    assert!(!sandbox.database().exists());
    sandbox.assert_lines_sound();
}

/// A line each for `jq` and `grep`: what is asked and answered is there as text.
#[test]
fn entries_are_an_object_a_line() {
    let sandbox = Sandbox::new();
    let talk = sandbox.talk(1, Lines::of("s").turns(3));
    sandbox.lines_hook("stop", &talk.input());
    let text = fs::read_to_string(sandbox.lines().join("entries.jsonl")).unwrap();
    let entries: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(entries.len(), 3);
    for (number, entry) in entries.iter().enumerate() {
        assert_eq!(entry["metadata"]["sessionId"], talk.id.as_str());
        assert!(entry.to_string().contains(&format!("This is the answer to: Question number {number}")), "{entry}");
    }
}

#[test]
fn nobody_else_may_read_it() {
    let sandbox = Sandbox::new();
    let talk = sandbox.talk(1, Lines::of("s").turns(3));
    sandbox.lines_hook("stop", &talk.input());
    run(sandbox.choosing_lines(&["archive", "optimize"]), b"").done();
    let mut folders = vec![sandbox.lines()];
    let mut files = 0;
    while let Some(folder) = folders.pop() {
        assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o777, 0o700, "{}", folder.display());
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                files += 1;
                assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600, "{}", path.display());
            }
        }
    }
    assert!(files >= 4, "journal, entries, lock and a transcript, not {files}");
}

#[test]
fn the_folder_may_be_elsewhere() {
    let sandbox = Sandbox::new();
    let talk = sandbox.talk(1, Lines::of("s").turns(2));
    let mut hook = sandbox.choosing_lines(&["hook", "stop"]);
    let elsewhere = sandbox.path("elsewhere");
    hook.env("CTXBRIDGE_ARCHIVE_JSONL_FOLDER", &elsewhere);
    run(hook, talk.input().to_string().as_bytes()).calm();
    assert!(elsewhere.join("journal.jsonl").exists() && !sandbox.lines().exists());
    let mut status = sandbox.choosing_lines(&["archive", "status", "--json"]);
    status.env("CTXBRIDGE_ARCHIVE_JSONL_FOLDER", &elsewhere);
    assert_eq!(run(status, b"").done().json()["turns"], 2);
}
