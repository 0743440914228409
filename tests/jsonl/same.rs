//! Whatever happens, it is as in a database; and the same for whoever replays it, begins with what it came to, or has an image of that.

use std::fs;

use ctxbridge::archive::learn::{self, LearningPatterns};
use ctxbridge::archive::maintain::run_maintenance;
use ctxbridge::archive::maintenance::{MaintenanceMode, RetentionSettings};
use ctxbridge::archive::snapshot;
use ctxbridge::archive::store::sqlite::{LockPolicy, SqliteStore};
use ctxbridge::archive::store::{Changes, Compaction, MaintenanceStore, SearchStore, Store, TurnSelection};
use ctxbridge::config;
use ctxbridge_testkit::share_of;
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};

use super::lines::{boundary, calls, compact_summary, of_agent, result, says, user};
use super::place::{HOUR, NOW, Place, dump};

const SESSIONS: [&str; 3] = ["a", "b", "../c"];

/// What happens to an archive.
#[derive(Clone, Debug)]
enum Step {
    /// A session's transcript gets lines, or loses what is behind some first and gets others.
    Archive(usize, Option<usize>, Vec<Value>),
    Touch(Vec<Index>),
    Keep(Index, bool),
    Announce(usize, bool),
    Summary(usize, u32),
    End(usize),
    Cycle(i64),
    Learn(usize),
    Snapshots(usize),
    Tidy,
    Reopen,
}

fn line() -> impl Strategy<Value = Value> {
    (0..10_u32, 0..12_u32, prop_oneof![6 => Just(0_usize), 1 => Just(20_000)]).prop_map(|(kind, number, padding)| {
        let words = format!("Word {number}{}.", " and another".repeat(padding / 12));
        match kind {
            0..=2 => user(number, words + if number == 3 { " #keep" } else { "" }),
            3 => says(number, &words),
            4 => says(number, "I went with polling for the hooks because it is simple."),
            5 => says(number, "We switched from polling to events for the hooks, since most polls bring nothing."),
            6 => calls(number, "Edit", json!({ "file_path": format!("/work/p/{number}.rs"), "new_string": words })),
            7 => result(number, words),
            8 if number % 2 == 0 => boundary(number + 1),
            8 => compact_summary(number, &format!("In short, {}.", number / 4)),
            _ => of_agent(says(number, &words)),
        }
    })
}

fn step() -> impl Strategy<Value = Step> {
    let session = || 0..SESSIONS.len();
    prop_oneof![
        6 => (session(), proptest::option::weighted(0.2, 0..6_usize), proptest::collection::vec(line(), 0..7))
            .prop_map(|(session, kept, lines)| Step::Archive(session, kept, lines)),
        2 => proptest::collection::vec(any::<Index>(), 0..4).prop_map(Step::Touch),
        1 => (any::<Index>(), any::<bool>()).prop_map(|(which, is_kept)| Step::Keep(which, is_kept)),
        1 => (session(), any::<bool>()).prop_map(|(session, is_blocked)| Step::Announce(session, is_blocked)),
        1 => (session(), 0..3_u32).prop_map(|(session, number)| Step::Summary(session, number)),
        1 => session().prop_map(Step::End),
        1 => (0..200_i64).prop_map(Step::Cycle),
        1 => session().prop_map(Step::Learn),
        1 => session().prop_map(Step::Snapshots),
        1 => Just(Step::Tidy),
        1 => Just(Step::Reopen),
    ]
}

