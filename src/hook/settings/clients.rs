//! Clients that read the settings: all installed ones except those inside the Agent SDK, which read none by default.

use std::fmt;
use std::path::{Path, PathBuf};

use semver::Version;

use ctxbridge_client::releases::SDK_PACKAGE;
use ctxbridge_patch::install::discover;

/// A client and its version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientVersion {
    /// Its file; `None` if only the version was given.
    pub path: Option<PathBuf>,
    /// The version.
    pub version: Version,
}

impl fmt::Display for ClientVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.path {
            Some(path) => write!(f, "{} ({})", path.display(), self.version),
            None => write!(f, "{}", self.version),
        }
    }
}

/// Clients on this machine that read settings.
#[derive(Debug, Default)]
pub struct Readers {
    /// Clients with a known version, in the order they were found.
    pub clients: Vec<ClientVersion>,
    /// Files with an unknown version: their supported events are unknown as well.
    pub unknown: Vec<PathBuf>,
}

impl Readers {
    /// Finds the clients that are installed for this user or in a project.
    pub fn discover(project: Option<&Path>) -> Self {
        let mut readers = Self::default();
        for installation in discover(project) {
            let Ok(client) = installation.client else {
                // Of what is no client, only that which the shell would run is worth a word.
                readers.unknown.extend(installation.on_path.then_some(installation.path));
                continue;
            };
            if is_sdk(client.package.as_deref(), &client.path) {
                continue;
            }
            match client.version {
                Some(version) => readers.clients.push(ClientVersion { path: Some(client.path), version }),
                None => readers.unknown.push(client.path),
            }
        }
        readers
    }

    /// Creates a client of which only the version is known.
    pub fn named(version: Version) -> Self {
        Self { clients: vec![ClientVersion { path: None, version }], unknown: Vec::new() }
    }
}

fn is_sdk(package: Option<&str>, path: &Path) -> bool {
    // Python's has no package.json.
    package.is_some_and(|package| package.starts_with(SDK_PACKAGE))
        || path.components().any(|part| part.as_os_str() == "claude_agent_sdk")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_agent_sdk_is_known_in_all_its_packages() {
        let bundled = Path::new("/home/a/.venv/lib/python3.12/site-packages/claude_agent_sdk/_bundled/claude");
        let other = Path::new("/usr/bin/claude");
        assert!(is_sdk(Some("@anthropic-ai/claude-agent-sdk"), other));
        assert!(is_sdk(Some("@anthropic-ai/claude-agent-sdk-linux-x64"), other));
        assert!(is_sdk(None, bundled));
        assert!(!is_sdk(Some("@anthropic-ai/claude-code"), other) && !is_sdk(None, other));
    }
}
