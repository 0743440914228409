/*!
Where the client is: from what a user names, or has on the `PATH`, to the one file that holds its code.
*/

mod discover;
mod shim;

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use semver::Version;
use serde::Deserialize;

pub use discover::discover;

use super::container::Kind;
use crate::releases::{CLIENT_PACKAGE, SDK_PACKAGE};

/// No client is larger, in bytes; positions in modules are 32 bits wide.
const LARGEST: u64 = 1 << 30;

/// How many links and shims are followed before it counts as a circle.
const LONGEST_CHAIN: usize = 16;

/// What to do when there is no client where it was looked for.
const NAME_IT: &str = "name the client's cli.js or its package folder (`ctxbridge patch list` shows what there is)";
const RUN_AS_OWNER: &str = "run as the user who owns the client";

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

/// No client where one was looked for.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// Nothing was named, and there is no `claude` on the `PATH`.
    #[error(
        "no `claude` on the PATH; name the client: a cli.js, its package folder, or a link to it (`ctxbridge patch list` shows what there is)"
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
    /// A script that starts the client in a way that cannot be followed.
    #[error(
        "{0} is a launcher script, and the client it starts cannot be told from it; name the client's cli.js (`npm root -g` says where global packages are)"
    )]
    Shim(PathBuf),
    /// What npm installs until the package's postinstall script has put the executable there.
    #[error(
        "{0} is a placeholder: the package's postinstall script has not put the native executable in its place. ctxbridge patches releases up to 2.1.112, which are a cli.js"
    )]
    Placeholder(PathBuf),
    /// A pipe, a device, or larger than any client.
    #[error("{0} is no client: {1}; name the client's cli.js or its package folder (`ctxbridge patch list` shows what there is)")]
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

impl Target {
    /// The client that `named` leads to, or the one that the user's shell would run.
    ///
    /// # Errors
    /// When there is none.
    pub fn resolve(named: Option<&Path>) -> Result<Self, TargetError> {
        match named {
            Some(path) => Self::at(path),
            None => Self::at(&on_path(std::env::var_os("PATH").as_deref()).ok_or(TargetError::NotOnPath)?),
        }
    }

