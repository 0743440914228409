//! What has to hold of an archive at any time.

use ctxbridge::archive::store::{EVERYTHING, Store, StoredTurn, TurnSelection};
use ctxbridge::archive::turn_text;
use ctxbridge::common::digest::Hasher;
use ctxbridge::transcript::Turn;
use ctxbridge_testkit::{agent_turns, conversation};

/// The turns of a file that is read once, from its begin.
pub fn fresh(bytes: &[u8], is_agent: bool) -> Vec<Turn> {
    if is_agent { agent_turns(bytes) } else { conversation(bytes) }
}

/// That each turn, also one of an old generation, is the one that its bytes tell.
pub fn check_contents(store: &mut dyn Store, key: i64) {
    for which in [TurnSelection::All, TurnSelection::Superseded, TurnSelection::Agents] {
        for turn in store.turns(key, which).unwrap() {
            assert_eq!(content_hash(store, &turn), turn.turn.content_sha256, "{which:?} {turn:?}");
        }
    }
}

fn content_hash(store: &mut dyn Store, turn: &StoredTurn) -> [u8; 32] {
    let words = turn_text::content(store, turn).unwrap();
    let mut hasher = Hasher::default();
    if !words.is_empty() {
        hasher.update(words.as_bytes());
        hasher.update(b"\n\n");
    }
    hasher.finish_bytes()
}

/// A generation of a transcript, byte for byte.
pub fn restored(store: &mut dyn Store, transcript: i64, generation: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    store.read_bytes(transcript, generation, EVERYTHING, &mut bytes).unwrap();
    bytes
}
