//! Who may read what, by way of the store.

use ctxbridge::archive::ingest::ingest;
use ctxbridge::archive::maintenance::{ArchiveStats, MaintenanceMode};
use ctxbridge::archive::project::ProjectScope;
use ctxbridge::archive::search::filter::Filter;
use ctxbridge::archive::store::{
    CompactionReader, CompactionWriter, EVERYTHING, LearningQuery, LearningReader, MaintenanceStore, ProjectStore, SearchBackend,
    SegmentReader, SessionReader, Transcript, TranscriptAppender, TurnReader, TurnSelection, UsageWriter,
};
use ctxbridge::config::Visibility;
use ctxbridge::team::postgres::{ConnectionSettings, PostgresError, PostgresStore};

use super::lines::{says, text, user};
use super::people::{MODEL, OF_PROJECT, OF_TEAM, PROJECT, People, SECRET, vector};

/// All that somebody can read of the others' sessions, as a text in which their words are or are not.
fn readable(store: &mut PostgresStore) -> String {
    let mut all = String::new();
    let sessions = store.sessions("", None, usize::MAX).unwrap();
    for session in &sessions {
        all += &format!("{session:?} {:?}\n", store.session(&session.session).unwrap());
        for which in [
            TurnSelection::All,
            TurnSelection::Superseded,
            TurnSelection::Agents,
            TurnSelection::Candidates(99),
            TurnSelection::Newest(99),
            TurnSelection::Pinned,
        ] {
            for turn in store.turns(session.key, which).unwrap() {
                let places = store.turn_locations(&[turn.entry]).unwrap();
                assert!(!places.is_empty());
                all += &format!("{turn:?} {places:?} {:?}\n", store.turn_by_location(&places[0]).unwrap());
            }
        }
        for transcript in store.transcripts(session.key).unwrap() {
            let mut bytes = Vec::new();
            store.read_bytes(transcript.key, 0, EVERYTHING, &mut bytes).unwrap();
            all += &format!("{transcript:?} {}\n", String::from_utf8(bytes).unwrap());
            all +=
                &format!("{:?} {:?}\n", store.turn(transcript.key, 0).unwrap(), store.learning_cursor(transcript.key).unwrap());
        }
        all += &format!("{:?} {:?}\n", store.summaries(session.key).unwrap(), store.tool_stats(session.key).unwrap());
    }
    all += &format!("{:?}\n", store.compactions(None, 0).unwrap());
    all += &format!("{:?}\n", store.learnings(&LearningQuery { with_superseded: true, ..LearningQuery::default() }).unwrap());
    all += &format!("{:?} {:?}\n", store.fixes(None, 99).unwrap(), store.changed_files(None, 99).unwrap());
    all += &format!("{:?} {:?}\n", store.pinned(99).unwrap(), store.turns_by_id("").unwrap());
    for word in [SECRET, OF_PROJECT, OF_TEAM] {
        let words = format!("\"{word}\"");
        all += &format!("{:?}\n", store.search_compactions(&words, None, 99).unwrap());
        all += &format!(
            "{:?}\n",
            store.learnings(&LearningQuery { words: Some(words.clone()), ..LearningQuery::default() }).unwrap()
        );
        let mut hits = store.search_text(&words, &Filter::default(), 99).unwrap();
        let found = hits.len();
        hits.extend(store.search_vectors(MODEL, &vector(word), &Filter::default(), 99).unwrap());
        let entries: Vec<i64> = hits.iter().map(|hit| hit.0).collect();
        let texts = store.texts_of(&entries, 999).unwrap();
        assert!(hits.iter().all(|hit| texts.iter().any(|text| text.entry == hit.0)), "{word}: found, and not to be read");
        all += &format!("{texts:?} {}\n", if found > 0 { word } else { "" });
    }
    all
}

