//! Any bytes as a transcript, in any pieces and with any interruptions: the same turns and branches as in one piece.
#![no_main]

use std::collections::BTreeMap;
use std::ops::Range;

use ctxbridge::transcript::{History, Interpreter, Turn, TurnSpan, WholeFile, summary, text_of};
use libfuzzer_sys::fuzz_target;

/// Turns by index; the last that was told counts.
type Turns = BTreeMap<u32, Turn>;

/// The file, and the turns that an archive has of it.
struct Past<'a>(&'a [u8], &'a Turns);

impl History for Past<'_> {
    fn bytes(&mut self, range: Range<u64>) -> Vec<u8> {
        WholeFile(self.0).bytes(range)
    }
    fn turns_behind(&mut self, byte: u64) -> Vec<TurnSpan> {
        let span = |turn: &Turn| TurnSpan { index: turn.index, start: turn.start, end: turn.end };
        self.1.values().filter(|turn| turn.end > byte).map(span).collect()
    }
}

fn take(turns: &mut Turns, interpreter: &mut Interpreter) {
    turns.extend(interpreter.take_turns().into_iter().map(|turn| (turn.index, turn)));
}

fuzz_target!(|input: (bool, Vec<(u16, bool)>, &[u8])| {
    let (is_agent, pieces, bytes) = input;
    let new = || if is_agent { Interpreter::of_agent() } else { Interpreter::default() };
    let (mut whole, mut turns) = (new(), Turns::new());
    whole.feed_with(bytes, &mut WholeFile(bytes));
    take(&mut turns, &mut whole);

    let mut in_order: Vec<&Turn> = turns.values().collect();
    in_order.sort_by_key(|turn| turn.start);
    let mut end = 0;
    for turn in in_order {
        assert!(end <= turn.start && turn.start < turn.end && turn.end <= bytes.len() as u64);
        end = turn.end;
        let own = &bytes[turn.start as usize..turn.end as usize];
        assert!(text_of(own).chars().count() as u64 <= turn.content_chars);
        assert!(summary::of_turn(turn, own).chars().count() <= summary::MAX_CHARS);
    }
    assert!(!is_agent || turns.len() <= 1);
    assert_eq!(whole.position() + whole.waiting() as u64, bytes.len() as u64);
    let rewound = whole.rewound();
    assert!(rewound.iter().all(|(from, to)| from < to) && rewound.is_sorted_by(|one, next| one.1 <= next.0));

    let (mut interpreter, mut in_pieces, mut from) = (new(), Turns::new(), 0);
    for (length, is_restarted) in pieces {
        let to = (from + usize::from(length)).min(bytes.len());
        interpreter.feed_with(&bytes[from..to], &mut Past(bytes, &in_pieces));
        from = to;
        take(&mut in_pieces, &mut interpreter);
        if is_restarted {
            let written = serde_json::to_vec(&interpreter.at_rest()).expect("it can be written");
            interpreter = serde_json::from_slice(&written).expect("what was written can be read");
            from = interpreter.position() as usize;
        }
    }
    interpreter.feed_with(&bytes[from..], &mut Past(bytes, &in_pieces));
    take(&mut in_pieces, &mut interpreter);
    assert_eq!(in_pieces, turns);
    assert_eq!(interpreter.rewound(), whole.rewound());
    assert_eq!(interpreter.session_metadata(), whole.session_metadata());
    assert_eq!(interpreter.context_tokens(), whole.context_tokens());
});
