//! A folder with generated sessions, and the command in an environment with nothing in it but settings that stay as they are.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use ctxbridge_testkit::transcript::{Kind, Spec, generate};
use serde_json::Value;
use tempfile::TempDir;

/// What the command said.
pub struct Said {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Said {
    /// The one JSON value on stdout.
    #[track_caller]
    pub fn json(&self) -> Value {
        assert_eq!((self.code, self.stderr.as_str()), (Some(0), ""), "{}", self.stdout);
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {}", self.stdout))
    }
}

impl std::fmt::Display for Said {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let code = self.code.map_or_else(|| "signal".to_owned(), |code| code.to_string());
        write!(f, "exit code: {code}\n{}", self.stdout)?;
        if self.stderr.is_empty() { Ok(()) } else { write!(f, "--- stderr\n{}", self.stderr) }
    }
}

pub struct Sandbox {
    folder: TempDir,
}

impl Sandbox {
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file in the command's folder.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        fs::write(self.path(name), content).unwrap();
    }

    /// Generates a session into this file.
    pub fn session(&self, name: &str, kind: Kind, messages: u64) {
        let made = generate(&Spec::new(kind, messages, 5), &self.path("generated")).unwrap();
        fs::rename(&made.sessions[0].path, self.path(name)).unwrap();
    }

    /// Runs `ctxbridge prune` in the folder.
    pub fn run(&self, args: &[&str]) -> Said {
        self.run_with(args, &[])
    }

    pub fn run_with(&self, args: &[&str], env: &[(&str, &str)]) -> Said {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ctxbridge"));
        command.env_clear().env("NO_COLOR", "1").env("HOME", self.folder.path());
        command.env("CTXBRIDGE_DATA_DIR", self.path("data")).current_dir(self.folder.path()).stdin(Stdio::null());
        let settings = [
            ("CLAUDE_TEXT_PRUNE_KEEP", "2"),
            ("CLAUDE_TEXT_PRUNE_THRESHOLD", "20000"),
            ("CLAUDE_TEXT_PRUNE_TAIL_TOKENS", "10000"),
            ("CLAUDE_TEXT_PRUNE_STEP", "20000"),
            ("CLAUDE_TEXT_PRUNE_SCOPE", "all"),
            ("CLAUDE_TEXT_PRUNE_HANDLES", "on"),
        ];
        command.envs(settings).envs(env.iter().copied());
        let output = command.arg("prune").args(args).output().unwrap();
        let text = |bytes: Vec<u8>| {
            let text = String::from_utf8(bytes).expect("UTF-8");
            assert!(!text.contains("panicked") && !text.contains("a bug in ctxbridge"), "{text}");
            text
        };
        Said { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }
}
