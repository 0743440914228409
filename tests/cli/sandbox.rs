//! A machine of its own for the command: home, data folder, PATH and installed clients, all in a temporary folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

/// What the command said, ready for a snapshot.
pub struct Said {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Said {
    /// The one JSON value on stdout.
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {}", self.stdout))
    }
}

/// Exit code, stdout and stderr, the way a person sees them.
impl std::fmt::Display for Said {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let code = self.code.map_or_else(|| "signal".to_owned(), |code| code.to_string());
        write!(f, "exit code: {code}\n{}", self.stdout)?;
        if self.stderr.is_empty() { Ok(()) } else { write!(f, "--- stderr\n{}", self.stderr) }
    }
}

pub struct Sandbox {
    folder: TempDir,
    /// The folder as the command names it, links resolved.
    pub root: PathBuf,
}

impl Sandbox {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for own in ["home", "bin", "work"] {
            fs::create_dir(root.join(own)).unwrap();
        }
        Self { folder, root }
    }

    /// Installs a bundle as the npm package is, in a folder of this name; returns its `cli.js`.
    pub fn install(&self, bundle: &str, folder: &str) -> PathBuf {
        let text = fs::read_to_string(source(&format!("fixtures/cli-js/{bundle}.js"))).unwrap();
        let version = text.lines().find_map(|line| line.strip_prefix("// Version: ")).unwrap();
        let package = self.root.join(folder);
        fs::create_dir_all(&package).unwrap();
        let manifest = format!(
            "{{\"name\":\"@anthropic-ai/claude-code\",\"version\":\"{version}\",\"type\":\"module\",\"bin\":{{\"claude\":\"cli.js\"}}}}\n"
        );
        fs::write(package.join("package.json"), manifest).unwrap();
        let script = package.join("cli.js");
        fs::write(&script, &text).unwrap();
        script
    }

    /// The command in this sandbox; `node` is there, `claude` is what `bin` holds.
    pub fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ctxbridge"));
        let outside = std::env::var_os("PATH").unwrap_or_default();
        // Whatever client the machine has is no part of the test.
        let outside = std::env::split_paths(&outside).filter(|folder| !folder.join("claude").exists());
        let path = std::env::join_paths([self.root.join("bin")].into_iter().chain(outside)).unwrap();
        command.env_clear().env("PATH", path).env("HOME", self.root.join("home")).env("NO_COLOR", "1");
        command.env("CTXBRIDGE_DATA_DIR", self.root.join("data")).current_dir(self.root.join("work"));
        command.stdin(Stdio::null());
        command
    }

    /// Runs it with these arguments, the sandbox's own paths written as `[ROOT]`.
    #[track_caller]
    pub fn run(&self, args: &[&str]) -> Said {
        self.said(self.command().args(args).output().unwrap())
    }

    pub fn said(&self, output: Output) -> Said {
        let clean = |bytes: Vec<u8>| {
            let text = String::from_utf8(bytes).expect("UTF-8");
            assert!(!text.contains("panicked"), "{text}");
            // The link first: on some systems the temporary folder is reached through one.
            let text = text.replace(&*self.root.to_string_lossy(), "[ROOT]");
            text.replace(&*self.folder.path().to_string_lossy(), "[ROOT]")
        };
        Said { code: output.status.code(), stdout: clean(output.stdout), stderr: clean(output.stderr) }
    }
}

pub fn source(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

pub fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// What differs from run to run: hashes and times; and what differs with each release of ours: its version, and the size of the
/// injected code.
pub fn filters() -> insta::internals::SettingsBindDropGuard {
    let mut settings = insta::Settings::clone_current();
    settings.add_filter(r"\b[0-9a-f]{64}\b", "[SHA-256]");
    settings.add_filter(r#""elapsed_ms": \d+"#, r#""elapsed_ms": [MS]"#);
    settings.add_filter(r#""grew_by_bytes": \d+"#, r#""grew_by_bytes": [BYTES]"#);
    settings.add_filter(r#""version":"[\d.]+","patch""#, r#""version":"[VERSION]","patch""#);
    settings.add_filter(r#""runtime":\[(\d+),[1-9]\d*\]"#, r#""runtime":[$1,[BYTES]]"#);
    settings.add_filter(r"@@ -0,0 \+1,\d+ @@", "@@ -0,0 +1,[LINES] @@");
    settings.add_filter(r"grew by   [\d.]+ (KB|bytes) in [\d.]+ (ms|s)", "grew by   [SIZE] in [TIME]");
    settings.bind_to_scope()
}
