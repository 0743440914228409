//! Secrets by their kind, and innocent texts that only look like they had one.

use std::collections::BTreeMap;

use ctxbridge_redact::Redactor;
use serde_json::{Value, json};

/// Texts with secrets in « », each with its kind on the first line.
const SECRETS: &str = include_str!("secrets.txt");
/// Texts without.
const INNOCENT: &str = include_str!("innocent.txt");

const SEPARATOR: &str = "\n---\n";

fn redact(text: &str) -> String {
    Redactor::standard().redact(text).text.into_owned()
}

/// Each text with a secret: its kind, the text, and its secrets.
fn secrets() -> impl Iterator<Item = (&'static str, String, Vec<&'static str>)> {
    SECRETS.trim_end().split(SEPARATOR).map(|case| {
        let (kind, text) = case.split_once('\n').expect("a kind and a text");
        let secrets: Vec<_> = text.split('«').skip(1).filter_map(|rest| Some(rest.split_once('»')?.0)).collect();
        assert!(!secrets.is_empty(), "{text}");
        (kind, text.replace(['«', '»'], ""), secrets)
    })
}

#[test]
fn secrets_of_every_kind_are_gone() {
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    for (kind, text, secrets) in secrets() {
        *kinds.entry(kind).or_default() += 1;
        let redacted = redact(&text);
        assert!(secrets.iter().all(|secret| !redacted.contains(secret)), "{kind}: {text}\nbecame\n{redacted}");
        assert_eq!(redact(&redacted), redacted, "twice is once");
        assert_eq!(redact(&format!("First.\n\n{text}\n\nLast.")), format!("First.\n\n{redacted}\n\nLast."), "among others");
    }
    assert!(kinds.len() > 12 && kinds.values().all(|count| *count > 1), "{kinds:?}");
}

#[test]
fn secrets_are_gone_from_values_and_lines() {
    for (kind, text, secrets) in secrets() {
        let mut value = json!({ "content": text });
        Redactor::standard().redact_json(&mut value);
        let line = json!({ "type": "user", "message": { "content": [{ "type": "text", "text": text }] } }).to_string();
        let (redacted, _) = Redactor::standard().redact_line(line.as_bytes());
        let of_line: Value = serde_json::from_slice(&redacted).unwrap();
        for text in [&value["content"], &of_line["message"]["content"][0]["text"]] {
            let text = text.as_str().unwrap();
            assert!(secrets.iter().all(|secret| !text.contains(secret)), "{kind}: {text}");
        }
        serde_json::from_str::<Value>(&redact(&line)).unwrap();
    }
}

#[test]
fn innocent_texts_stay() {
    let texts: Vec<_> = INNOCENT.trim_end().split(SEPARATOR).collect();
    assert!(texts.len() > 200);
    for text in &texts {
        assert_eq!(&redact(text), text);
    }
    let all = texts.join("\n\n");
    assert_eq!(redact(&all), all, "nor together");
}

#[test]
fn a_split_token_is_found_with_its_joint() {
    let halves = ["ghp_a8Kd03mXq9ZbL2wR7t", "Yva8Kd03mXq9ZbL2wR"];
    for joint in ["\" + \"", "\" +\n    \""] {
        assert_eq!(redact(&format!("x = \"{}\"", halves.join(joint))), "x = \"[redacted:github-token]\"");
    }
}

#[test]
fn a_mark_that_was_cut_off_hides_nothing() {
    assert_eq!(redact("[redacted:named-sec password=hunter2"), "[redacted:named-sec password=[redacted:named-secret]");
}
