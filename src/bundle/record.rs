//! Appending a line to a bundle, for hooks, which must not wait.

use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::{BundleAction, BundleLine, BundlePathError, Bundles, Project, Task, shell};

/// Bytes at the end of a file in which a line is not repeated.
const DEDUPLICATION_BYTES: u64 = 16 << 10;

/// Maximum bytes of a file to which lines are added: no person does that much in an hour.
const MAX_GROWING_FILE_BYTES: u64 = 256 << 10;

/// Time to wait for another process that writes the same file. Each does so for less than a millisecond.
const APPEND_LOCK_TIMEOUT: Duration = Duration::from_millis(10);

/// Converts a tool call to an action; none for tools that leave nothing worth recording, and for calls of ctxbridge itself.
pub fn action_of_tool_call(
    tool: &str,
    input: &Value,
    project: &Project,
    cwd: Option<&Path>,
    home: Option<&Path>,
) -> Option<BundleAction> {
    let string = |key: &str| input.get(key).and_then(Value::as_str).filter(|text| !text.trim().is_empty());
    let file = |key: &str| {
        let name = project.name_of(string(key)?, cwd, home);
        (!name.starts_with(".ctxbridge/")).then_some(name)
    };
    Some(match tool {
        "Read" => BundleAction::Read(file("file_path")?),
        "Write" => BundleAction::Write(file("file_path")?),
        "Edit" | "MultiEdit" => BundleAction::Edit(file("file_path")?),
        "NotebookEdit" => BundleAction::Edit(file("notebook_path")?),
        "Bash" => BundleAction::Command(string("command").filter(|command| !shell::is_own(command))?.to_owned()),
        "Task" | "Agent" => BundleAction::Task(Task {
            description: string("description").or_else(|| string("prompt"))?.to_owned(),
            agent: string("subagent_type").map(str::to_owned),
        }),
        _ => return None,
    })
}

/// Adds a line to the bundle of a session, if the project has bundles and the line does not repeat one since the last prompt. Returns
/// `false` if nothing was added. `asked` returns the prompt of the work, which is written before the first line of it.
///
/// # Errors
/// If it cannot be written.
pub fn record(
    bundles: &Bundles,
    session: &str,
    op: BundleAction,
    at: Timestamp,
    asked: &dyn Fn() -> Option<BundleLine>,
) -> Result<bool, BundlePathError> {
    let op = op.trimmed();
    if op.is_empty() {
        return Ok(false);
    }
    if !bundles.take_lines()? {
        return Ok(false);
    }
    // Locked before it is opened: else folding might remove it in between, and the line with it.
    let _alone = bundles.lock(APPEND_LOCK_TIMEOUT);
    let (path, mut file) = bundles.open(session, at)?;
    let mut write = || {
        let length = file.metadata()?.len();
        if length > MAX_GROWING_FILE_BYTES {
            return Ok(false);
        }
        file.seek(SeekFrom::Start(length.saturating_sub(DEDUPLICATION_BYTES)))?;
        let mut end = Vec::new();
        file.read_to_end(&mut end)?;
        let asked = asked().filter(|_| !matches!(op, BundleAction::Prompt(_)));
        let text = String::from_utf8_lossy(&end);
        let is_asked_there = asked.is_none() || last_prompt(&text) == asked;
        if is_asked_there && is_recorded(&text, &op) {
            return Ok(false);
        }
        let prompt = asked.filter(|_| !is_asked_there).map(|prompt| prompt.to_json()).unwrap_or_default();
        let line = BundleLine { at: Some(at), action: op.clone() }.to_json();
        // A line that was cut off, by a full disk or a crash, must not swallow this one. One write, so that lines do not mix.
        let torn = if end.last().is_some_and(|last| *last != b'\n') { "\n" } else { "" };
        file.write_all(format!("{torn}{prompt}{line}").as_bytes())?;
        Ok(true)
    };
    write().map_err(|cause| BundlePathError::Io { step: "write", path: path.clone(), cause })
}

