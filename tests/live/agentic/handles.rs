//! The handles that folded rounds leave behind, as they were sent.

use std::collections::{BTreeMap, BTreeSet};

use ctxbridge::stub::ApiRequest;
use serde_json::Value;

/// How a digest begins, and how its lines and their ends look.
const DIGEST: &str = "[earlier context folded: ";
const RECALL: &str = ", recall ";
const LINE_HANDLE: &str = " (ctx:";

/// How the line of a picture ends: there is no text to recall.
const PICTURE: &str = ".png (ctx:";

/// All handles of a session, and all that was sent in it.
#[derive(Debug, Default)]
pub struct Sent {
    /// Handles of results, and their lines.
    results: BTreeMap<String, String>,
    /// Handles of messages in a row.
    pub ranges: BTreeSet<String>,
    /// Texts, but for digests.
    texts: BTreeSet<String>,
}

impl Sent {
    /// Collects from requests of one conversation.
    pub fn in_requests<'a>(requests: impl IntoIterator<Item = &'a ApiRequest>) -> Self {
        let mut sent = Self::default();
        requests.into_iter().for_each(|request| request.messages().iter().for_each(|message| sent.add(&message["content"])));
        sent
    }

    fn add(&mut self, value: &Value) {
        match value {
            Value::String(text) => self.add_text(text),
            Value::Array(items) => items.iter().for_each(|item| self.add(item)),
            Value::Object(fields) => fields.values().for_each(|field| self.add(field)),
            _ => {}
        }
    }

    fn add_text(&mut self, text: &str) {
        // The model is told how a digest begins, too.
        let is_digest = |at: &usize| text[at + DIGEST.len()..].starts_with(|first: char| first.is_ascii_digit());
        let Some(at) = text.match_indices(DIGEST).map(|(at, _)| at).find(is_digest) else {
            self.texts.insert(text.to_owned());
            return;
        };
        for (number, line) in text[at..].lines().enumerate() {
            if number == 0 {
                let range = line.split_once(RECALL).and_then(|(_, range)| range.strip_suffix(']'));
                self.ranges.insert(range.unwrap_or_else(|| panic!("a digest with a handle: {line}")).to_owned());
            } else if let Some(at) = line.rfind(LINE_HANDLE).filter(|_| line.ends_with(')') && !line.contains(PICTURE)) {
                self.results.insert(line[at + 2..line.len() - 1].to_owned(), line.to_owned());
            }
        }
    }
}

/// Every handle leads to what was sent whole before it was folded. `recall` is the command.
#[track_caller]
pub fn resolve<'a>(name: &str, requests: impl IntoIterator<Item = &'a ApiRequest>, recall: impl Fn(&str) -> Vec<u8>) {
    let sent = Sent::in_requests(requests);
    assert!(!sent.ranges.is_empty(), "{name}: something was folded");
    let recall = |handle: &str| String::from_utf8(recall(handle)).unwrap();
    for (handle, line) in &sent.results {
        println!("{name}: {line}");
        let original = recall(handle);
        // The client takes white space off the ends of a result when it adds something to it.
        let is_sent = sent.texts.iter().any(|text| text.trim_start().starts_with(original.trim()));
        assert!(is_sent && !original.trim().is_empty(), "{name}: {handle}: {original:?} was sent whole before");
    }
    for range in &sent.ranges {
        let originals = recall(range);
        assert!(originals.contains("Tool ") || originals.contains("Assistant:"), "{name}: {range}: {originals}");
    }
    println!("{name}: {} handles of results and {} of rounds resolve", sent.results.len(), sent.ranges.len());
}
