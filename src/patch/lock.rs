//! One command at a time on one target.

use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::swap::{SwapError, step};
use ctxbridge_common::digest;
use ctxbridge_common::files;
use ctxbridge_common::paths;

/// Maximum time that a command waits for another.
const TARGET_LOCK_TIMEOUT: Duration = Duration::from_secs(60);

/// Errors from locking a target.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another command has it.
    #[error("another ctxbridge is working on {target} and has not finished within {} seconds; try again when it has", TARGET_LOCK_TIMEOUT.as_secs())]
    Busy {
        /// The target.
        target: PathBuf,
    },
    /// The lock file cannot be used.
    #[error("ctxbridge's own folder cannot be used: cannot {} {}: {}; set CTXBRIDGE_DATA_DIR to a folder that you may write to", .0.step, .0.path.display(), .0.cause)]
    Io(SwapError),
}

// Not as its source: the message above says it all, with another next step.
impl From<SwapError> for LockError {
    fn from(cause: SwapError) -> Self {
        Self::Io(cause)
    }
}

/// An exclusive lock on a target; released when dropped, or with the process.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Lock {
    /// Locks a target; waits for another command if necessary, and tells `notice`.
    ///
    /// # Errors
    /// If the other command takes too long or the lock file cannot be made.
    pub fn acquire(data_dir: &Path, target: &Path, notice: &dyn Fn(&str)) -> Result<Self, LockError> {
        let folder = data_dir.join("locks");
        paths::create_private_dir(&folder).map_err(step("create", &folder))?;
        let path = folder.join(&digest::of_bytes(target.as_os_str().as_encoded_bytes())[..32]);
        let file = files::open_lock(&path).map_err(step("open", &path))?;
        let mut locked = file.try_lock();
        if let Err(TryLockError::WouldBlock) = locked {
            notice(&format!("waiting for another ctxbridge that is working on {}", target.display()));
            locked = files::lock_within(&file, File::try_lock, TARGET_LOCK_TIMEOUT);
        }
        match locked {
            Ok(()) => Ok(Self { _file: file }),
            Err(TryLockError::WouldBlock) => Err(LockError::Busy { target: target.to_owned() }),
            // A file system without locks: the swap is atomic all the same.
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => Ok(Self { _file: file }),
            Err(TryLockError::Error(error)) => Err(LockError::Io(step("lock", &path)(error))),
        }
    }
}
