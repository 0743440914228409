//! What is asked of the archive.

use ctxbridge::archive::project::ProjectScope;
use ctxbridge::archive::restore::rank_by_importance;
use ctxbridge::archive::store::{Batch, Cursor, Store, StoredTurn, TurnSelection};
use ctxbridge::archive::{ImportanceFactors, importance};
use ctxbridge::transcript::{Interpreter, Turn};
use proptest::prelude::*;
use serde_json::json;

use super::kinds::Kind;
use super::lines::{calls, says, text, user};
use super::{Place, session, transcript};

on_every_store!(
    candidates_have_the_most_important,
    any_range_of_bytes,
    the_newest_first,
    turns_by_the_begin_of_their_id,
    sessions_by_the_begin_of_their_id_and_by_folder,
    the_session_that_was_cleared,
);

const DAY: i64 = 86_400_000;
const NOW: i64 = 1_780_000_000_000;

fn weight(turn: &StoredTurn) -> f64 {
    importance(ImportanceFactors {
        age_days: (NOW - turn.turn.started_ms) as f64 / DAY as f64,
        access_count: turn.access_count,
        has_tools: !turn.turn.tools.is_empty(),
        has_files: !turn.turn.files.is_empty(),
    })
}

/// A turn of which only what counts for its importance is of interest: age in hours, tools, files.
fn turn(index: u32, (age, has_tools, has_files): (i64, bool, bool)) -> Turn {
    let name = |there: bool, name: &str| there.then(|| name.to_owned()).into_iter().collect();
    let mut sha256 = [0; 32];
    sha256[..4].copy_from_slice(&index.to_be_bytes());
    Turn {
        index,
        start: index.into(),
        end: u64::from(index) + 1,
        id: u128::from(index).to_be_bytes(),
        started_ms: NOW - age * 3_600_000,
        ended_ms: NOW - age * 3_600_000,
        content_sha256: sha256,
        content_chars: 1,
        tools: name(has_tools, "Bash"),
        files: name(has_files, "/a"),
        agents: Vec::new(),
        context_tokens: None,
        output_tokens: 0,
        is_answered: true,
        open_work: Vec::new(),
        is_kept: false,
    }
}

fn candidates_have_the_most_important(kind: Kind) {
    proptest!(kind.cases(48), |(
        traits in proptest::collection::vec((-48..2_000_i64, any::<bool>(), any::<bool>()), 1..80),
        touched in proptest::collection::vec((any::<proptest::sample::Index>(), 1..40_usize), 0..12),
        most in 1..12_usize,
    )| {
        let place = Place::new(kind);
        let mut store = place.open();
        let turns = traits.iter().zip(0..).map(|(traits, index)| turn(index, *traits)).collect();
        let cursor = Cursor { generation: 0, bytes: 1_000, check: [0; 32], interpreter: Interpreter::default() };
        let transcript = transcript(&place.path("s.jsonl"), "s");
        let (segments, summaries, first_contexts) = (Vec::new(), Vec::new(), Vec::new());
        let batch = Batch { transcript, expected_cursor: None, rewritten: None, segments, turns, summaries, first_contexts, path_changes: Vec::new(), cursor };
        store.append(&batch).unwrap();
        let key = session(&mut *store, "s").unwrap().key;
        let all = store.turns(key, TurnSelection::All).unwrap();
        for (at, times) in touched {
            store.touch(&vec![all[at.index(all.len())].entry; times], NOW).unwrap();
        }
        let weights = |turns: Vec<StoredTurn>| rank_by_importance(turns, NOW).iter().take(most).map(weight).collect::<Vec<_>>();
        let candidates = store.turns(key, TurnSelection::Candidates(most)).unwrap();
        let mut ids: Vec<_> = candidates.iter().map(|turn| turn.turn.index).collect();
        ids.sort_unstable();
        ids.dedup();
        prop_assert_eq!(ids.len(), candidates.len(), "one is there twice");
        prop_assert_eq!(weights(candidates), weights(store.turns(key, TurnSelection::All).unwrap()));
    });
}

fn any_range_of_bytes(kind: Kind) {
    proptest!(kind.cases(48), |(
        sizes in proptest::collection::vec(0..120_000_usize, 1..6),
        ranges in proptest::collection::vec((0..700_000_u64, 0..700_000_u64), 1..12),
    )| {
        let place = Place::new(kind);
        let mut store = place.open();
        let mut lines = Vec::new();
        for (size, number) in sizes.into_iter().zip(0..) {
            lines.push(user(number, "x".repeat(size)));
            place.archive(&mut *store, "s", &lines);
        }
        let bytes = text(&lines).into_bytes();
        let key = session(&mut *store, "s").unwrap().key;
        let transcript = store.transcripts(key).unwrap()[0].key;
        for (start, end) in ranges {
            let mut read = Vec::new();
            store.read_bytes(transcript, 0, (start, end), &mut read).unwrap();
            let wanted = bytes.get(start.min(bytes.len() as u64) as usize..end.min(bytes.len() as u64) as usize).unwrap_or_default();
            prop_assert!(read == wanted, "{}..{}: {} bytes instead of {}", start, end, read.len(), wanted.len());
        }
    });
}

