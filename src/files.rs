//! Files of ours: only the user may read them, and several processes may want the same one.

use std::fs::{File, OpenOptions, TryLockError};
use std::time::{Duration, Instant};

/// How often a lock is asked for again.
const PAUSE: Duration = Duration::from_millis(2);

/// For a file to be written that, when it is made, only the user can read.
pub fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Locks a file, by [`File::try_lock`] or [`File::try_lock_shared`], and waits for whoever has it.
///
/// # Errors
/// When they have it for longer than that ([`TryLockError::WouldBlock`]), or the file system has no locks.
pub fn lock_within(file: &File, way: fn(&File) -> Result<(), TryLockError>, patience: Duration) -> Result<(), TryLockError> {
    let begun = Instant::now();
    loop {
        match way(file) {
            Err(TryLockError::WouldBlock) if begun.elapsed() < patience => std::thread::sleep(PAUSE),
            result => return result,
        }
    }
}
