//! The comment before our code in a patched module. It is enough to recognize the code and to check that it is intact, without any
//! other file of ours.
//!
//! ```text
//! /*! ctxbridge {"version":"0.1.0","patch":"…","original":"<sha256>","payload":"<sha256>","runtime":[at,length],"edits":[[at,"old",length],…]}*/
//! /*! ctxbridge {…,"seal":"<sha256>"}*/                                                                          in an executable
//! ```
//!
//! `original` is the SHA-256 of the whole unpatched file. `payload` is that of everything the patch inserted: the other fields of
//! this comment, the runtime, the edits. Positions are bytes in the unpatched module, lengths those of the inserted text. With them
//! the edits can be undone in memory. If the result has the hash `original`, then every byte is either the client's or ours. For an
//! executable, this restores the module, but not the file around it. There the [`seal`](super::seal) is the proof instead. A
//! comment with the same fields in other bytes (an extra space) is not one that we wrote.

use std::ops::Range;

use memchr::memmem;
use serde::{Deserialize, Serialize};

use super::splice::{TextEdit, splice};
use super::syntax::Span;
use ctxbridge_common::digest;

const OPEN: &str = "/*! ctxbridge ";
const CLOSE: &str = "*/";

/// Placeholder for a seal that is not known yet; it has the same length.
pub(super) const NO_SEAL: &str = "0000000000000000000000000000000000000000000000000000000000000000";
const SEAL: &str = "\"seal\":\"";

/// The changes of one patch to one module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Marker {
    /// The version of ctxbridge that wrote it.
    pub version: String,
    /// The patch.
    pub patch: String,
    /// SHA-256 of the whole unpatched file.
    pub original: String,
    /// SHA-256 of what was inserted: the other fields, the runtime, then the text of each edit.
    pub payload: String,
    /// Position at which the comment and the runtime after it were inserted, and the runtime's length.
    pub runtime: (u32, u32),
    /// Position of each edit, the replaced text, and the length of the new text.
    pub edits: Vec<(u32, String, u32)>,
    /// In an executable, the hash of the rest of the file; see [`seal`](super::seal).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seal: Option<String>,
}

impl Marker {
    /// The marker of a patch that inserts `runtime` at `at` and makes these edits.
    pub fn new(patch: &str, original: &str, at: u32, runtime: &str, edits: &[(u32, String, String)]) -> Self {
        let inserted = edits.iter().fold(runtime.to_owned(), |all, (_, _, new)| all + new);
        let marker = Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            patch: patch.to_owned(),
            original: original.to_owned(),
            payload: String::new(),
            runtime: (at, runtime.len() as u32),
            edits: edits.iter().map(|(at, old, new)| (*at, old.clone(), new.len() as u32)).collect(),
            seal: None,
        };
        Self { payload: marker.payload_of(&inserted), ..marker }
    }

    /// Adds room for a seal.
    #[must_use]
    pub fn sealable(self) -> Self {
        Self { seal: Some(NO_SEAL.to_owned()), ..self }
    }

    /// The hash of these fields and of the code that was inserted with them.
    fn payload_of(&self, inserted: &str) -> String {
        // The seal comes last, and is over this.
        let fields = Self { payload: String::new(), seal: None, ..self.clone() };
        digest::of_bytes((fields.comment() + inserted).as_bytes())
    }

    /// The text of the comment.
    pub fn comment(&self) -> String {
        let json = serde_json::to_string(self).unwrap_or_default();
        // Replaced code must neither end the comment nor bring in a character that Latin-1 lacks.
        let json: String = json.chars().map(|c| if c.is_ascii() { c.to_string() } else { escape(c) }).collect();
        format!("{OPEN}{}{CLOSE}", json.replace("*/", "*\\u002f"))
    }
}

fn escape(c: char) -> String {
    let mut units = [0; 2];
    c.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")).collect()
}

/// A marker and the place of its comment.
#[derive(Clone, Debug)]
pub struct FoundMarker {
    /// The marker; `None` if it cannot be read or is not as we write it.
    pub marker: Option<Marker>,
    /// The text of the comment.
    pub comment: Span,
}

