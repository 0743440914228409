//! However the bytes come, and wherever the reading is interrupted, the turns are the same.

use ctxbridge::transcript::{CompactSummary, Interpreter, SessionMetadata};
use proptest::prelude::*;

use super::branches::{Kept, Past};
use super::damage::any_line;

/// What came of it. Of each turn the last that was told counts.
#[derive(Debug, Default, PartialEq)]
struct Outcome {
    kept: Kept,
    rewound: Vec<(u64, u64)>,
    summaries: Vec<CompactSummary>,
    seen: SessionMetadata,
    position: u64,
    waiting: usize,
    context_tokens: u64,
}

impl Outcome {
    fn take(&mut self, interpreter: &mut Interpreter) {
        self.kept.take(interpreter);
        let indexes = self.kept.turns.keys().copied();
        assert!(indexes.eq(0..self.kept.turns.len() as u32), "a turn was left out");
        self.rewound = interpreter.rewound().to_vec();
        self.summaries.extend(interpreter.take_summaries());
        self.seen = interpreter.session_metadata().clone();
        self.position = interpreter.position();
        self.waiting = interpreter.waiting();
        self.context_tokens = interpreter.context_tokens();
    }
}

fn whole(mut interpreter: Interpreter, bytes: &[u8]) -> Outcome {
    let mut outcome = Outcome::default();
    interpreter.feed_with(bytes, &mut Past(bytes, &outcome.kept));
    outcome.take(&mut interpreter);
    outcome
}

/// In pieces that end at these places; where the flag is set, written down and read back there as another process would, which then
/// reads again from the last line that was complete.
fn in_pieces(mut interpreter: Interpreter, bytes: &[u8], cuts: &[(usize, bool)]) -> Outcome {
    let mut outcome = Outcome::default();
    let mut from = 0;
    for &(cut, is_restarted) in cuts.iter().chain(&[(bytes.len(), false)]) {
        interpreter.feed_with(&bytes[from..cut], &mut Past(bytes, &outcome.kept));
        from = cut;
        outcome.take(&mut interpreter);
        if is_restarted {
            let written = serde_json::to_string(&interpreter.at_rest()).unwrap();
            interpreter = serde_json::from_str(&written).unwrap();
            assert_eq!(interpreter.waiting(), 0);
            from = interpreter.position() as usize;
        }
    }
    outcome.take(&mut interpreter);
    outcome
}

proptest! {
    #[test]
    fn pieces_make_no_difference(
        lines in proptest::collection::vec(any_line(), 0..30),
        cuts in proptest::collection::vec((any::<proptest::sample::Index>(), any::<bool>()), 0..12),
        is_agent: bool,
    ) {
        let bytes = lines.concat();
        let mut cuts: Vec<_> = cuts.into_iter().map(|(at, restart)| (at.index(bytes.len() + 1), restart)).collect();
        cuts.sort_unstable();
        let new = || if is_agent { Interpreter::of_agent() } else { Interpreter::default() };
        prop_assert_eq!(in_pieces(new(), &bytes, &cuts), whole(new(), &bytes));
    }
}

#[test]
fn every_byte_on_its_own() {
    use super::lines::{boundary, calls, compact_summary, says, text, user};
    let lines = [
        user(1, "Grüße 🦀"),
        calls(2, "TaskCreate", serde_json::json!({ "subject": "A" })),
        says(3, "x"),
        boundary(4),
        compact_summary(5, "S"),
        user(6, "On."),
    ];
    let bytes = text(&lines);
    let bytes = bytes.trim_end().as_bytes();
    let cuts: Vec<_> = (0..bytes.len()).map(|at| (at, at % 3 == 0)).collect();
    assert_eq!(in_pieces(Interpreter::default(), bytes, &cuts), whole(Interpreter::default(), bytes));
}
