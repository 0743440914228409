/*!
Published releases of the client: which are known (`fixtures/cli-js/releases.toml`), and where the ones lie that were fetched.

Releases are fetched with `npm pack` into the cache directory, `releases/<package>/<version>/`, and unpacked there; nothing of
them is ever part of this repository.
*/

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use semver::Version;
use serde::{Deserialize, Serialize};

use crate::paths::{self, PathsError};

/// The npm package of the client.
pub const CLIENT_PACKAGE: &str = "@anthropic-ai/claude-code";
/// The npm package of the Agent SDK, which carries the client.
pub const SDK_PACKAGE: &str = "@anthropic-ai/claude-agent-sdk";

/// A release whose hash and sites are known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Release {
    /// The npm package.
    pub package: String,
    /// Its version.
    pub version: Version,
    /// The client's version, where the package has one of its own (the Agent SDK).
    pub client_version: Option<Version>,
    /// The era, see `docs/releases.md`.
    pub era: String,
    /// SHA-256 of `cli.js`.
    pub sha256: String,
    /// Size of `cli.js`.
    pub size_bytes: u64,
    /// Whether `cargo xtask test` uses it.
    #[serde(default)]
    pub tested: bool,
    /// For each site, what the metavariables stand for.
    pub sites: BTreeMap<String, BTreeMap<String, String>>,
}

impl Release {
    /// The version of the client in it.
    pub fn client_version(&self) -> &Version {
        self.client_version.as_ref().unwrap_or(&self.version)
    }
}

#[derive(Deserialize)]
struct Releases {
    release: Vec<Release>,
}

static KNOWN: LazyLock<Result<Vec<Release>, toml::de::Error>> = LazyLock::new(|| {
    toml::from_str::<Releases>(include_str!("../fixtures/cli-js/releases.toml")).map(|releases| releases.release)
});

/// Every release that is known.
pub fn known() -> &'static [Release] {
    KNOWN.as_deref().unwrap_or_default()
}

/// The known release of this package that carries this version of the client.
pub fn published(package: Option<&str>, client_version: Option<&Version>) -> Option<&'static Release> {
    let (package, version) = (package?, client_version?);
    known().iter().find(|release| release.package == package && release.client_version() == version)
}

/// A release that cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// There is no cache.
    #[error(transparent)]
    Paths(#[from] PathsError),
    /// npm is missing.
    #[error("there is no `npm` on the PATH to fetch {0} with; install Node.js with npm")]
    NoNpm(String),
    /// npm failed.
    #[error("npm could not fetch {release}: {message}. Is the registry reachable (`npm ping`)?")]
    Npm {
        /// Package and version.
        release: String,
        /// What npm said last.
        message: String,
    },
    /// The package could not be unpacked.
    #[error("cannot unpack {release} into {folder}: {cause}")]
    Unpack {
        /// Package and version.
        release: String,
        /// Where.
        folder: PathBuf,
        /// Why.
        cause: io::Error,
    },
}

/// Where a release is in the cache, fetched or not.
///
/// # Errors
/// When there is no cache directory.
pub fn folder(package: &str, version: &str) -> Result<PathBuf, PathsError> {
    let short = package.rsplit('/').next().unwrap_or(package);
    Ok(paths::cache_dir()?.join("releases").join(short).join(version).join("package"))
}

/// The package folder of a release, fetched with npm when it is not in the cache yet.
///
/// # Errors
/// When npm is missing or fails, or the package cannot be unpacked.
pub fn fetch(package: &str, version: &str) -> Result<PathBuf, FetchError> {
    let folder = folder(package, version)?;
    if folder.join("package.json").is_file() {
        return Ok(folder);
    }
    let release = format!("{package}@{version}");
    let fail = |cause| FetchError::Unpack { release: release.clone(), folder: folder.clone(), cause };
    let home = folder.parent().map_or_else(|| folder.clone(), Path::to_owned);
    paths::create_private_dir(home.parent().unwrap_or(&home)).map_err(fail)?;
    // Everything happens in a folder of its own that gets its name last: what has the name is whole.
    let work = tempfile::Builder::new().prefix(".fetch-").tempdir_in(home.parent().unwrap_or(&home)).map_err(fail)?;
    let tarball = pack(&release, work.path())?;
    unpack(&tarball, work.path()).map_err(fail)?;
    fs::remove_file(&tarball).map_err(fail)?;
    match fs::rename(work.path(), &home) {
        // Another process was faster.
        Err(_) if folder.join("package.json").is_file() => Ok(folder),
        Err(cause) => Err(fail(cause)),
        Ok(()) => Ok(folder),
    }
}

/// The newest published version of the client.
///
/// # Errors
/// When npm is missing or fails.
pub fn newest() -> Result<String, FetchError> {
    let output = npm(&["view", CLIENT_PACKAGE, "version"], Path::new("."), CLIENT_PACKAGE)?;
    Ok(output.trim().to_owned())
}

fn pack(release: &str, folder: &Path) -> Result<PathBuf, FetchError> {
    npm(&["pack", "--silent", release], folder, release)?;
    let tarballs = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok).map(|entry| entry.path());
    let tarball = tarballs.into_iter().find(|path| path.extension().is_some_and(|extension| extension == "tgz"));
    tarball.ok_or_else(|| FetchError::Npm { release: release.to_owned(), message: "it wrote no package".to_owned() })
}

fn npm(arguments: &[&str], folder: &Path, release: &str) -> Result<String, FetchError> {
    let program = if cfg!(windows) { "npm.cmd" } else { "npm" };
    let mut command = Command::new(program);
    command.args(arguments).current_dir(folder).stdin(Stdio::null());
    let output = command.output().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => FetchError::NoNpm(release.to_owned()),
        _ => FetchError::Npm { release: release.to_owned(), message: error.to_string() },
    })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    let errors: Vec<&str> = stderr.lines().filter(|line| line.starts_with("npm error")).take(3).collect();
    let message = if errors.is_empty() { stderr.trim().to_owned() } else { errors.join(" | ") };
    Err(FetchError::Npm { release: release.to_owned(), message })
}

fn unpack(tarball: &Path, folder: &Path) -> io::Result<()> {
    let file = io::BufReader::new(fs::File::open(tarball)?);
    let mut archive = tar::Archive::new(flate2::bufread::GzDecoder::new(file));
    archive.set_preserve_permissions(true);
    archive.unpack(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_readable_and_says_each_release_once() {
        let releases = KNOWN.as_ref().expect("releases.toml is valid");
        let mut seen = std::collections::BTreeSet::new();
        for release in releases {
            assert!(seen.insert((&release.package, &release.version)), "{} {} twice", release.package, release.version);
            assert_eq!(release.sha256.len(), 64, "{} {}", release.package, release.version);
        }
    }
}
