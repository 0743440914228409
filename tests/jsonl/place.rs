//! Where these tests happen: a folder with an archive, and one with transcripts.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use ctxbridge::archive::ingest::{Pass, archive};
use ctxbridge::archive::store::jsonl::JsonlStore;
use ctxbridge::archive::store::sqlite::Patience;
use ctxbridge::archive::store::{EVERYTHING, Store, Totals, Transcript, Turns, Wanted};
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
        JsonlStore::open(&self.folder(), Patience::Patient).unwrap()
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
        Transcript { path, session: session.to_owned(), agent: None }
    }

    /// A transcript of these lines, archived.
    pub fn archive(&self, store: &mut dyn Store, session: &str, lines: &[Value]) -> Pass {
        fs::write(self.path(session), text(lines)).unwrap();
        archive(store, &self.transcript(session), &self.path(session)).unwrap()
    }

    /// Nothing in it is damaged, and nothing missing.
    pub fn assert_sound(&self) {
        assert_eq!(self.look().look_through().unwrap(), []);
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
    let totals = Totals { bytes_stored: 0, bytes_segments: 0, ..store.totals().unwrap() };
    let mut dump = format!("{totals:?}\n");
    let mut note = |what: &str, answer: &dyn std::fmt::Debug| dump += &format!("{what}: {answer:?}\n");
    for session in store.sessions("", None, usize::MAX).unwrap() {
        note("session", &(&session, store.size(session.key).unwrap()));
        for which in [Turns::All, Turns::Newest(3), Turns::Candidates(5), Turns::Superseded, Turns::Agents, Turns::Kept] {
            for turn in store.turns(session.key, which).unwrap() {
                note("turn", &(which, &turn, store.places(&[turn.entry]).unwrap()));
            }
        }
        for transcript in store.transcripts(session.key).unwrap() {
            note("transcript", &(&transcript, store.layout(&transcript.path).unwrap(), store.cursor(&transcript.path).unwrap()));
            note("tail", &(store.tail(&transcript.path, 1 << 20).unwrap(), store.turn_at(&transcript.path, 2_000).unwrap()));
            for generation in 0..=transcript.generation {
                let mut bytes = Vec::new();
                store.raw(transcript.key, generation, EVERYTHING, &mut bytes).unwrap();
                note("raw", &(generation, String::from_utf8_lossy(&bytes)));
            }
            note("progress", &store.progress(transcript.key).unwrap());
        }
        note("summaries", &store.summaries(session.key).unwrap());
        note("contexts", &(store.contexts(session.key).unwrap(), store.first_entry(session.key).unwrap()));
        note("tallies", &store.tallies(session.key).unwrap());
    }
    note("compactions", &store.compactions(None, i64::MIN).unwrap());
    note("snapshots", &store.compactions_with("word OR go OR on", None, 99).unwrap());
    note("kept", &store.kept(99).unwrap());
    note("learnings", &store.learnings(&Wanted { with_superseded: true, ..Wanted::default() }).unwrap());
    note("words", &store.learnings(&Wanted { words: Some("poll OR event".to_owned()), ..Wanted::default() }).unwrap());
    note("fixes", &store.fixes(None, 99).unwrap());
    note("changed", &store.changed_files(None, 99).unwrap());
    dump
}
