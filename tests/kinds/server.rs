//! Archives on a PostgreSQL server: one database for all of a test, used as a role below row-level security.

use std::cell::RefCell;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use ctxbridge::archive::store::{Store, StoreError};
use ctxbridge::team::postgres::{ConnectionPool, ConnectionSettings, PostgresStore, TlsMode};
use ctxbridge_testkit::postgres::{TestDatabase, TestRole};

/// A database, and somebody who may only use it.
struct Shared {
    database: Option<TestDatabase>,
    role: TestRole,
}

impl Drop for Shared {
    fn drop(&mut self) {
        // On a thread of its own: what the client needs of this one may be gone when the last test that had it ends.
        let database = self.database.take();
        std::thread::spawn(move || drop(database)).join().unwrap();
    }
}

thread_local! {
    /// Kept as long as a thread may want it, since what is static is never dropped.
    static KEPT: RefCell<Option<Arc<Shared>>> = const { RefCell::new(None) };
}

fn shared() -> Arc<Shared> {
    static ALL: Mutex<Weak<Shared>> = Mutex::new(Weak::new());
    if let Some(kept) = KEPT.with_borrow(Option::clone) {
        return kept;
    }
    let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
    let shared = all.upgrade().unwrap_or_else(|| {
        let database = TestDatabase::for_superuser(&ctxbridge::common::paths::cache_dir().unwrap()).unwrap();
        drop(
            PostgresStore::connect(ConnectionSettings {
                ssl: TlsMode::Off,
                ..ConnectionSettings::from_url(&database.url()).unwrap()
            })
            .unwrap(),
        );
        database.spread().unwrap();
        let role = database.role("somebody", "").unwrap();
        let shared = Arc::new(Shared { database: Some(database), role });
        *all = Arc::downgrade(&shared);
        shared
    });
    KEPT.set(Some(Arc::clone(&shared)));
    shared
}

fn tenant(data: &Path) -> String {
    data.to_string_lossy().into_owned()
}

/// The archive of a data folder: a tenant of that name.
pub fn open(data: &Path) -> Result<Box<dyn Store>, StoreError> {
    let shared = shared();
    let url = shared.database.as_ref().unwrap().url_of(&shared.role);
    let settings = ConnectionSettings { tenant: tenant(data), ssl: TlsMode::Off, ..ConnectionSettings::from_url(&url).unwrap() };
    Ok(Box::new(PostgresStore::of(&ConnectionPool::new(settings))?))
}

fn admin() -> postgres::Client {
    shared().database.as_ref().unwrap().admin().unwrap()
}

/// That nothing refers to what is not there, and nothing is there that is not referred to.
pub fn check(data: &Path) {
    let mut admin = admin();
    for (what, sql) in [
        (
            "a segment that nothing uses",
            "SELECT count(*) FROM ctxbridge.segments s WHERE tenant = $1 AND NOT EXISTS (SELECT FROM ctxbridge.layout l
                WHERE l.tenant = $1 AND l.session = s.session AND l.owner = s.owner AND l.sha256 = s.sha256)",
        ),
        (
            "a piece without a segment",
            "SELECT count(*) FROM ctxbridge.layout l WHERE tenant = $1 AND NOT EXISTS (SELECT FROM ctxbridge.segments s
                WHERE s.tenant = $1 AND l.session = s.session AND l.owner = s.owner AND l.sha256 = s.sha256 AND l.bytes = s.bytes)",
        ),
        (
            "an entry that nothing uses",
            "SELECT count(*) FROM ctxbridge.entries e WHERE tenant = $1
                AND NOT EXISTS (SELECT FROM ctxbridge.turns t WHERE t.tenant = $1 AND t.owner = e.owner AND t.entry = e.id)
                AND NOT EXISTS (SELECT FROM ctxbridge.compactions c WHERE c.tenant = $1 AND c.owner = e.owner AND c.summary = e.id)",
        ),
        (
            "a turn without an entry",
            "SELECT count(*) FROM ctxbridge.turns t WHERE tenant = $1 AND NOT EXISTS
                (SELECT FROM ctxbridge.entries e WHERE e.tenant = $1 AND t.owner = e.owner AND t.entry = e.id)",
        ),
        (
            "a gap between pieces",
            "SELECT count(*) FROM ctxbridge.layout l WHERE tenant = $1 AND start > 0 AND NOT EXISTS (SELECT FROM ctxbridge.layout b
                WHERE b.tenant = $1 AND b.session = l.session AND b.transcript = l.transcript AND b.generation = l.generation
                AND b.start + b.bytes = l.start)",
        ),
        (
            "a turn without words",
            "SELECT count(*) FROM ctxbridge.turns t WHERE tenant = $1 AND NOT EXISTS
                (SELECT FROM ctxbridge.texts x WHERE x.tenant = $1 AND x.session = t.session AND x.owner = t.owner AND x.entry = t.entry)",
        ),
        (
            "words without a turn or a summary",
            "SELECT count(*) FROM ctxbridge.texts x WHERE tenant = $1 AND NOT EXISTS
                (SELECT FROM ctxbridge.turns t WHERE t.tenant = $1 AND x.session = t.session AND x.owner = t.owner AND x.entry = t.entry)
             AND NOT EXISTS (SELECT FROM ctxbridge.compactions c
                WHERE c.tenant = $1 AND x.session = c.session AND x.owner = c.owner AND x.entry = c.summary)",
        ),
        (
            "a summary without words",
            "SELECT count(*) FROM ctxbridge.compactions c WHERE tenant = $1 AND summary IS NOT NULL AND NOT EXISTS (SELECT
                FROM ctxbridge.texts x WHERE x.tenant = $1 AND x.session = c.session AND x.owner = c.owner AND x.entry = c.summary)",
        ),
    ] {
        let count: i64 = admin.query_one(sql, &[&tenant(data)]).unwrap().get(0);
        assert_eq!(count, 0, "{what}");
    }
}

/// All rows of a tenant, but for segments and what is derived.
#[allow(dead_code, reason = "not every test that has this needs it")]
pub fn rows(data: &Path) -> String {
    let mut admin = admin();
    let mut dump = String::new();
    for table in ["sessions", "transcripts", "entries", "turns", "compactions", "notes", "decays", "kept"] {
        let sql = format!("SELECT to_jsonb(t)::text FROM ctxbridge.{table} t WHERE tenant = $1 ORDER BY 1");
        for row in admin.query(&sql, &[&tenant(data)]).unwrap() {
            dump += &format!("{table}: {}\n", row.get::<_, String>(0));
        }
    }
    dump
}
