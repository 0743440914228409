/*!
Finds the text behind a handle. A pruned request has the handle in place of the text.

A handle begins with the id of its message. The line with that id is searched for as bytes. First come the transcripts of the
handle's own project folder, newest first, then the archive, then all other transcripts. An index of all messages would be larger
than its lookups are worth; the bytes are read at more than a gigabyte a second.
*/

use std::cmp::Reverse;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use memchr::{memchr, memmem, memrchr};
use serde_json::Value;

use super::message_text;
use super::store::{StoreError, StoredTranscript};
use super::transcript_paths;
use crate::store::StoreReader;
use ctxbridge_common::files;
use ctxbridge_prune::{self as prune, Handle};
use ctxbridge_transcript::blank::blank_private;
use ctxbridge_transcript::replace_lone_surrogates;

/// Maximum number of archived sessions to search; more than anybody has.
const MAX_SEARCHED_SESSIONS: usize = 1_000_000;

/// Byte range of a whole transcript, without checking bytes that are only searched against their SHA-256.
const WHOLE_TRANSCRIPT: (u64, u64) = (0, u64::MAX - 1);

/// The original text behind a handle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OriginalText {
    /// The text, to the byte; of a block without any, such as a picture, what it is.
    pub text: String,
    /// The id of its message.
    pub uuid: String,
    /// The session that its line names.
    pub session: Option<String>,
    /// The transcript.
    pub path: PathBuf,
    /// `true` if the ids of other messages begin with the same digits and these messages have another text there.
    pub is_ambiguous: bool,
}

/// Searches transcripts, in the given order.
///
/// Unreadable files are skipped: a file may disappear at any time.
pub fn find_in_transcripts(handle: &Handle, paths: &[PathBuf]) -> Option<OriginalText> {
    paths.iter().find_map(|path| original(handle, &lines_in_transcript(path, &[&handle.digits])?, path))
}

/// Searches the archive, newest sessions first, including bytes that a rewritten transcript no longer has.
///
/// # Errors
/// If the archive cannot be read.
pub fn find_in_archive(handle: &Handle, store: &mut dyn StoreReader) -> Result<Option<OriginalText>, StoreError> {
    let mut found = None;
    search_archive(store, &[&handle.digits], &mut |_, transcript, _, lines| {
        found = original(handle, lines, Path::new(&transcript.path));
        Ok(found.is_some())
    })?;
    Ok(found)
}

/// Returns the newest match.
fn original(handle: &Handle, lines: &[FoundLine], path: &Path) -> Option<OriginalText> {
    let read = |line: &FoundLine| {
        let message = parse(&line.bytes)?;
        let uuid = message.get("uuid")?.as_str().filter(|uuid| uuid.starts_with(&handle.digits))?;
        let in_words = || message_text::of_block(&message, handle.block).filter(|_| handle.part.is_none());
        let text = prune::text_at(&message, handle.block, handle.part).or_else(in_words)?;
        let session = message.get("sessionId").and_then(Value::as_str);
        Some((uuid.to_owned(), text, session.map(str::to_owned)))
    };
    let mut found: Vec<_> = lines.iter().filter_map(read).collect();
    let (uuid, text, session) = found.pop()?;
    let is_ambiguous = found.iter().any(|(_, other, _)| *other != text);
    Some(OriginalText { text, uuid, session, path: path.to_owned(), is_ambiguous })
}

/// Parses a line of a transcript.
pub(super) fn parse(line: &[u8]) -> Option<Value> {
    let mut line = line.to_vec();
    blank_private(&mut line);
    let line = String::from_utf8_lossy(&line);
    serde_json::from_slice(&replace_lone_surrogates(line.as_bytes())).ok()
}

/// Finds the lines of a transcript whose ids begin with any of these digits; `None` if it cannot be read.
pub(super) fn lines_in_transcript(path: &Path, digits: &[&str]) -> Option<Vec<FoundLine>> {
    let mut finder = MessageLineFinder::new(digits);
    io::copy(&mut files::open(path).ok()?, &mut finder).ok()?;
    Some(finder.finish())
}

/// Uses the lines that were found in a generation of an archived transcript. Returns `true` if nothing more is wanted.
pub(super) type UseLines<'a> =
    dyn FnMut(&mut dyn StoreReader, &StoredTranscript, u32, &[FoundLine]) -> Result<bool, StoreError> + 'a;

