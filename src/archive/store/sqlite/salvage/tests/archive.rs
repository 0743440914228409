//! An archive with rows in all tables, and where in its file they are.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use rusqlite::{Connection, params};

use super::super::super::{LockPolicy, SqliteStore, rows};
use crate::segment;
use ctxbridge_common::sqlite::page_sum;

/// A file, and the number of rows in each table.
pub struct Archive {
    folder: tempfile::TempDir,
    pub rows: BTreeMap<String, u64>,
}

/// Bytes that look like noise, the same for the same seed.
pub fn noise(seed: u32, bytes: usize) -> Vec<u8> {
    let mut state = u64::from(seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 24) as u8
    };
    (0..bytes).map(|_| next()).collect()
}

impl Archive {
    /// Makes an archive whose pages have so many reserved bytes.
    pub fn new(reserved: u8) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join(SqliteStore::FILE);
        Connection::open(&path)
            .expect("a database")
            .execute_batch("PRAGMA user_version = 1; PRAGMA user_version = 0")
            .expect("written");
        let mut empty = fs::read(&path).expect("a file");
        empty[20] = reserved;
        empty[105..107].copy_from_slice(&(4096 - u16::from(reserved)).to_be_bytes());
        if reserved > 0 {
            page_sum::seal(&mut empty);
        }
        fs::write(&path, empty).expect("written");
        let store = SqliteStore::open(folder.path(), LockPolicy::Background).expect("an archive");
        let db = &store.db;
        db.execute_batch("PRAGMA synchronous = off; PRAGMA foreign_keys = on; BEGIN").expect("begins");
        // Pages that are free afterwards, with rows that must not come back.
        db.execute_batch(
            "WITH n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 2000)
             INSERT INTO entries (id, sha256, chars, tools) SELECT 900000 + n, randomblob(32), n, hex(randomblob(20)) FROM n;
             WITH n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 2000)
             INSERT INTO kept SELECT randomblob(16), 1, n FROM n",
        )
        .expect("rows");
        fill(db);
        db.execute_batch(
            "DELETE FROM entries WHERE id > 900000; DELETE FROM kept WHERE at_ms < 5000;
             DELETE FROM changes WHERE id % 5 > 0; COMMIT; ANALYZE; PRAGMA wal_checkpoint(TRUNCATE);",
        )
        .expect("rows");
        let count = |table: &String| {
            let count: u32 = db.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).expect("a count");
            assert!(count > 0, "{table} is empty");
            (table.clone(), u64::from(count))
        };
        let rows = rows::tables(db).expect("tables").iter().map(count).collect();
        let free: u32 = db.query_row("PRAGMA freelist_count", [], |row| row.get(0)).expect("a count");
        assert!(free > 20, "{free} free pages");
        drop(store);
        assert_eq!(fs::read(&path).expect("a file")[20], reserved);
        Self { folder, rows }
    }

    pub fn path(&self) -> PathBuf {
        self.folder.path().join(SqliteStore::FILE)
    }

    pub fn pages(&self) -> u32 {
        (fs::metadata(self.path()).expect("a file").len() / 4096) as u32
    }

    /// Number of rows of each table that have a part on one of these pages.
    pub fn rows_on(&self, pages: &BTreeSet<u32>) -> BTreeMap<String, u64> {
        let (stat, mut lost) = (self.stat("true"), BTreeMap::new());
        let without_rowid = ["layout", "learned", "fixes", "changed_files", "kept", "cold", "folders"];
        let bad_paths: BTreeSet<(&str, &str)> =
            stat.iter().filter(|page| pages.contains(&page.number)).map(|page| (&*page.name, &*page.path)).collect();
        let mut torn = BTreeSet::new();
        for page in stat.iter().filter(|page| pages.contains(&page.number)) {
            let cells = match &*page.kind {
                "leaf" => page.cells,
                "internal" if without_rowid.contains(&&*page.name) => page.cells,
                "overflow" => {
                    let (cell, _) = page.path.split_once('+').expect("the page of a cell");
                    let leaf = &cell[..cell.len() - 3];
                    u64::from(!bad_paths.contains(&(&page.name, leaf)) && torn.insert((&page.name, cell)))
                }
                _ => 0,
            };
            *lost.entry(page.name.clone()).or_default() += cells;
        }
        lost
    }

    pub fn pages_of(&self, name: &str) -> BTreeSet<u32> {
        self.stat(&format!("name = '{name}'")).iter().map(|page| page.number).collect()
    }

    pub fn leaves_of(&self, name: &str) -> BTreeSet<u32> {
        self.stat(&format!("name = '{name}' AND pagetype = 'leaf'")).iter().map(|page| page.number).collect()
    }

    pub fn interior_pages(&self) -> BTreeSet<u32> {
        self.stat("pagetype = 'internal' AND pageno > 1").iter().map(|page| page.number).collect()
    }

    /// Pages that nothing uses.
    pub fn free_pages(&self) -> BTreeSet<u32> {
        let used: BTreeSet<u32> = self.stat("true").iter().map(|page| page.number).collect();
        (1..=self.pages()).filter(|number| !used.contains(number)).collect()
    }

    /// A row of a table that goes on upon another page, and that page.
    pub fn overflow_of(&self, table: &str) -> (i64, u32) {
        let stat = self.stat(&format!("name = '{table}'"));
        let overflow = stat.iter().find(|page| page.kind == "overflow").expect("a long row");
        let (cell, _) = overflow.path.split_once('+').expect("the page of a cell");
        let (leaf, cell) = cell.split_at(cell.len() - 3);
        let mut leaves: Vec<_> = stat.iter().filter(|page| page.kind == "leaf").collect();
        leaves.sort_by_key(|page| &page.path);
        let before: u64 = leaves.iter().take_while(|page| page.path != leaf).map(|page| page.cells).sum();
        let number = before + u64::from_str_radix(cell, 16).expect("a number");
        let sql = format!("SELECT id FROM {table} ORDER BY id LIMIT 1 OFFSET {number}");
        let db = Connection::open(self.path()).expect("the archive");
        (db.query_row(&sql, [], |row| row.get(0)).expect("a row"), overflow.number)
    }

    fn stat(&self, condition: &str) -> Vec<PageStat> {
        let db = Connection::open(self.path()).expect("the archive");
        let sql = format!("SELECT name, path, pageno, pagetype, ncell FROM dbstat WHERE {condition}");
        let mut select = db.prepare(&sql).expect("a query");
        let page = |row: &rusqlite::Row<'_>| {
            Ok(PageStat {
                name: row.get(0)?,
                path: row.get(1)?,
                number: row.get(2)?,
                kind: row.get(3)?,
                cells: u64::from(row.get::<_, u32>(4)?),
            })
        };
        select.query_map([], page).expect("pages").map(|page| page.expect("a page")).collect()
    }
}

