//! What to do where a server does not answer: try again a few times, and later leave it alone for longer and longer.

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use serde::{Deserialize, Serialize};

use super::state::FOLDER;
use ctxbridge_common::files;
use ctxbridge_common::paths;

/// How often, and how long to wait in between.
#[derive(Clone, Copy, Debug)]
pub struct Retries {
    /// Attempts after the first one.
    pub times: u32,
    /// Before the first of them; each further one waits twice as long.
    pub first: Duration,
}

impl Default for Retries {
    fn default() -> Self {
        Self { times: 3, first: Duration::from_millis(500) }
    }
}

impl Retries {
    pub(super) fn begin(self) -> Attempts {
        Attempts { left: self.times, pause: self.first }
    }
}

/// What is left of them.
pub(super) struct Attempts {
    left: u32,
    pause: Duration,
}

impl Attempts {
    /// Waits, and says whether to try again. Several who were turned away together do not come back together.
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

/// The first pause between runs that failed, in milliseconds; each further one is twice as long.
const FIRST_MS: i64 = 60_000;

/// The longest.
const LONGEST_MS: i64 = 60 * 60_000;

/// How long nobody asks a server unasked, after it did not answer.
#[derive(Debug)]
pub struct Rest {
    path: PathBuf,
}

#[derive(Default, Serialize, Deserialize)]
struct Trouble {
    /// Runs in a row that failed.
    times: u32,
    /// Not before then, in milliseconds since 1970.
    until_ms: i64,
    /// Why.
    error: String,
}

impl Rest {
    /// The name of the file, among those of the states.
    const FILE: &str = "trouble.json";

    /// Of a data folder.
    pub fn in_dir(data: &Path) -> Self {
        Self { path: data.join(FOLDER).join(Self::FILE) }
    }

    /// Why the last run failed and until when (milliseconds since 1970) none is begun unasked; nothing where it did not.
    pub fn trouble(&self) -> Option<(String, i64)> {
        let trouble: Trouble = serde_json::from_slice(&fs::read(&self.path).ok()?).ok()?;
        Some((trouble.error, trouble.until_ms))
    }

    /// Whether to wait still. A clock that was set back does not make it longer than it can be.
    pub fn is_on(&self, now_ms: i64) -> bool {
        self.trouble().is_some_and(|(_, until_ms)| now_ms < until_ms && until_ms - now_ms <= LONGEST_MS)
    }

    /// A run failed.
    ///
    /// # Errors
    /// When that cannot be noted down.
    pub fn failed(&self, error: &str, now_ms: i64) -> io::Result<()> {
        let before: Trouble = fs::read(&self.path).ok().and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default();
        let times = before.times.saturating_add(1);
        let pause_ms = FIRST_MS.saturating_mul(1 << (times - 1).min(20)).min(LONGEST_MS);
        let trouble = Trouble { times, until_ms: now_ms + pause_ms, error: error.to_owned() };
        self.path.parent().map_or(Ok(()), paths::create_private_dir)?;
        files::replace(&self.path, &serde_json::to_vec(&trouble)?)
    }

    /// A run did not.
    ///
    /// # Errors
    /// When that cannot be noted down.
    pub fn over(&self) -> io::Result<()> {
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}
