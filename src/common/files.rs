//! Files of ours: only the user may read them, and several processes may want the same one.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use crate::paths;

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

/// Whether only the user can read and write a file, as far as the system tells; one that is not there nobody can.
#[cfg(unix)]
pub fn is_private(path: &Path) -> bool {
    fs::metadata(path).map_or(true, |metadata| std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o077 == 0)
}

/// Whether only the user can read and write a file, as far as the system tells: other systems go by lists of rights, which are not asked for.
#[cfg(not(unix))]
pub fn is_private(_path: &Path) -> bool {
    true
}

/// Adds text to a file that only the user can read, in one write, so that lines of several processes do not mix. A file of more than `largest` bytes is
/// put aside first, with `.1` behind its name; one older one is kept.
///
/// # Errors
/// When it cannot be written.
pub fn append(path: &Path, text: &str, largest: u64) -> io::Result<()> {
    path.parent().map_or(Ok(()), paths::create_private_dir)?;
    if fs::metadata(path).is_ok_and(|metadata| metadata.len() > largest) {
        let mut aside = path.as_os_str().to_owned();
        aside.push(".1");
        fs::rename(path, aside)?;
    }
    private().create(true).append(true).open(path)?.write_all(text.as_bytes())
}

/// Puts a file with these bytes in the place of another one, or of none: whoever reads it sees the old one or the new one, whole. Only the
/// user can read it.
///
/// # Errors
/// When it cannot be written.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(bytes)?;
    file.persist(path).map(drop).map_err(|failure| failure.error)
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
