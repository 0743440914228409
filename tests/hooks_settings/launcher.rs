//! The plugin's launcher: it finds the program wherever it is, and a session without it goes on as if there were no plugin.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use ctxbridge_testkit::files::source;
use ctxbridge_testkit::sandbox::{Sandbox, set_mode};
use serde_json::Value;

/// A copy of the plugin as the client has it, in a folder with a space in its name.
struct Plugin {
    sandbox: Sandbox,
}

impl Plugin {
    fn new() -> Self {
        let sandbox = Sandbox::new();
        let bin = sandbox.path("the plugin/bin");
        fs::create_dir_all(&bin).unwrap();
        for name in ["ctxbridge", "ctxbridge.cmd"] {
            fs::copy(source("plugin/bin").join(name), bin.join(name)).unwrap();
        }
        fs::create_dir_all(sandbox.path("the plugin/.claude-plugin")).unwrap();
        fs::write(sandbox.path("the plugin/.claude-plugin/plugin.json"), "{}").unwrap();
        // What the launcher calls, and nothing of the machine's: it may have a ctxbridge.
        let tools = sandbox.path("tools");
        fs::create_dir_all(&tools).unwrap();
        for tool in ["sh", "cat", "dirname", "uname"] {
            let found = ["/bin", "/usr/bin"].map(|folder| Path::new(folder).join(tool)).into_iter().find(|path| path.exists());
            symlink(found.unwrap(), tools.join(tool)).unwrap();
        }
        Self { sandbox }
    }

    fn root(&self) -> PathBuf {
        self.sandbox.path("the plugin")
    }

    /// Puts a program that says who it is and what it was told into a folder of the sandbox.
    fn put(&self, folder: &str) {
        let path = self.sandbox.path(folder).join("ctxbridge");
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, format!("#!/bin/sh\necho \"{folder}: $*\"\ncat\nexit 2\n")).unwrap();
        set_mode(&path, 0o755);
    }

    /// Runs a line the way the client does.
    fn line(&self, shell: &str, line: &str, path: &[&str]) -> Output {
        let folders = path.iter().map(|folder| self.sandbox.path(folder)).chain([self.sandbox.path("tools")]);
        let mut command = Command::new(shell);
        command.arg("-c").arg(line).env_clear().env("CLAUDE_PLUGIN_ROOT", self.root());
        command.env("HOME", self.sandbox.path("home")).env("PATH", std::env::join_paths(folders).unwrap());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // A shell that finds nothing to run may be gone.
        child.stdin.take().unwrap().write_all(b"the input").ok();
        child.wait_with_output().unwrap()
    }

    fn hook(&self, event: &str, path: &[&str]) -> Output {
        self.line("/bin/sh", &command_of(event), path)
    }
}

