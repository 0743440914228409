/*!
Brings back a text by its handle: what a pruned request says instead of it.

A handle begins with the id of the message, and the line with that id is looked for as bytes: in the transcripts of the folder that
one is in, the newest first, then in the archive, then in all other transcripts. An index of all messages would be larger than what
is looked up in it is worth; the bytes are read at more than a gigabyte a second.
*/

use std::cmp::Reverse;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use memchr::{memchr, memmem, memrchr};
use serde_json::Value;

use super::place;
use super::store::{Store, StoreError};
use ctxbridge_prune::{self as prune, Handle};
use ctxbridge_transcript::whole_characters;

/// Sessions of the archive that are looked through; more than anybody has.
const SESSIONS: usize = 1_000_000;

/// All of a transcript, without checking what is only looked at against its SHA-256.
const ALL: (u64, u64) = (0, u64::MAX - 1);

/// A text as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Original {
    /// The text, to the byte.
    pub text: String,
    /// The id of its message.
    pub uuid: String,
    /// The session that its line names.
    pub session: Option<String>,
    /// The transcript.
    pub path: PathBuf,
    /// Whether other messages have an id that begins alike, with another text there.
    pub is_ambiguous: bool,
}

/// Looks in transcripts, in this order.
///
/// What cannot be read is passed over: a file may go away any time.
pub fn in_transcripts(handle: &Handle, paths: &[PathBuf]) -> Option<Original> {
    paths.iter().find_map(|path| {
        let mut finder = Finder::new(handle);
        io::copy(&mut File::open(path).ok()?, &mut finder).ok()?;
        finder.original(path)
    })
}

/// Looks in the archive, the newest sessions first; in what a rewritten transcript no longer has as well.
///
/// # Errors
/// When the archive cannot be read.
pub fn in_archive(handle: &Handle, store: &mut dyn Store) -> Result<Option<Original>, StoreError> {
    // One that is in cold storage, and not there, may be the one that has it: that is said only when nobody else does.
    let mut unreadable = None;
    for session in store.sessions("", None, SESSIONS)? {
        for transcript in store.transcripts(session.key)? {
            for generation in (0..=transcript.generation).rev() {
                let mut finder = Finder::new(handle);
                match store.raw(transcript.key, generation, ALL, &mut finder) {
                    Err(error) if error.is_cold() => unreadable = Some(error),
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

/// The client's transcripts, the newest first: those of a folder that it works in, or of one above, and all others.
pub fn transcripts(client: &Path, folder: &Path) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let projects = client.join("projects");
    let mut all = place::transcripts_below(&projects, &mut |_, _| {});
    let changed = |path: &PathBuf| fs::metadata(path).and_then(|metadata| metadata.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
    all.sort_by_cached_key(|path| Reverse(changed(path)));
    let own: Vec<PathBuf> = folder.ancestors().map(|folder| projects.join(project_name(folder))).collect();
    all.into_iter().partition(|path| own.iter().any(|own| path.starts_with(own)))
}

/// How the client names the folder with a project's transcripts: what is no letter or digit becomes a dash.
fn project_name(folder: &Path) -> String {
    folder.to_string_lossy().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
}

/// Takes bytes, and keeps the lines of messages whose id begins like the handle.
struct Finder<'a> {
    handle: &'a Handle,
    needle: Vec<u8>,
    /// What was not looked through yet, since its last line is not complete.
    waiting: Vec<u8>,
    lines: Vec<Vec<u8>>,
}

impl<'a> Finder<'a> {
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

    /// The newest of what was found.
    fn original(mut self, path: &Path) -> Option<Original> {
        self.look_through(self.waiting.len());
        let read = |line: &Vec<u8>| {
            let line = String::from_utf8_lossy(line);
            let message: Value = serde_json::from_slice(&whole_characters(line.as_bytes())).ok()?;
            let uuid = message.get("uuid")?.as_str().filter(|uuid| uuid.starts_with(&self.handle.digits))?;
            let text = prune::text_at(&message, self.handle.block, self.handle.part)?;
            let session = message.get("sessionId").and_then(Value::as_str);
            Some((uuid.to_owned(), text.to_owned(), session.map(str::to_owned)))
        };
        let mut found: Vec<_> = self.lines.iter().filter_map(read).collect();
        let (uuid, text, session) = found.pop()?;
        let is_ambiguous = found.iter().any(|(_, other, _)| *other != text);
        Some(Original { text, uuid, session, path: path.to_owned(), is_ambiguous })
    }
}

impl Write for Finder<'_> {
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
