//! How an archive is opened, and what is refused.

use ctxbridge::archive::store::{AppendOutcome, Batch, Cursor};
use ctxbridge::transcript::Interpreter;

use super::kinds::Kind;
use super::lines::{says, user};
use super::{Place, transcript, turns};

on_every_store!(a_batch_that_follows_something_else_changes_nothing);

fn a_batch_that_follows_something_else_changes_nothing(kind: Kind) {
    let place = Place::new(kind);
    let mut store = place.open();
    place.archive(&mut *store, "s", &[user(1, "One."), says(2, "Yes.")]);
    let path = place.path("s.jsonl");
    let before = turns(&mut *store, "s");
    let bytes = store.cursor(&path.to_string_lossy()).unwrap().unwrap().bytes;
    for follows in [None, Some((0, bytes - 1)), Some((0, bytes + 1)), Some((1, bytes))] {
        let cursor = Cursor { generation: 7, bytes: 1, check: [0; 32], interpreter: Interpreter::default() };
        let batch = Batch {
            transcript: transcript(&path, "s"),
            expected_cursor: follows,
            rewritten: None,
            segments: Vec::new(),
            turns: Vec::new(),
            summaries: Vec::new(),
            first_contexts: Vec::new(),
            path_changes: Vec::new(),
            cursor,
        };
        assert_eq!(store.append(&batch).unwrap(), AppendOutcome::Conflict, "{follows:?}");
    }
    assert_eq!(turns(&mut *store, "s"), before);
    assert_eq!(store.cursor(&path.to_string_lossy()).unwrap().unwrap().bytes, bytes);
}
