//! Commands that are killed with SIGKILL, which nothing can be done about: at random moments, and at the moments that matter.
//!
//! After each the target is the original or the patched file, byte for byte; the next command settles the rest; and `apply` and
//! `revert` work.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use ctxbridge_testkit::sandbox::{PATIENCE, run};
use ctxbridge_testkit::{Rng, share_of};

use super::bundle::Bundle;
use super::client::{Client, other_file_system};
use super::gate::Gate;

/// Where the kills of a test hit.
#[derive(Debug, Default)]
struct Tally {
    /// The command was faster.
    too_late: usize,
    /// Nothing was begun.
    before_the_intent: usize,
    /// The intent was written down, the new file was not there yet.
    intent_only: usize,
    /// The new file lay beside the target.
    leftover: usize,
    /// The target was replaced, the intent still open.
    after_the_swap: usize,
    /// All was done and written down, but the process had not ended.
    at_the_very_end: usize,
}

impl Tally {
    fn alive(&self) -> usize {
        let Self { before_the_intent, intent_only, leftover, after_the_swap, at_the_very_end, too_late: _ } = self;
        before_the_intent + intent_only + leftover + after_the_swap + at_the_very_end
    }
}

/// A client that commands are killed at, with its two possible contents.
struct Range {
    client: Client,
    original: Vec<u8>,
    patched: Vec<u8>,
    tally: Tally,
}

impl Range {
    fn new(client: Client) -> Self {
        let original = client.bytes();
        client.run(&["apply", "--no-smoke"]).done();
        let patched = client.bytes();
        client.run(&["revert"]).done();
        assert_eq!(client.bytes(), original);
        Self { client, original, patched, tally: Tally::default() }
    }

    fn spawn(&self, arguments: &[&str]) -> Victim {
        let mut command = self.client.command(arguments);
        Victim(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }

    /// Kills `apply` or `revert` when `aim` says so, and looks at what it left and how the next command deals with it.
    fn shoot(&mut self, arguments: &[&str], aim: impl FnOnce(&Client, &mut Victim)) {
        let (before, after) =
            if arguments[0] == "apply" { (&self.original, &self.patched) } else { (&self.patched, &self.original) };
        let mut victim = self.spawn(arguments);
        aim(&self.client, &mut victim);
        let killed = victim.kill();
        let now = self.client.bytes();
        assert!(now == *before || now == *after, "the target is neither file");
        let leftover = !self.client.leftovers().is_empty();

        // The next command says what it did about it, and no more.
        let verified = self.client.run(&["verify", "--json"]);
        let state = if now == self.original { "unpatched" } else { "patched" };
        assert_eq!(verified.json()["state"], state);
        let interrupted = format!("{}: an interrupted {} ", self.client.target().display(), arguments[0]);
        // A child that was just being started when its parent was killed has the lock until it is another program.
        let notice = verified.stderr.trim_start_matches(&format!("{}\n", waiting(&self.client))).trim_end();
        let notice = notice.strip_prefix(&interrupted).unwrap_or(notice);
        let tally = &mut self.tally;
        let hit = match (killed, now == *after, leftover, notice) {
            (false, true, false, "") => &mut tally.too_late,
            (true, false, false, "") => &mut tally.before_the_intent,
            (true, false, false, "was undone") => &mut tally.intent_only,
            (true, false, true, "was undone") => &mut tally.leftover,
            (true, true, false, "had come through") => &mut tally.after_the_swap,
            (true, true, false, "") => &mut tally.at_the_very_end,
            // Such as a new file that no intent was written down for, or a notice that is not true.
            impossible => panic!("killed, swapped, leftover, notice: {impossible:?}"),
        };
        *hit += 1;
        self.client.assert_settled();
        assert_eq!(self.client.bytes(), now, "looking has changed the target");
        assert_eq!(self.client.run(&["verify"]).stderr, "", "said twice");

        let again = run(self.client.command(arguments), b"");
        assert!(matches!(again.code, Some(0 | 1)), "{again:?}");
        assert_eq!(self.client.bytes(), *after);
        self.client.assert_settled();
    }

    /// How long a command takes, alone, on what the target is now and back again.
    fn measure(&self, arguments: &[&str], back: &[&str]) -> Duration {
        let run = || {
            let begun = Instant::now();
            self.client.run(arguments).done();
            let elapsed = begun.elapsed();
            self.client.run(back).done();
            elapsed
        };
        // The shortest: others that are at work must not make all shots come too late. And a little more, to reach the end.
        (0..3).map(|_| run()).min().unwrap().mul_f64(1.2)
    }

    /// Kills `apply` and `revert` in turns, at moments spread over the time that they take, until `kills` have hit.
    fn shoot_at_random(&mut self, apply: &[&str], kills: usize, seed: u64) {
        let revert = ["revert"];
        let applying = self.measure(apply, &revert);
        self.client.run(apply).done();
        let reverting = self.measure(&revert, apply);
        self.client.run(&revert).done();
        let mut dice = Rng::new(seed);
        while self.tally.alive() < kills {
            assert!(self.tally.too_late < 10 * kills, "most kills come too late: {:?}", self.tally);
            let (one, other) = (dice.roll(), dice.roll());
            self.shoot(apply, |_, _| sleep(applying.mul_f64(one)));
            self.shoot(&revert, |_, _| sleep(reverting.mul_f64(other)));
        }
        println!("apply takes {applying:?}, revert {reverting:?}; {:?}", self.tally);
        assert!(self.tally.alive() > self.tally.at_the_very_end, "no kill came before the end");
    }
}

/// What a command says that has to wait.
fn waiting(client: &Client) -> String {
    format!("waiting for another ctxbridge that is working on {}", client.target().display())
}

/// A child that is going to be killed, by its id.
struct Victim(Child);

impl Victim {
    /// Waits until `it` is so; ends early when the child does.
    fn wait_until(&mut self, mut it: impl FnMut() -> bool) {
        let begun = Instant::now();
        while !it() && self.0.try_wait().unwrap().is_none() {
            assert!(begun.elapsed() < PATIENCE, "it never came to pass");
            // Without a pause: the moments that are waited for are short.
            std::hint::spin_loop();
        }
    }

