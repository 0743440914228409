/*!
What `ctxbridge demo` shows: one scripted conversation with a real client, before and after patching, against the stub.

The client is a copy in a temporary folder, the journal and the backup are there too; nothing of the user's is touched.
*/

mod bars;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use semver::Version;

use crate::client::{Client, ClientError, Limits};
use crate::patch::marker;
use crate::stub::{Stub, StubError};

pub use bars::bars;

/// The release that the demo fetches: the last one that is a `cli.js`.
pub const RELEASE: &str = "2.1.112";
/// Prompts in the conversation.
pub const PROMPTS: usize = 8;
/// Characters in each prompt.
pub const PROMPT_CHARS: usize = 20_000;

/// A demo that could not be shown.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// The copy could not be made.
    #[error("cannot copy {from} to {to}: {cause}")]
    Copy {
        /// The client.
        from: PathBuf,
        /// The copy.
        to: PathBuf,
        /// Why.
        cause: io::Error,
    },
    /// The stub did not start.
    #[error(transparent)]
    Stub(#[from] StubError),
    /// The client did not run.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The conversation did not end well.
    #[error("the conversation did not end well: {0}")]
    Conversation(String),
}

/// An unpatched copy of the package that holds `cli_js`, in `folder`; returns the copied `cli.js`. What lies in folders of the package (search
/// tools of 30 MB) is linked where the file system allows, since nobody writes to it.
///
/// # Errors
/// When something cannot be copied.
pub fn copy_client(cli_js: &Path, folder: &Path) -> Result<PathBuf, DemoError> {
    let package = cli_js.parent().unwrap_or(Path::new("."));
    copy_folder(package, folder, false)?;
    let copy = folder.join(cli_js.file_name().unwrap_or("cli.js".as_ref()));
    take_patch_out(&copy)?;
    Ok(copy)
}

/// The demo begins with an unpatched client: where the one that was copied carries our patch, the copy does not.
fn take_patch_out(cli_js: &Path) -> Result<(), DemoError> {
    let fail = |cause| DemoError::Copy { from: cli_js.to_owned(), to: cli_js.to_owned(), cause };
    let bytes = fs::read(cli_js).map_err(fail)?;
    let text = std::str::from_utf8(&bytes).unwrap_or_default();
    let markers = marker::find(text);
    match marker::undo(text, &markers) {
        Some(original) if !markers.is_empty() => fs::write(cli_js, original).map_err(fail),
        _ => Ok(()),
    }
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

/// Has the conversation with the client at `cli_js` and returns the estimated input tokens of each request.
///
/// # Errors
/// When the client does not run, breaks a rule of the API, or reports an error.
pub fn converse(cli_js: &Path, version: Option<&Version>) -> Result<Vec<u64>, DemoError> {
    let stub = Stub::start()?;
    let conversation = offline(Client::node_script(cli_js)?, version).api(&stub.url()).converse(&prompts(), Limits::default())?;
    if let Some(violation) = stub.violations().first() {
        return Err(DemoError::Conversation(format!("the API would have refused a request: {violation}")));
    }
    if !conversation.ended_well() {
        return Err(DemoError::Conversation(conversation.diagnostics));
    }
    Ok(stub.main_requests().iter().map(|request| request.tokens).collect())
}

/// The client, cut off from the network as far as its release bears it.
pub fn offline(client: Client, version: Option<&Version>) -> Client {
    match version {
        Some(version) if *version < Version::new(1, 0, 100) => client.without_fence(),
        _ => client,
    }
}
