/*!
Finds the text behind a handle, which a pruned request has in place of the text.

A handle begins with the id of its message. The line with that id is searched for as bytes. First come the transcripts of the
handle's own project folder, newest first, then the archive, then all other transcripts. An index of all messages would be larger
than its lookups are worth; the bytes are read at more than a gigabyte a second.
*/

use std::cmp::Reverse;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use memchr::{memchr, memmem, memrchr};
use serde_json::Value;

use super::store::StoreError;
use super::transcript_paths;
use crate::store::StoreReader;
use ctxbridge_prune::{self as prune, Handle};
use ctxbridge_transcript::replace_lone_surrogates;

/// Maximum number of archived sessions to search; more than anybody has.
const MAX_SEARCHED_SESSIONS: usize = 1_000_000;

/// Byte range of a whole transcript, without checking bytes that are only searched against their SHA-256.
const WHOLE_TRANSCRIPT: (u64, u64) = (0, u64::MAX - 1);

/// The original text behind a handle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OriginalText {
    /// The text, to the byte.
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
    paths.iter().find_map(|path| {
        let mut finder = MessageLineFinder::new(handle);
        io::copy(&mut File::open(path).ok()?, &mut finder).ok()?;
        finder.original(path)
    })
}

/// Searches the archive, newest sessions first, including bytes that a rewritten transcript no longer has.
///
/// # Errors
/// If the archive cannot be read.
pub fn find_in_archive(handle: &Handle, store: &mut dyn StoreReader) -> Result<Option<OriginalText>, StoreError> {
    // One that is in cold storage, and not there, may be the one that has it: that is said only when nobody else does.
    let mut unreadable = None;
    for session in store.sessions("", None, MAX_SEARCHED_SESSIONS)? {
        for transcript in store.transcripts(session.key)?.into_iter().filter(|file| file.part.is_transcript()) {
            for generation in (0..=transcript.generation).rev() {
                let mut finder = MessageLineFinder::new(handle);
                match store.read_bytes(transcript.key, generation, WHOLE_TRANSCRIPT, &mut finder) {
                    Err(error) if error.is_session_local() => unreadable = Some(error),
                    read => read?,
                }
                if let Some(original) = finder.original(Path::new(&transcript.path)) {
                    return Ok(Some(original));
                }
            }
        }
    }
    unreadable.map_or(Ok(None), Err)
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

/// Receives bytes and collects the lines of messages whose id begins like the handle.
struct MessageLineFinder<'a> {
    handle: &'a Handle,
    needle: Vec<u8>,
    /// Bytes not searched yet, because their last line is not complete.
    waiting: Vec<u8>,
    lines: Vec<Vec<u8>>,
}

impl<'a> MessageLineFinder<'a> {
    fn new(handle: &'a Handle) -> Self {
        let needle = format!(r#""uuid":"{}"#, handle.digits).into_bytes();
        Self { handle, needle, waiting: Vec::new(), lines: Vec::new() }
    }

    fn look_through(&mut self, end: usize) {
        let bytes = &self.waiting[..end];
        let mut from = 0;
        while let Some(at) = memmem::find(&bytes[from..], &self.needle).map(|at| from + at) {
            let start = memrchr(b'\n', &bytes[..at]).map_or(0, |newline| newline + 1);
            from = memchr(b'\n', &bytes[at..]).map_or(end, |newline| at + newline);
            self.lines.push(bytes[start..from].to_vec());
        }
        self.waiting.drain(..end);
    }

    /// Returns the newest match.
    fn original(mut self, path: &Path) -> Option<OriginalText> {
        self.look_through(self.waiting.len());
        let read = |line: &Vec<u8>| {
            let line = String::from_utf8_lossy(line);
            let message: Value = serde_json::from_slice(&replace_lone_surrogates(line.as_bytes())).ok()?;
            let uuid = message.get("uuid")?.as_str().filter(|uuid| uuid.starts_with(&self.handle.digits))?;
            let text = prune::text_at(&message, self.handle.block, self.handle.part)?;
            let session = message.get("sessionId").and_then(Value::as_str);
            Some((uuid.to_owned(), text.to_owned(), session.map(str::to_owned)))
        };
        let mut found: Vec<_> = self.lines.iter().filter_map(read).collect();
        let (uuid, text, session) = found.pop()?;
        let is_ambiguous = found.iter().any(|(_, other, _)| *other != text);
        Some(OriginalText { text, uuid, session, path: path.to_owned(), is_ambiguous })
    }
}

impl Write for MessageLineFinder<'_> {
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
