//! An entry of a claude-flow archive: a turn as its hook wrote it.

use serde_json::{Map, Value};

use ctxbridge_archive::MIN_CONFIDENCE;
use ctxbridge_common::digest;
use ctxbridge_vectors::embed::is_hash_of;

/// Labels in which their hook writes the prompt and the last answer.
const USER: &str = "User: ";
const ASSISTANT: &str = "\n\nAssistant: ";

/// Session of entries that name none.
const NO_SESSION: &str = "claude-flow";

/// Maximum number of tool names, and of file names, of an entry.
const MAX_NAMES: usize = 1_000;

/// Maximum bytes of a session's id; longer ones are cut.
const MAX_SESSION_BYTES: usize = 200;

/// The bytes of a vector, or the reason why they are missing.
pub type RawVector = Result<Vec<u8>, String>;

/// A turn in their archive.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowEntry {
    /// Its id there.
    pub id: String,
    /// The client's session.
    pub session: String,
    /// Prompt and answer.
    pub content: String,
    /// Time when it was written, in milliseconds since 1970; they do not keep the time of the turn.
    pub created_ms: Option<i64>,
    /// Its number among the turns of the session that their hook saw then.
    pub chunk: Option<i64>,
    /// Tools of its last message.
    pub tools: Vec<String>,
    /// Files of these.
    pub files: Vec<String>,
    /// Number of restores.
    pub access_count: u32,
    /// Time of the last restore, in milliseconds since 1970.
    pub accessed_ms: Option<i64>,
    /// Confidence, from 0.1 to 1; `None` if missing, as in their JSON file.
    pub confidence: Option<f64>,
    /// Its vector and the model that made it, or the reason why it is invalid.
    pub embedding: Option<Result<(&'static str, Vec<f32>), String>>,
    /// Everything else, in the form of their JSON file.
    pub original: Map<String, Value>,
}

impl FlowEntry {
    /// Reads an entry in the form of their JSON file; any part may be missing or have another type. `vector` comes from another
    /// column of their database.
    ///
    /// # Errors
    /// The reason, if it has no content.
    pub fn of(mut original: Map<String, Value>, vector: Option<RawVector>) -> Result<Self, String> {
        let content = match original.remove("content") {
            Some(Value::String(content)) if !content.is_empty() => content,
            Some(Value::String(_)) => return Err("its content is empty".to_owned()),
            None | Some(Value::Null) => return Err("it has no content".to_owned()),
            Some(_) => return Err("its content is no text".to_owned()),
        };
        let listed = original.remove("embedding");
        let metadata = original.get("metadata").and_then(Value::as_object);
        let of_metadata = |name: &str| metadata.and_then(|metadata| metadata.get(name));
        let either = |name: &str| original.get(name).filter(|value| !value.is_null()).or_else(|| of_metadata(name));
        let session = either("sessionId").and_then(text).or_else(|| in_key(original.get("key")?)).filter(|id| !id.is_empty());
        let created_ms = ["createdAt", "timestamp", "updatedAt"].into_iter().find_map(|name| either(name).and_then(time));
        let access_count = original.get("accessCount").and_then(whole).unwrap_or(0).clamp(0, u32::MAX.into());
        let confidence = original.get("confidence").and_then(Value::as_f64).filter(|confidence| confidence.is_finite());
        let embedding =
            vector.map(|bytes| bytes.and_then(|bytes| of_bytes(&bytes))).or_else(|| listed.as_ref().and_then(of_list));
        let embedding = embedding.map(|vector| vector.map(|vector| (made_by(&content, &vector), vector)));
        Ok(Self {
            id: original.get("id").and_then(text).unwrap_or_default(),
            session: short(session.unwrap_or_else(|| NO_SESSION.to_owned())),
            created_ms,
            chunk: either("chunkIndex").and_then(whole),
            tools: names(of_metadata("toolNames")),
            files: names(of_metadata("filePaths")),
            access_count: u32::try_from(access_count).unwrap_or(u32::MAX),
            accessed_ms: original.get("lastAccessedAt").and_then(time).filter(|_| access_count > 0),
            confidence: confidence.map(|confidence| confidence.clamp(MIN_CONFIDENCE, 1.0)),
            embedding,
            original,
            content,
        })
    }

    /// Splits the content into prompt and answer; `None` if it is not in their form.
    pub fn parts(&self) -> Option<(&str, &str)> {
        self.content.strip_prefix(USER)?.split_once(ASSISTANT)
    }

    /// Returns its key: others may have the same id, or the same content.
    pub fn known_by(&self) -> EntryKey {
        EntryKey { id: self.id.clone(), sha256: digest::of_bytes(self.content.as_bytes()) }
    }
}

/// Key of an entry.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EntryKey {
    /// Its id.
    pub id: String,
    /// SHA-256 of its content.
    pub sha256: String,
}

/// Returns the content of an entry, as their hook would write it.
pub fn content_of(asked: &str, answered: &str) -> String {
    [USER, asked, ASSISTANT, answered].concat()
}