/// A page, as SQLite itself describes it.
struct PageStat {
    name: String,
    path: String,
    number: u32,
    kind: String,
    cells: u64,
}

const SESSIONS: u32 = 60;
const TRANSCRIPTS: u32 = 80;
const PIECES: u32 = 15;
const TURNS: u32 = 25;
const SEGMENTS: u32 = 300;

fn fill(db: &Connection) {
    for id in 1..=SESSIONS {
        let (first, last) = (1_700_000_000_000 + i64::from(id), 1_700_000_000_000 + i64::from(id) + i64::from(TURNS) * 1000);
        db.execute(
            "INSERT INTO sessions VALUES (?1, ?2, ?3, '2.0.1', 'model', 200000, 1234, ?4, ?5, NULL, NULL, ?6, NULL)",
            params![id, session(id), format!("/work/{id}"), first, last, format!("title {id}")],
        )
        .expect("a session");
    }
    let texts: Vec<Vec<u8>> = (0..40).map(|seed| b"some words that all of them have, and ".repeat(20 + seed)).collect();
    let dictionary = zstd::dict::from_samples(&texts, 4096).expect("a dictionary");
    for id in [3, 7] {
        db.execute("INSERT INTO dictionaries VALUES (?1, ?2, 5)", params![id, dictionary]).expect("a dictionary");
    }
    db.execute("DELETE FROM dictionaries WHERE id = 7", []).expect("deleted");
    let lengths: Vec<u32> = (1..=SEGMENTS).map(|id| segment(db, id, &dictionary)).collect();
    for id in 1..=TRANSCRIPTS {
        transcript(db, id, &lengths);
    }
    db.execute_batch(include_str!("rows.sql")).expect("rows");
}

