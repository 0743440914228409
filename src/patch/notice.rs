/*!
A quick check that the running client is still patched, in a few milliseconds and without reading it.

It is for hooks and the statusline, which have no time for a file of 381 MB. It uses the journal, and the size and times of the
patched file. If these are not enough, there is no answer; `ctxbridge patch verify` reads the file, and records the result.
*/

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use semver::Version;

use super::attributes::FileStat;
use super::install::{ClientProbe, probe_client};
use super::journal::{ActivePatch, Journal};
use ctxbridge_client::releases::SDK_PACKAGE;

/// A client that should be patched and is not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostPatch {
    /// The client's file.
    pub path: PathBuf,
    /// Its version, if known.
    pub version: Option<Version>,
    /// The patches of the release that it is an upgrade of; `None` if it is none. An upgrade is newer and in the same place: the same
    /// file, or one whose path differs in nothing but versions. The last that the user patched or reverted in that place counts.
    pub upgraded_patches: Option<Vec<String>>,
    /// One line for the user: what happened, and what to do.
    pub text: String,
}

/// Returns the `claude` of this `PATH` if the user has patched a client, and this one has no patch: it was upgraded in place, or another
/// file came before. `None` if the user reverted it, if nothing was ever patched, or if it is not clear. Creates no file.
pub fn lost_patch(data_dir: &Path, path_variable: Option<&OsStr>) -> Option<LostPatch> {
    let journal = Journal::open_read_only(data_dir)?;
    let in_force = journal.active_patches().ok()?;
    // Most users have nothing patched, or one client.
    let newest = in_force.iter().find(|known| is_command(known))?;
    let client = probe_client(path_variable)?;
    let before = match in_force.iter().find(|known| known.path == client.path) {
        Some(own) if seems_patched(&journal, own) == Some(false) => own,
        Some(_) => return None,
        None if journal.is_reverted(&client.path).ok()? => return None,
        None => newest,
    };
    let version = client.version.as_ref().map(|version| format!(" {version}")).unwrap_or_default();
    let was = before.version.as_ref().map(|version| format!(" ({version} was)")).unwrap_or_default();
    let text = format!(
        "ctxbridge: Claude Code{version} is not patched{was}; run `ctxbridge patch apply` (`ctxbridge config set patch.keep true` does that from now on)"
    );
    let upgraded_patches = upgraded_patches(&journal, &client);
    Some(LostPatch { path: client.path, version: client.version, upgraded_patches, text })
}

/// The patches of the release that a client is an upgrade of; see [`LostPatch::upgraded_patches`].
fn upgraded_patches(journal: &Journal, client: &ClientProbe) -> Option<Vec<String>> {
    let place = without_versions(&client.path);
    let (_, before) = journal.last_patches().ok()?.into_iter().find(|(path, _)| without_versions(path) == place)?;
    let before = before?;
    let was = before.version.and_then(|version| Version::parse(&version).ok())?;
    (client.version.as_ref()? > &was).then_some(before.patches)
}

/// A path with all versions in it taken out. Installers that keep several releases have them in folders or files with such names.
fn without_versions(path: &Path) -> PathBuf {
    path.iter()
        .map(|part| if part.to_str().is_some_and(|part| Version::parse(part).is_ok()) { OsStr::new("*") } else { part })
        .collect()
}

/// `true` if the client that runs is patched; `None` if that is not clear. This is about the `claude` of this `PATH` or, if that
/// has another version than `running`, about the file that was patched at that version. Creates no file.
pub fn quick_state(data_dir: &Path, path_variable: Option<&OsStr>, running: Option<&str>) -> Option<bool> {
    if !data_dir.join("state.db").exists() {
        return Some(false);
    }
    let journal = Journal::open_read_only(data_dir)?;
    let in_force = journal.active_patches().ok()?;
    let client = probe_client(path_variable);
    let version = client.as_ref().and_then(|client| client.version.as_ref()).map(ToString::to_string);
    // An updater has put a newer version on the PATH while the old one still runs.
    let is_other = running.is_some() && version.is_some() && version.as_deref() != running;
    let own = match client {
        Some(client) if !is_other => in_force.iter().find(|known| known.path == client.path),
        _ => in_force.iter().find(|known| known.version.is_some() && known.version.as_deref() == running),
    };
    own.map_or(Some(false), |own| seems_patched(&journal, own))
}

/// `true` if the patched client is a command of the user's. The Agent SDK and the editors have clients of their own; a patch of one
/// of those says nothing about `claude`.
fn is_command(known: &ActivePatch) -> bool {
    let of_sdk = known.package.as_deref().is_some_and(|package| package.starts_with(SDK_PACKAGE));
    let of_editor = known.path.iter().any(|part| part.to_string_lossy().starts_with("anthropic.claude-code-"));
    !of_sdk && !of_editor
}

/// `true` if the file is the one that was written there; `None` if that is not clear.
fn seems_patched(journal: &Journal, known: &ActivePatch) -> Option<bool> {
    let now = match FileStat::at(&known.path) {
        Ok(stat) => stat.fingerprint(),
        Err(error) => return (error.kind() == io::ErrorKind::NotFound).then_some(false),
    };
    match journal.known_hash(&known.path, &now).ok()? {
        Some(hash) => Some(hash == known.patched_sha256),
        None => known.placed.map(|placed| placed.resembles(&now)),
    }
}
