/*!
Log of hook failures: one JSON object per line in `logs/errors.log`, and one notice to the user.

A hook must not fail the client, and must not repeat itself at every prompt: the user is told of the first failure, then of none
until a hook has succeeded again.
*/

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::Event;
use ctxbridge_common::files;
use ctxbridge_common::paths;

/// Size at which a log is rotated, in bytes; one older file is kept.
const MAX_LOG_BYTES: u64 = 1 << 20;

/// Maximum number of characters kept of an error.
const MAX_ERROR_CHARS: usize = 2_000;

/// Failure log of a data folder.
#[derive(Clone, Debug)]
pub struct Log {
    folder: PathBuf,
}

impl Log {
    /// Name of the file.
    pub const FILE: &str = "errors.log";

    /// Opens the log of a data folder.
    pub fn in_dir(data: &Path) -> Self {
        Self { folder: data.join("logs") }
    }

    /// Logs a failure. Returns `true` if it is the first since the last success. If nothing can be written, only a failure at the
    /// start of a session counts as the first, and at a prompt if there is no room.
    pub fn report_failure(&self, event: Event, session: Option<&str>, error: &str, now_ms: i64) -> bool {
        let written =
            self.note(event, session, error, now_ms).and_then(|()| files::private().create_new(true).open(self.told_path()));
        match written {
            Ok(_) => true,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
            // Nobody else says that the disk is full; at each prompt is often enough.
            Err(error) if is_full(&error) => matches!(event, Event::SessionStart | Event::UserPromptSubmit),
            Err(_) => event == Event::SessionStart,
        }
    }

    /// Logs an error that the user is not told of.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn note(&self, event: Event, session: Option<&str>, error: &str, now_ms: i64) -> io::Result<()> {
        let time = jiff::Timestamp::from_millisecond(now_ms).map(|time| time.to_string()).unwrap_or_default();
        let error = cut(error);
        let line = json!({ "ts": time, "event": event.name(), "session": session, "error": error });
        files::append(&self.folder.join(Self::FILE), &format!("{line}\n"), MAX_LOG_BYTES)
    }

    /// Like [`Self::note`], but only once per session, for errors that could repeat at every prompt.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn note_once(&self, event: Event, session: Option<&str>, error: &str, now_ms: i64) -> io::Result<()> {
        let line = json!({ "session": session, "error": cut(error) });
        let is_same = |known: &Value| known["session"] == line["session"] && known["error"] == line["error"];
        let known = files::read_to_string(self.folder.join(Self::FILE)).unwrap_or_default();
        match known.lines().rev().filter_map(|known| serde_json::from_str(known).ok()).any(|known| is_same(&known)) {
            true => Ok(()),
            false => self.note(event, session, error, now_ms),
        }
    }

    /// Records a success: the user is told of the next failure again.
    pub fn record_success(&self) {
        // Most often it is not there.
        fs::remove_file(self.told_path()).ok();
    }

    /// Queues a notice for the next hook that can show it, since the caller may not be able to.
    pub fn queue_notice(&self, text: &str) {
        let write = || {
            paths::create_private_dir(&self.folder)?;
            files::private().create(true).append(true).open(self.notices_path())?.write_all(format!("{text}\n").as_bytes())
        };
        // Where nothing can be written, there is nobody to remember.
        write().ok();
    }

    /// Returns the queued notices and removes them. Of several callers, only one gets them.
    pub fn take_notices(&self) -> Option<String> {
        let text = files::read_to_string(self.notices_path()).ok()?;
        // Of several, one gets to remove it.
        fs::remove_file(self.notices_path()).ok()?;
        Some(text.trim_end().to_owned())
    }

    fn notices_path(&self) -> PathBuf {
        self.folder.join("owed")
    }

    fn told_path(&self) -> PathBuf {
        self.folder.join("told")
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge)
}

fn cut(error: &str) -> String {
    error.chars().take(MAX_ERROR_CHARS).collect()
}
