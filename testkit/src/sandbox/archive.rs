//! The archive: what it gives back, and what must hold for it, read from the database with nothing between.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use ctxbridge_common::digest;
use ctxbridge_common::paths;
use ctxbridge_common::sqlite;
use ctxbridge_transcript::Turn;

use crate::conversation;
use rusqlite::{Connection, OpenFlags, Params, Row};
use serde_json::Value;

use super::{Sandbox, Talk};

/// A turn: index, begin, end and SHA-256 of its content.
type Place = (u32, u64, u64, String);

impl Sandbox {
    /// The archive's database.
    pub fn database(&self) -> PathBuf {
        self.data().join("archive.db")
    }

    /// Databases that were moved aside.
    pub fn aside(&self) -> Vec<PathBuf> {
        let names = fs::read_dir(self.data()).into_iter().flatten().map(|entry| entry.unwrap().path());
        let is_aside = |path: &PathBuf| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            name.contains("damaged") && !name.ends_with("-wal") && !name.ends_with("-shm")
        };
        names.filter(is_aside).collect()
    }

    /// The lines of the log of failures.
    pub fn log(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.data().join("logs/errors.log")).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Bytes that the archive has of a session's transcript.
    #[track_caller]
    pub fn restored(&self, session: &str, more: &[&str]) -> Vec<u8> {
        let output = self.command(&[&["archive", "restore", session], more].concat()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    }

    /// The database, to look into.
    pub fn db(&self) -> Connection {
        let db = sqlite::open_file(&self.database(), OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
        db.busy_timeout(std::time::Duration::from_secs(30)).unwrap();
        db
    }

    /// A single number from it.
    pub fn count(&self, sql: &str) -> i64 {
        self.db().query_row(sql, [], |row| row.get(0)).unwrap()
    }

    /// Panics unless the database is in order.
    #[track_caller]
    pub fn assert_sound(&self) {
        let db = self.db();
        let found: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(found, "ok");
        assert_eq!(
            rows(&db, "SELECT \"table\" FROM pragma_foreign_key_check", [], |row| row.get::<_, String>(0)),
            [] as [String; 0]
        );
        let doubled = "SELECT transcript, idx FROM turns WHERE superseded IS NULL GROUP BY transcript, idx HAVING count(*) > 1";
        assert_eq!(rows(&db, doubled, [], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?))), []);
        let lost = "SELECT id FROM segments WHERE id NOT IN (SELECT segment FROM layout)";
        assert_eq!(rows(&db, lost, [], |row| row.get::<_, i64>(0)), [] as [i64; 0], "segments that no transcript has");
        let doubled = "SELECT sha256 FROM segments GROUP BY sha256 HAVING count(*) > 1";
        assert_eq!(rows(&db, doubled, [], |row| row.get::<_, Vec<u8>>(0)), [] as [Vec<u8>; 0]);
        assert_segments(&db);
        assert_layouts(&db);
        assert_turns(&db);
    }

    /// Panics unless the archive has a session's transcript to the byte, and its turns are those of a reader who begins at the front.
    #[track_caller]
    pub fn assert_archived(&self, talk: &Talk) {
        let bytes = talk.bytes();
        assert!(self.restored(&talk.id, &[]) == bytes, "{} bytes do not come back as they are", bytes.len());
        let expected: Vec<Place> = conversation(&bytes).iter().map(place).collect();
        assert_eq!(self.places(talk), expected);
        let shown = self.json(&["archive", "show", &talk.id]);
        assert_eq!(shown["turns"].as_array().unwrap().len(), expected.len());
        assert_eq!(shown["bytes"].as_u64().unwrap(), self.bytes_of(talk));
    }

    /// The current turns of a transcript.
    fn places(&self, talk: &Talk) -> Vec<Place> {
        let sql = "SELECT idx, start, start + turns.bytes, hex(sha256) FROM turns JOIN entries ON entries.id = entry
            WHERE transcript = (SELECT id FROM transcripts WHERE path = ?1) AND superseded IS NULL ORDER BY start";
        let place =
            |row: &Row<'_>| Ok((row.get(0)?, unsigned(row, 1)?, unsigned(row, 2)?, row.get::<_, String>(3)?.to_lowercase()));
        rows(&self.db(), sql, [paths::real(&talk.path).unwrap().to_str().unwrap()], place)
    }

    /// Bytes of all files of a session, sub-agents' included.
    fn bytes_of(&self, talk: &Talk) -> u64 {
        let sql = "SELECT path FROM transcripts WHERE session = (SELECT id FROM sessions WHERE session = ?1)";
        let paths = rows(&self.db(), sql, [&talk.id], |row| row.get::<_, String>(0));
        paths.iter().map(|path| fs::metadata(path).unwrap().len()).sum()
    }
}

