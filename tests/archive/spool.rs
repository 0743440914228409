//! What a hook cannot write waits for the next one that can, of whatever session.

use std::fs;
use std::time::{Duration, SystemTime};

use ctxbridge_testkit::files;
use ctxbridge_testkit::sandbox::{Sandbox, Talk, run};
use rusqlite::Connection;
use serde_json::{Value, json};

use super::lines::Lines;

/// A session with three turns in the archive, and one that is not.
fn archived(sandbox: &Sandbox, number: u32) -> Talk {
    let mut lines = Lines::of("s").seed(number.into());
    let talk = sandbox.talk(number, lines.turns(3));
    sandbox.hook("stop", &talk.input());
    talk.append(lines.turn("What nobody can write"));
    talk
}

/// Another process that writes and does not stop.
fn held(sandbox: &Sandbox) -> Connection {
    let db = Connection::open(sandbox.database()).unwrap();
    db.execute_batch("BEGIN IMMEDIATE").unwrap();
    db
}

fn spool(sandbox: &Sandbox) -> Vec<Value> {
    let text = fs::read_to_string(sandbox.data().join("spool.jsonl")).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_session_that_could_not_be_written_is_archived_by_another_one() {
    let sandbox = Sandbox::new();
    let (first, second) = (archived(&sandbox, 1), archived(&sandbox, 2));
    let db = held(&sandbox);
    let told = run(sandbox.hook_command("stop"), first.input().to_string().as_bytes()).calm().notice().unwrap();
    assert!(told.contains("waits for the next hook") && told.contains("`ctxbridge doctor`"), "{told}");
    assert_eq!(told.lines().count(), 1, "{told}");
    run(sandbox.hook_command("stop"), first.input().to_string().as_bytes()).calm();
    assert_eq!(spool(&sandbox), [json!({ "pending": "transcript", "path": first.path })], "once");
    assert!(files::is_private(&sandbox.data().join("spool.jsonl")).unwrap());
    let doctor = run(sandbox.command(&["doctor", "--json"]), b"").json();
    let check = doctor["checks"].as_array().unwrap().iter().find(|check| check["id"] == "spool").unwrap();
    assert_eq!(check["status"], "warning", "{check}");
    drop(db);

    // The first session never says anything again.
    sandbox.hook("stop", &second.input());
    sandbox.assert_archived(&first);
    sandbox.assert_archived(&second);
    assert_eq!(spool(&sandbox), [] as [Value; 0]);
    sandbox.assert_sound();
}

#[test]
fn a_compaction_its_summary_and_an_end_are_not_lost() {
    let sandbox = Sandbox::new();
    let talk = archived(&sandbox, 1);
    let db = held(&sandbox);
    for (event, more) in [
        ("pre-compact", json!({ "trigger": "auto" })),
        ("post-compact", json!({ "trigger": "auto", "compact_summary": "All of it." })),
        ("session-end", json!({ "reason": "logout" })),
    ] {
        run(sandbox.hook_command(event), talk.input_with(more).to_string().as_bytes()).calm();
    }
    let kinds: Vec<Value> = spool(&sandbox).iter().map(|pending| pending["pending"].clone()).collect();
    assert_eq!(kinds.len(), 4, "{kinds:?}");
    drop(db);
    let other = archived(&sandbox, 2);
    sandbox.hook("stop", &other.input());
    sandbox.assert_archived(&talk);
    assert_eq!(spool(&sandbox), [] as [Value; 0]);
    let sessions = sandbox.json(&["archive", "sessions"]);
    let session = sessions["sessions"].as_array().unwrap().iter().find(|one| one["session"] == json!(talk.id)).unwrap();
    assert_eq!(session["end_reason"], "logout");
    let db = Connection::open(sandbox.database()).unwrap();
    let compactions: (i64, i64) =
        db.query_row("SELECT count(*), count(summary) FROM compactions", [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    assert_eq!(compactions, (1, 1), "one compaction, with its summary");
}

#[test]
fn what_a_process_took_and_left_is_taken_again_and_rubbish_is_no_debt() {
    let sandbox = Sandbox::new();
    let talk = archived(&sandbox, 1);
    let taken = sandbox.data().join("spool.jsonl.4242");
    let owed = json!({ "pending": "transcript", "path": talk.path });
    let gone = json!({ "pending": "transcript", "path": sandbox.path("gone.jsonl") });
    fs::write(&taken, format!("{gone}\nrubbish\n{{\"owed\":\"money\"}}\n{owed}\n{{\"owed\":\"tra")).unwrap();
    let other = archived(&sandbox, 2);
    sandbox.hook("stop", &other.input());
    assert!(taken.exists(), "whoever took it may be at work");
    fs::File::options().write(true).open(&taken).unwrap().set_modified(SystemTime::now() - Duration::from_secs(3_600)).unwrap();
    sandbox.hook("stop", &other.input());
    assert!(!taken.exists());
    sandbox.assert_archived(&talk);
}

#[test]
fn metrics_have_a_line_for_each_hook() {
    let sandbox = Sandbox::new();
    let talk = archived(&sandbox, 1);
    let db = held(&sandbox);
    run(sandbox.hook_command("stop"), talk.input().to_string().as_bytes()).calm();
    drop(db);
    let path = sandbox.data().join("logs/metrics.jsonl");
    let lines: Vec<Value> = fs::read_to_string(&path).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 2);
    assert_eq!((&lines[0]["event"], &lines[0]["turns"], &lines[0]["ok"]), (&json!("Stop"), &json!(3), &json!(true)));
    assert!(lines[0]["bytes"].as_u64().unwrap() > 500 && lines[0]["ms"].as_f64().unwrap() > 0.0);
    assert_eq!(lines[1]["ok"], false);
    assert!(lines[1]["error"].as_str().unwrap().contains("another process"), "{}", lines[1]);
    assert!(files::is_private(&path).unwrap());
}
