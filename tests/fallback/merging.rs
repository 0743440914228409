//! What was archived while there was no database comes back into it, once there is one: to the byte, and nothing twice.

use std::fs;
use std::path::PathBuf;
use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, Instant};

use ctxbridge_testkit::Rng;
use ctxbridge_testkit::sandbox::{FOLDER, Sandbox, Talk, run};
use ctxbridge_testkit::transcript::{Kind, append_turn};
use serde_json::{Value, json};

use super::lines::Lines;
use super::obstacle::{block, lines_folder, lines_hook, moved, unblock};

/// Merges, and says what that came to.
#[track_caller]
fn merge(sandbox: &Sandbox) -> Value {
    run(sandbox.command(&["archive", "optimize", "--json"]), b"").done().json()["merged"].clone()
}

/// All of the archive is in the database, once.
#[track_caller]
fn assert_merged(sandbox: &Sandbox, talks: &[Talk]) {
    assert!(!lines_folder(sandbox).exists(), "the folder is still there");
    sandbox.assert_sound();
    for talk in talks {
        sandbox.assert_archived(talk);
    }
    let twice = "SELECT count(*) FROM (SELECT path FROM transcripts GROUP BY path HAVING count(*) > 1)";
    assert_eq!(sandbox.count(twice), 0);
}

#[test]
fn what_was_archived_meanwhile_comes_back() {
    let sandbox = Sandbox::new();
    let mut lines = Lines::of("s");
    let talk = sandbox.talk(1, lines.turns(3));
    sandbox.hook("stop", &talk.input());

    block(&sandbox);
    talk.append(lines.turns(2) + &lines.summary("All of it, in short."));
    sandbox.quiet_hook("stop", &talk.input());
    let gone = sandbox.talk(2, Lines::of("t").seed(5).turns(4));
    sandbox.quiet_hook("stop", &gone.input());
    let before = gone.bytes();
    // It is rewritten, and archived once more.
    gone.write(Lines::of("t").seed(6).turns(2));
    sandbox.hook("session-end", &gone.input_with(json!({ "reason": "clear" })));
    let told = json!({ "trigger": "auto", "compact_summary": "What hooks alone were told." });
    sandbox.hook("post-compact", &gone.input_with(told));
    let handle = sandbox.json(&["archive", "show", &gone.id])["turns"][0]["handle"].as_str().unwrap().to_owned();
    sandbox.cli(&["archive", "pin", &handle]);
    let restored = sandbox.hook("session-start", &gone.input_with(json!({ "source": "compact" })));
    assert!(restored.context().is_some());
    let histories = |sandbox: &Sandbox| {
        let history = sandbox.json(&["archive", "history", &gone.id])["compactions"].clone();
        history.as_array().unwrap().iter().map(|compaction| compaction["at"].clone()).collect::<Vec<_>>()
    };
    let (compactions, shown) = (histories(&sandbox), sandbox.json(&["archive", "show", &gone.id]));
    assert!(!compactions.is_empty());
    let now = gone.bytes();
    fs::remove_file(&gone.path).unwrap();

    unblock(&sandbox);
    // A hook is first, with a transcript that was archived there in part.
    talk.append(lines.turn("After all of that"));
    sandbox.quiet_hook("stop", &talk.input());
    let status = sandbox.json(&["archive", "status"]);
    assert_eq!(status["waiting_to_be_merged"], lines_folder(&sandbox).to_str().unwrap());
    let merged = merge(&sandbox);
    assert_eq!(merged["sessions"], 2);

    assert_merged(&sandbox, std::slice::from_ref(&talk));
    assert!(sandbox.restored(&gone.id, &[]) == now);
    assert!(sandbox.restored(&gone.id, &["--generation", "0"]) == before);
    assert_eq!(sandbox.count("SELECT max(generation) FROM transcripts WHERE path LIKE '%000000000001.jsonl'"), 0, "no rewriting");
    let after = sandbox.json(&["archive", "show", &gone.id]);
    for key in ["is_pinned", "handle", "access_count", "summary"] {
        for (turn, was) in after["turns"].as_array().unwrap().iter().zip(shown["turns"].as_array().unwrap()) {
            assert_eq!(turn[key], was[key], "{key}");
        }
    }
    assert_eq!(after["turns"].as_array().unwrap().len(), shown["turns"].as_array().unwrap().len());
    assert_eq!(sandbox.count("SELECT count(*) FROM entries WHERE access_count = 1 AND text IS NULL"), 2, "those that came back");
    assert_eq!(histories(&sandbox), compactions);
    assert_eq!(sandbox.count("SELECT count(*) FROM sessions WHERE end_reason = 'clear'"), 1);
    assert_eq!(sandbox.count("SELECT count(*) FROM entries WHERE text LIKE '%hooks alone%'"), 1);

    let aside = moved(&sandbox, "merged");
    assert_eq!(aside.len(), 1);
    assert_eq!(merged["folder"], aside[0].to_str().unwrap());
    assert!(aside[0].join("journal.jsonl").exists(), "nothing of it is deleted");
    assert_eq!(merge(&sandbox), Value::Null, "once");
    assert_eq!(sandbox.json(&["archive", "status"])["merged_folders"], json!([aside[0]]));
}

