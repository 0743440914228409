//! Writing a line down: for one who must not be waited for.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::{Bundles, Line, Op, PlaceError, Project, Task, shell};
use ctxbridge_common::files;

/// Bytes of a file at its end in which the same line is not written again.
const LOOKED_BACK: u64 = 16 << 10;

/// Bytes of a file beyond which nothing is added: no person does that much in an hour.
const LARGEST: u64 = 256 << 10;

/// How long to wait for another process that writes the same file: each does so for less than a millisecond.
const PATIENCE: Duration = Duration::from_millis(10);

/// What a tool's call comes to; nothing for tools that leave no trace worth keeping, and for what is about ourselves.
pub fn of_tool(tool: &str, input: &Value, project: &Project, cwd: Option<&Path>, home: Option<&Path>) -> Option<Op> {
    let string = |key: &str| input.get(key).and_then(Value::as_str).filter(|text| !text.trim().is_empty());
    let file = |key: &str| {
        let name = project.name_of(string(key)?, cwd, home);
        (!name.starts_with(".ctxbridge/")).then_some(name)
    };
    Some(match tool {
        "Read" => Op::Read(file("file_path")?),
        "Write" => Op::Write(file("file_path")?),
        "Edit" | "MultiEdit" => Op::Edit(file("file_path")?),
        "NotebookEdit" => Op::Edit(file("notebook_path")?),
        "Bash" => Op::Command(string("command").filter(|command| !shell::is_own(command))?.to_owned()),
        "Task" | "Agent" => Op::Task(Task {
            what: string("description").or_else(|| string("prompt"))?.to_owned(),
            agent: string("subagent_type").map(str::to_owned),
        }),
        _ => return None,
    })
}

/// Adds a line to the bundle of a session, unless it says what was said there just before; false where nothing was added. `asked` gives the prompt
/// that it was done for: a file that begins with something else begins with it.
///
/// # Errors
/// When it cannot be written.
pub fn record(
    bundles: &Bundles,
    session: &str,
    op: Op,
    at: Timestamp,
    asked: &dyn Fn() -> Option<Line>,
) -> Result<bool, PlaceError> {
    let op = op.trimmed();
    if op.is_empty() {
        return Ok(false);
    }
    if !bundles.exist()? {
        bundles.prepare()?;
    }
    let (path, mut file) = bundles.open(session, at)?;
    lock(&file);
    let path = if is_gone(&file) {
        let (path, other) = bundles.open(session, at)?;
        file = other;
        lock(&file);
        path
    } else {
        path
    };
    let mut write = || {
        let length = file.metadata()?.len();
        if length > LARGEST {
            return Ok(false);
        }
        file.seek(SeekFrom::Start(length.saturating_sub(LOOKED_BACK)))?;
        let mut end = Vec::new();
        file.read_to_end(&mut end)?;
        if is_said(&String::from_utf8_lossy(&end), &op) {
            return Ok(false);
        }
        let prompt = if length == 0 && !matches!(op, Op::Prompt(_)) { asked() } else { None };
        let prompt = prompt.map(|prompt| prompt.to_json()).unwrap_or_default();
        let line = Line { at: Some(at), op: op.clone() }.to_json();
        // A line that was cut off, by a full disk or a crash, must not swallow this one. One write, so that lines do not mix.
        let torn = if end.last().is_some_and(|last| *last != b'\n') { "\n" } else { "" };
        file.write_all(format!("{torn}{prompt}{line}").as_bytes())?;
        Ok(true)
    };
    write().map_err(|cause| PlaceError::Io { step: "write", path: path.clone(), cause })
}

/// So that whoever folds it does not remove it between two looks at it. Where there are no locks, a line is written nevertheless.
fn lock(file: &File) {
    files::lock_within(file, File::try_lock, PATIENCE).ok();
}

/// Whether it was folded since it was opened: what is written to it now would be lost.
fn is_gone(file: &File) -> bool {
    #[cfg(unix)]
    let links = file.metadata().map_or(1, |metadata| std::os::unix::fs::MetadataExt::nlink(&metadata));
    // What is open cannot be removed there.
    #[cfg(not(unix))]
    let links = u64::from(file.metadata().is_ok());
    links == 0
}

/// Removes a file that is as long as it was when it was read; false where somebody has written to it since.
pub(super) fn remove_read(path: &Path, length: u64) -> io::Result<bool> {
    let file = files::private().append(true).open(path)?;
    lock(&file);
    if file.metadata()?.len() != length {
        return Ok(false);
    }
    std::fs::remove_file(path).map(|()| true)
}

