//! What happens to a batch when its server does not do its part: it is in the archive whole, or not at all, and can be sent again.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ctxbridge::archive::ingest::ingest;
use ctxbridge::archive::reader::ReadError;
use ctxbridge::archive::search::filter::Filter;
use ctxbridge::archive::search::query::QueryTerms;
use ctxbridge::archive::search::tokens::Tokenizer;
use ctxbridge::archive::store::{
    EVERYTHING, SearchBackend, SegmentReader, SessionReader, Transcript, TurnReader, TurnSelection, VectorStore,
};
use ctxbridge::team::postgres::{ConnectionSettings, PostgresError, PostgresStore};
use ctxbridge_testkit::postgres::{Server, TestDatabase};
use ctxbridge_testkit::transcript::{Kind, Spec, generate};

use super::proxy::Proxy;
use super::{cache, database, settings, settings_of};

/// A session of some thousand turns, and what it is a transcript of.
struct Long {
    folder: tempfile::TempDir,
    transcript: Transcript,
    path: std::path::PathBuf,
}

impl Long {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let made = generate(&Spec::new(Kind::Chat, 3_000, 7), folder.path()).unwrap();
        let path = made.sessions[0].path.clone();
        Self { folder, transcript: Transcript::at(&path), path }
    }

    /// One pass, again where the server was not there.
    fn send(&self, store: &mut PostgresStore, may_fail: bool) -> u32 {
        let mut failures = 0;
        loop {
            match ingest(store, &self.transcript, &self.path) {
                Ok(_) => return failures,
                Err(ReadError::Store(error)) if may_fail && error.is_transient() => failures += 1,
                Err(error) => panic!("{error:?}"),
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// That the archive is what the file is, with nothing twice.
    fn check(&self, store: &mut PostgresStore) {
        let session = store.session(&self.transcript.session).unwrap().unwrap();
        let transcript = store.transcripts(session.key).unwrap()[0].key;
        let mut bytes = Vec::new();
        store.read_bytes(transcript, 0, EVERYTHING, &mut bytes).unwrap();
        assert!(bytes == std::fs::read(&self.path).unwrap());
        let stored: Vec<_> =
            store.turns(session.key, TurnSelection::All).unwrap().into_iter().map(|stored| stored.turn).collect();
        assert_eq!(stored, ctxbridge_testkit::conversation(&bytes));
        assert!(self.folder.path().exists());
    }
}

#[test]
fn killed_in_the_middle_of_a_batch() {
    // What it has said it has, it has; so it must write that down before it says so.
    let mut server = Server::start_with(&cache(), &["fsync=on", "synchronous_commit=on"]).unwrap();
    let database = TestDatabase::on(server.address()).unwrap();
    let mut store = PostgresStore::connect(settings(&database)).unwrap();
    let long = Long::new();
    let is_done = AtomicBool::new(false);
    let failures = std::thread::scope(|scope| {
        let sender = scope.spawn(|| {
            let failures = long.send(&mut store, true);
            is_done.store(true, Ordering::SeqCst);
            failures
        });
        // Once while a batch is written, which is seen from beside it, and then a few times more.
        for _ in 0..3 {
            let mut admin = database.admin().unwrap();
            let writes = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'ctxbridge' AND backend_xid IS NOT NULL";
            while !is_done.load(Ordering::SeqCst) && admin.query_one(writes, &[]).unwrap().get::<_, i64>(0) == 0 {
                std::thread::sleep(Duration::from_millis(1));
            }
            if is_done.load(Ordering::SeqCst) {
                break;
            }
            server.kill9().unwrap();
            server.start().unwrap();
        }
        sender.join().unwrap()
    });
    assert!(failures > 0, "it was never in the middle of anything");
    long.check(&mut store);
}

#[test]
fn cut_off_in_the_middle_of_a_batch() {
    let database = database();
    drop(PostgresStore::connect(settings(&database)).unwrap());
    let proxy = Proxy::to(&database.address);
    let mut store = PostgresStore::connect(ConnectionSettings { port: proxy.port(), ..settings(&database) }).unwrap();
    let long = Long::new();
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            long.send(&mut store, true);
            is_done.store(true, Ordering::SeqCst);
        });
        for pause in [3, 30, 100, 5, 200] {
            std::thread::sleep(Duration::from_millis(pause));
            proxy.cut();
        }
        while !is_done.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    long.check(&mut store);
}

#[test]
fn a_statement_that_takes_too_long_is_broken_off_there() {
    let database = database();
    drop(PostgresStore::connect(settings(&database)).unwrap());
    let mut store =
        PostgresStore::connect(ConnectionSettings { statement_timeout: Duration::from_millis(400), ..settings(&database) })
            .unwrap();
    let mut admin = database.admin().unwrap();
    let mut theirs = admin.transaction().unwrap();
    theirs.batch_execute("LOCK TABLE ctxbridge.sessions IN ACCESS EXCLUSIVE MODE").unwrap();
    let error = store.sessions("", None, 9).unwrap_err();
    let is_so = matches!(PostgresError::of(&error), Some(PostgresError::Timeout { .. } | PostgresError::Conflict { .. }));
    assert!(is_so && error.is_transient(), "{error:?}");
    theirs.rollback().unwrap();
    assert!(store.sessions("", None, 9).unwrap().is_empty());
}

#[test]
fn without_vectors_there_are_words() {
    let database = database();
    let owner = database.role("owner", "").unwrap();
    database.admin().unwrap().batch_execute(&format!("GRANT CREATE ON DATABASE {} TO {}", database.name, owner.name)).unwrap();
    let mut store = PostgresStore::connect(settings_of(&database, &owner)).unwrap();
    Long::new().send(&mut store, false);
    assert!(!store.has_vectors().unwrap());
    let vector = vec![0.5; 384];
    for error in [
        store.search_vectors("minilm-384", &vector, &Filter::default(), 9).unwrap_err(),
        store.save_vectors("minilm-384", &[(1, vec![vector.clone()])]).unwrap_err(),
        store.entries_without_vectors("minilm-384", 384, i64::MAX, 9).unwrap_err(),
    ] {
        assert!(matches!(PostgresError::of(&error), Some(PostgresError::NoVectors { .. })) && !error.is_transient(), "{error:?}");
    }
    let session = store.sessions("", None, 1).unwrap().remove(0);
    let entry = store.first_entry(session.key).unwrap().unwrap();
    let text = store.texts_of(&[entry], 2_000).unwrap().remove(0).text;
    let word = text.split_whitespace().find(|word| word.len() > 6 && word.bytes().all(|byte| byte.is_ascii_lowercase())).unwrap();
    let asked = QueryTerms::of(word, &Tokenizer::default()).expression(&[]).unwrap();
    assert!(!store.search_text(&asked, &Filter::default(), 99).unwrap().is_empty(), "{asked} in {text}");
}

#[test]
fn two_who_write_the_same_transcript() {
    let database = database();
    drop(PostgresStore::connect(settings(&database)).unwrap());
    let long = Long::new();
    std::thread::scope(|scope| {
        let all: Vec<_> =
            (0..3).map(|_| scope.spawn(|| long.send(&mut PostgresStore::connect(settings(&database)).unwrap(), false))).collect();
        all.into_iter().for_each(|one| assert_eq!(one.join().unwrap(), 0));
    });
    long.check(&mut PostgresStore::connect(settings(&database)).unwrap());
}
