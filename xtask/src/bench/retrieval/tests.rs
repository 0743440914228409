//! A dataset with obvious answers, from its file to the table.
#![allow(clippy::unwrap_used)]

use ctxbridge::vectors::embed::{EmbedError, Embedder};
use serde_json::{Value, json};

use super::*;

fn tiny() -> Value {
    let turn = |id: &str, at: &str, prompt: &str, answer: &str| json!({ "id": id, "at": at, "prompt": prompt, "answer": answer });
    let step =
        json!({ "tool": "Bash", "input": { "command": "make" }, "output": "ld: undefined symbol frobnicate", "is_error": true });
    let mut linker = turn("a-2", "2026-03-02T09:20:00Z", "it does not link", "The library was missing.");
    linker["steps"] = json!([step]);
    let question = |id: &str, question: &str, evidence: &str| {
        let (asked, evidence) = ("2026-03-09T10:00:00Z", [evidence]);
        json!({ "id": id, "kind": "error", "question": question, "asked_at": asked, "evidence": evidence })
    };
    let mut there = question("q3", "parrot", "b-1");
    there["project"] = "/home/dev/two".into();
    json!({
        "name": "tiny",
        "sessions": [
            { "id": "a", "project": "/home/dev/one", "turns": [
                turn("a-1", "2026-03-02T09:14:00Z", "draw a parrot", "Here it is."),
                linker,
                turn("a-3", "2026-03-02T09:30:00Z", "yes", ""),
            ]},
            { "id": "b", "project": "/home/dev/two", "turns": [
                turn("b-1", "2026-03-04T09:14:00Z", "feed the parrot", "It has eaten."),
                turn("b-2", "2026-03-12T09:14:00Z", "undefined symbol frobnicate, again", "Too late for all questions."),
            ]},
        ],
        "questions": [
            question("q1", "undefined symbol frobnicate", "a-2"),
            question("q2", "who has eaten?", "b-1"),
            there,
        ],
    })
}

fn read(value: &Value) -> Result<Dataset> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tiny.json");
    fs::write(&path, value.to_string()).unwrap();
    Dataset::read(&path)
}

/// Knows two things: parrots and all else.
struct Parrots;

impl Embedder for Parrots {
    fn id(&self) -> &'static str {
        "parrots"
    }
    fn dimensions(&self) -> usize {
        2
    }
    fn embed(&mut self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        Ok(texts.iter().map(|text| if text.contains("parrot") { vec![1.0, 0.0] } else { vec![0.0, 1.0] }).collect())
    }
}

#[test]
fn what_has_the_words_is_first() {
    let dataset = read(&tiny()).unwrap();
    for row in rows(&dataset, &mut Corpus::new(&dataset).unwrap(), None, &[]).unwrap() {
        assert_eq!(row.ranks, [[Some(1)], [Some(1)], [Some(1)]], "{}", row.name);
    }
}

#[test]
fn vectors_are_compared() {
    let dataset = read(&tiny()).unwrap();
    let remembering = Remembering::new(Box::new(Parrots), None).unwrap();
    let mut embedder = EmbeddingModel::from(Box::new(remembering) as Box<_>);
    let mut corpus = Corpus::new(&dataset).unwrap();
    let rows = rows(&dataset, &mut corpus, Some(&mut embedder), &["dense, no stage".to_owned(), "hybrid, all stages".to_owned()])
        .unwrap();
    let names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
    assert_eq!(names, [BASELINE, EXACT, "dense, no stage", "hybrid, all stages", "hybrid, all stages, asked in the project"]);
    for row in rows {
        assert_eq!(row.ranks[2], [Some(1)], "{}: the other parrot is in another project", row.name);
    }
}

#[test]
fn questions_of_a_project() {
    let mut dataset = read(&tiny()).unwrap();
    dataset.keep_questions_on(&["one".to_owned()]).unwrap();
    assert_eq!(dataset.questions.iter().map(|question| question.id.as_str()).collect::<Vec<_>>(), ["q1"]);
    assert_eq!(dataset.sessions.len(), 2);
    assert!(dataset.keep_questions_on(&["on".to_owned()]).unwrap_err().to_string().contains("no question of tiny is on on"));
}

#[test]
fn what_makes_no_sense_is_refused() {
    let change = |pointer: &str, value: Value| {
        let mut dataset = tiny();
        *dataset.pointer_mut(pointer).unwrap() = value;
        format!("{:#}", read(&dataset).unwrap_err())
    };
    for (pointer, value, complaint) in [
        ("/questions/0/evidence/0", json!("a-9"), "question q1: there is no turn a-9"),
        ("/questions/0/evidence", json!([]), "question q1 has no evidence"),
        ("/questions/0/evidence", json!(["b-2"]), "question q1 is asked before turn b-2, which answers it"),
        ("/questions/0/id", json!("q2"), "question q2 is there twice"),
        ("/questions/0", json!({ "question": "?" }), "fixtures/retrieval/README.md has the format"),
        ("/sessions/0/turns/0/at", json!("2026-03-03T09:14:00Z"), "the turns of session a are not in order of time"),
        ("/sessions/0/turns/0/prompt", json!(" "), "turn a-1 has no prompt"),
        ("/sessions/1/turns/0/id", json!("a-1"), "turn a-1 is there twice"),
    ] {
        let said = change(pointer, value);
        assert!(said.contains(complaint), "{said}");
    }
}
