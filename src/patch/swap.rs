/*!
Putting a new file in the place of a target so that at every moment the target is one file or the other, whole.

The new file is written beside the target (a rename does not cross file systems), gets its mode and owner, is synced, and takes
its name; then the folder is synced. A running client keeps the old file open.
*/

use std::fs::{self, File, Metadata};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::container::{Piece, Pieces, Source};
use ctxbridge_common::files;

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

/// Which file it is and when it was last changed: as long as this is the same, so are the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint {
    size: u64,
    mtime_ns: i64,
    /// Last change of the file or of what belongs to it, which nobody can set; where the system has none, its creation.
    ctime_ns: i64,
    inode: (u64, u64),
}

/// Clocks of file systems may be this coarse: what changed so lately may change again and keep its times.
const COARSEST_CLOCK: Duration = Duration::from_secs(2);

impl Fingerprint {
    /// Of a file.
    pub fn of(metadata: &Metadata) -> Self {
        let Attributes { mtime_ns, inode, .. } = Attributes::of(metadata);
        #[cfg(unix)]
        let ctime_ns = {
            use std::os::unix::fs::MetadataExt;
            metadata.ctime().saturating_mul(1_000_000_000).saturating_add(metadata.ctime_nsec())
        };
        #[cfg(not(unix))]
        let ctime_ns = metadata.created().map_or(0, nanoseconds);
        Self { size: metadata.len(), mtime_ns, ctime_ns, inode }
    }

    /// Whether the bytes are most likely the same, also when the file was copied or its mode changed: good enough to tell people.
    pub fn resembles(&self, other: &Self) -> bool {
        (self.size, self.mtime_ns) == (other.size, other.mtime_ns)
    }

    /// Whether a change after `now` would show.
    pub fn is_settled(&self, now: SystemTime) -> bool {
        nanoseconds(now).saturating_sub(self.mtime_ns.max(self.ctime_ns)) > COARSEST_CLOCK.as_nanos() as i64
    }

    pub(super) fn to_json(self) -> String {
        serde_json::to_string(&self).unwrap_or_default()
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

/// Writes a new file made of `old` and what comes between, synced.
///
/// # Errors
/// When a step fails, or there is a file of that name already. What was begun is removed again.
pub fn write(path: &Path, pieces: &Pieces, old: &Source, ownership: Ownership<'_>) -> Result<(), SwapError> {
    write_with(path, ownership, |file| fill(file, pieces, old).map_err(step("write", path)))
}

/// The same, with what `fill` puts into it.
///
/// # Errors
/// See [`write()`], and those of `fill`.
pub fn write_with<E: From<SwapError>>(
    path: &Path,
    ownership: Ownership<'_>,
    fill: impl FnOnce(&File) -> Result<(), E>,
) -> Result<(), E> {
    // Never into a file that is there: it may have other names, the backup's for one.
    let file = files::private().create_new(true).open(path).map_err(step("write", path))?;
    // All through the handle: with the mode, the right to open it again may go.
    let complete = || {
        if let Ownership::Like(of) | Ownership::As(of) = ownership {
            adopt(&file, path, of)?;
        }
        if let Ownership::As(of) | Ownership::Private(of) = ownership {
            file.set_modified(time(of.mtime_ns)).map_err(step("set the times of", path))?;
        }
        file.sync_all().map_err(step("sync", path))
    };
    let written = fill(&file).and_then(|()| Ok(complete()?));
    written.inspect_err(|_| drop(fs::remove_file(path)))
}

/// The block size of common file systems: ranges that begin at one may be shared instead of copied.
const BLOCK: usize = 4096;

/// Writes all of a new file into one that is empty.
///
/// # Errors
/// As the system says.
pub fn fill(mut file: &File, pieces: &Pieces, old: &Source) -> io::Result<()> {
    let mut written = 0;
    for piece in pieces.iter() {
        // Where reading moves a file's own position, another thread that reads it would be in the way.
        let (range, mut from) = match (piece, old.file().filter(|_| cfg!(unix))) {
            (Piece::New(bytes), _) => {
                file.write_all(bytes)?;
                written += bytes.len();
                continue;
            }
            (Piece::Kept(range), None) => {
                let mut result = Ok(());
                old.stream(range.clone(), &mut |bytes| {
                    if result.is_ok() {
                        result = file.write_all(bytes);
                    }
                })?;
                result?;
                written += range.len();
                continue;
            }
            (Piece::Kept(range), Some(from)) => (range.clone(), from),
        };
        from.seek(SeekFrom::Start(range.start as u64))?;
        // Up to a block in both files, then the rest: between whole blocks the system can share what it would have to copy.
        let head = if written % BLOCK == range.start % BLOCK { (BLOCK - written % BLOCK) % BLOCK } else { 0 };
        for length in [head.min(range.len()), range.len() - head.min(range.len())] {
            // On Linux this is copy_file_range: the bytes do not come into this process.
            if io::copy(&mut from.take(length as u64), &mut file)? != length as u64 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        written += range.len();
    }
    Ok(())
}

/// Writes again what is not from the old file, into one that was filled with a version of the same layout.
///
/// # Errors
/// As the system says.
pub fn amend(mut file: &File, pieces: &Pieces) -> io::Result<()> {
    let mut at = 0;
    for piece in pieces.iter() {
        if let Piece::New(bytes) = piece {
            file.seek(SeekFrom::Start(at))?;
            file.write_all(bytes)?;
        }
        at += piece.len() as u64;
    }
    Ok(())
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
