/*!
The database of claude-flow: one table, `transcript_entries`.

The file belongs to another tool: nothing is written to it, and the two files that SQLite needs for WAL mode are not created next
to it. If a writing process has created them, the database is read in place, otherwise from a copy. Damage costs only the rows
that it is in: the list of rows is read from both ends of the table and from every index, and each row is read alone.
*/

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags, Result, Row};
use serde_json::{Map, Value};
use tempfile::TempDir;

use super::Failed;
use super::entry::{FlowEntry, RawVector};
use super::listed::{At, ListedEntry, SkipReason, SourceError, whose};

/// Maximum bytes of a content; a turn has some thousand.
const MAX_CONTENT_BYTES: i64 = 16 << 20;
/// Maximum bytes of any other column.
const MAX_COLUMN_BYTES: i64 = 1 << 20;

/// Time to wait for a writer.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Pauses between tries while another process keeps opening, writing and closing it. They are short, since the free moments are
/// short too.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// Suffixes of a database's files: itself, its log, and its rollback journal.
const SUFFIXES: [&str; 3] = ["", "-wal", "-journal"];

/// The columns, with their names in the JSON file. The last two were added later.
const COLUMNS: [(&str, &str); 19] = [
    ("id", "id"),
    ("key", "key"),
    ("content", "content"),
    ("type", "type"),
    ("namespace", "namespace"),
    ("tags", "tags"),
    ("metadata", "metadata"),
    ("access_level", "accessLevel"),
    ("created_at", "createdAt"),
    ("updated_at", "updatedAt"),
    ("version", "version"),
    ("access_count", "accessCount"),
    ("last_accessed_at", "lastAccessedAt"),
    ("content_hash", "contentHash"),
    ("session_id", "sessionId"),
    ("chunk_index", "chunkIndex"),
    ("summary", "summary"),
    ("confidence", "confidence"),
    ("embedding", "embedding"),
];

/// Columns that tell which session an entry belongs to.
const SESSION_COLUMNS: [&str; 6] = ["id", "key", "metadata", "session_id", "created_at", "chunk_index"];

/// Their database, open.
#[derive(Debug)]
pub struct Database {
    db: Connection,
    columns: Vec<(&'static str, &'static str)>,
    path: PathBuf,
    /// Folder of the copy that is read.
    _copy: Option<TempDir>,
}

/// Columns of a row, and its vector.
type RowContent = (Map<String, Value>, Option<RawVector>);

