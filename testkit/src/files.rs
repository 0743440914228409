//! Files of the repository, and files that several processes use at once.

use std::fs;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

/// The path of a file of the repository.
pub fn source(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name(path)
}

/// Brings a copy of a file up to date. Somebody may be reading the copy, so it is never seen half-written. It is not touched if
/// nothing has changed.
///
/// # Errors
/// When the file cannot be read, or the copy cannot be written.
pub fn bring(from: &Path, to: &Path) -> io::Result<()> {
    let new = fs::read(from)?;
    if fs::read(to).is_ok_and(|old| old == new) {
        return Ok(());
    }
    let half = to.with_extension("new");
    fs::write(&half, new)?;
    fs::rename(&half, to)
}

/// Writes bytes over those of a file, and leaves the others.
///
/// # Errors
/// When the file cannot be written.
pub fn overwrite(path: &Path, at: u64, bytes: &[u8]) -> io::Result<()> {
    let mut file = fs::File::options().write(true).open(path)?;
    file.seek(SeekFrom::Start(at))?;
    file.write_all(bytes)
}

/// Inverts those bits of a file's bytes that are set in `mask`.
///
/// # Errors
/// When the file cannot be written, or ends before.
pub fn invert(path: &Path, at: u64, mask: &[u8]) -> io::Result<()> {
    let mut bytes = vec![0; mask.len()];
    let mut file = fs::File::open(path)?;
    file.seek(SeekFrom::Start(at))?;
    file.read_exact(&mut bytes)?;
    bytes.iter_mut().zip(mask).for_each(|(byte, mask)| *byte ^= mask);
    overwrite(path, at, &bytes)
}

/// `true` if nobody but its owner may read a file or folder. On Windows that is for the folder of the user's profile to say.
///
/// # Errors
/// When there is none.
pub fn is_private(path: &Path) -> io::Result<bool> {
    let metadata = fs::metadata(path)?;
    #[cfg(unix)]
    {
        let mode = std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o777;
        Ok(mode == if metadata.is_dir() { 0o700 } else { 0o600 })
    }
    #[cfg(windows)]
    Ok(metadata.is_dir() || metadata.is_file())
}
