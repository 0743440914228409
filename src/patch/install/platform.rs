/*!
Platform packages: npm packages with only the executable for one operating system and processor.

The client's package and the Agent SDK have one for each platform as an optional dependency, and the package manager installs those
that fit the machine. The client's own scripts (`install.cjs`, `cli-wrapper.cjs`) look for it next to their package and nested in
it, take only their own version, and refuse to choose between two. The SDK looks wherever Node.js resolves modules. The same is done
here, so that the executable found is the one that runs.
*/

use std::path::{Path, PathBuf};

use super::error::PlatformError;
use super::package::Package;
use ctxbridge_client::releases::CLIENT_PACKAGE;
use ctxbridge_common::paths;

/// The executable that a package (the client's or the SDK's) starts on this machine.
pub(super) fn executable(package: &Package) -> Result<PathBuf, PlatformError> {
    let names = names(&package.name);
    if names.is_empty() {
        return Err(PlatformError::Unsupported);
    }
    for name in &names {
        let find = |folder: PathBuf| in_package(&folder.join(name));
        if package.name == CLIENT_PACKAGE {
            let mut same: Vec<PathBuf> = Vec::new();
            for executable in own_places(&package.folder).filter_map(find).filter_map(|found| found.of(&package.version)) {
                if !same.iter().any(|known| paths::real(known).ok() == paths::real(&executable).ok()) {
                    same.push(executable);
                }
            }
            match same.as_slice() {
                [] => {}
                [one] => return Ok(one.clone()),
                [one, other, ..] => return Err(PlatformError::Ambiguous(one.clone(), other.clone())),
            }
        }
        if let Some(found) = node_modules(&package.folder).find_map(find) {
            return Ok(found.executable);
        }
    }
    Err(PlatformError::Missing(names))
}

/// Contents of a platform package.
struct PlatformPackage {
    executable: PathBuf,
    version: Option<String>,
}

impl PlatformPackage {
    /// The executable, if the package has this version.
    fn of(self, version: &str) -> Option<PathBuf> {
        (self.version.as_deref() == Some(version)).then_some(self.executable)
    }
}

fn in_package(folder: &Path) -> Option<PlatformPackage> {
    let executable = ["claude", "claude.exe"].iter().map(|name| folder.join(name)).find(|path| path.is_file())?;
    let package = Package::in_folder(folder).ok().flatten();
    Some(PlatformPackage { executable, version: package.map(|package| package.version) })
}

/// The two folders in which the client's own scripts look: package managers install next to the package, or nested in it.
fn own_places(package: &Path) -> impl Iterator<Item = PathBuf> {
    let beside = package.ancestors().nth(2).filter(|folder| folder.file_name().is_some_and(|name| name == "node_modules"));
    beside.map(Path::to_owned).into_iter().chain([package.join("node_modules")])
}

/// The folders in which Node.js looks for a package's dependencies, the nearest first.
fn node_modules(package: &Path) -> impl Iterator<Item = PathBuf> {
    let above = package.ancestors().filter(|folder| folder.file_name().is_none_or(|name| name != "node_modules"));
    above.map(|folder| folder.join("node_modules"))
}

/// Possible names of a package's platform package on this machine, the likeliest first.
fn names(package: &str) -> Vec<String> {
    let cpu = match std::env::consts::ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        _ => return Vec::new(),
    };
    let platforms = match std::env::consts::OS {
        "linux" => {
            let (likely, other) = if is_musl() { ("-musl", "") } else { ("", "-musl") };
            vec![format!("linux-{cpu}{likely}"), format!("linux-{cpu}{other}")]
        }
        "android" => vec![format!("linux-{cpu}-android")],
        // Node.js for the other processor runs as well, and npm goes by that.
        "macos" => vec![format!("darwin-{cpu}"), format!("darwin-{}", if cpu == "x64" { "arm64" } else { "x64" })],
        "windows" => vec![format!("win32-{cpu}"), format!("win32-{}", if cpu == "x64" { "arm64" } else { "x64" })],
        _ => return Vec::new(),
    };
    platforms.iter().map(|platform| format!("{package}-{platform}")).collect()
}

/// `true` if programs here are linked against musl. A machine may have both; then Node.js uses glibc.
fn is_musl() -> bool {
    let exists = |pattern: &str| glob::glob(pattern).is_ok_and(|mut paths| paths.next().is_some());
    exists("/lib/ld-musl-*") && !exists("/lib*/ld-linux-*") && !exists("/lib/*/ld-linux-*")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Creates a package in a folder, with an executable if it is a platform package.
    fn install(folder: &Path, name: &str, version: &str) -> PathBuf {
        fs::create_dir_all(folder).expect("a folder");
        fs::write(folder.join("package.json"), format!("{{\"name\":\"{name}\",\"version\":\"{version}\"}}")).expect("writable");
        fs::write(folder.join("claude"), "\u{7f}ELF").expect("writable");
        folder.join("claude")
    }

    fn client(root: &Path) -> Package {
        let folder = root.join("node_modules/@anthropic-ai/claude-code");
        install(&folder, CLIENT_PACKAGE, "2.1.200");
        Package::in_folder(&folder).expect("readable").expect("a package")
    }

    #[test]
    fn the_executable_of_the_same_version_is_taken_beside_or_nested() {
        let root = tempfile::tempdir().expect("a temporary folder");
        let name = names(CLIENT_PACKAGE).remove(0);
        let package = client(root.path());
        assert!(matches!(executable(&package), Err(PlatformError::Missing(_))));

        let above = install(&root.path().join("node_modules").join(&name), &name, "2.1.300");
        assert_eq!(executable(&package).expect("found"), above, "Node.js would find this one");
        let nested = install(&package.folder.join("node_modules").join(&name), &name, "2.1.200");
        assert_eq!(executable(&package).expect("found"), nested);

        install(&root.path().join("node_modules").join(&name), &name, "2.1.200");
        assert!(matches!(executable(&package), Err(PlatformError::Ambiguous(..))));
    }

    #[test]
    fn one_package_reached_in_two_ways_is_one() {
        let root = tempfile::tempdir().expect("a temporary folder");
        let name = names(CLIENT_PACKAGE).remove(0);
        let package = client(root.path());
        let beside = root.path().join("node_modules").join(&name);
        install(&beside, &name, "2.1.200");
        #[cfg(unix)]
        {
            let nested = package.folder.join("node_modules").join(&name);
            fs::create_dir_all(nested.parent().expect("a folder")).expect("a folder");
            std::os::unix::fs::symlink(&beside, &nested).expect("a link");
        }
        assert!(executable(&package).is_ok());
    }
}
