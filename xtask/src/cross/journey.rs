//! A user's way with a program of another system: hooks, an import, a search, a restore, a client patched and reverted.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use ctxbridge::client::releases;
use ctxbridge::common::digest;
use ctxbridge::hook::Event;
use serde_json::{Value, json};

use super::Runner;

/// Release whose executable is patched.
const CLIENT_VERSION: &str = "2.1.330";
/// Session of the transcript that is made up.
const SESSION: &str = "5f1f8d0e-7a51-4c0e-9b0e-0f6a3c1d2e4b";
/// Words that only its answer has.
const ANSWER: &str = "The harbor pilot berths at quay seventeen.";

/// A user of the program, with a home of their own.
struct User<'r> {
    runner: &'r Runner,
    program: &'r Path,
    home: PathBuf,
}

/// Takes the journey. Each step is an error that names it.
pub fn take(runner: &Runner, program: &Path, client_package: &str) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let user = User { runner, program, home: folder.path().join("home") };
    fs::create_dir_all(user.home.join("project"))?;
    let transcript = user.write_transcript()?;

    user.run(&["--version"], None)?;
    user.run(&["hooks", "install", "--client-version", CLIENT_VERSION], None)?;
    let settings = fs::read_to_string(user.home.join(".claude/settings.json")).context("hooks install wrote no settings")?;
    ensure!(settings.contains("session-start"), "the settings have no hook: {settings}");

    for event in [Event::SessionStart, Event::UserPromptSubmit, Event::PreToolUse, Event::Stop, Event::SessionEnd] {
        let input = json!({
            "session_id": SESSION, "transcript_path": user.runner.path(&transcript), "cwd": user.runner.path(&user.home.join("project")),
            "hook_event_name": event.name(), "source": "startup", "prompt": "Where does the harbor pilot berth?", "reason": "other",
            "tool_name": "Agent", "tool_input": { "prompt": "Find the quay." },
        });
        user.run(&["hook", event.slug()], Some(&input))?;
    }
    let log = find(&user.home, "errors.log").map(fs::read_to_string).transpose()?.unwrap_or_default();
    ensure!(log.is_empty(), "the hooks logged: {log}");

    user.run(&["archive", "import"], None)?;
    let found = user.run(&["search", "--json", "harbor pilot quay"], None)?;
    ensure!(found.contains(SESSION), "search found no turn: {found}");
    let restored = user.run(&["archive", "restore", SESSION], None)?;
    ensure!(restored.as_bytes() == fs::read(&transcript)?, "the restored transcript is not the client's");

    let release = releases::fetch(client_package, CLIENT_VERSION)?.join(releases::client_file(client_package));
    let client = user.home.join(release.file_name().context("a file")?);
    fs::copy(&release, &client)?;
    let published = digest::of_file(&client)?;
    let path = user.runner.path(&client);
    // Wine runs the program, but not a client.
    let apply: &[&str] = if runner.has_windows() { &["patch", "apply", "--no-smoke"] } else { &["patch", "apply"] };
    user.run(&[apply, &[&path]].concat(), None)?;
    ensure!(digest::of_file(&client)? != published, "patch apply changed nothing");
    let verified: Value = serde_json::from_str(&user.run(&["patch", "verify", "--json", &path], None)?)?;
    ensure!(verified["state"] == "patched", "patch verify says {verified}");
    user.run(&["patch", "revert", &path], None)?;
    ensure!(digest::of_file(&client)? == published, "patch revert did not bring the original back");
    Ok(())
}

impl User<'_> {
    /// Runs the program, and returns what it prints.
    fn run(&self, args: &[&str], input: Option<&Value>) -> Result<String> {
        let mut command = self.runner.command(self.program);
        command.args(args).current_dir(self.home.join("project"));
        command.envs(self.runner.home(&self.home)).env("DISABLE_AUTOUPDATER", "1");
        self.output(&mut command, input).with_context(|| format!("ctxbridge {}", args.join(" ")))
    }

    fn output(&self, command: &mut Command, input: Option<&Value>) -> Result<String> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let mut stdin = child.stdin.take().context("a pipe")?;
        if let Some(input) = input {
            stdin.write_all(input.to_string().as_bytes())?;
        }
        drop(stdin);
        let output = child.wait_with_output()?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{}: {stderr}", output.status);
        Ok(String::from_utf8(output.stdout)?)
    }

    /// A transcript of one turn, in the client's folder.
    fn write_transcript(&self) -> Result<PathBuf> {
        let folder = self.home.join(".claude/projects/-project");
        fs::create_dir_all(&folder)?;
        let cwd = self.runner.path(&self.home.join("project"));
        let line = |kind: &str, uuid: &str, parent: Value, message: Value| {
            json!({
                "parentUuid": parent, "isSidechain": false, "userType": "external", "cwd": cwd, "sessionId": SESSION, "version": CLIENT_VERSION,
                "type": kind, "message": message, "uuid": uuid, "timestamp": "2026-11-01T10:00:00.000Z",
            })
        };
        let (asked, answered) = ("11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222");
        let lines = [
            line("user", asked, Value::Null, json!({ "role": "user", "content": "Where does the harbor pilot berth?" })),
            line(
                "assistant",
                answered,
                asked.into(),
                json!({ "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-opus-4-5", "stop_reason": "end_turn",
                    "content": [{ "type": "text", "text": ANSWER }], "usage": { "input_tokens": 10, "output_tokens": 10 } }),
            ),
        ];
        let path = folder.join(format!("{SESSION}.jsonl"));
        fs::write(&path, lines.map(|line| format!("{line}\n")).concat())?;
        Ok(path)
    }
}

/// The first file of this name below a folder.
fn find(folder: &Path, name: &str) -> Option<PathBuf> {
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).into_iter().flatten().flatten() {
            let path = entry.path();
            match path.is_dir() {
                true => folders.push(path),
                false if path.file_name().is_some_and(|own| own == name) => return Some(path),
                false => {}
            }
        }
    }
    None
}
