//! One bit of the archive is another one: it is found wherever it is, and turned back.

use std::fs::{self, File};
use std::path::Path;

use ctxbridge_archive::recovery;
use ctxbridge_testkit::files;
use ctxbridge_testkit::sandbox::{Ran, Sandbox, Talk, run};
use ctxbridge_testkit::share_of;
use rusqlite::Connection;
use serde_json::json;

use super::lines::Lines;

/// Three sessions, one of them forked, in an archive with something in most of its tables, all of it in the one file.
fn archived() -> (Sandbox, Vec<Talk>) {
    let sandbox = Sandbox::new();
    let talks: Vec<Talk> = (1..=3)
        .map(|number: u32| {
            let mut lines = Lines::of("s").seed(number.into());
            let text: String = (0..40)
                .map(|turn| {
                    let kept = if turn == 7 { " #keep" } else { "" };
                    lines.turn(&format!("Task {number} {turn}: we decided to use table {} because it is small.{kept}", turn * 37))
                })
                .collect();
            sandbox.talk(number, text)
        })
        .collect();
    sandbox.cli(&["archive", "import"]);
    for event in ["pre-compact", "post-compact", "session-end"] {
        let input = talks[0].input_with(json!({ "trigger": "auto", "compact_summary": "All of it.", "reason": "other" }));
        run(sandbox.hook_command(event), input.to_string().as_bytes()).calm();
    }
    sandbox.cli(&["archive", "optimize"]);
    settle(&sandbox);
    (sandbox, talks)
}

fn settle(sandbox: &Sandbox) {
    let db = Connection::open(sandbox.database()).unwrap();
    db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
}

fn flip(sandbox: &Sandbox, bit: u64) {
    flip_in(&sandbox.database(), bit);
}

fn flip_in(path: &Path, bit: u64) {
    files::invert(path, bit / 8, &[1 << (bit % 8)]).unwrap();
}

/// Bits all over the file, and some of its header.
fn bits(length: u64, count: u32) -> Vec<u64> {
    let mut state: u64 = 0x9E37_79B9_7F4A_7C15;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    (0..count).map(|number| next() % if number % 10 == 0 { 800 } else { length * 8 }).collect()
}

/// Whatever was flipped, the file is afterwards what it was before, to the byte, with no transcript read.
#[test]
fn every_bit_is_turned_back() {
    let (sandbox, _) = archived();
    let whole = fs::read(sandbox.database()).unwrap();
    for bit in bits(whole.len() as u64, share_of(600)) {
        flip(&sandbox, bit);
        assert_eq!(recovery::damaged_pages(&sandbox.data()).unwrap(), 1, "bit {bit} was not found");
        assert_eq!(recovery::verify_pages(&sandbox.data()).unwrap(), None, "bit {bit}");
        assert!(fs::read(sandbox.database()).unwrap() == whole, "bit {bit} was not turned back");
        let last = recovery::repairs(&sandbox.data()).pop().unwrap();
        assert!(last.corrected_pages == 1 && last.is_of_damage(), "{last:?}");
    }
}

/// Hooks and commands, whichever comes first, go on as if nothing had been; the transcripts are gone.
#[test]
fn whoever_finds_it_goes_on() {
    let (sandbox, talks) = archived();
    let whole = fs::read(sandbox.database()).unwrap();
    let before = sandbox.cli(&["archive", "show", &talks[0].id]).stdout;
    let texts: Vec<String> = talks.iter().map(|talk| fs::read_to_string(&talk.path).unwrap()).collect();
    talks.iter().for_each(|talk| fs::remove_file(&talk.path).unwrap());
    for bit in bits(whole.len() as u64, share_of(100)) {
        fs::write(sandbox.database(), &whole).unwrap();
        fs::remove_file(sandbox.data().join("archive.db-wal")).ok();
        fs::remove_file(sandbox.data().join("archive.db-shm")).ok();
        flip(&sandbox, bit);
        let ran = run(sandbox.command(&["archive", "optimize", "--json"]), b"").with_code(1);
        assert_eq!(ran.json()["repairs"]["database"][0]["corrected_pages"], json!(1), "bit {bit}: {ran:?}");
        for (talk, text) in talks.iter().zip(&texts) {
            assert!(sandbox.cli(&["archive", "restore", &talk.id]).stdout == *text, "bit {bit}");
        }
        assert_eq!(sandbox.cli(&["archive", "show", &talks[0].id]).stdout, before);
    }
    assert_eq!(sandbox.aside(), [] as [std::path::PathBuf; 0]);
}

