//! Following links, and finding `claude` the way a shell does.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use super::LONGEST_CHAIN;
use super::error::TargetError;

/// What `claude` may be called, in the order of Windows' shells; the last is what those on Unix and Git Bash run.
#[cfg(windows)]
const NAMES: &[&str] = &["claude.exe", "claude.cmd", "claude.bat", "claude.ps1", "claude"];
#[cfg(not(windows))]
const NAMES: &[&str] = &["claude"];

/// Every `claude` on a `PATH`; the first is the one that a shell runs.
pub(super) fn on_path(path: Option<&OsStr>) -> Vec<PathBuf> {
    let folders = path.map(|path| std::env::split_paths(path).collect::<Vec<_>>()).unwrap_or_default();
    // The launchers that npm writes for several shells lead to the same client.
    let first = |folder: PathBuf| {
        let mut paths = NAMES.iter().map(|name| folder.join(name));
        paths.find(|path| path.symlink_metadata().is_ok() && !path.is_dir())
    };
    folders.into_iter().filter_map(first).collect()
}

/// The file at the end of all links.
pub(super) fn real_path(path: &Path) -> Result<PathBuf, TargetError> {
    match path.canonicalize() {
        Ok(real) => Ok(real),
        Err(cause) if matches!(cause.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            match std::fs::read_link(path) {
                Ok(to) => Err(TargetError::Dangling { link: path.to_owned(), to }),
                Err(_) => Err(TargetError::Missing(path.to_owned())),
            }
        }
        Err(_) if is_circle(path) => Err(TargetError::Circle(path.to_owned())),
        Err(cause) => Err(TargetError::Read { path: path.to_owned(), cause }),
    }
}

/// Whether a link leads to itself in the end. The system says so with an error that Rust has no stable name for.
fn is_circle(link: &Path) -> bool {
    let mut current = link.to_owned();
    for _ in 0..LONGEST_CHAIN {
        match std::fs::read_link(&current) {
            Ok(to) => current = current.with_file_name(to),
            Err(_) => return false,
        }
    }
    true
}

/// What tells that two paths are names of one file; nothing where the system does not say.
pub(super) fn file_id(path: &Path) -> Option<(u64, u64)> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let metadata = path.metadata().ok()?;
        Some((metadata.dev(), metadata.ino()))
    }
    #[cfg(not(unix))]
    {
        let _ = path;
        None
    }
}
