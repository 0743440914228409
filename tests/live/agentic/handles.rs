//! The handles that folded rounds leave behind, as they were sent.

use std::collections::BTreeSet;

use ctxbridge::stub::ApiRequest;
use serde_json::Value;

/// How a digest begins, and how its lines and their ends look.
const DIGEST: &str = "[earlier context folded: ";
const RECALL: &str = ", recall ";
const LINE_HANDLE: &str = " (ctx:";

/// All handles of a session, and all that was sent in it.
#[derive(Debug, Default)]
pub struct Sent {
    /// Handles of results.
    pub results: BTreeSet<String>,
    /// Handles of messages in a row.
    pub ranges: BTreeSet<String>,
    /// Texts, but for digests.
    pub texts: BTreeSet<String>,
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
        let Some(at) = text.find(DIGEST) else {
            self.texts.insert(text.to_owned());
            return;
        };
        for (number, line) in text[at..].lines().enumerate() {
            if number == 0 {
                let range = line.split_once(RECALL).and_then(|(_, range)| range.strip_suffix(']'));
                self.ranges.insert(range.unwrap_or_else(|| panic!("a digest with a handle: {line}")).to_owned());
            } else if let Some(at) = line.rfind(LINE_HANDLE).filter(|_| line.ends_with(')')) {
                self.results.insert(line[at + 2..line.len() - 1].to_owned());
            }
        }
    }
}
