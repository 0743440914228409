//! Errors with settings files.

use std::io;
use std::path::PathBuf;

use super::document::DocumentError;
use ctxbridge_patch::lock::LockError;

/// Errors from reading or changing settings. Whenever one is returned, the settings are unchanged.
#[derive(Debug, thiserror::Error)]
pub enum HookSettingsError {
    /// The client cannot read the content of a file.
    #[error("{} was not changed: {cause}", path.display())]
    Document {
        /// The file.
        path: PathBuf,
        /// Cause.
        cause: DocumentError,
    },
    /// The program has another name.
    #[error("this program is {}, but hooks are recognized by the name {name}; rename it and try again. The settings were not changed", program.display())]
    Renamed {
        /// Its path.
        program: PathBuf,
        /// Name that it must have.
        name: String,
    },
    /// A step with a file failed.
    #[error("cannot {step} {}: {cause}{}", path.display(), hint(cause))]
    Io {
        /// The step.
        step: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// Cause.
        cause: io::Error,
    },
    /// A step in ctxbridge's own folder failed.
    #[error("cannot {step} {}: {cause}; set CTXBRIDGE_DATA_DIR to a folder that you may write to. The settings were not changed", path.display())]
    Own {
        /// The step.
        step: &'static str,
        /// Path of the file or folder.
        path: PathBuf,
        /// Cause.
        cause: io::Error,
    },
    /// The path is a folder or device, or the file is too large.
    #[error("{} is {what}; put it out of the way", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
        /// Description of what is there.
        what: &'static str,
    },
    /// The path is a dangling link.
    #[error("{} is a link to {}, which does not exist; make that file (`{{}}` is enough) or remove the link", link.display(), to.display())]
    Dangling {
        /// The link.
        link: PathBuf,
        /// Its target.
        to: PathBuf,
    },
    /// The file is read-only.
    #[error("{} is read-only; make it writable (some tools for dotfiles make it so: then add the hooks there)", .0.display())]
    ReadOnly(PathBuf),
    /// Another program keeps changing the file.
    #[error("{} keeps being changed by another program; try again when that has stopped", .0.display())]
    Contended(PathBuf),
    /// Another ctxbridge has the lock, or the lock cannot be created.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The path is not Unicode, so it cannot be written into JSON.
    #[error("the path {} is not Unicode, which settings cannot hold; move ctxbridge to another folder", .0.display())]
    NotUnicode(PathBuf),
    /// There is no home directory.
    #[error("no home directory; set HOME, or CLAUDE_CONFIG_DIR to the folder of the client's settings")]
    NoHome,
    /// The project is the home directory.
    #[error("{} is the home directory, where the project's settings are the user's; use `--scope user`, or go to a project", .0.display())]
    ProjectIsHome(PathBuf),
    /// There is no client to install the hooks for.
    #[error(
        "no installed client with a known version was found, and a client ignores all of its settings if they contain an event that it does not know; put `claude` on the PATH, or name the version, as in `--client-version 2.1.330`{}", unknown(.0)
    )]
    NoClient(Vec<PathBuf>),
    /// The client supports none of the events.
    #[error("no event of ctxbridge is known to {0}; hooks need Claude Code 1.0.60 or newer")]
    TooOld(String),
    /// A hook cannot be tested.
    #[error("cannot {step}: {cause}; see that the temporary folder can be written to")]
    Scratch {
        /// The step.
        step: &'static str,
        /// Cause.
        cause: io::Error,
    },
}

fn unknown(paths: &[PathBuf]) -> String {
    let paths = paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>();
    if paths.is_empty() { String::new() } else { format!(" (found, but not which version: {})", paths.join(", ")) }
}

fn hint(cause: &io::Error) -> &'static str {
    match cause.kind() {
        io::ErrorKind::PermissionDenied => "; run as the user whose settings these are",
        io::ErrorKind::ReadOnlyFilesystem => "; it is on a read-only file system",
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            "; free some space and try again. The settings were not changed"
        }
        _ => "",
    }
}
