//! Sessions that are excluded from sending: the user deleted them from a server, or does not want them to leave this machine.
//! If the list cannot be read, nothing is sent.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use super::state::SYNC_FOLDER;
use ctxbridge_common::files;
use ctxbridge_common::paths;

/// Name of the file, beside the state files: a JSON array of ids. Unlike those it is no cache, and applies to every server.
const EXCLUSIONS_FILE: &str = "withheld.json";

/// Name of the lock file, which is held during changes.
const LOCK_FILE: &str = "withheld.lock";

/// The excluded sessions of a data folder.
#[derive(Debug)]
pub struct SyncExclusions {
    path: PathBuf,
    sessions: BTreeSet<String>,
}

impl SyncExclusions {
    /// Reads the list.
    ///
    /// # Errors
    /// If the file cannot be read: then nothing may be sent, since it is unknown which sessions are excluded.
    pub fn of(data: &Path) -> io::Result<Self> {
        let path = data.join(SYNC_FOLDER).join(EXCLUSIONS_FILE);
        let sessions = match files::read(&path) {
            Ok(text) => serde_json::from_slice(&text).map_err(|error| {
                let cause = format!("{} does not say which sessions must not be sent ({error}); mend it", path.display());
                io::Error::new(io::ErrorKind::InvalidData, cause)
            })?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => BTreeSet::new(),
            Err(error) => return Err(error),
        };
        Ok(Self { path, sessions })
    }

    /// `true` if a session is excluded.
    pub fn has(&self, session: &str) -> bool {
        self.sessions.contains(session)
    }

    /// All of them, in order.
    pub fn sessions(&self) -> impl Iterator<Item = &str> {
        self.sessions.iter().map(String::as_str)
    }

    /// Excludes a session from sending.
    ///
    /// # Errors
    /// If it cannot be written down.
    pub fn add(data: &Path, session: &str) -> io::Result<()> {
        Self::change(data, |sessions| sessions.insert(session.to_owned()))
    }

    /// Ends the exclusion of a session.
    ///
    /// # Errors
    /// If it cannot be written down.
    pub fn remove(data: &Path, session: &str) -> io::Result<()> {
        Self::change(data, |sessions| sessions.remove(session))
    }

    /// Changes the list as it is on disk now. On drives without locks, the last writer wins.
    fn change(data: &Path, change: impl FnOnce(&mut BTreeSet<String>) -> bool) -> io::Result<()> {
        let folder = data.join(SYNC_FOLDER);
        paths::create_private_dir(&folder)?;
        let lock = files::open_lock(folder.join(LOCK_FILE))?;
        lock.lock().or_else(|error| if error.kind() == io::ErrorKind::Unsupported { Ok(()) } else { Err(error) })?;
        let mut withheld = Self::of(data)?;
        if change(&mut withheld.sessions) { withheld.write() } else { Ok(()) }
    }

    fn write(&self) -> io::Result<()> {
        let mut text = serde_json::to_vec_pretty(&self.sessions)?;
        text.push(b'\n');
        files::replace(&self.path, &text)
    }
}