/// The second part of `transcript:SESSION:NUMBER:TIME`.
fn in_key(key: &Value) -> Option<String> {
    let rest = key.as_str()?.strip_prefix("transcript:")?;
    // The time has colons as well, and so may a session's id.
    let (session, _) = rest.split_once(':')?;
    Some(session.to_owned())
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

fn short(mut session: String) -> String {
    let end = (0..=MAX_SESSION_BYTES.min(session.len())).rev().find(|at| session.is_char_boundary(*at)).unwrap_or(0);
    session.truncate(end);
    session
}

fn whole(value: &Value) -> Option<i64> {
    match value {
        Value::Number(number) => number.as_i64().or_else(|| number.as_f64().map(|number| number as i64)),
        Value::String(text) => text.parse().ok(),
        _ => None,
    }
}

/// Parses milliseconds since 1970, or a time in text form.
fn time(value: &Value) -> Option<i64> {
    let written = || Some(value.as_str()?.parse::<jiff::Timestamp>().ok()?.as_millisecond());
    whole(value).or_else(written).filter(|ms| *ms > 0 && jiff::Timestamp::from_millisecond(*ms).is_ok())
}

fn names(value: Option<&Value>) -> Vec<String> {
    let names = value.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    names.filter(|name| !name.is_empty()).take(MAX_NAMES).map(str::to_owned).collect()
}

/// 32-bit floats, little endian.
fn of_bytes(bytes: &[u8]) -> Result<Vec<f32>, String> {
    let (floats, rest) = bytes.as_chunks();
    if floats.is_empty() || !rest.is_empty() {
        return Err(format!("its embedding has {} bytes, which are no 32-bit numbers", bytes.len()));
    }
    finite(floats.iter().map(|float| f32::from_le_bytes(*float)).collect())
}

fn of_list(value: &Value) -> Option<Result<Vec<f32>, String>> {
    let values = value.as_array().filter(|values| !values.is_empty())?;
    Some(finite(values.iter().map(|value| value.as_f64().map_or(f32::NAN, |value| value as f32)).collect()))
}

fn finite(vector: Vec<f32>) -> Result<Vec<f32>, String> {
    let is_finite = vector.iter().all(|value| value.is_finite());
    if is_finite { Ok(vector) } else { Err("its embedding has numbers that are none".to_owned()) }
}

/// Returns the model that made a vector. They keep vectors of an encoder and, if that cannot be loaded, of a hash in the same
/// column, without saying which. A hash has no number below 0, and an encoder always has some.
fn made_by(content: &str, vector: &[f32]) -> &'static str {
    let is_hash = is_hash_of(content, vector);
    match vector.len() {
        768 if is_hash => "hash-768",
        384 if is_hash => "hash-384",
        384 if vector.iter().any(|value| *value < 0.0) => "minilm-384",
        _ => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entry(value: Value) -> Result<FlowEntry, String> {
        FlowEntry::of(value.as_object().cloned().unwrap_or_default(), None)
    }

    #[test]
    fn whatever_is_missing_or_of_another_type_is_passed_over() {
        let plain = entry(json!({ "content": "User: a\n\nAssistant: b" })).expect("it has content");
        assert_eq!((plain.session.as_str(), plain.id.as_str(), plain.confidence), ("claude-flow", "", None));
        assert_eq!(plain.parts(), Some(("a", "b")));
        let odd = entry(json!({
            "id": 7, "key": "transcript:s:1:2026-01-01T00:00:00.000Z", "content": "x", "tags": 3, "metadata": "{",
            "createdAt": "2026-01-01T00:00:00Z", "accessCount": -4, "lastAccessedAt": {}, "confidence": 7.5,
        }))
        .expect("it has content");
        assert_eq!((odd.id.as_str(), odd.session.as_str(), odd.created_ms), ("7", "s", Some(1_767_225_600_000)));
        assert_eq!((odd.access_count, odd.accessed_ms, odd.confidence, odd.parts()), (0, None, Some(1.0), None));
        let far = entry(json!({ "content": "x", "createdAt": 9_000_000_000_000_000_000_i64, "accessCount": 1e300 }));
        let far = far.expect("it has content");
        assert_eq!((far.created_ms, far.access_count), (None, u32::MAX));
        for bad in [json!({}), json!({ "content": "" }), json!({ "content": null }), json!({ "content": [1] })] {
            assert!(entry(bad).is_err());
        }
        let long = entry(json!({ "content": "x", "sessionId": "ü".repeat(500) })).expect("it has content");
        assert_eq!(long.session, "ü".repeat(MAX_SESSION_BYTES / 2));
    }

    #[test]
    fn vectors_are_numbers_or_refused() {
        let with = |vector: &[f32]| {
            let bytes = vector.iter().flat_map(|value| value.to_le_bytes()).collect();
            let content = json!({ "content": "x" });
            FlowEntry::of(content.as_object().cloned().unwrap_or_default(), Some(Ok(bytes))).expect("it has content").embedding
        };
        assert_eq!(with(&[-0.5; 384]).and_then(Result::ok).map(|(model, _)| model), Some("minilm-384"));
        assert_eq!(with(&[0.5; 384]).and_then(Result::ok).map(|(model, _)| model), Some("unknown"));
        for bad in [&[f32::NAN, 0.1][..], &[f32::INFINITY], &[]] {
            assert!(with(bad).is_some_and(|embedding| embedding.is_err()), "{bad:?}");
        }
        let listed = entry(json!({ "content": "x", "embedding": [0.25, "a"] })).expect("it has content");
        assert!(listed.embedding.is_some_and(|embedding| embedding.is_err()));
    }
}
