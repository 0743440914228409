//! A cycle that is broken off has not happened, and is simply run again.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use ctxbridge_testkit::sandbox::{Sandbox, Talk};
use ctxbridge_testkit::transcript::Kind;
use ctxbridge_testkit::{Rng, share_of};
use rusqlite::Connection;

use super::place::DAY;

/// SIGKILL at random moments.
#[test]
fn cycles_that_are_killed() {
    let kills = share_of(30);
    let sandbox = Sandbox::new();
    let talk = Talk::from(&sandbox.generate(Kind::Chat, 6_000, 1)[0]);
    sandbox.cli(&["archive", "import"]);
    sandbox.cli(&["archive", "optimize"]);
    // The session is long over, and the last cycle was a week ago.
    let db = Connection::open(sandbox.database()).unwrap();
    let week_ago = jiff::Timestamp::now().as_millisecond() - 7 * DAY;
    db.execute("UPDATE notes SET value = ?1 WHERE key = 'last_optimize_ms'", [week_ago.to_string()]).unwrap();
    db.execute_batch("UPDATE sessions SET last_ms = 1000; UPDATE entries SET confidence = NULL; DELETE FROM decays;").unwrap();
    db.execute_batch("UPDATE transcripts SET hot_from = NULL; PRAGMA wal_checkpoint(TRUNCATE);").unwrap();
    drop(db);
    let kept = sandbox.path("kept.db");
    fs::copy(sandbox.database(), &kept).unwrap();
    let reset = || {
        for companion in ["archive.db-wal", "archive.db-shm"] {
            fs::remove_file(sandbox.data().join(companion)).ok();
        }
        fs::copy(&kept, sandbox.database()).unwrap();
    };
    let expected = sandbox.json(&["archive", "optimize", "--dry-run"])["pruned"].as_u64().unwrap();
    assert!(expected > 1_000, "{expected}");
    let pruned = || -> BTreeSet<i64> {
        let db = sandbox.db();
        let mut found = db.prepare("SELECT id FROM entries WHERE confidence = 0.0").unwrap();
        found.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    };
    let optimize = || -> Command {
        let mut command = sandbox.command(&["archive", "optimize", "--quiet"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    let begun = Instant::now();
    assert!(optimize().status().unwrap().success());
    let takes = begun.elapsed();
    let all = pruned();
    assert_eq!(all.len() as u64, expected);
    let mut dice = Rng::new(3);
    let (mut hits, mut before, mut shots) = (0, 0, 0);
    while hits < kills || before == 0 {
        assert!(shots < 600, "most kills come too late: {hits} of {shots}");
        shots += 1;
        reset();
        let mut child = optimize().spawn().unwrap();
        std::thread::sleep(Duration::from_secs_f64(takes.as_secs_f64() * dice.roll()));
        child.kill().unwrap();
        let status = child.wait().unwrap();
        assert!(status.signal() == Some(9) || status.success(), "{status}");
        hits += u32::from(!status.success());
        let left = pruned();
        assert!(left.is_empty() || left == all, "{} of {} are pruned", left.len(), all.len());
        let decays = sandbox.count("SELECT count(*) FROM decays");
        assert_eq!(decays == 0, left.is_empty(), "one without the other");
        before += u32::from(left.is_empty());
        assert!(optimize().status().unwrap().success());
        assert!(pruned() == all, "run again, it comes to the same");
    }
    sandbox.assert_sound();
    sandbox.assert_archived(&talk);
    println!("a cycle takes {takes:?}: {hits} of {shots} kills hit, {before} before it was written");
    assert!(before > 0);
}
