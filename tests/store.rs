//! The archive of transcripts that grow, shrink and are rewritten: nothing is lost, nothing doubled, and turns are those of the file.

use crate::kinds;

use crate::transcript::changes;
mod finding;
mod history;
mod learning;
mod lessons;
use crate::transcript::lines;
mod opening;
mod projects;
mod reading;
mod restoring;
mod searching;
mod side_files;
mod snapshots;
mod sound;
mod sqlite;
mod summaries;
mod threads;

use std::path::{Path, PathBuf};

use ctxbridge::archive::ingest::{IngestReport, ingest};
use ctxbridge::archive::store::{Session, Store, StoredTurn, Transcript, TurnSelection};
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
    fn archive(&self, store: &mut dyn Store, session: &str, lines: &[Value]) -> IngestReport {
        let path = self.path(&format!("{session}.jsonl"));
        std::fs::write(&path, text(lines)).unwrap();
        ingest(store, &transcript(&path, session), &path).unwrap()
    }
}

fn transcript(path: &Path, session: &str) -> Transcript {
    Transcript { path: path.to_string_lossy().into_owned(), session: session.to_owned(), part: Default::default() }
}

fn session(store: &mut dyn Store, id: &str) -> Option<Session> {
    store.sessions(id, None, usize::MAX).unwrap().into_iter().find(|session| session.session == id)
}

fn turns(store: &mut dyn Store, id: &str) -> Vec<StoredTurn> {
    session(store, id).map_or_else(Vec::new, |session| store.turns(session.key, TurnSelection::All).unwrap())
}
