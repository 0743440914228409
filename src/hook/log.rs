/*!
Where failures of hooks go: one JSON object a line in `logs/errors.log`, and once to the user.

A hook must not fail the client, and must not repeat itself at every prompt either: the first failure is told, then nothing until
something has worked again.
*/

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::Event;
use ctxbridge_common::files;
use ctxbridge_common::paths;

/// Bytes after which a log is put aside; one older one is kept.
const LARGEST: u64 = 1 << 20;

/// Characters of an error that are kept.
const LONGEST: usize = 2_000;

/// The log of a data folder.
#[derive(Clone, Debug)]
pub struct Log {
    folder: PathBuf,
}

impl Log {
    /// The name of the file.
    pub const FILE: &str = "errors.log";

    /// In this data folder.
    pub fn in_dir(data: &Path) -> Self {
        Self { folder: data.join("logs") }
    }

    /// Writes a failure down and says whether it is the first since something worked. Where nothing can be written, nobody can
    /// remember, and only the start of a session counts as the first.
    pub fn failed(&self, event: Event, session: Option<&str>, error: &str, now_ms: i64) -> bool {
        let written = self.note(event, session, error, now_ms).and_then(|()| files::private().create_new(true).open(self.told()));
        match written {
            Ok(_) => true,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
            Err(_) => event == Event::SessionStart,
        }
    }

    /// Writes something down that the user is not told.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn note(&self, event: Event, session: Option<&str>, error: &str, now_ms: i64) -> io::Result<()> {
        let time = jiff::Timestamp::from_millisecond(now_ms).map(|time| time.to_string()).unwrap_or_default();
        let error = cut(error);
        let line = json!({ "ts": time, "event": event.name(), "session": session, "error": error });
        files::append(&self.folder.join(Self::FILE), &format!("{line}\n"), LARGEST)
    }

    /// The same, once in a session: whoever looks on may see it at every prompt.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn note_once(&self, event: Event, session: Option<&str>, error: &str, now_ms: i64) -> io::Result<()> {
        let line = json!({ "session": session, "error": cut(error) });
        let is_same = |known: &Value| known["session"] == line["session"] && known["error"] == line["error"];
        let known = fs::read_to_string(self.folder.join(Self::FILE)).unwrap_or_default();
        match known.lines().rev().filter_map(|known| serde_json::from_str(known).ok()).any(|known| is_same(&known)) {
            true => Ok(()),
            false => self.note(event, session, error, now_ms),
        }
    }

    /// Something worked: the next failure is told again.
    pub fn worked(&self) {
        // Most often it is not there.
        fs::remove_file(self.told()).ok();
    }

    /// Leaves a notice for the next hook that may speak: whoever has to say something may have nobody to say it to.
    pub fn owe(&self, text: &str) {
        let write = || {
            paths::create_private_dir(&self.folder)?;
            files::private().create(true).append(true).open(self.owed())?.write_all(format!("{text}\n").as_bytes())
        };
        // Where nothing can be written, there is nobody to remember.
        write().ok();
    }

    /// What is owed to the user; to one who asks.
    pub fn settle(&self) -> Option<String> {
        let text = fs::read_to_string(self.owed()).ok()?;
        // Of several, one gets to remove it.
        fs::remove_file(self.owed()).ok()?;
        Some(text.trim_end().to_owned())
    }

    fn owed(&self) -> PathBuf {
        self.folder.join("owed")
    }

    fn told(&self) -> PathBuf {
        self.folder.join("told")
    }
}

fn cut(error: &str) -> String {
    error.chars().take(LONGEST).collect()
}