#[test]
fn each_reads_what_is_meant_for_him() {
    let people = People::new();
    for (role, seen, unseen) in [
        (&people.alice, &[SECRET, OF_PROJECT, OF_TEAM][..], &[][..]),
        (&people.bob, &[OF_PROJECT, OF_TEAM], &[SECRET]),
        (&people.carol, &[OF_TEAM], &[SECRET, OF_PROJECT]),
        (&people.mallory, &[], &[SECRET, OF_PROJECT, OF_TEAM]),
    ] {
        let all = readable(&mut people.store(role));
        for word in seen {
            assert!(all.matches(word).count() > 20, "{} does not see {word}: {all}", role.name);
        }
        for word in unseen {
            assert!(!all.contains(word), "{} sees {word}: {all}", role.name);
        }
    }
    // By way of search alone as well.
    let found = |role, word: &str| {
        let mut store = people.store(role);
        let near = store.search_vectors(MODEL, &vector(word), &Filter::default(), 99).unwrap();
        let near = near.iter().filter(|hit| hit.1 > 0.999).count();
        (store.search_text(&format!("\"{word}\""), &Filter::default(), 99).unwrap().len(), near)
    };
    assert_eq!((found(&people.alice, SECRET), found(&people.bob, SECRET)), ((3, 2), (0, 0)));
    assert_eq!((found(&people.bob, OF_PROJECT), found(&people.carol, OF_PROJECT)), ((3, 2), (0, 0)));
    assert_eq!((found(&people.carol, OF_TEAM), found(&people.mallory, OF_TEAM)), ((3, 2), (0, 0)));
}

#[test]
fn a_colleague_restores_a_session_to_the_byte() {
    let people = People::new();
    let bytes = |role| {
        let mut store = people.store(role);
        let key = store.session(OF_TEAM).unwrap().unwrap().key;
        let transcript = store.transcripts(key).unwrap()[0].key;
        let mut bytes = Vec::new();
        store.read_bytes(transcript, 0, EVERYTHING, &mut bytes).unwrap();
        bytes
    };
    assert!(bytes(&people.carol) == bytes(&people.alice) && bytes(&people.alice).len() > 500);
}

#[test]
fn what_is_shown_can_be_taken_back() {
    let people = People::new();
    let mut alice = people.store(&people.alice);
    let key = |store: &mut PostgresStore, session| store.session(session).unwrap().map(|session| session.key);
    let of_team = key(&mut alice, OF_TEAM).unwrap();
    for (visibility, of_carol, of_bob) in
        [(Visibility::Private, false, false), (Visibility::Project, false, true), (Visibility::Team, true, true)]
    {
        assert!(alice.set_visibility(of_team, visibility).unwrap());
        for (role, sees) in [(&people.carol, of_carol), (&people.bob, of_bob)] {
            let all = readable(&mut people.store(role));
            assert_eq!(all.contains(OF_TEAM), sees, "{visibility:?} {}", role.name);
        }
        // What is added later is as visible as the rest.
        alice
            .record_compaction(
                OF_TEAM,
                &ctxbridge::archive::store::Compaction {
                    at_ms: 5,
                    cause: Some(format!("later {OF_TEAM}")),
                    context_tokens: None,
                    is_blocked: true,
                    turns: None,
                },
            )
            .unwrap();
        let later = people.store(&people.carol).compactions(None, 0).unwrap();
        assert_eq!(later.iter().any(|compaction| compaction.cause.as_deref() == Some("later xyzzyteam3")), of_carol);
    }
    // Another's is not to be shown or hidden, nor one that is not there.
    let mut bob = people.store(&people.bob);
    assert!(!bob.set_visibility(of_team, Visibility::Private).unwrap());
    assert!(!bob.set_project(of_team, "else").unwrap());
    assert!(!bob.set_visibility(i64::MAX, Visibility::Team).unwrap());
}

