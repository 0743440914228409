//! SIGKILL, about which nothing can be done, at random moments of archiving. After the next hook every byte of the transcript is in
//! the archive, and the database is in order.

use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use ctxbridge_testkit::sandbox::{Sandbox, Talk, start};
use ctxbridge_testkit::transcript::{Kind, append_turn};
use ctxbridge_testkit::{Rng, share_of};

/// Kills it after a while; whether it was alive.
fn kill_after(mut child: Child, pause: Duration) -> bool {
    sleep(pause);
    child.kill().unwrap();
    let status = child.wait().unwrap();
    assert!(status.signal() == Some(9) || status.success(), "{status}");
    !status.success()
}

/// How long something takes at least, and a little more: shots are to reach its end, too.
fn duration(mut work: impl FnMut()) -> Duration {
    let once = |_| {
        let begun = Instant::now();
        work();
        begun.elapsed()
    };
    (0..3).map(once).min().unwrap().mul_f64(1.2)
}

/// Hooks that are killed while a transcript grows, until `kills` have hit.
fn shoot_hooks(event: &str, kills: usize, seed: u64) {
    let sandbox = Sandbox::new();
    let made = &sandbox.generate(Kind::Chat, 300, seed)[0];
    let (talk, mut turns) = (Talk::from(made), made.human_turns);
    let input = talk.input();
    sandbox.hook(event, &input);
    let mut dice = Rng::new(seed);
    let mut number = 0;
    let mut grow = || {
        number += 1;
        turns += append_turn(&talk.path, seed << 32 | number).unwrap().human_turns;
    };
    let takes = duration(|| {
        grow();
        sandbox.hook(event, &input);
    });
    let (mut hits, mut late, mut shots) = (0, 0, 0);
    while hits < kills {
        assert!(shots < 10 * kills, "most kills come too late: {hits} of {shots}");
        shots += 1;
        grow();
        let child = start(sandbox.hook_command(event), input.to_string().as_bytes());
        let is_hit = kill_after(child, takes.mul_f64(dice.roll()));
        hits += usize::from(is_hit);
        late += usize::from(is_hit && !is_part(&sandbox, &talk));
        sandbox.hook("stop", &input);
        assert!(sandbox.restored(&talk.id, &[]) == talk.bytes(), "bytes are missing after shot {shots}");
        if shots.is_multiple_of(10) {
            sandbox.assert_sound();
        }
    }
    sandbox.assert_sound();
    sandbox.assert_archived(&talk);
    assert_eq!(sandbox.json(&["archive", "show", &talk.id])["turns"].as_array().unwrap().len() as u64, turns);
    assert_eq!(sandbox.json(&["archive", "sessions"])["sessions"][0]["rewritten"], 0);
    assert_eq!(sandbox.log(), [] as [serde_json::Value; 0]);
    assert_eq!(sandbox.aside(), [] as [std::path::PathBuf; 0]);
    println!("{event} takes {takes:?}: {hits} of {shots} kills hit, {late} of them after all was written");
    assert!(late < hits, "no kill came before the end");
}

#[test]
fn stops_that_are_killed() {
    shoot_hooks("stop", share_of(75) as usize, 1);
}

#[test]
fn prompts_that_are_killed() {
    shoot_hooks("user-prompt-submit", share_of(75) as usize, 2);
}

/// Whether some of a transcript is archived, and some of it not yet.
fn is_part(sandbox: &Sandbox, talk: &Talk) -> bool {
    let Ok(db) = rusqlite::Connection::open(sandbox.database()) else { return false };
    // There may be no table yet.
    let bytes: rusqlite::Result<i64> =
        db.query_row("SELECT bytes FROM transcripts WHERE path = ?1", [talk.path.to_str()], |row| row.get(0));
    bytes.is_ok_and(|bytes| bytes > 0 && bytes < talk.bytes().len() as i64)
}

/// Imports of several sessions, one of them longer than what is stored at once, until enough kills have hit; each begins where the one
/// before was killed, and now and then with nothing.
#[test]
fn imports_that_are_killed() {
    let kills = share_of(50) as usize;
    let sandbox = Sandbox::new();
    let mut talks: Vec<Talk> = [(5_200, 1), (300, 2), (300, 3)]
        .map(|(messages, seed)| Talk::from(&sandbox.generate(Kind::Chat, messages, seed)[0]))
        .into();
    talks.extend(sandbox.generate(Kind::Agents, 200, 4).iter().map(Talk::from));
    let import = || -> Command {
        let mut command = sandbox.command(&["archive", "import", "--quiet"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    let forget = || std::fs::remove_dir_all(sandbox.data()).unwrap();
    let takes = duration(|| {
        if sandbox.data().exists() {
            forget();
        }
        assert!(import().status().unwrap().success());
    });
    let mut dice = Rng::new(7);
    let (mut hits, mut shots, mut parts) = (0, 0, 0);
    // Enough of them, and one of them in the middle of a transcript.
    while hits < kills || parts == 0 {
        assert!(shots < 500, "most kills come too late: {hits} of {shots}, {parts} in the middle of a transcript");
        forget();
        // Twice in a row, the second time not from the begin.
        for _ in 0..2 {
            shots += 1;
            hits += usize::from(kill_after(import().spawn().unwrap(), takes.mul_f64(dice.roll())));
            parts += usize::from(is_part(&sandbox, &talks[0]));
        }
        for talk in &talks {
            sandbox.hook("stop", &talk.input());
            assert!(sandbox.restored(&talk.id, &[]) == talk.bytes(), "bytes are missing after shot {shots}");
        }
        assert!(import().status().unwrap().success());
        sandbox.assert_sound();
    }
    for talk in &talks {
        sandbox.assert_archived(talk);
    }
    println!("an import takes {takes:?}: {hits} of {shots} kills hit, {parts} times with a part of a transcript in the archive");
}
