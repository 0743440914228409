//! Errors from looking for a client, with advice.

use std::io;
use std::path::{Path, PathBuf};

use crate::container::ContainerError;

/// Errors from looking for the executable of a package.
#[derive(Debug, thiserror::Error)]
pub enum PlatformError {
    /// None of these is installed; the first is the one that belongs to this machine.
    #[error("{} is not installed; reinstall the client without `--ignore-scripts` and `--omit=optional`", .0.first().map_or("it", String::as_str))]
    Missing(Vec<String>),
    /// There are two, and the client's scripts refuse to choose.
    #[error("{0} and {1} are the same package, so neither is used; remove one of them, or name the one you mean")]
    Ambiguous(PathBuf, PathBuf),
    /// No executable is made for this kind of machine.
    #[error("there is none for this platform")]
    Unsupported,
}

/// Advice if there is no client where it was looked for.
const NAME_IT: &str =
    "name the client's executable, its cli.js or its package folder (`ctxbridge patch list` shows what there is)";
const RUN_AS_OWNER: &str = "run as the user who owns the client";

/// Errors from looking for a client.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// Nothing was named, and there is no `claude` on the `PATH`.
    #[error(
        "no `claude` on the PATH; install Claude Code, or name the client: its executable or cli.js, its package folder, or a link to one of them (`ctxbridge patch list` looks in other places, too)"
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
        /// The target of the link.
        to: PathBuf,
    },
    /// Links and launchers that lead in a circle.
    #[error("{0} leads in a circle of links; reinstall the client, or {NAME_IT}")]
    Circle(PathBuf),
    /// A folder without a client.
    #[error("no client in {folder}: looked for {}; {NAME_IT}", looked_for.join(", "))]
    NoClient {
        /// The folder.
        folder: PathBuf,
        /// The files that would have been one.
        looked_for: Vec<String>,
    },
    /// A folder with clients of several versions; the intended one is not clear.
    #[error("{} clients in {folder}; name one of them: {}", found.len(), joined(found))]
    Several {
        /// The folder.
        folder: PathBuf,
        /// The clients, the oldest first.
        found: Vec<PathBuf>,
    },
    /// A launcher that decides at run time which client it starts.
    #[error(
        "{launcher} is a launcher that does not reveal which client it starts; name the client's executable or cli.js (`{ask}` says where to look)"
    )]
    Launcher {
        /// The launcher.
        launcher: PathBuf,
        /// The command that prints the client's place.
        ask: &'static str,
    },
    /// The script that starts the executable of another package, without that package.
    #[error("{wrapper} starts the executable of another package: {cause}")]
    Wrapper {
        /// The script.
        wrapper: PathBuf,
        /// The reason why the executable is not found.
        cause: PlatformError,
    },
    /// A placeholder that npm installs; the package's postinstall script replaces it by the executable.
    #[error(
        "{placeholder} is a placeholder: the package's postinstall script, which puts the native executable in its place, has not run. {}",
        next_step(placeholder, executable)
    )]
    Placeholder {
        /// The file.
        placeholder: PathBuf,
        /// The executable that belongs there.
        executable: Result<PathBuf, PlatformError>,
    },
    /// A pipe, a device, or larger than any client.
    #[error("{0} is not a Claude Code client: {1}; {NAME_IT}")]
    NotAFile(PathBuf, &'static str),
    /// A path that is not Unicode: the journal and JSON store paths as text.
    #[error("the path {} is not Unicode; rename the folder that is not", .0.display())]
    NotUnicode(PathBuf),
    /// The version is invalid.
    #[error("{path} gives its version as `{version}`, which is not a version number; reinstall the client")]
    BadVersion {
        /// The file that states it.
        path: PathBuf,
        /// The text of the version.
        version: String,
    },
    /// A file cannot be read.
    #[error("cannot read {path}: {cause}; {}", if cause.kind() == io::ErrorKind::PermissionDenied { RUN_AS_OWNER } else { NAME_IT })]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        cause: io::Error,
    },
}

impl TargetError {
    /// The file or folder that has the problem.
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

/// Advice for a placeholder: the postinstall script only copies an executable that is installed already.
fn next_step(placeholder: &Path, executable: &Result<PathBuf, PlatformError>) -> String {
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
        Err(cause @ PlatformError::Ambiguous(..)) => format!("The executable cannot be taken either: {cause}"),
        Err(cause) => format!("The executable is missing, too: {cause}"),
    }
}

/// Errors from reading the modules of a file.
#[derive(Debug, thiserror::Error)]
pub enum TargetOpenError {
    /// The file cannot be read.
    #[error("cannot read {}: {cause}; run as the user who owns the client", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        cause: io::Error,
    },
    /// It has no module that can be read.
    #[error("{}: {cause}", path.display())]
    Container {
        /// The file.
        path: PathBuf,
        /// The cause.
        cause: ContainerError,
    },
}
