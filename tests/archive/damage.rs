//! A database that is damaged is moved aside and made anew from the transcripts that still exist. The user is told, once.

use std::fs::{self, File};
use std::path::PathBuf;

use ctxbridge_testkit::files;
use ctxbridge_testkit::sandbox::{Ran, Sandbox, Talk, finish, run, start, wait_until};
use rusqlite::Connection;
use serde_json::json;

use super::lines::Lines;

/// Three sessions in an archive whose log is empty, so that all of it is in the one file.
fn archived() -> (Sandbox, Vec<Talk>) {
    let sandbox = Sandbox::new();
    let talk = |number: u32| {
        let mut lines = Lines::of("s").seed(number.into());
        let text = (0..60).map(|turn| lines.turn(&format!("{number} {turn} {}", noise(2_000, number * 1_000 + turn))));
        sandbox.talk(number, text.collect::<String>())
    };
    let talks: Vec<Talk> = (1..=3).map(talk).collect();
    sandbox.cli(&["archive", "import"]);
    settle(&sandbox);
    (sandbox, talks)
}

/// Moves the log into the database.
fn settle(sandbox: &Sandbox) {
    let db = Connection::open(sandbox.database()).unwrap();
    db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
}

fn noise(length: usize, seed: u32) -> String {
    let mut state = u64::from(seed).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let letter = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(b'a' + (state >> 32) as u8 % 26)
    };
    (0..length).map(letter).collect()
}

/// What users are told of a database that is moved aside.
fn tells(ran: &Ran) -> bool {
    ran.stdout.starts_with('{') && ran.notice().is_some_and(|notice| notice.contains("damaged") && notice.contains(".damaged-1"))
}

/// Runs hooks until the damage is found, and a few more: one tells, all sessions are back, and what was there is kept.
#[track_caller]
fn assert_healed(sandbox: &Sandbox, talks: &[Talk], kept: &[u8]) {
    let mut ran = Vec::new();
    for event in ["user-prompt-submit", "stop", "stop", "user-prompt-submit"] {
        for talk in talks {
            ran.push(sandbox.hook(event, &talk.input()));
        }
    }
    assert_eq!(ran.iter().filter(|ran| tells(ran)).count(), 1, "{ran:?}");
    assert_eq!(ran.iter().filter(|ran| !ran.stdout.is_empty()).count(), 1, "{ran:?}");
    let aside = sandbox.aside();
    assert_eq!(aside.len(), 1, "{aside:?}");
    if aside[0].is_file() {
        assert!(fs::read(&aside[0]).unwrap() == kept, "what was damaged is not what is kept");
    }
    assert_back(sandbox, talks);
}

#[track_caller]
fn assert_back(sandbox: &Sandbox, talks: &[Talk]) {
    let have = || {
        let sql = "SELECT count(*) FROM transcripts";
        let db = Connection::open(sandbox.database()).unwrap();
        db.query_row(sql, [], |row| row.get::<_, i64>(0)).is_ok_and(|count| count == talks.len() as i64)
    };
    wait_until("all sessions are in the new archive", have);
    sandbox.assert_sound();
    for talk in talks {
        sandbox.assert_archived(talk);
    }
}

fn bytes(sandbox: &Sandbox) -> Vec<u8> {
    fs::read(sandbox.database()).unwrap()
}

#[test]
fn a_header_that_is_none() {
    let (sandbox, talks) = archived();
    files::overwrite(&sandbox.database(), 0, &[0x5a; 100]).unwrap();
    assert_healed(&sandbox, &talks, &bytes(&sandbox));
}

#[test]
fn a_file_that_is_no_database() {
    let (sandbox, talks) = archived();
    fs::write(sandbox.database(), noise(100_000, 1)).unwrap();
    assert_healed(&sandbox, &talks, &bytes(&sandbox));
}

#[test]
fn a_file_that_was_cut_off() {
    for share in [0.1, 0.5, 0.9] {
        let (sandbox, talks) = archived();
        let file = File::options().write(true).open(sandbox.database()).unwrap();
        let length = file.metadata().unwrap().len();
        file.set_len((length as f64 * share) as u64).unwrap();
        // A hook finds it when it needs what is missing.
        for talk in &talks {
            talk.append(Lines::of("s").seed(77).turns(1));
        }
        assert_healed(&sandbox, &talks, &bytes(&sandbox));
    }
}

