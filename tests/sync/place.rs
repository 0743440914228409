//! Two archives, of which one is sent to the other.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ctxbridge::archive::ingest::ingest;
use ctxbridge::archive::learn::LearningPatterns;
use ctxbridge::archive::store::sqlite::{LockPolicy, SqliteStore};
use ctxbridge::archive::store::{EVERYTHING, Store, StoreError, Transcript, TurnSelection};
use ctxbridge::archive::turn_text;
use ctxbridge::redact::Redactor;
use ctxbridge::team::sync::{PreviewedSecret, RetryPolicy, SyncError, SyncPreview, SyncPreviewReport, SyncReport, SyncRun};
use serde_json::Value;
use tempfile::TempDir;

use super::lines::{says, user};

pub const SESSION: &str = "s";

/// Turns with these numbers.
pub fn conversation(turns: Range<u32>) -> Vec<Value> {
    let turn = |number: u32| {
        [user(2 * number, format!("Prompt {number}.")), says(2 * number + 1, &format!("Answer {number}, in full."))]
    };
    turns.flat_map(turn).collect()
}

pub struct Place {
    folder: TempDir,
}

impl Place {
    pub fn new() -> Self {
        let place = Self { folder: tempfile::tempdir().unwrap() };
        for name in ["here", "there", "projects"] {
            fs::create_dir(place.folder.path().join(name)).unwrap();
        }
        place
    }

    pub fn here(&self) -> PathBuf {
        self.folder.path().join("here")
    }

    fn path_of_there(&self) -> PathBuf {
        self.folder.path().join("there")
    }

    pub fn open_here(&self) -> Box<dyn Store> {
        Box::new(SqliteStore::open(&self.here(), LockPolicy::Background).unwrap())
    }

    pub fn there(&self) -> Box<dyn Store> {
        Box::new(SqliteStore::open(&self.path_of_there(), LockPolicy::Background).unwrap())
    }

    pub fn transcript(&self, session: &str) -> PathBuf {
        self.folder.path().join("projects").join(format!("{session}.jsonl"))
    }

    /// A transcript with this content, archived here.
    pub fn archive(&self, session: &str, content: &str) {
        let path = self.transcript(session);
        fs::write(&path, content).unwrap();
        let transcript =
            Transcript { path: path.to_string_lossy().into_owned(), session: session.to_owned(), part: Default::default() };
        ingest(&mut *self.open_here(), &transcript, &path).unwrap();
    }

    pub fn sync(&self) -> Result<SyncReport, SyncError> {
        self.sync_with(false, &|| open(&self.path_of_there()))
    }

    pub fn sync_whole(&self) -> Result<SyncReport, SyncError> {
        self.sync_with(true, &|| open(&self.path_of_there()))
    }

    /// What would be redacted, of what the other archive does not have.
    pub fn preview(&self) -> (SyncPreviewReport, Vec<PreviewedSecret>) {
        let here = self.here();
        let preview = SyncPreview { data: &here, name: Some("there"), redactor: Redactor::standard() };
        let mut secrets = Vec::new();
        let report = preview.run(&mut *self.open_here(), &mut |secret| secrets.push(secret)).unwrap();
        (report, secrets)
    }

    pub fn sync_with(
        &self,
        is_whole: bool,
        to: &(dyn Fn() -> Result<Box<dyn Store>, StoreError> + Sync),
    ) -> Result<SyncReport, SyncError> {
        let here = self.here();
        let sending = SyncRun {
            data: &here,
            from: &|| open(&here),
            to,
            name: "there",
            redactor: Redactor::standard(),
            patterns: &LearningPatterns::of_user().0,
            model: None,
            is_full_resync: is_whole,
            deadline: None,
            retries: RetryPolicy { times: 3, first_pause: Duration::from_millis(1) },
            now_ms: 1_780_000_000_000,
        };
        sending.run(&|_| {})
    }

    /// A copy of the other archive, as a backup would be.
    pub fn copy_of_there(&self) -> TempDir {
        let copy = tempfile::tempdir().unwrap();
        self.there().checkpoint().unwrap();
        fs::copy(self.path_of_there().join(SqliteStore::FILE), copy.path().join(SqliteStore::FILE)).unwrap();
        copy
    }

    pub fn put_there(&self, backup: &TempDir) {
        fs::remove_dir_all(self.path_of_there()).unwrap();
        fs::create_dir(self.path_of_there()).unwrap();
        fs::copy(backup.path().join(SqliteStore::FILE), self.path_of_there().join(SqliteStore::FILE)).unwrap();
    }

    /// A session's own transcript.
    pub fn raw(&self, store: &mut dyn Store, session: &str) -> Vec<u8> {
        let session = store.session(session).unwrap().unwrap();
        let transcript = store.transcripts(session.key).unwrap().remove(0);
        let mut bytes = Vec::new();
        store.read_bytes(transcript.key, transcript.generation, EVERYTHING, &mut bytes).unwrap();
        bytes
    }

    /// That both have the same, where there are no secrets.
    pub fn check_same(&self) {
        let (here, there) = (told(&mut *self.open_here()), told(&mut *self.there()));
        for (here, there) in here.iter().zip(&there) {
            assert_eq!(here, there);
        }
        assert_eq!(here.len(), there.len());
    }
}

fn open(folder: &Path) -> Result<Box<dyn Store>, StoreError> {
    SqliteStore::open(folder, LockPolicy::Background).map(|store| Box::new(store) as Box<dyn Store>)
}

/// All that a store says of its sessions, but for its own numbers.
fn told(store: &mut dyn Store) -> Vec<String> {
    let mut told = Vec::new();
    let mut sessions = store.sessions("", None, usize::MAX).unwrap();
    sessions.sort_by(|a, b| a.session.cmp(&b.session));
    for mut session in sessions {
        let key = std::mem::take(&mut session.key);
        told.push(format!("{session:?} {:?}", store.session_stats(key).unwrap()));
        for mut transcript in store.transcripts(key).unwrap() {
            let number = std::mem::take(&mut transcript.key);
            told.push(format!("{transcript:?}"));
            for generation in 0..=transcript.generation {
                let mut bytes = Vec::new();
                store.read_bytes(number, generation, EVERYTHING, &mut bytes).unwrap();
                told.push(format!("{generation}: {}", String::from_utf8_lossy(&bytes)));
            }
        }
        for which in [TurnSelection::All, TurnSelection::Superseded, TurnSelection::Agents, TurnSelection::Pinned] {
            for mut turn in store.turns(key, which).unwrap() {
                told.push(turn_text::content(store, &turn).unwrap());
                (turn.entry, turn.transcript) = (0, 0);
                told.push(format!("{which:?} {turn:?}"));
            }
        }
        told.extend(
            store.summaries(key).unwrap().iter().map(|summary| format!("{} {} {}", summary.text, summary.at_ms, summary.turns)),
        );
        for mut compaction in store.compactions(Some(key), i64::MIN).unwrap() {
            (compaction.key, compaction.summary, compaction.snapshot, compaction.learnings) = (0, None, None, 0);
            compaction.location = compaction.location.map(|(_, start)| (0, start));
            told.push(format!("{compaction:?}"));
        }
    }
    let totals = store.totals().unwrap();
    told.push(format!("{} {} {}", totals.sessions, totals.turns, totals.entries));
    told
}
