//! Which client the shell would run, at a glance: at most the first bytes of a file are read, and no executable is opened.

use std::ffi::OsStr;
use std::path::PathBuf;

use semver::Version;

use super::package::{self, Package};
use super::{Kind, container, follow, links};

/// A client, as far as its place and its first bytes tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Glance {
    /// The real file, absolute, with no link in its path: that of [`Target::path`](super::Target::path).
    pub path: PathBuf,
    /// The version, where the head of a script, the package or the path says it.
    pub version: Option<Version>,
}

/// The client that a shell with this `PATH` runs as `claude`; nothing when there is none, or it cannot be told.
pub fn glance(path_variable: Option<&OsStr>) -> Option<Glance> {
    let command = links::on_path(path_variable).into_iter().next()?;
    let (path, head) = follow(&command).ok()?;
    let stated = (!Kind::of(&head).is_native()).then(|| container::stated_version(&head)).flatten();
    let by_package = || Package::around(&path).ok().flatten()?.client_version().map(|(_, version)| version);
    let version = stated.or_else(by_package).and_then(|version| Version::parse(&version).ok());
    let version = version.or_else(|| package::version_in_path(&path));
    Some(Glance { path, version })
}
