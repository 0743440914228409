//! `archive optimize` and its dry run, `archive status`, and what recalling does.

use std::fs;
use std::path::PathBuf;

use ctxbridge_testkit::sandbox::{Sandbox, Talk, run};
use rusqlite::{Connection, TransactionBehavior};

use super::lines::Lines;
use super::place::HOUR;

/// A session of ten turns from a year that is long over.
fn archived() -> (Sandbox, Talk) {
    let sandbox = Sandbox::new();
    let mut lines = Lines::of("s");
    let early: String = (0..4).map(|number| lines.turn(&format!("Early question {number}"))).collect();
    let text = early + &lines.summary("All that was said before.") + &lines.turns(6);
    let talk = sandbox.talk(1, text.replace("\"2026-", "\"2024-"));
    sandbox.cli(&["archive", "import"]);
    (sandbox, talk)
}

/// The files of the archive, but for what processes tell each other in `-shm`.
fn files(sandbox: &Sandbox) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = fs::read_dir(sandbox.data()).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = entries.filter(|path| path.is_file() && !path.to_string_lossy().ends_with("-shm")).collect();
    files.sort();
    files.into_iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

/// As if the last cycle had been so long ago.
fn last_cycle(sandbox: &Sandbox, hours: i64) {
    let ms = jiff::Timestamp::now().as_millisecond() - hours * HOUR;
    let db = Connection::open(sandbox.database()).unwrap();
    db.execute("INSERT OR REPLACE INTO notes (key, value) VALUES ('last_optimize_ms', ?1)", [ms.to_string()]).unwrap();
}

