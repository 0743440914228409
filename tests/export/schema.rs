//! `docs/export.md` and what is really written have the same fields.

use std::collections::BTreeSet;

use ctxbridge_testkit::sandbox::Sandbox;
use serde_json::Value;

use super::story;

/// The fields of the tables in the document: `object.field`.
fn documented() -> BTreeSet<String> {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/export.md")).unwrap();
    let mut object = String::new();
    let mut fields = BTreeSet::new();
    for line in text.lines() {
        if let Some(title) = line.strip_prefix("### ") {
            object = title.to_owned();
        } else if let Some(rest) = line.strip_prefix("| `")
            && !object.is_empty()
        {
            fields.insert(format!("{object}.{}", rest.split('`').next().unwrap()));
        }
    }
    fields
}

fn note(fields: &mut BTreeSet<String>, object: &str, value: &Value) {
    for (name, value) in value.as_object().unwrap() {
        fields.insert(format!("{object}.{name}"));
        let inner = match (object, name.as_str()) {
            ("Conversation", "turns") => "Turn",
            ("Conversation" | "Turn" | "Agent", "before" | "messages") => "Message",
            ("Conversation" | "Message", "agents") => "Agent",
            ("Message" | "Result", "content") => "Part",
            ("Message", "result") => "Result",
            _ => continue,
        };
        match value {
            Value::Array(values) => values.iter().for_each(|value| note(fields, inner, value)),
            Value::Null => {}
            value => note(fields, inner, value),
        }
    }
}

#[test]
fn the_document_names_every_field_and_no_other() {
    let sandbox = Sandbox::new();
    let talk = story::archived(&sandbox);
    let value = sandbox.json(&["archive", "export", &talk.id, "--thinking"]);
    assert_eq!(value["format"], ctxbridge::export::json::FORMAT);
    let mut real = BTreeSet::new();
    note(&mut real, "Conversation", &value);
    // Of what only sub-agents of old clients have.
    real.insert("Message.agent".to_owned());
    assert_eq!(real, documented());
}
