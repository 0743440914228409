//! What keeps a database from being opened, and what an archive in JSON Lines is looked at with.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;

use ctxbridge::archive::store::jsonl::JsonlStore;
use ctxbridge::archive::store::sqlite::SqliteStore;
use serde_json::Value;

use super::sandbox::{Ran, Sandbox, Talk, run};

impl Sandbox {
    /// The folder of JSON Lines.
    pub fn lines(&self) -> PathBuf {
        self.data().join(JsonlStore::FOLDER)
    }

    /// From now on, no database can be opened: its file is a link into a folder that is not there. One that was there is kept.
    pub fn block(&self) {
        fs::create_dir_all(self.data()).unwrap();
        if self.database().exists() {
            fs::create_dir_all(self.path("kept")).unwrap();
            for name in self.database_files() {
                let (file, kept) = (self.data().join(&name), self.path("kept").join(&name));
                if file.exists() {
                    fs::rename(file, kept).unwrap();
                }
            }
        }
        symlink(self.path("not-mounted/archive.db"), self.database()).unwrap();
    }

    /// It can be opened again.
    pub fn unblock(&self) {
        fs::remove_file(self.database()).unwrap();
        for name in self.database_files() {
            fs::rename(self.path("kept").join(&name), self.data().join(&name)).ok();
        }
    }

    fn database_files(&self) -> [String; 3] {
        ["", "-wal", "-shm"].map(|suffix| format!("{}{suffix}", SqliteStore::FILE))
    }

    /// A command of one who chose JSON Lines.
    pub fn choosing_lines(&self, arguments: &[&str]) -> Command {
        let mut command = self.command(arguments);
        command.env("CTXBRIDGE_ARCHIVE_STORE", "jsonl");
        command
    }

    /// A hook of one who chose JSON Lines.
    #[track_caller]
    pub fn lines_hook(&self, event: &str, input: &Value) -> Ran {
        run(self.choosing_lines(&["hook", event]), input.to_string().as_bytes()).calm()
    }

    /// A command of one who chose JSON Lines, and what it prints as JSON.
    #[track_caller]
    pub fn lines_json(&self, arguments: &[&str]) -> Value {
        run(self.choosing_lines(&[arguments, &["--json"]].concat()), b"").done().json()
    }

    /// What an archive in JSON Lines has of a session's transcript.
    #[track_caller]
    pub fn lines_restored(&self, talk: &Talk) -> Vec<u8> {
        let output = self.choosing_lines(&["archive", "restore", &talk.id]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    }

    /// Folders that were moved aside, as what.
    pub fn moved(&self, why: &str) -> Vec<PathBuf> {
        let begin = format!("{}.{why}-", JsonlStore::FOLDER);
        let entries = fs::read_dir(self.data()).unwrap().map(|entry| entry.unwrap());
        let mut found: Vec<_> =
            entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(&begin)).map(|entry| entry.path()).collect();
        found.sort();
        found
    }

    /// Nothing in the archive in JSON Lines is damaged, and nothing missing.
    #[track_caller]
    pub fn assert_lines_sound(&self) {
        let mut store = JsonlStore::open_read_only(&self.lines()).unwrap().unwrap();
        assert_eq!(store.integrity_check().unwrap(), []);
    }
}