#[test]
fn a_dry_run_says_it_and_changes_nothing() {
    let (sandbox, _) = archived();
    let before = files(&sandbox);
    sandbox.cli(&["archive", "optimize", "--dry-run"]);
    assert_same(&files(&sandbox), &before);
    // Somebody writes all the while.
    let mut db = Connection::open(sandbox.database()).unwrap();
    let writer = db.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    writer.execute("UPDATE sessions SET model = 'never seen'", []).unwrap();
    insta::assert_snapshot!(sandbox.cli(&["archive", "optimize", "--dry-run", "-v"]).stdout, @"
    no time has passed since the last cycle, or this is the first: no confidence is lost
    kept hot for 30 days: as set
    7 entries would be pruned: 0 by confidence, 7 by age
    4 entries would be hot, 7 pruned
    11 entries would be taken into the search index, 11 entries would get vectors
    a dry run: nothing was changed; no damage found
    ");
    assert_eq!(
        sandbox.cli(&["archive", "optimize", "--dry-run"]).stdout,
        "would change: 7 entries pruned, 11 entries indexed\na dry run: nothing was changed; no damage found\n"
    );
    insta::assert_snapshot!(sandbox.cli(&["archive", "optimize", "--dry-run", "--json"]).stdout, @r#"
    {
      "dry_run": true,
      "transcripts": 0,
      "rewritten": 0,
      "damaged": null,
      "elapsed_hours": 0.0,
      "decayed": 0,
      "pruned_by_confidence": 0,
      "pruned_by_age": 7,
      "retention_days": 30,
      "retention_days_set": 30,
      "retention_reason": "as_set",
      "hot": 4,
      "pruned": 7,
      "merged": null,
      "repairs": {
        "database": [],
        "segments": {
          "checked": 1,
          "bytes": 9204,
          "is_partial": false,
          "healed": 0,
          "unreachable": 0,
          "lost": []
        }
      },
      "indexed": 11,
      "embedded": 11,
      "not_embedded": 0,
      "tiers": {
        "warm": {
          "segments": 0,
          "bytes_before": 0,
          "bytes_after": 0
        },
        "cold": {
          "sessions": 0,
          "bytes_before": 0,
          "bytes_after": 0
        },
        "back": {
          "sessions": 0,
          "bytes_before": 0,
          "bytes_after": 0
        },
        "failed": [],
        "is_cut": false,
        "is_elsewhere": false,
        "database": null
      }
    }
    "#);
    assert_same(&files(&sandbox), &before);
    writer.rollback().unwrap();
    drop(db);
    insta::assert_snapshot!(sandbox.cli(&["archive", "optimize", "-v"]).stdout, @"
    no time has passed since the last cycle, or this is the first: no confidence is lost
    kept hot for 30 days: as set
    7 entries were pruned: 0 by confidence, 7 by age
    4 entries are hot, 7 pruned
    11 entries were taken into the search index, 11 entries got vectors
    0 learnings new; 0 calls found that failed and passed after a change
    done: no damage found
    ");
}

#[track_caller]
fn assert_same(one: &[(PathBuf, Vec<u8>)], other: &[(PathBuf, Vec<u8>)]) {
    let sizes = |files: &[(PathBuf, Vec<u8>)]| files.iter().map(|(path, bytes)| (path.clone(), bytes.len())).collect::<Vec<_>>();
    assert!(one == other, "{:?} {:?}", sizes(one), sizes(other));
}

#[test]
fn by_confidence() {
    let (sandbox, _) = archived();
    last_cycle(&sandbox, 200);
    let dry = sandbox.json(&["archive", "optimize", "--dry-run"]);
    insta::assert_snapshot!(sandbox.cli(&["archive", "optimize", "--dry-run", "-v"]).stdout, @"
    200.0 hours since the last cycle: 11 entries would lose confidence, 0.900 at most
    kept hot for 30 days: as set
    7 entries would be pruned: 7 by confidence, 0 by age
    4 entries would be hot, 7 pruned
    11 entries would be taken into the search index, 11 entries would get vectors
    a dry run: nothing was changed; no damage found
    ");
    last_cycle(&sandbox, 200);
    let mut real = sandbox.json(&["archive", "optimize"]);
    // What there is to learn is not known before it is looked for.
    for key in ["learned", "fixes"] {
        assert_eq!(real.as_object_mut().unwrap().remove(key), Some(serde_json::json!(0)));
    }
    assert!((real["elapsed_hours"].as_f64().unwrap() - dry["elapsed_hours"].as_f64().unwrap()).abs() < 0.1);
    for (key, value) in [("dry_run", serde_json::json!(true)), ("elapsed_hours", dry["elapsed_hours"].clone())] {
        real[key] = value;
    }
    assert_eq!(real, dry);
    let status = sandbox.json(&["archive", "status"]);
    assert_eq!((&status["hot"], &status["pruned"]), (&dry["hot"], &dry["pruned"]));
    assert!(sandbox.cli(&["archive", "status"]).stdout.contains("4 entries hot, 7 pruned"));
}

#[test]
fn settings_decide() {
    let (sandbox, _) = archived();
    let with = |variables: &[(&str, &str)]| {
        let mut command = sandbox.command(&["archive", "optimize", "--dry-run", "--json"]);
        command.envs(variables.iter().copied());
        let told = run(command, b"").done().json();
        (told["retention_days"].as_u64().unwrap(), told["retention_reason"].as_str().unwrap().to_owned(), told["pruned"].as_u64())
    };
    assert_eq!(with(&[("CLAUDE_FLOW_RETENTION_DAYS", "12")]), (12, "as_set".to_owned(), Some(7)));
    assert_eq!(with(&[("CTXBRIDGE_ARCHIVE_RETENTION_DAYS", "30000")]), (30_000, "as_set".to_owned(), Some(0)));
    // A megabyte more is archived than there may be.
    let mut lines = Lines::of("t").seed(1);
    let mut dice = ctxbridge_testkit::Rng::new(1);
    let noise: String = (0..6_000_000).map(|_| char::from(b'a' + (dice.roll() * 26.0) as u8)).collect();
    sandbox.talk(2, lines.prompt("Large.") + &lines.answer(&noise));
    sandbox.cli(&["archive", "import"]);
    let (days, reason, _) = with(&[("CTXBRIDGE_ARCHIVE_SIZE_TARGET_MB", "1")]);
    assert_eq!((days < 30, reason.as_str()), (true, "size"));
    let off = [("CTXBRIDGE_ARCHIVE_SIZE_TARGET_MB", "1"), ("CTXBRIDGE_ARCHIVE_ADAPTIVE_RETENTION", "off")];
    assert_eq!(with(&off).0, 30);
}

#[test]
fn a_pruned_turn_is_whole_and_comes_back_when_recalled() {
    let (sandbox, talk) = archived();
    let shown = sandbox.json(&["archive", "show", &talk.id]);
    sandbox.cli(&["archive", "optimize"]);
    sandbox.assert_archived(&talk);
    sandbox.assert_sound();
    let turn = |at: usize| sandbox.json(&["archive", "show", &talk.id])["turns"][at].clone();
    assert_eq!((&turn(0)["is_pruned"], &turn(9)["is_pruned"]), (&true.into(), &false.into()));
    assert_eq!(turn(0)["summary"], shown["turns"][0]["summary"]);
    // To look at a turn is not to use it.
    let handle = turn(0)["handle"].as_str().unwrap().to_owned();
    let looked = sandbox.cli(&["archive", "show", &handle]).stdout;
    assert_eq!(turn(0)["is_pruned"], true);
    let recalled = sandbox.cli(&["recall", &handle]).stdout;
    assert!(recalled == looked && recalled.contains("Early question 0"), "{recalled}");
    assert_eq!((&turn(0)["is_pruned"], &turn(0)["access_count"]), (&false.into(), &1.into()));
    sandbox.cli(&["archive", "optimize"]);
    assert_eq!(turn(0)["is_pruned"], false, "for good");
    // After a compaction, it is among what comes back; those that are still pruned are not.
    let input = talk.input_with(serde_json::json!({ "source": "compact" }));
    let context = sandbox.hook("session-start", &input).context().unwrap();
    assert!(context.contains(&handle), "{context}");
    assert!(!context.contains("Early question 1"), "{context}");
}

#[test]
fn where_there_is_no_archive() {
    let sandbox = Sandbox::new();
    insta::assert_snapshot!(sandbox.cli(&["archive", "optimize", "--dry-run", "-v"]).stdout, @"there is no archive yet; `ctxbridge archive import` begins one");
    assert_eq!(files(&sandbox), []);
    fs::write(sandbox.database(), "no database, but long enough to be looked at ".repeat(50)).unwrap();
    let before = files(&sandbox);
    let ran = run(sandbox.command(&["archive", "optimize", "--dry-run"]), b"").with_code(1);
    insta::assert_snapshot!(ran.stdout.replace(sandbox.data().to_str().unwrap(), "DATA"), @"damaged: DATA/archive.db; without --dry-run, it is mended, or moved aside and a new one begun");
    let after: Vec<_> = files(&sandbox).into_iter().filter(|(path, _)| !path.ends_with("archive.lock")).collect();
    assert!(before == after);
}

#[test]
fn an_archive_of_an_older_version() {
    let (sandbox, _) = archived();
    Connection::open(sandbox.database()).unwrap().pragma_update(None, "user_version", 1).unwrap();
    let ran = run(sandbox.command(&["archive", "optimize", "--dry-run"]), b"").with_code(3);
    insta::assert_snapshot!(ran.stderr.replace(sandbox.data().to_str().unwrap(), "DATA"), @"error: the archive DATA/archive.db was written by an older ctxbridge; any other command, such as `ctxbridge archive status`, upgrades it");
}