    /// The client at a path: follows links and launcher scripts, and looks into package folders.
    ///
    /// # Errors
    /// When there is none.
    pub fn at(path: &Path) -> Result<Self, TargetError> {
        let mut current = path.to_owned();
        for _ in 0..LONGEST_CHAIN {
            let real = real_path(&current)?;
            if real.is_dir() {
                current = in_folder(&real)?;
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
            let head = head(&real)?;
            match shim::leads_to(&real, &head) {
                Some(shim::Lead::To(next)) => current = next,
                Some(shim::Lead::Unknown) => return Err(TargetError::Shim(real)),
                None => return Self::describe(real, &head),
            }
        }
        Err(TargetError::Circle(path.to_owned()))
    }

    fn describe(path: PathBuf, head: &[u8]) -> Result<Self, TargetError> {
        if path.to_str().is_none() {
            return Err(TargetError::NotUnicode(path));
        }
        if path.extension().is_some_and(|extension| extension == "exe") && Kind::of(head) == Kind::Script {
            return Err(TargetError::Placeholder(path));
        }
        let package = Package::around(&path)?;
        let stated = match header_version(head) {
            Some(version) => Some((path.clone(), version)),
            // The SDK has a version of its own; without the header the client's is not known.
            None => package
                .as_ref()
                .filter(|package| package.name == CLIENT_PACKAGE)
                .map(|package| (package.file.clone(), package.version.clone())),
        };
        let version = match stated {
            None => None,
            Some((path, version)) => match Version::parse(&version) {
                Ok(version) => Some(version),
                Err(_) => return Err(TargetError::BadVersion { path, version }),
            },
        };
        Ok(Self { kind: Kind::of(head), package: package.map(|package| package.name), version, path })
    }

    /// The file's own name, which is that of a script's one module.
    pub fn file_name(&self) -> String {
        self.path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
    }

    /// The version, for people.
    pub fn version_text(&self) -> String {
        self.version.as_ref().map_or_else(|| "unknown version".to_owned(), Version::to_string)
    }
}

/// The first `claude` on a `PATH`.
fn on_path(path: Option<&OsStr>) -> Option<PathBuf> {
    let names: &[&str] = if cfg!(windows) { &["claude.exe", "claude.cmd", "claude.ps1"] } else { &["claude"] };
    let folders = std::env::split_paths(path?).collect::<Vec<_>>();
    folders
        .iter()
        .flat_map(|folder| names.iter().map(move |name| folder.join(name)))
        .find(|path| path.symlink_metadata().is_ok() && !path.is_dir())
}

fn real_path(path: &Path) -> Result<PathBuf, TargetError> {
    match path.canonicalize() {
        Ok(real) => Ok(real),
        Err(cause) if matches!(cause.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            match std::fs::read_link(path) {
                Ok(to) => Err(TargetError::Dangling { link: path.to_owned(), to }),
                Err(_) => Err(TargetError::Missing(path.to_owned())),
            }
        }
        Err(_) if is_circle(path) => Err(TargetError::Circle(path.to_owned())),
        Err(cause) => Err(TargetError::Read { path: path.to_owned(), cause }),
    }
}

/// Whether a link leads to itself in the end. The system says so with an error that Rust has no stable name for.
fn is_circle(link: &Path) -> bool {
    let mut current = link.to_owned();
    for _ in 0..LONGEST_CHAIN {
        match std::fs::read_link(&current) {
            Ok(to) => current = current.with_file_name(to),
            Err(_) => return false,
        }
    }
    true
}

/// The client in a package folder, or in a project or prefix that has the package installed.
fn in_folder(folder: &Path) -> Result<PathBuf, TargetError> {
    let mut candidates = vec!["cli.js".to_owned(), "bin/claude.exe".to_owned()];
    for root in ["", "lib/"] {
        for package in [CLIENT_PACKAGE, SDK_PACKAGE] {
            candidates.push(format!("{root}node_modules/{package}/cli.js"));
        }
    }
    let found = candidates.iter().map(|candidate| folder.join(candidate)).find(|candidate| candidate.is_file());
    found.ok_or_else(|| TargetError::NoClient { folder: folder.to_owned(), looked_for: candidates })
}

/// Enough of a file to tell what it is.
fn head(path: &Path) -> Result<Vec<u8>, TargetError> {
    const LENGTH: u64 = 16 << 10;
    let mut head = Vec::new();
    let read = File::open(path).and_then(|file| file.take(LENGTH).read_to_end(&mut head));
    read.map(|_| head).map_err(|cause| TargetError::Read { path: path.to_owned(), cause })
}

/// The version in the comment at the head of a `cli.js`.
fn header_version(head: &[u8]) -> Option<String> {
    let head = String::from_utf8_lossy(head);
    let line = head.lines().take(40).find_map(|line| line.strip_prefix("// Version: "))?;
    Some(line.trim().to_owned())
}

/// What a `package.json` says.
struct Package {
    file: PathBuf,
    name: String,
    version: String,
}

impl Package {
    /// The nearest `package.json` above a file that is one of the client's.
    fn around(path: &Path) -> Result<Option<Self>, TargetError> {
        #[derive(Deserialize)]
        struct Manifest {
            name: Option<String>,
            version: Option<String>,
        }
        for folder in path.ancestors().skip(1).take(4) {
            let file = folder.join("package.json");
            let text = match std::fs::read_to_string(&file) {
                Ok(text) => text,
                Err(cause) if cause.kind() == io::ErrorKind::NotFound => continue,
                Err(cause) => return Err(TargetError::Read { path: file, cause }),
            };
            // Somebody else's manifest may be as broken as it likes.
            if let Ok(Manifest { name: Some(name), version: Some(version) }) = serde_json::from_str(&text)
                && name.starts_with("@anthropic-ai/")
            {
                return Ok(Some(Self { file, name, version }));
            }
        }
        Ok(None)
    }
}
