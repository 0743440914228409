/*!
Blanks: bytes of a line that are not kept, with as many other bytes in their place. So every position in a transcript stays what
it is, and lines go on pointing to each other.

The user's own texts between `<private>` and `</private>` become spaces. A line that the user had us forget becomes a notice of the
client that says nothing, with its place in the tree.
*/

use std::ops::Range;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::record::{Record, RecordKind};

/// Begin of a forgotten line.
const FORGOTTEN: &str = r#"{"type":"system","subtype":"forgotten","content":"","level":"info""#;

/// Maximum bytes of a field that a forgotten line keeps: ids and times are shorter, and nothing else may hide in one.
const MAX_KEPT_BYTES: usize = 100;

const OPENING: &[u8] = b"<private>";
const CLOSING: &[u8] = b"</private>";

/// Fields that say where a line stands, as they are written.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PlaceInTree<'l> {
    #[serde(borrow, deserialize_with = "as_written")]
    uuid: Option<&'l RawValue>,
    #[serde(borrow, deserialize_with = "as_written")]
    parent_uuid: Option<&'l RawValue>,
    #[serde(borrow, deserialize_with = "as_written")]
    logical_parent_uuid: Option<&'l RawValue>,
    #[serde(borrow, deserialize_with = "as_written")]
    is_sidechain: Option<&'l RawValue>,
    #[serde(borrow, deserialize_with = "as_written")]
    agent_id: Option<&'l RawValue>,
    #[serde(borrow, deserialize_with = "as_written")]
    session_id: Option<&'l RawValue>,
    #[serde(borrow, deserialize_with = "as_written")]
    timestamp: Option<&'l RawValue>,
}

/// Reads any value, also `null`, which else counts as no field.
fn as_written<'de: 'l, 'l, D: Deserializer<'de>>(from: D) -> Result<Option<&'l RawValue>, D::Error> {
    <&RawValue>::deserialize(from).map(Some)
}

/// Returns as many bytes as a line has, without what it says. The end of the line is not part of it.
pub fn forgotten(line: &[u8]) -> Vec<u8> {
    let place = serde_json::from_slice::<PlaceInTree<'_>>(line).unwrap_or_default();
    let mut blank = FORGOTTEN.to_owned();
    // The most important first: where a line is short, the others have no room.
    for (name, value) in [
        ("uuid", place.uuid),
        ("parentUuid", place.parent_uuid),
        ("logicalParentUuid", place.logical_parent_uuid),
        ("isSidechain", place.is_sidechain),
        ("agentId", place.agent_id),
        ("sessionId", place.session_id),
        ("timestamp", place.timestamp),
    ] {
        let Some(value) = value.map(RawValue::get).filter(|value| value.len() <= MAX_KEPT_BYTES && is_scalar(value)) else {
            continue;
        };
        let field = format!(r#","{name}":{value}"#);
        if blank.len() + field.len() < line.len() {
            blank += &field;
        }
    }
    blank.push('}');
    let mut blank = if blank.len() <= line.len() { blank.into_bytes() } else { Vec::new() };
    blank.resize(line.len(), b' ');
    blank
}

/// `true` for a line that [`forgotten`] made; one that was too short has only spaces.
pub fn is_forgotten(line: &[u8]) -> bool {
    line.starts_with(FORGOTTEN.as_bytes())
}

fn is_scalar(value: &str) -> bool {
    !value.starts_with(['{', '['])
}

/// Returns the ranges of a line that the user marked as private, without the tags. One that is never closed lasts to the end of its
/// text. What tools and the model say is theirs, tags or not.
pub fn private_ranges(line: &[u8]) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(opened) = next_tag(line, from, OPENING) {
        let start = opened + OPENING.len();
        let end = private_end(line, start);
        if end > start {
            found.push(start..end);
        }
        from = end.max(start);
    }
    if !found.is_empty() && !is_of_user(line) {
        found.clear();
    }
    found
}

/// Replaces what is private in a line of a transcript by spaces.
pub fn blank_private(line: &mut [u8]) {
    for range in private_ranges(line) {
        line[range].fill(b' ');
    }
}

/// Does that to whole lines, for those who show or send what an archive has.
pub fn blank_private_lines(lines: &mut [u8]) {
    if has_private(lines) {
        lines.split_mut(|byte| *byte == b'\n').for_each(blank_private);
    }
}

/// Removes what is private from a text as it was typed, with the tags.
pub fn without_private(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut from = 0;
    while let Some(opened) = next_tag(text.as_bytes(), from, OPENING) {
        kept.push_str(&text[from..opened]);
        let end = end_of_text(text.as_bytes(), opened + OPENING.len());
        from = if end < text.len() { end + CLOSING.len() } else { end };
    }
    kept.push_str(&text[from..]);
    kept
}

/// `true` if a line, or a piece of one, has a tag. Most have none.
pub fn has_private(bytes: &[u8]) -> bool {
    next_tag(bytes, 0, OPENING).is_some()
}

/// End of what is private in a JSON string, before its closing tag or the end of the string.
fn private_end(line: &[u8], start: usize) -> usize {
    let mut quote = start;
    while quote < line.len() && line[quote] != b'"' {
        quote += if line[quote] == b'\\' { 2 } else { 1 };
    }
    let quote = quote.min(line.len());
    start + end_of_text(&line[start..quote], 0)
}

