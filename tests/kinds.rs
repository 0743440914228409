//! Whatever an archive is kept in: the tests that know nothing but [`Store`] run on each of these.

use std::fs;
use std::path::Path;

use ctxbridge::archive::store::jsonl::JsonlStore;
use ctxbridge::archive::store::sqlite::{LockPolicy, SqliteStore};
use ctxbridge::archive::store::{Store, StoreError};
use ctxbridge::common::sqlite;
use ctxbridge_testkit::sandbox::Sandbox;
use proptest::test_runner::Config;
use rusqlite::types::FromSql;
use rusqlite::{Connection, OpenFlags};

#[cfg(unix)]
pub mod server;

/// Makes a test of each of these functions for each kind of store: `sqlite::name` and so on.
macro_rules! on_every_store {
    ($($name:ident),+ $(,)?) => {
        mod sqlite {
            $(#[test]
            fn $name() {
                super::$name($crate::kinds::Kind::Sqlite);
            })+
        }
        mod jsonl {
            $(#[test]
            fn $name() {
                super::$name($crate::kinds::Kind::Jsonl);
            })+
        }
        #[cfg(unix)]
        mod postgres {
            $(#[test]
            fn $name() {
                super::$name($crate::kinds::Kind::Postgres);
            })+
        }
    };
}

/// What an archive is kept in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One SQLite file.
    Sqlite,
    /// A folder of JSON Lines.
    Jsonl,
    /// A PostgreSQL server, with a tenant for each data folder.
    #[cfg(unix)]
    Postgres,
}

impl Kind {
    /// Opens or creates the archive of a data folder.
    pub fn try_open(self, data: &Path, patience: LockPolicy) -> Result<Box<dyn Store>, StoreError> {
        match self {
            Self::Sqlite => Ok(Box::new(SqliteStore::open(data, patience)?)),
            Self::Jsonl => Ok(Box::new(JsonlStore::open(&data.join(JsonlStore::FOLDER), patience)?)),
            #[cfg(unix)]
            Self::Postgres => server::open(data),
        }
    }

    pub fn open(self, data: &Path) -> Box<dyn Store> {
        self.try_open(data, LockPolicy::Background).unwrap()
    }

    /// What has to hold of an archive at any time, as far as no function of [`Store`] tells it.
    pub fn check_sound(self, data: &Path) {
        match self {
            Self::Sqlite => check_references(data),
            Self::Jsonl => check_files(data),
            #[cfg(unix)]
            Self::Postgres => server::check(data),
        }
    }

    /// How many cases of a property are tried, of which a quick store takes so many.
    pub fn cases(self, usual: u32) -> Config {
        let cases = match self {
            Self::Sqlite | Self::Jsonl => ctxbridge_testkit::share_of(usual),
            #[cfg(unix)]
            Self::Postgres => (usual / 8).max(4),
        };
        Config { failure_persistence: None, ..Config::with_cases(cases) }
    }
}

/// The archive of a sandbox, made when it is not there.
pub fn store(sandbox: &Sandbox) -> SqliteStore {
    fs::create_dir_all(sandbox.data()).unwrap();
    SqliteStore::open(&sandbox.data(), LockPolicy::Background).unwrap()
}

/// The database itself.
pub fn database(data: &Path) -> Connection {
    sqlite::open_file(&data.join(SqliteStore::FILE), OpenFlags::default()).unwrap()
}

/// One value from it.
pub fn value<T: FromSql>(data: &Path, sql: &str) -> T {
    database(data).query_row(sql, [], |row| row.get(0)).unwrap()
}

/// That the database refers to nothing that is not there, and has nothing that is not referred to.
fn check_references(data: &Path) {
    for (what, sql) in [
        ("a segment that nothing uses", "SELECT count(*) FROM segments WHERE id NOT IN (SELECT segment FROM layout)"),
        (
            "an entry that nothing uses",
            "SELECT count(*) FROM entries WHERE id NOT IN (SELECT entry FROM turns)
             AND id NOT IN (SELECT summary FROM compactions WHERE summary IS NOT NULL)",
        ),
        ("a broken reference", "SELECT count(*) FROM pragma_foreign_key_check"),
        (
            "a gap between segments",
            "SELECT count(*) FROM layout JOIN segments ON segments.id = segment WHERE start > 0 AND NOT EXISTS
                (SELECT 1 FROM layout AS before JOIN segments AS piece ON piece.id = before.segment
                 WHERE before.transcript = layout.transcript AND before.generation = layout.generation
                 AND before.start + piece.bytes = layout.start)",
        ),
    ] {
        assert_eq!(value::<u32>(data, sql), 0, "{what}");
    }
}

/// That all files are as the journal says, and whoever reads it from the begin comes to the same.
fn check_files(data: &Path) {
    let mut store = JsonlStore::open_read_only(&data.join(JsonlStore::FOLDER)).unwrap().unwrap();
    assert_eq!(store.integrity_check().unwrap(), []);
}
