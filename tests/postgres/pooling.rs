//! Three connections at most, whatever happens.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use ctxbridge::team::postgres::{ConnectionPool, ConnectionSettings, PostgresError, PostgresStore};
use std::time::Duration;

use super::{database, refused, settings, settings_of};

const OF_USER: &str = "SELECT count(*) FROM pg_stat_activity WHERE usename = $1";

#[test]
fn never_more_than_three() {
    let database = database();
    drop(PostgresStore::connect(settings(&database)).unwrap());
    let role = database.role("eve", "").unwrap();
    let pool = ConnectionPool::new(ConnectionSettings { tenant: "pool".to_owned(), ..settings_of(&database, &role) });
    let is_done = AtomicBool::new(false);
    let most = AtomicI64::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut admin = database.admin().unwrap();
            while !is_done.load(Ordering::Relaxed) {
                most.fetch_max(admin.query_one(OF_USER, &[&role.name]).unwrap().get(0), Ordering::Relaxed);
            }
        });
        let workers: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    let store = PostgresStore::of(&pool).unwrap();
                    (0..100).for_each(|_| assert!(store.server_version().is_ok()));
                })
            })
            .collect();
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        is_done.store(true, Ordering::Relaxed);
    });
    let most = most.into_inner();
    assert!((1..=3).contains(&most), "{most} connections");
}

#[test]
fn fewer_where_there_is_room_for_fewer() {
    let database = database();
    drop(PostgresStore::connect(settings(&database)).unwrap());
    let role = database.role("grace", "CONNECTION LIMIT 1").unwrap();
    let pool = ConnectionPool::new(ConnectionSettings { tenant: "pool".to_owned(), ..settings_of(&database, &role) });
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                let store = PostgresStore::of(&pool).unwrap();
                (0..50).for_each(|_| assert!(store.server_version().is_ok()));
            });
        }
    });
}

#[test]
fn a_connection_that_fails_gives_its_place_back() {
    let database = database();
    let pool = ConnectionPool::new(ConnectionSettings {
        database: "no_such_database".to_owned(),
        connect_timeout: Duration::from_secs(10),
        ..settings(&database)
    });
    for _ in 0..7 {
        let error = PostgresStore::of(&pool).unwrap_err();
        assert!(matches!(error, PostgresError::NoDatabase { .. }), "{error:?}");
    }
}

#[test]
fn connections_end_with_the_store() {
    let database = database();
    drop(PostgresStore::connect(settings(&database)).unwrap());
    let role = database.role("frank", "").unwrap();
    let store = PostgresStore::connect(ConnectionSettings { tenant: "t".to_owned(), ..settings_of(&database, &role) }).unwrap();
    let count = || database.admin().unwrap().query_one(OF_USER, &[&role.name]).unwrap().get::<_, i64>(0);
    assert_eq!(count(), 1);
    drop(store);
    // It says good-bye, and the server takes a moment to hear it.
    while count() > 0 {
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn who_is_no_member_is_told_what_to_do() {
    let database = database();
    drop(PostgresStore::connect(settings(&database)).unwrap());
    let role = database.role("grace", "").unwrap();
    let error = refused(settings_of(&database, &role));
    assert!(
        matches!(&error, PostgresError::NoMember { tenant, user, .. } if tenant == "default" && *user == role.name),
        "{error:?}"
    );
    let said = format!("SELECT ctxbridge.add_member('default', '{}')", role.name);
    assert!(error.to_string().contains(&said), "{error}");
    database.admin().unwrap().batch_execute(&said).unwrap();
    assert_eq!(PostgresStore::connect(settings_of(&database, &role)).unwrap().user(), role.name);
}
