//! Transcript paths that are none: what the client says is not believed.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use ctxbridge_testkit::sandbox::{Ran, Sandbox, run, session_id};
use serde_json::json;

use super::lines::Lines;

const EVENTS: [&str; 7] =
    ["session-start", "user-prompt-submit", "pre-compact", "post-compact", "stop", "subagent-stop", "session-end"];

/// Tells every hook that this is the transcript, and one that it is a sub-agent's.
fn tell(sandbox: &Sandbox, path: &Path) -> Vec<Ran> {
    let input = json!({
        "session_id": session_id(9), "transcript_path": path, "agent_transcript_path": path, "cwd": path, "source": "compact", "trigger": "auto",
    });
    EVENTS.iter().map(|event| run(sandbox.hook_command(event), input.to_string().as_bytes()).calm()).collect()
}

/// Panics unless the hooks refuse the path, say so once, and keep nothing.
#[track_caller]
fn refused(sandbox: &Sandbox, path: &Path, why: &str) {
    let log = sandbox.log().len();
    let told: Vec<String> =
        tell(sandbox, path).iter().filter(|ran| ran.stdout.starts_with('{')).filter_map(Ran::notice).collect();
    assert!(told.len() <= 1, "told more than once: {told:?}");
    for line in &sandbox.log()[log..] {
        assert!(line["error"].as_str().unwrap().contains(why), "{line}");
    }
    assert!(sandbox.log().len() > log, "nothing was said about {}", path.display());
    assert_eq!(sandbox.count("SELECT count(*) FROM transcripts"), 0);
}

const ELSEWHERE: &str = "is not a transcript in the client's folder";

#[test]
fn what_is_no_file() {
    let sandbox = Sandbox::new();
    refused(&sandbox, &sandbox.project(), ELSEWHERE);
    refused(&sandbox, Path::new("/"), ELSEWHERE);
    let folder = sandbox.project().join("folder.jsonl");
    fs::create_dir(&folder).unwrap();
    refused(&sandbox, &folder, "is not a file");
}

/// None of them may be read: that would not end.
#[test]
fn devices_and_pipes() {
    let sandbox = Sandbox::new();
    // Not every system has a /proc.
    for device in ["/dev/zero", "/dev/null", "/proc/self/mem"].map(Path::new).into_iter().filter(|device| device.exists()) {
        refused(&sandbox, device, ELSEWHERE);
    }
    let pipe = sandbox.project().join(format!("{}.jsonl", session_id(1)));
    // macOS has no `mknodat`.
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    refused(&sandbox, &pipe, "is not a file");
    let device = sandbox.project().join(format!("{}.jsonl", session_id(2)));
    symlink("/dev/zero", &device).unwrap();
    refused(&sandbox, &device, ELSEWHERE);
    // An import does not stop at them, either.
    let talk = sandbox.talk(3, Lines::of("s").turns(1));
    sandbox.cli(&["archive", "import"]);
    assert_eq!(sandbox.count("SELECT count(*) FROM transcripts"), 1);
    sandbox.assert_archived(&talk);
    for path in [pipe.to_str().unwrap(), "/dev/zero"] {
        let ran = run(sandbox.command(&["archive", "import", path]), b"").with_code(3);
        assert!(ran.stderr.contains("nothing could be archived"), "{}", ran.stderr);
    }
}

#[test]
fn what_lies_elsewhere() {
    let sandbox = Sandbox::new();
    let outside = sandbox.path("outside.jsonl");
    fs::write(&outside, Lines::of("s").turns(1)).unwrap();
    refused(&sandbox, &outside, ELSEWHERE);
    refused(&sandbox, &sandbox.project().join("../../../../outside.jsonl"), ELSEWHERE);
    refused(&sandbox, Path::new("/etc/passwd"), ELSEWHERE);
    // Links lead out of the folder, too: to a file, and to a folder.
    let link = sandbox.project().join(format!("{}.jsonl", session_id(1)));
    symlink(&outside, &link).unwrap();
    refused(&sandbox, &link, ELSEWHERE);
    let folder = sandbox.project().join("link");
    symlink(sandbox.path(""), &folder).unwrap();
    refused(&sandbox, &folder.join("outside.jsonl"), ELSEWHERE);
    // Not every file in the folder is a transcript.
    let settings = sandbox.home().join(".claude/settings.json");
    fs::write(&settings, "{\"env\":{\"TOKEN\":\"secret\"}}").unwrap();
    refused(&sandbox, &settings, ELSEWHERE);
}

/// A new session has no file yet: that is no failure.
#[test]
fn what_is_missing() {
    let sandbox = Sandbox::new();
    for path in [sandbox.project().join(format!("{}.jsonl", session_id(1))), sandbox.path("no/such/folder/x.jsonl")] {
        for ran in tell(&sandbox, &path) {
            assert_eq!(ran.stdout, "");
        }
    }
    assert!(sandbox.log().is_empty());
    assert_eq!(sandbox.count("SELECT count(*) FROM transcripts"), 0);
}

/// The client's folder may be anywhere, and a link.
#[test]
fn a_folder_that_was_moved() {
    let sandbox = Sandbox::new();
    let elsewhere = sandbox.path("other disk");
    fs::rename(sandbox.project().parent().unwrap(), &elsewhere).unwrap();
    symlink(&elsewhere, sandbox.home().join(".claude/projects")).unwrap();
    let talk = sandbox.talk(1, Lines::of("s").turns(2));
    sandbox.quiet_hook("stop", &talk.input());
    sandbox.assert_archived(&talk);
    // One session, by whichever path it is named.
    let mut command = sandbox.hook_command("stop");
    command.env("CLAUDE_CONFIG_DIR", sandbox.home().join(".claude"));
    run(command, talk.input().to_string().as_bytes()).calm();
    sandbox.cli(&["archive", "import"]);
    assert_eq!(sandbox.json(&["archive", "status"])["transcripts"], 1);
}

#[test]
fn a_client_folder_named_by_a_variable() {
    let sandbox = Sandbox::new();
    let folder = sandbox.path("config/projects/-p");
    fs::create_dir_all(&folder).unwrap();
    let talk = sandbox.talk(1, Lines::of("s").turns(2));
    let moved = folder.join(talk.path.file_name().unwrap());
    fs::rename(&talk.path, &moved).unwrap();
    let mut input = talk.input();
    input["transcript_path"] = json!(moved);
    let hook = |config: &str| {
        let mut command = sandbox.hook_command("stop");
        command.env("CLAUDE_CONFIG_DIR", sandbox.path(config));
        run(command, input.to_string().as_bytes()).calm()
    };
    assert!(hook("another").notice().unwrap().contains(ELSEWHERE));
    assert_eq!(hook("config").stdout, "");
    assert_eq!(sandbox.restored(&talk.id, &[]), fs::read(moved).unwrap());
}
