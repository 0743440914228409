//! Handling of a server that does not answer: a few retries, then longer and longer back-offs between runs.

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use serde::{Deserialize, Serialize};

use super::state::SYNC_FOLDER;
use ctxbridge_common::files;
use ctxbridge_common::paths;

/// Number of retries, and the pause between them.
#[derive(Clone, Copy, Debug)]
pub struct RetryPolicy {
    /// Attempts after the first one.
    pub times: u32,
    /// Pause before the first retry; each further one waits twice as long.
    pub first_pause: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { times: 3, first_pause: Duration::from_millis(500) }
    }
}

impl RetryPolicy {
    pub(super) fn begin(self) -> Attempts {
        Attempts { left: self.times, pause: self.first_pause }
    }
}

/// Retries that are left.
pub(super) struct Attempts {
    left: u32,
    pause: Duration,
}

impl Attempts {
    /// Waits, and returns `true` if another attempt is left. The pause is randomized, so that clients do not all come back at once.
    pub fn wait(&mut self) -> bool {
        if self.left == 0 {
            return false;
        }
        self.left -= 1;
        let mut byte = [0];
        let share = getrandom::fill(&mut byte).map_or(0.5, |()| f64::from(byte[0]) / 255.0);
        std::thread::sleep(self.pause.mul_f64(0.75 + share / 2.0));
        self.pause *= 2;
        true
    }
}

/// The first pause after a failed run, in milliseconds; each further one is twice as long.
const FIRST_PAUSE_MS: i64 = 60_000;

/// The longest pause, in milliseconds.
const MAX_PAUSE_MS: i64 = 60 * 60_000;

/// Pause of automatic runs after failures, kept in a file.
#[derive(Debug)]
pub struct Backoff {
    path: PathBuf,
}

#[derive(Default, Serialize, Deserialize)]
struct BackoffState {
    /// Failed runs in a row.
    times: u32,
    /// End of the pause, in milliseconds since 1970.
    until_ms: i64,
    /// The last error.
    error: String,
}

impl Backoff {
    /// Name of the file, in the folder of the state files.
    const FILE: &str = "trouble.json";

    /// The back-off of a data folder.
    pub fn in_dir(data: &Path) -> Self {
        Self { path: data.join(SYNC_FOLDER).join(Self::FILE) }
    }

    /// The error of the last run, and the end of the pause in milliseconds since 1970; `None` where it did not fail.
    pub fn last_failure(&self) -> Option<(String, i64)> {
        let trouble: BackoffState = serde_json::from_slice(&files::read(&self.path).ok()?).ok()?;
        Some((trouble.error, trouble.until_ms))
    }

    /// `true` while automatic runs are paused. A clock that was set back does not make the pause longer than the maximum.
    pub fn is_active(&self, now_ms: i64) -> bool {
        self.last_failure().is_some_and(|(_, until_ms)| now_ms < until_ms && until_ms - now_ms <= MAX_PAUSE_MS)
    }

    /// Records a failed run.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn record_failure(&self, error: &str, now_ms: i64) -> io::Result<()> {
        let before: BackoffState =
            files::read(&self.path).ok().and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default();
        let times = before.times.saturating_add(1);
        let pause_ms = FIRST_PAUSE_MS.saturating_mul(1 << (times - 1).min(20)).min(MAX_PAUSE_MS);
        let trouble = BackoffState { times, until_ms: now_ms + pause_ms, error: error.to_owned() };
        self.path.parent().map_or(Ok(()), paths::create_private_dir)?;
        files::replace(&self.path, &serde_json::to_vec(&trouble)?)
    }

    /// Ends the back-off after a successful run.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn reset(&self) -> io::Result<()> {
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}
