//! The turns of a file that is read once, from its begin.

use std::collections::BTreeMap;

use ctxbridge_transcript::{Interpreter, Turn, WholeFile};

/// Returns the turns of the conversation, in order; those that were rewound are none.
pub fn conversation(bytes: &[u8]) -> Vec<Turn> {
    turns_of(Interpreter::default(), bytes)
}

/// Returns the turns of a sub-agent's transcript, in order.
pub fn agent_turns(bytes: &[u8]) -> Vec<Turn> {
    turns_of(Interpreter::of_agent(), bytes)
}

fn turns_of(mut interpreter: Interpreter, bytes: &[u8]) -> Vec<Turn> {
    interpreter.feed_with(bytes, &mut WholeFile(bytes));
    let mut interpreter = interpreter.at_end(&mut WholeFile(bytes)).unwrap_or(interpreter);
    // A turn that was told again has changed.
    let turns: BTreeMap<u32, Turn> = interpreter.take_turns().into_iter().map(|turn| (turn.index, turn)).collect();
    let is_rewound = |turn: &Turn| interpreter.rewound().iter().any(|(from, to)| (*from..*to).contains(&turn.start));
    let mut turns: Vec<Turn> = turns.into_values().filter(|turn| !is_rewound(turn)).collect();
    turns.sort_by_key(|turn| turn.start);
    turns
}
