//! Finds the client in a folder: a package, an editor extension, a version, or a folder with one of these.

use std::path::{Path, PathBuf};

use semver::Version;

use super::error::PlatformError;
use super::error::TargetError;
use super::package::Package;
use super::platform;
use ctxbridge_client::releases::{CLIENT_PACKAGE, SDK_PACKAGE};

/// Paths of the client in the folder of a package or an extension.
const FILES: &[&str] = &[
    "cli.js",
    "bin/claude.exe",
    "resources/native-binary/claude",
    "resources/native-binary/claude.exe",
    "resources/claude-code/cli.js",
];

/// Names of an executable that is not in a package.
const EXECUTABLES: &[&str] = &["claude", "claude.exe", "claude.app/Contents/MacOS/claude"];

/// The client in a folder, or a folder in it where the search continues.
pub(super) fn client_in(folder: &Path) -> Result<PathBuf, TargetError> {
    if let Some(file) = first_file(folder, FILES) {
        return Ok(file);
    }
    if let Some(package) = Package::in_folder(folder)?.filter(|package| [CLIENT_PACKAGE, SDK_PACKAGE].contains(&&*package.name)) {
        return platform::executable(&package).map_err(|cause| match cause {
            PlatformError::Missing(names) => {
                let looked_for = FILES[..2].iter().map(|name| (*name).to_owned()).chain(names).collect();
                TargetError::NoClient { folder: folder.to_owned(), looked_for }
            }
            cause => TargetError::Wrapper { wrapper: folder.to_owned(), cause },
        });
    }
    let mut looked_for: Vec<String> = FILES.iter().map(|name| (*name).to_owned()).collect();
    for root in ["", "lib/"] {
        for package in [CLIENT_PACKAGE, SDK_PACKAGE] {
            let installed = format!("{root}node_modules/{package}");
            if folder.join(&installed).is_dir() {
                return Ok(folder.join(installed));
            }
            looked_for.push(installed);
        }
    }
    if let Some(file) = first_file(folder, EXECUTABLES) {
        return Ok(file);
    }
    looked_for.extend(EXECUTABLES.iter().map(|name| (*name).to_owned()));
    // The native installer's folder has its versions one level further down.
    let versions =
        [folder.to_owned(), folder.join("versions")].iter().map(|folder| versions_in(folder)).find(|found| !found.is_empty());
    looked_for.push("an executable named after its version".to_owned());
    match versions.unwrap_or_default() {
        found if found.is_empty() => Err(TargetError::NoClient { folder: folder.to_owned(), looked_for }),
        mut found if found.len() == 1 => Ok(found.remove(0)),
        found => Err(TargetError::Several { folder: folder.to_owned(), found }),
    }
}

/// The executables in a folder that has one for each version, the oldest first.
fn versions_in(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let mut found: Vec<(Version, PathBuf)> = entries
        .filter_map(|entry| {
            let version = Version::parse(entry.file_name().to_str()?).ok()?;
            let path = entry.path();
            let file = if path.is_file() { path } else { first_file(&path, EXECUTABLES)? };
            Some((version, file))
        })
        .collect();
    found.sort();
    found.into_iter().map(|(_, file)| file).collect()
}

fn first_file(folder: &Path, names: &[&str]) -> Option<PathBuf> {
    names.iter().map(|name| folder.join(name)).find(|file| file.is_file())
}
