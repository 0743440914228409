//! A home of its own for each case: sessions in it, an archive beside it, and nothing of the user's.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use ctxbridge_testkit::transcript::{Kind, Made};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::bench::measure::{Sample, measure_with_input, program};

pub struct Scratch {
    folder: TempDir,
    /// The URL of a server, where there is one.
    server: Option<String>,
}

impl Scratch {
    pub fn new() -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("ctxbridge-bench-").tempdir()?;
        let scratch = Self { folder, server: None };
        for folder in [scratch.sessions(), scratch.project()] {
            fs::create_dir_all(folder)?;
        }
        Ok(scratch)
    }

    /// Sets the server for the following commands.
    #[cfg_attr(windows, expect(dead_code, reason = "the benchmark with a server needs Unix"))]
    pub fn set_server(&mut self, url: Option<&str>) {
        self.server = url.map(str::to_owned);
    }

    /// The client's folder with the sessions of one project.
    pub fn sessions(&self) -> PathBuf {
        self.home().join(".claude/projects/-home-dev-src-ledger")
    }

    /// Makes a session, in another process: this one stays small (see `measure`).
    pub fn generate(&self, kind: Kind, messages: u64, bytes: u64, seed: u64) -> Result<Made> {
        let mut command = Command::new(program("xtask"));
        command.args(["transcripts", "generate", "--json", "--kind", kind.name(), "--out"]).arg(self.sessions());
        for (option, value) in [("--messages", messages), ("--bytes", bytes), ("--seed", seed)] {
            command.arg(option).arg(value.to_string());
        }
        let output = command.stderr(Stdio::inherit()).output()?;
        ensure!(output.status.success(), "no session was made: {}", output.status);
        Ok(serde_json::from_slice(&output.stdout)?)
    }

    /// Runs a hook on a session, as the client would.
    pub fn hook(&self, event: MeasuredHook, transcript: &Path) -> Result<Sample> {
        self.hook_with(event, transcript, &event.own())
    }

    /// The same, with the client's own fields of this event.
    pub fn hook_with(&self, event: MeasuredHook, transcript: &Path, own: &Value) -> Result<Sample> {
        measure_with_input(&mut self.ctxbridge(&["hook", event.slug()])?, &self.input(event, transcript, own))
            .with_context(|| self.said())
    }

    /// Runs a hook and returns its output.
    pub fn hook_output(&self, event: MeasuredHook, transcript: &Path) -> Result<String> {
        self.hook_output_with(event, transcript, &event.own())
    }

    /// The same, with the client's own fields of this event.
    pub fn hook_output_with(&self, event: MeasuredHook, transcript: &Path, own: &Value) -> Result<String> {
        let input = self.folder.path().join("input");
        fs::write(&input, self.input(event, transcript, own))?;
        let output = self.ctxbridge(&["hook", event.slug()])?.stdin(File::open(&input)?).output()?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn input(&self, event: MeasuredHook, transcript: &Path, own: &Value) -> Vec<u8> {
        let mut input = json!({
            "session_id": transcript.file_stem().map(|id| id.to_string_lossy()),
            "transcript_path": transcript,
            "cwd": self.project(),
            "permission_mode": "default",
            "hook_event_name": event.name(),
        });
        if let (Some(input), Some(own)) = (input.as_object_mut(), own.as_object()) {
            input.extend(own.clone());
        }
        input.to_string().into_bytes()
    }

    /// Runs a command that reads nothing.
    pub fn run(&self, arguments: &[&str]) -> Result<Sample> {
        measure_with_input(&mut self.ctxbridge(arguments)?, b"").with_context(|| self.said())
    }

    /// Imports all sessions of the home.
    pub fn import(&self) -> Result<Sample> {
        let mut command = self.ctxbridge(&["archive", "import"])?;
        measure_with_input(command.arg(self.home().join(".claude/projects")), b"").with_context(|| self.said())
    }

    /// Checks that the archive holds what it was given: hooks succeed whatever happens, and one that fails is fast.
    pub fn check(&self, turns: u64, bytes: u64) -> Result<()> {
        let output = self.ctxbridge(&["archive", "status", "--json"])?.output()?;
        let status: Value = serde_json::from_slice(&output.stdout).with_context(|| format!("archive status: {}", self.said()))?;
        let number = |key: &str| status[key].as_u64().with_context(|| format!("archive status has no `{key}`: {status}"));
        let (found, raw) = (number("turns")?, number("bytes_raw")?);
        ensure!(found >= turns, "the archive has {found} turns of {turns}: what was measured is no archive. {}", self.said());
        ensure!(raw >= bytes, "the archive has {raw} bytes of {bytes}: what was measured is no archive. {}", self.said());
        Ok(())
    }

    /// Bytes that the archive takes, its journal included.
    pub fn archive_bytes(&self) -> Result<u64> {
        let mut bytes = 0;
        for entry in fs::read_dir(self.data())? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with("archive.db") {
                bytes += entry.metadata()?.len();
            }
        }
        Ok(bytes)
    }

    /// Removes the archive.
    pub fn forget(&self) -> Result<()> {
        let data = self.data();
        if data.exists() { Ok(fs::remove_dir_all(data)?) } else { Ok(()) }
    }

    fn ctxbridge(&self, arguments: &[&str]) -> Result<Command> {
        let mut command = Command::new(program("ctxbridge"));
        command.args(arguments).env_clear().current_dir(self.project());
        if let Some(path) = std::env::var_os("PATH") {
            command.env("PATH", path);
        }
        command.env("HOME", self.home()).env("USERPROFILE", self.home()).env("CTXBRIDGE_DATA_DIR", self.data());
        command.env("XDG_CONFIG_HOME", self.home().join(".config")).env("CTXBRIDGE_CACHE_DIR", self.home().join(".cache"));
        // Nothing is to run beside what is measured.
        command.env("CTXBRIDGE_ARCHIVE_AUTO_OPTIMIZE", "false");
        if let Some(server) = &self.server {
            command.env("CTXBRIDGE_POSTGRES_URL", server);
        }
        command.stderr(File::create(self.stderr())?);
        Ok(command)
    }

    /// Error output of the last command.
    fn said(&self) -> String {
        let text = fs::read_to_string(self.stderr()).unwrap_or_default();
        format!("on stderr: {}", if text.trim().is_empty() { "nothing" } else { text.trim() })
    }

    fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    /// The folder of the archive and its index.
    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// The folder that hooks are run in.
    pub fn project(&self) -> PathBuf {
        self.folder.path().join("project")
    }

    fn stderr(&self) -> PathBuf {
        self.folder.path().join("stderr")
    }
}

