//! What was learned: once, wherever it is said again, and found by what it is of.

use ctxbridge::archive::learn::{
    Fix, Learning, LearningBatch, LearningCursor, LearningId, LearningKind as Of, LearningPatterns, Watcher,
};
use ctxbridge::archive::project::ProjectScope;
use ctxbridge::archive::store::{LearningQuery, Store, StoredLearning};
use serde_json::json;

use super::kinds::Kind;
use super::lines::{answer, call, says, user, with};
use super::{Place, session};

on_every_store!(
    a_learning_is_one_wherever_it_is_said,
    what_is_wanted_of_them,
    what_is_taken_back_and_said_anew,
    calls_that_pass_again,
    what_tools_did,
);

const FOLDER: &str = "/work/p";
/// When it is said.
const NOW: i64 = 1_780_000_000_000;

fn learning(kind: Of, sentence: &str, at: i64) -> Learning {
    Learning {
        id: LearningId::of(kind, Some(FOLDER), sentence),
        kind,
        sentence: sentence.to_owned(),
        confidence: 0.85,
        at_ms: NOW + at,
        turn: u128::from(at.unsigned_abs()).to_be_bytes(),
        before: "Before.".to_owned(),
        after: format!("Behind {at}."),
        agent: (at % 2 == 1).then(|| "a1".to_owned()),
        tools: vec!["Bash".to_owned(), "Größe \"🦀\"".to_owned()],
    }
}

fn progress(bytes: u64) -> LearningCursor {
    LearningCursor { generation: 0, bytes, patterns: "p1".to_owned(), watcher: Watcher::default() }
}

/// Sessions with a turn each; the transcript of each.
fn with_sessions<const COUNT: usize>(place: &Place, store: &mut dyn Store, names: [&str; COUNT]) -> [i64; COUNT] {
    names.map(|name| {
        place.archive(store, name, &[user(1, format!("{name}?"))]);
        let key = session(store, name).unwrap().key;
        store.transcripts(key).unwrap()[0].key
    })
}

fn learn(store: &mut dyn Store, transcript: i64, learnings: &[Learning]) -> usize {
    let lesson = LearningBatch { learnings: learnings.to_vec(), ..LearningBatch::default() };
    store.add_learnings(transcript, &lesson, &progress(9)).unwrap()
}

fn sentences(store: &mut dyn Store, wanted: &LearningQuery) -> Vec<String> {
    store.learnings(wanted).unwrap().into_iter().map(|found| found.sentence).collect()
}

fn a_learning_is_one_wherever_it_is_said(kind: Kind) {
    let place = Place::new(kind);
    let mut store = place.open();
    let [a, b] = with_sessions(&place, &mut *store, ["a", "b"]);
    assert!(store.learning_cursor(a).unwrap().is_none());
    let first = learning(Of::Decision, "We went with polling.", 2);
    assert_eq!(learn(&mut *store, a, &[first.clone(), learning(Of::Decision, "We went with tabs.", 2)]), 2);
    assert_eq!(learn(&mut *store, a, std::slice::from_ref(&first)), 0, "read once more");
    let again = learning(Of::Decision, "we went with POLLING", 5);
    assert_eq!((again.id, learn(&mut *store, b, &[again])), (first.id, 0));
    let found = store.learnings(&LearningQuery::default()).unwrap();
    assert_eq!(found.len(), 2);
    let expected = StoredLearning {
        id: first.id,
        kind: Of::Decision,
        sentence: first.sentence.clone(),
        confidence: 0.85,
        folder: Some(FOLDER.to_owned()),
        first_ms: NOW + 2,
        last_ms: NOW + 5,
        said: 2,
        superseded_by: None,
        is_rewound: false,
        session: "b".to_owned(),
        turn: 5_u128.to_be_bytes(),
        around: ("Before.".to_owned(), "Behind 5.".to_owned()),
        agent: Some("a1".to_owned()),
        tools: vec!["Bash".to_owned(), "Größe \"🦀\"".to_owned()],
    };
    assert_eq!(found[0], expected, "the newest first");
    assert_eq!(place.open().learnings(&LearningQuery::default()).unwrap(), found);
    let known = store.learning_cursor(b).unwrap().unwrap();
    assert_eq!((known.generation, known.bytes, known.patterns.as_str()), (0, 9, "p1"));
    store.add_learnings(b, &LearningBatch::default(), &LearningCursor { generation: 3, bytes: u64::MAX, ..progress(0) }).unwrap();
    let known = store.learning_cursor(b).unwrap().unwrap();
    assert_eq!((known.generation, known.bytes), (3, u64::MAX));
    place.check_sound();
}

