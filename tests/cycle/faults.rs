//! A cycle that is broken off has not happened, and is simply run again.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use ctxbridge::archive::cycle::{self, Run};
use ctxbridge::archive::store::sqlite::{Patience, SqliteStore};
use ctxbridge_testkit::Rng;
use ctxbridge_testkit::transcript::Kind;
use rusqlite::Connection;

use super::place::{DAY, HOUR, NOW, Place, usual};
use super::sandbox::{Sandbox, Talk};

#[test]
fn a_failure_in_the_middle() {
    let made = || {
        let mut place = Place::new();
        let turns: Vec<_> = (0..20).map(|content| (NOW - i64::from(content % 2) * 60 * DAY, content)).collect();
        place.add("s", &turns);
        place.cycle(NOW);
        place
    };
    let later = NOW + 131 * HOUR;
    let mut control = made();
    control.cycle(later);
    // When the first is pruned, one in the middle, the last; when hot turns are looked for, and when that there was a change is noted.
    let triggers = [1, 9, 17]
        .map(|id| format!("BEFORE UPDATE OF confidence ON entries WHEN OLD.id = {id}"))
        .into_iter()
        .chain(["hot_from ON transcripts", "value ON notes"].map(|what| format!("AFTER UPDATE OF {what}")))
        .chain(["BEFORE INSERT ON decays".to_owned()]);
    for trigger in triggers {
        let mut place = made();
        let before = place.dump();
        let db = place.raw();
        db.execute_batch(&format!("CREATE TRIGGER fault {trigger} BEGIN SELECT RAISE(ABORT, 'injected'); END")).unwrap();
        let error = cycle::run(&mut place.store, &usual(), Run::Real, later).unwrap_err();
        assert!(error.to_string().contains("injected"), "{trigger}: {error}");
        assert_eq!(place.dump(), before, "{trigger}");
        db.execute_batch("DROP TRIGGER fault").unwrap();
        place.cycle(later);
        assert_eq!(place.dump(), control.dump(), "{trigger}");
    }
}

/// SIGKILL at random moments.
#[test]
fn thirty_kills() {
    const KILLS: u32 = 30;
    let sandbox = Sandbox::new();
    let talk = Talk::from(&sandbox.generate(Kind::Chat, 6_000, 1)[0]);
    sandbox.cli(&["archive", "import"]);
    sandbox.cli(&["archive", "optimize"]);
    // The session is long over, and the last cycle was a week ago.
    let db = Connection::open(sandbox.database()).unwrap();
    let week_ago = jiff::Timestamp::now().as_millisecond() - 7 * DAY;
    db.execute("UPDATE notes SET value = ?1 WHERE key = 'last_optimise_ms'", [week_ago.to_string()]).unwrap();
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
    let optimise = || -> Command {
        let mut command = sandbox.command(&["archive", "optimize", "--quiet"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    let begun = Instant::now();
    assert!(optimise().status().unwrap().success());
    let takes = begun.elapsed();
    let all = pruned();
    assert_eq!(all.len() as u64, expected);
    let mut dice = Rng::new(3);
    let (mut hits, mut before, mut shots) = (0, 0, 0);
    while hits < KILLS {
        assert!(shots < 20 * KILLS, "most kills come too late: {hits} of {shots}");
        shots += 1;
        reset();
        let mut child = optimise().spawn().unwrap();
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
        assert!(optimise().status().unwrap().success());
        assert!(pruned() == all, "run again, it comes to the same");
    }
    sandbox.assert_sound();
    sandbox.assert_archived(&talk);
    println!("a cycle takes {takes:?}: {hits} of {shots} kills hit, {before} before it was written");
    assert!(before > 0);
}

/// Two at once: the time is counted once.
#[test]
fn two_at_once() {
    let mut place = Place::new();
    place.add("s", &(0..200).map(|content| (NOW - DAY, content)).collect::<Vec<_>>());
    place.cycle(NOW);
    let data = place.data.path().to_owned();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut store = SqliteStore::open(&data, Patience::Patient).unwrap();
                cycle::run(&mut store, &usual(), Run::Real, NOW + 10 * HOUR).unwrap();
            });
        }
    });
    assert!((place.turns("s")[0].confidence - 0.75).abs() < 1e-9);
}