fn place(turn: &Turn) -> Place {
    (turn.index, turn.start, turn.end, digest::hex(&turn.content_sha256))
}

/// Each is what its hash says, and those that are not here are in a cold file.
fn assert_segments(db: &Connection) {
    let nowhere = "SELECT id FROM segments WHERE length(data) = 0 AND id NOT IN (SELECT segment FROM cold)";
    assert_eq!(rows(db, nowhere, [], |row| row.get::<_, i64>(0)), [] as [i64; 0], "segments without bytes");
    let needed =
        "SELECT segment FROM layout JOIN transcripts ON transcripts.id = transcript JOIN segments ON segments.id = segment
        WHERE length(data) = 0 AND session NOT IN (SELECT session FROM cold_files)";
    assert_eq!(rows(db, needed, [], |row| row.get::<_, i64>(0)), [] as [i64; 0], "a session that is not cold needs them");
    let segment = |row: &Row<'_>| {
        let dictionary = row.get::<_, Option<Vec<u8>>>(3)?.unwrap_or_default();
        Ok((row.get::<_, String>(0)?, row.get::<_, u32>(1)?, row.get::<_, Vec<u8>>(2)?, dictionary))
    };
    let sql =
        "SELECT hex(sha256), bytes, segments.data, dictionaries.data FROM segments LEFT JOIN warm ON warm.segment = segments.id
        LEFT JOIN dictionaries ON dictionaries.id = dictionary WHERE length(segments.data) > 0";
    for (sha256, bytes, data, dictionary) in rows(db, sql, [], segment) {
        let mut decompressor = zstd::bulk::Decompressor::with_dictionary(&dictionary).unwrap();
        let unpacked = decompressor.decompress(&data, bytes as usize).unwrap();
        assert_eq!((unpacked.len(), digest::of_bytes(&unpacked)), (bytes as usize, sha256.to_lowercase()));
    }
}

/// The pieces of each generation follow each other from the first byte to the last.
fn assert_layouts(db: &Connection) {
    let sql = "SELECT transcript, layout.generation, start, segments.bytes FROM layout JOIN segments ON segments.id = segment
        ORDER BY transcript, layout.generation, start";
    let mut ends: BTreeMap<(i64, u32), u64> = BTreeMap::new();
    let piece = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, unsigned(row, 2)?, unsigned(row, 3)?));
    for (transcript, generation, start, bytes) in rows(db, sql, [], piece) {
        let end = ends.entry((transcript, generation)).or_default();
        assert_eq!(start, *end, "a gap in generation {generation} of transcript {transcript}");
        *end += bytes;
    }
    let now = |row: &Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, u32>(1)?, unsigned(row, 2)?));
    for (transcript, generation, bytes) in rows(db, "SELECT id, generation, bytes FROM transcripts", [], now) {
        assert_eq!(ends.get(&(transcript, generation)).copied().unwrap_or(0), bytes, "transcript {transcript}");
    }
}

/// The current turns of a transcript, also those that were rewound, stand one behind the other and inside of it. They are numbered
/// from 0, in this order unless one was split.
fn assert_turns(db: &Connection) {
    let sql = "SELECT transcript, idx, start, start + turns.bytes, transcripts.bytes FROM turns JOIN transcripts ON transcripts.id = transcript
        WHERE superseded IS NULL OR superseded = -1 ORDER BY transcript, start";
    let mut ends: BTreeMap<i64, u64> = BTreeMap::new();
    let mut numbers: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
    let turn = |row: &Row<'_>| Ok((row.get(0)?, row.get::<_, i64>(1)?, unsigned(row, 2)?, unsigned(row, 3)?, unsigned(row, 4)?));
    for (transcript, index, start, end, bytes) in rows(db, sql, [], turn) {
        let before = ends.insert(transcript, end).unwrap_or(0);
        assert!(before <= start && start < end, "turn {index} of transcript {transcript}: {start}, {end}");
        // A last line without its end counts as if it had one.
        assert!(end <= bytes + 1, "turn {index} ends behind its transcript");
        numbers.entry(transcript).or_default().push(index);
    }
    for (transcript, mut numbers) in numbers {
        numbers.sort_unstable();
        assert!(numbers.iter().copied().eq(0..numbers.len() as i64), "turns of transcript {transcript}: {numbers:?}");
    }
}

fn rows<T>(db: &Connection, sql: &str, params: impl Params, row: impl FnMut(&Row<'_>) -> rusqlite::Result<T>) -> Vec<T> {
    db.prepare(sql).unwrap().query_map(params, row).unwrap().map(Result::unwrap).collect()
}

fn unsigned(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    row.get::<_, i64>(column).map(i64::cast_unsigned)
}
