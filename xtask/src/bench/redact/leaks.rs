//! Secrets that are left in labeled texts, by class and channel, and innocent texts that are touched.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use ctxbridge::redact::Redactor;
use serde::Deserialize;
use serde_json::{Value, json};

/// Names of the channels.
const CHANNELS: [&str; 3] = ["text", "JSON value", "transcript line"];
/// Class of texts without secrets.
const INNOCENT: &str = "innocent";

/// A labeled text.
#[derive(Deserialize)]
struct LabeledText {
    kind: String,
    class: String,
    text: String,
    #[serde(default)]
    secret: Vec<String>,
}

/// Prints the table. Only counts and kinds are printed; texts with `shows_texts`.
pub fn print(file: &Path, shows_texts: bool) -> Result<()> {
    let texts: Vec<LabeledText> = serde_json::from_slice(&fs::read(file).with_context(|| file.display().to_string())?)?;
    let mut classes: BTreeMap<&str, (usize, [Vec<&LabeledText>; 3])> = BTreeMap::new();
    for labeled in &texts {
        let class = if labeled.secret.is_empty() { INNOCENT } else { &labeled.class };
        let (count, failed) = classes.entry(class).or_default();
        *count += 1;
        for (channel, redacted) in redacted(&labeled.text)?.iter().enumerate() {
            let is_leak = labeled.secret.iter().any(|secret| redacted.contains(secret));
            if is_leak || (labeled.secret.is_empty() && *redacted != labeled.text) {
                failed[channel].push(labeled);
            }
        }
    }
    println!("| class | texts | {} | kinds |", CHANNELS.join(" | "));
    println!("| --- | --: | --: | --: | --: | --- |");
    for (class, (count, failed)) in &classes {
        let verb = if *class == INNOCENT { "touched" } else { "leaked" };
        let counts: Vec<String> = failed.iter().map(|failed| format!("{} {verb}", failed.len())).collect();
        let mut kinds: Vec<&str> = failed.iter().flatten().map(|labeled| &*labeled.kind).collect();
        kinds.sort_unstable();
        kinds.dedup();
        println!("| {class} | {count} | {} | {} |", counts.join(" | "), kinds.join(", "));
    }
    if shows_texts {
        for (channel, labeled) in classes.values().flat_map(|(_, failed)| CHANNELS.iter().zip(failed)) {
            labeled.iter().for_each(|labeled| println!("\n{channel}, {}: {}", labeled.kind, labeled.text));
        }
    }
    Ok(())
}

/// A text as it comes out of each channel.
fn redacted(text: &str) -> Result<[String; 3]> {
    let redactor = Redactor::standard();
    let mut value = json!({ "content": text });
    redactor.redact_json(&mut value);
    let line = json!({ "type": "user", "message": { "role": "user", "content": [{ "type": "text", "text": text }] } });
    let line = line.to_string();
    let (line, _) = redactor.redact_line(line.as_bytes());
    let line: Value = serde_json::from_slice(&line)?;
    let string = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    Ok([redactor.redact(text).text.into_owned(), string(&value["content"]), string(&line["message"]["content"][0]["text"])])
}
