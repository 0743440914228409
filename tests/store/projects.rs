//! Folders of sessions: which belong to a project, whatever their spelling, and what becomes of them when it is moved.

use std::collections::BTreeMap;

use ctxbridge::archive::learn::{Fix, Learning, LearningBatch, LearningCursor, LearningId, LearningKind as Of, Watcher};
use ctxbridge::archive::project::{KnownFolders, ProjectScope};
use ctxbridge::archive::search::{Filter, Mode, SearchRequest, Searcher};
use ctxbridge::archive::store::{FolderFacts, LearningQuery, SessionFolder, SessionMove, Snapshot, Store};
use serde_json::json;

use super::kinds::Kind;
use super::lines::{boundary, compact_summary, says, user, with};
use super::{Place, session};

on_every_store!(
    every_query_means_the_folder_and_what_is_below_it,
    folders_are_listed_with_the_newest_first,
    sessions_move_and_come_back,
    learnings_move_with_their_sessions,
    facts_about_folders_are_kept,
);

const NOW: i64 = 1_780_000_000_000;

/// A session that worked in a folder, with a turn, a compaction, a learning, a fix and a changed file.
fn work(place: &Place, store: &mut dyn Store, name: &str, folder: &str, number: u32) {
    let lines = [
        user(number, format!("Where is the walrus of {name}?")),
        says(number + 1, "On the beach."),
        boundary(number + 2),
        compact_summary(number + 3, &format!("A walrus was looked for by {name}.")),
        user(number + 4, "Thanks."),
    ];
    place.archive(store, name, &lines.map(|line| with(line, json!({ "cwd": folder, "sessionId": name }))));
    let key = session(store, name).unwrap().key;
    let transcript = store.transcripts(key).unwrap()[0].key;
    let fix = Fix {
        turn: u128::from(number).to_be_bytes(),
        tool: "Bash".to_owned(),
        call: name.to_owned(),
        error: "no".to_owned(),
        changed: vec!["a.rs".to_owned()],
        failed_ms: NOW,
        fixed_ms: NOW + 1,
    };
    let batch = LearningBatch {
        learnings: vec![learning(folder, &format!("We chose {name}."), number)],
        fixes: vec![fix],
        changed: vec![(u128::from(number).to_be_bytes(), vec![format!("{name}.rs")])],
        ..LearningBatch::default()
    };
    let progress = LearningCursor { generation: 0, bytes: 1, patterns: "p".to_owned(), watcher: Watcher::default() };
    store.add_learnings(transcript, &batch, &progress).unwrap();
    let compaction = store.compactions(Some(key), 0).unwrap().remove(0);
    let snapshot =
        Snapshot { messages: 1, first: "Does the telescope drift?".to_owned(), last: name.to_owned(), topics: Vec::new() };
    store.save_snapshot(compaction.key, &snapshot).unwrap();
}

fn learning(folder: &str, sentence: &str, number: u32) -> Learning {
    Learning {
        id: LearningId::of(Of::Decision, Some(folder), sentence),
        kind: Of::Decision,
        sentence: sentence.to_owned(),
        confidence: 0.9,
        at_ms: NOW + i64::from(number),
        turn: u128::from(number).to_be_bytes(),
        before: "Before.".to_owned(),
        after: String::new(),
        agent: None,
        tools: Vec::new(),
    }
}

/// What each query finds of a project: names of sessions.
fn found(place: &Place, store: &mut dyn Store, project: &ProjectScope) -> BTreeMap<&'static str, Vec<String>> {
    let request = SearchRequest {
        filter: Filter { project: Some(project.clone()), ..Filter::default() },
        mode: Some(Mode::Lexical),
        limit: 99,
        ..SearchRequest::new("walrus")
    };
    let hits = Searcher::new(place.data.path().to_owned()).search(store, &request, usize::MAX, &mut |_| {}).unwrap().hits;
    let of_project = LearningQuery { project: Some(project.clone()), ..LearningQuery::default() };
    let mut found: BTreeMap<&'static str, Vec<String>> = [
        ("sessions", store.sessions("", Some(project), 99).unwrap().into_iter().map(|one| one.session).collect()),
        ("search", hits.iter().map(|hit| hit.identity().2.to_owned()).collect()),
        ("learnings", store.learnings(&of_project).unwrap().into_iter().map(|one| one.session).collect()),
        ("fixes", store.fixes(Some(project), 99).unwrap().into_iter().map(|one| one.session).collect()),
        (
            "changed files",
            store.changed_files(Some(project), 99).unwrap().concat().iter().map(|file| file.replace(".rs", "")).collect(),
        ),
        (
            "compactions",
            store.search_compactions("telescop", Some(project), 99).unwrap().into_iter().map(|one| one.session).collect(),
        ),
    ]
    .into();
    for names in found.values_mut() {
        names.sort_unstable();
        names.dedup();
    }
    found
}

