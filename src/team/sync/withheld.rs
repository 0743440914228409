//! Sessions that are sent to no server: the user took them back, or does not want them to leave.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::state::FOLDER;
use ctxbridge_common::files;
use ctxbridge_common::paths;

/// The file, in the folder of the states: a JSON array of ids. Unlike those it is the truth, so it is asked whatever server is meant.
const FILE: &str = "withheld.json";

/// Held while it is changed.
const LOCK: &str = "withheld.lock";

/// Those of a data folder.
#[derive(Debug)]
pub struct Withheld {
    path: PathBuf,
    sessions: BTreeSet<String>,
}

impl Withheld {
    /// Reads which they are.
    ///
    /// # Errors
    /// When that cannot be read: then nobody knows what must not be sent.
    pub fn of(data: &Path) -> io::Result<Self> {
        let path = data.join(FOLDER).join(FILE);
        let sessions = match fs::read(&path) {
            Ok(text) => serde_json::from_slice(&text).map_err(|error| {
                let cause = format!("{} does not say which sessions must not be sent ({error}); mend it", path.display());
                io::Error::new(io::ErrorKind::InvalidData, cause)
            })?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => BTreeSet::new(),
            Err(error) => return Err(error),
        };
        Ok(Self { path, sessions })
    }

    /// Whether a session is one of them.
    pub fn has(&self, session: &str) -> bool {
        self.sessions.contains(session)
    }

    /// All of them, in order.
    pub fn sessions(&self) -> impl Iterator<Item = &str> {
        self.sessions.iter().map(String::as_str)
    }

    /// Sends a session no more.
    ///
    /// # Errors
    /// When it cannot be written down.
    pub fn add(data: &Path, session: &str) -> io::Result<()> {
        Self::change(data, |sessions| sessions.insert(session.to_owned()))
    }

    /// Sends a session like any other.
    ///
    /// # Errors
    /// When it cannot be written down.
    pub fn remove(data: &Path, session: &str) -> io::Result<()> {
        Self::change(data, |sessions| sessions.remove(session))
    }

    /// As it is now, whoever changed it since it was read; on drives without locks, who is last counts.
    fn change(data: &Path, change: impl FnOnce(&mut BTreeSet<String>) -> bool) -> io::Result<()> {
        let folder = data.join(FOLDER);
        paths::create_private_dir(&folder)?;
        let lock = files::private().create(true).append(true).open(folder.join(LOCK))?;
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
