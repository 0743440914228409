//! Search with vectors: a stand-in for the model knows which words mean the same, and nothing else.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use ctxbridge::archive::embed::{EmbedError, Embedder};
use ctxbridge::archive::import::import;
use ctxbridge::archive::reader::Comparison;
use ctxbridge::archive::search::{self, Found, Index, Mode, Request, Stages, What};
use ctxbridge::archive::store::sqlite::{Patience, SqliteStore};
use ctxbridge_testkit::transcript::{Kind, Spec, generate};
use serde_json::json;
use tempfile::TempDir;

/// A dimension for each group of words.
const MEANINGS: [&[&str]; 4] =
    [&["hang", "hangs", "frozen", "stuck"], &["upload", "sending"], &["night", "midnight"], &["cost", "price", "expensive"]];

struct Meanings;

impl Embedder for Meanings {
    fn id(&self) -> &'static str {
        "meanings"
    }

    fn dimensions(&self) -> usize {
        MEANINGS.len() + 1
    }

    fn embed(&mut self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let vector = |text: &&str| {
            let text = text.to_lowercase();
            let words: Vec<&str> = text.split(|c: char| !c.is_alphanumeric()).collect();
            let count = |group: &[&str]| words.iter().filter(|word| group.contains(*word)).count() as f32;
            let mut vector: Vec<f32> = MEANINGS.iter().map(|group| count(group)).collect();
            vector.push(0.1);
            let length = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
            vector.iter().map(|value| value / length).collect()
        };
        Ok(texts.iter().map(vector).collect())
    }
}

struct World {
    folder: TempDir,
    store: SqliteStore,
    index: Index,
}

impl World {
    /// An archive of sessions, each of prompts with their answers.
    fn new(sessions: &[&[(&str, &str)]]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut paths = Vec::new();
        for (number, turns) in sessions.iter().enumerate() {
            let session = format!("{number:08x}-0000-4000-8000-000000000000");
            let path = folder.path().join(format!("{session}.jsonl"));
            let mut text = String::new();
            for (at, (prompt, answer)) in turns.iter().enumerate() {
                for (kind, said, minute) in [("user", prompt, 2 * at), ("assistant", answer, 2 * at + 1)] {
                    let line = json!({
                        "type": kind, "uuid": format!("{number:04x}{at:04x}-{minute:04x}-4000-8000-000000000000"), "sessionId": session,
                        "cwd": "/p", "timestamp": format!("2026-06-0{}T10:{minute:02}:00Z", number + 1),
                        "message": { "role": kind, "content": [{ "type": "text", "text": said }] },
                    });
                    text += &format!("{line}\n");
                }
            }
            std::fs::write(&path, text).unwrap();
            paths.push(path);
        }
        import(folder.path(), &paths, Comparison::Whole, &|_| {}).unwrap();
        Self::open(folder)
    }

    fn open(folder: TempDir) -> Self {
        let store = SqliteStore::open(folder.path(), Patience::Patient).unwrap();
        let index = Index::open(folder.path()).unwrap();
        Self { folder, store, index }
    }

    fn refresh(&mut self) -> usize {
        search::refresh(&mut self.store, &mut self.index, usize::MAX, &mut |_| {}).unwrap().entries
    }

    fn embed(&mut self, most: usize) -> usize {
        search::embed(&mut self.store, &mut self.index, &mut Meanings, most, &mut |_| {}).unwrap().entries
    }

    fn found(&mut self, request: &Request) -> Found {
        search::search(&mut self.store, &mut self.index, Some(&mut Meanings), request).unwrap()
    }

    /// Session and index of the hits.
    fn hits(&mut self, request: &Request) -> Vec<(usize, u32)> {
        let hits = self.found(request).hits;
        let turn = |what| match what {
            What::Turn(turn) => (usize::from_str_radix(&turn.session[..8], 16).unwrap(), turn.turn.index),
            What::Summary(..) => panic!("there is none"),
        };
        hits.into_iter().map(|hit| turn(hit.what)).collect()
    }
}

fn request(text: &str) -> Request {
    Request { now: "2026-06-20T00:00:00Z".parse().unwrap(), zone: jiff::tz::TimeZone::UTC, ..Request::new(text) }
}

fn talk() -> World {
    let mut world = World::new(&[
        &[
            ("The editor is stuck when I save", "The lock was never released."),
            ("Fine", "Good."),
            ("Next: colours", "Blue it is."),
        ],
        &[("Sending files fails at midnight", "The token expires."), ("What does it cost?", "Nothing.")],
        &[("Rename the module", "Renamed."), ("The tests are red", "A snapshot was old.")],
    ]);
    assert_eq!(world.refresh(), 7);
    assert_eq!(world.refresh(), 0, "nothing is new");
    world
}

