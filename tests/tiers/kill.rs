//! SIGKILL at any moment of moving, two who move at once, and hooks that write meanwhile: nothing is lost.

use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Instant;

use ctxbridge_testkit::sandbox::Talk;
use ctxbridge_testkit::transcript::{Kind, append_turn};
use ctxbridge_testkit::{Rng, share_of};

use super::place::Place;

fn silent(mut command: Command) -> Child {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap()
}

fn moving(place: &Place) -> Child {
    silent(place.command(&["archive", "optimize", "--quiet"]))
}

/// What everything is made of: sessions with sub-agents, forks, and enough for a dictionary.
fn crowd(place: &Place) -> Vec<Talk> {
    let mut talks: Vec<Talk> = place.sandbox.generate(Kind::Agents, 700, 1).iter().map(Talk::from).collect();
    talks.extend(place.sandbox.generate(Kind::Resumed, 200, 2).iter().map(Talk::from));
    talks.extend((1..6).map(|number| place.old(number, 40).0));
    place.import();
    talks
}

/// All sessions are used now, or long ago.
fn used(place: &Place, is_now: bool) {
    // Later than anything was moved, whatever the clock's steps are.
    let ms = if is_now { jiff::Timestamp::now().as_millisecond() + 60_000 } else { 1 };
    let db = rusqlite::Connection::open(place.sandbox.database()).unwrap();
    db.busy_timeout(std::time::Duration::from_secs(20)).unwrap();
    db.execute("UPDATE sessions SET last_ms = ?1", [ms]).unwrap();
}

#[test]
fn killed_at_any_moment() {
    let shots = share_of(40);
    let place = Place::new();
    let talks = crowd(&place);
    let all: Vec<&Talk> = talks.iter().collect();
    place.optimize();
    let begun = Instant::now();
    place.optimize();
    let idle = begun.elapsed();
    let mut dice = Rng::new(5);
    let (mut hits, mut shot) = (0, 0);
    // Enough of them, and one at least that comes in time.
    while shot < shots || hits == 0 {
        assert!(shot < 200, "all kills come too late");
        // To and fro.
        used(&place, shot % 2 == 0);
        let mut child = moving(&place);
        // Looking for damage and comparing come first.
        sleep(idle.mul_f64(0.5 + dice.roll()));
        child.kill().unwrap();
        hits += u32::from(!child.wait().unwrap().success());
        if shot % 4 == 3 {
            place.assert_all(&all);
        } else {
            place.sandbox.assert_sound();
            assert!(place.sandbox.restored(&talks[0].id, &[]) == talks[0].bytes(), "after shot {shot}");
        }
        shot += 1;
    }
    println!("{hits} of {shot} were alive");
    used(&place, false);
    place.optimize();
    assert_eq!(place.kept(), 0, "in the end, all is where it belongs");
    place.assert_all(&all);
    used(&place, true);
    place.optimize();
    assert!(all.iter().all(|talk| place.tier(talk) == "hot"));
    place.assert_all(&all);
}

#[test]
fn two_at_once() {
    let place = Place::new();
    let talks = crowd(&place);
    let mut others = [moving(&place), moving(&place)];
    assert!(others.iter_mut().all(|child| child.wait().unwrap().success()));
    place.assert_all(&talks.iter().collect::<Vec<_>>());
    place.optimize();
    assert_eq!(place.kept(), 0);
    place.assert_all(&talks.iter().collect::<Vec<_>>());
}

/// Sessions are moved, brought back and compressed while hooks add to them, and while they are read.
#[test]
fn hooks_write_meanwhile() {
    let place = Place::new();
    let mut talks = crowd(&place);
    let grows = Talk::from(&place.sandbox.generate(Kind::Chat, 100, 9)[0]);
    place.sandbox.hook("stop", &grows.input());
    for round in 0..4_u64 {
        used(&place, round % 2 == 1);
        let mut child = moving(&place);
        let mut number = 0;
        loop {
            number += 1;
            append_turn(&grows.path, round << 32 | number).unwrap();
            place.sandbox.hook("stop", &grows.input());
            assert!(place.sandbox.restored(&talks[0].id, &[]) == talks[0].bytes(), "read while it is moved");
            if child.try_wait().unwrap().is_some() {
                break;
            }
        }
        // A hook does not wait for long: what one left is archived by the next.
        place.sandbox.hook("stop", &grows.input());
        place.assert_all(&[&grows]);
    }
    for line in place.sandbox.log() {
        assert!(line["error"].as_str().unwrap().contains("is being written by another process"), "{line}");
    }
    talks.push(grows);
    place.assert_all(&talks.iter().collect::<Vec<_>>());
}