impl Database {
    /// Opens it read-only.
    pub fn open(path: &Path) -> std::result::Result<Self, SourceError> {
        let failed = |cause: rusqlite::Error| SourceError::Sqlite { path: path.to_owned(), cause };
        let begun = Instant::now();
        let mut pause = FIRST_PAUSE;
        let (db, copy) = loop {
            if is_in_use(path) {
                match connect(path) {
                    Ok(db) => break (db, None),
                    Err(error) if is_no_database(&error) => return Err(failed(error)),
                    // Who wrote is done or has died, or this process may not take part.
                    Err(_) => {}
                }
            }
            if let Some((db, copy)) = copied(path)? {
                break (db, Some(copy));
            }
            if begun.elapsed() > BUSY_TIMEOUT {
                return Err(SourceError::Busy { path: path.to_owned() });
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(LONGEST_PAUSE);
        };
        let columns = columns(&db).map_err(failed)?;
        if !["id", "content"].iter().all(|needed| columns.iter().any(|(name, _)| name == needed)) {
            return Err(SourceError::OfAnother { path: path.to_owned() });
        }
        Ok(Self { db, columns, path: path.to_owned(), _copy: copy })
    }

    /// Lists the rows with their sessions, and those that cannot be read.
    pub fn list(&mut self) -> (Vec<ListedEntry>, Vec<Failed>) {
        let mut listed = Vec::new();
        let mut failed = Vec::new();
        let (rows, trouble) = self.rows();
        if let Some(trouble) = &trouble {
            failed.push(Failed::of_source(&self.path, &format!("it is damaged, and rows may be missing: {trouble}")));
        }
        for (row, id) in rows {
            match self.row(row, &SESSION_COLUMNS) {
                Ok(Some((original, _))) => listed.push(whose(original, At::Row(row), name(row))),
                Ok(None) if trouble.is_some() => {
                    let reason = "an index has it, and the table has not".to_owned();
                    failed.push(Failed { id: Some(id.unwrap_or_else(|| name(row))), reason });
                }
                // Deleted meanwhile.
                Ok(None) => {}
                Err(SkipReason(reason)) => {
                    let id = id.or_else(|| self.id(row)).unwrap_or_else(|| name(row));
                    failed.push(Failed { id: Some(id), reason });
                }
            }
        }
        (listed, failed)
    }

    /// Reads a row, or returns `None` if it is gone.
    pub fn entry(&mut self, row: i64) -> std::result::Result<Option<FlowEntry>, SkipReason> {
        let names: Vec<&str> = self.columns.iter().map(|(name, _)| *name).collect();
        let Some((original, vector)) = self.row(row, &names)? else { return Ok(None) };
        let mut entry = FlowEntry::of(original, vector).map_err(SkipReason)?;
        if entry.id.is_empty() {
            entry.id = name(row);
        }
        Ok(Some(entry))
    }

    /// Returns the numbers of all rows, with ids where they are known; and the error, if there was one.
    fn rows(&self) -> (BTreeMap<i64, Option<String>>, Option<String>) {
        const FORWARDS: &str = "SELECT rowid FROM transcript_entries NOT INDEXED ORDER BY rowid";
        // From the other end, and by the indexes that their hook makes; that one is not there is no trouble of its own.
        const OTHERWISE: [&str; 4] = [
            "SELECT rowid FROM transcript_entries NOT INDEXED ORDER BY rowid DESC",
            "SELECT rowid, id FROM transcript_entries INDEXED BY sqlite_autoindex_transcript_entries_1 ORDER BY id",
            "SELECT rowid FROM transcript_entries INDEXED BY idx_te_created ORDER BY created_at",
            "SELECT rowid FROM transcript_entries INDEXED BY idx_te_hash ORDER BY content_hash",
        ];
        let mut rows = BTreeMap::new();
        let trouble = self.scan(FORWARDS, &mut rows).err().map(|error| error.to_string());
        if trouble.is_some() {
            for sql in OTHERWISE {
                self.scan(sql, &mut rows).ok();
            }
        }
        (rows, trouble)
    }

    /// Adds the rows that a statement lists, until it fails.
    fn scan(&self, sql: &str, rows: &mut BTreeMap<i64, Option<String>>) -> Result<()> {
        let mut statement = self.db.prepare(sql)?;
        let has_id = statement.column_count() > 1;
        let mut found = statement.query([])?;
        while let Some(row) = found.next()? {
            let id = if has_id { row.get(1).ok() } else { None };
            let known = rows.entry(row.get(0)?).or_default();
            *known = known.take().or(id);
        }
        Ok(())
    }

    /// Returns the id of a row, even if nothing else of it can be read.
    fn id(&self, row: i64) -> Option<String> {
        let original = self.row(row, &["id"]).ok()??.0;
        original.get("id").and_then(Value::as_str).map(str::to_owned)
    }

    /// Reads some columns of a row, and its vector.
    fn row(&self, row: i64, wanted: &[&str]) -> std::result::Result<Option<RowContent>, SkipReason> {
        let known: Vec<_> = self.columns.iter().filter(|(name, _)| wanted.contains(name)).collect();
        // Names are ours, from the table above. What is too long is not read at all.
        let parts = known.iter().map(|(name, _)| {
            let most = if *name == "content" { MAX_CONTENT_BYTES } else { MAX_COLUMN_BYTES };
            format!("CASE WHEN octet_length({name}) <= {most} THEN {name} END, octet_length({name})")
        });
        let sql = format!("SELECT {} FROM transcript_entries WHERE rowid = ?1", parts.collect::<Vec<_>>().join(", "));
        let read = |found: &Row<'_>| -> Result<std::result::Result<RowContent, SkipReason>> {
            let mut original = Map::new();
            let mut vector = None;
            for (index, (name, key)) in known.iter().enumerate() {
                let value = found.get_ref(2 * index)?;
                if let (ValueRef::Null, Some(length)) = (value, found.get::<_, Option<i64>>(2 * index + 1)?) {
                    if *name == "embedding" {
                        vector = Some(Err(format!("its embedding is too large: it has {length} bytes")));
                        continue;
                    }
                    let kind = if *name == "content" { "content" } else { "row" };
                    return Ok(Err(SkipReason(format!("its {kind} is too large: {name} has {length} bytes"))));
                }
                match (*name, value) {
                    ("embedding", ValueRef::Blob(bytes)) => vector = Some(Ok(bytes.to_vec())),
                    ("tags" | "metadata", ValueRef::Text(text)) => {
                        let parsed = serde_json::from_slice(text).unwrap_or_else(|_| lossy(text));
                        original.insert((*key).to_owned(), parsed);
                    }
                    (_, value) => {
                        original.insert((*key).to_owned(), json(value));
                    }
                }
            }
            Ok(Ok((original, vector)))
        };
        let found = || {
            let mut statement = self.db.prepare_cached(&sql)?;
            let mut rows = statement.query([row])?;
            rows.next()?.map(read).transpose()
        };
        match found() {
            Ok(found) => found.transpose(),
            Err(error) => Err(SkipReason(format!("it cannot be read: {error}"))),
        }
    }
}

