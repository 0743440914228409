//! Holds for any text, also for one that somebody wrote to do harm: redaction is done once, and leaves JSON what it is.

use ctxbridge_redact::Redactor;
use proptest::prelude::*;
use serde_json::Value;

fn redact(text: &str) -> String {
    Redactor::standard().redact(text).text.into_owned()
}

/// Pieces of texts with secrets, cut anywhere, in any order.
fn text() -> impl Strategy<Value = String> {
    let plain = include_str!("secrets.txt").replace(['«', '»'], "");
    let texts: Vec<String> = plain.split("\n---\n").filter_map(|case| Some(case.split_once('\n')?.1.to_owned())).collect();
    let cut =
        (prop::sample::select(texts), any::<prop::sample::Index>(), any::<prop::sample::Index>()).prop_map(|(text, from, to)| {
            let places: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
            let (from, to) = (places[from.index(places.len())], places[to.index(places.len())]);
            text[from.min(to)..from.max(to)].to_owned()
        });
    let signs = prop::sample::select(vec![
        "\"",
        "'",
        "`",
        "\\",
        "\\\"",
        "\n",
        "\\n",
        " ",
        "=",
        ":",
        "：",
        "|",
        "{",
        "}",
        "(",
        ")",
        ",",
        "<",
        ">",
        "&",
        "+",
        "\" + \"",
        "\u{1b}[1m",
        "\\u0041",
        "ü",
        "密",
        "[redacted:",
        "]",
    ]);
    let piece = prop_oneof![3 => cut, 2 => signs.prop_map(str::to_owned), 1 => any::<char>().prop_map(String::from)];
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![4 => text().prop_map(Value::from), 1 => any::<i64>().prop_map(Value::from)];
    // Keys stay in values, but not in lines.
    let key = prop::sample::select(vec!["password", "value", "default", "Authorization", "a", "name"]).prop_map(str::to_owned);
    leaf.prop_recursive(3, 12, 3, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map(key.clone(), inner, 0..3).prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn twice_is_once(text in text()) {
        let once = redact(&text);
        prop_assert_eq!(redact(&once), once);
    }

    #[test]
    fn json_stays_json(value in value(), pretty in any::<bool>()) {
        let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) }.unwrap();
        let redacted = redact(&text);
        prop_assert!(serde_json::from_str::<Value>(&redacted).is_ok(), "{}\n{}", text, redacted);
        let nested = Value::from(text).to_string();
        let redacted = redact(&nested);
        prop_assert!(serde_json::from_str::<Value>(&redacted).is_ok(), "{}\n{}", nested, redacted);
    }

    #[test]
    fn a_line_is_redacted_as_its_value_is(value in value()) {
        let line = serde_json::json!({ "type": "x", "toolUseResult": value });
        let text = line.to_string();
        let (redacted, _) = Redactor::standard().redact_line(text.as_bytes());
        let mut expected = line;
        Redactor::standard().redact_json(&mut expected);
        prop_assert_eq!(serde_json::from_slice::<Value>(&redacted).unwrap(), expected);
    }
}

/// Found by chance once: the quote that ends an empty value was taken for one that begins it.
#[test]
fn an_empty_value_is_followed_by_json() {
    for text in
        [r#"[{"Authorization":""},-112]"#, r#"{"Authorization":"","a":[1,2,30000000]}"#, r#"[{"Authorization": ""}, 12345678]"#]
    {
        assert_eq!(redact(text), text);
    }
}

/// A sequence for the terminal that is cut off ends in the middle of the next escape.
#[test]
fn an_escape_stays_whole() {
    let text = r#"{"value":"\u001b[1;33mpassword\u001b[0m=\u001b[\u0000"}"#;
    assert!(serde_json::from_str::<Value>(&redact(text)).is_ok(), "{}", redact(text));
}
