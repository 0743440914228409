//! Any bytes as a transcript, in any pieces and with any interruptions: the same turns as in one piece, one behind the other.
#![no_main]

use ctxbridge::transcript::{Interpreter, Turn, summary, text_of};
use libfuzzer_sys::fuzz_target;

/// Of each turn the last that was told counts.
fn take(turns: &mut Vec<Turn>, interpreter: &mut Interpreter) {
    for turn in interpreter.take_turns() {
        assert!(turn.index as usize <= turns.len());
        turns.truncate(turn.index as usize);
        turns.push(turn);
    }
}

fuzz_target!(|input: (bool, Vec<(u16, bool)>, &[u8])| {
    let (is_agent, pieces, bytes) = input;
    let new = || if is_agent { Interpreter::of_agent() } else { Interpreter::default() };
    let (mut whole, mut turns) = (new(), Vec::new());
    whole.feed(bytes);
    take(&mut turns, &mut whole);

    let mut end = 0;
    for turn in &turns {
        assert!(end <= turn.start && turn.start < turn.end && turn.end <= bytes.len() as u64);
        end = turn.end;
        let own = &bytes[turn.start as usize..turn.end as usize];
        assert!(text_of(own).chars().count() as u64 <= turn.content_chars);
        assert!(summary::of_turn(turn, own).chars().count() <= summary::MAX_CHARS);
    }
    assert!(!is_agent || turns.len() <= 1);
    assert_eq!(whole.position() + whole.waiting() as u64, bytes.len() as u64);

    let (mut interpreter, mut in_pieces, mut from) = (new(), Vec::new(), 0);
    for (length, is_restarted) in pieces {
        let to = (from + usize::from(length)).min(bytes.len());
        interpreter.feed(&bytes[from..to]);
        from = to;
        take(&mut in_pieces, &mut interpreter);
        if is_restarted {
            let written = serde_json::to_vec(&interpreter.at_rest()).expect("it can be written");
            interpreter = serde_json::from_slice(&written).expect("what was written can be read");
            from = interpreter.position() as usize;
        }
    }
    interpreter.feed(&bytes[from..]);
    take(&mut in_pieces, &mut interpreter);
    assert_eq!(in_pieces, turns);
    assert_eq!(interpreter.session_metadata(), whole.session_metadata());
    assert_eq!(interpreter.context_tokens(), whole.context_tokens());
});