/// `true` if a writer has it open, or had: then all files that SQLite needs exist already.
fn is_in_use(path: &Path) -> bool {
    let has_log = fs::metadata(beside(path, "-wal")).is_ok_and(|log| log.len() > 0) && beside(path, "-shm").exists();
    has_log || beside(path, "-journal").exists()
}

/// Opens a database in its place.
fn connect(path: &Path) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(path, flags)?;
    configure(&db).map(|()| db)
}

fn configure(db: &Connection) -> Result<()> {
    db.busy_timeout(BUSY_TIMEOUT)?;
    // What stands in a schema of others is not to be run, and what their pages say is not believed.
    db.pragma_update(None, "trusted_schema", false)?;
    db.pragma_update(None, "cell_size_check", true)?;
    db.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))
}

/// Copies the database and its log to a writable folder. Returns `None` if somebody wrote meanwhile, since a copy must be of one
/// state.
fn copied(path: &Path) -> std::result::Result<Option<(Connection, TempDir)>, SourceError> {
    let failed = |cause| SourceError::Copy { path: path.to_owned(), cause };
    let folder = tempfile::tempdir().map_err(failed)?;
    let copy = folder.path().join("copy.db");
    let before = state(path);
    for suffix in SUFFIXES {
        match fs::copy(beside(path, suffix), beside(&copy, suffix)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && !suffix.is_empty() => {}
            copied => drop(copied.map_err(failed)?),
        }
    }
    if state(path) != before {
        return Ok(None);
    }
    let opened = Connection::open(&copy).and_then(|db| configure(&db).map(|()| db));
    let db = opened.map_err(|cause| SourceError::Sqlite { path: path.to_owned(), cause })?;
    Ok(Some((db, folder)))
}

/// Lengths and times of the files, which show that somebody writes.
fn state(path: &Path) -> Vec<Option<(u64, Option<SystemTime>)>> {
    let of = |suffix| fs::metadata(beside(path, suffix)).ok().map(|file| (file.len(), file.modified().ok()));
    SUFFIXES.into_iter().map(of).collect()
}

/// Returns the known columns that the table has; empty if there is no such table.
fn columns(db: &Connection) -> Result<Vec<(&'static str, &'static str)>> {
    // A view or the like could be anything.
    let is_table = db
        .prepare("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'transcript_entries' AND sql NOT LIKE '%virtual%'")?
        .exists([])?;
    if !is_table {
        return Ok(Vec::new());
    }
    let mut statement = db.prepare("SELECT name FROM pragma_table_info('transcript_entries')")?;
    let found: Vec<String> = statement.query_map([], |row| row.get(0))?.collect::<Result<_>>()?;
    Ok(COLUMNS.into_iter().filter(|(name, _)| found.iter().any(|found| found == name)).collect())
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn is_no_database(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(rusqlite::ErrorCode::NotADatabase)
}

/// Name of a row without an id.
fn name(row: i64) -> String {
    format!("row-{row}")
}

fn json(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => number.into(),
        ValueRef::Real(number) => number.into(),
        // Whatever stands where a text should.
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => lossy(bytes),
    }
}

fn lossy(bytes: &[u8]) -> Value {
    Value::String(String::from_utf8_lossy(bytes).into_owned())
}
