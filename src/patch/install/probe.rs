//! A quick probe for the client that the shell would run: it reads at most the first bytes of a file, and opens no executable.

use std::ffi::OsStr;
use std::path::PathBuf;

use semver::Version;

use super::package::{self, Package};
use super::{ContainerKind, container, follow, links};

/// A client, as its path and its first bytes show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientProbe {
    /// The real file, absolute, with no link in its path, as [`Target::path`](super::Target::path).
    pub path: PathBuf,
    /// The version, if the head of a script, the package or the path states it.
    pub version: Option<Version>,
}

/// The client that a shell with this `PATH` runs as `claude`; `None` if there is none, or if it is not clear.
pub fn probe_client(path_variable: Option<&OsStr>) -> Option<ClientProbe> {
    let command = links::on_path(path_variable).into_iter().next()?;
    let (path, head) = follow(&command).ok()?;
    let stated = (!ContainerKind::of(&head).is_native()).then(|| container::stated_version(&head)).flatten();
    let by_package = || Package::around(&path).ok().flatten()?.client_version().map(|(_, version)| version);
    let version = stated.or_else(by_package).and_then(|version| Version::parse(&version).ok());
    let version = version.or_else(|| package::version_in_path(&path));
    Some(ClientProbe { path, version })
}
