//! Archives with rows in all tables, damaged in all ways.

mod archive;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use archive::{Archive, noise};
use ctxbridge_testkit::{is_full_run, share_of};
use proptest::prelude::*;
use rusqlite::Connection;

use super::super::LockPolicy;
use super::*;

/// A new archive that was filled from a damaged one.
struct Salvaged {
    folder: tempfile::TempDir,
    report: SalvageReport,
}

impl Salvaged {
    fn of(damaged: &Path, is_sound: SoundPage<'_>) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut store = SqliteStore::open(folder.path(), LockPolicy::Background).expect("a new archive");
        store.db.pragma_update(None, "synchronous", "off").expect("a test needs no disk");
        let report = store.salvage_from(damaged, is_sound).expect("a salvage");
        Self { folder, report }
    }

    fn db(&self) -> Connection {
        Connection::open(self.path()).expect("the new archive")
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join(SqliteStore::FILE)
    }

    /// Rows that were found, before any were removed again.
    fn found(&self, table: &str) -> u64 {
        let count = |counts: &BTreeMap<String, u64>| counts.get(table).copied().unwrap_or_default();
        let rebuilt = if table == "sessions" { self.report.rebuilt_sessions.len() as u64 } else { 0 };
        count(&self.report.rows) + count(&self.report.removed) - rebuilt
    }

    /// Compares all rows with those of the original, and returns the tables in which some are missing. None may be added or changed.
    fn missing_rows(&self, original: &Path) -> BTreeMap<String, u64> {
        let db = self.db();
        db.execute("ATTACH ?1 AS original", [original.to_str()]).expect("attached");
        let mut missing = BTreeMap::new();
        for table in tables_with_sequence(&db) {
            let count =
                |sql: String| -> u64 { db.query_row(&sql, [], |row| super::super::columns::unsigned(row, 0)).expect("a count") };
            // References to lost rows may be gone.
            let columns = match &*table {
                "compactions" if !self.report.is_whole() => "id, session, at_ms, cause, turns, took_ms, first_message, topics",
                "learnings" if !self.report.is_whole() => "id, handle, kind, folder, sentence, confidence",
                _ => "*",
            };
            let all = |schema: &str| format!("SELECT {columns} FROM {schema}.{table}");
            let added = count(format!("SELECT count(*) FROM ({} EXCEPT {})", all("main"), all("original")));
            let lost = count(format!("SELECT count(*) FROM ({} EXCEPT {})", all("original"), all("main")));
            if table == "changes" && !self.report.is_whole() {
                assert_eq!(
                    count("SELECT count(*) FROM main.changes".to_owned()),
                    1,
                    "nothing derived may go on from what it knows"
                );
                continue;
            }
            // Rebuilt sessions know less, and so does a sequence that goes on from the rows.
            if self.report.is_whole() || !matches!(&*table, "sessions" | "sqlite_sequence") {
                assert_eq!(added, 0, "{table} has rows that the original does not have");
            }
            if lost > 0 {
                missing.insert(table, lost);
            }
        }
        missing
    }

    /// The archive has to be as sound as any other.
    fn check_consistent(&self) {
        let db = self.db();
        let broken: u32 = db.query_row("SELECT count(*) FROM pragma_foreign_key_check", [], |row| row.get(0)).expect("a count");
        assert_eq!(broken, 0, "rows refer to lost ones");
        let check: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).expect("a check");
        assert_eq!(check, "ok");
        let words: u32 = db.query_row("SELECT count(*) FROM learning_words", [], |row| row.get(0)).expect("a count");
        assert_eq!(Some(&u64::from(words)), self.report.rows.get("learnings"));
    }
}

fn tables_with_sequence(db: &Connection) -> Vec<String> {
    let mut tables = rows::tables(db).expect("tables");
    tables.push("sqlite_sequence".to_owned());
    tables
}

/// Every row must be found that is on none of these pages.
fn check_found(archive: &Archive, salvaged: &Salvaged, bad: &BTreeSet<u32>) {
    let lost = archive.rows_on(bad);
    let is_list_lost = archive.free_pages().iter().any(|page| bad.contains(page));
    for (table, count) in &archive.rows {
        let expected = count - lost.get(table).copied().unwrap_or_default();
        let found = salvaged.found(table);
        // Layout is in an index too, dictionaries have copies, and rows of `warm` are found again by trying. Where the list of free pages is lost, old rows may
        // come back.
        let has_more =
            (matches!(&**table, "layout" | "warm" | "dictionaries" | "dictionary_copies") || is_list_lost) && found > expected;
        assert!(found == expected || has_more, "{table} without pages {bad:?}: {found} rows of {expected}");
    }
    if !is_list_lost {
        salvaged.missing_rows(&archive.path());
    }
    salvaged.check_consistent();
}