fn what_is_wanted_of_them(kind: Kind) {
    let place = Place::new(kind);
    let mut store = place.open();
    let [a, b] = with_sessions(&place, &mut *store, ["a", "b"]);
    let (polling, tabs) = ("We went with polling for hooks.", "Tabs were chosen.");
    let jitter = "The root cause of polling was a missing jitter.";
    learn(&mut *store, a, &[learning(Of::Decision, polling, 10), learning(Of::Decision, tabs, 20)]);
    learn(&mut *store, b, &[learning(Of::Solution, jitter, 30), learning(Of::Decision, polling, 40)]);
    let [key_a, key_b] = ["a", "b"].map(|name| session(&mut *store, name).unwrap().key);
    let all = || LearningQuery::default();
    let some = |text: &str| Some(text.to_owned());
    let project = |folder: &str| Some(ProjectScope::at(folder));
    let polling_id = LearningId::of(Of::Decision, Some(FOLDER), polling).hex();
    for (what, wanted, expected) in [
        ("all", all(), vec![polling, jitter, tabs]),
        ("a kind", LearningQuery { kind: Some(Of::Solution), ..all() }, vec![jitter]),
        ("another kind", LearningQuery { kind: Some(Of::Handoff), ..all() }, vec![]),
        ("a folder", LearningQuery { folder: some(FOLDER), ..all() }, vec![polling, jitter, tabs]),
        ("another folder", LearningQuery { folder: some("/work"), ..all() }, vec![]),
        ("a project", LearningQuery { project: project("/work/p"), ..all() }, vec![polling, jitter, tabs]),
        ("a folder above", LearningQuery { project: project("/work/"), ..all() }, vec![polling, jitter, tabs]),
        ("a part of a name", LearningQuery { project: project("/wor"), ..all() }, vec![]),
        ("a session", LearningQuery { session: Some(key_a), ..all() }, vec![tabs, polling]),
        ("another session", LearningQuery { session: Some(key_b), ..all() }, vec![polling, jitter]),
        ("a turn", LearningQuery { turn: Some(10_u128.to_be_bytes()), ..all() }, vec![polling]),
        (
            "a turn and its session",
            LearningQuery { session: Some(key_b), turn: Some(30_u128.to_be_bytes()), ..all() },
            vec![jitter],
        ),
        (
            "a turn and another session",
            LearningQuery { session: Some(key_a), turn: Some(30_u128.to_be_bytes()), ..all() },
            vec![],
        ),
        ("a turn and a word", LearningQuery { turn: Some(40_u128.to_be_bytes()), words: some("poll"), ..all() }, vec![polling]),
        ("a time", LearningQuery { since_ms: Some(NOW + 30), ..all() }, vec![polling, jitter]),
        ("an id", LearningQuery { id: polling_id[..6].to_uppercase(), ..all() }, vec![polling]),
        ("no id", LearningQuery { id: "xyz".to_owned(), ..all() }, vec![]),
        ("a limit", LearningQuery { limit: 1, ..all() }, vec![polling]),
        ("words", LearningQuery { words: some("tab"), ..all() }, vec![tabs]),
        ("words and a kind", LearningQuery { words: some("poll"), kind: Some(Of::Solution), ..all() }, vec![jitter]),
        ("any of the words", LearningQuery { words: some("tab OR jitter"), ..all() }, vec![tabs, jitter]),
        ("words that nobody said", LearningQuery { words: some("kubernetes"), ..all() }, vec![]),
    ] {
        let found = sentences(&mut *store, &wanted);
        match wanted.words {
            // How words are weighed is the store's.
            Some(_) => assert_eq!(sorted(&found), sorted(&expected), "{what}"),
            None => assert_eq!(found, expected, "{what}"),
        }
    }
    let in_session = store.learnings(&LearningQuery { session: Some(key_a), id: polling_id, ..all() }).unwrap();
    assert_eq!((in_session[0].said, in_session[0].last_ms, in_session[0].session.as_str()), (1, NOW + 10, "a"));
}