/// A second time without a database begins another folder, and both are merged.
#[test]
fn it_may_happen_again() {
    let sandbox = Sandbox::new();
    let mut lines = Lines::of("s");
    let talk = sandbox.talk(1, lines.turns(2));
    for round in 1..=2 {
        block(&sandbox);
        talk.append(lines.turns(2));
        sandbox.hook("stop", &talk.input());
        unblock(&sandbox);
        run(sandbox.command(&["archive", "import"]), b"").done();
        assert_merged(&sandbox, std::slice::from_ref(&talk));
        assert_eq!(moved(&sandbox, "merged").len(), round);
    }
}

/// The database has a newer state of a transcript by then, and the file is gone: what is older does not take its place.
#[test]
fn what_is_newer_stays_the_newest() {
    let sandbox = Sandbox::new();
    block(&sandbox);
    let old = Lines::of("s").turns(3);
    let talk = sandbox.talk(1, &old);
    sandbox.hook("stop", &talk.input());
    let mut lines = Lines::of("s").seed(9);
    talk.write(lines.turns(2));
    sandbox.hook("stop", &talk.input());
    unblock(&sandbox);
    talk.append(lines.turns(2));
    sandbox.hook("stop", &talk.input());
    let newest = talk.bytes();
    fs::remove_file(&talk.path).unwrap();
    merge(&sandbox);
    assert!(!lines_folder(&sandbox).exists());
    sandbox.assert_sound();
    assert!(sandbox.restored(&talk.id, &[]) == newest);
    let generations = sandbox.count("SELECT max(generation) FROM transcripts");
    let all: Vec<_> =
        (0..=generations).map(|number| sandbox.restored(&talk.id, &["--generation", &number.to_string()])).collect();
    assert!(all.contains(&old.into_bytes()), "what it was before is kept");
}

/// A damaged transcript stays where it is; all others are merged.
#[test]
fn what_cannot_be_read_stays() {
    let sandbox = Sandbox::new();
    block(&sandbox);
    let (bad, good) = (sandbox.talk(1, Lines::of("s").turns(3)), sandbox.talk(2, Lines::of("t").seed(4).turns(3)));
    for talk in [&bad, &good] {
        sandbox.hook("stop", &talk.input());
    }
    let transcripts = fs::read_dir(lines_folder(&sandbox).join("transcripts")).unwrap().map(|entry| entry.unwrap().path());
    let is_copy = |path: &PathBuf| path.to_string_lossy().contains(&bad.id) && path.extension().unwrap() == "jsonl";
    let file = transcripts.into_iter().find(is_copy).unwrap();
    let mut bytes = fs::read(&file).unwrap();
    bytes[100..110].fill(b'?');
    fs::write(&file, bytes).unwrap();
    fs::remove_file(&bad.path).unwrap();
    unblock(&sandbox);
    let ran = run(sandbox.command(&["archive", "optimize", "--json"]), b"").done();
    assert!(ran.stderr.contains(&bad.id) && ran.stderr.contains("damaged"), "{}", ran.stderr);
    assert_eq!(ran.json()["merged"]["folder"], Value::Null);
    assert!(lines_folder(&sandbox).exists() && moved(&sandbox, "merged").is_empty());
    sandbox.assert_archived(&good);
    sandbox.assert_sound();
}

