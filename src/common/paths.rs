/*!
Paths of ctxbridge's own files. Folders have mode 0700, since their content is private.
*/

use std::io;
use std::path::{Path, PathBuf};

use directories::BaseDirs;

const DATA_VARIABLE: &str = "CTXBRIDGE_DATA_DIR";
const CACHE_VARIABLE: &str = "CTXBRIDGE_CACHE_DIR";

/// Errors from finding a folder for data.
#[derive(Debug, thiserror::Error)]
pub enum PathsError {
    /// There is no home directory, and no variable names another folder.
    #[error("no home directory; set {0} to a folder that ctxbridge may use")]
    NoHome(&'static str),
    /// The folder cannot be made.
    #[error("cannot create {path}: {cause}; set {variable} to a folder that ctxbridge may use")]
    Create {
        /// The folder.
        path: PathBuf,
        /// The error from the system.
        cause: io::Error,
        /// The variable that sets another folder.
        variable: &'static str,
    },
}

/// `$CTXBRIDGE_DATA_DIR`, or else `ctxbridge` in the platform's data directory: on Windows the local one, since gigabytes are not to
/// roam. Holds backups and the journal; created if missing.
///
/// # Errors
/// If there is no such place or it cannot be made.
pub fn data_dir() -> Result<PathBuf, PathsError> {
    create(DATA_VARIABLE, data_path()?)
}

/// The same folder, which may be missing.
///
/// # Errors
/// If there is no such place.
pub fn data_path() -> Result<PathBuf, PathsError> {
    folder(DATA_VARIABLE, |base| base.data_local_dir().join("ctxbridge"))
}

/// `$CTXBRIDGE_CACHE_DIR`, or else `ctxbridge` in the platform's cache directory. Holds data that can be fetched again.
///
/// # Errors
/// If there is no such place or it cannot be made.
pub fn cache_dir() -> Result<PathBuf, PathsError> {
    create(CACHE_VARIABLE, cache_path()?)
}

/// The same folder, which may be missing.
///
/// # Errors
/// If there is no such place.
pub fn cache_path() -> Result<PathBuf, PathsError> {
    folder(CACHE_VARIABLE, |base| base.cache_dir().join("ctxbridge"))
}

/// Folder of the user's settings: `$CTXBRIDGE_CONFIG_DIR`, or else `ctxbridge` in the platform's config directory.
pub fn config_dir() -> Option<PathBuf> {
    match std::env::var_os("CTXBRIDGE_CONFIG_DIR").filter(|value| !value.is_empty()) {
        Some(folder) => Some(PathBuf::from(folder)),
        None => directories::BaseDirs::new().map(|base| base.config_dir().join("ctxbridge")),
    }
}

/// The user's home directory as the client finds it: by `HOME`, and on Windows by `USERPROFILE`.
pub fn home_dir() -> Option<PathBuf> {
    std::env::home_dir().filter(|home| !home.as_os_str().is_empty())
}

/// The path of a file with all links resolved, as its system writes it: on Windows without `\\?\` where that is not needed, since
/// nobody else writes it.
///
/// # Errors
/// If there is no such file, or it cannot be reached.
pub fn real(path: impl AsRef<Path>) -> io::Result<PathBuf> {
    dunce::canonicalize(path)
}

fn folder(variable: &'static str, default: impl FnOnce(&BaseDirs) -> PathBuf) -> Result<PathBuf, PathsError> {
    let path = match std::env::var_os(variable).filter(|value| !value.is_empty()) {
        Some(path) => PathBuf::from(path),
        None => default(&BaseDirs::new().ok_or(PathsError::NoHome(variable))?),
    };
    Ok(std::path::absolute(&path).unwrap_or(path))
}

fn create(variable: &'static str, path: PathBuf) -> Result<PathBuf, PathsError> {
    create_private_dir(&path).map_err(|cause| PathsError::Create { path: path.clone(), cause, variable })?;
    Ok(path)
}

/// Creates a folder, and those above it, that only the user can enter.
///
/// # Errors
/// Errors from the system.
pub fn create_private_dir(path: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}
