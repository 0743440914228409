//! Where these tests happen: a folder with an archive, and one with transcripts.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use ctxbridge::archive::ingest::{IngestReport, ingest};
use ctxbridge::archive::store::jsonl::JsonlStore;
use ctxbridge::archive::store::sqlite::LockPolicy;
use ctxbridge::archive::store::{ArchiveTotals, EVERYTHING, LearningQuery, Store, Transcript, TurnSelection};
use serde_json::Value;
use tempfile::TempDir;

use super::lines::text;

pub const NOW: i64 = 1_780_000_000_000;
pub const HOUR: i64 = 3_600_000;

pub struct Place {
    root: TempDir,
}

impl Place {
    pub fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("projects")).unwrap();
        Self { root }
    }

    pub fn root(&self) -> &Path {
        self.root.path()
    }

    /// The archive.
    pub fn folder(&self) -> PathBuf {
        self.root.path().join(JsonlStore::FOLDER)
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.folder().join(name)
    }

    pub fn open(&self) -> JsonlStore {
        JsonlStore::open(&self.folder(), LockPolicy::Background).unwrap()
    }

    pub fn look(&self) -> JsonlStore {
        JsonlStore::open_read_only(&self.folder()).unwrap().unwrap()
    }

    /// A transcript.
    pub fn path(&self, session: &str) -> PathBuf {
        self.root.path().join("projects").join(format!("{session}.jsonl"))
    }

    pub fn transcript(&self, session: &str) -> Transcript {
        let path = self.path(session).to_string_lossy().into_owned();
        Transcript { path, session: session.to_owned(), part: Default::default() }
    }

    /// A transcript of these lines, archived.
    pub fn archive(&self, store: &mut dyn Store, session: &str, lines: &[Value]) -> IngestReport {
        fs::write(self.path(session), text(lines)).unwrap();
        ingest(store, &self.transcript(session), &self.path(session)).unwrap()
    }

    /// Nothing in it is damaged, and nothing missing.
    pub fn assert_sound(&self) {
        assert_eq!(self.look().integrity_check().unwrap(), []);
    }
}

/// All files of a folder, by their paths in it.
pub fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder).unwrap().to_owned();
                found.insert(name, fs::read(&path).unwrap());
            }
        }
    }
    found
}

/// Puts them there.
pub fn put(folder: &Path, files: &BTreeMap<PathBuf, Vec<u8>>) {
    fs::create_dir_all(folder.join("transcripts")).unwrap();
    for (name, bytes) in files {
        fs::write(folder.join(name), bytes).unwrap();
    }
}

/// Everything that can be asked of an archive, but for sizes and marks, which are other ones in each.
pub fn dump(store: &mut dyn Store) -> String {
    let totals = ArchiveTotals { bytes_stored: 0, bytes_segments: 0, ..store.totals().unwrap() };
    let mut dump = format!("{totals:?}\n");
    let mut note = |what: &str, answer: &dyn std::fmt::Debug| dump += &format!("{what}: {answer:?}\n");
    for session in store.sessions("", None, usize::MAX).unwrap() {
        note("session", &(&session, store.session_stats(session.key).unwrap()));
        for which in [
            TurnSelection::All,
            TurnSelection::Newest(3),
            TurnSelection::Candidates(5),
            TurnSelection::Superseded,
            TurnSelection::Agents,
            TurnSelection::Pinned,
        ] {
            for turn in store.turns(session.key, which).unwrap() {
                note("turn", &(which, &turn, store.turn_locations(&[turn.entry]).unwrap()));
            }
        }
        for transcript in store.transcripts(session.key).unwrap() {
            note(
                "transcript",
                &(&transcript, store.segment_index(&transcript.path).unwrap(), store.cursor(&transcript.path).unwrap()),
            );
            note("tail", &(store.tail(&transcript.path, 1 << 20).unwrap(), store.turn_at(&transcript.path, 2_000).unwrap()));
            for generation in 0..=transcript.generation {
                let mut bytes = Vec::new();
                store.read_bytes(transcript.key, generation, EVERYTHING, &mut bytes).unwrap();
                note("raw", &(generation, String::from_utf8_lossy(&bytes)));
            }
            note("progress", &store.learning_cursor(transcript.key).unwrap());
        }
        note("summaries", &store.summaries(session.key).unwrap());
        note("contexts", &(store.contexts(session.key).unwrap(), store.first_entry(session.key).unwrap()));
        note("tallies", &store.tool_stats(session.key).unwrap());
    }
    note("compactions", &store.compactions(None, i64::MIN).unwrap());
    note("snapshots", &store.search_compactions("word OR go OR on", None, 99).unwrap());
    note("kept", &store.pinned(99).unwrap());
    note("learnings", &store.learnings(&LearningQuery { with_superseded: true, ..LearningQuery::default() }).unwrap());
    note(
        "words",
        &store.learnings(&LearningQuery { words: Some("poll OR event".to_owned()), ..LearningQuery::default() }).unwrap(),
    );
    note("fixes", &store.fixes(None, 99).unwrap());
    note("changed", &store.changed_files(None, 99).unwrap());
    dump
}
