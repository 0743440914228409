//! The `package.json` of the client's packages.

use std::io;
use std::path::{Path, PathBuf};

use semver::Version;
use serde::Deserialize;

use super::error::TargetError;
use ctxbridge_client::releases::{CLIENT_PACKAGE, SDK_PACKAGE};

/// Maximum number of folders above a file in which its package is looked for.
const MAX_PARENT_FOLDERS: usize = 4;

/// An npm package that carries the client.
#[derive(Debug)]
pub(super) struct Package {
    /// Its folder.
    pub folder: PathBuf,
    /// Its name, with the scope.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The client's version, which the Agent SDK states next to its own.
    client_version: Option<String>,
}

#[derive(Deserialize)]
struct PackageManifest {
    name: Option<String>,
    version: Option<String>,
    #[serde(rename = "claudeCodeVersion")]
    client_version: Option<String>,
}

impl Package {
    /// The package in this folder, if it is one of the client's.
    pub fn in_folder(folder: &Path) -> Result<Option<Self>, TargetError> {
        let file = folder.join("package.json");
        let text = match std::fs::read_to_string(&file) {
            Ok(text) => text,
            Err(cause) if matches!(cause.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => return Ok(None),
            // Somebody else's manifest may be as broken as it likes.
            Err(cause) if cause.kind() == io::ErrorKind::InvalidData => return Ok(None),
            Err(cause) => return Err(TargetError::Read { path: file, cause }),
        };
        let Ok(PackageManifest { name: Some(name), version: Some(version), client_version }) = serde_json::from_str(&text) else {
            return Ok(None);
        };
        let own = name.starts_with("@anthropic-ai/");
        Ok(own.then(|| Self { folder: folder.to_owned(), name, version, client_version }))
    }

    /// The nearest package above a file that is one of the client's.
    pub fn around(path: &Path) -> Result<Option<Self>, TargetError> {
        for folder in path.ancestors().skip(1).take(MAX_PARENT_FOLDERS) {
            if let Some(package) = Self::in_folder(folder)? {
                return Ok(Some(package));
            }
        }
        Ok(None)
    }

    /// The version of the client in it, and the file that states it. The SDK and its platform packages have versions of their own.
    pub fn client_version(&self) -> Option<(PathBuf, String)> {
        let version = if self.name.starts_with(SDK_PACKAGE) {
            self.client_version.clone()?
        } else if self.name.starts_with(CLIENT_PACKAGE) {
            self.version.clone()
        } else {
            return None;
        };
        Some((self.folder.join("package.json"), version))
    }
}

/// The version in an executable's path: installers that keep several versions name the file or its folder after the version.
pub(super) fn version_in_path(path: &Path) -> Option<Version> {
    path.ancestors().take(2).find_map(|path| Version::parse(path.file_name()?.to_str()?).ok())
}
