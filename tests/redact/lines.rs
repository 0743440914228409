//! Lines of transcripts: secrets go, wherever they are, and every other byte stays.

use std::borrow::Cow;

use ctxbridge::config;
use ctxbridge::redact::{RedactionPatterns, Redactor};
use ctxbridge::transcript::{Interpreter, Record};
use ctxbridge_testkit::transcript::{Kind, Spec, generate};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{ALNUM, fake, key, tokens};

fn line(text: &str) -> String {
    let (redacted, found) = Redactor::standard().redact_line(text.as_bytes());
    assert_eq!(matches!(redacted, Cow::Borrowed(_)), found.is_empty(), "{text}");
    String::from_utf8(redacted.into_owned()).unwrap()
}

fn with_patterns(extra: &[&str], allow: &[&str]) -> Redactor {
    let list = |patterns: &[&str]| patterns.iter().map(|pattern| (*pattern).to_owned()).collect::<Vec<_>>();
    Redactor::new(&RedactionPatterns { extra: &list(extra), allow: &list(allow) }).unwrap()
}

/// A line with something in each place that has words; `x` stands for it.
fn places() -> Vec<Value> {
    let line = |message: Value| {
        json!({
            "parentUuid": null, "isSidechain": false, "type": "user", "message": message, "sessionId": "5e551040", "timestamp": "2026-01-01T00:00:00Z",
            "uuid": "0a1b2c3d-0000-4000-8000-000000000000",
        })
    };
    let blocks = |block: Value| {
        line(json!({ "role": "assistant", "id": "msg_01", "content": [{ "type": "text", "text": "before" }, block] }))
    };
    let mut places = vec![
        line(json!({ "role": "user", "content": "x" })),
        blocks(json!({ "type": "text", "text": "first\nsee x there\n" })),
        blocks(json!({ "type": "thinking", "thinking": "x", "signature": "c2ln" })),
        blocks(
            json!({ "type": "tool_use", "id": "toolu_1", "name": "Bash", "input": { "command": "run x now", "n": [1, { "deep": ["x"] }] } }),
        ),
        blocks(
            json!({ "type": "tool_use", "id": "toolu_1", "name": "X", "input": { "x": 1, "a key with x in it": { "uuid": "x", "id": "x" } } }),
        ),
        blocks(json!({ "type": "tool_result", "tool_use_id": "toolu_1", "content": "x" })),
        blocks(json!({ "type": "tool_result", "tool_use_id": "toolu_1", "content": [{ "type": "text", "text": "(x)" }] })),
        blocks(json!({ "type": "document", "source": { "type": "text", "media_type": "text/plain", "data": "Here: x" } })),
    ];
    let mut result = line(json!({ "role": "user", "content": [] }));
    result["toolUseResult"] = json!({ "stdout": "x\n", "file": { "content": "1\tx" }, "agentId": "a1", "lines": ["x", ["x"]] });
    places.push(result);
    places.push(json!({ "type": "system", "subtype": "informational", "content": "x" }));
    places.push(
        json!({ "type": "attachment", "attachment": { "type": "queued_command", "prompt": [{ "type": "text", "text": "x" }] } }),
    );
    places.push(json!({ "type": "last-prompt", "lastPrompt": "x", "sessionId": "5e551040" }));
    places
}

#[test]
fn secrets_are_gone_wherever_they_are() {
    let mut secrets = tokens();
    for newline in ["\n", "\r\n"] {
        secrets.push(("private-key", key("OPENSSH PRIVATE KEY", newline)));
    }
    for (rule, secret) in secrets {
        // Of a key, its begin and its end say what was there.
        let left = Redactor::standard().redact(&secret).text.into_owned();
        for place in places() {
            for spaced in [false, true] {
                let text = if spaced { serde_json::to_string_pretty(&place) } else { serde_json::to_string(&place) }.unwrap();
                let spelled = serde_json::to_string(&secret).unwrap();
                let with = |what: &str| whole_words(&text, what);
                let planted = with(&spelled[1..spelled.len() - 1]);
                let redacted = line(&planted);
                assert_eq!(redacted, with(&left), "{rule} in {planted}");
                if rule != "private-key" {
                    assert_eq!(left, format!("[redacted:{rule}]"));
                    // The same with its first character escaped.
                    let escaped = format!("\\u{:04x}{}", secret.as_bytes()[0], &spelled[2..spelled.len() - 1]);
                    assert_eq!(line(&with(&escaped)), redacted, "{rule}");
                }
            }
        }
    }
}