#[test]
fn an_entry_is_seen_by_whoever_sees_one_session_with_it() {
    let people = People::new();
    let mut alice = people.store(&people.alice);
    let same = [user(1, "Shared words zzyzx."), says(2, "The same answer.")];
    let private = people.archive(&mut alice, "first", &same);
    let shown = people.archive(&mut alice, "second", &same);
    let entry = alice.first_entry(private).unwrap().unwrap();
    assert_eq!(alice.first_entry(shown).unwrap(), Some(entry));
    let sees = |visibility_of_first, visibility_of_second| {
        let mut alice = people.store(&people.alice);
        alice.set_visibility(private, visibility_of_first).unwrap();
        alice.set_visibility(shown, visibility_of_second).unwrap();
        let mut carol = people.store(&people.carol);
        let found = carol.search_text("\"zzyzx\"", &Filter::default(), 9).unwrap().len();
        assert_eq!(carol.texts_of(&[entry], 9).unwrap().len(), found);
        (found, carol.turn_locations(&[entry]).unwrap().len())
    };
    assert_eq!(sees(Visibility::Private, Visibility::Private), (0, 0));
    assert_eq!(sees(Visibility::Private, Visibility::Team), (1, 1));
    assert_eq!(sees(Visibility::Team, Visibility::Team), (1, 2));
    assert_eq!(sees(Visibility::Team, Visibility::Private), (1, 1));
    assert_eq!(sees(Visibility::Private, Visibility::Private), (0, 0));
}

#[test]
fn a_new_session_is_as_visible_as_is_set() {
    let people = People::new();
    let mut alice =
        PostgresStore::connect(ConnectionSettings { visibility: Visibility::Team, ..people.settings(&people.alice) }).unwrap();
    people.archive(&mut alice, "open", &[user(1, "For all.")]);
    let mut alice =
        PostgresStore::connect(ConnectionSettings { visibility: Visibility::Project, ..people.settings(&people.alice) }).unwrap();
    let of_project = people.archive(&mut alice, "of project", &[user(1, "For some.")]);
    let mut carol = people.store(&people.carol);
    let mut bob = people.store(&people.bob);
    assert!(carol.session("open").unwrap().is_some() && carol.session("of project").unwrap().is_none());
    // As long as it is of none, nobody is in its project.
    assert!(bob.session("of project").unwrap().is_none());
    alice.set_project(of_project, PROJECT).unwrap();
    assert!(bob.session("of project").unwrap().is_some() && carol.session("of project").unwrap().is_none());
    // What comes to it later is seen by the same.
    people.archive(&mut alice, "of project", &[user(1, "For some."), says(2, "Yes."), user(3, "More zzyzx.")]);
    assert_eq!(bob.search_text("\"zzyzx\"", &Filter::default(), 9).unwrap().len(), 1);
    assert!(carol.search_text("\"zzyzx\"", &Filter::default(), 9).unwrap().is_empty());
}

#[test]
fn a_project_is_for_its_members() {
    let people = People::new();
    let mut carol = people.store(&people.carol);
    let hers = people.archive(&mut carol, "carols", &[user(1, "Mine.")]);
    // She may say that it is of the project; to show it to those in it, she has to be one of them.
    assert!(carol.set_project(hers, PROJECT).unwrap());
    let error = carol.set_visibility(hers, Visibility::Project).unwrap_err();
    let Some(PostgresError::NoProject { project, .. }) = PostgresError::of(&error) else { panic!("{error:?}") };
    assert_eq!(project, PROJECT);
    let said = format!("SELECT ctxbridge.add_to_project('acme', '{PROJECT}', '{}')", people.carol.name);
    assert!(error.to_string().contains(&said), "{error}");
    people.client(&people.bob).batch_execute(&said).unwrap();
    assert!(carol.set_visibility(hers, Visibility::Project).unwrap());
    assert!(people.store(&people.bob).session("carols").unwrap().is_some());
    assert!(carol.session(OF_PROJECT).unwrap().is_some());
}

