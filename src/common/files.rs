//! Files of ctxbridge: only the user may read them, and several processes may use the same one.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use tempfile::NamedTempFile;

use crate::{lock_deadline, paths};

/// Pause between tries to take a lock.
const PAUSE: Duration = Duration::from_millis(2);

/// Length and modification time of a file, to detect writes of other processes; `None` if they cannot be read.
pub type FileStamp = Option<(u64, SystemTime)>;

/// Returns the stamp of a file.
pub fn stamp(path: &Path) -> FileStamp {
    let metadata = fs::metadata(path).ok()?;
    Some((metadata.len(), metadata.modified().ok()?))
}

/// Returns options to write a file that, if created, only the user can read. To open a pipe that nobody reads is an error, not a wait.
pub fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    without_waiting(&mut options);
    options
}

/// Opens a file to lock, and makes it where it is missing. For reading and writing: on Windows, a handle that only appends cannot be
/// locked.
///
/// # Errors
/// If it cannot be opened or made.
pub fn open_lock(path: impl AsRef<Path>) -> io::Result<File> {
    private().read(true).create(true).truncate(false).open(path)
}

/// Opens a file for reading. Pipes and devices are refused at once: to read them may take for ever, and what is found in place of a
/// file of ours, or of git, is not ours to choose.
///
/// # Errors
/// If it cannot be opened, or is neither a file nor a folder.
pub fn open(path: impl AsRef<Path>) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    without_waiting(&mut options);
    checked(options.open(path.as_ref())?)
}

/// Opens a file in a folder that somebody else may write to, as the options say. Links are not followed; pipes and devices are refused as
/// by [`open`].
///
/// # Errors
/// If it cannot be opened, or is a link, or neither a file nor a folder.
pub fn open_no_link(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    #[cfg(unix)]
    {
        use rustix::fs::OFlags;
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        std::os::unix::fs::OpenOptionsExt::custom_flags(options, flags.bits().cast_signed());
    }
    checked(options.open(path)?)
}

fn checked(file: File) -> io::Result<File> {
    let kind = file.metadata()?.file_type();
    // A folder gives the system's own error when it is read.
    if kind.is_file() || kind.is_dir() { Ok(file) } else { Err(not_a_file()) }
}

/// Reads a file as [`open`] opens it.
///
/// # Errors
/// If it cannot be opened or read.
pub fn read(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let mut file = open(path)?;
    let mut bytes = Vec::with_capacity(usize::try_from(file.metadata()?.len()).unwrap_or_default());
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads the text of a file as [`open`] opens it.
///
/// # Errors
/// If it cannot be opened or read, or is not UTF-8.
pub fn read_to_string(path: impl AsRef<Path>) -> io::Result<String> {
    String::from_utf8(read(path)?).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// The error for a pipe or a device in place of a file.
pub fn not_a_file() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file; move it away")
}

/// Opening does not wait for the other end of a pipe. Files are not changed by that.
fn without_waiting(options: &mut OpenOptions) {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(options, rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
    #[cfg(not(unix))]
    let _ = options;
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
    let mut file = NamedTempFile::new_in(folder)?;
    file.write_all(bytes)?;
    persist(file, path).map(drop)
}

/// Brings what a file has to the disk. On Windows that takes the right to write.
///
/// # Errors
/// If it cannot be opened or synced.
pub fn sync(path: &Path) -> io::Result<()> {
    OpenOptions::new().read(true).write(cfg!(windows)).open(path)?.sync_all()
}

/// Gives a temporary file its name, in place of what has it, and waits as [`patiently`] does.
///
/// # Errors
/// If it cannot be renamed. The file is gone then.
pub fn persist(file: NamedTempFile, path: &Path) -> io::Result<File> {
    let mut file = Some(file);
    patiently(|| {
        let Some(this) = file.take() else { return Err(io::ErrorKind::NotFound.into()) };
        #[expect(clippy::disallowed_methods, reason = "this is what waits")]
        this.persist(path).map_err(|failed| {
            file = Some(failed.file);
            failed.error
        })
    })
}

/// Does something with a file that other programs may have open. On Windows it fails while one does: a virus scanner, an indexer, a
/// client that reads its settings. They are done in a moment, so it is tried again for a second.
///
/// # Errors
/// Those of the last attempt.
pub fn patiently<T>(operation: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    /// `ERROR_ACCESS_DENIED`, `ERROR_SHARING_VIOLATION`, `ERROR_LOCK_VIOLATION`.
    const IN_USE: [i32; 3] = [5, 32, 33];
    const PAUSES_MS: [u64; 7] = [5, 15, 40, 90, 150, 300, 400];
    retried(&PAUSES_MS, operation, |error| cfg!(windows) && error.raw_os_error().is_some_and(|code| IN_USE.contains(&code)))
}

/// Does something once more after each of some pauses, in milliseconds, as long as it fails for a reason that may pass.
///
/// # Errors
/// Those of the last attempt.
pub fn retried<T>(
    pauses_ms: &[u64],
    mut operation: impl FnMut() -> io::Result<T>,
    is_passing: impl Fn(&io::Error) -> bool,
) -> io::Result<T> {
    for pause in pauses_ms {
        match operation() {
            Err(error) if is_passing(&error) => std::thread::sleep(Duration::from_millis(*pause)),
            done => return done,
        }
    }
    operation()
}

/// Takes the removal of something that is not there for a success.
///
/// # Errors
/// If it is there and cannot be removed.
pub fn gone(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Locks a file with [`File::try_lock`] or [`File::try_lock_shared`], and waits at most `timeout` for other holders.
///
/// # Errors
/// If others hold it for longer ([`TryLockError::WouldBlock`]), or the file system has no locks.
pub fn lock_within(file: &File, way: fn(&File) -> Result<(), TryLockError>, timeout: Duration) -> Result<(), TryLockError> {
    let begun = Instant::now();
    loop {
        match way(file) {
            Err(TryLockError::WouldBlock) if begun.elapsed() < timeout && !lock_deadline::has_passed() => {
                std::thread::sleep(PAUSE);
            }
            result => return result,
        }
    }
}
