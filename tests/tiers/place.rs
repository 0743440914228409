//! Where these tests happen: an archive of old sessions, and a folder for what is cold.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use ctxbridge_testkit::sandbox::{Ran, Sandbox, Talk, run, session_id};
use serde_json::Value;

use super::lines::Lines;

pub struct Place {
    pub sandbox: Sandbox,
}

impl Place {
    pub fn new() -> Self {
        Self { sandbox: Sandbox::new() }
    }

    pub fn cold(&self) -> PathBuf {
        self.sandbox.path("bucket")
    }

    /// A command with a cold folder; sessions are warm and cold after one day.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.sandbox.command(arguments);
        command.env("CTXBRIDGE_ARCHIVE_WARM_AFTER_DAYS", "1").env("CTXBRIDGE_ARCHIVE_COLD_AFTER_DAYS", "1");
        command.env("CTXBRIDGE_ARCHIVE_COLD_FOLDER", self.cold());
        command
    }

    #[track_caller]
    pub fn run(&self, arguments: &[&str]) -> Ran {
        whole(self.command(arguments))
    }

    /// `archive optimize`; what it says of tiers.
    #[track_caller]
    pub fn optimize(&self) -> Value {
        let ran = run(self.command(&["archive", "optimize", "--json"]), b"");
        let tiers = ran.json()["tiers"].clone();
        let has_failed = tiers["failed"].as_array().is_some_and(|failed| !failed.is_empty());
        assert_eq!(ran.code, Some(i32::from(has_failed)), "{ran:?}");
        tiers
    }

    /// The same, without cold files.
    #[track_caller]
    pub fn warm(&self) -> Value {
        let mut command = self.command(&["archive", "optimize", "--json"]);
        command.env_remove("CTXBRIDGE_ARCHIVE_COLD_FOLDER");
        whole(command).json()["tiers"].clone()
    }

    #[track_caller]
    pub fn import(&self) {
        self.sandbox.cli(&["archive", "import"]);
    }

    /// A session of some turns in old lines, which is not archived yet.
    pub fn old(&self, number: u32, turns: usize) -> (Talk, Lines) {
        let mut lines = Lines::of(&session_id(number)).seed(number.into());
        let talk = self.sandbox.talk(number, lines.turns(turns));
        (talk, lines)
    }

    /// The cold file of a session.
    pub fn file(&self, talk: &Talk) -> PathBuf {
        self.cold().join(format!("{}.jsonl.zst", talk.id))
    }

    pub fn files(&self) -> Vec<PathBuf> {
        files(&self.cold())
    }

    /// Where a session is.
    #[track_caller]
    pub fn tier(&self, talk: &Talk) -> String {
        let sessions = self.sandbox.json(&["archive", "sessions"]);
        let found = sessions["sessions"].as_array().unwrap().iter().find(|session| session["session"] == talk.id.as_str());
        found.unwrap()["tier"].as_str().unwrap().to_owned()
    }

    /// Panics unless each of these comes back to the byte, and the database is in order.
    #[track_caller]
    pub fn assert_all(&self, talks: &[&Talk]) {
        self.sandbox.assert_sound();
        for talk in talks {
            assert!(self.sandbox.restored(&talk.id, &[]) == talk.bytes(), "{} is another", talk.id);
        }
    }

    /// Bytes of segments in the database.
    pub fn kept(&self) -> i64 {
        self.sandbox.count("SELECT coalesce(sum(length(data)), 0) FROM segments")
    }

    /// Recalls the first turn of a session, as somebody who needs it.
    #[track_caller]
    pub fn use_it(&self, talk: &Talk) {
        let shown = self.sandbox.json(&["archive", "show", &talk.id]);
        self.sandbox.cli(&["recall", shown["turns"][0]["handle"].as_str().unwrap()]);
        self.use_it_silently(talk);
    }

    /// Notes down that it was recalled, whether it can be read or not.
    pub fn use_it_silently(&self, talk: &Talk) {
        let db = rusqlite::Connection::open(self.sandbox.database()).unwrap();
        let now = jiff::Timestamp::now().as_millisecond();
        db.execute(
            "UPDATE entries SET access_count = access_count + 1, accessed_ms = ?1 WHERE id = (SELECT entry FROM turns
             JOIN transcripts ON transcripts.id = transcript JOIN sessions ON sessions.id = transcripts.session
             WHERE sessions.session = ?2 ORDER BY idx LIMIT 1)",
            (now, &talk.id),
        )
        .unwrap();
    }
}

impl Place {
    /// As if nobody had used any session for long.
    pub fn forget_use(&self) {
        let db = rusqlite::Connection::open(self.sandbox.database()).unwrap();
        db.execute_batch("UPDATE sessions SET last_ms = 1; UPDATE entries SET access_count = 0, accessed_ms = NULL").unwrap();
    }
}

/// Runs a command that may take as long as it likes: an archive that a dictionary is worth for is not looked through in no time.
#[track_caller]
fn whole(mut command: Command) -> Ran {
    Ran::from(command.output().unwrap()).done()
}

pub fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}