/// Puts something where `x` stands alone.
fn whole_words(text: &str, what: &str) -> String {
    let mut whole = String::new();
    let bytes = text.as_bytes();
    for (at, character) in text.char_indices() {
        let is_part = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
        // Behind a backslash, a letter is that of an escape.
        let is_escape = at >= 2 && bytes[at - 2] == b'\\';
        let is_alone = (is_escape || !is_part(bytes.get(at.wrapping_sub(1)))) && !is_part(bytes.get(at + 1));
        if character == 'x' && is_alone { whole.push_str(what) } else { whole.push(character) }
    }
    whole
}

#[test]
fn keys_that_name_secrets_count() {
    for (before, after) in [
        (r#"{"a":{"password":"hunter2"}}"#, r#"{"a":{"password":"[redacted:named-secret]"}}"#),
        (r#"{ "pass\u0077ord" : "hun\tter2" }"#, r#"{ "pass\u0077ord" : "[redacted:named-secret]" }"#),
        (r#"{"apiKeys":["a1b2c3d4e5f6","short"]}"#, r#"{"apiKeys":["[redacted:named-secret]","short"]}"#),
        (r#"{"Authorization":"Bearer a1b2c3d4e5f6a7b8"}"#, r#"{"Authorization":"Bearer [redacted:authorization]"}"#),
        (
            r#"{"password":"$PASSWORD","token":"next","max_tokens":10}"#,
            r#"{"password":"$PASSWORD","token":"next","max_tokens":10}"#,
        ),
        (r#"{"password":48213377 ,"pins":[1]}"#, r#"{"password":"[redacted:named-secret]" ,"pins":[1]}"#),
        (r#"{"passwords":[48213377,-5,0.125,12]}"#, r#"{"passwords":["[redacted:named-secret]",-5,0.125,12]}"#),
        (r#"{"token":48213377,"password":true,"pass":1111}"#, r#"{"token":48213377,"password":true,"pass":1111}"#),
        (r#"{"env":"API_TOKEN=a1b2c3d4\nB=c"}"#, r#"{"env":"API_TOKEN=[redacted:named-secret]\nB=c"}"#),
        (r#"{"url":"https:\/\/me:hunter2@host\/"}"#, r#"{"url":"https:\/\/me:[redacted:url-password]@host\/"}"#),
    ] {
        assert_eq!(line(before), after);
    }
}

#[test]
fn every_byte_that_is_no_secret_stays() {
    let token = fake("gh", "p_", 2) + &fake("", ALNUM, 36);
    let before = r#" { "n" : [ 1.0e+5 , -0, 12345678901234567890123, 0.10 ],"e":"\u00e9\/\ud83d\ude00 \ud83d half","é":"ü","dup":1,"dup":"TOKEN" ,"z":{},"y":[],"t":true }  "#;
    let expected = before.replace("TOKEN", "[redacted:github-token]") + "\r\n";
    assert_eq!(line(&(before.replace("TOKEN", &token) + "\r\n")), expected);
    // Two secrets in one string, behind escapes of all lengths.
    let two = format!(r#"{{"a":"\n\u00e9{token}\ud83d\ude00{token}\\"}}"#);
    assert_eq!(line(&two), r#"{"a":"\n\u00e9[redacted:github-token]\ud83d\ude00[redacted:github-token]\\"}"#);
}

#[test]
fn what_the_client_finds_its_way_by_is_never_changed() {
    // All there is is a secret.
    let redactor = with_patterns(&["(?s).+"], &[]);
    let folder = tempfile::tempdir().unwrap();
    for kind in Kind::ALL {
        let made = generate(&Spec::new(kind, 80, 7), folder.path()).unwrap();
        for session in &made.sessions {
            let bytes = std::fs::read(&session.path).unwrap();
            let mut clean = Vec::new();
            for line in bytes.split_inclusive(|byte| *byte == b'\n') {
                let (redacted, _) = redactor.redact_line(line);
                let (before, after) = (Record::parse(line).unwrap(), Record::parse(&redacted).unwrap());
                assert_eq!((before.uuid(), before.session_id()), (after.uuid(), after.session_id()));
                assert_eq!(
                    (before.message_id(), before.timestamp(), before.role()),
                    (after.message_id(), after.timestamp(), after.role())
                );
                let ids = |record: &Record<'_>| {
                    let blocks = record.content().map_or(&[][..], |content| content.blocks());
                    blocks
                        .iter()
                        .map(|block| [block.call_id(), block.answers()].map(|id| id.map(str::to_owned)))
                        .collect::<Vec<_>>()
                };
                assert_eq!(ids(&before), ids(&after));
                for field in ["parentUuid", "requestId", "type", "isSidechain"] {
                    let value = |line: &[u8]| serde_json::from_slice::<Value>(line).unwrap()[field].clone();
                    assert_eq!(value(line), value(&redacted));
                }
                clean.extend_from_slice(&redacted);
            }
            let turns = |bytes: &[u8]| {
                let mut interpreter = Interpreter::default();
                interpreter.feed(bytes);
                interpreter.take_turns().into_iter().map(|turn| (turn.id, turn.started_ms)).collect::<Vec<_>>()
            };
            // A command of the client is known by its words, which are gone: it begins a turn then.
            let (before, after) = (turns(&bytes), turns(&clean));
            assert!(before.iter().all(|turn| after.contains(turn)), "{kind:?}");
        }
    }
}

#[test]
fn generated_transcripts_have_no_secrets() {
    let folder = tempfile::tempdir().unwrap();
    for kind in Kind::ALL {
        let made = generate(&Spec::new(kind, 200, 8), folder.path()).unwrap();
        for session in &made.sessions {
            for line in std::fs::read(&session.path).unwrap().split_inclusive(|byte| *byte == b'\n') {
                let (redacted, found) = Redactor::standard().redact_line(line);
                assert!(
                    matches!(redacted, Cow::Borrowed(_)) && found.is_empty(),
                    "{found:?} in {}",
                    String::from_utf8_lossy(line)
                );
            }
        }
    }
}

#[test]
fn images_and_signatures_are_left() {
    // What would be a secret anywhere else, as it comes about in base64.
    let inside = fake("AKI", "AQ2W3E4R5T6Y7UABC", 17);
    let data = format!("{}/{inside}+{}==", fake("iVBOR", ALNUM, 700), fake("", ALNUM, 300));
    let signature = format!("{}/{inside}+", fake("", ALNUM, 100));
    for text in [
        json!({ "type": "user", "message": { "role": "user", "content": [
            { "type": "image", "source": { "type": "base64", "media_type": "image/png", "data": data } }] } }),
        json!({ "type": "user", "message": { "role": "user", "content": [{ "type": "tool_result", "tool_use_id": "toolu_1", "content": [
            { "type": "image", "source": { "type": "base64", "media_type": "image/png", "data": &signature } }] }] } }),
        json!({ "type": "assistant", "message": { "role": "assistant", "content": [
            { "type": "thinking", "thinking": "", "signature": signature }, { "type": "redacted_thinking", "data": signature }] } }),
        json!({ "type": "x", "toolUseResult": { "file": { "base64": data } } }),
    ] {
        assert_eq!(line(&text.to_string()), text.to_string());
    }
    // Elsewhere, and among words, it is one.
    let text = json!({ "type": "user", "message": { "role": "user", "content": format!("it is {inside}") } }).to_string();
    assert_eq!(line(&text), text.replace(&inside, "[redacted:aws-key-id]"));
    // A key is a key, however long.
    let text = json!({ "private_key": data }).to_string();
    assert_eq!(line(&text), r#"{"private_key":"[redacted:named-secret]"}"#);
}

#[test]
fn what_is_no_json_is_a_text() {
    let token = fake("gh", "p_", 2) + &fake("", ALNUM, 36);
    for (before, after) in [
        (format!(r#"{{"a":"see {token}"#), r#"{"a":"see [redacted:github-token]"#.to_owned()),
        (format!("{token} and more\n"), "[redacted:github-token] and more\n".to_owned()),
        (format!("{{}} {token}"), "{} [redacted:github-token]".to_owned()),
        (format!(r#"{{"a" "{token}"}}"#), r#"{"a" "[redacted:github-token]"}"#.to_owned()),
    ] {
        assert_eq!(line(&before), after);
    }
    let bytes = [b"\xff\xfe{\"a\":\"\xc3", token.as_bytes(), b" \xff\"}\xf0\x9f"].concat();
    let (redacted, found) = Redactor::standard().redact_line(&bytes);
    assert_eq!(redacted, &b"\xff\xfe{\"a\":\"\xc3[redacted:github-token] \xff\"}\xf0\x9f"[..]);
    assert_eq!(found.get("github-token"), Some(&1));
    // The same in what is JSON but for its characters.
    let bytes = [b"{\"a\":\"\xc3 ", token.as_bytes(), b" \xff\"}"].concat();
    assert_eq!(Redactor::standard().redact_line(&bytes).0, &b"{\"a\":\"\xc3 [redacted:github-token] \xff\"}"[..]);
}

#[test]
fn patterns_of_the_user_count() {
    let redactor = with_patterns(&["ACME-[0-9]{4}", "ticket: (\\w+)"], &["^ACME-0000$"]);
    let (redacted, found) =
        redactor.redact_line(br#"{"a":["ACME-1234","ACME-0000","ticket: \u0061bc"],"ACME-9999":1,"type":"ACME-1111"}"#);
    let expected =
        r#"{"a":["[redacted:pattern]","ACME-0000","ticket: [redacted:pattern]"],"[redacted:pattern]":1,"type":"ACME-1111"}"#;
    assert_eq!((std::str::from_utf8(&redacted).unwrap(), found.get("pattern")), (expected, Some(&3)));
    // Numbers as well, unless the client needs them.
    let redactor = with_patterns(&["\\b4821[0-9]{4}\\b"], &["^48210000$"]);
    let (redacted, _) = redactor.redact_line(br#"{"customer":[48213377,48210000,-48213377.5,482133771],"requestId":48213377}"#);
    let expected = r#"{"customer":["[redacted:pattern]",48210000,"[redacted:pattern]",482133771],"requestId":48213377}"#;
    assert_eq!(std::str::from_utf8(&redacted), Ok(expected));
    let settings = config::RedactSettings {
        patterns: vec!["(".to_owned(), "ACME-[0-9]{4}".to_owned(), "a{1000}{1000}".to_owned()],
        allow: vec!["[".to_owned()],
    };
    let (redactor, problems) = Redactor::of(&settings);
    assert_eq!(redactor.redact("ACME-1234").text, "[redacted:pattern]");
    let problems: Vec<_> = problems.iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(problems.join("\n"), @r"
    `(` is no regular expression that can be used: unclosed group
    `a{1000}{1000}` is no regular expression that can be used: compiled, it takes more than 1048576 bytes
    `[` is no regular expression that can be used: unclosed character class
    ");
    assert!(Redactor::strict(&settings).is_err_and(|error| error.pattern == "("));
    assert!(Redactor::strict(&config::RedactSettings::default()).is_ok());
}

/// Text with secrets in it, or nearly.
fn words() -> impl Strategy<Value = String> {
    let secret = prop::sample::select(tokens().into_iter().map(|(_, token)| token).collect::<Vec<_>>());
    let piece = prop_oneof![
        secret,
        "[a-z \"\\\\\n=:ü😀]{0,8}",
        Just("password=hunter2 ".to_owned()),
        Just("api_key: ".to_owned()),
        Just("[redacted:jwt]".to_owned()),
        Just("Bearer a1b2c3d4e5f6a7b8c9".to_owned()),
        Just("https://me:pa55word@host ".to_owned()),
    ];
    prop::collection::vec(piece, 0..4).prop_map(|pieces| pieces.concat())
}

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![words().prop_map(Value::from), any::<i64>().prop_map(Value::from), Just(Value::Null)];
    let keys = prop_oneof![Just("password".to_owned()), Just("tokens".to_owned()), Just("api_keys".to_owned()), "[a-z]{1,3}"];
    leaf.prop_recursive(4, 24, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(keys.clone(), inner, 0..4).prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn a_line_is_redacted_as_its_value_is(value in values(), spaced in any::<bool>()) {
        let value = json!({ "type": "x", "toolUseResult": value });
        let text = if spaced { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) }.unwrap();
        let (redacted, found) = Redactor::standard().redact_line(text.as_bytes());
        let mut expected = value.clone();
        let of_value = Redactor::standard().redact_json(&mut expected);
        prop_assert_eq!(serde_json::from_slice::<Value>(&redacted).unwrap(), expected);
        prop_assert_eq!(&found, &of_value);
        let (twice, again) = Redactor::standard().redact_line(&redacted);
        prop_assert!(again.is_empty() && twice == redacted);
        if found.is_empty() {
            prop_assert!(matches!(redacted, Cow::Borrowed(_)));
        }
    }

    #[test]
    fn any_bytes_are_redacted_once(pieces in prop::collection::vec(prop_oneof![
        words().prop_map(String::into_bytes),
        prop::collection::vec(any::<u8>(), 0..4),
        prop::sample::select(vec![&b"{\""[..], b"\":\"", b"\"}", b"[", b"]", b",", b"\\", b"\\u00", b"\n"]).prop_map(<[u8]>::to_vec),
    ], 0..12)) {
        let bytes = pieces.concat();
        let redactor = Redactor::standard();
        let (redacted, found) = redactor.redact_line(&bytes);
        let (twice, again) = redactor.redact_line(&redacted);
        prop_assert!(again.is_empty(), "{again:?} in {:?}", String::from_utf8_lossy(&redacted));
        prop_assert_eq!(&twice, &redacted);
        prop_assert_eq!(found.is_empty(), redacted == bytes);
        if serde_json::from_slice::<Value>(&bytes).is_ok() {
            prop_assert!(serde_json::from_slice::<Value>(&redacted).is_ok());
        }
    }
}
