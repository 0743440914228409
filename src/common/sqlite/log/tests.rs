use super::*;
use crate::sqlite::{DatabaseOpenError, DatabaseOptions, open};

const TABLE: [&str; 1] = ["CREATE TABLE a (x INTEGER PRIMARY KEY, y TEXT) STRICT"];
const OPTIONS: DatabaseOptions =
    DatabaseOptions { wal_autocheckpoint: Some(100_000), refuses_damaged_log: true, ..DatabaseOptions::DURABLE };

/// A database whose file has nothing but its schema: all rows are in the log, one commit each.
fn logged(rows: usize) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("a.db");
    let db = open(&path, &TABLE, OPTIONS).expect("opens");
    db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).expect("checkpoints");
    for row in 0..rows {
        let words: String = (0..row * 40).map(|word| format!("{:x} ", word * 2_654_435_761 % 65_521)).collect();
        db.execute("INSERT INTO a (y) VALUES (?1)", [words]).expect("inserts");
    }
    drop(db);
    (folder, path)
}

fn opened(path: &Path) -> DatabaseLog {
    DatabaseLog::open(path).expect("reads").expect("a log")
}

fn rows(path: &Path) -> u32 {
    let db = open(path, &TABLE, OPTIONS).expect("opens");
    db.query_row("SELECT count(*) FROM a", [], |row| row.get(0)).expect("counts")
}

#[test]
fn a_whole_log_is_sound() {
    let (folder, path) = logged(20);
    let log = opened(&path);
    assert_eq!((log.damaged(), log.lost.len()), (0, 0));
    assert!(log.frames.len() >= 40 && log.page(2).is_some() && log.page(1_000).is_none());
    assert!(!log.drop_if_copied(&path).expect("compares"));
    assert!(DatabaseLog::open(&folder.path().join("b.db")).expect("reads").is_none());
    std::fs::write(log_path(&path), [0; 3]).expect("writable");
    assert!(DatabaseLog::open(&path).expect("reads").is_none());
}

#[test]
fn what_is_written_meanwhile_or_taken_back_is_no_damage() {
    let (_folder, path) = logged(6);
    let whole = std::fs::read(log_path(&path)).expect("readable");
    let frames = opened(&path).frames.len();
    for cut in (HEADER_BYTES + 1..whole.len()).step_by(501) {
        std::fs::write(log_path(&path), &whole[..cut]).expect("writable");
        assert_eq!(DatabaseLog::open(&path).expect("reads").map_or(0, |log| log.damaged()), 0, "{cut}");
    }
    // A transaction that spilled its pages into the log and was taken back, and a shorter one over them.
    std::fs::write(log_path(&path), &whole).expect("writable");
    let db = open(&path, &TABLE, OPTIONS).expect("opens");
    db.execute_batch(
        "PRAGMA cache_size = 2; BEGIN;
         WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 400) INSERT INTO a (y) SELECT hex(randomblob(900)) FROM n;
         ROLLBACK; INSERT INTO a (y) VALUES ('short');",
    )
    .expect("writes");
    assert!(std::fs::metadata(log_path(&path)).expect("a log").len() > (whole.len() + 20 * FRAME_BYTES) as u64);
    let log = opened(&path);
    assert_eq!(log.damaged(), 0);
    assert!(log.frames.len() > frames && log.frames.len() < frames + 10);
    drop(db);
    assert_eq!(rows(&path), 7);
}

#[test]
fn a_log_that_was_begun_anew_ends_where_the_new_frames_end() {
    let (_folder, path) = logged(10);
    let db = open(&path, &TABLE, OPTIONS).expect("opens");
    db.query_row("PRAGMA wal_checkpoint(FULL)", [], |_| Ok(())).expect("checkpoints");
    db.execute("INSERT INTO a (y) VALUES ('new')", []).expect("inserts");
    let log = opened(&path);
    assert_eq!(log.damaged(), 0);
    assert!(log.frames.len() < 6, "{}", log.frames.len());
    drop(db);
    assert_eq!(rows(&path), 11);
}

