//! History of a session's recalls, so that nothing is added or denied twice, and its last prompt.

use std::collections::HashSet;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::bundle::{BundleLine, sanitize_session_id};
use ctxbridge_common::files;
use ctxbridge_common::paths;

/// Name of the folder in the data folder.
const FOLDER: &str = "recalled";

/// Time that the history of an inactive session is kept.
const RECALL_RETENTION: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Newest prompt of a session, for lines of its work that end up in another file.
#[derive(Debug)]
pub struct LastPrompt(PathBuf);

impl LastPrompt {
    /// Opens the prompt of a session.
    pub fn of(data: &Path, session: &str) -> Self {
        Self(data.join(FOLDER).join(sanitize_session_id(session)).with_extension("prompt"))
    }

    /// Reads the prompt, if there is one.
    pub fn get(&self) -> Option<BundleLine> {
        BundleLine::parse(&files::read_to_string(&self.0).ok()?)
    }

    /// Stores the prompt. If that fails, some lines have no prompt before them.
    pub fn put(&self, line: &BundleLine) {
        let write = || {
            self.0.parent().map_or(Ok(()), paths::create_private_dir)?;
            files::private().create(true).truncate(true).open(&self.0)?.write_all(line.to_json().as_bytes())
        };
        write().ok();
    }
}

/// Removes what is known of a session: its newest prompt, and what was added to it.
///
/// # Errors
/// If a file cannot be removed.
pub fn forget(data: &Path, session: &str) -> io::Result<()> {
    let history = data.join(FOLDER).join(sanitize_session_id(session));
    [history.with_extension("prompt"), history].iter().try_for_each(|file| files::gone(fs::remove_file(file)))
}

/// Keys of the turns and episodes that were added to one session, and of the texts whose writing was denied.
#[derive(Debug)]
pub struct AlreadyRecalled {
    path: PathBuf,
    known: HashSet<String>,
}

impl AlreadyRecalled {
    /// Reads the history of a session; an unreadable one counts as empty.
    pub fn of(data: &Path, session: &str) -> Self {
        let path = data.join(FOLDER).join(sanitize_session_id(session));
        let text = files::read_to_string(&path).unwrap_or_default();
        Self { path, known: text.lines().map(str::to_owned).collect() }
    }

    /// `true` if something with one of these keys was added already.
    pub fn has_any(&self, keys: &[String]) -> bool {
        keys.iter().any(|key| self.known.contains(key))
    }

    /// Adds keys. If that fails, the same text may be added again, which is better than not at all. Returns `true` if they are kept.
    pub fn add(&mut self, keys: impl IntoIterator<Item = String>) -> bool {
        let new: Vec<String> = keys.into_iter().filter(|key| self.known.insert(key.clone())).collect();
        if new.is_empty() {
            return true;
        }
        let write = || {
            self.path.parent().map_or(Ok(()), paths::create_private_dir)?;
            files::private().create(true).append(true).open(&self.path)?.write_all((new.join("\n") + "\n").as_bytes())
        };
        write().is_ok()
    }

    /// Returns the handles of the turns that were added to each session that was active in the last 30 days.
    pub fn turns_by_session(data: &Path) -> Vec<Vec<String>> {
        let Some(oldest) = SystemTime::now().checked_sub(RECALL_RETENTION) else { return Vec::new() };
        let files = fs::read_dir(data.join(FOLDER)).into_iter().flatten().flatten().filter(|entry| {
            let is_recent = |metadata: fs::Metadata| metadata.modified().is_ok_and(|changed| changed >= oldest);
            entry.path().extension().is_none() && entry.metadata().is_ok_and(is_recent)
        });
        let handles = files.map(|file| {
            let text = files::read_to_string(file.path()).unwrap_or_default();
            text.lines().filter(|line| line.starts_with("ctx:")).map(str::to_owned).collect::<Vec<_>>()
        });
        handles.filter(|handles| !handles.is_empty()).collect()
    }

    /// Removes the histories of inactive sessions.
    pub fn forget_old(data: &Path) {
        let Some(oldest) = SystemTime::now().checked_sub(RECALL_RETENTION) else { return };
        for entry in fs::read_dir(data.join(FOLDER)).into_iter().flatten().flatten() {
            let is_old = entry.metadata().and_then(|metadata| metadata.modified()).is_ok_and(|changed| changed < oldest);
            if is_old {
                fs::remove_file(entry.path()).ok();
            }
        }
    }
}