/// `true` if a file has a comment of ours, readable or not.
pub fn occurs_in(bytes: &[u8]) -> bool {
    memmem::find(bytes, OPEN.as_bytes()).is_some()
}

/// Every comment of ours in a module, in order.
pub fn find(text: &str) -> Vec<FoundMarker> {
    let mut found = Vec::new();
    for start in memmem::find_iter(text.as_bytes(), OPEN) {
        let Some(length) = memmem::find(&text.as_bytes()[start..], CLOSE.as_bytes()) else { break };
        let comment = Span::new(start as u32, (start + length + CLOSE.len()) as u32);
        let json = &text[start + OPEN.len()..start + length];
        let marker = serde_json::from_str(json).ok().filter(|marker: &Marker| marker.comment() == text[comment.range()]);
        found.push(FoundMarker { marker, comment });
    }
    found
}

/// Ranges of the seals in these bytes of a module: after the comment's start, and before its end.
pub(super) fn seals(bytes: &[u8]) -> Vec<Range<usize>> {
    let mut seals = Vec::new();
    for start in memmem::find_iter(bytes, OPEN) {
        let comment = &bytes[start..];
        let comment = &comment[..memmem::find(comment, CLOSE.as_bytes()).unwrap_or(comment.len())];
        if let Some(at) = memmem::rfind(comment, SEAL.as_bytes()) {
            let seal = start + at + SEAL.len();
            if seal + NO_SEAL.len() <= start + comment.len() {
                seals.push(seal..seal + NO_SEAL.len());
            }
        }
    }
    seals
}

/// A module's text as it was before it was sealed.
pub(super) fn without_seals(text: &str) -> String {
    let mut text = text.to_owned();
    for seal in seals(text.as_bytes()) {
        text.replace_range(seal, NO_SEAL);
    }
    text
}

/// Undoes all insertions and edits that these markers describe. `None` if they do not fit the text.
pub fn undo(text: &str, found: &[FoundMarker]) -> Option<String> {
    let mut places = Vec::new();
    for FoundMarker { marker, comment } in found {
        let marker = marker.as_ref()?;
        let length = (comment.hi - comment.lo).checked_add(marker.runtime.1)?;
        places.push((marker.runtime.0, length, "", Some((comment.lo, marker))));
        places.extend(marker.edits.iter().map(|(at, old, length)| (*at, *length, old.as_str(), None)));
    }
    // Stable: insertions at one place keep the order of their comments.
    places.sort_by_key(|(at, ..)| *at);
    let mut edits = Vec::new();
    let mut shift = 0_i64;
    for (at, length, old, comment) in &places {
        let lo = u32::try_from(i64::from(*at).checked_add(shift)?).ok()?;
        if comment.is_some_and(|(stands, _)| stands != lo) {
            return None;
        }
        let span = Span::new(lo, lo.checked_add(*length)?);
        text.get(span.range())?;
        edits.push(TextEdit { span, text: (*old).to_owned() });
        shift += i64::from(*length) - old.len() as i64;
    }
    payloads_match(text, found, &edits, &places)?;
    splice(text, edits).ok()
}

type PlacedEdit<'f> = (u32, u32, &'f str, Option<(u32, &'f Marker)>);

/// Checks that the hash of each patch's inserted bytes is its marker's `payload`; `None` if not.
fn payloads_match(text: &str, found: &[FoundMarker], edits: &[TextEdit], places: &[PlacedEdit<'_>]) -> Option<()> {
    for FoundMarker { marker, comment } in found {
        let marker = marker.as_ref()?;
        let runtime = Span::new(comment.hi, comment.hi.checked_add(marker.runtime.1)?);
        let mut inserted = text.get(runtime.range())?.to_owned();
        for (at, old, length) in &marker.edits {
            let wanted = |(place, _): &(&PlacedEdit<'_>, &TextEdit)| {
                place.3.is_none() && (place.0, place.1, place.2) == (*at, *length, old.as_str())
            };
            let (_, edit) = places.iter().zip(edits).find(wanted)?;
            inserted.push_str(text.get(edit.span.range())?);
        }
        if marker.payload_of(&inserted) != marker.payload {
            return None;
        }
    }
    Some(())
}
