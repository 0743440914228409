//! `archive.store = "jsonl"`, from the first hook to `optimize`.

use std::fs;

use ctxbridge_testkit::files;
use ctxbridge_testkit::sandbox::{Sandbox, run};
use serde_json::{Value, json};

use super::lines::Lines;
use super::obstacle::{assert_lines_sound, choosing_lines, lines_folder, lines_hook, lines_json, lines_restored};

#[test]
fn everything_works_without_a_database() {
    let sandbox = Sandbox::new();
    let mut lines = Lines::of("s");
    let talk = sandbox.talk(1, lines.turns(3) + &lines.turn("The port is 8080 #keep"));
    lines_hook(&sandbox, "stop", &talk.input());
    talk.append(lines.turn("What came last"));
    lines_hook(&sandbox, "session-end", &talk.input_with(json!({ "reason": "other" })));
    let other = sandbox.talk(2, Lines::of("t").seed(7).turns(2));
    let imported = lines_json(&sandbox, &["archive", "import"]);
    assert_eq!((&imported["transcripts"], &imported["turns"]), (&json!(2), &json!(2)));
    assert!(!sandbox.database().exists(), "no database was made");

    let sessions = lines_json(&sandbox, &["archive", "sessions"]);
    assert_eq!(sessions["sessions"].as_array().unwrap().len(), 2);
    let shown = lines_json(&sandbox, &["archive", "show", &talk.id]);
    assert_eq!(shown["turns"].as_array().unwrap().len(), 5);
    assert!(lines_restored(&sandbox, &talk) == talk.bytes());
    assert!(lines_restored(&sandbox, &other) == other.bytes());
    let status = lines_json(&sandbox, &["archive", "status"]);
    assert_eq!((&status["store"], &status["turns"]), (&json!("jsonl"), &json!(7)));
    assert_eq!(status["path"], lines_folder(&sandbox).to_str().unwrap());
    let told = run(choosing_lines(&sandbox, &["archive", "status"]), b"").done().stdout;
    assert!(told.contains(&format!("JSON Lines in {}", lines_folder(&sandbox).display())), "{told}");

    // A compaction: the best of it comes back.
    let reply = lines_hook(&sandbox, "session-start", &talk.input_with(json!({ "source": "compact" })));
    assert!(reply.context().unwrap().contains("The port is 8080"));
    let dry = lines_json(&sandbox, &["archive", "optimize", "--dry-run"]);
    assert_eq!((&dry["dry_run"], &dry["damaged"], &dry["hot"]), (&json!(true), &Value::Null, &json!(7)));
    let done = lines_json(&sandbox, &["archive", "optimize"]);
    assert_eq!((&done["damaged"], &done["hot"], &done["tiers"]), (&Value::Null, &json!(7), &Value::Null));
    assert!(lines_restored(&sandbox, &talk) == talk.bytes());
    assert_eq!(sandbox.log(), [] as [Value; 0]);
    assert!(!sandbox.database().exists());
    assert_lines_sound(&sandbox);
}

/// A line each for `jq` and `grep`: what is asked and answered is there as text.
#[test]
fn entries_are_an_object_a_line() {
    let sandbox = Sandbox::new();
    let talk = sandbox.talk(1, Lines::of("s").turns(3));
    lines_hook(&sandbox, "stop", &talk.input());
    let text = fs::read_to_string(lines_folder(&sandbox).join("entries.jsonl")).unwrap();
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
    lines_hook(&sandbox, "stop", &talk.input());
    run(choosing_lines(&sandbox, &["archive", "optimize"]), b"").done();
    let mut folders = vec![lines_folder(&sandbox)];
    let mut count = 0;
    while let Some(folder) = folders.pop() {
        assert!(files::is_private(&folder).unwrap(), "{}", folder.display());
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                count += 1;
                assert!(files::is_private(&path).unwrap(), "{}", path.display());
            }
        }
    }
    assert!(count >= 4, "journal, entries, lock and a transcript, not {count}");
}

#[test]
fn the_folder_may_be_elsewhere() {
    let sandbox = Sandbox::new();
    let talk = sandbox.talk(1, Lines::of("s").turns(2));
    let mut hook = choosing_lines(&sandbox, &["hook", "stop"]);
    let elsewhere = sandbox.path("elsewhere");
    hook.env("CTXBRIDGE_ARCHIVE_JSONL_FOLDER", &elsewhere);
    run(hook, talk.input().to_string().as_bytes()).calm();
    assert!(elsewhere.join("journal.jsonl").exists() && !lines_folder(&sandbox).exists());
    let mut status = choosing_lines(&sandbox, &["archive", "status", "--json"]);
    status.env("CTXBRIDGE_ARCHIVE_JSONL_FOLDER", &elsewhere);
    assert_eq!(run(status, b"").done().json()["turns"], 2);
}