fn sorted<T: AsRef<str>>(texts: &[T]) -> Vec<&str> {
    let mut texts: Vec<_> = texts.iter().map(T::as_ref).collect();
    texts.sort_unstable();
    texts
}

fn what_is_taken_back_and_said_anew(kind: Kind) {
    let place = Place::new(kind);
    let mut store = place.open();
    let [a] = with_sessions(&place, &mut *store, ["a"]);
    let (old, new) = (learning(Of::Decision, "We poll.", 10), learning(Of::Decision, "We use events.", 20));
    let superseded = vec![(old.id, new.id), (new.id, new.id)];
    let lesson = LearningBatch { learnings: vec![old.clone(), new.clone()], superseded, ..LearningBatch::default() };
    assert_eq!(store.add_learnings(a, &lesson, &progress(1)).unwrap(), 2);
    assert_eq!(sentences(&mut *store, &LearningQuery::default()), ["We use events."]);
    let with_old = LearningQuery { with_superseded: true, ..LearningQuery::default() };
    let found = store.learnings(&with_old).unwrap();
    assert_eq!(found.iter().map(|one| one.superseded_by).collect::<Vec<_>>(), [None, Some(new.id)]);
    // Said before that, it changes nothing; behind it, the old one holds again.
    learn(&mut *store, a, &[Learning { at_ms: NOW + 15, turn: [1; 16], ..old.clone() }]);
    assert_eq!(sentences(&mut *store, &LearningQuery::default()), ["We use events."]);
    learn(&mut *store, a, &[Learning { at_ms: NOW + 25, turn: [2; 16], ..old }]);
    assert_eq!(sentences(&mut *store, &LearningQuery::default()), ["We poll.", "We use events."]);
    place.check_sound();
}

fn calls_that_pass_again(kind: Kind) {
    let place = Place::new(kind);
    let mut store = place.open();
    let [a, b] = with_sessions(&place, &mut *store, ["a", "b"]);
    let fix = |at: i64, call: &str| Fix {
        tool: "Bash".to_owned(),
        call: call.to_owned(),
        error: "Exit code 101".to_owned(),
        changed: vec!["/work/p/a.rs".to_owned()],
        failed_ms: NOW + at,
        fixed_ms: NOW + at + 5,
        turn: u128::from(at.unsigned_abs()).to_be_bytes(),
    };
    let files = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let lesson = |fixes, changed| LearningBatch { fixes, changed, ..LearningBatch::default() };
    let (early, late) = (fix(10, "cargo test"), fix(30, "cargo clippy"));
    store.add_learnings(a, &lesson(vec![early.clone()], vec![([1; 16], files(&["a.rs"]))]), &progress(1)).unwrap();
    store.add_learnings(b, &lesson(vec![late.clone()], vec![([2; 16], files(&["b.rs", "c.rs"]))]), &progress(1)).unwrap();
    // What is read once more is known; of the files of a turn, more may be known.
    let more = vec![([1; 16], files(&["a.rs", "d.rs"]))];
    store.add_learnings(a, &lesson(vec![Fix { error: "Other".to_owned(), ..early.clone() }], more), &progress(2)).unwrap();
    let found: Vec<_> = store.fixes(None, 9).unwrap().into_iter().map(|found| (found.session, found.fix)).collect();
    assert_eq!(found, [("b".to_owned(), late), ("a".to_owned(), early)], "the newest first");
    assert_eq!(store.fixes(Some(&ProjectScope::at("/work/p")), 1).unwrap().len(), 1);
    assert!(store.fixes(Some(&ProjectScope::at("/work/q")), 9).unwrap().is_empty());
    let mut changed = store.changed_files(Some(&ProjectScope::at("/work/p")), 9).unwrap();
    changed.sort();
    assert_eq!(changed, [files(&["a.rs", "d.rs"]), files(&["b.rs", "c.rs"])]);
    assert_eq!(store.changed_files(None, 1).unwrap().len(), 1);
    assert!(store.changed_files(Some(&ProjectScope::at("/work/q")), 9).unwrap().is_empty());
}

