//! A release of a stand-in, a shell script in place of the program: nothing here needs the real one to be built.

mod archives;
#[cfg(unix)]
mod installer;
mod manifests;
#[cfg(unix)]
mod npm;

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::finish::finish;
use super::pack::pack;
use super::targets::{ReleaseTarget, TARGETS};
use super::{Archives, VERSION};

/// Does what its first argument says. The second line differs for each system, and so do the checksums.
const STAND_IN: &str = r#"
case "$1" in
    --version) echo "ctxbridge VERSION" ;;
    say) shift; printf '[%s]' "$@" ;;
    exit) exit "$2" ;;
    die) kill -s "$2" $$ ;;
    wait) trap 'exit 42' HUP INT TERM; : >"$2"; while :; do sleep 0.02; done ;;
esac
"#;

/// A folder with archives, and what `finish` writes.
struct Release {
    folder: TempDir,
}

impl Release {
    /// Packs the stand-in for some systems.
    fn packed(targets: &[ReleaseTarget]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for target in targets {
            let binary = stand_in(folder.path(), target.triple);
            pack(target, &binary, folder.path()).unwrap();
            fs::remove_file(binary).unwrap();
        }
        Self { folder }
    }

    fn finished(targets: &[ReleaseTarget], url: Option<&str>) -> Self {
        let release = Self::packed(targets);
        let is_partial = targets.len() < TARGETS.len();
        finish(&Archives::read(release.path(), is_partial).unwrap(), url).unwrap();
        release
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path().join(name)).unwrap()
    }

    fn sha256(&self, target: &ReleaseTarget) -> String {
        ctxbridge::common::digest::of_file(&self.path().join(target.archive())).unwrap()
    }
}

/// Writes the stand-in, and returns its path.
fn stand_in(folder: &Path, comment: &str) -> PathBuf {
    let path = folder.join("stand-in");
    fs::write(&path, format!("#!/bin/sh\n# {comment}{}", STAND_IN.replace("VERSION", VERSION))).unwrap();
    path
}

/// The system that the tests run on.
#[cfg(unix)]
fn host() -> &'static ReleaseTarget {
    let os = if cfg!(target_os = "macos") { "darwin" } else { std::env::consts::OS };
    let cpu = if cfg!(target_arch = "aarch64") { "arm64" } else { "x64" };
    TARGETS.iter().find(|target| (target.npm_os, target.npm_cpu) == (os, cpu)).unwrap()
}

/// All files below a folder, without the folder itself.
#[cfg(unix)]
fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        found.push(path.clone());
        if path.is_dir() {
            found.extend(files_below(&path));
        }
    }
    found
}