/// The line of the first hook of an event.
fn command_of(event: &str) -> String {
    let hooks: Value = serde_json::from_slice(&fs::read(source("plugin/hooks/hooks.json")).unwrap()).unwrap();
    hooks["hooks"][event][0]["hooks"][0]["command"].as_str().unwrap().to_owned()
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn it_runs_the_first_that_is_there() {
    let plugin = Plugin::new();
    // From the last place to the first.
    for place in ["home/.cargo/bin", "home/.local/bin", "home/.local/share/ctxbridge/bin", "bin"] {
        if place.contains("share") && cfg!(target_os = "macos") {
            continue;
        }
        plugin.put(place);
        let ran = plugin.hook("Stop", &["bin"]);
        assert_eq!((stdout(&ran), ran.status.code()), (format!("{place}: hook stop\nthe input"), Some(2)), "{ran:?}");
    }
}

#[test]
fn any_shell_runs_the_line() {
    let plugin = Plugin::new();
    plugin.put("bin");
    for shell in ["/bin/sh", "/bin/bash", "/bin/dash", "/bin/zsh"].into_iter().filter(|shell| Path::new(shell).exists()) {
        let ran = plugin.line(shell, &command_of("PreToolUse"), &["bin"]);
        assert_eq!(
            (stdout(&ran), ran.status.code()),
            ("bin: hook pre-tool-use\nthe input".to_owned(), Some(2)),
            "{shell}: {ran:?}"
        );
    }
}

#[test]
fn without_the_program_one_start_says_how_to_get_it() {
    let plugin = Plugin::new();
    let silent = |event: &str| {
        let ran = plugin.hook(event, &[]);
        assert!(ran.status.success() && ran.stdout.is_empty() && ran.stderr.is_empty(), "{event}: {ran:?}");
    };
    silent("Stop");
    let told: Value = serde_json::from_slice(&plugin.hook("SessionStart", &[]).stdout).unwrap();
    let told = told["systemMessage"].as_str().unwrap();
    insta::assert_snapshot!(told, @r#"ctxbridge is not installed, so its plugin does nothing; "npm install -g ctxbridge" installs it"#);
    ["SessionStart", "UserPromptSubmit", "PreToolUse", "Stop", "SessionEnd"].into_iter().for_each(silent);
    // The server's failure is what the client shows when it is asked for.
    let server = plugin.line("/bin/sh", "exec sh \"$CLAUDE_PLUGIN_ROOT/bin/ctxbridge\" mcp", &[]);
    assert_eq!((server.status.code(), String::from_utf8_lossy(&server.stderr).trim_end()), (Some(127), told));
}

/// Newer clients put a plugin's programs on the PATH of the model's shell.
#[test]
fn it_does_not_run_itself() {
    let plugin = Plugin::new();
    let ran = plugin.line("/bin/sh", "ctxbridge recall ctx:1a2b3c4d", &["the plugin/bin"]);
    assert_eq!(ran.status.code(), Some(127), "{ran:?}");
    plugin.put("bin");
    let ran = plugin.line("/bin/sh", "ctxbridge recall ctx:1a2b3c4d", &["the plugin/bin", "bin"]);
    assert_eq!(stdout(&ran), "bin: recall ctx:1a2b3c4d\nthe input");
}

/// After an update, a client in the model's shell may have the old and the new copy of the plugin there.
#[test]
fn two_launchers_do_not_run_each_other() {
    let plugin = Plugin::new();
    let other = plugin.sandbox.path("other plugin");
    fs::create_dir_all(other.join(".claude-plugin")).unwrap();
    fs::create_dir_all(other.join("bin")).unwrap();
    fs::write(other.join(".claude-plugin/plugin.json"), "{}").unwrap();
    fs::copy(source("plugin/bin/ctxbridge"), other.join("bin/ctxbridge")).unwrap();
    plugin.put("bin");
    let ran = plugin.line("/bin/sh", &command_of("Stop"), &["the plugin/bin", "other plugin/bin", "bin"]);
    assert_eq!(stdout(&ran), "bin: hook stop\nthe input");
}

#[test]
fn where_it_cannot_be_remembered_nothing_is_said() {
    let plugin = Plugin::new();
    // A folder has the name, and no file can be made below a file.
    for data in ["gone/data", "tools/sh/data"] {
        let line = format!(
            "CLAUDE_PLUGIN_DATA='{}' && export CLAUDE_PLUGIN_DATA; {}",
            plugin.sandbox.path(data).display(),
            command_of("SessionStart")
        );
        let ran = plugin.line("/bin/sh", &line, &[]);
        assert!(ran.status.success() && ran.stdout.is_empty() && ran.stderr.is_empty(), "{data}: {ran:?}");
    }
}

/// An update of the plugin may be half done.
#[test]
fn without_the_launcher_a_hook_does_nothing() {
    let plugin = Plugin::new();
    fs::remove_file(plugin.root().join("bin/ctxbridge")).unwrap();
    for event in ["UserPromptSubmit", "PreToolUse", "PreCompact", "Stop"] {
        let ran = plugin.hook(event, &[]);
        assert!(ran.status.success() && ran.stdout.is_empty() && ran.stderr.is_empty(), "{event}: {ran:?}");
    }
}
