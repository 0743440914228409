//! Transcripts: which lines make a turn and what is known of it, in the shapes that releases write and in those that none should.

mod branches;
pub(crate) mod changes;
mod damage;
mod generated;
pub(crate) mod lines;
mod pieces;
mod shapes;
mod summaries;
mod work;

use ctxbridge::transcript::{Interpreter, SearchableText, SessionMetadata, Turn, TurnDigest, summary, text_of};
use lines::text;
use serde_json::Value;

/// What is found in a file.
struct Found {
    turns: Vec<Turn>,
    seen: SessionMetadata,
    /// The content of each turn, read back from its bytes.
    words: Vec<String>,
    /// The texts of compactions, and the turns before them.
    summaries: Vec<(String, u32)>,
}

/// Reads a file in one piece.
fn read(bytes: &[u8]) -> Found {
    read_with(Interpreter::default(), bytes)
}

fn read_with(mut interpreter: Interpreter, bytes: &[u8]) -> Found {
    interpreter.feed(bytes);
    let turns = interpreter.take_turns();
    let words = turns.iter().map(|turn| {
        let bytes = &bytes[turn.start as usize..turn.end as usize];
        let text = text_of(bytes);
        // Read at once or one by one, it is the same.
        for is_agent in [false, true] {
            let told = TurnDigest {
                fields: SearchableText::of(bytes, is_agent),
                text: text.clone(),
                summary: summary::of_turn(turn, bytes),
            };
            assert_eq!(TurnDigest::of(turn, bytes, is_agent), told);
        }
        text
    });
    let words = words.collect();
    let summaries = interpreter.take_summaries().into_iter().map(|summary| (summary.text, summary.turns)).collect();
    Found { turns, seen: interpreter.session_metadata().clone(), words, summaries }
}

/// The turns of these lines.
fn turns(lines: &[Value]) -> Vec<Turn> {
    read(text(lines).as_bytes()).turns
}

/// What they say.
fn words(lines: &[Value]) -> Vec<String> {
    read(text(lines).as_bytes()).words
}