/// Every page but those that are read when it is opened.
#[test]
fn pages_that_were_overwritten() {
    let (sandbox, talks) = archived();
    for page in 2..bytes(&sandbox).len() as u64 / 4096 {
        files::overwrite(&sandbox.database(), page * 4096, &[0xa5; 4096]).unwrap();
    }
    for talk in &talks {
        talk.append(Lines::of("s").seed(77).turns(1));
    }
    assert_healed(&sandbox, &talks, &bytes(&sandbox));
}

/// Nothing of the structure is damaged, but the bytes of the piece that a hook would go on with.
#[test]
fn a_piece_that_was_altered() {
    let sandbox = Sandbox::new();
    let talks = [1, 2, 3].map(|number| sandbox.talk(number, Lines::of("s").seed(number.into()).turns(10)));
    sandbox.cli(&["archive", "import"]);
    let db = Connection::open(sandbox.database()).unwrap();
    assert_eq!(db.execute("UPDATE segments SET data = zeroblob(length(data))", []).unwrap(), 3);
    drop(db);
    settle(&sandbox);
    for talk in &talks {
        talk.append(Lines::of("s").seed(77).turns(1));
        sandbox.hook("user-prompt-submit", &talk.input());
        sandbox.hook("stop", &talk.input());
    }
    assert_back(&sandbox, &talks);
}

#[test]
fn pages_flipped_anywhere() {
    // Whatever they hit: hooks are calm, and once the damage is noticed, all is well again.
    for seed in 1..=6 {
        let (sandbox, talks) = archived();
        let pages = bytes(&sandbox).len() as u64 / 4096;
        for number in 0..8 {
            let page = (seed * 7_919 + number * 104_729) % pages;
            files::invert(&sandbox.database(), page * 4096 + 8 * number, &[0xff; 64]).unwrap();
        }
        for talk in &talks {
            talk.append(Lines::of("s").seed(77).turns(1));
        }
        for event in ["user-prompt-submit", "stop", "session-start", "pre-compact", "post-compact", "session-end", "stop"] {
            for talk in &talks {
                let input = talk.input_with(json!({ "source": "compact", "trigger": "auto", "compact_summary": "All." }));
                run(sandbox.hook_command(event), input.to_string().as_bytes()).calm();
            }
        }
        for arguments in [&["archive", "import"][..], &["archive", "optimize"], &["archive", "import"]] {
            run(sandbox.command(arguments), b"");
        }
        assert!(sandbox.aside().len() <= 1, "{:?}", sandbox.aside());
    }
}

#[test]
fn a_folder_in_its_place() {
    let (sandbox, talks) = archived();
    fs::remove_file(sandbox.database()).unwrap();
    fs::create_dir(sandbox.database()).unwrap();
    fs::write(sandbox.database().join("kept"), "").unwrap();
    assert_healed(&sandbox, &talks, b"");
    assert!(sandbox.aside()[0].join("kept").exists());
}

/// That is no damage: whoever wrote it wants it back.
#[test]
fn a_newer_schema() {
    let (sandbox, talks) = archived();
    Connection::open(sandbox.database()).unwrap().pragma_update(None, "user_version", 1_000).unwrap();
    settle(&sandbox);
    let before = bytes(&sandbox);
    let ran: Vec<Ran> = (0..2).flat_map(|_| &talks).map(|talk| sandbox.hook("stop", &talk.input())).collect();
    let told: Vec<String> = ran.iter().filter_map(Ran::notice).collect();
    assert!(told.len() == 1 && told[0].contains("upgrade ctxbridge"), "{told:?}");
    for event in ["session-start", "user-prompt-submit", "pre-compact", "post-compact", "subagent-stop", "session-end"] {
        assert_eq!(sandbox.hook(event, &talks[0].input_with(json!({ "source": "compact", "trigger": "auto" }))).stdout, "");
    }
    let ran = run(sandbox.command(&["archive", "status"]), b"").with_code(3);
    assert!(ran.stderr.contains("upgrade ctxbridge"), "{}", ran.stderr);
    assert_eq!(sandbox.aside(), [] as [PathBuf; 0]);
    assert!(bytes(&sandbox) == before, "it was written to");
}

