//! The JSON file of claude-flow: a list of entries, which its hook writes if it has no database.

use std::fs;
use std::path::Path;

use serde::de::{Deserializer as _, IgnoredAny, SeqAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::Failed;
use super::entry::FlowEntry;
use super::listed::{At, ListedEntry, SkipReason, SourceError, whose};

/// Maximum bytes of a file; their hook rewrites all of it at each prompt.
const MAX_FILE_BYTES: u64 = 256 << 20;
/// Maximum bytes of an entry.
const MAX_ENTRY_BYTES: usize = 16 << 20;

/// Their file, in memory.
#[derive(Debug)]
pub struct JsonFile {
    /// The items as they are in the file.
    items: Vec<Box<RawValue>>,
    /// The error after the last item, if the list is incomplete.
    ended: Option<String>,
    path: String,
}

impl JsonFile {
    pub(super) fn open(path: &Path, length: u64) -> Result<Self, SourceError> {
        if length > MAX_FILE_BYTES {
            return Err(SourceError::TooLarge { path: path.to_owned(), bytes: length, most: MAX_FILE_BYTES });
        }
        let bytes = fs::read(path).map_err(|cause| SourceError::Io { path: path.to_owned(), cause })?;
        let name = path.display().to_string();
        Self::of(&bytes, &name).map_err(|cause| SourceError::NoList { path: path.to_owned(), cause })
    }

    /// Reads a list from bytes. A list that breaks off keeps the items before that.
    ///
    /// # Errors
    /// The reason, if it is no list.
    pub fn of(bytes: &[u8], name: &str) -> Result<Self, String> {
        // A byte-order mark is none of JSON's; what is no text would hide all that follows it.
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        let text = String::from_utf8_lossy(bytes);
        if !text.trim_start().starts_with('[') {
            return Err("it is no list of entries".to_owned());
        }
        let mut items = Vec::new();
        let mut list = serde_json::Deserializer::from_str(&text);
        let ended = list.deserialize_seq(Items(&mut items)).err().map(|error| error.to_string());
        Ok(Self { items, ended, path: name.to_owned() })
    }

    /// Lists the entries with their sessions, and those that cannot be read.
    pub fn list(&mut self) -> (Vec<ListedEntry>, Vec<Failed>) {
        let mut listed = Vec::new();
        let mut failed = Vec::new();
        for (number, item) in self.items.iter().enumerate() {
            match object(item) {
                Ok(original) => listed.push(whose(original, At::Item(number), name(number))),
                Err(SkipReason(reason)) => failed.push(Failed { id: Some(name(number)), reason }),
            }
        }
        if let Some(ended) = &self.ended {
            let reason = format!("it breaks off behind {} entries: {ended}", self.items.len());
            failed.push(Failed::of_source(Path::new(&self.path), &reason));
        }
        (listed, failed)
    }

    /// Reads an entry.
    ///
    /// # Errors
    /// The reason, if it has no content.
    pub fn entry(&mut self, number: usize) -> Result<Option<FlowEntry>, SkipReason> {
        let Some(item) = self.items.get(number) else { return Ok(None) };
        let mut entry = FlowEntry::of(object(item)?, None).map_err(SkipReason)?;
        if entry.id.is_empty() {
            entry.id = name(number);
        }
        Ok(Some(entry))
    }
}

fn object(item: &RawValue) -> Result<Map<String, Value>, SkipReason> {
    let text = item.get();
    if text.len() > MAX_ENTRY_BYTES {
        return Err(SkipReason(format!("it is too large: it has {} bytes", text.len())));
    }
    match serde_json::from_str(text) {
        Ok(Value::Object(original)) => Ok(original),
        Ok(_) => Err(SkipReason("it is no object".to_owned())),
        Err(error) => Err(SkipReason(error.to_string())),
    }
}

/// Name of an entry without an id.
fn name(number: usize) -> String {
    format!("item-{number}")
}

/// Collects the items of a list one by one, so that those before an error are kept.
struct Items<'i>(&'i mut Vec<Box<RawValue>>);

impl<'de> Visitor<'de> for Items<'_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a list of entries")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while let Some(item) = items.next_element::<Box<RawValue>>()? {
            self.0.push(item);
        }
        // So that what follows is no fault of the last item.
        items.next_element::<IgnoredAny>().map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_before_a_fault_is_kept() {
        for (text, entries, failures) in [
            (r#"[{"id":"a","content":"x"},{"id":"b","content":"y"}]"#, 2, 0),
            (r#" [{"id":"a","content":"x"},{"id":"b","cont"#, 1, 1),
            (r#"[{"id":"a","content":"x"}, 7, "x", null, {"content":"y"}]"#, 2, 3),
            ("[]", 0, 0),
            ("[", 0, 1),
        ] {
            let mut file = JsonFile::of(text.as_bytes(), "a.json").expect("a list");
            let (listed, failed) = file.list();
            assert_eq!((listed.len(), failed.len()), (entries, failures), "{text}");
        }
        for text in ["", "{}", "x", "\"[\""] {
            assert!(JsonFile::of(text.as_bytes(), "a.json").is_err(), "{text}");
        }
        let mut file = JsonFile::of(b"[{\"id\":\"\xff\",\"content\":\"\xff\"}]", "a.json").expect("a list");
        assert_eq!(file.entry(0).expect("whole").map(|entry| entry.content), Some("\u{fffd}".to_owned()));
    }
}
