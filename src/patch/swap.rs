/*!
Putting a new file in the place of a target so that at every moment the target is one file or the other, whole.

The new file is written beside the target (a rename does not cross file systems), gets its mode and owner, is synced, and takes
its name; then the folder is synced. A running client keeps the old file open.
*/

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// A step that failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot {step} {path}: {cause}{}", hint(.cause))]
pub struct SwapError {
    /// What was tried.
    pub step: &'static str,
    /// On what.
    pub path: PathBuf,
    /// Why it failed.
    pub cause: io::Error,
}

fn hint(cause: &io::Error) -> &'static str {
    match cause.kind() {
        io::ErrorKind::PermissionDenied => "; run as the user who owns the client, or reinstall the client where you may write",
        io::ErrorKind::ReadOnlyFilesystem => "; the client is on a read-only file system",
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            "; free some space and try again. Nothing was changed"
        }
        _ => "",
    }
}

pub(super) fn step(step: &'static str, path: &Path) -> impl FnOnce(io::Error) -> SwapError {
    let path = path.to_owned();
    move |cause| SwapError { step, path, cause }
}

/// What belongs to a file besides its bytes, and which file it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attributes {
    /// Permission bits; where the system has none, whether it may be written.
    pub mode: u32,
    /// Owner; 0 where the system has none.
    pub uid: u32,
    /// Group; 0 where the system has none.
    pub gid: u32,
    /// Last modification, nanoseconds since 1970.
    pub mtime_ns: i64,
    /// The file system and the file's number in it; 0 where the system has none.
    pub inode: (u64, u64),
}

impl Attributes {
    /// Of a file.
    pub fn of(metadata: &Metadata) -> Self {
        let mtime_ns = metadata.modified().map_or(0, nanoseconds);
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt;
            let inode = (metadata.dev(), metadata.ino());
            Self { mode: metadata.mode() & 0o7777, uid: metadata.uid(), gid: metadata.gid(), mtime_ns, inode }
        }
        #[cfg(not(unix))]
        Self { mode: if metadata.permissions().readonly() { 0o444 } else { 0o644 }, uid: 0, gid: 0, mtime_ns, inode: (0, 0) }
    }
}

fn nanoseconds(time: SystemTime) -> i64 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => since.as_nanos() as i64,
        Err(before) => -(before.duration().as_nanos() as i64),
    }
}

fn time(nanoseconds: i64) -> SystemTime {
    let distance = Duration::from_nanos(nanoseconds.unsigned_abs());
    if nanoseconds < 0 { UNIX_EPOCH - distance } else { UNIX_EPOCH + distance }
}

/// A name beside the target for its successor. It keeps the ending, since Node.js goes by it.
pub fn temporary_name(target: &Path) -> PathBuf {
    let name = target.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    // The process id keeps two commands apart; two threads of one take turns at the lock.
    target.with_file_name(format!(".ctxbridge-{}-{name}", std::process::id()))
}

/// Whose file a new one is.
#[derive(Clone, Copy, Debug)]
pub enum Ownership<'a> {
    /// Mode and owner of another file.
    Like(&'a Attributes),
    /// Mode, owner and times: as if it were that file.
    As(&'a Attributes),
    /// Ours alone, but with the times of another file.
    Private(&'a Attributes),
}

/// Writes a new file, synced.
///
/// # Errors
/// When a step fails, or there is a file of that name already. What was begun is removed again.
pub fn write(path: &Path, bytes: &[u8], ownership: Ownership<'_>) -> Result<(), SwapError> {
    let mut options = OpenOptions::new();
    // Never into a file that is there: it may have other names, the backup's for one.
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path).map_err(step("write", path))?;
    // All through the handle: with the mode, the right to open it again may go.
    let mut work = || {
        file.write_all(bytes).map_err(step("write", path))?;
        if let Ownership::Like(of) | Ownership::As(of) = ownership {
            adopt(&file, path, of)?;
        }
        if let Ownership::As(of) | Ownership::Private(of) = ownership {
            file.set_modified(time(of.mtime_ns)).map_err(step("set the times of", path))?;
        }
        file.sync_all().map_err(step("sync", path))
    };
    work().inspect_err(|_| drop(fs::remove_file(path)))
}

#[cfg(unix)]
fn adopt(file: &File, path: &Path, of: &Attributes) -> Result<(), SwapError> {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
    let own = file.metadata().map_err(step("look at", path))?;
    if (own.uid(), own.gid()) != (of.uid, of.gid) {
        fchown(file, Some(of.uid), Some(of.gid)).map_err(step("give the client's owner to", path))?;
    }
    // After the owner: changing that clears the set-id bits.
    file.set_permissions(fs::Permissions::from_mode(of.mode)).map_err(step("set the mode of", path))
}

#[cfg(not(unix))]
fn adopt(file: &File, path: &Path, of: &Attributes) -> Result<(), SwapError> {
    let mut permissions = file.metadata().map_err(step("look at", path))?.permissions();
    permissions.set_readonly(of.mode & 0o200 == 0);
    file.set_permissions(permissions).map_err(step("set the mode of", path))
}

/// Removes a file that may not be there.
///
/// # Errors
/// As the system says.
pub fn remove(path: &Path) -> Result<(), SwapError> {
    match fs::remove_file(path) {
        Err(cause) if cause.kind() != io::ErrorKind::NotFound => Err(step("remove", path)(cause)),
        _ => Ok(()),
    }
}

/// Makes `new` take the place of `target`.
///
/// # Errors
/// When the rename fails; the target is as it was.
pub fn replace(target: &Path, new: &Path) -> Result<(), SwapError> {
    fs::rename(new, target).map_err(step("replace", target))?;
    if let Some(folder) = target.parent() {
        sync_folder(folder);
    }
    Ok(())
}

/// Makes names in a folder durable. Not every system can, and a rename that is lost with the power leaves the old file, whole.
pub fn sync_folder(folder: &Path) {
    if let Ok(folder) = File::open(folder) {
        folder.sync_all().ok();
    }
}