#[track_caller]
fn assert_found(place: &Place, store: &mut dyn Store, project: &ProjectScope, expected: &[&str], why: &str) {
    for (query, names) in found(place, store, project) {
        assert_eq!(names, expected, "{query}, {why}");
    }
}

fn every_query_means_the_folder_and_what_is_below_it(kind: Kind) {
    let place = Place::new(kind);
    let mut store = place.open();
    for (number, (name, folder)) in [
        ("a", "/w/app"),
        ("b", "/w/app/src/deep"),
        ("c", "/w/apple"),
        ("d", "/w/App"),
        ("e", "/w/cafe\u{301}/x"),
        ("f", r"\\?\C:\Work\Tool"),
        ("g", r"c:\work\tool\web"),
        ("h", "/w/100%_x"),
        ("i", "/w/100abx"),
    ]
    .into_iter()
    .enumerate()
    {
        work(&place, &mut *store, name, folder, number as u32 * 10 + 1);
    }
    for (folder, expected) in [
        ("/w/app", &["a", "b"][..]),
        ("/w/app/", &["a", "b"]),
        ("/w/app/src", &["b"]),
        ("/w/caf\u{e9}", &["e"]),
        (r"C:\WORK\TOOL", &["f", "g"]),
        ("C:/work/tool/Web/", &["g"]),
        ("/w/100%_x", &["h"]),
        ("/w", &["a", "b", "c", "d", "e", "h", "i"]),
        ("/", &["a", "b", "c", "d", "e", "h", "i"]),
        ("/w/ap", &[]),
        ("' OR 1 --", &[]),
    ] {
        assert_found(&place, &mut *store, &ProjectScope::at(folder), expected, folder);
    }
    assert_found(&place, &mut *store, &ProjectScope::of_known("/W/APP", true), &["a", "b", "d"], "case was known not to count");
    assert_found(&place, &mut *store, &ProjectScope::of_folders(["/w/apple", "/w/App"]), &["c", "d"], "two folders");
    let known = KnownFolders::of(&mut *store, false).unwrap();
    let named = ProjectScope::resolve("deep", place.data.path(), &known).unwrap();
    assert_found(&place, &mut *store, &named, &["b"], "by its name");
}

fn folders_are_listed_with_the_newest_first(kind: Kind) {
    let place = Place::new(kind);
    let mut store = place.open();
    assert!(store.folders().unwrap().is_empty());
    for (name, folder, number) in [("a", "/w/one", 1), ("b", "/w/two", 50), ("c", "/w/one", 90), ("d", "/w/Two", 20)] {
        work(&place, &mut *store, name, folder, number);
    }
    // A hook may speak of a session before there is anything of it.
    store.end_session("nothing", "other", NOW).unwrap();
    let folder = |folder: &str, sessions| SessionFolder { folder: folder.to_owned(), sessions };
    assert_eq!(store.folders().unwrap(), [folder("/w/one", 2), folder("/w/two", 1), folder("/w/Two", 1)]);
}

fn moved(session: &str, folder: &str) -> SessionMove {
    SessionMove { session: session.to_owned(), folder: folder.to_owned() }
}

fn sessions_move_and_come_back(kind: Kind) {
    let place = Place::new(kind);
    let mut store = place.open();
    work(&place, &mut *store, "a", "/w/old", 1);
    work(&place, &mut *store, "b", "/w/old/web", 20);
    work(&place, &mut *store, "c", "/w/new", 40);
    let (old, new) = (ProjectScope::at("/w/old"), ProjectScope::at("/w/new"));
    store.move_sessions(&[moved("a", "/w/new"), moved("b", "/w/new/web"), moved("nobody", "/w/new")]).unwrap();
    for store in [&mut *store, &mut *place.open()] {
        assert_found(&place, store, &old, &[], "gone");
        assert_found(&place, store, &new, &["a", "b", "c"], "here");
        let b = session(store, "b").unwrap();
        assert_eq!((b.folder.as_deref(), b.moved_from.as_deref()), (Some("/w/new/web"), Some("/w/old/web")));
        assert_eq!(session(store, "c").unwrap().moved_from, None);
    }
    // The transcript still says where it was.
    let path = place.path("a.jsonl");
    let more = with(user(9, "And the seal?"), json!({ "cwd": "/w/old", "sessionId": "a" }));
    let mut lines = std::fs::read_to_string(&path).unwrap();
    lines += &super::text(&[more]);
    std::fs::write(&path, &lines).unwrap();
    super::ingest(&mut *store, &super::transcript(&path, "a"), &path).unwrap();
    assert_found(&place, &mut *store, &new, &["a", "b", "c"], "after a turn more");
    store.move_sessions(&[moved("a", "/w/newer")]).unwrap();
    assert_eq!(session(&mut *store, "a").unwrap().moved_from.as_deref(), Some("/w/old"), "where the client was");
    store.move_sessions(&[moved("a", "/w/old"), moved("b", "/w/old/web")]).unwrap();
    assert_found(&place, &mut *store, &old, &["a", "b"], "back");
    assert_eq!(session(&mut *store, "b").unwrap().moved_from, None);
    store.optimize().unwrap();
    assert_found(&place, &mut *place.open(), &old, &["a", "b"], "after the files were written anew");
    place.check_sound();
}

