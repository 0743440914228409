//! A server that is down, dies, stalls, or is cut off: afterwards both sides have the same, once.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Stdio;
use std::time::Instant;

use ctxbridge::archive::store::{SessionReader, StoreReader, TurnReader, TurnSelection};
use ctxbridge_testkit::postgres::{Server, TestDatabase};
use ctxbridge_testkit::sandbox::{PATIENCE, wait_until};
use serde_json::json;

use super::lines::{says, text, user};
use super::member::{Member, Team, id};
use super::proxy::Proxy;

/// Sessions, and turns of each.
const SESSIONS: u32 = 12;
const TURNS: u32 = 60;

/// Enough that something can happen on the way.
fn fill(member: &Member) {
    for session in 0..SESSIONS {
        let number = |turn: u32| 1_000 * session + 2 * turn;
        let turn = |turn: u32| {
            let answer = format!("Answer {turn} of {session}: {}", "words and more words ".repeat(40));
            [user(number(turn), format!("Prompt {turn} of {session}.")), says(number(turn) + 1, answer.trim_end())]
        };
        let lines: Vec<_> = (0..TURNS).flat_map(turn).collect();
        member.archive(&id(session), &text(&lines));
    }
}

/// That the server has every turn, once.
fn check_whole(member: &Member) {
    let mut store = member.store();
    let sessions = store.sessions("", None, usize::MAX).unwrap();
    assert_eq!(sessions.len() as u32, SESSIONS);
    for session in sessions {
        let turns = store.turns(session.key, TurnSelection::All).unwrap();
        let mut ids: Vec<_> = turns.iter().map(|turn| turn.turn.id).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!((turns.len() as u32, ids.len() as u32), (TURNS, TURNS), "{}", session.session);
    }
    assert_eq!(store.totals().unwrap().entries, u64::from(SESSIONS * TURNS));
}

/// Turns that are there by now.
fn turns(database: &TestDatabase) -> i64 {
    database.admin().unwrap().query_one("SELECT count(*) FROM ctxbridge.turns", &[]).unwrap().get(0)
}

#[test]
fn a_server_that_is_down_is_left_alone_for_a_while() {
    let team = Team::new();
    let ann = team.member("ann");
    fill(&ann);
    // Nobody listens there any more.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let cut_off = ann.at_port(port);
    let error = cut_off.fails(&["archive", "sync"]);
    assert!(error.contains("cannot reach the PostgreSQL server"), "{error}");
    // The background does not even try.
    let quiet = cut_off.output(&["archive", "sync", "--background"]);
    assert_eq!((quiet.code, quiet.stdout.as_str(), quiet.stderr.as_str()), (Some(1), "", ""));
    let trouble = std::fs::read_to_string(ann.data().join("sync/trouble.json")).unwrap();
    assert!(trouble.contains("\"times\":1") && !trouble.contains(&ann.role.password), "{trouble}");
    // Who types it does, and then it is over.
    ann.run(&["archive", "sync"]);
    check_whole(&ann);
    assert!(!ann.data().join("sync/trouble.json").exists());
}

#[test]
fn a_server_that_dies_in_the_middle_has_everything_afterwards() {
    let mut server = Server::start_new(&ctxbridge::common::paths::cache_dir().unwrap()).unwrap();
    let team = Team::on(TestDatabase::on(server.address()).unwrap());
    let ann = team.member("ann");
    fill(&ann);
    for _ in 0..3 {
        let before = turns(&team.database);
        let mut sending = ann.command().args(["archive", "sync"]).stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        let begun = Instant::now();
        while turns(&team.database) == before && sending.try_wait().unwrap().is_none() {
            assert!(begun.elapsed() < PATIENCE, "nothing arrives");
        }
        server.kill9().unwrap();
        let ended = sending.wait().unwrap();
        server.start().unwrap();
        // It may have been quicker than the killer.
        assert!(ended.success() || ended.code() == Some(3), "{ended}");
    }
    ann.run(&["archive", "sync", "--full"]);
    check_whole(&ann);
    assert_eq!(ann.json(&["archive", "sync", "--json"])["sessions"], 0);
}

#[test]
fn a_network_that_is_cut_again_and_again() {
    let team = Team::new();
    let ann = team.member("ann");
    fill(&ann);
    let proxy = Proxy::to(&team.database.address);
    let behind = ann.at_port(proxy.port());
    let mut sending = behind.command().args(["archive", "sync"]).stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    let mut seen = turns(&team.database);
    let begun = Instant::now();
    for _ in 0..3 {
        while turns(&team.database) == seen && sending.try_wait().unwrap().is_none() {
            assert!(begun.elapsed() < PATIENCE, "nothing arrives");
        }
        seen = turns(&team.database);
        proxy.cut();
    }
    // It tries again; should it have given up, the next one goes on.
    let ended = sending.wait().unwrap();
    assert!(ended.success() || ended.code() == Some(3), "{ended}");
    behind.run(&["archive", "sync"]);
    check_whole(&ann);
}