/// What happens happens to both.
fn perform(step: &Step, place: &Place, store: &mut dyn Store, lines: &[Vec<Value>; SESSIONS.len()], now: i64) {
    let name = |at: usize| SESSIONS[at];
    let of = |store: &mut dyn Store, at: usize| store.session(name(at)).unwrap();
    match step {
        Step::Archive(at, ..) => drop(place.archive(store, name(*at), &lines[*at])),
        Step::Touch(which) => {
            let mut entries = Vec::new();
            for session in store.sessions("", None, 99).unwrap() {
                entries.extend(store.turns(session.key, TurnSelection::All).unwrap().iter().map(|turn| turn.entry));
            }
            let chosen: Vec<i64> =
                which.iter().map(|at| entries.get(at.index(entries.len() + 1)).copied().unwrap_or(99_999)).collect();
            store.touch(&chosen, now).unwrap();
        }
        Step::Keep(which, is_kept) => {
            let turns = store.turns_by_id("").unwrap();
            let id = turns.get(which.index(turns.len() + 1)).map_or([9; 16], |turn| turn.turn.id);
            store.set_pinned(&id, *is_kept, now).unwrap();
        }
        Step::Announce(at, is_blocked) => {
            let compaction =
                Compaction { at_ms: now, cause: None, context_tokens: Some(1_000), is_blocked: *is_blocked, turns: None };
            store.record_compaction(name(*at), &compaction).unwrap();
        }
        Step::Summary(at, number) => {
            store.add_summary(name(*at), &format!("<summary>In short, {number}.</summary>"), now).unwrap()
        }
        Step::End(at) => store.end_session(name(*at), "clear", now).unwrap(),
        Step::Cycle(_) => {
            let settings =
                RetentionSettings { is_adaptive: false, ..RetentionSettings::from(&config::ArchiveSettings::default()) };
            let dry = run_maintenance(store, &settings, MaintenanceMode::DryRun, now).unwrap();
            assert_eq!(run_maintenance(store, &settings, MaintenanceMode::Apply, now).unwrap(), dry);
        }
        Step::Learn(at) => {
            if let Some(session) = of(store, *at) {
                learn::learn_from_session(store, &session, LearningPatterns::standard(), None).unwrap();
            }
        }
        Step::Snapshots(at) => {
            if let Some(session) = of(store, *at) {
                snapshot::take_snapshots(store, &session, None).unwrap();
            }
        }
        Step::Tidy => store.optimize().unwrap(),
        Step::Reopen => {}
    }
}

/// That changes are told alike to who has opened it at any time.
fn since(store: &mut dyn Store, mark: &str) -> Changes {
    let mut changes = store.changes(Some(mark)).unwrap();
    changes.entries.iter_mut().for_each(|entries| entries.sort_unstable());
    changes
}

proptest! {
    #![proptest_config(ProptestConfig { cases: share_of(96), failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn as_in_a_database(steps in proptest::collection::vec(step(), 1..20)) {
        let place = Place::new();
        let database = place.root().join("sqlite");
        fs::create_dir(&database).unwrap();
        let mut sqlite = SqliteStore::open(&database, LockPolicy::Background).unwrap();
        let mut store = place.open();
        // Opened before anything happened, and asked at the end.
        let mut early = place.look();
        let mut lines: [Vec<Value>; SESSIONS.len()] = Default::default();
        let mut now = NOW;
        let mark = store.changes(None).unwrap().revision;
        for step in &steps {
            if let Step::Archive(at, kept, more) = step {
                lines[*at].truncate(kept.unwrap_or(usize::MAX));
                lines[*at].extend_from_slice(more);
            }
            now += match step { Step::Cycle(hours) => hours * HOUR, _ => 1 };
            perform(step, &place, &mut sqlite, &lines, now);
            perform(step, &place, &mut store, &lines, now);
            if matches!(step, Step::Reopen) {
                store = place.open();
            }
        }
        let expected = dump(&mut sqlite);
        let changes = since(&mut store, &mark);
        prop_assert_eq!(dump(&mut store), &expected[..], "the one that wrote it");
        prop_assert_eq!(dump(&mut early), &expected[..], "one that was open all the while");
        prop_assert_eq!(dump(&mut place.look()), &expected[..], "replayed");
        prop_assert_eq!(since(&mut place.look(), &mark), changes.clone());
        // Many changes make an image of what they came to.
        for _ in 0..70 {
            for store in [&mut store as &mut dyn Store, &mut sqlite] {
                store.set_pinned(&[8; 16], true, now).unwrap();
            }
        }
        drop(place.open());
        prop_assert!(place.file("journal.image").is_file());
        prop_assert_eq!(dump(&mut place.look()), &expected[..], "from the image");
        prop_assert_eq!(since(&mut place.look(), &mark), changes.clone());
        place.assert_sound();
        store.optimize().unwrap();
        fs::remove_file(place.file("journal.image")).unwrap();
        for (who, store) in [("who tidied up", &mut store), ("who was there", &mut early), ("from rows", &mut place.look())] {
            prop_assert_eq!(dump(store), &expected[..], "{}", who);
            prop_assert_eq!(since(store, &mark), changes.clone(), "{}", who);
        }
        place.assert_sound();
        // And it goes on from there, from wherever.
        let mut again = place.open();
        for store in [&mut again as &mut dyn Store, &mut sqlite] {
            lines[0].push(user(500, "And on."));
            place.archive(store, "a", &lines[0]);
            lines[0].pop();
        }
        prop_assert_eq!(dump(&mut store), dump(&mut sqlite));
    }
}
