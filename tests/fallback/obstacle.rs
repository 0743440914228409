//! An obstacle for databases, and an archive in JSON Lines to look at.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;

use ctxbridge::archive::store::jsonl::JsonlStore;
use ctxbridge::archive::store::sqlite::SqliteStore;
use ctxbridge_testkit::sandbox::{Ran, Sandbox, Talk, run};
use serde_json::Value;

/// The folder of JSON Lines.
pub fn lines_folder(sandbox: &Sandbox) -> PathBuf {
    sandbox.data().join(JsonlStore::FOLDER)
}

/// Keeps the database from being opened: its file is a link into a folder that is not there. One that was there is kept.
pub fn block(sandbox: &Sandbox) {
    fs::create_dir_all(sandbox.data()).unwrap();
    if sandbox.database().exists() {
        fs::create_dir_all(sandbox.path("kept")).unwrap();
        for name in database_files() {
            let (file, kept) = (sandbox.data().join(&name), sandbox.path("kept").join(&name));
            if file.exists() {
                fs::rename(file, kept).unwrap();
            }
        }
    }
    symlink(sandbox.path("not-mounted/archive.db"), sandbox.database()).unwrap();
}

/// Lets it be opened again.
pub fn unblock(sandbox: &Sandbox) {
    fs::remove_file(sandbox.database()).unwrap();
    for name in database_files() {
        fs::rename(sandbox.path("kept").join(&name), sandbox.data().join(&name)).ok();
    }
}

fn database_files() -> [String; 3] {
    ["", "-wal", "-shm"].map(|suffix| format!("{}{suffix}", SqliteStore::FILE))
}

/// A command of one who chose JSON Lines.
pub fn choosing_lines(sandbox: &Sandbox, arguments: &[&str]) -> Command {
    let mut command = sandbox.command(arguments);
    command.env("CTXBRIDGE_ARCHIVE_STORE", "jsonl");
    command
}

/// A hook of one who chose JSON Lines.
#[track_caller]
pub fn lines_hook(sandbox: &Sandbox, event: &str, input: &Value) -> Ran {
    run(choosing_lines(sandbox, &["hook", event]), input.to_string().as_bytes()).calm()
}

/// A command of one who chose JSON Lines, and what it prints as JSON.
#[track_caller]
pub fn lines_json(sandbox: &Sandbox, arguments: &[&str]) -> Value {
    run(choosing_lines(sandbox, &[arguments, &["--json"]].concat()), b"").done().json()
}

/// Bytes that an archive in JSON Lines has of a session's transcript.
#[track_caller]
pub fn lines_restored(sandbox: &Sandbox, talk: &Talk) -> Vec<u8> {
    let output = choosing_lines(sandbox, &["archive", "restore", &talk.id]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// Folders that were moved aside, as what.
pub fn moved(sandbox: &Sandbox, why: &str) -> Vec<PathBuf> {
    let begin = format!("{}.{why}-", JsonlStore::FOLDER);
    let entries = fs::read_dir(sandbox.data()).unwrap().map(|entry| entry.unwrap());
    let mut found: Vec<_> =
        entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(&begin)).map(|entry| entry.path()).collect();
    found.sort();
    found
}

/// Panics unless the archive in JSON Lines is whole.
#[track_caller]
pub fn assert_lines_sound(sandbox: &Sandbox) {
    let mut store = JsonlStore::open_read_only(&lines_folder(sandbox)).unwrap().unwrap();
    assert_eq!(store.integrity_check().unwrap(), []);
}
