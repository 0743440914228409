/*!
`ctxbridge demo`: one scripted conversation with a real client, before and after patching, against the stub.

The client is a copy in a temporary folder, with the journal and the backup. Nothing of the user's is touched.
*/

mod bars;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use semver::Version;

use ctxbridge_client::{Client, ClientError, ConversationLimits};
use ctxbridge_patch::inspect::without_patches;
use ctxbridge_patch::install::{Target, TargetError, TargetOpenError};
use ctxbridge_patch::swap::{self, Attributes, Ownership, SwapError};
use ctxbridge_stub::{Stub, StubError};

pub use bars::bars;

/// Number of prompts in the conversation.
pub const PROMPTS: usize = 12;
/// Characters in each prompt.
pub const PROMPT_CHARS: usize = 20_000;

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
    let metadata = fs::metadata(&copy.path);
    let fail = |cause| DemoError::Copy { from: copy.path.clone(), to: new.clone(), cause };
    let attributes = Attributes::of(&metadata.map_err(fail)?);
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

/// The prompts of the scripted conversation: each begins with its number and is [`PROMPT_CHARS`] characters long.
pub fn prompts() -> Vec<String> {
    let line = |number: usize, at: usize| format!("{at:05} worker-{number} finished job {} without an error\n", at * 7 % 1_000);
    (1..=PROMPTS)
        .map(|number| {
            let mut prompt = format!("Question {number}: what stands out in this log?\n");
            let mut at = 0;
            while prompt.len() < PROMPT_CHARS {
                prompt += &line(number, at);
                at += 1;
            }
            prompt.truncate(PROMPT_CHARS);
            prompt
        })
        .collect()
}

/// Has the conversation with a client and returns the estimated input tokens of each request.
///
/// # Errors
/// If the client does not run, breaks a rule of the API, or reports an error.
pub fn converse(client: &Target) -> Result<Vec<u64>, DemoError> {
    let stub = Stub::start()?;
    let conversation = offline(client)?.api(&stub.url()).converse(&prompts(), ConversationLimits::default())?;
    if let Some(violation) = stub.violations().first() {
        return Err(DemoError::Conversation(format!("the API would have refused a request: {violation}")));
    }
    if !conversation.is_success() {
        return Err(DemoError::Conversation(conversation.diagnostics));
    }
    Ok(stub.main_requests().iter().map(|request| request.tokens).collect())
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
