//! A home of its own for the command.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use ctxbridge::autopilot::{WindowReading, WindowState, WindowStateStore};
use ctxbridge::config::AutopilotSettings;
use tempfile::TempDir;

pub struct Sandbox {
    _folder: TempDir,
    pub root: PathBuf,
}

impl Sandbox {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for own in ["home", "bin"] {
            fs::create_dir(root.join(own)).unwrap();
        }
        Self { root, _folder: folder }
    }

    pub fn data(&self) -> PathBuf {
        self.root.join("data")
    }

    pub fn store(&self) -> WindowStateStore {
        WindowStateStore::in_dir(&self.data())
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ctxbridge"));
        command.args(args).env_clear().env("HOME", self.root.join("home")).env("PATH", self.root.join("bin"));
        command.env("CTXBRIDGE_DATA_DIR", self.data()).current_dir(&self.root);
        command
    }

    /// Runs a command with something on stdin; it has to exit like that, with nothing on stderr.
    #[track_caller]
    pub fn run(&self, mut command: Command, stdin: &[u8], code: i32) -> String {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut pipe = child.stdin.take().unwrap();
        let output = std::thread::scope(|scope| {
            let writer = scope.spawn(move || pipe.write_all(stdin));
            let output = child.wait_with_output().unwrap();
            writer.join().unwrap().unwrap();
            output
        });
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), stderr.as_str()), (Some(code), ""));
        String::from_utf8(output.stdout).unwrap()
    }

    /// The statusline for this input, without colors.
    #[track_caller]
    pub fn line(&self, input: &str) -> String {
        let mut command = self.command(&["statusline"]);
        command.env("NO_COLOR", "1");
        self.run(command, input.as_bytes(), 0)
    }

    /// A session that has seen these tokens, a turn each.
    pub fn session(&self, id: &str, tokens: &[u64]) {
        let see = |state: &mut WindowState| {
            for (turns, tokens) in (1..).zip(tokens) {
                state.observe(
                    WindowReading { tokens: *tokens, window: 200_000, turns, at_ms: 1_700_000_000_000 },
                    &AutopilotSettings::default(),
                );
            }
            state.record_optimize_run();
        };
        self.store().update(id, std::time::Duration::from_secs(5), see).unwrap();
    }
}

pub fn source(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}
