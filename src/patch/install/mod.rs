/*!
Finds the client: starting from a path that the user names, or from the `PATH`, finds the one file that holds its code.

Up to 2.1.112 that is a `cli.js`, from then on an executable, which installers put in many places. `folder` has the layout of
packages and version folders, `platform` the way npm packages find their executable, `shim` the launchers, and `search_paths` the
paths of all these.
*/

mod discover;
mod error;
mod folder;
mod links;
mod package;
mod platform;
mod probe;
mod search_paths;
mod shim;

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use semver::Version;

pub use discover::{Installation, discover};
pub use error::{PlatformError, TargetError, TargetOpenError};
pub use probe::{ClientProbe, probe_client};

use super::container::{self, Container, ContainerKind, FileBytes};
use ctxbridge_client::releases::CLIENT_PACKAGE;
use package::Package;

/// Maximum size of a client in bytes; positions in modules are 32 bits wide.
const MAX_CLIENT_BYTES: u64 = 1 << 30;

/// Maximum size of a script in bytes; the last one has 14 MB. A script is read into memory.
const MAX_SCRIPT_BYTES: u64 = 64 << 20;

/// Maximum number of links and launchers that are followed; more count as a circle.
const MAX_LINKS_FOLLOWED: usize = 16;

/// The script in the client's package that starts the executable of the platform package.
const WRAPPER: &str = "cli-wrapper.cjs";

/// A file of the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The real file, absolute, with no link in its path.
    pub path: PathBuf,
    /// Kind of the file.
    pub kind: ContainerKind,
    /// The npm package it belongs to.
    pub package: Option<String>,
    /// The client's version; for the Agent SDK, the version of the client in it.
    pub version: Option<Version>,
}

fn open(path: &Path) -> io::Result<FileBytes> {
    FileBytes::of(File::open(path)?)
}

impl Target {
    /// The client that `named` leads to, or the one that the user's shell would run.
    ///
    /// # Errors
    /// If there is none.
    pub fn resolve(named: Option<&Path>) -> Result<Self, TargetError> {
        match named {
            Some(path) => Self::at(path),
            None => Self::at(links::on_path(std::env::var_os("PATH").as_deref()).first().ok_or(TargetError::NotOnPath)?),
        }
    }

    /// The client at a path: follows links and launcher scripts, and looks into package folders.
    ///
    /// # Errors
    /// If there is none.
    pub fn at(path: &Path) -> Result<Self, TargetError> {
        let (real, head) = follow(path)?;
        Self::describe(real, &head)
    }

    fn describe(path: PathBuf, head: &[u8]) -> Result<Self, TargetError> {
        if path.to_str().is_none() {
            return Err(TargetError::NotUnicode(path));
        }
        let kind = ContainerKind::of(head);
        let package = Package::around(&path)?;
        let is_exe = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("exe"));
        if is_exe && !kind.is_native() && !head.is_empty() {
            let missing = || PlatformError::Missing(vec!["the client's package for this platform".to_owned()]);
            let client = package.as_ref().filter(|package| package.name == CLIENT_PACKAGE);
            let executable = client.map_or_else(|| Err(missing()), platform::executable);
            return Err(TargetError::Placeholder { placeholder: path, executable });
        }
        let stated = match kind.is_native() {
            false => container::stated_version(head),
            // In the code, which is anywhere in the file.
            true => open(&path)
                .ok()
                .and_then(|source| Container::open("", source).ok())
                .and_then(|container| container.stated_version()),
        };
        let stated = match stated {
            Some(version) => Some((path.clone(), version)),
            None => package.as_ref().and_then(Package::client_version),
        };
        let version = match stated {
            // Of a layout that is not understood, the path may still say it.
            None => kind.is_native().then(|| package::version_in_path(&path)).flatten(),
            Some((path, version)) => match Version::parse(&version) {
                Ok(version) => Some(version),
                Err(_) => return Err(TargetError::BadVersion { path, version }),
            },
        };
        Ok(Self { kind, package: package.map(|package| package.name), version, path })
    }

    /// The file's own name, which is that of a script's one module.
    pub fn file_name(&self) -> String {
        self.path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
    }

    /// Opens the file and reads its modules.
    ///
    /// # Errors
    /// If it cannot be read, or has no module that can be read.
    pub fn open(&self) -> Result<Container, TargetOpenError> {
        let source = open(&self.path).map_err(|cause| TargetOpenError::Read { path: self.path.clone(), cause })?;
        self.container(source)
    }

    /// Reads the modules in its bytes, or in those of its original.
    ///
    /// # Errors
    /// If there is none that can be read.
    pub fn container(&self, source: FileBytes) -> Result<Container, TargetOpenError> {
        let fail = |cause| TargetOpenError::Container { path: self.path.clone(), cause };
        Container::open(&self.file_name(), source).map_err(fail)
    }

    /// The version, for people.
    pub fn version_text(&self) -> String {
        self.version.as_ref().map_or_else(|| "unknown version".to_owned(), Version::to_string)
    }
}

/// The file at the end of all links, launchers and package folders, and its first bytes.
fn follow(path: &Path) -> Result<(PathBuf, Vec<u8>), TargetError> {
    let mut current = path.to_owned();
    for _ in 0..MAX_LINKS_FOLLOWED {
        let real = links::real_path(&current)?;
        if real.is_dir() {
            current = folder::client_in(&real)?;
            continue;
        }
        let metadata = std::fs::metadata(&real).map_err(|cause| TargetError::Read { path: real.clone(), cause })?;
        // Before it is opened: a pipe would wait for somebody to write into it.
        if !metadata.is_file() {
            return Err(TargetError::NotAFile(real, "it is a pipe, a device or the like"));
        }
        if metadata.len() > MAX_CLIENT_BYTES {
            return Err(TargetError::NotAFile(real, "it is larger than a gigabyte"));
        }
        if let Some(package) = client_package_of(&real, WRAPPER)? {
            current = platform::executable(&package).map_err(|cause| TargetError::Wrapper { wrapper: real, cause })?;
            continue;
        }
        let head = head(&real)?;
        if !ContainerKind::of(&head).is_native() && metadata.len() > MAX_SCRIPT_BYTES {
            return Err(TargetError::NotAFile(real, "it is no executable, and larger than any script of the client"));
        }
        match shim::launcher_target(&real, &head) {
            Some(shim::LauncherTarget::ClientFile(next)) => current = next,
            Some(shim::LauncherTarget::Unknown { ask }) => {
                return Err(TargetError::Launcher { launcher: shim::launcher_name(&current, real), ask });
            }
            None => return Ok((real, head)),
        }
    }
    Err(TargetError::Circle(path.to_owned()))
}

/// The client's package, if this path is the file `name` in it.
fn client_package_of(path: &Path, name: &str) -> Result<Option<Package>, TargetError> {
    let Some(folder) = path.parent().filter(|_| path.file_name().is_some_and(|own| own == name)) else { return Ok(None) };
    Ok(Package::in_folder(folder)?.filter(|package| package.name == CLIENT_PACKAGE))
}

/// The first bytes of a file, enough to tell its kind.
fn head(path: &Path) -> Result<Vec<u8>, TargetError> {
    let mut head = Vec::new();
    let read = File::open(path).and_then(|file| file.take(container::INSPECTED_HEAD_BYTES as u64).read_to_end(&mut head));
    read.map(|_| head).map_err(|cause| TargetError::Read { path: path.to_owned(), cause })
}