/// Whether it is there since the last prompt; a prompt, whether it is the last one.
fn is_said(end: &str, op: &Op) -> bool {
    for line in end.lines().rev().filter_map(Line::parse) {
        let is_prompt = matches!(line.op, Op::Prompt(_));
        if line.op == *op {
            return true;
        }
        if is_prompt || matches!(op, Op::Prompt(_)) {
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
        let of = |tool: &str, input: Value| of_tool(tool, &input, &project, Some(&project.root), None);
        assert_eq!(of("Read", json!({ "file_path": path("a.rs") })), Some(Op::Read("a.rs".into())));
        assert_eq!(of("Write", json!({ "file_path": "b.rs" })), Some(Op::Write("b.rs".into())));
        assert_eq!(of("MultiEdit", json!({ "file_path": path("a.rs"), "edits": [] })), Some(Op::Edit("a.rs".into())));
        assert_eq!(of("NotebookEdit", json!({ "notebook_path": path("n.ipynb") })), Some(Op::Edit("n.ipynb".into())));
        assert_eq!(of("Bash", json!({ "command": "cargo test" })), Some(Op::Command("cargo test".into())));
        let task = json!({ "description": "look", "prompt": "long", "subagent_type": "Explore" });
        assert_eq!(of("Agent", task), Some(Op::Task(Task { what: "look".into(), agent: Some("Explore".into()) })));
        assert_eq!(of("Task", json!({ "prompt": "long" })), Some(Op::Task(Task { what: "long".into(), agent: None })));
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
        let written: Vec<bool> = [
            Op::Prompt("one".into()),
            Op::Read("a".into()),
            Op::Edit("a".into()),
            Op::Read("a".into()),
            Op::Prompt("two".into()),
            Op::Read("a".into()),
            Op::Read(" ".into()),
            Op::Prompt("two".into()),
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
        record(&bundles, "s", Op::Read("a".into()), at(0), &|| None).expect("written");
        let (path, mut file) = bundles.open("s", at(0)).expect("there");
        file.write_all(b"{\"op\":\"rea").expect("written");
        record(&bundles, "s", Op::Read("b".into()), at(1), &|| None).expect("written");
        let text = fs::read_to_string(&path).expect("there");
        let read: Vec<Op> = text.lines().filter_map(Line::parse).map(|line| line.op).collect();
        assert_eq!(read, [Op::Read("a".into()), Op::Read("b".into())]);
        fs::write(&path, vec![b'\n'; LARGEST as usize + 1]).expect("written");
        assert!(!record(&bundles, "s", Op::Read("c".into()), at(2), &|| None).expect("left alone"));
    }

    #[test]
    fn a_file_begins_with_the_prompt_that_it_goes_on_with() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir(folder.path().join(".git")).expect("a folder");
        let bundles = Bundles::of(&Project::around(folder.path(), None).expect("a project"));
        let prompt = Line { at: Some(at(0)), op: Op::Prompt("Skip empty lines".into()) };
        record(&bundles, "s", prompt.op.clone(), at(0), &|| None).expect("written");
        let asked = || Some(prompt.clone());
        record(&bundles, "s", Op::Edit("a".into()), at(1), &asked).expect("written");
        // Another hour, and what was committed meanwhile.
        record(&bundles, "s", Op::Edit("b".into()), at(3_600), &asked).expect("written");
        fs::create_dir_all(folder.path().join(".git/refs/heads")).expect("a folder");
        fs::write(folder.path().join(".git/HEAD"), "ref: refs/heads/main\n").expect("written");
        record(&bundles, "s", Op::Edit("c".into()), at(3_601), &asked).expect("written");
        record(&bundles, "s", Op::Edit("d".into()), at(3_602), &asked).expect("written");
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
        record(&bundles, "s", Op::Read("a".into()), at(0), &|| None).expect("written");
        let (path, file) = bundles.open("s", at(0)).expect("there");
        let length = file.metadata().expect("there").len();
        record(&bundles, "s", Op::Read("b".into()), at(1), &|| None).expect("written");
        assert!(!remove_read(&path, length).expect("looked at") && path.exists());
        assert!(!is_gone(&file));
        assert!(remove_read(&path, file.metadata().expect("there").len()).expect("removed"));
        assert!(cfg!(not(unix)) || is_gone(&file));
    }
}
