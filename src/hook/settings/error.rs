//! What can go wrong with settings files.

use std::io;
use std::path::PathBuf;

use super::document::DocumentError;
use ctxbridge_patch::lock::LockError;

/// Settings that cannot be read or changed. Whenever one is returned, the settings are as they were.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// What is in a file is not what the client reads.
    #[error("{} was not changed: {cause}", path.display())]
    Document {
        /// The file.
        path: PathBuf,
        /// Why.
        cause: DocumentError,
    },
    /// The program has another name.
    #[error("this program is {}, and hooks are known by the name {name}; call it that and try again. The settings were not changed", program.display())]
    Renamed {
        /// Where it is.
        program: PathBuf,
        /// What it has to be called.
        name: String,
    },
    /// A step with a file failed.
    #[error("cannot {step} {}: {cause}{}", path.display(), hint(cause))]
    Io {
        /// What was tried.
        step: &'static str,
        /// On what.
        path: PathBuf,
        /// Why it failed.
        cause: io::Error,
    },
    /// A step in ctxbridge's own folder failed.
    #[error("cannot {step} {}: {cause}; set CTXBRIDGE_DATA_DIR to a folder that you may write to. The settings were not changed", path.display())]
    Own {
        /// What was tried.
        step: &'static str,
        /// On what.
        path: PathBuf,
        /// Why it failed.
        cause: io::Error,
    },
    /// A folder, a device, or too large.
    #[error("{} is {what}; put it out of the way", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
        /// What it is.
        what: &'static str,
    },
    /// A link that leads nowhere.
    #[error("{} is a link to {}, which does not exist; make that file (`{{}}` is enough) or remove the link", link.display(), to.display())]
    Dangling {
        /// The link.
        link: PathBuf,
        /// Where it leads.
        to: PathBuf,
    },
    /// It may not be written.
    #[error("{} is read-only; make it writable (some tools for dotfiles make it so: then add the hooks there)", .0.display())]
    ReadOnly(PathBuf),
    /// Somebody else writes it all the time.
    #[error("{} was changed by another program meanwhile, several times; try again when it is left alone", .0.display())]
    Contended(PathBuf),
    /// Another ctxbridge has it, or there is no place for the lock.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// A path that cannot be written into JSON.
    #[error("the path {} is not Unicode, which settings cannot hold; move ctxbridge to another folder", .0.display())]
    NotUnicode(PathBuf),
    /// There is no home directory.
    #[error("no home directory; set HOME, or CLAUDE_CONFIG_DIR to the folder of the client's settings")]
    NoHome,
    /// The project is the home directory.
    #[error("{} is the home directory, where the project's settings are the user's; use `--scope user`, or go to a project", .0.display())]
    ProjectIsHome(PathBuf),
    /// There is no client to wire the hooks for.
    #[error(
        "no installed client whose version is known was found, and an event that a client does not know makes it ignore all its settings; put `claude` on the PATH, or say which version reads them, as in `--client-version 2.1.330`{}", unknown(.0)
    )]
    NoClient(Vec<PathBuf>),
    /// None of the events is known to the client.
    #[error("no event of ctxbridge is known to {0}; hooks need Claude Code 1.0.60 or newer")]
    TooOld(String),
    /// A hook cannot be tried.
    #[error("cannot {step}: {cause}; see that the temporary folder can be written to")]
    Scratch {
        /// What was tried.
        step: &'static str,
        /// Why it failed.
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