#[test]
fn meaning_finds_what_words_do_not() {
    let mut world = talk();
    let lexical = Request { mode: Mode::Lexical, ..request("frozen program") };
    assert_eq!(world.hits(&lexical), []);
    let found = world.found(&request("frozen program"));
    assert_eq!((found.mode, found.notes.len()), (Mode::Lexical, 1), "nothing has a vector yet: {found:?}");
    assert_eq!(world.embed(3), 3);
    let found = world.found(&request("frozen program"));
    assert!(found.notes[0].starts_with("4 of 7 entries have no vector yet"), "{found:?}");
    assert_eq!(world.embed(100), 4);
    assert_eq!(world.embed(100), 0);
    for mode in [Mode::Dense, Mode::Hybrid] {
        assert_eq!(world.hits(&Request { mode, ..request("frozen program") })[0], (0, 0), "{mode:?}");
    }
    assert_eq!(world.hits(&request("upload at night"))[0], (1, 0));
    assert_eq!(world.hits(&request("expensive"))[0], (1, 1));
    let without = search::search(&mut world.store, &mut world.index, None, &request("tests")).unwrap();
    assert!(without.mode == Mode::Lexical && without.notes[0].contains("there is no model"), "{without:?}");
}

#[test]
fn another_model_s_vectors_are_not_compared() {
    struct Other;
    impl Embedder for Other {
        fn id(&self) -> &'static str {
            "other"
        }
        fn dimensions(&self) -> usize {
            2
        }
        fn embed(&mut self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
            Ok(texts.iter().map(|_| vec![0.6, 0.8]).collect())
        }
    }
    let mut world = talk();
    world.embed(100);
    let found = search::search(&mut world.store, &mut world.index, Some(&mut Other), &request("stuck")).unwrap();
    assert_eq!(found.hits.len(), 3, "by words, with its neighbours: {found:?}");
    assert_eq!(search::embed(&mut world.store, &mut world.index, &mut Other, 100, &mut |_| {}).unwrap().entries, 7);
    assert_eq!(world.embed(100), 7, "and back");
}

#[test]
fn stages_can_be_left_out() {
    let mut world = talk();
    world.embed(100);
    let plain = Stages { scores: true, ..Stages::NONE };
    let lexical = |stages| Request { mode: Mode::Lexical, stages, ..request("stuck") };
    assert_eq!(world.hits(&lexical(plain)), [(0, 0)]);
    assert_eq!(world.hits(&lexical(Stages { neighbours: true, ..plain })), [(0, 0), (0, 1), (0, 2)]);
    // The day that is named.
    let named = |text| Request { mode: Mode::Lexical, ..request(text) };
    assert_eq!(world.hits(&named("the lock or the token on 2 June"))[0], (1, 0));
    assert_eq!(world.hits(&named("the lock or the token on 1 June"))[0], (0, 0));
    assert_eq!(world.hits(&named("what was that on 3 June?"))[0].0, 2, "a time and nothing else");
}

#[test]
fn what_is_said_often_is_shown_once() {
    let mut world =
        World::new(&[&[("run the tests", "All green."), ("Now what?", "Nothing.")], &[("run the tests", "All green.")]]);
    world.refresh();
    let request = Request { mode: Mode::Lexical, stages: Stages { neighbours: false, ..Stages::ALL }, ..request("tests green") };
    let found = world.found(&request);
    assert_eq!(found.hits.len(), 1, "{found:?}");
}

#[test]
fn what_the_archive_no_longer_has_is_not_found() {
    let mut world = talk();
    world.embed(100);
    let World { folder, store, index } = world;
    drop((store, index));
    // A new archive in the place of the old one, as after a damage.
    std::fs::remove_file(folder.path().join("archive.db")).unwrap();
    let mut world = World::open(folder);
    let found = world.found(&request("stuck"));
    assert_eq!(found.hits, [], "not even before the index knows");
    world.refresh();
    assert_eq!(world.index.coverage().unwrap(), (0, 0));
}

/// Whatever is in a session, its turns are found by their own first words.
#[test]
fn generated_sessions() {
    for (seed, kind) in (1..).zip([Kind::Chat, Kind::Tools, Kind::Agents, Kind::Compacted]) {
        let folder = tempfile::tempdir().unwrap();
        let made = generate(&Spec::new(kind, 300, seed), Path::new(folder.path())).unwrap();
        let paths: Vec<_> = made.sessions.iter().map(|session| session.path.clone()).collect();
        import(folder.path(), &paths, Comparison::Whole, &|_| {}).unwrap();
        let mut world = World::open(folder);
        let all = world.refresh();
        assert!(all > 5, "{kind:?}: {all}");
        world.embed(usize::MAX);
        assert_eq!(world.index.coverage().unwrap(), (all as u64, all as u64));
        let found = world.found(&Request { limit: 50, ..request("the tests failed with an error") });
        assert!(!found.hits.is_empty() && found.hits.iter().all(|hit| hit.score.is_finite()), "{kind:?}");
    }
}