/// A hook meets it and mends it; nobody is told, since nothing is lost, but `doctor` knows.
#[test]
fn a_hook_mends_it() {
    let (sandbox, talks) = archived();
    let length = fs::metadata(sandbox.database()).unwrap().len();
    for bit in bits(length, share_of(60)) {
        flip(&sandbox, bit);
        for event in ["user-prompt-submit", "stop", "session-start"] {
            let ran: Ran =
                run(sandbox.hook_command(event), talks[1].input_with(json!({ "source": "startup" })).to_string().as_bytes());
            assert!(ran.calm().notice().is_none(), "bit {bit}");
        }
        run(sandbox.command(&["archive", "optimize"]), b"");
        settle(&sandbox);
    }
    sandbox.assert_sound();
    talks.iter().for_each(|talk| sandbox.assert_archived(talk));
    let told = run(sandbox.command(&["doctor"]), b"").stdout;
    assert!(told.contains("damaged and mended"), "{told}");
}

/// Hooks leave a log. A flipped bit in it is found, and turned back where only one can be it; otherwise what it cost is told, and
/// everything else is there. The transcripts are gone.
#[test]
fn a_bit_of_the_log() {
    let (sandbox, talks) = archived();
    let later = sandbox.talk(4, Lines::of("s").seed(4).turns(30));
    for talk in [&talks[1], &later] {
        talk.append(Lines::of("s").seed(77).turns(12));
        sandbox.quiet_hook("stop", &talk.input());
    }
    let all: Vec<&Talk> = talks.iter().chain([&later]).collect();
    let texts: Vec<String> = all.iter().map(|talk| fs::read_to_string(&talk.path).unwrap()).collect();
    all.iter().for_each(|talk| fs::remove_file(&talk.path).unwrap());
    let files = ["archive.db", "archive.db-wal", "archive.sessions"].map(|name| sandbox.data().join(name));
    let whole = files.each_ref().map(|path| fs::read(path).unwrap());
    assert!(whole[1].len() > 100_000);
    let (mut turned_back, mut told) = (0, 0);
    for bit in bits(whole[1].len() as u64, share_of(350)) {
        fs::remove_file(sandbox.data().join("archive.db-shm")).ok();
        files.iter().zip(&whole).for_each(|(path, bytes)| fs::write(path, bytes).unwrap());
        flip_in(&files[1], bit);
        assert_eq!(recovery::damaged_pages(&sandbox.data()).unwrap(), 1, "bit {bit} was not found");
        run(sandbox.command(&["archive", "optimize", "--verify"]), b"").with_code(1);
        let last = recovery::repairs(&sandbox.data()).pop().unwrap();
        let restored = |(talk, text): (&&Talk, &String)| {
            let ran = run(sandbox.command(&["archive", "restore", &talk.id]), b"");
            assert!(ran.code != Some(0) || ran.stdout == *text, "bit {bit}: a piece is missing, and nobody says so");
            ran.code == Some(0)
        };
        let is_all_there = all.iter().zip(&texts).map(restored).filter(|is_there| *is_there).count() == all.len();
        if last.corrected_pages == 1 {
            turned_back += 1;
            assert!(is_all_there && last.lost_pages == 0, "bit {bit}");
        } else {
            told += 1;
            assert_eq!(last.lost_pages, 1, "bit {bit}");
        }
    }
    assert!(turned_back > 2 * told, "{turned_back} turned back, {told} not");
}

/// Of an archive that was cut off, sessions of which nothing is left are named.
#[test]
fn what_was_cut_off_is_named() {
    let (sandbox, talks) = archived();
    talks.iter().for_each(|talk| fs::remove_file(&talk.path).unwrap());
    File::options().write(true).open(sandbox.database()).unwrap().set_len(3 * 4096).unwrap();
    let ran = run(sandbox.command(&["archive", "optimize"]), b"").with_code(1);
    for talk in &talks {
        assert!(ran.stdout.contains(&format!("session {}", talk.id)), "{ran:?}");
    }
    let told = run(sandbox.command(&["doctor"]), b"").stdout;
    assert!(told.contains("3 sessions were lost"), "{told}");
    assert_eq!(run(sandbox.command(&["archive", "optimize"]), b"").stdout.matches("lost:").count(), 0, "told once");
}