/// SIGKILL at any moment of a merge: the next one does the rest.
#[test]
fn a_merge_that_is_killed_goes_on() {
    let sandbox = Sandbox::new();
    block(&sandbox);
    let made: Vec<Talk> =
        (1..=4).flat_map(|seed| sandbox.generate(Kind::Chat, 150, seed)).map(|made| Talk::from(&made)).collect();
    run(sandbox.command(&["archive", "import"]), b"").done();
    unblock(&sandbox);
    // One after the other, or imports of hooks would do the work.
    for talk in &made {
        fs::rename(&talk.path, sandbox.path(&talk.id)).unwrap();
    }
    let mut dice = Rng::new(1);
    let mut hits = 0;
    for shot in 0..12_u32 {
        let mut child = sandbox.command(&["archive", "optimize"]);
        let mut child = child.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        sleep(Duration::from_millis(5 * u64::from(shot)).mul_f64(1.0 + dice.roll()));
        child.kill().unwrap();
        hits += u32::from(!child.wait().unwrap().success());
        if sandbox.database().exists() && !moved(&sandbox, "merged").is_empty() {
            break;
        }
    }
    assert!(hits > 0, "no kill hit");
    run(sandbox.command(&["archive", "optimize"]), b"").done();
    for talk in &made {
        fs::rename(sandbox.path(&talk.id), &talk.path).unwrap();
    }
    assert_merged(&sandbox, &made);
    assert_eq!(moved(&sandbox, "merged").len(), 1);
    assert_eq!(sandbox.count("SELECT max(generation) FROM transcripts"), 0, "nothing was taken for rewritten");
}

/// Hooks that could open no database before go on writing to the folder, while two processes merge it.
#[test]
fn nothing_that_is_written_during_a_merge_is_lost() {
    let sandbox = Sandbox::new();
    let made: Vec<Talk> = (1..=2).flat_map(|seed| sandbox.generate(Kind::Chat, 80, seed)).map(|made| Talk::from(&made)).collect();
    for talk in &made {
        lines_hook(&sandbox, "stop", &talk.input());
    }
    let nowhere = sandbox.path("tmp");
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let merging: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    while begun.elapsed() < Duration::from_secs(4) {
                        // No transcript is in there: it does nothing but merge.
                        run(sandbox.command(&["archive", "import", nowhere.to_str().unwrap()]), b"").done();
                    }
                })
            })
            .collect();
        let mut number = 0;
        while merging.iter().any(|merging| !merging.is_finished()) {
            for talk in &made {
                number += 1;
                append_turn(&talk.path, number).unwrap();
                lines_hook(&sandbox, "stop", &talk.input());
            }
        }
    });
    // A hook does not wait for long: what one left is archived by the next.
    for talk in &made {
        lines_hook(&sandbox, "stop", &talk.input());
    }
    merge(&sandbox);
    assert_merged(&sandbox, &made);
    assert!(!moved(&sandbox, "merged").is_empty());
    for line in sandbox.log() {
        assert!(line["error"].as_str().unwrap().contains("by another process"), "{line}");
    }
}

#[test]
fn a_project_that_moved_meanwhile_stays_where_it_is() {
    let sandbox = Sandbox::new();
    let talk = sandbox.talk(1, Lines::of("s").turns(2));
    block(&sandbox);
    sandbox.quiet_hook("stop", &talk.input());
    sandbox.cli(&["archive", "move", FOLDER, sandbox.path("work").to_str().unwrap()]);
    unblock(&sandbox);
    merge(&sandbox);
    assert_merged(&sandbox, &[talk]);
    let of = |column: &str| sandbox.db().query_row(&format!("SELECT {column} FROM sessions"), [], |row| row.get::<_, String>(0));
    assert_eq!(of("moved_from").unwrap(), FOLDER);
    assert!(of("folder").unwrap().ends_with("work"));
    assert_eq!(sandbox.count("SELECT count(*) FROM folders"), 1, "what was noted of it is kept");
}