fn damaged(archive: &Archive, bad: &BTreeSet<u32>) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("damaged.db");
    let mut bytes = fs::read(archive.path()).expect("an archive");
    for number in bad {
        let start = (*number as usize - 1) * 4096;
        bytes[start..start + 4096].copy_from_slice(&noise(*number, 4096));
    }
    fs::write(&path, bytes).expect("written");
    (folder, path)
}

fn salvage_without(archive: &Archive, bad: &BTreeSet<u32>) -> Salvaged {
    let (_folder, path) = damaged(archive, bad);
    Salvaged::of(&path, &|number, _| !bad.contains(&number))
}

#[test]
fn an_undamaged_archive_is_copied_exactly() {
    for reserved in [0, 8] {
        let archive = Archive::new(reserved);
        let salvaged = Salvaged::of(&archive.path(), &|_, _| true);
        assert_eq!(salvaged.missing_rows(&archive.path()), BTreeMap::new());
        assert!(salvaged.report.is_whole(), "{:?}", salvaged.report);
        salvaged.check_consistent();
    }
}

#[test]
fn the_log_is_read_too() {
    let archive = Archive::new(8);
    let before = fs::read(archive.path()).expect("an archive");
    let db = Connection::open(archive.path()).expect("the archive");
    db.execute_batch("UPDATE sessions SET title = 'said later'; INSERT INTO notes VALUES ('new', '1')").expect("written");
    assert_eq!(fs::read(archive.path()).expect("an archive"), before, "all of it is in the log");
    let copy = tempfile::tempdir().expect("a temporary folder");
    for name in ["archive.db", "archive.db-wal"] {
        fs::copy(archive.path().with_file_name(name), copy.path().join(name)).expect("copied");
    }
    let path = copy.path().join("archive.db");
    let salvaged = Salvaged::of(&path, &|_, _| true);
    assert_eq!(salvaged.missing_rows(&archive.path()), BTreeMap::new());

    // A frame that is not whole is not committed, and neither is what follows it.
    let log = fs::read(copy.path().join("archive.db-wal")).expect("a log");
    fs::write(copy.path().join("archive.db-wal"), &log[..log.len() - 1]).expect("written");
    let salvaged = Salvaged::of(&path, &|_, _| true);
    assert_eq!(salvaged.found("notes"), archive.rows["notes"]);
    assert_eq!(salvaged.report.unplaced, 0);
}

fn check_single_pages(archive: &Archive, pages: impl IntoIterator<Item = u32>) {
    for number in pages {
        let bad = BTreeSet::from([number]);
        let salvaged = salvage_without(archive, &bad);
        assert_eq!(salvaged.report.bad_pages, [number]);
        check_found(archive, &salvaged, &bad);
    }
}

#[test]
fn a_bad_page_costs_the_rows_that_are_on_it() {
    let archive = Archive::new(8);
    let pages = archive.pages();
    let step = if is_full_run() { 1 } else { (2 * pages / share_of(pages)).max(1) };
    check_single_pages(&archive, (2..=pages).step_by(step as usize));
}

#[test]
fn a_bad_page_above_others_costs_nothing() {
    let archive = Archive::new(8);
    let interior = archive.interior_pages();
    assert!(interior.len() > 5, "{interior:?}");
    let step = if is_full_run() { 1 } else { 2 };
    check_single_pages(&archive, interior.into_iter().step_by(step));
}

#[test]
fn many_bad_pages_cost_no_more() {
    let archive = Archive::new(0);
    for round in 0..share_of(60) {
        let random = noise(round, 64);
        let (numbers, _) = random.as_chunks();
        let bad: BTreeSet<u32> = numbers.iter().map(|number| u32::from_le_bytes(*number) % archive.pages() + 1).collect();
        let salvaged = salvage_without(&archive, &bad);
        assert_eq!(salvaged.report.bad_pages, bad.iter().copied().collect::<Vec<_>>());
        check_found(&archive, &salvaged, &bad);
    }
}

