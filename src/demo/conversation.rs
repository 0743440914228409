//! The conversation of the demo, with a client that runs in a scratch home.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use ctxbridge_client::{Client, ConversationLimits};
use ctxbridge_patch::install::Target;
use ctxbridge_stub::{Options, RequestKind, Stub};

use super::model::{Answer, ERROR, MIGRATE, MIGRATION_LOG, Model, ModelLog, QUESTION};
use super::{DemoError, offline};

/// Number of logs that are looked at between the migration and the question: as many as fill the window.
pub const LOGS: usize = 12;
/// Lines of such a log: about 13,000 tokens.
const LOG_LINES: usize = 800;
/// Lines of the log of the migration: less than a tool may print.
const MIGRATION_LINES: usize = 260;

/// The window that the client takes the model to have.
pub const WINDOW_TOKENS: u64 = 200_000;
/// The variable that says so to newer clients.
const WINDOW_VAR: &str = "CLAUDE_CODE_AUTO_COMPACT_WINDOW";

/// ctxbridge in the client's scratch home, with hooks.
#[derive(Clone, Copy, Debug)]
pub struct Memory<'m> {
    /// This program.
    pub program: &'m Path,
    /// Its data folder.
    pub data: &'m Path,
}

/// A conversation that was had.
#[derive(Debug)]
pub struct DemoConversation {
    /// Estimated input tokens of each request up to the first answer to [`QUESTION`].
    pub tokens: Vec<u64>,
    /// Number of summaries that the client asked for by itself.
    pub compactions: usize,
    /// The log of the migration, as the client sent it first.
    pub original: String,
    /// The answer to [`QUESTION`].
    pub answer: Answer,
    /// The answer after `/compact`. `None` without ctxbridge: there is nothing left to be found by then.
    pub after_compact: Option<Answer>,
}

/// Has the conversation with a client, and with ctxbridge's hooks where there is a memory.
///
/// # Errors
/// If the client does not run, breaks a rule of the API, or reports an error.
pub fn converse(target: &Target, memory: Option<Memory<'_>>) -> Result<DemoConversation, DemoError> {
    let mut client =
        offline(target)?.env(WINDOW_VAR, WINDOW_TOKENS.to_string()).arg("--allowedTools").arg("Read,Bash,PowerShell");
    let (migration, logs) = write_logs(&client.project())?;
    let mut prompts: Vec<String> = vec![MIGRATE.into()];
    prompts.extend((1..=LOGS).map(|number| format!("What stands out in worker-{number}.log?")));
    prompts.push(QUESTION.into());
    let mut program = String::new();
    if let Some(memory) = memory {
        install_hooks(&client, memory, target)?;
        prompts.extend(["/compact".into(), QUESTION.into()]);
        client = client.env("CTXBRIDGE_DATA_DIR", memory.data).env("PATH", path_with(memory.program));
        program = memory.program.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    }
    let log = Arc::new(Mutex::new(ModelLog::default()));
    let stub = Stub::start_with(Model::new(Arc::clone(&log), migration, logs, program), Options::default())?;
    let conversation = client.api(&stub.url()).converse(&prompts, ConversationLimits::default())?;
    if let Some(violation) = stub.violations().first() {
        return Err(DemoError::Conversation(format!("the API would have refused a request: {violation}")));
    }
    if !conversation.is_success() {
        return Err(DemoError::Conversation(conversation.diagnostics));
    }
    let ModelLog { original, answers } = std::mem::take(&mut *log.lock().unwrap_or_else(PoisonError::into_inner));
    let mut answers = answers.into_iter();
    let answer = answers.next().ok_or_else(|| DemoError::Conversation("the last question was not asked".into()))?;
    let requests = stub.requests();
    let is_last = |kind: RequestKind, number: usize| kind == RequestKind::Main && number == answer.request;
    let end = requests.iter().position(|request| is_last(request.kind, request.number)).map_or(requests.len(), |at| at + 1);
    let of_kind = |kind: RequestKind| requests[..end].iter().filter(move |request| request.kind == kind);
    Ok(DemoConversation {
        tokens: of_kind(RequestKind::Main).map(|request| request.tokens).collect(),
        compactions: of_kind(RequestKind::Compaction).count(),
        original,
        answer,
        after_compact: answers.next(),
    })
}

/// Writes the log of the migration, and those of the workers.
fn write_logs(folder: &Path) -> Result<(PathBuf, Vec<PathBuf>), DemoError> {
    let write = |name: &str, text: String| {
        let path = folder.join(name);
        fs::write(&path, text).map_err(|cause| DemoError::Copy { from: path.clone(), to: path.clone(), cause })?;
        Ok(path)
    };
    let row = |at: usize| match at {
        at if at == MIGRATION_LINES / 2 => format!("{ERROR}\n"),
        at => format!("{at:05} orders: batch {} copied\n", at * 7 % 1_000),
    };
    let migration = write(MIGRATION_LOG, (0..MIGRATION_LINES).map(row).collect())?;
    // After a compaction, clients read again what changed last: that must not be this file.
    let an_hour_ago = SystemTime::now() - Duration::from_secs(3_600);
    fs::File::options().append(true).open(&migration).and_then(|file| file.set_modified(an_hour_ago)).ok();
    let logs = (1..=LOGS).map(|number| {
        let line = |at: usize| format!("{at:05} worker-{number} finished job {} without an error\n", at * 7 % 1_000);
        write(&format!("worker-{number}.log"), (0..LOG_LINES).map(line).collect())
    });
    Ok((migration, logs.collect::<Result<_, DemoError>>()?))
}

/// Installs ctxbridge's hooks in the settings of the scratch home.
fn install_hooks(client: &Client, memory: Memory<'_>, target: &Target) -> Result<(), DemoError> {
    let mut command = Command::new(memory.program);
    command.args(["hooks", "install"]).current_dir(client.project());
    if let Some(version) = &target.version {
        command.arg("--client-version").arg(version.to_string());
    }
    command.env("HOME", client.home()).env("USERPROFILE", client.home()).env("CTXBRIDGE_DATA_DIR", memory.data);
    command.env("CTXBRIDGE_CONFIG_DIR", client.home().join(".config/ctxbridge"));
    command.env_remove("CLAUDE_CONFIG_DIR");
    let output = command.output().map_err(|error| DemoError::Hooks(error.to_string()))?;
    if output.status.success() { Ok(()) } else { Err(DemoError::Hooks(String::from_utf8_lossy(&output.stderr).into_owned())) }
}

/// The PATH, with the folder of the program first.
fn path_with(program: &Path) -> std::ffi::OsString {
    let outside = std::env::var_os("PATH").unwrap_or_default();
    let folder = program.parent().map(Path::to_owned);
    std::env::join_paths(folder.into_iter().chain(std::env::split_paths(&outside))).unwrap_or(outside)
}