#[test]
fn a_server_that_stalls_is_given_up() {
    let team = Team::new();
    let ann = team.member("ann");
    ann.archive(&id(1), &text(&[user(0, "A prompt."), says(1, "An answer.")]));
    let proxy = Proxy::to(&team.database.address);
    let behind = ann.at_port(proxy.port());
    proxy.stall();
    let error = behind.fails(&["archive", "sync"]);
    assert!(error.contains("error:") && !error.contains("panicked"), "{error}");
    proxy.go_on();
    behind.run(&["archive", "sync"]);
    assert_eq!(turns(&team.database), 1);
}

#[test]
fn a_server_without_a_connection_left_is_asked_later() {
    let team = Team::new();
    let ann = team.member_with("ann", "CONNECTION LIMIT 0");
    let name = &ann.role.name;
    let room_for = |count: u32| {
        team.database.admin().unwrap().batch_execute(&format!("ALTER ROLE {name} CONNECTION LIMIT {count}")).unwrap();
    };
    fill(&ann);
    let error = ann.fails(&["archive", "sync"]);
    assert!(error.contains("has no connection left") && error.contains("too many connections for role"), "{error}");
    let quiet = ann.output(&["archive", "sync", "--background"]);
    assert_eq!((quiet.code, quiet.stdout.as_str(), quiet.stderr.as_str()), (Some(1), "", ""));
    assert_eq!(turns(&team.database), 0);
    // One is enough for both who send.
    room_for(1);
    ann.run(&["archive", "sync"]);
    room_for(10);
    check_whole(&ann);
    assert!(!ann.data().join("sync/trouble.json").exists());
}

#[test]
fn no_hook_asks_the_server() {
    let team = Team::new();
    let ann = team.member("ann");
    // Takes connections and never says anything: whoever asked would wait.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let path = ann.transcript(&id(1));
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, text(&[user(0, "A prompt."), says(1, "An answer.")])).unwrap();
    let hook = |member: &Member, slug: &str, event: &str| {
        let input = json!({ "session_id": id(1), "transcript_path": path, "cwd": "/", "hook_event_name": event, "prompt": "And a prompt that is long enough?", "reason": "other", "source": "startup", "trigger": "auto" });
        let mut child = member.command().args(["hook", slug]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        serde_json::to_writer(child.stdin.take().unwrap(), &input).unwrap();
        let mut said = String::new();
        child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(child.wait().unwrap().success(), "{slug}: {said}");
    };
    let events = [
        ("session-start", "SessionStart"),
        ("user-prompt-submit", "UserPromptSubmit"),
        ("stop", "Stop"),
        ("pre-compact", "PreCompact"),
        ("session-end", "SessionEnd"),
    ];
    // Without the child that sends, nobody knocks, whatever the store is said to be.
    let alone = ann.at_port(port).with("CTXBRIDGE_POSTGRES_AUTO_SYNC", "false").with("CTXBRIDGE_ARCHIVE_STORE", "postgres");
    events.iter().for_each(|(slug, event)| hook(&alone, slug, event));
    silent.set_nonblocking(true).unwrap();
    assert_eq!(silent.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    // With it, the hook is over while the child still waits for an answer.
    hook(&ann.at_port(port), "session-end", "SessionEnd");
    wait_until("something is sent at the end of a session", || silent.accept().is_ok());
}

/// Whoever listens at that address may say anything.
#[test]
fn what_a_server_says_is_shown_and_not_obeyed() {
    let team = Team::new();
    let ann = team.member("ann");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten().take(20) {
            // What it is asked is of no matter.
            if stream.read(&mut [0; 1_024]).is_err() {
                continue;
            }
            let said = b"SFATAL\0VFATAL\0C28000\0Mgo\x1b]0;away\x07\x1b[2J \xe2\x80\xaegnorw\0\0";
            let length = (said.len() as u32 + 4).to_be_bytes();
            stream.write_all(&[b"E", &length[..], &said[..]].concat()).ok();
        }
    });
    let refused = ann.fails_at(&format!("postgres://ann@{address}/team"));
    assert!(refused.contains("go]0;away[2J gnorw"), "{refused:?}");
    assert!(refused.chars().all(|shown| shown == '\n' || !shown.is_control()), "{refused:?}");
}
