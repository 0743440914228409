/*!
Stored states: one small file per session, in `autopilot/` of the data directory, and one of all [models' windows](super::windows).

Hooks of one session and the statusline run in parallel. So a change is made under a lock, in a new file that replaces the old one.
Files are only a help; a damaged one is started from scratch.
*/

use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::WindowState;
use ctxbridge_common::digest;
use ctxbridge_common::files;
use ctxbridge_common::paths;

/// Maximum size of a file, in bytes; larger ones are not ours. 50 measurements take about 5 KB.
const MAX_FILE_BYTES: u64 = 64 << 10;

/// Maximum number of sessions remembered.
const MAX_REMEMBERED_SESSIONS: usize = 200;

/// Maximum length of a session id that is used as a file name, in characters; the client's are UUIDs.
const MAX_SESSION_NAME_CHARS: usize = 64;

/// Prefix of the names of files that are being written.
const TEMP_PREFIX: &str = ".new-";

/// Store of window states.
#[derive(Debug, Clone)]
pub struct WindowStateStore {
    pub(super) folder: PathBuf,
}

impl WindowStateStore {
    /// Opens the store in a data directory. Nothing is created until something is stored.
    pub fn in_dir(data_dir: &Path) -> Self {
        Self { folder: data_dir.join("autopilot") }
    }

    /// Returns the state of a session; `None` if it was never stored or cannot be read.
    pub fn load(&self, session: &str) -> Option<WindowState> {
        // On a disk that does not tell upper case from lower, it may be another session's.
        read(&self.file(session)).filter(|state| state.session_id == session)
    }

    /// Returns the state of the session that was updated last.
    pub fn newest(&self) -> Option<WindowState> {
        let mut files = self.files();
        files.sort_by_key(|(time, _)| std::cmp::Reverse(*time));
        files.into_iter().find_map(|(_, path)| read(&path))
    }

    /// Updates the state of a session. `timeout` limits the wait for another process that holds the lock.
    ///
    /// # Errors
    /// If it cannot be written, or another process held the lock too long ([`io::ErrorKind::WouldBlock`]); nothing is changed then.
    pub fn update<T>(&self, session: &str, timeout: Duration, change: impl FnOnce(&mut WindowState) -> T) -> io::Result<T> {
        let _lock = self.lock(timeout)?;
        let path = self.file(session);
        let known = self.load(session);
        let mut state = known.clone().unwrap_or_else(|| WindowState::new(session));
        let result = change(&mut state);
        if known.as_ref() != Some(&state) {
            self.replace(&path, &serde_json::to_vec(&state)?)?;
        }
        if known.is_none() {
            self.forget_oldest(&path);
        }
        Ok(result)
    }

    /// Removes the state of a session.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub fn forget(&self, session: &str) -> io::Result<()> {
        files::gone(fs::remove_file(self.file(session)))
    }

    /// Returns the path of a session's file. Session ids come from outside: only harmless characters become part of a name.
    fn file(&self, session: &str) -> PathBuf {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        let fits = (1..=MAX_SESSION_NAME_CHARS).contains(&session.len()) && session.bytes().all(plain);
        // The underline keeps the two kinds apart.
        let name = if fits { session.to_owned() } else { format!("_{}", digest::of_bytes(session.as_bytes())) };
        self.folder.join(format!("{name}.json"))
    }

    /// Replaces a file of the folder, in one piece.
    pub(super) fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut file = tempfile::Builder::new().prefix(TEMP_PREFIX).tempfile_in(&self.folder)?;
        file.write_all(bytes)?;
        files::persist(file, path)?;
        Ok(())
    }

    /// Creates the folder, and waits for the lock of its files.
    pub(super) fn lock(&self, timeout: Duration) -> io::Result<File> {
        paths::create_private_dir(&self.folder)?;
        let file = files::open_lock(self.folder.join(".lock"))?;
        match files::lock_within(&file, File::try_lock, timeout) {
            Ok(()) => Ok(file),
            Err(TryLockError::WouldBlock) => Err(io::ErrorKind::WouldBlock.into()),
            // Some network drives have no locks; a change that gets lost there is better than none.
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => Ok(file),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Lists the files of all sessions, with the times of their last changes.
    fn files(&self) -> Vec<(SystemTime, PathBuf)> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().filter_map(Result::ok);
        let is_state = |path: &Path| path.extension().is_some_and(|extension| extension == "json");
        let paths = entries.map(|entry| entry.path()).filter(|path| is_state(path));
        paths.filter_map(|path| Some((fs::symlink_metadata(&path).ok()?.modified().ok()?, path))).collect()
    }

    /// Removes the oldest files if there are too many, and temporary files of killed processes. Files that cannot be removed stay.
    fn forget_oldest(&self, new: &Path) {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().filter_map(Result::ok);
        // Under the lock nobody else is writing one.
        for left in entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(TEMP_PREFIX)) {
            fs::remove_file(left.path()).ok();
        }
        let mut files = self.files();
        files.sort_by_key(|(time, path)| (std::cmp::Reverse(path == new), std::cmp::Reverse(*time)));
        for (_, path) in files.iter().skip(MAX_REMEMBERED_SESSIONS) {
            fs::remove_file(path).ok();
        }
    }
}

fn read(path: &Path) -> Option<WindowState> {
    let mut state: WindowState = serde_json::from_slice(&read_file(path)?).ok()?;
    state.trim();
    Some(state)
}

/// Reads a file, unless it is too large to be one of ours.
pub(super) fn read_file(path: &Path) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    files::open(path).ok()?.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).ok()?;
    (bytes.len() as u64 <= MAX_FILE_BYTES).then_some(bytes)
}
