//! Files of the repository, and files that several processes use at once.

use std::fs;
use std::io;
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
