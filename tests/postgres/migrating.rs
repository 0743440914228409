//! The schema: made, brought up to date, left alone.

use ctxbridge::team::postgres::{ConnectionSettings, PostgresError, PostgresStore};
use ctxbridge_testkit::postgres::TestDatabase;

use super::{database, refused, settings, settings_of};
use ctxbridge::archive::store::SearchBackend;

fn version(database: &TestDatabase) -> i32 {
    database.admin().unwrap().query_one("SELECT max(version) FROM ctxbridge.migrations", &[]).unwrap().get(0)
}

fn count(database: &TestDatabase, sql: &str) -> i64 {
    database.admin().unwrap().query_one(sql, &[]).unwrap().get(0)
}

#[test]
fn once_and_again() {
    let database = database();
    PostgresStore::connect(settings(&database)).unwrap();
    let first = version(&database);
    PostgresStore::connect(settings(&database)).unwrap();
    assert_eq!((version(&database), count(&database, "SELECT count(*) FROM ctxbridge.migrations")), (first, i64::from(first)));
}

#[test]
fn several_at_once() {
    let database = database();
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..4).map(|_| scope.spawn(|| PostgresStore::connect(settings(&database)).map(drop))).collect();
        all.into_iter().for_each(|one| one.join().unwrap().unwrap());
    });
    assert_eq!(count(&database, "SELECT count(*) FROM ctxbridge.migrations"), i64::from(version(&database)));
}

#[test]
fn by_an_ordinary_role_that_may_create_schemas() {
    let database = database();
    let owner = database.role("owner", "").unwrap();
    let sql = format!("GRANT CREATE ON DATABASE {} TO {}", database.name, owner.name);
    database.admin().unwrap().batch_execute(&sql).unwrap();
    let mut store = PostgresStore::connect(settings_of(&database, &owner)).unwrap();
    assert!(!store.is_row_security_exempt().unwrap());
    // The extension is nobody's to create but a superuser's: all works without it.
    assert!(!store.has_vectors().unwrap());
    // It comes later, wherever somebody puts it; whoever connects next makes the tables.
    database.admin().unwrap().batch_execute("CREATE EXTENSION vector").unwrap();
    assert!(!store.has_vectors().unwrap());
    let user = database.role("user", "").unwrap();
    let mut store =
        PostgresStore::connect(ConnectionSettings { tenant: "another".to_owned(), ..settings_of(&database, &user) }).unwrap();
    assert!(store.has_vectors().unwrap());
}

#[test]
fn a_superuser_brings_the_vectors_along() {
    let database = database();
    assert!(PostgresStore::connect(settings(&database)).unwrap().has_vectors().unwrap());
    let indexes = "SELECT count(*) FROM pg_indexes WHERE schemaname = 'ctxbridge' AND indexdef LIKE '%hnsw%vector_cosine_ops%'
        AND tablename LIKE 'embeddings%'";
    assert!(count(&database, indexes) >= 16);
}

#[test]
fn who_may_not_is_told_who_may() {
    let database = database();
    let user = database.role("user", "").unwrap();
    let error = refused(settings_of(&database, &user));
    let owner = &database.address.superuser;
    let is_so = matches!(&error, PostgresError::SchemaTooOld { found: 0, owner: named, user: asked, .. }
        if named == owner && *asked == user.name);
    assert!(is_so, "{error:?}");
    // An older schema is the same matter.
    PostgresStore::connect(settings(&database)).unwrap();
    let known = version(&database);
    database.admin().unwrap().batch_execute("DELETE FROM ctxbridge.migrations WHERE version > 1").unwrap();
    let error = refused(settings_of(&database, &user));
    assert!(matches!(&error, PostgresError::SchemaTooOld { found: 1, known: ours, .. } if *ours == known), "{error:?}");
}

#[test]
fn a_newer_schema_is_left_alone() {
    let database = database();
    PostgresStore::connect(settings(&database)).unwrap();
    database.admin().unwrap().batch_execute("INSERT INTO ctxbridge.migrations (version) VALUES (999)").unwrap();
    let error = refused(settings(&database));
    assert!(matches!(error, PostgresError::SchemaTooNew { found: 999, .. }), "{error:?}");
}

#[test]
fn a_migration_that_fails_has_not_happened() {
    let database = database();
    // Something is in its way, in the middle of the second one.
    database.admin().unwrap().batch_execute("CREATE SCHEMA ctxbridge; CREATE VIEW ctxbridge.turns AS SELECT 1").unwrap();
    let error = refused(settings(&database));
    assert!(matches!(error, PostgresError::Other { .. }), "{error:?}");
    assert_eq!(version(&database), 1);
    assert_eq!(count(&database, "SELECT count(*) FROM pg_class WHERE oid = to_regclass('ctxbridge.sessions')"), 0);
    database.admin().unwrap().batch_execute("DROP VIEW ctxbridge.turns").unwrap();
    PostgresStore::connect(settings(&database)).unwrap();
}

#[test]
fn only_citus_is_distributed_to() {
    let database = database();
    PostgresStore::connect(settings(&database)).unwrap();
    for call in ["CALL ctxbridge.distribute()", "CALL ctxbridge.prepare_move()"] {
        let error = database.admin().unwrap().batch_execute(call).unwrap_err();
        assert!(error.as_db_error().unwrap().message().contains("no Citus"), "{error:?}");
    }
    // What it asks of tables: a key with the tenant in it.
    let without = "SELECT count(*) FROM pg_index JOIN pg_class ON pg_class.oid = indrelid
        WHERE relnamespace = 'ctxbridge'::regnamespace AND indisunique AND relname <> 'migrations' AND NOT EXISTS
            (SELECT FROM pg_attribute WHERE attrelid = indrelid AND attnum = ANY (indkey) AND attname = 'tenant')";
    assert_eq!(count(&database, without), 0);
    let subqueries = "SELECT count(*) FROM pg_policies WHERE qual ~* 'select' OR with_check ~* 'select'";
    assert_eq!(count(&database, subqueries), 0);
    let triggers = "SELECT count(*) FROM pg_trigger WHERE NOT tgisinternal";
    assert_eq!(count(&database, triggers), 0);
}
