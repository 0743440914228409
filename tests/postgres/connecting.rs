//! What may go wrong before anything is asked, each told apart.

use std::net::TcpListener;
use std::time::Duration;

use ctxbridge::config::SecretString;
use ctxbridge::team::postgres::{ConnectionSettings, PostgresError, PostgresStore};
use ctxbridge_testkit::postgres::{Server, TestDatabase};

use super::proxy::Proxy;
use super::{cache, database, refused, settings, settings_of};

#[test]
fn by_a_socket_and_by_the_loopback() {
    let server = Server::start_new(&cache()).unwrap();
    let database = TestDatabase::on(server.address()).unwrap();
    let by_loopback = settings(&database);
    let by_socket =
        ConnectionSettings { host: server.address().socket.unwrap().to_string_lossy().into_owned(), ..by_loopback.clone() };
    for settings in [by_loopback, by_socket] {
        let store = PostgresStore::connect(settings.clone()).unwrap();
        assert_eq!(store.user(), settings.user);
        assert!(store.server_version().unwrap().starts_with("16."));
        assert!(store.is_row_security_exempt().unwrap(), "a superuser sees everything");
    }
}

#[test]
fn nobody_there() {
    let database = database();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let error = refused(ConnectionSettings { port, ..settings(&database) });
    assert!(matches!(&error, PostgresError::Unreachable { server, .. } if *server == format!("127.0.0.1:{port}")), "{error:?}");
    assert!(error.is_transient());
    let error = refused(ConnectionSettings { host: "no.such.host.invalid".to_owned(), ..settings(&database) });
    assert!(matches!(error, PostgresError::Unreachable { .. }), "{error:?}");
    let error = refused(ConnectionSettings { host: "/no/such/folder".to_owned(), ..settings(&database) });
    assert!(matches!(error, PostgresError::Unreachable { .. }), "{error:?}");
}

#[test]
fn somebody_else_there() {
    // One that says nothing, and one that speaks another protocol.
    let database = database();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let settings = ConnectionSettings {
        port: silent.local_addr().unwrap().port(),
        connect_timeout: Duration::from_millis(300),
        ..settings(&database)
    };
    let error = refused(settings.clone());
    assert!(matches!(error, PostgresError::Timeout { .. }) && error.is_transient(), "{error:?}");
    let web = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = web.local_addr().unwrap().port();
    let answer = std::thread::spawn(move || {
        let (mut client, _) = web.accept().unwrap();
        std::io::Write::write_all(&mut client, b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
    });
    let error = refused(ConnectionSettings { port, connect_timeout: Duration::from_secs(10), ..settings });
    assert!(matches!(error, PostgresError::Unreachable { .. }), "{error:?}");
    answer.join().unwrap();
}

#[test]
fn who_is_not_let_in() {
    let database = database();
    let role = database.role("carol", "").unwrap();
    let right = settings_of(&database, &role);
    let wrong = ConnectionSettings { password: Some(SecretString::new("hunter2")), ..right.clone() };
    let none = ConnectionSettings { password: None, ..right.clone() };
    let nobody = ConnectionSettings { user: "nobody_of_that_name".to_owned(), ..wrong.clone() };
    for settings in [wrong, none, nobody] {
        let user = settings.user.clone();
        let error = refused(settings);
        assert!(matches!(&error, PostgresError::Login { user: named, .. } if *named == user), "{error:?}");
        assert!(!error.is_transient());
    }
    let error = refused(ConnectionSettings { database: "no_such_database".to_owned(), ..right });
    assert!(matches!(&error, PostgresError::NoDatabase { database, .. } if database == "no_such_database"), "{error:?}");
}

#[test]
fn no_connection_left() {
    let database = database();
    drop(PostgresStore::connect(settings(&database)).unwrap());
    let role = database.role("dave", "CONNECTION LIMIT 1").unwrap();
    let _theirs = database.client_of(&role).unwrap();
    let error = refused(settings_of(&database, &role));
    assert!(matches!(error, PostgresError::Full { .. }) && error.is_transient(), "{error:?}");
}

#[test]
fn a_server_that_nothing_can_be_written_on() {
    let database = database();
    let name = &database.name;
    let set = |value: &str| {
        let mut admin = database.admin().unwrap();
        admin.batch_execute("SET default_transaction_read_only = off").unwrap();
        admin.batch_execute(&format!("ALTER DATABASE {name} SET default_transaction_read_only = {value}")).unwrap();
    };
    set("on");
    let error = refused(settings(&database));
    assert!(matches!(error, PostgresError::ReadOnly { .. }) && !error.is_transient(), "{error:?}");
    set("off");
    PostgresStore::connect(settings(&database)).unwrap();
}

#[test]
fn a_server_that_falls_silent_is_not_waited_for() {
    let database = database();
    drop(PostgresStore::connect(settings(&database)).unwrap());
    let proxy = Proxy::to(&database.address);
    let timeout = Duration::from_millis(500);
    let settings = ConnectionSettings { port: proxy.port(), statement_timeout: timeout, ..settings(&database) };
    let store = PostgresStore::connect(settings).unwrap();
    proxy.stall();
    let error = store.server_version().unwrap_err();
    assert!(matches!(error, PostgresError::Timeout { .. }) && error.is_transient(), "{error:?}");
    // The connection is not used again, and the next one works.
    proxy.go_on();
    assert!(store.server_version().is_ok());
    proxy.cut();
    let error = store.server_version().map_err(|error| error.is_transient());
    assert!(matches!(error, Ok(_) | Err(true)), "{error:?}");
    assert!(store.server_version().is_ok());
}

#[test]
fn a_server_that_was_killed_is_found_again() {
    let mut server = Server::start_new(&cache()).unwrap();
    let database = TestDatabase::on(server.address()).unwrap();
    let store = PostgresStore::connect(settings(&database)).unwrap();
    server.kill9().unwrap();
    let error = store.server_version().unwrap_err();
    assert!(error.is_transient(), "{error:?}");
    server.start().unwrap();
    assert!(store.server_version().is_ok());
}

#[test]
fn within_a_runtime_as_well() {
    let database = database();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = PostgresStore::connect(settings(&database)).unwrap();
        assert!(store.server_version().is_ok());
    });
}
