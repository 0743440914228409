//! Several people on one server, with sessions of which some are for others and some are for nobody.

use ctxbridge::archive::ingest::ingest;
use ctxbridge::archive::learn::{Fix, Learning, LearningBatch, LearningCursor, LearningId, LearningKind, Watcher};
use ctxbridge::archive::store::{
    Compaction, CompactionReader, CompactionWriter, LearningWriter, MaintenanceStore, SessionReader, Snapshot, Transcript,
    TranscriptAppender, TurnReader, VectorStore,
};
use ctxbridge::config::Visibility;
use ctxbridge::team::postgres::{ConnectionSettings, PostgresStore};
use ctxbridge_testkit::postgres::{TestDatabase, TestRole};
use serde_json::Value;
use tempfile::TempDir;

use super::lines::{calls, compact_summary, result, says, text, user};
use super::{database, settings, settings_of};

pub const TENANT: &str = "acme";
pub const PROJECT: &str = "rocket";
pub const MODEL: &str = "minilm-384";
/// When anything happens.
pub const NOW: i64 = 1_780_000_000_000;

/// A word that is in everything of a session, and in nothing else.
pub const SECRET: &str = "xyzzyprivate1";
pub const OF_PROJECT: &str = "xyzzyproject2";
pub const OF_TEAM: &str = "xyzzyteam3";

pub struct People {
    pub database: TestDatabase,
    /// Has sessions of each kind.
    pub alice: TestRole,
    /// Is in her tenant and her project.
    pub bob: TestRole,
    /// Is in her tenant only.
    pub carol: TestRole,
    /// Is in another tenant.
    pub mallory: TestRole,
    _files: TempDir,
}

impl People {
    pub fn new() -> Self {
        let database = database();
        // Whoever migrates is in no tenant of theirs.
        drop(
            PostgresStore::connect(ConnectionSettings { tenant: "of the superuser".to_owned(), ..settings(&database) }).unwrap(),
        );
        database.spread().unwrap();
        let [alice, bob, carol, mallory] = ["alice", "bob", "carol", "mallory"].map(|name| database.role(name, "").unwrap());
        let people = Self { database, alice, bob, carol, mallory, _files: tempfile::tempdir().unwrap() };
        let mut store = people.store(&people.alice);
        for (word, visibility) in [(SECRET, Visibility::Private), (OF_PROJECT, Visibility::Project), (OF_TEAM, Visibility::Team)]
        {
            people.fill(&mut store, word, visibility);
        }
        let mut admin = people.client(&people.alice);
        for member in [&people.bob, &people.carol] {
            admin.execute("SELECT ctxbridge.add_member($1, $2)", &[&TENANT, &member.name]).unwrap();
        }
        admin.execute("SELECT ctxbridge.add_to_project($1, $2, $3)", &[&TENANT, &PROJECT, &people.bob.name]).unwrap();
        people
    }

    pub fn settings(&self, role: &TestRole) -> ConnectionSettings {
        let tenant = if *role == self.mallory { "mallory & co" } else { TENANT };
        ConnectionSettings { tenant: tenant.to_owned(), ..settings_of(&self.database, role) }
    }

    pub fn store(&self, role: &TestRole) -> PostgresStore {
        PostgresStore::connect(self.settings(role)).unwrap()
    }

    /// A connection to ask with anything.
    pub fn client(&self, role: &TestRole) -> postgres::Client {
        self.database.client_of(role).unwrap()
    }

    pub fn archive(&self, store: &mut PostgresStore, session: &str, lines: &[Value]) -> i64 {
        let path = self._files.path().join(format!("{session}.jsonl"));
        std::fs::write(&path, text(lines)).unwrap();
        let transcript =
            Transcript { path: path.to_string_lossy().into_owned(), session: session.to_owned(), part: Default::default() };
        ingest(store, &transcript, &path).unwrap();
        store.session(session).unwrap().unwrap().key
    }

    /// A session of this name with something in every table, and who may read it.
    fn fill(&self, store: &mut PostgresStore, word: &str, visibility: Visibility) {
        let key = self.archive(
            store,
            word,
            &[
                user(1, format!("Prompt {word} #keep")),
                calls(2, "Edit", serde_json::json!({ "file_path": format!("/work/{word}.rs") })),
                result(3, format!("Output {word}")),
                says(4, &format!("Answer {word}")),
                compact_summary(5, &format!("Summary {word}")),
                user(6, format!("Again {word}")),
            ],
        );
        let transcript = store.transcripts(key).unwrap()[0].key;
        let learning = Learning {
            id: LearningId::of(LearningKind::Decision, None, word),
            kind: LearningKind::Decision,
            sentence: format!("We decided {word}"),
            confidence: 0.9,
            at_ms: NOW,
            turn: [1; 16],
            before: word.to_owned(),
            after: word.to_owned(),
            agent: None,
            tools: vec![word.to_owned()],
        };
        let fix = Fix {
            tool: "Bash".to_owned(),
            call: word.to_owned(),
            error: word.to_owned(),
            changed: vec![word.to_owned()],
            failed_ms: NOW,
            fixed_ms: NOW,
            turn: [1; 16],
        };
        let lesson = LearningBatch {
            learnings: vec![learning],
            superseded: Vec::new(),
            fixes: vec![fix],
            changed: vec![([1; 16], vec![word.to_owned()])],
        };
        let progress = LearningCursor { generation: 0, bytes: 1, patterns: word.to_owned(), watcher: Watcher::default() };
        store.add_learnings(transcript, &lesson, &progress).unwrap();
        store
            .record_compaction(
                word,
                &Compaction { at_ms: NOW, cause: Some(word.to_owned()), context_tokens: None, is_blocked: false, turns: None },
            )
            .unwrap();
        let compaction = store.compactions(Some(key), 0).unwrap()[0].key;
        let snapshot = Snapshot { messages: 1, first: word.to_owned(), last: word.to_owned(), topics: vec![word.to_owned()] };
        store.save_snapshot(compaction, &snapshot).unwrap();
        store.end_session(word, "clear", NOW).unwrap();
        store
            .run_maintenance(ctxbridge::archive::maintenance::MaintenanceMode::Apply, &|facts| {
                ctxbridge::archive::maintenance::plan(
                    facts,
                    &ctxbridge::archive::maintenance::RetentionSettings::from(&ctxbridge::config::ArchiveSettings::default()),
                    NOW,
                )
            })
            .unwrap();
        assert!(store.set_project(key, PROJECT).unwrap() && store.set_visibility(key, visibility).unwrap());
        let entries: Vec<i64> =
            store.turns(key, ctxbridge::archive::store::TurnSelection::All).unwrap().iter().map(|turn| turn.entry).collect();
        let vectors: Vec<(i64, Vec<Vec<f32>>)> = entries.iter().map(|entry| (*entry, vec![vector(word)])).collect();
        store.save_vectors(MODEL, &vectors).unwrap();
    }
}

/// A vector that says a word.
pub fn vector(word: &str) -> Vec<f32> {
    (0..384).map(|at| f32::from(word.as_bytes()[at % word.len()]) / 128.0 - 0.8).collect()
}
