//! What has to hold of an archive at any time.

use ctxbridge::archive::store::sqlite::SqliteStore;
use ctxbridge::archive::store::{EVERYTHING, Store, StoredTurn, Turns};
use ctxbridge::archive::words;
use ctxbridge::digest::Hasher;
use ctxbridge::transcript::{Interpreter, Turn};

use super::{Place, number};

/// The turns of a file that is read once, from its begin.
pub fn fresh(bytes: &[u8], is_agent: bool) -> Vec<Turn> {
    let mut interpreter = if is_agent { Interpreter::of_agent() } else { Interpreter::default() };
    interpreter.feed(bytes);
    interpreter.take_turns()
}

/// That the database refers to nothing that is not there, and has nothing that is not referred to.
pub fn check_references(place: &Place) {
    for (what, sql) in [
        ("a segment that nothing uses", "SELECT count(*) FROM segments WHERE id NOT IN (SELECT segment FROM layout)"),
        (
            "an entry that nothing uses",
            "SELECT count(*) FROM entries WHERE id NOT IN (SELECT entry FROM turns)
             AND id NOT IN (SELECT summary FROM compactions WHERE summary IS NOT NULL)",
        ),
        ("a broken reference", "SELECT count(*) FROM pragma_foreign_key_check"),
        (
            "a gap between segments",
            "SELECT count(*) FROM layout JOIN segments ON segments.id = segment WHERE start > 0 AND NOT EXISTS
                (SELECT 1 FROM layout AS before JOIN segments AS piece ON piece.id = before.segment
                 WHERE before.transcript = layout.transcript AND before.generation = layout.generation
                 AND before.start + piece.bytes = layout.start)",
        ),
    ] {
        assert_eq!(number::<u32>(place, sql), 0, "{what}");
    }
}

/// That each turn, also one of an old generation, is the one that its bytes tell.
pub fn check_contents(store: &mut SqliteStore, key: i64) {
    for which in [Turns::All, Turns::Superseded, Turns::Agents] {
        for turn in store.turns(key, which).unwrap() {
            assert_eq!(content_hash(store, &turn), turn.turn.content_sha256, "{which:?} {turn:?}");
        }
    }
}

fn content_hash(store: &mut SqliteStore, turn: &StoredTurn) -> [u8; 32] {
    let words = words::content(store, turn).unwrap();
    let mut hasher = Hasher::default();
    if !words.is_empty() {
        hasher.update(words.as_bytes());
        hasher.update(b"\n\n");
    }
    hasher.finish_bytes()
}

/// A generation of a transcript, byte for byte.
pub fn restored(store: &mut SqliteStore, transcript: i64, generation: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    store.raw(transcript, generation, EVERYTHING, &mut bytes).unwrap();
    bytes
}
