//! Whatever happens to a transcript between two runs, the other archive has what one has that never saw the begin of a last line.

use std::fs;
use std::path::Path;

use ctxbridge::archive::ingest::ingest_with;
use ctxbridge::archive::reader::Comparison;
use ctxbridge::archive::store::{EVERYTHING, Store, StoredTranscript, Transcript, TurnSelection};
use ctxbridge_testkit::share_of;
use proptest::prelude::*;

use super::changes::{Model, Step, step};
use super::place::{Place, SESSION, conversation};

/// What the newest generation of the session's transcript is, and its turns by id and content.
type Told = (Vec<u8>, Vec<([u8; 16], [u8; 32], u64, u64)>);

fn told(store: &mut dyn Store) -> Option<Told> {
    let session = store.session(SESSION).unwrap()?;
    let transcript = store.transcripts(session.key).unwrap().remove(0);
    let mut bytes = Vec::new();
    store.read_bytes(transcript.key, transcript.generation, EVERYTHING, &mut bytes).unwrap();
    let which = if transcript.part.agent().is_some() { TurnSelection::Agents } else { TurnSelection::All };
    let turns = store.turns(session.key, which).unwrap().into_iter().filter(|turn| !turn.is_superseded);
    Some((bytes, turns.map(|turn| (turn.turn.id, turn.turn.content_sha256, turn.turn.start, turn.turn.end)).collect()))
}

/// Without the begin of a last line.
fn lines_of(file: &[u8]) -> &[u8] {
    let end = file.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    if serde_json::from_slice::<serde_json::Value>(&file[end..]).is_ok() { file } else { &file[..end] }
}

fn archive(store: &mut dyn Store, transcript: &Transcript, bytes: &[u8]) {
    let path = Path::new(&transcript.path);
    fs::write(path, bytes).unwrap();
    ingest_with(store, transcript, path, Comparison::Whole, &mut |store, batch| store.append(batch)).unwrap();
}

fn check(steps: &[(Step, bool)], is_agent: bool) {
    let (place, twin) = (Place::new(), Place::new());
    let path = place.transcript(SESSION);
    let agent = is_agent.then(|| "a1".to_owned());
    let transcript = Transcript { path: path.to_string_lossy().into_owned(), session: SESSION.to_owned(), part: agent.into() };
    let (mut here, mut twin) = (place.open_here(), twin.open_here());
    let mut model = Model::default();
    for (step, is_sent) in steps.iter().chain(&[(Step::Archive, true)]) {
        model.change(step);
        if !matches!(step, Step::Archive) {
            continue;
        }
        archive(&mut *twin, &transcript, lines_of(&model.file));
        archive(&mut *here, &transcript, &model.file);
        if *is_sent {
            place.sync().unwrap();
            assert!(told(&mut *twin) == told(&mut *place.there()));
            assert_eq!(place.sync().unwrap().sessions, 0);
        }
    }
    assert!(told(&mut *here).is_none_or(|(bytes, _)| bytes == model.file));
    // All of it, sent again by somebody who does not remember, changes nothing.
    let before = all_of(&mut *place.there());
    for _ in 0..2 {
        let again = place.sync_whole().unwrap();
        assert_eq!((again.turns, again.bytes), (0, 0));
        assert!(all_of(&mut *place.there()) == before);
    }
}

/// All generations, and all turns, with those that are no longer said.
fn all_of(store: &mut dyn Store) -> Vec<(Vec<Vec<u8>>, usize)> {
    let Some(session) = store.session(SESSION).unwrap() else { return Vec::new() };
    let transcripts = store.transcripts(session.key).unwrap();
    let bytes = |store: &mut dyn Store, key: i64, generation: u32| {
        let mut bytes = Vec::new();
        store.read_bytes(key, generation, EVERYTHING, &mut bytes).unwrap();
        bytes
    };
    let turns = store.turns(session.key, TurnSelection::All).unwrap().len()
        + store.turns(session.key, TurnSelection::Agents).unwrap().len();
    let of = |transcript: &StoredTranscript| (0..=transcript.generation).map(|at| bytes(store, transcript.key, at)).collect();
    transcripts.iter().map(of).map(|generations| (generations, turns)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: share_of(256), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_there_is_what_is_here(
        steps in proptest::collection::vec((step(), any::<bool>()), 1..24), is_agent in proptest::bool::weighted(0.15)
    ) {
        check(&steps, is_agent);
    }
}

/// What is there already is passed over in its order, also where it came back.
#[test]
fn what_was_rewritten_there_and_back_is_sent_once() {
    let place = Place::new();
    let (path, mut here) = (place.transcript(SESSION), place.open_here());
    let transcript =
        Transcript { path: path.to_string_lossy().into_owned(), session: SESSION.to_owned(), part: Default::default() };
    let said = |turns| conversation(turns).iter().map(|line| format!("{line}\n")).collect::<String>();
    for content in [said(0..3), said(5..9), said(0..3), said(7..8)] {
        archive(&mut *here, &transcript, content.as_bytes());
    }
    place.sync().unwrap();
    let before = all_of(&mut *place.there());
    assert_eq!(before, all_of(&mut *here));
    assert_eq!(before[0].0.len(), 4);
    assert_eq!(place.sync_whole().unwrap().turns, 0);
    assert_eq!(all_of(&mut *place.there()), before);
}
