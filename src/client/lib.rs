//! A real Claude Code client, run offline: a scratch home, a clean environment, one prompt at a
//! time.
//!
//! The client runs in print mode with JSON lines in and out. A prompt is written only after the
//! `result` of the previous one: lines that are piped all at once are merged into one turn.
//!
//! The client sees nothing of the user's and reaches nothing outside. The environment starts empty;
//! home and temporary folders are scratch. From 1.0.128 on the client sends requests to
//! `api.anthropic.com`, although `ANTHROPIC_BASE_URL` points elsewhere and non-essential traffic is
//! off. A proxy on a dead loopback port catches these.

mod conversation;
mod error;
pub mod releases;
mod session;

use std::ffi::OsString;
use std::fs;
use std::path::{self, Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use tempfile::TempDir;

pub use conversation::{ClientConversation, ConversationLimits, PromptResult};
pub use error::ClientError;

use session::{ClientProcess, Deadline, OutputLine};

/// The discard port of the loopback interface: nothing listens there.
const DEAD_PROXY: &str = "http://127.0.0.1:9";

/// The default model. Old releases pass unknown models on as they are, so one name works for all.
const DEFAULT_MODEL: &str = "claude-sonnet-4-5";

/// Variables of the outer environment that a program needs to run at all.
const INHERITED_VARIABLES: &[&str] = if cfg!(windows) { OF_WINDOWS } else { &["PATH"] };
/// The same on Windows. Git Bash is looked for in the folder of programs, or is named.
const OF_WINDOWS: &[&str] = &[
    "PATH",
    "PATHEXT",
    "SystemRoot",
    "SystemDrive",
    "windir",
    "ComSpec",
    "USERNAME",
    "ProgramFiles",
    "ProgramFiles(x86)",
    "CLAUDE_CODE_GIT_BASH_PATH",
];

/// A client to run, with a scratch home that lives as long as it does.
#[derive(Debug)]
pub struct Client {
    program: OsString,
    args: Vec<OsString>,
    extra_args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    model: String,
    scratch: TempDir,
}

impl Client {
    /// A client that is started as `program`, with `args` before all other arguments.
    ///
    /// It reaches no API until [`api`](Self::api) sets the URL of the Messages API.
    pub fn new<A: Into<OsString>>(program: impl Into<OsString>, args: impl IntoIterator<Item = A>) -> Result<Self, ClientError> {
        let scratch = tempfile::Builder::new().prefix("ctxbridge-client-").tempdir().map_err(ClientError::Scratch)?;
        let client = Self {
            program: program.into(),
            args: args.into_iter().map(Into::into).collect(),
            extra_args: Vec::new(),
            env: Vec::new(),
            model: DEFAULT_MODEL.into(),
            scratch,
        };
        for folder in [client.home(), client.project(), client.tmp()] {
            fs::create_dir(folder).map_err(ClientError::Scratch)?;
        }
        Ok(client.api(DEAD_PROXY).fence(DEAD_PROXY))
    }

    /// A release that is a script for Node.js: `cli.js` of the npm package up to 2.1.112.
    pub fn node_script(script: impl AsRef<Path>) -> Result<Self, ClientError> {
        Self::new("node", [absolute_path(script.as_ref())?])
    }

    /// A release that is an executable.
    pub fn executable(program: impl AsRef<Path>) -> Result<Self, ClientError> {
        Self::new(absolute_path(program.as_ref())?, std::iter::empty::<OsString>())
    }

    /// The file of a release: an executable if `native`, otherwise a script.
    pub fn installed(native: bool, file: impl AsRef<Path>) -> Result<Self, ClientError> {
        if native { Self::executable(file) } else { Self::node_script(file) }
    }

    /// Sends API requests to `url`, e.g. a stub's.
    pub fn api(self, url: &str) -> Self {
        self.env("ANTHROPIC_BASE_URL", url)
    }

    /// Lets the client go to the network without the dead proxy.
    ///
    /// Only for releases before 1.0.100: they send loopback requests through a proxy, too, and have
    /// not been seen to connect to anything but the API.
    pub fn without_dead_proxy(self) -> Self {
        self.fence("")
    }

    /// Sets an environment variable of the client. The latest value wins.
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Adds a command line option to those of a conversation, e.g. `--allowedTools`.
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.extra_args.push(arg.into());
        self
    }

    /// Asks for another model than `claude-sonnet-4-5`.
    pub fn model(mut self, model: impl Into<String>) -> Self {
        self.model = model.into();
        self
    }

    /// The command of a conversation in a terminal, without one.
    pub fn interactive(&self) -> Command {
        let mut command = self.command();
        command.args(["--model", &self.model]).args(&self.extra_args);
        command
    }

    /// The client's home: `.claude/projects` in it holds the transcripts.
    pub fn home(&self) -> PathBuf {
        self.scratch.path().join("home")
    }

    /// The folder that the client works in.
    pub fn project(&self) -> PathBuf {
        self.scratch.path().join("project")
    }

    fn tmp(&self) -> PathBuf {
        self.scratch.path().join("tmp")
    }

    /// The client's output for `--version`, e.g. `2.1.112 (Claude Code)`.
    pub fn version(&self) -> Result<String, ClientError> {
        let limit = ConversationLimits::default().turn;
        let deadline = Deadline::new(Instant::now(), limit, "tell its version");
        let mut command = self.command();
        command.arg("--version");
        let mut session = ClientProcess::start(command, &self.name())?;
        session.close_input();
        let first = session.next_line(&deadline)?;
        let status = session.wait(&deadline)?;
        match first {
            Some(line) if status.success() => Ok(line.into_text()),
            _ => Err(session.ended(status, &deadline)),
        }
    }

    /// Sends `prompts` in sequence and waits for each result.
    ///
    /// # Errors
    /// If the client does not start, does not answer in time, or ends early. It is dead by then.
    pub fn converse<P: AsRef<str>>(&self, prompts: &[P], limits: ConversationLimits) -> Result<ClientConversation, ClientError> {
        let started = Instant::now();
        let in_all = |step: &str| Deadline::new(started, limits.total, step);
        let mut command = self.command();
        command
            .args(["-p", "--verbose", "--model", &self.model])
            .args(["--input-format", "stream-json"])
            .args(["--output-format", "stream-json"])
            .args(&self.extra_args);
        let mut session = ClientProcess::start(command, &self.name())?;

        let mut turns = Vec::with_capacity(prompts.len());
        for (index, prompt) in prompts.iter().enumerate() {
            let asked = Instant::now();
            let step = format!("answer prompt {}", index + 1);
            let deadline = Deadline::new(asked, limits.turn, &step).or_earlier(in_all(&step));
            session.send(&conversation::prompt_line(prompt.as_ref()));
            turns.push(self.result(&mut session, &deadline, asked)?);
        }

        session.close_input();
        let deadline = in_all("exit");
        let status = session.wait(&deadline)?;
        Ok(ClientConversation { turns, status, duration: started.elapsed(), diagnostics: session.diagnostics() })
    }

    fn result(&self, session: &mut ClientProcess, deadline: &Deadline, asked: Instant) -> Result<PromptResult, ClientError> {
        while let Some(line) = session.next_line(deadline)? {
            let OutputLine::Json(line) = line else { continue };
            if let Some(turn) = PromptResult::from_line(&line, asked.elapsed()) {
                return Ok(turn);
            }
        }
        let status = session.wait(deadline)?;
        Err(session.ended(status, deadline))
    }

    /// Sends all requests that do not go to loopback through `proxy`.
    fn fence(self, proxy: &str) -> Self {
        self.env("HTTP_PROXY", proxy).env("HTTPS_PROXY", proxy).env("NO_PROXY", "127.0.0.1,localhost")
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        let home = self.home();
        command.args(&self.args).current_dir(self.project()).env_clear();
        for name in INHERITED_VARIABLES {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        for (name, folder) in [
            ("HOME", home.clone()),
            ("USERPROFILE", home.clone()),
            ("APPDATA", home.join("AppData/Roaming")),
            ("LOCALAPPDATA", home.join("AppData/Local")),
            ("XDG_CONFIG_HOME", home.join(".config")),
            ("XDG_DATA_HOME", home.join(".local/share")),
            ("XDG_STATE_HOME", home.join(".local/state")),
            ("XDG_CACHE_HOME", home.join(".cache")),
            ("TMPDIR", self.tmp()),
            ("TEMP", self.tmp()),
            ("TMP", self.tmp()),
            ("CLAUDE_CODE_TMPDIR", self.tmp()),
        ] {
            command.env(name, folder);
        }
        command
            .env("ANTHROPIC_API_KEY", "sk-ant-stub")
            .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
            .env("DISABLE_AUTOUPDATER", "1")
            // Ten tries with doubling pauses, over three minutes, would hide any refusal.
            .env("CLAUDE_CODE_MAX_RETRIES", "0")
            .envs(self.env.iter().map(|(name, value)| (name, value)));
        command
    }

    /// The client's name in error messages: the script or the program.
    fn name(&self) -> String {
        let named = self.args.first().unwrap_or(&self.program);
        named.to_string_lossy().into_owned()
    }
}

/// A file's absolute path. The client starts in a folder of its own, so a relative path would not work there.
fn absolute_path(file: &Path) -> Result<PathBuf, ClientError> {
    match path::absolute(file) {
        Ok(absolute) if absolute.is_file() => Ok(absolute),
        _ => Err(ClientError::NoScript(file.to_owned())),
    }
}
