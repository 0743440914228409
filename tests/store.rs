//! The archive of transcripts that grow, shrink and are rewritten: nothing is lost, nothing doubled, and turns are those of the file.
#![allow(clippy::unwrap_used)]

#[macro_use]
#[path = "store/kinds.rs"]
mod kinds;

#[path = "transcript/changes.rs"]
mod changes;
#[path = "store/finding.rs"]
mod finding;
#[path = "store/history.rs"]
mod history;
#[path = "store/learning.rs"]
mod learning;
#[path = "store/lessons.rs"]
mod lessons;
#[path = "transcript/lines.rs"]
#[allow(dead_code, reason = "shared with the tests of transcripts, which need more of them")]
mod lines;
#[path = "store/opening.rs"]
mod opening;
#[path = "store/reading.rs"]
mod reading;
#[path = "store/restoring.rs"]
mod restoring;
#[path = "store/searching.rs"]
mod searching;
#[path = "store/snapshots.rs"]
mod snapshots;
#[path = "store/sound.rs"]
mod sound;
#[path = "store/sqlite.rs"]
mod sqlite;
#[path = "store/summaries.rs"]
mod summaries;
#[path = "store/threads.rs"]
mod threads;

use std::path::{Path, PathBuf};

use ctxbridge::archive::ingest::{Pass, archive};
use ctxbridge::archive::store::{Session, Store, StoredTurn, Transcript, Turns};
use kinds::Kind;
use lines::text;
use serde_json::Value;
use tempfile::TempDir;

/// A data folder with an archive of some kind, and a folder of transcripts.
struct Place {
    kind: Kind,
    data: TempDir,
    projects: TempDir,
}

impl Place {
    fn new(kind: Kind) -> Self {
        Self { kind, data: tempfile::tempdir().unwrap(), projects: tempfile::tempdir().unwrap() }
    }

    fn open(&self) -> Box<dyn Store> {
        self.kind.open(self.data.path())
    }

    fn check_sound(&self) {
        self.kind.check_sound(self.data.path());
    }

    fn path(&self, name: &str) -> PathBuf {
        self.projects.path().join(name)
    }

    /// A transcript of these lines, archived.
    fn archive(&self, store: &mut dyn Store, session: &str, lines: &[Value]) -> Pass {
        let path = self.path(&format!("{session}.jsonl"));
        std::fs::write(&path, text(lines)).unwrap();
        archive(store, &transcript(&path, session), &path).unwrap()
    }
}

fn transcript(path: &Path, session: &str) -> Transcript {
    Transcript { path: path.to_string_lossy().into_owned(), session: session.to_owned(), agent: None }
}

fn session(store: &mut dyn Store, id: &str) -> Option<Session> {
    store.sessions(id, None, usize::MAX).unwrap().into_iter().find(|session| session.session == id)
}

fn turns(store: &mut dyn Store, id: &str) -> Vec<StoredTurn> {
    session(store, id).map_or_else(Vec::new, |session| store.turns(session.key, Turns::All).unwrap())
}