/// The hooks that are measured.
#[derive(Clone, Copy)]
pub enum MeasuredHook {
    UserPromptSubmit,
    PreToolUse,
    PostToolUse,
    Stop,
    SessionStart,
    #[cfg_attr(windows, expect(dead_code, reason = "the benchmark of it needs Unix"))]
    SessionEnd,
}

impl MeasuredHook {
    fn slug(self) -> &'static str {
        match self {
            Self::UserPromptSubmit => "user-prompt-submit",
            Self::PreToolUse => "pre-tool-use",
            Self::PostToolUse => "post-tool-use",
            Self::Stop => "stop",
            Self::SessionStart => "session-start",
            Self::SessionEnd => "session-end",
        }
    }

    /// Further fields of the client, if the case does not matter.
    fn own(self) -> Value {
        match self {
            Self::UserPromptSubmit => json!({ "prompt": "And what does the journal say about it?" }),
            Self::SessionStart => json!({ "source": "compact" }),
            Self::SessionEnd => json!({ "reason": "other" }),
            Self::Stop => json!({ "stop_hook_active": false }),
            Self::PreToolUse | Self::PostToolUse => json!({ "tool_name": "Read", "tool_input": {} }),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::UserPromptSubmit => "UserPromptSubmit",
            Self::PreToolUse => "PreToolUse",
            Self::PostToolUse => "PostToolUse",
            Self::Stop => "Stop",
            Self::SessionStart => "SessionStart",
            Self::SessionEnd => "SessionEnd",
        }
    }
}
