//! Files of ctxbridge: only the user may read them, and several processes may use the same one.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use crate::paths;

/// Pause between tries to take a lock.
const PAUSE: Duration = Duration::from_millis(2);

/// Length and modification time of a file, to detect writes of other processes; `None` if they cannot be read.
pub type FileStamp = Option<(u64, SystemTime)>;

/// Returns the stamp of a file.
pub fn stamp(path: &Path) -> FileStamp {
    let metadata = fs::metadata(path).ok()?;
    Some((metadata.len(), metadata.modified().ok()?))
}

/// Returns options to write a file that, if created, only the user can read.
pub fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// `true` if only the user can read and write a file, as far as the system tells. A missing file is private.
#[cfg(unix)]
pub fn is_private(path: &Path) -> bool {
    fs::metadata(path).map_or(true, |metadata| std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o077 == 0)
}

/// Always `true`: other systems use access control lists, which are not checked.
#[cfg(not(unix))]
pub fn is_private(_path: &Path) -> bool {
    true
}

/// Adds text to a file that only the user can read, in one write, so that lines of several processes do not mix. A file of more
/// than `largest` bytes is first renamed to a name ending in `.1`; only one older file is kept.
///
/// # Errors
/// If it cannot be written.
pub fn append(path: &Path, text: &str, largest: u64) -> io::Result<()> {
    path.parent().map_or(Ok(()), paths::create_private_dir)?;
    if fs::metadata(path).is_ok_and(|metadata| metadata.len() > largest) {
        let mut aside = path.as_os_str().to_owned();
        aside.push(".1");
        fs::rename(path, aside)?;
    }
    private().create(true).append(true).open(path)?.write_all(text.as_bytes())
}

/// Creates or replaces a file atomically: readers see the complete old one or the complete new one. Only the
/// user can read it.
///
/// # Errors
/// If it cannot be written.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(bytes)?;
    file.persist(path).map(drop).map_err(|failure| failure.error)
}

/// Locks a file with [`File::try_lock`] or [`File::try_lock_shared`], and waits at most `timeout` for other holders.
///
/// # Errors
/// If others hold it for longer ([`TryLockError::WouldBlock`]), or the file system has no locks.
pub fn lock_within(file: &File, way: fn(&File) -> Result<(), TryLockError>, timeout: Duration) -> Result<(), TryLockError> {
    let begun = Instant::now();
    loop {
        match way(file) {
            Err(TryLockError::WouldBlock) if begun.elapsed() < timeout => std::thread::sleep(PAUSE),
            result => return result,
        }
    }
}
