/*!
One small file a session, in `autopilot/` of the data directory.

Hooks of one session run beside each other, and so does the statusline: a change is made under a lock, into a new file that takes the
name of the old one. What is in a file is only a help; a damaged one is begun anew.
*/

use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::State;
use ctxbridge_common::digest;
use ctxbridge_common::files;
use ctxbridge_common::paths;

/// Larger files are none of ours, in bytes: 50 measurements take about 5 KB.
const LARGEST: u64 = 64 << 10;

/// Sessions that are remembered.
const MOST_SESSIONS: usize = 200;

/// The longest session that gives its file its name, in characters; the client's are UUIDs.
const LONGEST_NAME: usize = 64;

/// How the name of a file begins while it is written.
const NEW: &str = ".new-";

/// Where states are kept.
#[derive(Debug, Clone)]
pub struct Store {
    folder: PathBuf,
}

impl Store {
    /// In this data directory. Nothing is made until something is kept.
    pub fn in_dir(data_dir: &Path) -> Self {
        Self { folder: data_dir.join("autopilot") }
    }

    /// What is remembered of a session; nothing when it was never seen, or what is there cannot be read.
    pub fn load(&self, session: &str) -> Option<State> {
        // On a disk that does not tell upper case from lower, it may be another session's.
        read(&self.file(session)).filter(|state| state.session_id == session)
    }

    /// What is remembered of the session that was seen last.
    pub fn newest(&self) -> Option<State> {
        let mut files = self.files();
        files.sort_by_key(|(time, _)| std::cmp::Reverse(*time));
        files.into_iter().find_map(|(_, path)| read(&path))
    }

    /// Changes what is remembered of a session. `patience` is how long to wait for another process that is at it.
    ///
    /// # Errors
    /// When it cannot be written, or another process took too long ([`io::ErrorKind::WouldBlock`]); nothing is changed then.
    pub fn update<T>(&self, session: &str, patience: Duration, change: impl FnOnce(&mut State) -> T) -> io::Result<T> {
        paths::create_private_dir(&self.folder)?;
        let _lock = self.lock(patience)?;
        let path = self.file(session);
        let known = self.load(session);
        let mut state = known.clone().unwrap_or_else(|| State::new(session));
        let result = change(&mut state);
        if known.as_ref() != Some(&state) {
            let mut file = tempfile::Builder::new().prefix(NEW).tempfile_in(&self.folder)?;
            // In one piece: written as it is made, it would be some hundred system calls.
            file.write_all(&serde_json::to_vec(&state)?)?;
            file.persist(&path).map_err(|error| error.error)?;
        }
        if known.is_none() {
            self.forget_oldest(&path);
        }
        Ok(result)
    }

    /// Session ids come from outside: only harmless characters become part of a name.
    fn file(&self, session: &str) -> PathBuf {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        let fits = (1..=LONGEST_NAME).contains(&session.len()) && session.bytes().all(plain);
        // The underline keeps the two kinds apart.
        let name = if fits { session.to_owned() } else { format!("_{}", digest::of_bytes(session.as_bytes())) };
        self.folder.join(format!("{name}.json"))
    }

    fn lock(&self, patience: Duration) -> io::Result<File> {
        let file = files::private().create(true).truncate(false).open(self.folder.join(".lock"))?;
        match files::lock_within(&file, File::try_lock, patience) {
            Ok(()) => Ok(file),
            Err(TryLockError::WouldBlock) => Err(io::ErrorKind::WouldBlock.into()),
            // Some network drives have no locks; a change that gets lost there is better than none.
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => Ok(file),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Every file of a session, with the time of its last change.
    fn files(&self) -> Vec<(SystemTime, PathBuf)> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().filter_map(Result::ok);
        let is_state = |path: &Path| path.extension().is_some_and(|extension| extension == "json");
        let paths = entries.map(|entry| entry.path()).filter(|path| is_state(path));
        paths.filter_map(|path| Some((fs::symlink_metadata(&path).ok()?.modified().ok()?, path))).collect()
    }

    /// Removes the oldest files when there are too many, and what a killed process left. One that cannot be removed stays.
    fn forget_oldest(&self, new: &Path) {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().filter_map(Result::ok);
        // Under the lock nobody else is writing one.
        for left in entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(NEW)) {
            fs::remove_file(left.path()).ok();
        }
        let mut files = self.files();
        files.sort_by_key(|(time, path)| (std::cmp::Reverse(path == new), std::cmp::Reverse(*time)));
        for (_, path) in files.iter().skip(MOST_SESSIONS) {
            fs::remove_file(path).ok();
        }
    }
}

fn read(path: &Path) -> Option<State> {
    let mut text = Vec::new();
    File::open(path).ok()?.take(LARGEST + 1).read_to_end(&mut text).ok()?;
    let mut state: State = (text.len() as u64 <= LARGEST).then(|| serde_json::from_slice(&text).ok())??;
    state.trim();
    Some(state)
}
