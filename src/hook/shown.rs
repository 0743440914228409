//! What a session was given already, as nothing is said twice, and what it was asked last.

use std::collections::HashSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::bundle::{Line, session_in_names};
use ctxbridge_common::files;
use ctxbridge_common::paths;

/// The folder in the data folder.
const FOLDER: &str = "recalled";

/// How long it is remembered what a session was given that nobody goes on with.
const KEPT: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// The newest prompt of a session, for lines of its work that come to lie in another file.
#[derive(Debug)]
pub struct Asked(PathBuf);

impl Asked {
    /// That of this session.
    pub fn of(data: &Path, session: &str) -> Self {
        Self(data.join(FOLDER).join(session_in_names(session)).with_extension("prompt"))
    }

    /// The prompt, if there is one.
    pub fn get(&self) -> Option<Line> {
        Line::parse(&fs::read_to_string(&self.0).ok()?)
    }

    /// Remembers it. Where that cannot be written, some lines have no prompt before them.
    pub fn put(&self, line: &Line) {
        let write = || {
            self.0.parent().map_or(Ok(()), paths::create_private_dir)?;
            files::private().create(true).truncate(true).open(&self.0)?.write_all(line.to_json().as_bytes())
        };
        write().ok();
    }
}

/// What one session was given, by what it is known by.
#[derive(Debug)]
pub struct Shown {
    path: PathBuf,
    known: HashSet<String>,
}

impl Shown {
    /// Reads it; what cannot be read is nothing.
    pub fn of(data: &Path, session: &str) -> Self {
        let path = data.join(FOLDER).join(session_in_names(session));
        let text = fs::read_to_string(&path).unwrap_or_default();
        Self { path, known: text.lines().map(str::to_owned).collect() }
    }

    /// Whether something that has one of these keys was given.
    pub fn has_any(&self, keys: &[String]) -> bool {
        keys.iter().any(|key| self.known.contains(key))
    }

    /// Takes note. Where that cannot be written, it may be said again: better than not at all.
    pub fn add(&mut self, keys: impl IntoIterator<Item = String>) {
        let new: Vec<String> = keys.into_iter().filter(|key| self.known.insert(key.clone())).collect();
        if new.is_empty() {
            return;
        }
        let write = || {
            self.path.parent().map_or(Ok(()), paths::create_private_dir)?;
            files::private().create(true).append(true).open(&self.path)?.write_all((new.join("\n") + "\n").as_bytes())
        };
        write().ok();
    }

    /// Forgets sessions that nobody goes on with.
    pub fn forget_old(data: &Path) {
        let Some(oldest) = SystemTime::now().checked_sub(KEPT) else { return };
        for entry in fs::read_dir(data.join(FOLDER)).into_iter().flatten().flatten() {
            let is_old = entry.metadata().and_then(|metadata| metadata.modified()).is_ok_and(|changed| changed < oldest);
            if is_old {
                fs::remove_file(entry.path()).ok();
            }
        }
    }
}
