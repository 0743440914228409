//! What is remembered of sessions, on disk.

use std::fs;
use std::path::Path;
use std::time::Duration;

use ctxbridge::autopilot::{WindowReading, WindowState, WindowStateStore};
use ctxbridge::config::AutopilotSettings;
use ctxbridge_testkit::files;

const PATIENCE: Duration = Duration::from_secs(20);
const SESSION: &str = "0b9d2f6a-3c41-4d5e-9f00-112233445566";

fn observe(store: &WindowStateStore, session: &str, tokens: u64) {
    let see = |state: &mut WindowState| {
        let turns = state.history.len() as u64 + 1;
        state.observe(WindowReading { tokens, window: 200_000, turns, at_ms: 0 }, &AutopilotSettings::default());
    };
    store.update(session, PATIENCE, see).unwrap();
}

fn names(data: &Path) -> Vec<String> {
    let entries = fs::read_dir(data.join("autopilot")).unwrap();
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn it_comes_back_and_is_private() {
    let data = tempfile::tempdir().unwrap();
    let store = WindowStateStore::in_dir(data.path());
    assert_eq!((store.load(SESSION), store.newest()), (None, None));
    assert_eq!(fs::read_dir(data.path()).unwrap().count(), 0, "looking makes nothing");
    observe(&store, SESSION, 1_000);
    observe(&store, SESSION, 2_000);
    let state = store.load(SESSION).unwrap();
    assert_eq!(state.history.iter().map(|point| point.tokens).collect::<Vec<_>>(), [1_000, 2_000]);
    assert_eq!(store.newest(), Some(state));
    assert!(files::is_private(&data.path().join("autopilot")).unwrap());
    for name in names(data.path()) {
        assert!(files::is_private(&data.path().join("autopilot").join(&name)).unwrap(), "{name}");
    }
}

/// A session's id comes from whoever runs the hook.
#[test]
fn no_session_leaves_the_folder() {
    let data = tempfile::tempdir().unwrap();
    let store = WindowStateStore::in_dir(data.path());
    let long = "a".repeat(65);
    let sessions = ["../../evil", "/etc/passwd", "", ".", "a b", "a\0b", "é", "a/b", "A.json", long.as_str()];
    for (number, session) in (1..).zip(sessions) {
        observe(&store, session, number * 1_000);
    }
    for (number, session) in (1..).zip(sessions) {
        assert_eq!(store.load(session).map(|state| state.last_token_estimate), Some(number * 1_000), "{session:?}");
    }
    let names = names(data.path());
    assert_eq!(names.len(), sessions.len() + 1, "{names:?}");
    let hashed = |name: &&String| name.starts_with('_') && name.len() == "_.json".len() + 64;
    assert_eq!(names.iter().filter(hashed).count(), sessions.len(), "{names:?}");
    assert_eq!(fs::read_dir(data.path()).unwrap().count(), 1);
}

#[test]
fn a_damaged_file_is_begun_anew() {
    let data = tempfile::tempdir().unwrap();
    let store = WindowStateStore::in_dir(data.path());
    observe(&store, SESSION, 1_000);
    let path = data.path().join(format!("autopilot/{SESSION}.json"));
    let whole = fs::read(&path).unwrap();
    let other = String::from_utf8(whole.clone()).unwrap().replace(SESSION, "another");
    let large = [b"[".repeat(100_000), whole.clone()].concat();
    for damaged in [&whole[..whole.len() / 2], b"", b"null", b"{\"history\":[1]}", b"\xff", other.as_bytes(), &large] {
        fs::write(&path, damaged).unwrap();
        assert_eq!(store.load(SESSION), None, "{:?}", String::from_utf8_lossy(&damaged[..damaged.len().min(80)]));
        observe(&store, SESSION, 5_000);
        assert_eq!(store.load(SESSION).unwrap().history.len(), 1);
    }
}

/// Fields that an older or newer version lacks or has.
#[test]
fn other_versions_files_are_read() {
    let data = tempfile::tempdir().unwrap();
    fs::create_dir(data.path().join("autopilot")).unwrap();
    let text =
        format!(r#"{{"sessionId":"{SESSION}","pruneCount":3,"history":[{}],"more":[1]}}"#, vec![r#"{"tokens":7}"#; 60].join(","));
    fs::write(data.path().join(format!("autopilot/{SESSION}.json")), text).unwrap();
    let state = WindowStateStore::in_dir(data.path()).load(SESSION).unwrap();
    assert_eq!((state.prune_count, state.history.len(), state.history[0].tokens), (3, WindowState::MAX_HISTORY, 7));
}

#[test]
fn the_oldest_sessions_are_forgotten() {
    let data = tempfile::tempdir().unwrap();
    let store = WindowStateStore::in_dir(data.path());
    observe(&store, "old", 1_000);
    let old = fs::File::open(data.path().join("autopilot/old.json")).unwrap();
    old.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    fs::write(data.path().join("autopilot/.new-left"), "half").unwrap();
    for number in 0..200 {
        observe(&store, &format!("session-{number}"), 1_000);
    }
    let names = names(data.path());
    assert_eq!(names.iter().filter(|name| name.ends_with(".json")).count(), 200);
    assert!(!names.contains(&"old.json".to_owned()) && !names.contains(&".new-left".to_owned()), "{names:?}");
}

#[test]
fn hooks_beside_each_other_lose_nothing() {
    let data = tempfile::tempdir().unwrap();
    let store = WindowStateStore::in_dir(data.path());
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| (0..25).for_each(|_| store.update(SESSION, PATIENCE, WindowState::record_optimize_run).unwrap()));
        }
    });
    assert_eq!(store.load(SESSION).unwrap().prune_count, 200);
}

#[test]
fn who_cannot_have_the_lock_changes_nothing() {
    let data = tempfile::tempdir().unwrap();
    let store = WindowStateStore::in_dir(data.path());
    observe(&store, SESSION, 1_000);
    let lock = fs::File::open(data.path().join("autopilot/.lock")).unwrap();
    lock.lock().unwrap();
    let error = store.update(SESSION, Duration::ZERO, WindowState::record_optimize_run).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
    assert_eq!(store.load(SESSION).unwrap().prune_count, 0);
}
