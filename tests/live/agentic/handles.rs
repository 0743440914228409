//! The handles that pruned text leaves behind, as they were sent.

use std::collections::{BTreeMap, HashMap};

use ctxbridge::stub::ApiRequest;
use serde_json::Value;

/// How a marker begins, and how it goes on: `[earlier context pruned: 2431 chars, recall ctx:1a2b3c4d.0]`.
const BEGINNING: &str = " [earlier context pruned";
const SIZE: &str = ": ";
const HANDLE: &str = " chars, recall ";

/// A text that was cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cut {
    /// Where it stands in the conversation.
    pub place: String,
    /// What stayed of it.
    pub kept: String,
    /// Its size before, in UTF-16 code units.
    pub chars: usize,
    /// What the client added behind it, such as a `<system-reminder>` behind the result of a tool.
    pub added: String,
}

/// What was cut in a session, by handle, and all that was sent whole in it, by place.
#[derive(Debug, Default)]
pub struct Sent {
    pub cuts: BTreeMap<String, Cut>,
    pub whole: HashMap<String, String>,
}

impl Sent {
    /// Collects from requests of one conversation, which only grows.
    pub fn in_requests<'a>(requests: impl IntoIterator<Item = &'a ApiRequest>) -> Self {
        let mut sent = Self::default();
        for request in requests {
            for (index, message) in request.messages().iter().enumerate() {
                match &message["content"] {
                    Value::Array(blocks) => {
                        blocks.iter().enumerate().for_each(|(at, block)| sent.add(format!("message {index}.{at}/text"), block));
                    }
                    text => sent.add(format!("message {index}.0/text"), text),
                }
            }
        }
        sent
    }

    /// Adds a block, or what is in it at `place`. A call and its result have names of their own.
    fn add(&mut self, place: String, value: &Value) {
        match value {
            Value::String(text) => self.add_text(place, text),
            Value::Array(items) => items.iter().enumerate().for_each(|(at, item)| self.add(format!("{place}/{at}"), item)),
            Value::Object(fields) => {
                let name = |field: &str| fields.get(field).and_then(Value::as_str);
                let place = match (name("type"), name("id"), name("tool_use_id")) {
                    (Some("text"), ..) => return self.add(place, &fields["text"]),
                    (Some("tool_use"), Some(id), _) => format!("call {id}"),
                    (Some("tool_result"), _, Some(id)) => format!("result {id}"),
                    _ => place,
                };
                fields.iter().for_each(|(key, field)| self.add(format!("{place}/{key}"), field));
            }
            _ => {}
        }
    }

    /// A handle stands for one text, whatever request it is in.
    fn add_text(&mut self, place: String, text: &str) {
        let Some((kept, marker)) = text.rsplit_once(BEGINNING) else {
            self.whole.insert(place, text.to_owned());
            return;
        };
        let (handle, chars, added) = parse(marker).unwrap_or_else(|| panic!("{place}: a marker with a handle: {text:?}"));
        let cut = Cut { place, kept: kept.to_owned(), chars, added };
        let known = self.cuts.entry(handle.clone()).or_insert_with(|| cut.clone());
        assert_eq!(*known, cut, "{handle} stands for one text");
    }
}

/// The handle and the size that a marker tells, and what is behind it.
fn parse(marker: &str) -> Option<(String, usize, String)> {
    let (chars, rest) = marker.strip_prefix(SIZE)?.split_once(HANDLE)?;
    let (handle, added) = rest.split_once(']')?;
    Some((handle.to_owned(), chars.parse().ok()?, added.to_owned()))
}
