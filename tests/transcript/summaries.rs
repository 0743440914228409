//! What a turn was about, in a line.

use ctxbridge::transcript::summary::{MAX_CHARS, below, of_compaction, of_turn};
use ctxbridge::transcript::{Interpreter, text_of};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::lines::{calls, of_agent, result, says, text, user, with, words as said};
use super::{read, read_with};

fn summaries(lines: &[Value]) -> Vec<String> {
    let bytes = text(lines);
    let found = read(bytes.as_bytes());
    found.turns.iter().map(|turn| of_turn(turn, &bytes.as_bytes()[turn.start as usize..turn.end as usize])).collect()
}

#[test]
fn prompt_tools_files_answer() {
    let lines = [
        user(1, "\n\nFix the parser.\nIt fails on `a`."),
        says(2, "I'll look at it."),
        calls(3, "Read", json!({ "file_path": "/work/p/src/a.rs" })),
        result(4, "text"),
        calls(5, "NotebookEdit", json!({ "notebook_path": "/etc/n.ipynb" })),
        says(6, "Fixed.\n\nIt was the lexer.\nAll tests pass."),
        user(7, json!([said("<system-reminder>Mind the date.</system-reminder>"), said("Now the docs.")])),
    ];
    assert_eq!(
        summaries(&lines),
        [
            "Fix the parser. | Tools: Read, NotebookEdit | Files: src/a.rs, /etc/n.ipynb | Fixed. It was the lexer.",
            "Now the docs.",
        ]
    );
}

#[test]
fn the_words_of_others_are_not_the_answer() {
    let lines = [
        user(1, "Ask."),
        says(2, "Asked."),
        of_agent(says(3, "I am an agent.")),
        with(user(4, "Caveat."), json!({ "isMeta": true })),
        user(5, "<local-command-stdout>out</local-command-stdout>"),
    ];
    assert_eq!(summaries(&lines), ["Ask. | Asked."]);
    let own = text(&[of_agent(user(1, "Find x.\nNow.")), of_agent(says(2, "Here."))]);
    let turn = read_with(Interpreter::of_agent(), own.as_bytes()).turns.remove(0);
    assert_eq!(of_turn(&turn, own.as_bytes()), "Find x. | Here.");
}

#[test]
fn cut_at_300_characters() {
    let long = "Größe🦀 ".repeat(200);
    let summary = summaries(&[user(1, long.as_str()), says(2, "x")]).remove(0);
    assert_eq!((summary.chars().count(), MAX_CHARS), (300, 300));
    assert!(long.starts_with(&summary));
    assert_eq!(summaries(&[user(1, "a".repeat(299)), says(2, "🦀🦀")])[0], "a".repeat(299) + " ");
}

#[test]
fn files_below_the_folder_and_beside_it() {
    assert_eq!(below("/work/p/a.rs", Some("/work/p")), "a.rs");
    assert_eq!(below("/work/parser/a.rs", Some("/work/p")), "/work/parser/a.rs");
    assert_eq!(below(r"C:\p\a.rs", Some(r"C:\p")), "a.rs");
    assert_eq!(below("/work/p", Some("/work/p")), "/work/p");
}

#[test]
fn compactions_lose_their_wrapping() {
    assert_eq!(of_compaction("<analysis>a</analysis>\n<summary>\nS.\n</summary>\n"), "S.");
    assert_eq!(of_compaction("plain"), "plain");
}

#[test]
fn damaged_bytes_have_a_text_as_well() {
    let mut bytes = text(&[user(1, "Go."), says(2, "Gone.")]).into_bytes();
    bytes.extend_from_slice(b"{\"type\":\"user\",\"mess\n\xff\xfe\n[]\n");
    assert_eq!(text_of(&bytes), "Human: Go.\n\nAssistant: Gone.");
    assert_eq!(text_of(b""), "");
}

proptest! {
    #[test]
    fn never_longer_never_more_than_a_line(prompt in "\\PC{0,400}|(.|\n){0,400}", answer in "(.|\n){0,400}", file in ".{0,90}") {
        let lines = [user(1, prompt), calls(2, "Read", json!({ "file_path": file })), says(3, &answer)];
        for summary in summaries(&lines) {
            prop_assert!(summary.chars().count() <= MAX_CHARS, "{summary}");
        }
    }
}
