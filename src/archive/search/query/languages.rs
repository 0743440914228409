//! Sessions in many languages, each of which is found first by what people would type for it.

use super::tests::{found, index_of};

const CASES: &str = include_str!("../../../../fixtures/search/languages.json");

#[derive(serde::Deserialize)]
struct Cases {
    sessions: Vec<CaseSession>,
    queries: Vec<CaseQuery>,
}

#[derive(serde::Deserialize)]
struct CaseSession {
    id: String,
    prompt: String,
    answer: String,
}

#[derive(serde::Deserialize)]
struct CaseQuery {
    session: String,
    query: String,
}

#[test]
fn each_query_finds_its_session_first() {
    let cases: Cases = serde_json::from_str(CASES).expect("cases");
    let texts: Vec<String> = cases.sessions.iter().map(|session| format!("{}\n\n{}", session.prompt, session.answer)).collect();
    let (_folder, mut index) = index_of(&texts);
    let mut missed = Vec::new();
    for CaseQuery { session, query } in &cases.queries {
        let found = found(&mut index, query, &[]);
        let first = found.first().map(|(entry, _)| &cases.sessions[*entry as usize - 1].id);
        // A second one with the same score would be as good as the first.
        let is_alone = found.get(1).is_none_or(|(_, score)| *score < found[0].1);
        if first != Some(session) || !is_alone {
            missed.push(format!("{query} finds {first:?}, not {session}"));
        }
    }
    assert!(missed.is_empty(), "{missed:#?}");
}

#[test]
fn words_that_say_nothing_are_left_out() {
    for (query, expected) in [
        ("Warum fehlt die Datei?", "fehlt datei"),
        ("pourquoi le cache", "cach"),
        ("¿Por qué falla el servidor?", "falla servidor"),
        ("почему не работает сервер", "работа сервер"),
        ("die Schnittstelle", "schnittstell"),
        ("does the program die", "program die"),
    ] {
        let tokenizer = super::Tokenizer::default();
        let terms = super::QueryTerms::of(query, &tokenizer);
        // Those in English are words of their own for what is not indexed as a word.
        let own = terms.words.iter().filter(|word| !terms.english.iter().any(|english| tokenizer.stem(english) == **word));
        assert_eq!(own.cloned().collect::<Vec<_>>().join(" "), expected, "{query}");
    }
}