fn session(id: u32) -> String {
    format!("{id:08x}-0000-4000-8000-000000000000")
}

/// A segment; each tenth is warm, and some are longer than a page.
fn segment(db: &Connection, id: u32, dictionary: &[u8]) -> u32 {
    let mut bytes = noise(id, if id.is_multiple_of(20) { 15_000 } else { 200 + id as usize % 1_500 });
    bytes.extend(b"some words that all of them have, and ");
    let packed = segment::pack(0, &bytes).expect("packed").remove(0);
    let is_warm = id % 10 == 1;
    let data = if is_warm {
        let mut compressor = zstd::bulk::Compressor::with_dictionary(3, dictionary).expect("a compressor");
        compressor.compress(&bytes).expect("compressed")
    } else {
        packed.data
    };
    db.execute("INSERT INTO segments VALUES (?1, ?2, ?3, ?4)", params![id, packed.sha256, packed.bytes, data])
        .expect("a segment");
    if is_warm {
        db.execute("INSERT INTO warm VALUES (?1, 3)", [id]).expect("a row");
    }
    packed.bytes
}

/// A transcript with its layout and turns; each fifth was rewritten once.
fn transcript(db: &Connection, id: u32, lengths: &[u32]) {
    let own = (id - 1) % SESSIONS + 1;
    let (generation, is_agent) = (u32::from(id.is_multiple_of(5)), id > SESSIONS);
    let path =
        if is_agent { format!("/p/{}/subagents/agent-{id}.jsonl", session(own)) } else { format!("/p/{}.jsonl", session(own)) };
    let pieces: Vec<u32> = (0..PIECES).map(|piece| (id * 7 + piece * 13) % SEGMENTS).collect();
    let bytes: u32 = pieces.iter().map(|piece| lengths[*piece as usize]).sum();
    let seen = serde_json::json!({
        "session": session(own), "folder": format!("/work/{own}"), "title": {"rank": "prompt", "text": format!("title {own}")},
    });
    let pad = "x".repeat(if id.is_multiple_of(8) { 9_000 } else { 300 });
    let interpreter = serde_json::json!({ "splitter": { "next_index": TURNS }, "seen": seen, "pad": pad }).to_string();
    db.execute(
        "INSERT INTO transcripts VALUES (?1, ?2, ?3, ?4, ?5, ?6, 0, ?7, ?8, NULL)",
        params![id, own, path, is_agent.then(|| id.to_string()), generation, bytes, noise(id, 32), interpreter],
    )
    .expect("a transcript");
    for of in 0..=generation {
        let mut start = 0;
        for piece in &pieces {
            db.execute("INSERT INTO layout VALUES (?1, ?2, ?3, ?4)", params![id, of, start, piece + 1]).expect("a row");
            start += lengths[*piece as usize];
        }
    }
    for turn in 0..TURNS {
        let entry = (id - 1) * TURNS + turn + 1;
        let files = (turn % 3 == 0).then(|| serde_json::json!([format!("/work/{entry}.rs")]).to_string());
        db.execute(
            "INSERT INTO entries VALUES (?1, ?2, ?3, NULL, '[\"Bash\"]', ?4, ?5, ?6, NULL, 0)",
            params![entry, noise(entry, 32), turn, files, (turn == 3).then_some(0.25), turn % 4],
        )
        .expect("an entry");
        db.execute(
            "INSERT INTO turns VALUES (?1, ?2, 0, NULL, ?3, ?1, ?4, ?5, 10, ?6, 1000, ?7, 5, 6, 1, NULL, NULL)",
            params![
                entry,
                id,
                turn,
                noise(entry + 1_000_000, 16),
                turn * 10,
                1_700_000_000_000 + i64::from(own) + i64::from(turn) * 1000,
                turn % 4
            ],
        )
        .expect("a turn");
    }
}
