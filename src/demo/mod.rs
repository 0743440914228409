/*!
`ctxbridge demo`: one scripted conversation with a real client, without ctxbridge and with it, against the stub.

The client is a copy in a temporary folder, with the journal and the backup. Nothing of the user's is touched.
*/

mod conversation;
mod model;
mod window;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use semver::Version;

use ctxbridge_client::{Client, ClientError};
use ctxbridge_patch::attributes::FileStat;
use ctxbridge_patch::inspect::without_patches;
use ctxbridge_patch::install::{Target, TargetError, TargetOpenError};
use ctxbridge_patch::swap::{self, Ownership, SwapError};
use ctxbridge_stub::StubError;

pub use conversation::{DemoConversation, LOGS, Memory, WINDOW_TOKENS, converse};
pub use model::{Answer, AnswerSource, ERROR, MIGRATE, MIGRATION_ANSWER, QUESTION};
pub use window::window;

/// Errors from running the demo.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// The copy could not be made.
    #[error("cannot copy {from} to {to}: {cause}")]
    Copy {
        /// The client.
        from: PathBuf,
        /// The copy.
        to: PathBuf,
        /// The cause.
        cause: io::Error,
    },
    /// The stub did not start.
    #[error(transparent)]
    Stub(#[from] StubError),
    /// The client did not run.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// There is no client to copy.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// The copy cannot be read.
    #[error(transparent)]
    Open(#[from] TargetOpenError),
    /// The patch could not be taken out of the copy.
    #[error(transparent)]
    Swap(#[from] SwapError),
    /// The hooks were not installed in the scratch home.
    #[error("cannot install the hooks in the scratch home: {0}")]
    Hooks(String),
    /// The conversation did not end well.
    #[error("the conversation did not end well: {0}")]
    Conversation(String),
}

/// Makes an unpatched copy of a client in `folder`. A `cli.js` is copied with its package. The files in subfolders of the package
/// (search tools of 30 MB) are linked where the file system allows, since nobody writes to them.
///
/// # Errors
/// If something cannot be copied.
pub fn copy_client(client: &Target, folder: &Path) -> Result<PathBuf, DemoError> {
    let copy = folder.join(client.file_name());
    if client.kind.is_native() {
        let fail = |cause| DemoError::Copy { from: client.path.clone(), to: copy.clone(), cause };
        fs::create_dir_all(folder).map_err(fail)?;
        fs::copy(&client.path, &copy).map_err(fail)?;
    } else {
        copy_folder(client.path.parent().unwrap_or(Path::new(".")), folder, false)?;
    }
    take_patch_out(&Target::at(&copy)?)?;
    Ok(copy)
}

/// Removes our patch from the copy, if it has one: the demo starts with an unpatched client.
fn take_patch_out(copy: &Target) -> Result<(), DemoError> {
    let container = copy.open()?;
    let restored = without_patches(&container).unwrap_or_default();
    if restored.is_empty() {
        return Ok(());
    }
    let pieces = container.rewrite(&restored).and_then(|pieces| container.finish(pieces));
    let pieces = pieces.map_err(|cause| TargetOpenError::Container { path: copy.path.clone(), cause })?;
    let new = swap::temporary_name(&copy.path);
    let fail = |cause| DemoError::Copy { from: copy.path.clone(), to: new.clone(), cause };
    let attributes = FileStat::at(&copy.path).map_err(fail)?.attributes();
    swap::write(&new, &pieces, container.source(), Ownership::Like(&attributes))?;
    drop(container);
    Ok(swap::replace(&copy.path, &new)?)
}

fn copy_folder(from: &Path, to: &Path, link: bool) -> Result<(), DemoError> {
    let fail = |cause| DemoError::Copy { from: from.to_owned(), to: to.to_owned(), cause };
    fs::create_dir_all(to).map_err(fail)?;
    for entry in fs::read_dir(from).map_err(fail)? {
        let entry = entry.map_err(fail)?;
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_folder(&entry.path(), &target, true)?;
        } else if !(link && fs::hard_link(entry.path(), &target).is_ok()) {
            fs::copy(entry.path(), &target).map_err(fail)?;
        }
    }
    Ok(())
}

/// Returns a client to run, cut off from the network as far as its release allows.
///
/// # Errors
/// If no scratch home can be made.
pub fn offline(target: &Target) -> Result<Client, ClientError> {
    let client = Client::installed(target.kind.is_native(), &target.path)?;
    Ok(match &target.version {
        Some(version) if *version < Version::new(1, 0, 100) => client.without_dead_proxy(),
        _ => client,
    })
}