fn learnings_move_with_their_sessions(kind: Kind) {
    let place = Place::new(kind);
    let mut store = place.open();
    for (name, folder, number) in [("a", "/w/old", 1), ("b", "/w/old", 20), ("c", "/w/new", 40)] {
        work(&place, &mut *store, name, folder, number);
        let key = session(&mut *store, name).unwrap().key;
        let transcript = store.transcripts(key).unwrap()[0].key;
        let said = [learning(folder, "We went with polling.", number + 1), learning(folder, "We went with events.", number + 2)];
        let [polling, events] = said.each_ref().map(|said| said.id);
        let batch = LearningBatch { learnings: said.to_vec(), superseded: vec![(polling, events)], ..LearningBatch::default() };
        let progress = LearningCursor { generation: 0, bytes: 2, patterns: "p".to_owned(), watcher: Watcher::default() };
        store.add_learnings(transcript, &batch, &progress).unwrap();
    }
    let all = |store: &mut dyn Store| -> Vec<(String, String, u32, bool)> {
        let wanted = LearningQuery { with_superseded: true, ..LearningQuery::default() };
        let mut all: Vec<_> = store
            .learnings(&wanted)
            .unwrap()
            .into_iter()
            .map(|one| {
                assert_eq!(one.id, LearningId::of(one.kind, one.folder.as_deref(), &one.sentence));
                (one.folder.unwrap(), one.sentence, one.said, one.superseded_by.is_some())
            })
            .collect();
        all.sort_unstable();
        all
    };
    let row = |folder: &str, what: &str, said, is_old| (folder.to_owned(), what.to_owned(), said, is_old);
    let before = all(&mut *store);
    let (polling, events) = ("We went with polling.", "We went with events.");
    assert_eq!(
        before,
        [
            row("/w/new", "We chose c.", 1, false),
            row("/w/new", events, 1, false),
            row("/w/new", polling, 1, true),
            row("/w/old", "We chose a.", 1, false),
            row("/w/old", "We chose b.", 1, false),
            row("/w/old", events, 2, false),
            row("/w/old", polling, 2, true),
        ]
    );
    store.move_sessions(&[moved("a", "/w/new")]).unwrap();
    assert_eq!(
        all(&mut *store),
        [
            row("/w/new", "We chose a.", 1, false),
            row("/w/new", "We chose c.", 1, false),
            row("/w/new", events, 2, false),
            row("/w/new", polling, 2, true),
            row("/w/old", "We chose b.", 1, false),
            row("/w/old", events, 1, false),
            row("/w/old", polling, 1, true),
        ]
    );
    store.move_sessions(&[moved("b", "/w/third")]).unwrap();
    let third: Vec<_> = all(&mut *store).into_iter().filter(|one| one.0 != "/w/new").collect();
    assert_eq!(
        third,
        [row("/w/third", "We chose b.", 1, false), row("/w/third", events, 1, false), row("/w/third", polling, 1, true)]
    );
    let found =
        store.learnings(&LearningQuery { words: Some("poll".to_owned()), with_superseded: true, ..LearningQuery::default() });
    assert_eq!(found.unwrap().len(), 2, "their words moved, too");
    store.move_sessions(&[moved("a", "/w/old"), moved("b", "/w/old")]).unwrap();
    assert_eq!(all(&mut *place.open()), before);
    place.check_sound();
}

fn facts_about_folders_are_kept(kind: Kind) {
    #[cfg(unix)]
    if kind == Kind::Postgres {
        // They are one machine's.
        let mut store = Place::new(kind).open();
        store.note_folder(&FolderFacts::default()).unwrap();
        assert!(store.folder_facts().unwrap().is_empty());
        return;
    }
    let place = Place::new(kind);
    let mut store = place.open();
    let facts = FolderFacts {
        folder: "/w/\u{0}app '\"".to_owned(),
        ignores_case: true,
        root_commits: vec!["ab".repeat(20), "cd".repeat(20)],
        remote: Some("host/acme/app".to_owned()),
        tree: None,
        noted_ms: NOW,
    };
    store.note_folder(&FolderFacts::default()).unwrap();
    store.note_folder(&facts).unwrap();
    let later = FolderFacts { tree: Some("tree".to_owned()), noted_ms: NOW + 1, ..facts };
    store.note_folder(&later).unwrap();
    let expected = [FolderFacts::default(), later];
    assert_eq!(store.folder_facts().unwrap(), expected);
    store.optimize().unwrap();
    drop(store);
    assert_eq!(place.open().folder_facts().unwrap(), expected);
}