fn the_newest_first(kind: Kind) {
    let place = Place::new(kind);
    let mut store = place.open();
    place.archive(&mut *store, "s", &[user(1, "One."), user(2, "Two."), user(3, "Three.")]);
    let key = session(&mut *store, "s").unwrap().key;
    let newest = |store: &mut dyn Store, count| {
        store.turns(key, TurnSelection::Newest(count)).unwrap().iter().map(|turn| turn.turn.index).collect::<Vec<_>>()
    };
    assert_eq!(newest(&mut *store, 2), [2, 1]);
    assert_eq!(newest(&mut *store, 9), [2, 1, 0]);
    assert!(newest(&mut *store, 0).is_empty());
}

fn turns_by_the_begin_of_their_id(kind: Kind) {
    let place = Place::new(kind);
    let mut store = place.open();
    place.archive(&mut *store, "s", &[user(0x1234, "One."), user(0x12ab, "Two."), calls(1, "Bash", json!({}))]);
    let found = |store: &mut dyn Store, prefix: &str| store.turns_by_id(prefix).unwrap().len();
    for (prefix, count) in
        [("000012", 2), ("00001", 2), ("0000123", 1), ("00001234", 1), ("000012340000400080", 1), ("1", 0), ("", 2)]
    {
        assert_eq!(found(&mut *store, prefix), count, "{prefix}");
    }
    for odd in ["xyz", "00001234-", "é", "+1", "' OR 1", &"0".repeat(33), &"0".repeat(1_000)] {
        assert_eq!(found(&mut *store, odd), 0, "{odd}");
    }
}

fn sessions_by_the_begin_of_their_id_and_by_folder(kind: Kind) {
    let place = Place::new(kind);
    let mut store = place.open();
    for (name, at) in [("ab1", 10), ("ab2", 30), ("b_", 20), ("b%", 25)] {
        place.archive(&mut *store, name, &[user(at, format!("{name}?"))]);
    }
    // A hook may speak of a session before there is anything of it.
    store.end_session("ab3", "other", NOW).unwrap();
    let found = |store: &mut dyn Store, prefix: &str, folder: Option<&str>, limit| {
        store
            .sessions(prefix, folder.map(ProjectScope::at).as_ref(), limit)
            .unwrap()
            .into_iter()
            .map(|session| session.session)
            .collect::<Vec<_>>()
    };
    assert_eq!(found(&mut *store, "", None, 9), ["ab2", "b%", "b_", "ab1"]);
    assert_eq!(found(&mut *store, "ab", None, 9), ["ab2", "ab1"]);
    assert_eq!(found(&mut *store, "b_", None, 9), ["b_"]);
    assert_eq!(found(&mut *store, "%", None, 9), [""; 0]);
    assert_eq!(found(&mut *store, "", None, 1), ["ab2"]);
    assert_eq!(found(&mut *store, "", Some("/work/p"), 9).len(), 4);
    assert_eq!(found(&mut *store, "b", Some("/work"), 1), ["b%"]);
    assert_eq!(found(&mut *store, "", Some("/work/p2"), 9).len(), 0);
}

fn the_session_that_was_cleared(kind: Kind) {
    let place = Place::new(kind);
    let mut store = place.open();
    std::fs::create_dir_all(place.path("p")).unwrap();
    std::fs::create_dir_all(place.path("p2")).unwrap();
    let within = place.path("p/").to_string_lossy().into_owned();
    let cleared = |store: &mut dyn Store, but: &str, since: i64| {
        store.session_cleared(&within, but, since).unwrap().map(|session| session.session)
    };
    for (name, at) in [("p/old", 10), ("p/oldest", 5), ("p/new", 30), ("p2/other", 50)] {
        let path = place.path(&format!("{name}.jsonl"));
        std::fs::write(&path, text(&[user(at, "?"), says(at + 1, "!")])).unwrap();
        let id = name.split('/').next_back().unwrap();
        ctxbridge::archive::ingest::ingest(&mut *store, &transcript(&path, id), &path).unwrap();
    }
    assert_eq!(cleared(&mut *store, "x", 0), None, "none was");
    store.end_session("other", "clear", 900).unwrap();
    store.end_session("new", "other", 900).unwrap();
    assert_eq!(cleared(&mut *store, "x", 0), None, "none here was");
    store.end_session("old", "clear", 1_000).unwrap();
    assert_eq!(cleared(&mut *store, "x", 1_000).as_deref(), Some("old"));
    assert_eq!(cleared(&mut *store, "x", 1_001), None, "long ago");
    assert_eq!(cleared(&mut *store, "old", 0), None, "it is that one");
    store.end_session("oldest", "clear", 2_000).unwrap();
    assert_eq!(cleared(&mut *store, "x", 0).as_deref(), Some("oldest"));
    assert_eq!(cleared(&mut *store, "oldest", 0).as_deref(), Some("old"), "and not one whose id begins the same");
}
