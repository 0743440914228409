//! Several commands at once on one target, an updater that comes in between, and clients that are running while it is patched.

use std::io::{BufRead, BufReader, Read, Write as _};
use std::process::{Child, Command, Stdio};

use super::bundle::Bundle;
use super::gate::Gate;
use super::sandbox::{Ran, Sandbox};

const APPLY: &[&str] = &["apply", "--no-smoke", "--json"];
const REVERT: &[&str] = &["revert", "--json"];

/// Runs these commands at once, `rounds` times. Each must end with an answer, and each round with the target whole.
fn crowd(sandbox: &Sandbox, commands: &[&[&str]], rounds: usize) -> Vec<Vec<Ran>> {
    let original = sandbox.bytes();
    sandbox.run(&["apply", "--no-smoke"]).done();
    let patched = sandbox.bytes();
    sandbox.run(&["revert"]).done();
    let round = |_| {
        let start = |arguments: &&[&str]| {
            let mut command = sandbox.command(arguments);
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        };
        let children: Vec<Child> = commands.iter().map(start).collect();
        let ended: Vec<Ran> = children.into_iter().map(|child| Ran::from(child.wait_with_output().unwrap())).collect();
        for ran in &ended {
            assert!(matches!(ran.code, Some(0 | 1)), "{ran:?}");
            assert!(!ran.stderr.contains("interrupted"), "took a living command for a dead one: {}", ran.stderr);
        }
        let now = sandbox.bytes();
        assert!(now == original || now == patched, "neither the original nor the patched file");
        sandbox.assert_settled();
        ended
    };
    (0..rounds).map(round).collect()
}

/// How many of these said that this is the state now.
fn count(ended: &[Ran], state: &str) -> usize {
    ended.iter().filter(|ran| ran.json()["state"] == state).count()
}

#[test]
fn two_that_apply() {
    let sandbox = Sandbox::new(Bundle::new().bytes(200_000));
    for ended in crowd(&sandbox, &[APPLY, APPLY], 3) {
        // One does it and the other finds it done; in the rounds after the first, both do.
        assert!(count(&ended, "patched") <= 1 && ended.iter().all(|ran| ran.code == Some(0)), "{ended:?}");
    }
    sandbox.run(&["verify"]).done();
}

#[test]
fn one_that_applies_and_one_that_reverts() {
    let sandbox = Sandbox::new(Bundle::new().bytes(200_000));
    crowd(&sandbox, &[APPLY, REVERT], 8);
    sandbox.run(&["apply", "--no-smoke"]).done();
    sandbox.run(&["revert"]).done();
}

#[test]
fn eight_of_both_kinds() {
    let sandbox = Sandbox::new(Bundle::new().bytes(100_000));
    for ended in crowd(&sandbox, &[APPLY, REVERT, APPLY, REVERT, APPLY, REVERT, APPLY, REVERT], 3) {
        // They took turns, so that what was put in is what was taken out, but for the last.
        let (patched, reverted) = (count(&ended, "patched"), count(&ended, "reverted"));
        assert!(patched.abs_diff(reverted) <= 1, "{patched} {reverted}");
        assert_eq!(patched + count(&ended, "already_patched"), 4);
        assert_eq!(reverted + count(&ended, "not_patched"), 4);
    }
}

#[test]
fn eight_that_apply_different_sets_with_smoke_runs() {
    let sandbox = Sandbox::new(Bundle::new());
    let original = sandbox.bytes();
    let sets: [&[&str]; 2] = [&["apply"], &["apply", "--patch", "microcompact-thresholds"]];
    let start = |number: usize| {
        let mut command = sandbox.command(sets[number % 2]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let children: Vec<Child> = (0..8).map(start).collect();
    for child in children {
        Ran::from(child.wait_with_output().unwrap()).done();
    }
    assert_eq!(sandbox.state(), "patched");
    sandbox.assert_settled();
    sandbox.run(&["revert"]).done();
    assert_eq!(sandbox.bytes(), original);
}

/// Starts a command on a client with a gate, and waits until its smoke run is there.
fn start_and_reach(sandbox: &Sandbox, gate: &Gate) -> Child {
    let mut command = sandbox.command(&["apply"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    while !gate.is_reached() {
        assert!(child.try_wait().unwrap().is_none(), "it ended before its smoke run");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    child
}

#[test]
fn a_second_command_says_that_it_waits() {
    let (sandbox, gate) = Gate::install();
    let first = start_and_reach(&sandbox, &gate);
    let mut second = sandbox.command(&["verify"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut notice = String::new();
    let mut stderr = BufReader::new(second.stderr.take().unwrap());
    stderr.read_line(&mut notice).unwrap();
    gate.open();
    assert!(notice.starts_with("waiting for another ctxbridge that is working on"), "{notice}");
    let mut rest = String::new();
    stderr.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "", "said twice");
    Ran::from(first.wait_with_output().unwrap()).done();
    assert!(Ran::from(second.wait_with_output().unwrap()).done().stdout.starts_with("patched:"));
}

#[test]
fn an_updater_that_comes_in_between_wins() {
    let (sandbox, gate) = Gate::install();
    let applying = start_and_reach(&sandbox, &gate);
    let update = Bundle::new().version("2.0.100").into_bytes();
    sandbox.install(&update);
    gate.open();
    let words = ["was changed by somebody else in the meantime", "try again"];
    Ran::from(applying.wait_with_output().unwrap()).refused(&words);
    assert_eq!(sandbox.bytes(), update);
    sandbox.assert_settled();
}

/// A client that has started and waits for its input to end.
struct Running(Child);

impl Running {
    fn start(sandbox: &Sandbox) -> Self {
        let mut command = Command::new("node");
        command.arg(sandbox.target()).arg("--wait").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = [0; 6];
        child.stdout.as_mut().unwrap().read_exact(&mut line).unwrap();
        assert_eq!(&line, b"ready\n");
        Self(child)
    }

    /// Lets it end; panics unless it ends well.
    fn end(mut self) {
        self.0.stdin.as_mut().unwrap().write_all(b"that is all\n").unwrap();
        drop(self.0.stdin.take());
        let last = BufReader::new(self.0.stdout.take().unwrap()).lines().last().unwrap().unwrap();
        let status = self.0.wait().unwrap();
        assert!(status.success() && last == "stream_request_start user", "{status}: {last}");
    }
}

#[test]
fn a_running_client_is_not_disturbed() {
    let sandbox = Sandbox::new(Bundle::new().bytes(500_000));
    let unpatched = Running::start(&sandbox);
    sandbox.run(&["apply"]).done();
    // The patched one gives the same answers.
    let patched = Running::start(&sandbox);
    sandbox.run(&["revert"]).done();
    unpatched.end();
    patched.end();
}
