/*!
Published releases of the client: the list of known ones (`fixtures/cli-js/releases.toml`), and the cache of fetched ones.

Releases are fetched with `npm pack` into the cache directory, `releases/<package>/<version>/`, and unpacked there. No part of
them is ever in this repository. Up to 2.1.112 the client is a `cli.js`. Since 2.1.110 there is a package for each platform, with
an executable of 200 to 400 MB; since 2.1.113 there is no `cli.js` any more.
*/

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;
use std::time::SystemTime;

use semver::Version;
use serde::{Deserialize, Serialize};

use ctxbridge_common::paths::{self, PathsError};

/// The npm package of the client.
pub const CLIENT_PACKAGE: &str = "@anthropic-ai/claude-code";
/// The npm package of the Agent SDK, which carries the client.
pub const SDK_PACKAGE: &str = "@anthropic-ai/claude-agent-sdk";

/// The first release whose package holds no `cli.js` any more.
const FIRST_NATIVE: Version = Version::new(2, 1, 113);

/// The npm package with the executable for this machine.
///
/// # Errors
/// The machine's name, if nothing is published for it.
pub fn native_package() -> Result<String, FetchError> {
    let system = match std::env::consts::OS {
        "linux" => "linux",
        "macos" => "darwin",
        "windows" => "win32",
        other => return Err(FetchError::NoPlatform(other.to_owned())),
    };
    let processor = match std::env::consts::ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        other => return Err(FetchError::NoPlatform(format!("{system} on {other}"))),
    };
    // Our own build says nothing about the system: one for musl runs everywhere.
    let musl = ["/lib/ld-musl-x86_64.so.1", "/lib/ld-musl-aarch64.so.1"].iter().any(|loader| Path::new(loader).exists());
    let glibc = ["/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1"].iter().any(|loader| Path::new(loader).exists());
    let library = if system == "linux" && musl && !glibc { "-musl" } else { "" };
    Ok(format!("{CLIENT_PACKAGE}-{system}-{processor}{library}"))
}

/// The file of a package that is the client.
pub fn client_file(package: &str) -> &'static str {
    let platform = [CLIENT_PACKAGE, SDK_PACKAGE].into_iter().find_map(|own| package.strip_prefix(own));
    match platform {
        Some(platform) if platform.starts_with("-win32") => "claude.exe",
        Some(platform) if platform.starts_with('-') => "claude",
        _ => "cli.js",
    }
}

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
    /// SHA-256 of `cli.js`, or of the executable.
    pub sha256: String,
    /// Size of that file.
    pub size_bytes: u64,
    /// `true` if `cargo xtask test` uses it.
    #[serde(default)]
    pub tested: bool,
    /// The values of the metavariables, by site.
    pub sites: BTreeMap<String, BTreeMap<String, String>>,
}

impl Release {
    /// `true` if it is an executable.
    pub fn is_native(&self) -> bool {
        client_file(&self.package) != "cli.js"
    }