#[test]
fn noise_is_told_without_checksums() {
    let archive = Archive::new(0);
    for round in 0..share_of(60) {
        let number = u32::from_le_bytes([round as u8, 17, 31, 0]).wrapping_mul(2_654_435_761) % (archive.pages() - 1) + 2;
        let bad = BTreeSet::from([number]);
        let (_folder, path) = damaged(&archive, &bad);
        let salvaged = Salvaged::of(&path, &|_, _| true);
        let lost = archive.rows_on(&bad);
        for (table, count) in &archive.rows {
            assert!(salvaged.found(table) + lost.get(table).copied().unwrap_or_default() >= *count, "{table}, page {number}");
        }
        salvaged.check_consistent();
    }
}

#[test]
fn page_1_is_not_needed() {
    for reserved in [0, 8] {
        let archive = Archive::new(reserved);
        let salvaged = salvage_without(&archive, &BTreeSet::from([1]));
        assert_eq!(salvaged.missing_rows(&archive.path()), BTreeMap::new());
        assert_eq!(salvaged.report.removed, BTreeMap::new());
        salvaged.check_consistent();
    }
}

#[test]
fn rows_are_found_without_any_schema() {
    for reserved in [0, 8] {
        let archive = Archive::new(reserved);
        let schema = archive.pages_of("sqlite_schema");
        assert!(schema.len() > 1);
        let salvaged = salvage_without(&archive, &schema);
        assert_eq!(salvaged.missing_rows(&archive.path()), BTreeMap::new());
        salvaged.check_consistent();
    }
}

#[test]
fn of_a_truncated_file_the_rest_is_saved() {
    let archive = Archive::new(8);
    let bytes = fs::read(archive.path()).expect("an archive");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("damaged.db");
    for eighths in 1..8 {
        let kept = bytes.len() * eighths / 8 + 100 * eighths;
        fs::write(&path, &bytes[..kept]).expect("written");
        let salvaged = Salvaged::of(&path, &|_, _| true);
        let last = (kept / 4096) as u32;
        assert_eq!(salvaged.report.missing_pages, archive.pages() - last);
        check_found(&archive, &salvaged, &(last + 1..=archive.pages()).collect());
    }
}

#[test]
fn a_lost_segment_is_a_hole() {
    let archive = Archive::new(8);
    let (segment, page) = archive.overflow_of("segments");
    let salvaged = salvage_without(&archive, &BTreeSet::from([page]));
    let db = Connection::open(archive.path()).expect("the archive");
    let mut select = db
        .prepare(
            "SELECT transcript, generation, start, start + bytes FROM layout JOIN segments ON segments.id = segment
             WHERE segment = ?1 ORDER BY 1, 2, 3",
        )
        .expect("a query");
    let hole = |row: &rusqlite::Row<'_>| {
        let (start, end) = (super::super::columns::unsigned(row, 2)?, super::super::columns::unsigned(row, 3)?);
        Ok(Hole { transcript: row.get(0)?, generation: row.get(1)?, start, end })
    };
    let expected: Vec<Hole> = select.query_map([segment], hole).expect("rows").map(|hole| hole.expect("a hole")).collect();
    assert!(!expected.is_empty());
    assert_eq!(salvaged.report.holes, expected);
    assert_eq!(salvaged.report.missing_turns, [0; 0], "turns are known without their bytes");
}

#[test]
fn a_lost_session_is_made_again_and_a_lost_transcript_is_named() {
    let archive = Archive::new(8);
    let salvaged = salvage_without(&archive, &archive.leaves_of("sessions"));
    assert_eq!(salvaged.report.rebuilt_sessions.len() as u64, archive.rows["sessions"]);
    let names = |path: &Path| -> String {
        let sql = "SELECT group_concat(id || session || folder || title || first_ms || last_ms ORDER BY id) FROM sessions";
        Connection::open(path).expect("an archive").query_row(sql, [], |row| row.get(0)).expect("names")
    };
    assert_eq!(names(&salvaged.path()), names(&archive.path()));

    let (transcript, page) = archive.overflow_of("transcripts");
    let salvaged = salvage_without(&archive, &BTreeSet::from([page]));
    let [lost] = &salvaged.report.lost_transcripts[..] else { panic!("one is lost") };
    let db = Connection::open(archive.path()).expect("the archive");
    let (path, session): (String, i64) = db
        .query_row("SELECT path, session FROM transcripts WHERE id = ?1", [transcript], |row| Ok((row.get(0)?, row.get(1)?)))
        .expect("a row");
    assert_eq!((lost.key, &lost.path, lost.session), (transcript, &Some(path), Some(session)));
    let pieces: usize = db
        .query_row("SELECT count(*) FROM layout WHERE transcript = ?1", [transcript], |row| row.get::<_, u32>(0))
        .expect("a count") as usize;
    assert_eq!(lost.layout.len(), pieces);
}

