//! Pieces of transcripts that are damaged where no checksum of a page says so, as in an archive from before there were any.

use std::fs;

use ctxbridge_testkit::sandbox::{Sandbox, Talk, run};
use rusqlite::Connection;
use serde_json::json;

use super::lines::Lines;

fn archived() -> (Sandbox, Vec<Talk>) {
    let sandbox = Sandbox::new();
    let talks = (1..=3).map(|number: u32| sandbox.talk(number, Lines::of("s").seed(number.into()).turns(12))).collect();
    sandbox.cli(&["archive", "import"]);
    (sandbox, talks)
}

/// Damages the bytes of all segments.
fn damage(sandbox: &Sandbox) {
    let db = Connection::open(sandbox.database()).unwrap();
    let sql = "UPDATE segments SET data = CAST(substr(data, 1, length(data) / 2) || x'00' AS BLOB)";
    assert_eq!(db.execute(sql, []).unwrap(), 3);
}

fn assert_restored(sandbox: &Sandbox, talks: &[Talk]) {
    for talk in talks {
        assert!(sandbox.cli(&["archive", "restore", &talk.id]).stdout == fs::read_to_string(&talk.path).unwrap());
    }
}

#[test]
fn optimize_puts_them_back_from_the_transcripts() {
    let (sandbox, talks) = archived();
    damage(&sandbox);
    let told = run(sandbox.command(&["archive", "optimize", "--dry-run", "--verify", "--json"]), b"").with_code(1).json();
    assert_eq!(told["repairs"]["segments"]["lost"].as_array().unwrap().len(), 3, "{told}");
    let told = run(sandbox.command(&["doctor"]), b"").with_code(1).stdout;
    assert!(told.contains("3 pieces damaged"), "{told}");
    let told = run(sandbox.command(&["archive", "optimize", "--verify", "--json"]), b"").with_code(1).json();
    assert_eq!(told["repairs"]["segments"]["healed"], json!(3), "{told}");
    assert_restored(&sandbox, &talks);
    assert_eq!(sandbox.json(&["archive", "optimize", "--verify"])["repairs"]["segments"]["healed"], json!(0));
}

#[test]
fn an_import_puts_them_back() {
    let (sandbox, talks) = archived();
    damage(&sandbox);
    sandbox.cli(&["archive", "import"]);
    assert_restored(&sandbox, &talks);
}

/// A session that says the same would be tied to the damaged piece.
#[test]
fn a_copy_of_the_session_puts_them_back() {
    let (sandbox, talks) = archived();
    damage(&sandbox);
    let texts: Vec<String> = talks.iter().map(|talk| fs::read_to_string(&talk.path).unwrap()).collect();
    talks.iter().for_each(|talk| fs::remove_file(&talk.path).unwrap());
    for (number, text) in (4..).zip(&texts) {
        let copy = sandbox.talk(number, text.clone());
        sandbox.quiet_hook("stop", &copy.input());
        assert!(sandbox.cli(&["archive", "restore", &copy.id]).stdout == *text);
    }
    for (talk, text) in talks.iter().zip(&texts) {
        assert!(sandbox.cli(&["archive", "restore", &talk.id]).stdout == *text);
    }
}

/// Another generation has the same bytes, joined with others.
#[test]
fn an_older_generation_puts_them_back() {
    let sandbox = Sandbox::new();
    let text: String = Lines::of("s").turns(60);
    let talk = sandbox.talk(1, text.clone());
    sandbox.cli(&["archive", "import"]);
    // Of the rewritten file, the first half is one piece with what follows it.
    let half = text[..text.len() / 2].rfind('\n').unwrap() + 1;
    let rewritten = format!("{}{}", &text[..half], Lines::of("s").seed(9).turns(3));
    fs::write(&talk.path, &rewritten).unwrap();
    sandbox.cli(&["archive", "import"]);
    fs::remove_file(&talk.path).unwrap();
    let db = Connection::open(sandbox.database()).unwrap();
    let pieces: i64 = db.query_row("SELECT count(*) FROM segments", [], |row| row.get(0)).unwrap();
    assert!(pieces >= 2, "{pieces}");
    // Nothing has all bytes of the older one: it is listed with its turns.
    db.execute("UPDATE segments SET data = x'00' WHERE id = 1", []).unwrap();
    drop(db);
    let told = run(sandbox.command(&["archive", "optimize", "--verify", "--json"]), b"").with_code(1).json();
    let lost = told["repairs"]["segments"]["lost"].as_array().unwrap();
    assert!(!lost.is_empty() && !lost[0]["turns"].as_array().unwrap().is_empty(), "{told}");
    assert!(sandbox.cli(&["archive", "restore", &talk.id]).stdout == rewritten);
}

/// What is nowhere else is listed with its turns, and all else is read as before.
#[test]
fn what_is_lost_is_named_and_hides_nothing() {
    let (sandbox, talks) = archived();
    let text = fs::read_to_string(&talks[1].path).unwrap();
    talks.iter().for_each(|talk| fs::remove_file(&talk.path).unwrap());
    let db = Connection::open(sandbox.database()).unwrap();
    let sql =
        "UPDATE segments SET data = x'00' WHERE id = (SELECT segment FROM layout JOIN transcripts ON transcripts.id = transcript
        JOIN sessions ON sessions.id = transcripts.session WHERE sessions.session = ?1)";
    assert_eq!(db.execute(sql, [&talks[0].id]).unwrap(), 1);
    drop(db);
    let ran = run(sandbox.command(&["archive", "optimize", "--verify"]), b"").with_code(1);
    assert!(ran.stdout.contains("lost:") && ran.stdout.contains("needed by ctx:"), "{}", ran.stdout);
    assert!(ran.stdout.contains("what is damaged was said above, all else is whole"), "{}", ran.stdout);
    assert!(sandbox.cli(&["archive", "restore", &talks[1].id]).stdout == text);
    let shown = sandbox.cli(&["archive", "show", &talks[0].id]).stdout;
    assert_eq!(shown.matches("(damaged)").count(), 12, "{shown}");
    let failed = run(sandbox.command(&["archive", "restore", &talks[0].id]), b"");
    assert!(failed.stderr.contains("optimize --verify"), "{}", failed.stderr);
    // Of a session with several pieces, the others are there.
    let long: String = Lines::of("s").seed(8).turns(4_000);
    assert!(long.len() > 2 << 20, "{}", long.len());
    let talk = sandbox.talk(8, long.clone());
    sandbox.cli(&["archive", "import"]);
    fs::remove_file(&talk.path).unwrap();
    let db = Connection::open(sandbox.database()).unwrap();
    db.execute("UPDATE segments SET data = x'00' WHERE bytes = 2097152", []).unwrap();
    drop(db);
    let ran = run(sandbox.command(&["archive", "restore", &talk.id, "--partial"]), b"").with_code(1);
    assert!(ran.stderr.contains("left out: 2097152 bytes from byte 0 on"), "{}", ran.stderr);
    assert!(ran.stdout == long[2 << 20..]);
    for event in ["session-start", "pre-compact", "user-prompt-submit", "stop"] {
        let input = talks[0].input_with(json!({ "source": "compact", "trigger": "auto", "prompt": "What was the first table?" }));
        run(sandbox.hook_command(event), input.to_string().as_bytes()).calm();
    }
}