    /// The path of its client, fetched with npm if it is not in the cache yet.
    ///
    /// # Errors
    /// See [`fetch`].
    pub fn fetch(&self) -> Result<PathBuf, FetchError> {
        Ok(fetch(&self.package, &self.version.to_string())?.join(client_file(&self.package)))
    }

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
    toml::from_str::<Releases>(include_str!("../../fixtures/cli-js/releases.toml")).map(|releases| releases.release)
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

/// `true` if a file with this hash was published as a client.
pub fn is_published(sha256: &str) -> bool {
    known().iter().any(|release| release.sha256 == sha256)
}

/// Errors from fetching a release.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// There is no cache.
    #[error(transparent)]
    Paths(#[from] PathsError),
    /// Nothing is published for this machine.
    #[error("no executable of the client is published for {0}")]
    NoPlatform(String),
    /// npm is missing.
    #[error("there is no `npm` on the PATH to fetch {0} with; install Node.js with npm")]
    NoNpm(String),
    /// npm failed.
    #[error("npm could not fetch {release}: {message}; see that the registry is reachable (`npm ping`)")]
    Npm {
        /// Package and version.
        release: String,
        /// The last line that npm printed.
        message: String,
    },
    /// The package could not be unpacked.
    #[error("cannot unpack {release} into {folder}: {cause}")]
    Unpack {
        /// Package and version.
        release: String,
        /// The folder to unpack into.
        folder: PathBuf,
        /// The cause.
        cause: io::Error,
    },
}

/// The folder of a release in the cache, fetched or not.
///
/// # Errors
/// If there is no cache directory.
pub fn folder(package: &str, version: &str) -> Result<PathBuf, PathsError> {
    let short = package.rsplit('/').next().unwrap_or(package);
    Ok(paths::cache_dir()?.join("releases").join(short).join(version).join("package"))
}

/// The package folder of a release, fetched with npm if it is not in the cache yet.
///
/// # Errors
/// If npm is missing or fails, or the package cannot be unpacked.
pub fn fetch(package: &str, version: &str) -> Result<PathBuf, FetchError> {
    let folder = folder(package, version)?;
    if folder.join("package.json").is_file() {
        touch(&folder);
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

/// The client of a release for this machine: a `cli.js` up to 2.1.112, an executable from then on.
///
/// # Errors
/// See [`fetch`].
pub fn fetch_client(version: &str) -> Result<PathBuf, FetchError> {
    let native = Version::parse(version).is_ok_and(|version| version >= FIRST_NATIVE);
    let package = if native { native_package()? } else { CLIENT_PACKAGE.to_owned() };
    Ok(fetch(&package, version)?.join(client_file(&package)))
}

/// The newest release of the client in the cache, if there is one.
pub fn newest_cached() -> Option<String> {
    let packages = [native_package().ok()?, CLIENT_PACKAGE.to_owned()];
    let versions = packages.iter().flat_map(|package| {
        let all = paths::cache_path().map(|cache| cache.join("releases").join(package.rsplit('/').next().unwrap_or(package)));
        let folders = all.ok().and_then(|folder| entries(&folder).ok()).unwrap_or_default();
        folders.into_iter().filter(|folder| folder.join("package").join(client_file(package)).is_file())
    });
    let version = |folder: PathBuf| Version::parse(folder.file_name()?.to_str()?).ok();
    versions.filter_map(version).max().map(|version| version.to_string())
}

/// Records that a release in the cache was used. A failure to do so is ignored.
fn touch(folder: &Path) {
    fs::File::open(folder).and_then(|folder| folder.set_modified(SystemTime::now())).ok();
}

/// Removes the least recently used fetched executables until the rest take at most `budget` bytes. Those in `kept` always stay.
/// Returns the removed ones.
///
/// # Errors
/// If the cache cannot be read or a release cannot be removed.
pub fn evict_executables(budget: u64, kept: &[PathBuf]) -> io::Result<Vec<PathBuf>> {
    let releases = paths::cache_dir().map_err(io::Error::other)?.join("releases");
    let mut clients = Vec::new();
    for package in entries(&releases)? {
        let name = package.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let file = client_file(&format!("@anthropic-ai/{name}"));
        if file == "cli.js" {
            continue;
        }
        for version in entries(&package)? {
            let folder = version.join("package");
            if let Ok(client) = folder.join(file).metadata() {
                clients.push((folder.metadata()?.modified()?, client.len(), version, folder.join(file)));
            }
        }
    }
    clients.sort();
    let mut total: u64 = clients.iter().map(|(_, size, ..)| size).sum();
    let mut removed = Vec::new();
    for (_, size, version, client) in clients {
        if total > budget && !kept.contains(&client) {
            fs::remove_dir_all(&version)?;
            total -= size;
            removed.push(client);
        }
    }
    Ok(removed)
}

fn entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    match fs::read_dir(folder) {
        Ok(entries) => entries.map(|entry| Ok(entry?.path())).collect(),
        Err(error) if [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory].contains(&error.kind()) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// The newest published version of the client.
///
/// # Errors
/// If npm is missing or fails.
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
    // Offline, npm would try again for more than a minute before it says so.
    command.env("npm_config_fetch_retries", "1").env("npm_config_fetch_retry_maxtimeout", "2000");
    command.env("npm_config_fetch_retry_mintimeout", "500");
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
