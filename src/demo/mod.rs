/*!
`ctxbridge demo`: one scripted conversation with a real client, before and after patching, against the stub.

The client is a copy in a temporary folder, with the journal and the backup. Nothing of the user's is touched.
*/

mod bars;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use semver::Version;
use serde_json::json;

use ctxbridge_client::{Client, ClientError, ConversationLimits};
use ctxbridge_patch::inspect::without_patches;
use ctxbridge_patch::install::{Target, TargetError, TargetOpenError};
use ctxbridge_patch::swap::{self, Attributes, Ownership, SwapError};
use ctxbridge_stub::{ApiRequest, Options as StubOptions, RequestKind, ScriptedReply, Stub, StubError};

pub use bars::bars;

/// Number of prompts in the conversation. To each, the model reads a file and says what it found.
pub const PROMPTS: usize = 13;
/// Lines of a file: about 13,000 tokens, so that the conversation does not fit into the window.
const FILE_LINES: usize = 800;

/// The window that the client takes the model to have, and the variable that says so to newer ones.
const WINDOW_TOKENS: u64 = 200_000;
const WINDOW_VAR: &str = "CLAUDE_CODE_AUTO_COMPACT_WINDOW";

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

/// Counts of a conversation's requests.
#[derive(Debug)]
pub struct DemoConversation {
    /// Estimated input tokens of each request.
    pub tokens: Vec<u64>,
    /// Number of summaries that the client asked for.
    pub compactions: usize,
    /// Handles of the digests in the last request.
    pub handles: Vec<String>,
    /// The client, with its transcript in its home.
    pub client: Client,
}

/// Has the conversation with a client.
///
/// # Errors
/// If the client does not run, breaks a rule of the API, or reports an error.
pub fn converse(target: &Target) -> Result<DemoConversation, DemoError> {
    let client = offline(target)?.env(WINDOW_VAR, WINDOW_TOKENS.to_string());
    let files = (1..=PROMPTS).map(|number| {
        let path = client.project().join(format!("worker-{number}.log"));
        let line = |at: usize| format!("{at:05} worker-{number} finished job {} without an error\n", at * 7 % 1_000);
        let copied = |cause| DemoError::Copy { from: path.clone(), to: path.clone(), cause };
        fs::write(&path, (0..FILE_LINES).map(line).collect::<String>()).map_err(copied)?;
        Ok(path)
    });
    let mut files = files.collect::<Result<Vec<PathBuf>, DemoError>>()?.into_iter().cycle();
    let script = move |request: &ApiRequest| {
        let next = if request.brings_tool_result() { None } else { files.next() };
        next.map_or_else(
            || ScriptedReply::Text("Nothing stands out: each job finished.".into()),
            |path| ScriptedReply::ToolUse { name: "Read".into(), input: json!({ "file_path": path }) },
        )
    };
    let stub = Stub::start_with(script, StubOptions::default())?;
    let prompts: Vec<String> = (1..=PROMPTS).map(|number| format!("What stands out in worker-{number}.log?")).collect();
    let client = client.api(&stub.url()).arg("--allowedTools").arg("Read");
    let conversation = client.converse(&prompts, ConversationLimits::default())?;
    if let Some(violation) = stub.violations().first() {
        return Err(DemoError::Conversation(format!("the API would have refused a request: {violation}")));
    }
    if !conversation.is_success() {
        return Err(DemoError::Conversation(conversation.diagnostics));
    }
    let requests = stub.main_requests();
    let last = requests.last().map(|request| request.body["messages"].to_string()).unwrap_or_default();
    let handle = |rest: &str| rest.split_once(']').map(|(handle, _)| handle.to_owned());
    Ok(DemoConversation {
        tokens: requests.iter().map(|request| request.tokens).collect(),
        compactions: stub.requests().iter().filter(|request| request.kind == RequestKind::Compaction).count(),
        handles: last.split(", recall ").skip(1).filter_map(handle).collect(),
        client,
    })
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
