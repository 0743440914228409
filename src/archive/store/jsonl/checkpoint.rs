/*!
Checkpoint: the result of the journal up to some line, as pages of the in-memory tables. It saves replaying the same changes again.

Replaying takes some 50 µs a turn, reading this a few hundred nanoseconds. The file is next to the journal, and is used only if it
is complete and belongs to this journal. A process that had to replay much writes a new one. It may be deleted at any time.
*/

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};

use serde::{Deserialize, Serialize};

use super::folder;
use super::folder::Folder;
use super::journal::{self, ChangeJournal, Extent};
use super::journal_line::Position;
use super::replay::ReplayedArchive;
use crate::store::StoreError;
use crate::store::sqlite::SqliteStore;
use ctxbridge_common::files;

/// The name of the file.
pub(super) const FILE: &str = "journal.image";
const NEW: &str = "journal.image.new";

/// The version of the file.
const FORMAT: u32 = 1;

/// Maximum length of the first line, in bytes.
const HEAD_BYTES: u64 = 4 << 10;

/// Maximum size, in bytes: more is not read into memory at once, and SQLite takes no more than twice as much.
const MAX_CHECKPOINT_BYTES: u64 = 512 << 20;

/// The first line; the pages follow.
#[derive(Serialize, Deserialize)]
struct CheckpointHeader {
    format: u32,
    schema: u32,
    /// The journal's id.
    journal: String,
    /// The position in the journal that the pages cover.
    at: Position,
    begin: u64,
    entries: Extent,
    last_change: i64,
    bytes: u64,
    crc: u32,
}

/// Reads the checkpoint of a journal, if there is one; the journal is then read from there on. An unreadable one is ignored.
pub(super) fn read(folder: &Folder, journal: &mut ChangeJournal) -> Option<ReplayedArchive> {
    let mut file = BufReader::new(folder.open(FILE, File::options().read(true)).ok()?);
    let mut line = Vec::new();
    (&mut file).take(HEAD_BYTES).read_until(b'\n', &mut line).ok()?;
    let head: CheckpointHeader = serde_json::from_slice(&line).ok()?;
    let is_of_these = head.format == FORMAT
        && head.schema == SqliteStore::SCHEMA
        && head.journal == journal.head.id
        && (1..=MAX_CHECKPOINT_BYTES).contains(&head.bytes)
        && journal.has(&head.at);
    if !is_of_these {
        return None;
    }
    let mut summed = Summed { file, sum: crc32fast::Hasher::new() };
    let memory = SqliteStore::from_image(&folder.file(folder::JOURNAL_FILE), &mut summed, head.bytes as usize).ok()?;
    if summed.sum.finalize() != head.crc {
        return None;
    }
    journal.at = head.at;
    journal.begin = head.begin;
    Some(ReplayedArchive::from_image(folder, &journal.head, memory, head.entries, head.last_change))
}

/// Writes a checkpoint. The caller holds the lock.
pub(super) fn write(folder: &Folder, journal: &ChangeJournal, replayed: &mut ReplayedArchive) -> Result<(), StoreError> {
    let failed = |cause: io::Error| folder.explain(NEW, cause);
    let (journal_id, entries, last_change) = (journal.head.id.clone(), replayed.entries, replayed.last_change());
    replayed.memory.with_image(&mut |pages| {
        if pages.len() as u64 > MAX_CHECKPOINT_BYTES {
            return Ok(());
        }
        let head = CheckpointHeader {
            format: FORMAT,
            schema: SqliteStore::SCHEMA,
            journal: journal_id.clone(),
            at: journal.at,
            begin: journal.begin,
            entries,
            last_change,
            bytes: pages.len() as u64,
            crc: crc32fast::hash(pages),
        };
        let mut line = journal::json(&head)?;
        line.push(b'\n');
        let mut file = folder.open(NEW, files::private().create(true).truncate(true))?;
        let mut write = || {
            file.write_all(&line)?;
            file.write_all(pages)?;
            files::patiently(|| fs::rename(folder.file(NEW), folder.file(FILE)))
        };
        write().map_err(|cause| {
            // It is of no use, and takes room.
            fs::remove_file(folder.file(NEW)).ok();
            failed(cause)
        })
    })?;
    replayed.steps = 0;
    Ok(())
}

/// Reader that computes a checksum.
struct Summed {
    file: BufReader<File>,
    sum: crc32fast::Hasher,
}

impl Read for Summed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buffer)?;
        self.sum.update(&buffer[..read]);
        Ok(read)
    }
}