#[test]
fn every_flipped_bit_is_found_and_most_are_turned_back() {
    let (_folder, path) = logged(12);
    let whole = std::fs::read(log_path(&path)).expect("readable");
    let (mut corrected, mut lost) = (0, 0);
    // A part of them, in all places of a word: there are hundreds of thousands.
    for bit in (0..HEADER_BYTES * 8).chain((HEADER_BYTES * 8..whole.len() * 8).step_by(1_999)) {
        let mut damaged = whole.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        std::fs::write(log_path(&path), &damaged).expect("writable");
        assert!(matches!(open(&path, &TABLE, OPTIONS), Err(DatabaseOpenError::DamagedLog)), "bit {bit}");
        assert!(std::fs::read(log_path(&path)).expect("readable") == damaged, "bit {bit}");
        let mut log = opened(&path);
        assert_eq!(log.damaged(), 1, "bit {bit}");
        if log.correct().expect("corrects") == 0 {
            corrected += 1;
            let now = std::fs::read(log_path(&path)).expect("readable");
            // A bit that means nothing may stay, with a checksum that fits it.
            assert!(now == whole || opened(&path).damaged() == 0, "bit {bit}");
            for page in 1..=log.page_count(1) {
                let content = |log: &DatabaseLog| log.page(page).map(|page| page[..PAGE_BYTES - SUM_BYTES].to_vec());
                std::fs::write(log_path(&path), &whole).expect("writable");
                let before = content(&opened(&path));
                std::fs::write(log_path(&path), &now).expect("writable");
                assert!(before == content(&opened(&path)), "bit {bit}, page {page}");
            }
        } else {
            lost += 1;
            // Nothing is changed where nobody can tell, and what is behind it is still known.
            assert!(std::fs::read(log_path(&path)).expect("readable") == damaged);
            assert_eq!(log.frames.len(), opened(&path).frames.len());
            assert!(log.lost.len() <= 1);
        }
    }
    assert!(corrected > 2 * lost, "{corrected} of {}", corrected + lost);
    std::fs::write(log_path(&path), &whole).expect("writable");
    assert_eq!(rows(&path), 12);
}

#[test]
fn noise_costs_no_other_page() {
    let (_folder, path) = logged(12);
    let log = opened(&path);
    let frame = log.frames[log.frames.len() / 2];
    let mut bytes = std::fs::read(log_path(&path)).expect("readable");
    let at = usize::try_from(frame.offset).expect("a small file");
    bytes[at + FRAME_HEADER_BYTES..at + FRAME_BYTES].fill(0x5a);
    std::fs::write(log_path(&path), &bytes).expect("writable");
    let mut damaged = opened(&path);
    assert_eq!((damaged.frames.len(), damaged.damaged()), (log.frames.len(), 1));
    assert_eq!(damaged.correct().expect("reads"), 1);
    let lost = u32::from(damaged.has_lost(frame.page));
    let there = (1..=log.page_count(1)).filter(|page| log.page(*page).is_some() && damaged.page(*page).is_none()).count();
    assert_eq!(there, lost as usize);
}

#[test]
fn a_damaged_log_that_was_copied_is_dropped() {
    let (_folder, path) = logged(12);
    let db = open(&path, &TABLE, OPTIONS).expect("opens");
    db.query_row("PRAGMA wal_checkpoint(FULL)", [], |_| Ok(())).expect("checkpoints");
    drop(db);
    let mut bytes = std::fs::read(log_path(&path)).expect("readable");
    let at = HEADER_BYTES + FRAME_HEADER_BYTES + 3 * FRAME_BYTES;
    bytes[at..at + 100].fill(0x5a);
    std::fs::write(log_path(&path), &bytes).expect("writable");
    let log = opened(&path);
    assert_eq!(log.damaged(), 1);
    assert!(log.drop_if_copied(&path).expect("compares"));
    assert!(DatabaseLog::open(&path).expect("reads").is_none());
    assert_eq!(rows(&path), 12);
}