/// Several hooks find it at once. One of them moves it aside and tells; nothing of the others is lost.
#[test]
fn found_by_many() {
    for round in 0..4 {
        let (sandbox, talks) = archived();
        fs::write(sandbox.database(), noise(100_000, round)).unwrap();
        let kept = bytes(&sandbox);
        for talk in &talks {
            talk.append(Lines::of("s").seed(77).turns(1));
        }
        let hook = |number: usize| {
            let talk = &talks[number % talks.len()];
            start(sandbox.hook_command("stop"), talk.input().to_string().as_bytes())
        };
        let children: Vec<_> = (0..24).map(hook).collect();
        let ran: Vec<Ran> = children.into_iter().map(|child| finish(child).calm()).collect();
        assert_eq!(ran.iter().filter(|ran| tells(ran)).count(), 1, "{ran:?}");
        assert_eq!(ran.iter().filter(|ran| !ran.stdout.is_empty()).count(), 1, "{ran:?}");
        assert_eq!(sandbox.aside().len(), 1);
        assert!(fs::read(&sandbox.aside()[0]).unwrap() == kept);
        assert_back(&sandbox, &talks);
        assert!(sandbox.log().is_empty(), "{:?}", sandbox.log());
    }
}

/// Whichever hook finds it: the user hears of it, from that one or, where it may not speak, from the next.
#[test]
fn every_hook_tells() {
    for event in ["session-start", "user-prompt-submit", "pre-compact", "post-compact", "stop", "subagent-stop", "session-end"] {
        let (sandbox, talks) = archived();
        fs::write(sandbox.database(), noise(100_000, 1)).unwrap();
        let input =
            talks[0].input_with(json!({ "source": "compact", "trigger": "auto", "compact_summary": "All.", "reason": "other" }));
        let ran = [event, "stop", "user-prompt-submit"].map(|event| sandbox.hook(event, &input));
        assert_eq!(ran.iter().filter(|ran| tells(ran)).count(), 1, "{event}: {ran:?}");
        assert_back(&sandbox, &talks);
    }
}

/// An import finds it and tells as well.
#[test]
fn found_by_an_import() {
    let (sandbox, talks) = archived();
    fs::write(sandbox.database(), noise(100_000, 1)).unwrap();
    let ran = sandbox.cli(&["archive", "import"]);
    assert!(ran.stderr.contains(".damaged-1"), "{ran:?}");
    assert_eq!(sandbox.aside().len(), 1);
    assert_back(&sandbox, &talks);
}

/// Damage in the middle is no obstacle to an import, either.
#[test]
fn found_by_an_import_in_the_middle() {
    let (sandbox, talks) = archived();
    for page in 2..bytes(&sandbox).len() as u64 / 4096 {
        files::overwrite(&sandbox.database(), page * 4096, &[0xa5; 4096]).unwrap();
    }
    let ran = sandbox.cli(&["archive", "import"]);
    assert!(ran.stderr.contains(".damaged-1"), "{ran:?}");
    assert_back(&sandbox, &talks);
}

/// Damage that no hook meets is met by the optimize cycle at the end of a session; the next hook tells.
#[test]
fn found_by_an_optimize_cycle() {
    let (sandbox, talks) = archived();
    // An index that is asked for nothing that hooks do.
    let db = Connection::open(sandbox.database()).unwrap();
    let sql = "SELECT rootpage FROM sqlite_schema WHERE name = 'turns_by_handle'";
    let page: u32 = db.query_row(sql, [], |row| row.get(0)).unwrap();
    drop(db);
    settle(&sandbox);
    files::overwrite(&sandbox.database(), u64::from(page - 1) * 4096, &[0xa5; 4096]).unwrap();
    sandbox.quiet_hook("stop", &talks[0].input());
    let mut end = sandbox.hook_command("session-end");
    end.env("CTXBRIDGE_ARCHIVE_AUTO_OPTIMIZE", "true");
    run(end, talks[0].input_with(json!({ "reason": "other" })).to_string().as_bytes()).calm();
    wait_until("somebody is going to be told", || {
        fs::metadata(sandbox.data().join("logs/owed")).is_ok_and(|owed| owed.len() > 0)
    });
    assert!(tells(&sandbox.hook("session-start", &talks[1].input_with(json!({ "source": "startup" })))));
    sandbox.quiet_hook("stop", &talks[1].input());
    assert_back(&sandbox, &talks);
}

#[test]
fn a_cycle_by_hand_tells_itself() {
    let (sandbox, _) = archived();
    fs::write(sandbox.database(), noise(100_000, 1)).unwrap();
    let ran = run(sandbox.command(&["archive", "optimize"]), b"").with_code(1);
    assert!(ran.stdout.contains(".damaged-1"), "{ran:?}");
    assert_eq!(sandbox.json(&["archive", "optimize"])["damaged"], json!(null));
}
