//! Several commands at once on one target, an updater that comes in between, and clients that are running while it is patched.

use std::io::{BufRead, BufReader, Read, Write as _};
use std::process::{Child, Command, Stdio};

use ctxbridge_testkit::sandbox::{Ran, finish, start};

use super::bundle::Bundle;
use super::client::Client;
use super::gate::Gate;

const APPLY: &[&str] = &["apply", "--no-smoke", "--json"];
const REVERT: &[&str] = &["revert", "--json"];

/// Runs these commands at once, `rounds` times. Each must end with an answer, and each round with the target whole.
fn crowd(client: &Client, commands: &[&[&str]], rounds: usize) -> Vec<Vec<Ran>> {
    let original = client.bytes();
    client.run(&["apply", "--no-smoke"]).done();
    let patched = client.bytes();
    client.run(&["revert"]).done();
    let round = |_| {
        let children: Vec<Child> = commands.iter().map(|arguments| start(client.command(arguments), b"")).collect();
        let ended: Vec<Ran> = children.into_iter().map(finish).collect();
        for ran in &ended {
            assert!(matches!(ran.code, Some(0 | 1)), "{ran:?}");
            assert!(!ran.stderr.contains("interrupted"), "took a living command for a dead one: {}", ran.stderr);
        }
        let now = client.bytes();
        assert!(now == original || now == patched, "neither the original nor the patched file");
        client.assert_settled();
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
    let client = Client::new(Bundle::new().bytes(200_000));
    for ended in crowd(&client, &[APPLY, APPLY], 3) {
        // One does it and the other finds it done; in the rounds after the first, both do.
        assert!(count(&ended, "patched") <= 1 && ended.iter().all(|ran| ran.code == Some(0)), "{ended:?}");
    }
    client.run(&["verify"]).done();
}

#[test]
fn one_that_applies_and_one_that_reverts() {
    let client = Client::new(Bundle::new().bytes(200_000));
    crowd(&client, &[APPLY, REVERT], 8);
    client.run(&["apply", "--no-smoke"]).done();
    client.run(&["revert"]).done();
}

#[test]
fn eight_of_both_kinds() {
    let client = Client::new(Bundle::new().bytes(100_000));
    for ended in crowd(&client, &[APPLY, REVERT, APPLY, REVERT, APPLY, REVERT, APPLY, REVERT], 3) {
        // They took turns, so that what was put in is what was taken out, but for the last.
        let (patched, reverted) = (count(&ended, "patched"), count(&ended, "reverted"));
        assert!(patched.abs_diff(reverted) <= 1, "{patched} {reverted}");
        assert_eq!(patched + count(&ended, "already_patched"), 4);
        assert_eq!(reverted + count(&ended, "not_patched"), 4);
    }
}

#[test]
fn eight_that_apply_different_sets_with_smoke_runs() {
    let client = Client::new(Bundle::new());
    let original = client.bytes();
    let sets: [&[&str]; 2] = [&["apply"], &["apply", "--patch", "microcompact-thresholds"]];
    let children: Vec<Child> = (0..8).map(|number| start(client.command(sets[number % 2]), b"")).collect();
    for child in children {
        finish(child).done();
    }
    assert_eq!(client.state(), "patched");
    client.assert_settled();
    client.run(&["revert"]).done();
    assert_eq!(client.bytes(), original);
}

/// Starts a command on a client with a gate, and waits until its smoke run is there.
fn start_and_reach(client: &Client, gate: &Gate) -> Child {
    let mut child = start(client.command(&["apply"]), b"");
    while !gate.is_reached() {
        assert!(child.try_wait().unwrap().is_none(), "it ended before its smoke run");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    child
}

#[test]
fn a_second_command_says_that_it_waits() {
    let (client, gate) = Gate::install();
    let first = start_and_reach(&client, &gate);
    let mut second = start(client.command(&["verify"]), b"");
    let mut notice = String::new();
    let mut stderr = BufReader::new(second.stderr.take().unwrap());
    stderr.read_line(&mut notice).unwrap();
    gate.open();
    assert!(notice.starts_with("waiting for another ctxbridge that is working on"), "{notice}");
    let mut rest = String::new();
    stderr.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "", "said twice");
    finish(first).done();
    assert!(finish(second).done().stdout.starts_with("patched:"));
}

#[test]
fn an_updater_that_comes_in_between_wins() {
    let (client, gate) = Gate::install();
    let applying = start_and_reach(&client, &gate);
    let update = Bundle::new().version("2.0.100").into_bytes();
    client.install(&update);
    gate.open();
    let words = ["was changed by somebody else in the meantime", "try again"];
    finish(applying).refused(&words);
    assert_eq!(client.bytes(), update);
    client.assert_settled();
}

/// A client that has started and waits for its input to end.
struct Running(Child);

impl Running {
    fn start(client: &Client) -> Self {
        let mut command = Command::new("node");
        command.arg(client.target()).arg("--wait").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
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
    let client = Client::new(Bundle::new().bytes(500_000));
    let unpatched = Running::start(&client);
    client.run(&["apply"]).done();
    // The patched one gives the same answers.
    let patched = Running::start(&client);
    client.run(&["revert"]).done();
    unpatched.end();
    patched.end();
}
