/*!
`entries.jsonl`: the content of turns, for people with `jq` and `grep`.

One line for each version of a turn; of lines with the same key, the last one counts. Content that several turns share is there
once. The file can be rebuilt from the journal and the transcripts, and no query of the archive reads it.
*/

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Seek, SeekFrom, Write};

use serde::Deserialize;

use super::change::Hash;
use super::folder::Folder;
use super::journal::Extent;
use crate::entry::Entry;
use crate::store::StoreError;
use ctxbridge_common::digest;
use ctxbridge_common::files;

/// The name of the file.
pub(super) const FILE: &str = "entries.jsonl";

/// Size of the read and write buffer, in bytes.
const BUFFER: usize = 256 << 10;

/// The only field that is read from a line.
#[derive(Deserialize)]
struct EntryLine {
    metadata: KnownMetadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct KnownMetadata {
    content_hash: Hash,
}

/// Adds lines after those that the journal knows, and returns the new extent.
pub(super) fn add(folder: &Folder, known: Extent, entries: &[Entry]) -> Result<Extent, StoreError> {
    if entries.is_empty() {
        return Ok(known);
    }
    let failed = |cause| folder.explain(FILE, cause);
    let mut file = folder.open(FILE, files::private().read(true).create(true).truncate(false))?;
    let mut lines = Vec::new();
    for entry in entries {
        push(&mut lines, entry).map_err(failed)?;
    }
    // Where somebody took something away, what is left ends with a line.
    let begin = end_of_line(&mut file, known.bytes).map_err(failed)?;
    let mut write = || {
        if file.metadata()?.len() != begin {
            file.set_len(begin)?;
        }
        file.seek(SeekFrom::Start(begin))?;
        file.write_all(&lines)
    };
    if let Err(cause) = write() {
        // What cannot be cut off now is cut off by who writes next.
        file.set_len(begin).ok();
        return Err(failed(cause));
    }
    Ok(Extent { bytes: begin + lines.len() as u64, lines: known.lines + entries.len() as u64 })
}

/// Removes everything after a known extent.
pub(super) fn cut(folder: &Folder, known: Extent) {
    // Nobody is told: it makes room, and what stays is cut off by who writes next.
    if let Ok(file) = folder.open(FILE, &mut files::private())
        && file.metadata().is_ok_and(|metadata| metadata.len() > known.bytes)
    {
        file.set_len(known.bytes).ok();
    }
}

/// Returns the end of the last complete line before a byte, or the end of the file.
fn end_of_line(file: &mut File, byte: u64) -> io::Result<u64> {
    const STEP: u64 = 64 << 10;
    let mut end = file.metadata()?.len().min(byte);
    while end > 0 {
        let start = end.saturating_sub(STEP);
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(start))?;
        file.take(end - start).read_to_end(&mut bytes)?;
        match memchr::memrchr(b'\n', &bytes) {
            Some(at) => return Ok(start + at as u64 + 1),
            None => end = start,
        }
    }
    Ok(0)
}

fn push(lines: &mut Vec<u8>, entry: &Entry) -> io::Result<()> {
    serde_json::to_writer(&mut *lines, entry)?;
    lines.push(b'\n');
    Ok(())
}

/// Result of reading the lines of a file.
#[derive(Debug, Default)]
pub(super) struct EntriesSurvey {
    /// Contents that are wanted and have no line.
    pub missing: Vec<digest::Sha256Digest>,
    /// The number of each invalid line, from 1.
    pub bad: Vec<u64>,
    /// Whole lines.
    pub lines: u64,
}

/// Finds out which of these contents have a line within the extent that the journal knows. `keep` receives the first line of each.
pub(super) fn survey(
    folder: &Folder,
    known: Extent,
    wanted: &[digest::Sha256Digest],
    keep: &mut dyn FnMut(&[u8]) -> io::Result<()>,
) -> Result<EntriesSurvey, StoreError> {
    let failed = |cause| folder.explain(FILE, cause);
    let mut survey = EntriesSurvey::default();
    let mut left: HashSet<&digest::Sha256Digest> = wanted.iter().collect();
    if let Some(file) = folder.open_if_there(FILE, File::options().read(true))? {
        let mut reader = BufReader::with_capacity(BUFFER, file.take(known.bytes));
        let mut line = Vec::new();
        while reader.read_until(b'\n', &mut line).map_err(failed)? > 0 {
            survey.lines += 1;
            match serde_json::from_slice::<EntryLine>(&line) {
                Ok(known) if line.ends_with(b"\n") => {
                    if left.remove(&known.metadata.content_hash.0) {
                        keep(&line).map_err(failed)?;
                    }
                }
                _ => survey.bad.push(survey.lines),
            }
            line.clear();
        }
    }
    survey.missing = wanted.iter().filter(|content| left.contains(content)).copied().collect();
    Ok(survey)
}

/// Writer of a new file, line by line.
pub(super) struct Rewriting<'a> {
    folder: &'a Folder,
    name: &'a str,
    file: BufWriter<File>,
    extent: Extent,
}

impl<'a> Rewriting<'a> {
    pub fn begin(folder: &'a Folder, name: &'a str) -> Result<Self, StoreError> {
        let file = folder.open(name, files::private().create(true).truncate(true))?;
        Ok(Self { folder, name, file: BufWriter::with_capacity(BUFFER, file), extent: Extent::default() })
    }

    pub fn line(&mut self, line: &[u8]) -> io::Result<()> {
        self.extent.bytes += line.len() as u64;
        self.extent.lines += 1;
        self.file.write_all(line)
    }

    pub fn entry(&mut self, entry: &Entry) -> Result<(), StoreError> {
        let mut line = Vec::new();
        push(&mut line, entry).and_then(|()| self.line(&line)).map_err(|cause| self.folder.explain(self.name, cause))
    }

    /// Finishes the file and waits until it is on the disk.
    pub fn end(self) -> Result<Extent, StoreError> {
        let failed = |cause| self.folder.explain(self.name, cause);
        let file = self.file.into_inner().map_err(|error| failed(error.into_error()))?;
        file.sync_all().map_err(failed)?;
        Ok(self.extent)
    }
}
