//! Whatever happens to a transcript between two runs, the other archive has what one has that never saw the begin of a last line.

use std::fs;
use std::path::Path;

use ctxbridge::archive::ingest::archive_through;
use ctxbridge::archive::reader::Comparison;
use ctxbridge::archive::store::{EVERYTHING, Store, Transcript, Turns};
use proptest::prelude::*;

use super::changes::{Model, Step, step};
use super::place::{Place, SESSION};

/// What the newest generation of the session's transcript is, and its turns by id and content.
type Told = (Vec<u8>, Vec<([u8; 16], [u8; 32], u64, u64)>);

fn told(store: &mut dyn Store) -> Option<Told> {
    let session = store.session(SESSION).unwrap()?;
    let transcript = store.transcripts(session.key).unwrap().remove(0);
    let mut bytes = Vec::new();
    store.raw(transcript.key, transcript.generation, EVERYTHING, &mut bytes).unwrap();
    let which = if transcript.agent.is_some() { Turns::Agents } else { Turns::All };
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
    archive_through(store, transcript, path, Comparison::Whole, &mut |store, batch| store.append(batch)).unwrap();
}

fn check(steps: &[(Step, bool)], is_agent: bool) {
    let (place, twin) = (Place::new(), Place::new());
    let path = place.transcript(SESSION);
    let agent = is_agent.then(|| "a1".to_owned());
    let transcript = Transcript { path: path.to_string_lossy().into_owned(), session: SESSION.to_owned(), agent };
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
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_there_is_what_is_here(
        steps in proptest::collection::vec((step(), any::<bool>()), 1..24), is_agent in proptest::bool::weighted(0.15)
    ) {
        check(&steps, is_agent);
    }
}