/// Removes a file if it is as long as it was when it was read. Returns `false` if somebody has written to it since.
pub(super) fn remove_if_unchanged(bundles: &Bundles, path: &Path, length: u64) -> io::Result<bool> {
    let _alone = bundles.lock(APPEND_LOCK_TIMEOUT);
    if std::fs::symlink_metadata(path)?.len() != length {
        return Ok(false);
    }
    std::fs::remove_file(path).map(|()| true)
}

fn last_prompt(end: &str) -> Option<BundleLine> {
    end.lines().rev().filter_map(BundleLine::parse).find(|line| matches!(line.action, BundleAction::Prompt(_)))
}

/// `true` if the action is recorded since the last prompt. For a prompt: if it is the last one.
fn is_recorded(end: &str, op: &BundleAction) -> bool {
    for line in end.lines().rev().filter_map(BundleLine::parse) {
        let is_prompt = matches!(line.action, BundleAction::Prompt(_));
        if line.action == *op {
            return true;
        }
        if is_prompt || matches!(op, BundleAction::Prompt(_)) {
            return false;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::json;

    use super::*;
    use crate::bundle::{Episode, read};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_795_000_000 + second).expect("a time")
    }

    #[test]
    fn tools_leave_what_they_did() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir(folder.path().join(".git")).expect("a folder");
        let project = Project::around(folder.path(), None).expect("a project");
        let path = |name: &str| project.root.join(name).to_string_lossy().into_owned();
        let of = |tool: &str, input: Value| action_of_tool_call(tool, &input, &project, Some(&project.root), None);
        assert_eq!(of("Read", json!({ "file_path": path("a.rs") })), Some(BundleAction::Read("a.rs".into())));
        assert_eq!(of("Write", json!({ "file_path": "b.rs" })), Some(BundleAction::Write("b.rs".into())));
        assert_eq!(of("MultiEdit", json!({ "file_path": path("a.rs"), "edits": [] })), Some(BundleAction::Edit("a.rs".into())));
        assert_eq!(of("NotebookEdit", json!({ "notebook_path": path("n.ipynb") })), Some(BundleAction::Edit("n.ipynb".into())));
        assert_eq!(of("Bash", json!({ "command": "cargo test" })), Some(BundleAction::Command("cargo test".into())));
        let task = json!({ "description": "look", "prompt": "long", "subagent_type": "Explore" });
        assert_eq!(
            of("Agent", task),
            Some(BundleAction::Task(Task { description: "look".into(), agent: Some("Explore".into()) }))
        );
        assert_eq!(
            of("Task", json!({ "prompt": "long" })),
            Some(BundleAction::Task(Task { description: "long".into(), agent: None }))
        );
        assert_eq!(of("Read", json!({ "file_path": path(".ctxbridge/bundles/x.jsonl") })), None);
        for (tool, input) in
            [("Glob", json!({ "pattern": "*" })), ("Read", json!({})), ("Read", json!([])), ("Bash", json!({ "command": 7 }))]
        {
            assert_eq!(of(tool, input), None, "{tool}");
        }
    }

    #[test]
    fn the_same_is_written_once_for_each_prompt() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir(folder.path().join(".git")).expect("a folder");
        let bundles = Bundles::of(&Project::around(folder.path(), None).expect("a project"));
        bundles.prepare().expect("made");
        let written: Vec<bool> = [
            BundleAction::Prompt("one".into()),
            BundleAction::Read("a".into()),
            BundleAction::Edit("a".into()),
            BundleAction::Read("a".into()),
            BundleAction::Prompt("two".into()),
            BundleAction::Read("a".into()),
            BundleAction::Read(" ".into()),
            BundleAction::Prompt("two".into()),
        ]
        .into_iter()
        .zip(0..)
        .map(|(op, second)| record(&bundles, "s", op, at(second), &|| None).expect("written"))
        .collect();
        assert_eq!(written, [true, true, true, false, true, true, false, true]);
    }

    #[test]
    fn a_torn_line_swallows_nothing_and_a_full_file_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir(folder.path().join(".git")).expect("a folder");
        let bundles = Bundles::of(&Project::around(folder.path(), None).expect("a project"));
        bundles.prepare().expect("made");
        record(&bundles, "s", BundleAction::Read("a".into()), at(0), &|| None).expect("written");
        let (path, mut file) = bundles.open("s", at(0)).expect("there");
        file.write_all(b"{\"op\":\"rea").expect("written");
        record(&bundles, "s", BundleAction::Read("b".into()), at(1), &|| None).expect("written");
        let text = fs::read_to_string(&path).expect("there");
        let read: Vec<BundleAction> = text.lines().filter_map(BundleLine::parse).map(|line| line.action).collect();
        assert_eq!(read, [BundleAction::Read("a".into()), BundleAction::Read("b".into())]);
        fs::write(&path, vec![b'\n'; MAX_GROWING_FILE_BYTES as usize + 1]).expect("written");
        assert!(!record(&bundles, "s", BundleAction::Read("c".into()), at(2), &|| None).expect("left alone"));
    }

    #[test]
    fn a_file_begins_with_the_prompt_that_it_goes_on_with() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir(folder.path().join(".git")).expect("a folder");
        let bundles = Bundles::of(&Project::around(folder.path(), None).expect("a project"));
        bundles.prepare().expect("made");
        let prompt = BundleLine { at: Some(at(0)), action: BundleAction::Prompt("Skip empty lines".into()) };
        record(&bundles, "s", prompt.action.clone(), at(0), &|| None).expect("written");
        let asked = || Some(prompt.clone());
        record(&bundles, "s", BundleAction::Edit("a".into()), at(1), &asked).expect("written");
        // Another hour, and what was committed meanwhile.
        record(&bundles, "s", BundleAction::Edit("b".into()), at(3_600), &asked).expect("written");
        fs::create_dir_all(folder.path().join(".git/refs/heads")).expect("a folder");
        fs::write(folder.path().join(".git/HEAD"), "ref: refs/heads/main\n").expect("written");
        record(&bundles, "s", BundleAction::Edit("c".into()), at(3_601), &asked).expect("written");
        record(&bundles, "s", BundleAction::Edit("d".into()), at(3_602), &asked).expect("written");
        let files = read::list(&bundles).expect("listed");
        assert_eq!(files.len(), 3);
        let all = files.iter().flat_map(|file| read::read(&bundles, &file.name).expect("read").episodes);
        let shown: Vec<String> = Episode::unique(all).iter().map(Episode::line).collect();
        assert_eq!(shown, ["2026-11-18 11:06 Skip empty lines | Changed: a, b, c, d"]);
    }

    #[test]
    fn what_was_written_meanwhile_is_not_removed_and_what_is_removed_is_not_written() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir(folder.path().join(".git")).expect("a folder");
        let bundles = Bundles::of(&Project::around(folder.path(), None).expect("a project"));
        bundles.prepare().expect("made");
        record(&bundles, "s", BundleAction::Read("a".into()), at(0), &|| None).expect("written");
        let (path, file) = bundles.open("s", at(0)).expect("there");
        let length = file.metadata().expect("there").len();
        drop(file);
        record(&bundles, "s", BundleAction::Read("b".into()), at(1), &|| None).expect("written");
        assert!(!remove_if_unchanged(&bundles, &path, length).expect("looked at") && path.exists());
        let length = fs::metadata(&path).expect("there").len();
        assert!(remove_if_unchanged(&bundles, &path, length).expect("removed") && !path.exists());
        // Whoever reads a file is never locked out: the lock is another file.
        let alone = bundles.lock(APPEND_LOCK_TIMEOUT).expect("locked");
        assert!(bundles.lock(std::time::Duration::from_millis(20)).is_none());
        drop(alone);
        assert!(bundles.lock(std::time::Duration::from_millis(20)).is_some());
    }
}