    /// Kills it; whether it was alive.
    fn kill(&mut self) -> bool {
        self.0.kill().unwrap();
        let status = self.0.wait().unwrap();
        assert!(status.signal() == Some(9) || status.success(), "{status}");
        !status.success()
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        // Of a test that failed.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// A quarter of a hundred kills, or a share of them; four of these run beside each other.
fn quarter(seed: u64) {
    let mut range = Range::new(Client::new(Bundle::new().bytes(150_000)));
    range.shoot_at_random(&["apply", "--no-smoke"], share_of(25) as usize, seed);
}

#[test]
fn at_random_moments_1() {
    quarter(1);
}

#[test]
fn at_random_moments_2() {
    quarter(2);
}

#[test]
fn at_random_moments_3() {
    quarter(3);
}

#[test]
fn at_random_moments_4() {
    quarter(4);
}

#[test]
fn at_random_moments_with_a_smoke_run() {
    let mut range = Range::new(Client::new(Bundle::new()));
    range.shoot_at_random(&["apply"], share_of(10) as usize, 5);
}

#[test]
fn at_random_moments_with_copies_for_backups() {
    let Some(elsewhere) = other_file_system() else { return };
    let mut range = Range::new(Client::new(Bundle::new().bytes(150_000)).data_in(elsewhere.path()));
    range.shoot_at_random(&["apply", "--no-smoke"], share_of(10) as usize, 6);
}

#[test]
fn as_soon_as_the_new_file_appears() {
    let mut range = Range::new(Client::new(Bundle::new().bytes(1_000_000)));
    for _ in 0..4 {
        for arguments in [&["apply", "--no-smoke"][..], &["revert"]] {
            range.shoot(arguments, |client, victim| victim.wait_until(|| !client.leftovers().is_empty()));
        }
    }
    println!("{:?}", range.tally);
}

#[test]
fn as_soon_as_the_target_is_replaced() {
    let mut range = Range::new(Client::new(Bundle::new()));
    let is_hit = |range: &Range| range.tally.after_the_swap + range.tally.at_the_very_end > 0;
    // What comes after the swap is over in a moment: it may take a few more until a kill comes in time.
    for round in 0..100 {
        if round >= 6 && is_hit(&range) {
            break;
        }
        for arguments in [&["apply", "--no-smoke"][..], &["revert"]] {
            range.shoot(arguments, |client, victim| {
                let inode = || std::os::unix::fs::MetadataExt::ino(&fs::metadata(client.target()).unwrap());
                let before = inode();
                victim.wait_until(|| inode() != before);
            });
        }
    }
    println!("{:?}", range.tally);
    assert!(is_hit(&range), "{:?}", range.tally);
}

/// A range whose client has a gate.
fn gated() -> (Range, Gate) {
    let (client, gate) = Gate::install();
    (Range::new(client), gate)
}

#[test]
fn in_the_middle_of_the_smoke_run() {
    let (mut range, gate) = gated();
    range.shoot(&["apply"], |_, victim| {
        victim.wait_until(|| gate.is_reached());
        // Also lets the orphan end, and the command that comes after.
        gate.open();
        victim.kill();
    });
    println!("{:?}", range.tally);
}

#[test]
fn a_leftover_of_the_same_number_whose_journal_is_lost() {
    // A `revert` was killed, which left a link to the backup; then the journal was lost, and the number was given out again: `$$`
    // stays the same through `exec`. What is written under that name must not get into the backup or, as here, the target.
    let Range { client, original, patched, .. } = Range::new(Client::new(Bundle::new()));
    let backup = client.backup_of(&original);
    let link = format!("ln '{}' '{}'/.ctxbridge-$$-cli.js", backup.display(), client.package().display());
    client.run_behind(&link, &["apply", "--no-smoke"]).done();
    assert_eq!(client.bytes(), patched);
    assert_eq!(fs::read(&backup).unwrap(), original);
    client.assert_settled();
    client.run_behind(&link, &["revert"]).done();
    assert_eq!(client.bytes(), original);
    client.assert_settled();
}

#[test]
fn between_the_swap_and_the_journal() {
    let (mut range, gate) = gated();
    let patched = range.patched.clone();
    range.shoot(&["apply"], |client, victim| {
        victim.wait_until(|| gate.is_reached());
        // While we hold the journal, the swap can be done but not be written down.
        let journal = client.journal();
        journal.execute_batch("BEGIN IMMEDIATE").unwrap();
        gate.open();
        victim.wait_until(|| client.bytes() == patched);
        victim.kill();
        journal.execute_batch("ROLLBACK").unwrap();
    });
    println!("{:?}", range.tally);
    assert_eq!(range.tally.after_the_swap, 1, "{:?}", range.tally);
}
