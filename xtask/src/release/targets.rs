//! The systems that a release is for, and the names that Rust and npm have for each.

use super::{NAME, VERSION};

/// A system that a release has a binary for.
#[derive(Debug, PartialEq, Eq)]
pub struct ReleaseTarget {
    /// Rust's name of it.
    pub triple: &'static str,
    /// Name of the system in Node.js's `process.platform` and in npm's `os`.
    pub npm_os: &'static str,
    /// Name of the processor in Node.js's `process.arch` and in npm's `cpu`.
    pub npm_cpu: &'static str,
}

/// All of them. Linux is linked with musl: such a binary needs nothing of the system, so one is enough for every distribution.
pub const TARGETS: [ReleaseTarget; 6] = [
    ReleaseTarget { triple: "x86_64-unknown-linux-musl", npm_os: "linux", npm_cpu: "x64" },
    ReleaseTarget { triple: "aarch64-unknown-linux-musl", npm_os: "linux", npm_cpu: "arm64" },
    ReleaseTarget { triple: "x86_64-apple-darwin", npm_os: "darwin", npm_cpu: "x64" },
    ReleaseTarget { triple: "aarch64-apple-darwin", npm_os: "darwin", npm_cpu: "arm64" },
    ReleaseTarget { triple: "x86_64-pc-windows-msvc", npm_os: "win32", npm_cpu: "x64" },
    ReleaseTarget { triple: "aarch64-pc-windows-msvc", npm_os: "win32", npm_cpu: "arm64" },
];

impl ReleaseTarget {
    /// Returns the target with a name of Rust's.
    pub fn named(triple: &str) -> Option<&'static Self> {
        TARGETS.iter().find(|target| target.triple == triple)
    }

    pub fn is_windows(&self) -> bool {
        self.npm_os == "win32"
    }

    /// The file name of the binary.
    pub fn binary(&self) -> &'static str {
        if self.is_windows() { "ctxbridge.exe" } else { NAME }
    }

    /// The name of the archive, without its extension, and of the folder in it.
    pub fn stem(&self) -> String {
        format!("{NAME}-{VERSION}-{}", self.triple)
    }

    /// The file name of the archive. Windows unpacks zip by itself, and all others tar.
    pub fn archive(&self) -> String {
        format!("{}.{}", self.stem(), if self.is_windows() { "zip" } else { "tar.gz" })
    }

    /// The name of npm's package with the binary.
    pub fn npm_package(&self) -> String {
        format!("@{NAME}/{}-{}", self.npm_os, self.npm_cpu)
    }
}