/// Finds the lines of archived transcripts whose ids begin with any of these digits, newest sessions first, until `found` wants no more.
///
/// # Errors
/// If the archive cannot be read.
pub(super) fn search_archive(store: &mut dyn StoreReader, digits: &[&str], found: &mut UseLines<'_>) -> Result<(), StoreError> {
    // One that is in cold storage, and not there, may be the one that has it: that is said only when nobody else does.
    let mut unreadable = None;
    for session in store.sessions("", None, MAX_SEARCHED_SESSIONS)? {
        for transcript in store.transcripts(session.key)?.into_iter().filter(|file| file.part.is_transcript()) {
            for generation in (0..=transcript.generation).rev() {
                let mut finder = MessageLineFinder::new(digits);
                let read = store.read_bytes(transcript.key, generation, WHOLE_TRANSCRIPT, &mut finder);
                // What was found before the damage counts.
                let lines = finder.finish();
                let is_done = if lines.is_empty() { Ok(false) } else { found(store, &transcript, generation, &lines) };
                for result in [read.map(|()| false), is_done] {
                    match result {
                        Ok(true) => return Ok(()),
                        Ok(false) => {}
                        Err(error) if error.is_session_local() => unreadable = Some(error),
                        Err(error) => return Err(error),
                    }
                }
            }
        }
    }
    unreadable.map_or(Ok(()), Err)
}

/// The client's transcripts, newest first: those of a working folder or of a folder above it, and all others.
pub fn partition_transcripts(client: &Path, folder: &Path) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let projects = client.join("projects");
    let mut all = transcript_paths::transcripts_below(&projects, &mut |_, _| {});
    let changed = |path: &PathBuf| fs::metadata(path).and_then(|metadata| metadata.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
    all.sort_by_cached_key(|path| Reverse(changed(path)));
    let own: Vec<PathBuf> = folder.ancestors().map(|folder| projects.join(project_name(folder))).collect();
    all.into_iter().partition(|path| own.iter().any(|own| path.starts_with(own)))
}

/// Name that the client gives to the folder of a project's transcripts: every character but letters and digits becomes a dash.
fn project_name(folder: &Path) -> String {
    folder.to_string_lossy().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
}

/// A line of a transcript, and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FoundLine {
    /// Byte offset of its begin.
    pub start: u64,
    /// Without its line break.
    pub bytes: Vec<u8>,
}

/// Receives bytes and collects the lines of messages whose ids begin with given digits.
struct MessageLineFinder {
    needles: Vec<Vec<u8>>,
    /// Bytes not searched yet, because their last line is not complete, and the offset of the first of them.
    waiting: Vec<u8>,
    position: u64,
    lines: Vec<FoundLine>,
}

impl MessageLineFinder {
    fn new(digits: &[&str]) -> Self {
        let needles = digits.iter().map(|digits| format!(r#""uuid":"{digits}"#).into_bytes()).collect();
        Self { needles, waiting: Vec::new(), position: 0, lines: Vec::new() }
    }

    fn look_through(&mut self, end: usize) {
        let bytes = &self.waiting[..end];
        for needle in &self.needles {
            let mut from = 0;
            while let Some(at) = memmem::find(&bytes[from..], needle).map(|at| from + at) {
                let start = memrchr(b'\n', &bytes[..at]).map_or(0, |newline| newline + 1);
                from = memchr(b'\n', &bytes[at..]).map_or(end, |newline| at + newline);
                self.lines.push(FoundLine { start: self.position + start as u64, bytes: bytes[start..from].to_vec() });
            }
        }
        self.waiting.drain(..end);
        self.position += end as u64;
    }

    /// Returns the lines in their order, each once.
    fn finish(mut self) -> Vec<FoundLine> {
        self.look_through(self.waiting.len());
        self.lines.sort_by_key(|line| line.start);
        self.lines.dedup();
        self.lines
    }
}

impl Write for MessageLineFinder {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.waiting.extend_from_slice(bytes);
        if let Some(newline) = memrchr(b'\n', &self.waiting[self.waiting.len() - bytes.len()..]) {
            self.look_through(self.waiting.len() - bytes.len() + newline + 1);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
