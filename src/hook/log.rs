/*!
Log of hook failures: one JSON object per line in `logs/errors.log`, and one notice to the user.

A hook must not fail the client, and must not repeat itself at every prompt: the user is told of the first failure, then of none
until a hook has succeeded again.
*/

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use super::Event;
use ctxbridge_common::files;
use ctxbridge_common::paths;

/// Size at which a log is rotated, in bytes; one older file is kept.
const MAX_LOG_BYTES: u64 = 1 << 20;

/// Maximum number of characters kept of an error.
const MAX_ERROR_CHARS: usize = 2_000;

/// Maximum time to wait for another process that queues or takes notices.
const LOCK_TIMEOUT: Duration = Duration::from_secs(1);

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
            let mut notices = files::open_lock(self.notices_path())?;
            lock(&notices);
            notices.seek(SeekFrom::End(0))?;
            notices.write_all(format!("{text}\n").as_bytes())
        };
        // Where nothing can be written, there is nobody to remember.
        write().ok();
    }

    /// Returns the queued notices and removes them. Of several callers, only one gets them.
    pub fn take_notices(&self) -> Option<String> {
        // Most often it is not there, or empty.
        fs::metadata(self.notices_path()).ok().filter(|file| file.is_file() && file.len() > 0)?;
        // Emptied, not removed: another process may have opened it to write, and its notice would be lost with the file.
        let mut notices = files::private().read(true).open(self.notices_path()).ok()?;
        lock(&notices);
        let mut text = Vec::new();
        notices.read_to_end(&mut text).ok()?;
        notices.set_len(0).ok()?;
        Some(String::from_utf8_lossy(&text).trim_end().to_owned()).filter(|text| !text.is_empty())
    }

    fn notices_path(&self) -> PathBuf {
        self.folder.join("owed")
    }

    fn told_path(&self) -> PathBuf {
        self.folder.join("told")
    }
}

/// Waits until nobody else has the notices. A drive without locks is used without them: a notice may come twice, but it comes.
fn lock(notices: &File) {
    files::lock_within(notices, File::try_lock, LOCK_TIMEOUT).ok();
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge)
}

fn cut(error: &str) -> String {
    error.chars().take(MAX_ERROR_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    /// Some queue while others take: each notice comes once, and none comes empty.
    #[test]
    fn each_notice_comes_once() {
        const QUEUED: usize = 100;
        let folder = tempfile::tempdir().unwrap();
        let log = Log::in_dir(folder.path());
        let hook = &|hook: usize| {
            let queue = |number| log.queue_notice(&format!("{hook} {number}"));
            (0..QUEUED).inspect(|&number| queue(number)).filter_map(|_| log.take_notices()).collect::<Vec<_>>()
        };
        let mut taken: Vec<String> = thread::scope(|scope| {
            let hooks = [0, 1, 2, 3].map(|number| scope.spawn(move || hook(number)));
            hooks.into_iter().flat_map(|hook| hook.join().unwrap()).collect()
        });
        taken.extend(log.take_notices());
        assert_eq!(log.take_notices(), None);
        let mut lines: Vec<&str> = taken.iter().flat_map(|text| text.split('\n')).collect();
        lines.sort_unstable();
        let mut queued: Vec<String> =
            (0..4).flat_map(|writer| (0..QUEUED).map(move |number| format!("{writer} {number}"))).collect();
        queued.sort_unstable();
        assert_eq!(lines, queued);
    }
}
