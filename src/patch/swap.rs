/*!
Replaces a target by a new file, so that at every moment the target is one file or the other, complete.

The new file is written next to the target (a rename does not cross file systems), gets its mode and owner, is synced, and takes
its name; then the folder is synced. A running client keeps the old file open.
*/

use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::attributes::Attributes;
use super::container::{FileBytes, FilePiece, PiecewiseFile};
use ctxbridge_common::files;

/// Errors from replacing a file: the step that failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot {step} {path}: {cause}{}", hint(.cause))]
pub struct SwapError {
    /// The step.
    pub step: &'static str,
    /// The file or folder.
    pub path: PathBuf,
    /// The cause.
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

fn time(nanoseconds: i64) -> SystemTime {
    let distance = Duration::from_nanos(nanoseconds.unsigned_abs());
    if nanoseconds < 0 { UNIX_EPOCH - distance } else { UNIX_EPOCH + distance }
}

/// A path next to the target for the new file. It keeps the extension, which Node.js needs.
pub fn temporary_name(target: &Path) -> PathBuf {
    let name = target.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    // The process id keeps two commands apart; two threads of one take turns at the lock.
    target.with_file_name(format!(".ctxbridge-{}-{name}", std::process::id()))
}

/// Mode, owner and times for a new file.
#[derive(Clone, Copy, Debug)]
pub enum Ownership<'a> {
    /// Mode and owner of another file.
    Like(&'a Attributes),
    /// Mode, owner and times: as if it were that file.
    As(&'a Attributes),
    /// Ours alone, but with the times of another file.
    Private(&'a Attributes),
}

/// Writes a new file made of `old` and new pieces, and syncs it.
///
/// # Errors
/// If a step fails, or there is a file of that name already. An incomplete file is removed again.
pub fn write(path: &Path, pieces: &PiecewiseFile, old: &FileBytes, ownership: Ownership<'_>) -> Result<(), SwapError> {
    write_with(path, ownership, old, |file| fill(file, pieces, old).map_err(step("write", path)))
}

/// Like [`write()`], but `fill` writes the contents. The file that it gets is empty, or a clone of `old` ([`fill()`] sees which).
///
/// # Errors
/// See [`write()`], and those of `fill`.
pub fn write_with<E: From<SwapError>>(
    path: &Path,
    ownership: Ownership<'_>,
    old: &FileBytes,
    fill: impl FnOnce(&File) -> Result<(), E>,
) -> Result<(), E> {
    // Never into a file that is there: it may have other names, the backup's for one.
    let create = || files::private().create_new(true).open(path);
    let file = clone(path, old).map_or_else(create, Ok).map_err(step("write", path))?;
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

/// Clones the old file where APFS is: both share their blocks until one is written. `None` if that cannot be done.
#[cfg(target_os = "macos")]
fn clone(path: &Path, old: &FileBytes) -> Option<File> {
    rustix::fs::fclonefileat(old.file()?, rustix::fs::CWD, path, rustix::fs::CloneFlags::NOOWNERCOPY).ok()?;
    let open = || {
        let file = fs::OpenOptions::new().read(true).write(true).open(path)?;
        file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
        // Of what was downloaded macOS asks for the publisher's signature, which a changed file has no more. A new file has no such mark.
        rustix::fs::fremovexattr(&file, "com.apple.quarantine").ok();
        Ok::<_, io::Error>(file)
    };
    open().inspect_err(|_| drop(fs::remove_file(path))).ok()
}

/// Elsewhere blocks are shared piece by piece, where the system can, or not at all.
#[cfg(not(target_os = "macos"))]
fn clone(_: &Path, _: &FileBytes) -> Option<File> {
    None
}

/// The block size of common file systems: ranges that start at a block may be shared instead of copied.
const BLOCK: usize = 4096;

/// Writes all of a new file into an empty one, or into a clone of the old one what is not there yet.
///
/// # Errors
/// The error from the system.
pub fn fill(mut file: &File, pieces: &PiecewiseFile, old: &FileBytes) -> io::Result<()> {
    let is_clone = file.metadata()?.len() > 0;
    let mut written = 0;
    for piece in pieces.iter() {
        if is_clone {
            if let FilePiece::Kept(range) = piece
                && range.start == written
            {
                written += range.len();
                continue;
            }
            file.seek(SeekFrom::Start(written as u64))?;
        }
        // Only Linux copies from file to file by itself. Elsewhere that would take pieces of 8 KiB, and on Windows reading moves a
        // file's own position, which another thread that reads it would be in the way of.
        let (range, mut from) = match (piece, old.file().filter(|_| cfg!(target_os = "linux"))) {
            (FilePiece::New(bytes), _) => {
                file.write_all(bytes)?;
                written += bytes.len();
                continue;
            }
            (FilePiece::Kept(range), None) => {
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
            (FilePiece::Kept(range), Some(from)) => (range.clone(), from),
        };
        from.seek(SeekFrom::Start(range.start as u64))?;
        // Up to a block in both files, then the rest: between whole blocks the system can share what it would have to copy.
        let head = if written % BLOCK == range.start % BLOCK { (BLOCK - written % BLOCK) % BLOCK } else { 0 };
        for length in [head.min(range.len()), range.len() - head.min(range.len())] {
            // This is copy_file_range: the bytes do not come into this process.
            if io::copy(&mut from.take(length as u64), &mut file)? != length as u64 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        written += range.len();
    }
    if is_clone { file.set_len(written as u64) } else { Ok(()) }
}

/// Writes all bytes that are not from the old file again, into a file that was filled with a version of the same layout.
///
/// # Errors
/// The error from the system.
pub fn amend(mut file: &File, pieces: &PiecewiseFile) -> io::Result<()> {
    let mut at = 0;
    for piece in pieces.iter() {
        if let FilePiece::New(bytes) = piece {
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
/// The error from the system.
pub fn remove(path: &Path) -> Result<(), SwapError> {
    match fs::remove_file(path) {
        Err(cause) if cause.kind() != io::ErrorKind::NotFound => Err(step("remove", path)(cause)),
        _ => Ok(()),
    }
}

/// Replaces `target` by `new`. Windows replaces no program that runs, but lets it have another name: then it is put aside, and removed
/// by a later call.
///
/// # Errors
/// If the rename fails; the target is as it was.
pub fn replace(target: &Path, new: &Path) -> Result<(), SwapError> {
    remove_put_aside(target);
    let replaced = match files::patiently(|| fs::rename(new, target)) {
        Err(error) if cfg!(windows) && error.kind() == io::ErrorKind::PermissionDenied => replace_running(target, new),
        replaced => replaced,
    };
    replaced.map_err(step("replace", target))?;
    if let Some(folder) = target.parent() {
        sync_folder(folder);
    }
    Ok(())
}

/// The end of the name of a program that ran when it was replaced, before a number.
const PUT_ASIDE: &str = ".ctxbridge-old";
/// Maximum number of programs that were put aside and still run.
const MAX_PUT_ASIDE: u32 = 16;

/// Gives a running program another name, and puts the new one in its place. If that fails, the old one has its name back.
fn replace_running(target: &Path, new: &Path) -> io::Result<()> {
    let aside = put_aside_name(target, put_aside(target).last().map_or(1, |newest| newest + 1));
    fs::rename(target, &aside)?;
    fs::rename(new, target).inspect_err(|_| drop(fs::rename(&aside, target)))
}

/// Numbers of the programs that were put aside and are there, the oldest first.
fn put_aside(target: &Path) -> Vec<u32> {
    (1..=MAX_PUT_ASIDE).filter(|number| put_aside_name(target, *number).exists()).collect()
}

fn put_aside_name(target: &Path, number: u32) -> PathBuf {
    let mut name = target.file_name().unwrap_or_default().to_owned();
    name.push(format!("{PUT_ASIDE}{number}"));
    target.with_file_name(name)
}

/// Removes programs that were put aside and do not run any more.
fn remove_put_aside(target: &Path) {
    if cfg!(windows) {
        put_aside(target).into_iter().for_each(|number| drop(fs::remove_file(put_aside_name(target, number))));
    }
}

/// Gives a program its name back that a command put aside and did not replace before it was killed.
pub fn restore_put_aside(target: &Path) {
    if cfg!(windows)
        && !target.exists()
        && let Some(newest) = put_aside(target).last()
    {
        fs::rename(put_aside_name(target, *newest), target).ok();
    }
}

/// Makes names in a folder durable. Not every system can; a rename that is lost in a power failure leaves the old file complete.
pub fn sync_folder(folder: &Path) {
    if let Ok(folder) = File::open(folder) {
        folder.sync_all().ok();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns what `fill` makes of a file that has these bytes.
    fn filled(begin: &[u8], pieces: &PiecewiseFile, old: &FileBytes) -> Vec<u8> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("new");
        fs::write(&path, begin).expect("written");
        let file = files::private().open(&path).expect("opened");
        fill(&file, pieces, old).expect("filled");
        fs::read(&path).expect("read")
    }

    proptest! {
        #[test]
        fn a_clone_becomes_what_an_empty_file_becomes(
            old in prop::collection::vec(any::<u8>(), 1..300),
            parts in prop::collection::vec((any::<prop::sample::Index>(), 0..120_usize, any::<bool>()), 0..8),
            is_begin_kept in any::<bool>(),
        ) {
            let mut pieces = PiecewiseFile::default();
            if is_begin_kept {
                pieces.keep(0..old.len() / 2);
            }
            for (at, length, is_new) in parts {
                let start = at.index(old.len());
                match is_new {
                    true => pieces.insert(vec![b'n'; length]),
                    false => pieces.keep(start..(start + length).min(old.len())),
                }
            }
            let folder = tempfile::tempdir().expect("a folder");
            let path = folder.path().join("old");
            fs::write(&path, &old).expect("written");
            let of_file = FileBytes::of(File::open(&path).expect("opened")).expect("read");
            let expected = pieces.to_bytes(&old);
            for source in [of_file, old.clone().into()] {
                prop_assert_eq!(&filled(&[], &pieces, &source), &expected);
                prop_assert_eq!(&filled(&old, &pieces, &source), &expected);
            }
        }
    }
}
