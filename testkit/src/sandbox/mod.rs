//! A machine of its own for the program: home, data, a project and a PATH in one temporary folder, and commands that know no other.
// What cannot be made ends the test.
#![allow(clippy::unwrap_used)]

mod archive;
mod ran;
#[cfg(unix)]
mod rights;
mod talk;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use ctxbridge_common::paths;
use serde_json::Value;
use tempfile::TempDir;

use crate::files::source;
pub use ran::{PATIENCE, Ran, behind, finish, run, start, wait_until};
#[cfg(unix)]
pub use rights::{NOBODY, give_away, is_root, set_mode, set_modes};
pub use talk::{FOLDER, Talk, session_id};

/// A machine of its own for the program. It goes with this value.
pub struct Sandbox {
    folder: TempDir,
    /// The folder as the program names it, links resolved.
    root: PathBuf,
}

impl Sandbox {
    /// A home, a project to work in, a folder of commands, one of temporary files, and nothing in them. The data folder is not there
    /// yet.
    #[expect(clippy::new_without_default, reason = "folders are made on the disk")]
    pub fn new() -> Self {
        Self::below(&std::env::temp_dir())
    }

    /// The same in a folder, where the length of paths matters.
    pub fn below(folder: &Path) -> Self {
        // Tests look into databases themselves, and whoever does so may move their logs into them.
        ctxbridge_common::sqlite::register_as_default();
        let folder = tempfile::Builder::new().prefix("ctxbridge-").tempdir_in(folder).unwrap();
        // Others have to get through to what belongs to them.
        #[cfg(unix)]
        set_mode(folder.path(), 0o755);
        let root = paths::real(folder.path()).unwrap();
        for own in ["home", "work", "bin", "tmp"] {
            fs::create_dir(root.join(own)).unwrap();
        }
        Self { folder, root }
    }

    /// The folder that all the others are in.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// A path in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// The user's home.
    pub fn home(&self) -> PathBuf {
        self.path("home")
    }

    /// The program's data folder.
    pub fn data(&self) -> PathBuf {
        self.path("data")
    }

    /// Writes a file, whose folders are made.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    /// Installs a bundle of the fixtures as the npm package is, in a folder of this name; returns its `cli.js`.
    pub fn install(&self, bundle: &str, folder: &str) -> PathBuf {
        let text = fs::read_to_string(source(&format!("fixtures/cli-js/{bundle}.js"))).unwrap();
        let version = text.lines().find_map(|line| line.strip_prefix("// Version: ")).unwrap();
        let manifest = format!(
            "{{\"name\":\"@anthropic-ai/claude-code\",\"version\":\"{version}\",\"type\":\"module\",\"bin\":{{\"claude\":\"cli.js\"}}}}\n"
        );
        self.write(&format!("{folder}/package.json"), manifest);
        self.write(&format!("{folder}/cli.js"), &text)
    }

    /// `ctxbridge …`, in the project. On the PATH are what `bin` holds, and what the machine has.
    pub fn command(&self, arguments: &[&str]) -> Command {
        self.command_of(&program(), arguments)
    }

    fn command_of(&self, program: &Path, arguments: &[&str]) -> Command {
        let outside = std::env::var_os("PATH").unwrap_or_default();
        // Whatever client the machine has is no part of the test.
        let outside = std::env::split_paths(&outside).filter(|folder| !folder.join("claude").exists());
        let path = std::env::join_paths([self.path("bin")].into_iter().chain(outside)).unwrap();
        let mut command = Command::new(program);
        command.args(arguments).current_dir(self.path("work")).env_clear();
        command.env("PATH", path).env("NO_COLOR", "1").env("TZ", "UTC");
        // Of killed commands, scratch folders stay behind: they shall go with the sandbox.
        command.env("HOME", self.home()).env("TMPDIR", self.path("tmp")).env("CTXBRIDGE_DATA_DIR", self.data());
        // Other systems keep settings elsewhere.
        #[cfg(not(target_os = "linux"))]
        command.env("CTXBRIDGE_CONFIG_DIR", self.path("home/.config/ctxbridge"));
        #[cfg(windows)]
        {
            // Without these, no program starts.
            let of_system = ["SystemRoot", "SystemDrive", "ComSpec", "PATHEXT"];
            command.envs(of_system.into_iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
            command.env("USERPROFILE", self.home()).env("TEMP", self.path("tmp")).env("TMP", self.path("tmp"));
            command.env("APPDATA", self.path("home/AppData/Roaming")).env("LOCALAPPDATA", self.path("home/AppData/Local"));
        }
        if matches!(arguments, ["hook" | "model", ..] | ["archive", "import", ..]) {
            // What it starts in the background would still be at work when the next thing is looked at.
            command.env("CTXBRIDGE_ARCHIVE_AUTO_OPTIMIZE", "false");
        }
        command
    }

    /// Runs a command, with what it prints [`masked`](Self::masked).
    #[track_caller]
    pub fn run(&self, arguments: &[&str]) -> Ran {
        self.masked(run(self.command(arguments), b""))
    }

    /// The same output with the sandbox's folder written as `[ROOT]`: it differs from run to run.
    pub fn masked(&self, ran: impl Into<Ran>) -> Ran {
        let Ran { code, stdout, stderr } = ran.into();
        // The link first: on some systems the temporary folder is reached through one.
        let folders = [&*self.root, self.folder.path()];
        let mask = |text: String| folders.iter().fold(text, |text, folder| text.replace(&*folder.to_string_lossy(), "[ROOT]"));
        Ran { code, stdout: mask(stdout), stderr: mask(stderr) }
    }

    /// Runs a command that succeeds.
    #[track_caller]
    pub fn cli(&self, arguments: &[&str]) -> Ran {
        run(self.command(arguments), b"").done()
    }

    /// The same, with what it prints as JSON.
    #[track_caller]
    pub fn json(&self, arguments: &[&str]) -> Value {
        self.cli(&[arguments, &["--json"]].concat()).json()
    }

    /// Runs git, as somebody without settings.
    #[track_caller]
    pub fn git(&self, folder: &Path, arguments: &[&str]) -> String {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=a", "-c", "user.email=a@example.test", "-c", "commit.gpgsign=false"]).args(arguments);
        git.current_dir(folder).env("HOME", self.home()).env("GIT_CONFIG_NOSYSTEM", "1");
        Ran::from(git.output().unwrap()).done().stdout
    }
}

/// The program under test. Cargo tells its path only to the crate of the tests, but it lies where that one is built.
pub fn program() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let path = tests.ancestors().nth(2).unwrap().join(format!("ctxbridge{}", std::env::consts::EXE_SUFFIX));
    assert!(path.is_file(), "{} is not there", path.display());
    path
}