/// As the product does it: a pass over what is archived.
fn what_tools_did(kind: Kind) {
    let place = Place::new(kind);
    let mut store = place.open();
    let bash = |number: u32, id: &str| {
        answer(number, &format!("m{number}"), with(call("Bash", json!({ "command": "cargo test" })), json!({ "id": id })))
    };
    let result = |number: u32, id: &str, is_error: bool| {
        let content = json!([{ "type": "tool_result", "tool_use_id": id, "content": "Exit code 1", "is_error": is_error }]);
        user(number, content)
    };
    let edit = answer(6, "m6", with(call("Edit", json!({ "file_path": "/work/p/a.rs" })), json!({ "id": "t2" })));
    let lines = [
        user(1, "Make it pass."),
        bash(2, "t1"),
        result(4, "t1", true),
        edit,
        result(7, "t2", false),
        bash(8, "t3"),
        result(9, "t3", false),
        says(10, "I went with polling because it is simple."),
        user(11, "Good."),
    ];
    place.archive(&mut *store, "s", &lines);
    let of = session(&mut *store, "s").unwrap();
    let learned = ctxbridge::archive::learn::learn_from_session(&mut *store, &of, LearningPatterns::standard(), None).unwrap();
    assert_eq!((learned.learnings, learned.fixes), (1, 1));
    let again =
        ctxbridge::archive::learn::learn_from_session(&mut *place.open(), &of, LearningPatterns::standard(), None).unwrap();
    assert_eq!((again.learnings, again.bytes), (0, 0), "nothing is read twice");
    let found = store.learnings(&LearningQuery::default()).unwrap();
    assert_eq!((found[0].kind, found[0].session.as_str()), (Of::Decision, "s"));
    let fix = store.fixes(None, 9).unwrap().remove(0).fix;
    assert_eq!((fix.call.as_str(), fix.changed), ("cargo test", vec!["a.rs".to_owned()]));
    assert_eq!(store.changed_files(None, 9).unwrap(), [vec!["a.rs".to_owned()]]);
    let tallies = store.tool_stats(of.key).unwrap();
    let (agent, tally) = &tallies[0];
    assert_eq!((tallies.len(), agent), (1, &None));
    assert_eq!((tally.tools["Bash"].calls, tally.tools["Bash"].errors, tally.tools["Edit"].calls), (2, 1, 1));
    // What is known so far goes on in the next pass, in whatever process.
    let more = [&lines[..], &[bash(12, "t4"), result(13, "t4", false), says(14, "Well.")]].concat();
    place.archive(&mut *store, "s", &more);
    let mut other = place.open();
    ctxbridge::archive::learn::learn_from_session(&mut *other, &of, LearningPatterns::standard(), None).unwrap();
    assert_eq!(store.tool_stats(of.key).unwrap()[0].1.tools["Bash"].calls, 3);
    place.check_sound();
}
