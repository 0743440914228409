//! Files of ours: only the user may read them, and several processes may want the same one.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

/// How often a lock is asked for again.
const PAUSE: Duration = Duration::from_millis(2);

/// Length and time of change of a file, by which it is seen that another process has written it; nothing where it cannot be looked at.
pub type Stamp = Option<(u64, SystemTime)>;

/// The stamp of a file.
pub fn stamp(path: &Path) -> Stamp {
    let metadata = fs::metadata(path).ok()?;
    Some((metadata.len(), metadata.modified().ok()?))
}

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