/// Commands that write much leave nothing in the log, where not every bit can be turned back.
#[test]
fn the_log_is_empty_after_commands() {
    let sandbox = Sandbox::new();
    let log = || fs::metadata(sandbox.data().join("archive.db-wal")).map_or(0, |metadata| metadata.len());
    for number in 1..=3 {
        let talk = sandbox.talk(number, Lines::of("s").seed(number.into()).turns(20));
        sandbox.cli(&["archive", "import"]);
        assert_eq!(log(), 0);
        talk.append(Lines::of("s").seed(99).turns(1));
        sandbox.quiet_hook("stop", &talk.input());
        assert!(log() > 0);
        sandbox.cli(&["archive", "optimize"]);
        assert_eq!(log(), 0);
    }
}

/// A command that only reads may have printed something by then: it mends the archive, and says to run it again.
#[test]
fn a_command_that_reads_mends_it() {
    let (sandbox, talks) = archived();
    let whole = fs::read(sandbox.database()).unwrap();
    let mut failed = 0;
    for bit in bits(whole.len() as u64, share_of(500)) {
        flip(&sandbox, bit);
        let first = run(sandbox.command(&["archive", "show", &talks[0].id]), b"");
        if first.code != Some(0) {
            failed += 1;
            assert!(first.code == Some(3) && first.stderr.contains("is mended: run the command again"), "bit {bit}: {first:?}");
            sandbox.cli(&["archive", "show", &talks[0].id]);
        }
        recovery::verify_pages(&sandbox.data()).unwrap();
        assert!(fs::read(sandbox.database()).unwrap() == whole, "bit {bit}");
    }
    assert!(failed > 0);
}

/// A page of noise is not accepted for what another program wrote, where it is a part of a text.
#[test]
fn noise_in_a_text_is_no_content() {
    let (sandbox, talks) = archived();
    let db = Connection::open(sandbox.database()).unwrap();
    let sql = "SELECT pageno FROM dbstat WHERE name = 'transcripts' AND pagetype = 'overflow' LIMIT 1";
    let page: u64 = match db.query_row(sql, [], |row| row.get::<_, i64>(0)) {
        Ok(page) => page.cast_unsigned(),
        // These states are short.
        Err(_) => db
            .query_row("SELECT max(pageno) FROM dbstat WHERE name = 'transcripts'", [], |row| row.get::<_, i64>(0))
            .unwrap()
            .cast_unsigned(),
    };
    drop(db);
    files::overwrite(&sandbox.database(), (page - 1) * 4096 + 3_000, &[0xfe; 512]).unwrap();
    sandbox.cli(&["archive", "import"]);
    assert_eq!(recovery::repairs(&sandbox.data()).pop().unwrap().resealed_pages, 0);
    talks.iter().for_each(|talk| sandbox.assert_archived(talk));
}

/// With pages of another size, there are no checksums where we look for them, and nothing is damaged.
#[test]
fn an_archive_with_other_pages_is_whole() {
    let (sandbox, talks) = archived();
    let db = Connection::open(sandbox.database()).unwrap();
    db.execute_batch("PRAGMA journal_mode = delete; PRAGMA page_size = 8192; VACUUM").unwrap();
    drop(db);
    sandbox.cli(&["archive", "optimize", "--verify"]);
    assert_eq!(sandbox.aside(), [] as [std::path::PathBuf; 0]);
    talks.iter().for_each(|talk| sandbox.assert_archived(talk));
}

/// What another program wrote has other checksums, and is no damage.
#[test]
fn pages_of_another_program_are_accepted() {
    let (sandbox, talks) = archived();
    let whole = fs::read(sandbox.database()).unwrap();
    let last = whole.len() as u64 / 4096 - 1;
    for page in [1, last / 2, last] {
        files::overwrite(&sandbox.database(), page * 4096 + 4088, &[0; 8]).unwrap();
    }
    let ran = run(sandbox.command(&["archive", "optimize", "--json"]), b"").with_code(1).json();
    assert_eq!(ran["repairs"]["database"][0]["resealed_pages"], json!(3), "{ran}");
    assert_eq!(sandbox.aside(), [] as [std::path::PathBuf; 0]);
    talks.iter().for_each(|talk| sandbox.assert_archived(talk));
}

/// An archive that is suddenly empty is no new one.
#[test]
fn an_emptied_archive_is_told() {
    let (sandbox, talks) = archived();
    File::options().write(true).open(sandbox.database()).unwrap().set_len(0).unwrap();
    let told = run(sandbox.command(&["doctor"]), b"").with_code(1).stdout;
    assert!(told.contains("archive.db is empty, and was not before"), "{told}");
    let ran = sandbox.cli(&["archive", "import"]);
    assert!(ran.stderr.contains("was damaged"), "{ran:?}");
    talks.iter().for_each(|talk| sandbox.assert_archived(talk));
}
