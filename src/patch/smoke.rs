/*!
The smoke run: a patched client has to start before it replaces anything.

It is asked for its version, in a scratch home, with the updater off, cut off from the network and from the user's environment.
Where the patched client does not run, the original is tried the same way: if that does not run either, it is not the patch.
*/

use std::path::{Path, PathBuf};

use semver::Version;

use crate::client::{Client, ClientError};

/// A client that does not start.
#[derive(Debug, thiserror::Error)]
pub enum SmokeError {
    /// The patched one does not, the original does.
    #[error("the patched client does not start: {0}. Nothing was changed; please report this")]
    Patched(String),
    /// Not even the original starts.
    #[error(
        "the client does not start here, patched or not: {0}. Nothing was changed; see that `{1} --version` works, or use --no-smoke"
    )]
    Original(String, PathBuf),
}

/// Runs the patched client at `patched`; `original` is tried when that fails. Returns what it printed.
///
/// # Errors
/// When it does not start or says another version.
pub fn run(patched: &Path, original: &Path, version: Option<&Version>) -> Result<String, SmokeError> {
    let reason = match attempt(patched, version) {
        Ok(output) => return Ok(output),
        Err(reason) => reason,
    };
    match attempt(original, version) {
        Ok(_) => Err(SmokeError::Patched(reason)),
        Err(reason) => Err(SmokeError::Original(reason, original.to_owned())),
    }
}

fn attempt(client: &Path, version: Option<&Version>) -> Result<String, String> {
    let output =
        Client::node_script(client).and_then(|client| client.version()).map_err(|error: ClientError| error.to_string())?;
    match version {
        Some(version) if !output.contains(&version.to_string()) => Err(format!("`--version` says `{output}`, not {version}")),
        _ => Ok(output),
    }
}