/// Position of the tag that closes what is open at `start`, or the end of the text.
fn end_of_text(text: &[u8], start: usize) -> usize {
    let mut depth = 1;
    let mut at = start;
    while let Some(tag) = memchr::memchr(b'<', &text[at..]).map(|found| at + found) {
        if is_tag(text, tag, OPENING) {
            depth += 1;
        } else if is_tag(text, tag, CLOSING) {
            depth -= 1;
            if depth == 0 {
                return tag;
            }
        }
        at = tag + 1;
    }
    text.len()
}

fn next_tag(bytes: &[u8], from: usize, tag: &[u8]) -> Option<usize> {
    memchr::memchr_iter(b'<', &bytes[from..]).map(|at| from + at).find(|at| is_tag(bytes, *at, tag))
}

fn is_tag(bytes: &[u8], at: usize, tag: &[u8]) -> bool {
    bytes.get(at..at + tag.len()).is_some_and(|found| found.eq_ignore_ascii_case(tag))
}

/// `true` if a line has what the user wrote: a prompt, also a waiting one, a title, or what the client keeps of them.
fn is_of_user(line: &[u8]) -> bool {
    let Ok(record) = Record::parse(line) else { return true };
    match record.kind() {
        RecordKind::Answer | RecordKind::ToolResults => false,
        RecordKind::Bookkeeping if record.type_name() == Some("attachment") => record.queued_prompt().is_some(),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blanked(line: &str) -> String {
        let mut bytes = line.as_bytes().to_vec();
        blank_private(&mut bytes);
        String::from_utf8(bytes).expect("still UTF-8")
    }

    #[test]
    fn what_is_private_becomes_spaces() {
        let line = |text: &str| format!(r#"{{"type":"user","message":{{"role":"user","content":"{text}"}}}}"#);
        for (before, private, after) in [
            ("a <private>", "b ü", "</private> c"),
            ("<PRIVATE>", "b", "</Private>"),
            ("<private>", r#"a \" <\\ \n"#, "</private> b"),
            ("<private>", r"never closed \\", ""),
            ("<private>", "a<private>b</private>c", "</private>d"),
            ("<privat>a</privat> </private>", "", ""),
            ("<private>", "", "</private>"),
        ] {
            let text = format!("{before}{private}{after}");
            let expected = format!("{before}{}{after}", " ".repeat(private.len()));
            assert_eq!(blanked(&line(&text)), line(&expected), "{text}");
            assert!(serde_json::from_str::<serde_json::Value>(&blanked(&line(&text))).is_ok(), "{text}");
        }
    }

    #[test]
    fn what_the_model_and_tools_say_stays() {
        for line in [
            r#"{"type":"assistant","message":{"content":[{"type":"text","text":"<private>a</private>"}]}}"#,
            r#"{"type":"user","message":{"content":[{"type":"tool_result","content":"<private>a</private>"}]}}"#,
            r#"{"type":"attachment","attachment":{"type":"file","content":"<private>a</private>"}}"#,
        ] {
            assert_eq!(blanked(line), line);
        }
        for line in [
            r#"{"type":"last-prompt","lastPrompt":"<private>a</private>"}"#,
            r#"{"type":"attachment","attachment":{"type":"queued_command","prompt":"<private>a</private>"}}"#,
            "<private>a</private> is no JSON",
        ] {
            assert!(!blanked(line).contains('a') || !blanked(line).contains(">a<"), "{line}");
        }
    }

    #[test]
    fn a_typed_text_loses_it_with_its_tags() {
        assert_eq!(without_private("a <private>b</private> c <private>d"), "a  c ");
        assert_eq!(without_private("a \"<private>b\"c</private>"), "a \"");
        assert_eq!(without_private("nothing <b>of it</b>"), "nothing <b>of it</b>");
    }

    #[test]
    fn a_forgotten_line_keeps_its_place_and_length() {
        let line = concat!(
            r#"{"parentUuid":null,"type":"user","message":{"role":"user","content":"the secret plan is this and that and more of it"},"#,
            r#""uuid":"u-1","sessionId":"s","timestamp":"2026-01-01T00:00:00Z","isSidechain":false,"cwd":"/secret"}"#
        );
        let blank = forgotten(line.as_bytes());
        assert_eq!(blank.len(), line.len());
        assert!(is_forgotten(&blank) && !is_forgotten(line.as_bytes()));
        let text = String::from_utf8(blank).expect("UTF-8");
        assert!(!text.contains("secret"), "{text}");
        let record = Record::parse_text(&text).expect("JSON");
        assert_eq!((record.uuid(), record.type_name()), (Some("u-1"), Some("system")));
        assert!(matches!(record.parent(), super::super::Link::Null));
        // One that has no room, or is no JSON, says nothing at all.
        assert_eq!(forgotten(br#"{"type":"user"}"#), b"               ");
        let hostile = format!(r#"{{"uuid":"{}","timestamp":{{"a":"secret"}}}}"#, "secret".repeat(50));
        assert!(!String::from_utf8(forgotten(hostile.as_bytes())).expect("UTF-8").contains("secret"));
    }
}