#[test]
fn what_is_private_makes_no_project_known() {
    let people = People::new();
    let mut bob = people.store(&people.bob);
    let his = people.archive(&mut bob, "bobs", &[user(1, "Mine.")]);
    assert!(!bob.assign_project("bobs", "stealth").unwrap());
    assert!(!bob.assign_project("none\0of that name", "stealth").unwrap());
    // It is nobody's: who asks whether there is one is its first member.
    let enter = "SELECT ctxbridge.enter_project('acme', 'stealth')";
    assert!(people.client(&people.carol).query_one(enter, &[]).unwrap().get::<_, bool>(0));
    assert!(bob.set_visibility(his, Visibility::Project).is_err());
    // What should be shown to a project of others stays private, and says so.
    let project = ConnectionSettings { visibility: Visibility::Project, ..people.settings(&people.carol) };
    let mut carol = PostgresStore::connect(project).unwrap();
    people.archive(&mut carol, "carols", &[user(1, "Mine.")]);
    assert!(carol.assign_project("carols", PROJECT).unwrap() && !carol.assign_project("carols", PROJECT).unwrap());
    assert!(bob.session("carols").unwrap().is_none());
}

#[test]
fn who_is_no_longer_a_member_sees_and_writes_nothing() {
    let people = People::new();
    let mut bob = people.store(&people.bob);
    let his = people.archive(&mut bob, "bobs", &[user(1, "Mine.")]);
    let mut admin = people.client(&people.alice);
    admin.execute("SELECT ctxbridge.remove_member('acme', $1)", &[&people.bob.name]).unwrap();
    let all = readable(&mut bob);
    assert!(!all.contains("xyzzy") && all.contains("bobs"), "{all}");
    let error = bob.end_session("another", "clear", 1).unwrap_err();
    assert!(matches!(PostgresError::of(&error), Some(PostgresError::Denied { .. })), "{error:?}");
    assert!(bob.set_visibility(his, Visibility::Team).is_err());
    let error = PostgresStore::connect(people.settings(&people.bob)).unwrap_err();
    assert!(matches!(error, PostgresError::NoMember { .. }), "{error:?}");
}

#[test]
fn who_has_left_a_project_goes_on_with_everything_else() {
    let people = People::new();
    let mut bob = people.store(&people.bob);
    let same = [user(1, "Shared words zzyzx."), says(2, "The same answer.")];
    let shown = people.archive(&mut bob, "shown", &same);
    assert!(bob.set_project(shown, PROJECT).unwrap() && bob.set_visibility(shown, Visibility::Project).unwrap());
    assert_eq!(bob.revoked_project("shown").unwrap(), None);
    let leave = "SELECT ctxbridge.remove_from_project('acme', $1, session_user::text)";
    people.client(&people.bob).execute(leave, &[&PROJECT]).unwrap();
    assert_eq!(bob.revoked_project("shown").unwrap().as_deref(), Some(PROJECT));
    // To this nothing can be added any more, nor can it be said otherwise what it says.
    let more = [&same[..], &[user(3, "More."), says(4, "Yes.")]].concat();
    let transcript = bob.transcripts(shown).unwrap().remove(0);
    std::fs::write(&transcript.path, text(&more)).unwrap();
    let named = Transcript { path: transcript.path.clone(), session: "shown".to_owned(), part: Default::default() };
    let error = ingest(&mut bob, &named, transcript.path.as_ref()).unwrap_err();
    assert!(error.to_string().contains("does not allow that"), "{error}");
    let entry = bob.first_entry(shown).unwrap().unwrap();
    let mut client = people.client(&people.bob);
    for sql in [
        "UPDATE ctxbridge.entries SET content = 'planted' WHERE id = $1",
        "UPDATE ctxbridge.entries SET audience = '{team}' WHERE id = $1",
        "SELECT ctxbridge.grow_entry('acme', $1, (SELECT sha256 FROM ctxbridge.entries WHERE id = $1), 'x', 1, 'planted', '', '', '', '', '{}')",
    ] {
        let error = client.execute(sql, &[&entry]).unwrap_err();
        assert_eq!(error.code().map(|code| code.code().to_owned()).as_deref(), Some("42501"), "{sql}: {error:?}");
    }
    // The same words elsewhere, what is counted of them, and what is tidied up.
    let other = people.archive(&mut bob, "other", &same);
    assert!(bob.set_visibility(other, Visibility::Team).unwrap());
    bob.touch(&[entry], 5).unwrap();
    let plan = |facts: &ArchiveStats| {
        ctxbridge::archive::maintenance::plan(
            facts,
            &ctxbridge::archive::maintenance::RetentionSettings::from(&ctxbridge::config::ArchiveSettings::default()),
            i64::MAX / 2,
        )
    };
    bob.run_maintenance(MaintenanceMode::Apply, &plan).unwrap();
    assert_eq!(people.store(&people.carol).texts_of(&[entry], 9).unwrap().len(), 1);
    // He can hide it, and be shown in again.
    assert!(bob.set_visibility(shown, Visibility::Private).unwrap());
    ingest(&mut bob, &named, transcript.path.as_ref()).unwrap();
    assert!(people.store(&people.alice).session("shown").unwrap().is_none());
}