#[test]
fn a_lost_page_of_turns_is_told() {
    let archive = Archive::new(8);
    let page = *archive.leaves_of("turns").first().expect("a page");
    let salvaged = salvage_without(&archive, &BTreeSet::from([page]));
    assert!(!salvaged.report.missing_turns.is_empty() && salvaged.report.holes.is_empty());
}

#[test]
fn records_may_be_older_than_the_schema() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (old, new) = (folder.path().join("old.db"), folder.path().join(SqliteStore::FILE));
    let db = Connection::open(&old).expect("a database");
    // Before the first column was added.
    db.execute_batch(schema::MIGRATIONS[0]).expect("tables");
    db.execute_batch(
        "PRAGMA user_version = 1;
         WITH n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 500)
         INSERT INTO sessions (id, session) SELECT n, 'session ' || n FROM n;
         INSERT INTO transcripts SELECT id, id, 'path ' || id, NULL, 0, 0, 0, zeroblob(32), '{}' FROM sessions;
         INSERT INTO compactions (session, at_ms, turns) SELECT id, 5, 0 FROM sessions;",
    )
    .expect("rows");
    drop(db);
    fs::copy(&old, &new).expect("copied");
    drop(SqliteStore::open(folder.path(), LockPolicy::Background).expect("the newest schema"));
    for damaged in [&old, &new] {
        let mut bytes = fs::read(damaged).expect("an archive");
        let salvaged = Salvaged::of(damaged, &|_, _| true);
        assert!(salvaged.report.is_whole(), "{:?}", salvaged.report.unplaced);
        assert_eq!(salvaged.report.rows["compactions"], 500);
        let changes: u32 = salvaged.db().query_row("SELECT count(*) FROM changes", [], |row| row.get(0)).expect("a count");
        assert_eq!(changes, 1, "an archive always has a last change");
        bytes[..4096].fill(0);
        fs::write(damaged, bytes).expect("written");
        let salvaged = Salvaged::of(damaged, &|_, _| true);
        let rows = ["sessions", "transcripts", "compactions"].map(|table| salvaged.report.rows[table]);
        assert_eq!((rows, salvaged.report.unplaced), ([500; 3], 0));
    }
}

#[test]
fn nothing_is_replaced() {
    let archive = Archive::new(8);
    let mut store = SqliteStore::open(archive.path().parent().expect("a folder"), LockPolicy::Background).expect("an archive");
    let path = archive.path();
    assert!(matches!(store.salvage_from(&path, &|_, _| true), Err(SalvageError::NotEmpty)));
    store.db.pragma_update(None, "user_version", 99).expect("written");
    let newer = SqliteStore::salvage_in_memory(&path, &|_, _| true);
    assert!(matches!(newer, Err(SalvageError::Newer { found: 99, .. })));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(share_of(300)) })]

    #[test]
    fn any_bytes_are_read(bytes in proptest::collection::vec(any::<u8>(), 0..20_000), kinds in proptest::collection::vec(0..5_usize, 5)) {
        let mut bytes = bytes;
        for (page, kind) in bytes.chunks_mut(4096).zip(kinds) {
            // Most noise is no page at all.
            if let (Some(first), Some(kind)) = (page.first_mut(), [2, 5, 10, 13].get(kind)) {
                *first = *kind;
            }
        }
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("damaged.db");
        fs::write(&path, &bytes).expect("written");
        fs::write(folder.path().join("damaged.db-wal"), &bytes).expect("written");
        SqliteStore::salvage_in_memory(&path, &|_, _| true).expect("a salvage");
    }

    #[test]
    fn flipped_bytes_leave_a_consistent_archive(seed in any::<u32>(), count in 1..200_usize) {
        static ARCHIVE: std::sync::LazyLock<(Archive, Vec<u8>)> = std::sync::LazyLock::new(|| {
            let archive = Archive::new(0);
            let bytes = fs::read(archive.path()).expect("an archive");
            (archive, bytes)
        });
        let mut bytes = ARCHIVE.1.clone();
        let random = noise(seed, 5 * count);
        let (places, _) = random.as_chunks::<5>();
        for [a, b, c, d, mask] in places {
            let at = u32::from_le_bytes([*a, *b, *c, *d]) as usize % bytes.len();
            bytes[at] ^= mask;
        }
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("damaged.db");
        fs::write(&path, &bytes).expect("written");
        Salvaged::of(&path, &|_, _| true).check_consistent();
    }
}
