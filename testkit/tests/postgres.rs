//! A server that is one's own: it starts, is killed, starts again, and leaves nothing behind.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use ctxbridge_testkit::postgres::{Server, TestDatabase, answers};

/// The folder in which ctxbridge itself keeps what is fetched.
fn cache() -> PathBuf {
    let named = |variable: &str| std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from);
    named("CTXBRIDGE_CACHE_DIR")
        .or_else(|| named("XDG_CACHE_HOME").map(|cache| cache.join("ctxbridge")))
        .or_else(|| named("HOME").map(|home| home.join(".cache/ctxbridge")))
        .unwrap_or_else(|| std::env::temp_dir().join("ctxbridge"))
}

#[test]
fn what_was_committed_outlives_a_kill() {
    let mut server = Server::start_with(&cache(), &["fsync=on", "synchronous_commit=on"]).unwrap();
    let database = TestDatabase::on(server.address()).unwrap();
    let role = database.role("alice", "").unwrap();
    database.admin().unwrap().batch_execute("CREATE TABLE kept AS SELECT 1 AS n; GRANT SELECT ON kept TO PUBLIC").unwrap();
    server.kill9().unwrap();
    assert!(!answers(&server.address()));
    server.start().unwrap();
    let row = database.client_of(&role).unwrap().query_one("SELECT n FROM kept", &[]).unwrap();
    assert_eq!(row.get::<_, i32>(0), 1);
    server.stop().unwrap();
    assert!(!answers(&server.address()));
    server.start().unwrap();
    assert!(answers(&server.address()));
    let socket = server.address().socket.unwrap();
    drop(server);
    assert!(!socket.exists());
}

#[test]
fn vectors_are_there() {
    let database = TestDatabase::new(&cache()).unwrap();
    let mut admin = database.admin().unwrap();
    admin.batch_execute("CREATE EXTENSION vector").unwrap();
    let row = admin.query_one("SELECT '[1,0]'::vector <=> '[0,1]'", &[]).unwrap();
    assert!((row.get::<_, f64>(0) - 1.0).abs() < 1e-9);
}

#[test]
fn databases_and_roles_go_when_they_are_no_longer_needed() {
    let first = TestDatabase::new(&cache()).unwrap();
    let gone = TestDatabase::on(first.address.clone()).unwrap();
    let (name, role) = (gone.name.clone(), gone.role("bob", "CREATEDB").unwrap());
    // Somebody who is still connected is no reason to stay.
    let _connected = gone.client_of(&role).unwrap();
    let count = |sql: &str, name: &str| first.admin().unwrap().query_one(sql, &[&name]).unwrap().get::<_, i64>(0);
    const DATABASES: &str = "SELECT count(*) FROM pg_database WHERE datname = $1";
    const ROLES: &str = "SELECT count(*) FROM pg_roles WHERE rolname = $1";
    assert_eq!((count(DATABASES, &name), count(ROLES, &role.name)), (1, 1));
    drop(gone);
    assert_eq!((count(DATABASES, &name), count(ROLES, &role.name)), (0, 0));
}

#[test]
fn it_ends_with_the_process_that_started_it() {
    // This test again, in a process of its own that is killed while its server runs.
    const CHILD: &str = "CTXBRIDGE_TEST_PG_CHILD";
    if let Some(file) = std::env::var_os(CHILD) {
        let server = Server::start_new(&cache()).unwrap();
        let address = server.address();
        std::fs::write(file, format!("{} {}", address.socket.unwrap().display(), address.port)).unwrap();
        std::thread::sleep(std::time::Duration::from_secs(600));
        return;
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "it_ends_with_the_process_that_started_it"])
        .env(CHILD, file.path())
        .spawn()
        .unwrap();
    let said = loop {
        let said = std::fs::read_to_string(file.path()).unwrap();
        if said.contains(' ') {
            break said;
        }
        assert!(child.try_wait().unwrap().is_none(), "the child has ended");
        std::thread::sleep(std::time::Duration::from_millis(10));
    };
    let folder = Path::new(said.split(' ').next().unwrap());
    assert!(folder.join("data").is_dir());
    child.kill().unwrap();
    child.wait().unwrap();
    // It has no other way to end than to be ended: this waits for as long as that takes.
    while folder.exists() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}
