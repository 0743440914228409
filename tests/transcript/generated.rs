//! Sessions of every kind that the test kit makes, whose counts are known.

use std::fs;

use ctxbridge::common::digest::{self, Hasher};
use ctxbridge::transcript::{Interpreter, Turn};
use ctxbridge_testkit::transcript::{Kind, MadeSession, Spec, generate};

use super::{Found, read, read_with};

fn sha256(text: &str) -> digest::Sha256Digest {
    let mut hasher = Hasher::default();
    hasher.update(text.as_bytes());
    hasher.finish_bytes()
}

/// One behind the other, numbered from 0, none of them empty, and within the file.
pub fn are_sane(turns: &[Turn], length: u64) -> bool {
    let numbered = (0..).zip(turns).all(|(index, turn)| turn.index == index);
    let ordered = turns.windows(2).all(|pair| pair[0].end <= pair[1].start);
    numbered && ordered && turns.iter().all(|turn| turn.start < turn.end && turn.end <= length)
}

fn check(session: &MadeSession) {
    let bytes = fs::read(&session.path).unwrap();
    let Found { turns, seen, words, summaries } = read(&bytes);
    assert_eq!(turns.len() as u64, session.human_turns);
    assert!(are_sane(&turns, bytes.len() as u64));
    assert_eq!(turns.last().map_or(0, |turn| turn.end), bytes.len() as u64);
    assert_eq!(summaries.len() as u64, session.compactions);
    assert_eq!((seen.lines, seen.bad_lines), (session.lines, 0));
    assert_eq!(seen.session.as_deref(), Some(session.id.as_str()));
    for (turn, words) in turns.iter().zip(&words) {
        // What is read back from the bytes is what was hashed while they came in, to the white space at the end.
        assert_eq!(turn.content_sha256, sha256(&format!("{words}\n\n")), "turn {}: {words}", turn.index);
        assert_eq!(turn.content_chars, words.chars().count() as u64 + 2);
        assert!(words.starts_with("Human: "), "{words}");
    }
    assert_eq!(turns.iter().map(|turn| turn.agents.len() as u64).sum::<u64>(), session.agents);
    let folder = session.path.with_extension("").join("subagents");
    for file in fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path()) {
        if file.extension().is_some_and(|extension| extension == "jsonl") {
            let bytes = fs::read(&file).unwrap();
            let found = read_with(Interpreter::of_agent(), &bytes);
            assert_eq!((found.turns.len(), found.turns[0].start, found.turns[0].end), (1, 0, bytes.len() as u64));
        }
    }
}

#[test]
fn turns_are_those_that_were_made() {
    for kind in Kind::ALL {
        for seed in 1..4 {
            let out = tempfile::tempdir().unwrap();
            let made = generate(&Spec::new(kind, 400, seed), out.path()).unwrap();
            made.sessions.iter().for_each(check);
        }
    }
}

#[test]
fn output_is_counted_once_for_each_answer() {
    let out = tempfile::tempdir().unwrap();
    let made = generate(&Spec::new(Kind::Compacted, 900, 5), out.path()).unwrap();
    let bytes = fs::read(&made.sessions[0].path).unwrap();
    let counted: u64 = read(&bytes).turns.iter().map(|turn| turn.output_tokens).sum();
    let mut answers = std::collections::HashMap::new();
    for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let line: serde_json::Value = serde_json::from_slice(line).unwrap();
        if line["type"] == "assistant" {
            answers.insert(line["message"]["id"].to_string(), line["message"]["usage"]["output_tokens"].as_u64().unwrap());
        }
    }
    assert_eq!(answers.len() as u64, made.sessions[0].answers);
    assert_eq!(counted, answers.values().sum::<u64>());
}

#[test]
fn a_resumed_session_repeats_the_content_of_the_first() {
    let out = tempfile::tempdir().unwrap();
    let made = generate(&Spec::new(Kind::Resumed, 300, 9), out.path()).unwrap();
    let [first, second] = [0, 1].map(|at| read(&fs::read(&made.sessions[at].path).unwrap()).turns);
    let copied = made.sessions[1].copied_turns as usize;
    let hashes = |turns: &[Turn]| turns.iter().map(|turn| turn.content_sha256).collect::<Vec<_>>();
    assert_eq!(hashes(&first), hashes(&second[..copied]));
}
