//! Following links, and finding `claude` the way a shell does.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use super::MAX_LINKS_FOLLOWED;
use super::error::TargetError;
use ctxbridge_common::paths;

/// Names of `claude`, in the order of Windows' shells; shells on Unix and Git Bash run the last.
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
    crate::swap::restore_put_aside(path);
    match paths::real(path) {
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

/// `true` if a link leads to itself in the end. The system's error for this has no stable name in Rust.
fn is_circle(link: &Path) -> bool {
    let mut current = link.to_owned();
    for _ in 0..MAX_LINKS_FOLLOWED {
        match std::fs::read_link(&current) {
            Ok(to) => current = current.with_file_name(to),
            Err(_) => return false,
        }
    }
    true
}
