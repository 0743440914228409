//! Why there is no client where one was looked for, and what to do about it.

use std::io;
use std::path::{Path, PathBuf};

use super::platform::NotThere;
use crate::container::ContainerError;

/// What to do when there is no client where it was looked for.
const NAME_IT: &str =
    "name the client's executable, its cli.js or its package folder (`ctxbridge patch list` shows what there is)";
const RUN_AS_OWNER: &str = "run as the user who owns the client";

/// No client where one was looked for.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// Nothing was named, and there is no `claude` on the `PATH`.
    #[error(
        "no `claude` on the PATH; name the client: its executable or cli.js, its package folder, or a link to one of them (`ctxbridge patch list` shows what there is)"
    )]
    NotOnPath,
    /// There is no such file.
    #[error("{0} does not exist; {NAME_IT}")]
    Missing(PathBuf),
    /// A link leads nowhere.
    #[error("{link} is a link to {to}, which does not exist; reinstall the client or name it where it is")]
    Dangling {
        /// The link.
        link: PathBuf,
        /// Where it leads.
        to: PathBuf,
    },
    /// Links and shims that lead in a circle.
    #[error("{0} leads in a circle of links; reinstall the client, or {NAME_IT}")]
    Circle(PathBuf),
    /// A folder with no client in it.
    #[error("no client in {folder}: looked for {}; {NAME_IT}", looked_for.join(", "))]
    NoClient {
        /// The folder.
        folder: PathBuf,
        /// The files that would have been one.
        looked_for: Vec<String>,
    },
    /// A folder with clients of several versions, none of which is more likely meant than the others.
    #[error("{} clients in {folder}; name one of them: {}", found.len(), joined(found))]
    Several {
        /// The folder.
        folder: PathBuf,
        /// The clients, the oldest first.
        found: Vec<PathBuf>,
    },
    /// A launcher that decides itself which client it starts.
    #[error(
        "{launcher} is a launcher, and the client it starts cannot be told from it; name the client's executable or cli.js (`{ask}` says where to look)"
    )]
    Launcher {
        /// The launcher.
        launcher: PathBuf,
        /// The command that knows.
        ask: &'static str,
    },
    /// The script that starts the executable of a package beside it, without that package.
    #[error("{wrapper} starts the executable of another package: {cause}")]
    Wrapper {
        /// The script.
        wrapper: PathBuf,
        /// Why the executable is not found.
        cause: NotThere,
    },
    /// What npm installs until the package's postinstall script has put the executable there.
    #[error(
        "{placeholder} is a placeholder: the package's postinstall script, which puts the native executable in its place, has not run. {}",
        next_step(placeholder, executable)
    )]
    Placeholder {
        /// The file.
        placeholder: PathBuf,
        /// The executable that belongs there.
        executable: Result<PathBuf, NotThere>,
    },
    /// A pipe, a device, or larger than any client.
    #[error("{0} is no client: {1}; {NAME_IT}")]
    NotAFile(PathBuf, &'static str),
    /// The journal and JSON keep paths as text.
    #[error("the path {} is not Unicode; rename the folder that is not", .0.display())]
    NotUnicode(PathBuf),
    /// The version is not one.
    #[error("{path} says its version is `{version}`, which is no version number; reinstall the client")]
    BadVersion {
        /// Where it says so.
        path: PathBuf,
        /// What it says.
        version: String,
    },
    /// A file cannot be read.
    #[error("cannot read {path}: {cause}; {}", if cause.kind() == io::ErrorKind::PermissionDenied { RUN_AS_OWNER } else { NAME_IT })]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        cause: io::Error,
    },
}

impl TargetError {
    /// The file or folder that is not what it should be.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::NotOnPath => None,
            Self::Missing(path) | Self::Circle(path) | Self::NotAFile(path, _) | Self::NotUnicode(path) => Some(path),
            Self::Dangling { link: path, .. }
            | Self::NoClient { folder: path, .. }
            | Self::Several { folder: path, .. }
            | Self::Launcher { launcher: path, .. }
            | Self::Wrapper { wrapper: path, .. }
            | Self::Placeholder { placeholder: path, .. }
            | Self::BadVersion { path, .. }
            | Self::Read { path, .. } => Some(path),
        }
    }
}

fn joined(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

/// What to do about a placeholder: the script only copies what is there already.
fn next_step(placeholder: &Path, executable: &Result<PathBuf, NotThere>) -> String {
    let script = placeholder.ancestors().nth(2).unwrap_or(placeholder).join("install.cjs");
    match executable {
        Ok(executable) if script.is_file() => format!(
            "The executable is installed beside it, {}: run `node \"{}\"` to put it in place, or name that file",
            executable.display(),
            script.display()
        ),
        Ok(executable) => {
            format!("The executable is installed beside it, {}: reinstall the client, or name that file", executable.display())
        }
        Err(cause @ NotThere::Twice(..)) => format!("The executable cannot be taken either: {cause}"),
        Err(cause) => format!("The executable is missing, too: {cause}"),
    }
}

/// A file that no module can be read from.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// It cannot be read at all.
    #[error("cannot read {}: {cause}; run as the user who owns the client", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        cause: io::Error,
    },
    /// It holds none.
    #[error("{}: {cause}", path.display())]
    Container {
        /// The file.
        path: PathBuf,
        /// Why.
        cause: ContainerError,
    },
}
