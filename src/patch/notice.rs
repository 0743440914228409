/*!
Whether the client that runs is still patched, told in a few milliseconds and without reading it.

This is for hooks and the statusline, which have no time for a file of 381 MB. They go by the journal, and by the size and times of the
file that was put in place. What these cannot tell is not told; `ctxbridge patch verify` reads the file, and remembers what it found.
*/

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use semver::Version;

use super::install::glance;
use super::journal::{InForce, Journal};
use super::swap::Fingerprint;
use ctxbridge_client::releases::SDK_PACKAGE;

/// A client that ought to be patched and is not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// The client's file.
    pub path: PathBuf,
    /// Its version, where that is known.
    pub version: Option<Version>,
    /// One line for the user: what happened, and what to do.
    pub text: String,
}

/// Whether the user has patched a client, and the `claude` of this `PATH` has lost that: it was upgraded in place, or a newer file
/// was installed beside it. Nothing when the user undid it, when nothing was ever patched, or when it cannot be told. Creates nothing.
pub fn lost_patch(data_dir: &Path, path_variable: Option<&OsStr>) -> Option<Notice> {
    let journal = Journal::glance(data_dir)?;
    let in_force = journal.in_force().ok()?;
    // Most users have nothing patched, or one client.
    let newest = in_force.iter().find(|known| is_command(known))?;
    let client = glance(path_variable)?;
    let before = match in_force.iter().find(|known| known.path == client.path) {
        Some(own) if seems_patched(&journal, own) == Some(false) => own,
        Some(_) => return None,
        None if journal.is_reverted(&client.path).ok()? => return None,
        None => newest,
    };
    let version = client.version.as_ref().map(|version| format!(" {version}")).unwrap_or_default();
    let was = before.version.as_ref().map(|version| format!(" ({version} was)")).unwrap_or_default();
    let text = format!("ctxbridge: Claude Code{version} is not patched{was}; run `ctxbridge patch apply`");
    Some(Notice { path: client.path, version: client.version, text })
}

/// Whether the client that runs is patched, where that can be told: the `claude` of this `PATH`, or, when that has another version than
/// the one that is `running`, what was patched at that version. Creates nothing.
pub fn quick_state(data_dir: &Path, path_variable: Option<&OsStr>, running: Option<&str>) -> Option<bool> {
    if !data_dir.join("state.db").exists() {
        return Some(false);
    }
    let journal = Journal::glance(data_dir)?;
    let in_force = journal.in_force().ok()?;
    let client = glance(path_variable);
    let version = client.as_ref().and_then(|client| client.version.as_ref()).map(ToString::to_string);
    // An updater has put a newer version on the PATH while the old one still runs.
    let is_other = running.is_some() && version.is_some() && version.as_deref() != running;
    let own = match client {
        Some(client) if !is_other => in_force.iter().find(|known| known.path == client.path),
        _ => in_force.iter().find(|known| known.version.is_some() && known.version.as_deref() == running),
    };
    own.map_or(Some(false), |own| seems_patched(&journal, own))
}

/// Whether what was patched is a command of the user's: the agent SDK and the editors bring clients of their own, and that one of
/// those was patched says nothing about `claude`.
fn is_command(known: &InForce) -> bool {
    let of_sdk = known.package.as_deref().is_some_and(|package| package.starts_with(SDK_PACKAGE));
    let of_editor = known.path.iter().any(|part| part.to_string_lossy().starts_with("anthropic.claude-code-"));
    !of_sdk && !of_editor
}

/// Whether a file is what was put in its place; nothing when that cannot be told.
fn seems_patched(journal: &Journal, known: &InForce) -> Option<bool> {
    let metadata = match fs::metadata(&known.path) {
        Ok(metadata) => metadata,
        Err(error) => return (error.kind() == io::ErrorKind::NotFound).then_some(false),
    };
    let now = Fingerprint::of(&metadata);
    match journal.known_hash(&known.path, &now).ok()? {
        Some(hash) => Some(hash == known.patched_sha256),
        None => known.placed.map(|placed| placed.resembles(&now)),
    }
}
