//! Whole pages of the archive are lost, and the transcripts are gone: everything else is in the new archive.

use std::fs;

use ctxbridge_testkit::files;
use ctxbridge_testkit::sandbox::{Sandbox, Talk, run, session_id};
use ctxbridge_testkit::share_of;
use rusqlite::Connection;
use serde_json::json;

use super::lines::Lines;

const SESSIONS: u32 = 12;

/// Sessions whose transcripts are gone, with what they said, in an archive that is all in one file.
fn archived() -> (Sandbox, Vec<(Talk, String)>) {
    let sandbox = Sandbox::new();
    let talks: Vec<(Talk, String)> = (1..=SESSIONS)
        .map(|number| {
            let talk = sandbox.talk(number, Lines::of(&session_id(number)).seed(number.into()).turns(30));
            let text = fs::read_to_string(&talk.path).unwrap();
            (talk, text)
        })
        .collect();
    sandbox.cli(&["archive", "import"]);
    talks.iter().for_each(|(talk, _)| fs::remove_file(&talk.path).unwrap());
    let db = Connection::open(sandbox.database()).unwrap();
    db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    (sandbox, talks)
}

fn overwrite(sandbox: &Sandbox, page: u64) {
    let noise: Vec<u8> = (0..4096_u64).map(|at| ((at * 2_654_435_761 + page * 97) >> 7) as u8).collect();
    files::overwrite(&sandbox.database(), (page - 1) * 4096, &noise).unwrap();
}

/// Sessions that are restored as they were.
fn restored(sandbox: &Sandbox, talks: &[(Talk, String)]) -> usize {
    let is_back = |(talk, text): &&(Talk, String)| run(sandbox.command(&["archive", "restore", &talk.id]), b"").stdout == *text;
    talks.iter().filter(is_back).count()
}

#[test]
fn the_header_is_lost() {
    let (sandbox, talks) = archived();
    overwrite(&sandbox, 1);
    let ran = sandbox.cli(&["archive", "import"]);
    assert!(ran.stderr.contains(".damaged-1") && ran.stderr.contains("what could be read"), "{ran:?}");
    assert_eq!(restored(&sandbox, &talks), talks.len());
    sandbox.assert_sound();
    let shown = sandbox.cli(&["archive", "show", &talks[3].0.id]).stdout;
    assert_eq!(shown.matches("ctx:").count(), 30, "{shown}");
}

/// One page anywhere costs what is on it: the bytes of one session, or of a few short ones whose pieces share it.
#[test]
fn any_page_is_lost() {
    let (sandbox, talks) = archived();
    let whole = fs::read(sandbox.database()).unwrap();
    let pages = whole.len() as u64 / 4096;
    let mut kept = 0;
    let rounds = share_of(150);
    for round in 0..rounds {
        let page = 1 + u64::from(round) * pages / u64::from(rounds);
        fs::write(sandbox.database(), &whole).unwrap();
        for companion in ["archive.db-wal", "archive.db-shm"] {
            fs::remove_file(sandbox.data().join(companion)).ok();
        }
        sandbox.aside().iter().for_each(|aside| fs::remove_file(aside).unwrap());
        overwrite(&sandbox, page);
        let ran = run(sandbox.command(&["archive", "optimize", "--verify", "--json"]), b"").with_code(1).json();
        assert!(ran["repairs"]["database"][0]["saved_rows"].as_u64().is_some_and(|rows| rows > 100), "page {page}: {ran}");
        let back = restored(&sandbox, &talks);
        assert!(back >= talks.len() - 4, "page {page}: {back} of {} sessions; {ran}", talks.len());
        // Each session that is not back is named.
        let lost = ran["repairs"]["segments"]["lost"].as_array().unwrap();
        let named = |talk: &&(Talk, String)| lost.iter().any(|lost| lost["session"] == json!(talk.0.id));
        assert_eq!(talks.iter().filter(named).count(), talks.len() - back, "page {page}: {ran}");
        kept += usize::from(back == talks.len());
        if back == talks.len() {
            sandbox.assert_sound();
        }
        let listed = sandbox.json(&["archive", "sessions"])["sessions"].as_array().map_or(0, Vec::len);
        assert!(listed >= back, "page {page}: {listed} sessions");
        // And it goes on.
        let (talk, text) = &talks[0];
        fs::write(&talk.path, text).unwrap();
        run(sandbox.hook_command("stop"), talk.input().to_string().as_bytes()).calm();
        assert!(sandbox.cli(&["archive", "restore", &talk.id]).stdout == *text, "page {page}");
        fs::remove_file(&talk.path).unwrap();
    }
    // Pages of indexes and of tables that can be made again.
    assert!(kept > 0);
}

/// What the log has is newer than the pages, and is read too.
#[test]
fn the_log_beside_a_damaged_file_counts() {
    let (sandbox, talks) = archived();
    let late = sandbox.talk(99, Lines::of(&session_id(99)).seed(99).turns(3));
    sandbox.quiet_hook("stop", &late.input());
    let text = fs::read_to_string(&late.path).unwrap();
    fs::remove_file(&late.path).unwrap();
    assert!(fs::metadata(sandbox.data().join("archive.db-wal")).unwrap().len() > 0);
    overwrite(&sandbox, 2);
    overwrite(&sandbox, 3);
    run(sandbox.hook_command("session-start"), late.input_with(json!({ "source": "startup" })).to_string().as_bytes()).calm();
    run(sandbox.command(&["archive", "optimize"]), b"");
    assert!(restored(&sandbox, &talks) >= talks.len() - 2);
    assert!(sandbox.cli(&["archive", "restore", &late.id]).stdout == text);
}
