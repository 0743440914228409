/*!
Where the client is: from what a user names, or has on the `PATH`, to the one file that holds its code.

Up to 2.1.112 that is a `cli.js`, from then on an executable, which installers put in many places: `folder` knows how packages and
version folders are laid out, `platform` how the npm packages find their executable, `shim` what launchers start, and `places` where
all of these are installed.
*/

mod discover;
mod error;
mod folder;
mod glance;
mod links;
mod package;
mod places;
mod platform;
mod shim;

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use semver::Version;

pub use discover::{Installation, discover};
pub use error::{OpenError, TargetError};
pub use glance::{Glance, glance};
pub use platform::NotThere;

use super::container::{self, Container, Kind, Source};
use ctxbridge_client::releases::CLIENT_PACKAGE;
use package::Package;

/// No client is larger, in bytes; positions in modules are 32 bits wide.
const LARGEST: u64 = 1 << 30;

/// Nor is a script: the last one has 14 MB. It is read into memory.
const LARGEST_SCRIPT: u64 = 64 << 20;

/// How many links and shims are followed before it counts as a circle.
const LONGEST_CHAIN: usize = 16;

/// The script in the client's package that starts the executable of the platform package.
const WRAPPER: &str = "cli-wrapper.cjs";

/// A file of the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The real file, absolute, with no link in its path.
    pub path: PathBuf,
    /// What kind of file it is.
    pub kind: Kind,
    /// The npm package it belongs to.
    pub package: Option<String>,
    /// The client's version; of the Agent SDK, that of the client it carries.
    pub version: Option<Version>,
}

fn open(path: &Path) -> io::Result<Source> {
    Source::of(File::open(path)?)
}

impl Target {
    /// The client that `named` leads to, or the one that the user's shell would run.
    ///
    /// # Errors
    /// When there is none.
    pub fn resolve(named: Option<&Path>) -> Result<Self, TargetError> {
        match named {
            Some(path) => Self::at(path),
            None => Self::at(links::on_path(std::env::var_os("PATH").as_deref()).first().ok_or(TargetError::NotOnPath)?),
        }
    }

    /// The client at a path: follows links and launcher scripts, and looks into package folders.
    ///
    /// # Errors
    /// When there is none.
    pub fn at(path: &Path) -> Result<Self, TargetError> {
        let (real, head) = follow(path)?;
        Self::describe(real, &head)
    }

    fn describe(path: PathBuf, head: &[u8]) -> Result<Self, TargetError> {
        if path.to_str().is_none() {
            return Err(TargetError::NotUnicode(path));
        }
        let kind = Kind::of(head);
        let package = Package::around(&path)?;
        let is_exe = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("exe"));
        if is_exe && !kind.is_native() && !head.is_empty() {
            let missing = || platform::NotThere::Missing(vec!["the client's package for this platform".to_owned()]);
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

    /// What is in it.
    ///
    /// # Errors
    /// When it cannot be read, or holds no module that can be.
    pub fn open(&self) -> Result<Container, OpenError> {
        let source = open(&self.path).map_err(|cause| OpenError::Read { path: self.path.clone(), cause })?;
        self.container(source)
    }

    /// The modules in its bytes, or in those of its original.
    ///
    /// # Errors
    /// When there is none that can be read.
    pub fn container(&self, source: Source) -> Result<Container, OpenError> {
        let fail = |cause| OpenError::Container { path: self.path.clone(), cause };
        Container::open(&self.file_name(), source).map_err(fail)
    }

    /// The version, for people.
    pub fn version_text(&self) -> String {
        self.version.as_ref().map_or_else(|| "unknown version".to_owned(), Version::to_string)
    }
}

/// The file at the end of all links, launchers and package folders, and how it begins.
fn follow(path: &Path) -> Result<(PathBuf, Vec<u8>), TargetError> {
    let mut current = path.to_owned();
    for _ in 0..LONGEST_CHAIN {
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
        if metadata.len() > LARGEST {
            return Err(TargetError::NotAFile(real, "it is larger than a gigabyte"));
        }
        if let Some(package) = client_package_of(&real, WRAPPER)? {
            current = platform::executable(&package).map_err(|cause| TargetError::Wrapper { wrapper: real, cause })?;
            continue;
        }
        let head = head(&real)?;
        if !Kind::of(&head).is_native() && metadata.len() > LARGEST_SCRIPT {
            return Err(TargetError::NotAFile(real, "it is no executable, and larger than any script of the client"));
        }
        match shim::leads_to(&real, &head) {
            Some(shim::Lead::To(next)) => current = next,
            Some(shim::Lead::Unknown { ask }) => {
                return Err(TargetError::Launcher { launcher: shim::named(&current, real), ask });
            }
            None => return Ok((real, head)),
        }
    }
    Err(TargetError::Circle(path.to_owned()))
}

/// The client's package, if this is the file of that name in it.
fn client_package_of(path: &Path, name: &str) -> Result<Option<Package>, TargetError> {
    let Some(folder) = path.parent().filter(|_| path.file_name().is_some_and(|own| own == name)) else { return Ok(None) };
    Ok(Package::in_folder(folder)?.filter(|package| package.name == CLIENT_PACKAGE))
}

/// Enough of a file to tell what it is.
fn head(path: &Path) -> Result<Vec<u8>, TargetError> {
    let mut head = Vec::new();
    let read = File::open(path).and_then(|file| file.take(container::HEAD as u64).read_to_end(&mut head));
    read.map(|_| head).map_err(|cause| TargetError::Read { path: path.to_owned(), cause })
}
