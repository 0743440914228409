/*!
Putting a new file in the place of a target so that at every moment the target is one file or the other, whole.

The new file is written beside the target (a rename does not cross file systems), gets its mode and owner, is synced, and takes
its name; then the folder is synced. A running client keeps the old file open.
*/

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

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

/// A name beside the target for its successor. It keeps the ending, since Node.js goes by it.
pub fn temporary_name(target: &Path) -> PathBuf {
    let name = target.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    // The process id keeps two commands apart; two threads of one take turns at the lock.
    target.with_file_name(format!(".ctxbridge-{}-{name}", std::process::id()))
}

/// Whose file a new one is.
#[derive(Clone, Copy, Debug)]
pub enum Ownership<'m> {
    /// Mode and owner of another file.
    Like(&'m Metadata),
    /// Ours alone.
    Private,
}

/// Writes a new file, synced.
///
/// # Errors
/// When a step fails; the file is removed again.
pub fn write(path: &Path, bytes: &[u8], ownership: Ownership<'_>) -> Result<(), SwapError> {
    let work = || {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(path).map_err(step("write", path))?;
        file.write_all(bytes).map_err(step("write", path))?;
        if let Ownership::Like(like) = ownership {
            adopt(&file, path, like)?;
        }
        file.sync_all().map_err(step("sync", path))
    };
    work().inspect_err(|_| drop(fs::remove_file(path)))
}

fn adopt(file: &File, path: &Path, like: &Metadata) -> Result<(), SwapError> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::{MetadataExt, fchown};
        let own = file.metadata().map_err(step("look at", path))?;
        if (own.uid(), own.gid()) != (like.uid(), like.gid()) {
            fchown(file, Some(like.uid()), Some(like.gid())).map_err(step("give the client's owner to", path))?;
        }
    }
    // After the owner: changing that clears the set-id bits.
    file.set_permissions(like.permissions()).map_err(step("set the mode of", path))
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