#[test]
fn a_project_that_all_have_left_is_nobodys_to_enter() {
    let people = People::new();
    let mut alice = people.client(&people.alice);
    let enter = "SELECT ctxbridge.enter_project('acme', 'left')";
    let may = |role| -> bool { people.client(role).query_one(enter, &[]).unwrap().get(0) };
    assert!(may(&people.bob) && !may(&people.carol));
    let list = "SELECT projects FROM ctxbridge.list_members('acme') WHERE member = $1";
    assert_eq!(alice.query_one(list, &[&people.bob.name]).unwrap().get::<_, Vec<String>>(0), ["left", PROJECT]);
    assert!(people.client(&people.bob).query(list, &[&people.bob.name]).is_err());
    alice.execute("SELECT ctxbridge.remove_from_project('acme', 'left', $1)", &[&people.bob.name]).unwrap();
    assert!(!may(&people.carol) && !may(&people.bob));
    alice.execute("SELECT ctxbridge.add_to_project('acme', 'left', $1)", &[&people.carol.name]).unwrap();
    assert!(may(&people.carol));
    // The same for who leaves the tenant.
    alice.execute("SELECT ctxbridge.remove_member('acme', $1)", &[&people.carol.name]).unwrap();
    assert!(!may(&people.bob));
}

#[test]
fn found_by_what_is_asked_besides_words() {
    let people = People::new();
    let mut store = people.store(&people.bob);
    let mut found = |filter: Filter| {
        let near = store.search_vectors(MODEL, &vector(OF_TEAM), &filter, 99).unwrap().len();
        let words = format!("\"{OF_TEAM}\" OR \"{OF_PROJECT}\"");
        (store.search_text(&words, &filter, 99).unwrap().len(), near)
    };
    // A turn has a vector, a summary has none.
    let all = (6, 4);
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(found(Filter::default()), all);
    assert_eq!(found(Filter { session: some("xyzzyt"), ..Filter::default() }), (3, 2));
    assert_eq!(found(Filter { session: some("yzzy"), ..Filter::default() }), (0, 0));
    for (project, expected) in [
        ("/work", all),
        ("/work/p", all),
        ("/", all),
        ("P", all),
        ("work/p", all),
        ("/wor", (0, 0)),
        ("/work/p/q", (0, 0)),
        ("q", (0, 0)),
    ] {
        let scope = if project.starts_with('/') { ProjectScope::at(project) } else { ProjectScope::named(project) };
        assert_eq!(found(Filter { project: Some(scope), ..Filter::default() }), expected, "{project}");
    }
    assert_eq!(found(Filter { tool: some("edit"), ..Filter::default() }), (2, 2));
    assert_eq!(found(Filter { tool: some("edi"), ..Filter::default() }), (0, 0));
    assert_eq!(found(Filter { file: some("XYZZYTEAM3.rs"), ..Filter::default() }), (1, 1));
    // The second turn begins six seconds into June 2026.
    let begin = 1_780_272_000_000;
    assert_eq!(found(Filter { since_ms: Some(begin + 6_000), ..Filter::default() }), (2, 2));
    assert_eq!(found(Filter { until_ms: Some(begin + 6_000), ..Filter::default() }), (4, 2));
    assert_eq!(found(Filter { since_ms: Some(begin + 7_000), ..Filter::default() }), (0, 0));
}
