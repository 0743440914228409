//! The comment that our code carries in a patched module, enough to recognise it and to tell whether it is intact without any
//! file of ours beside it.
//!
//! ```text
//! /*! ctxbridge {"version":"0.1.0","patch":"…","original":"<sha256>","payload":"<sha256>","runtime":[at,length],"edits":[[at,"old",length],…]}*/
//! /*! ctxbridge {…,"seal":"<sha256>"}*/                                                                          in an executable
//! ```
//!
//! `original` is the SHA-256 of the whole unpatched file, `payload` that of everything the patch inserted: the other fields of this
//! comment, the runtime, the edits. Positions are bytes in the unpatched module, lengths those of what was inserted there. With them the edits can be undone in
//! memory, and if what comes out has the hash `original`, then every byte is either the client's or ours.
//! Of an executable the module comes out, but not the file around it. There the [`seal`](super::seal) takes its place.
//! A comment that says the same in other bytes (a space more) is none that we wrote.

use std::ops::Range;

use memchr::memmem;
use serde::{Deserialize, Serialize};

use super::splice::{Edit, splice};
use super::syntax::Span;
use ctxbridge_common::digest;

const OPEN: &str = "/*! ctxbridge ";
const CLOSE: &str = "*/";

/// What stands in the place of a seal until it is known; as long as one.
pub(super) const NO_SEAL: &str = "0000000000000000000000000000000000000000000000000000000000000000";
const SEAL: &str = "\"seal\":\"";

/// What one patch did to one module.
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
    /// Where the comment and the runtime behind it were inserted, and the runtime's length.
    pub runtime: (u32, u32),
    /// Where each edit was made, what it replaced, and the length of what replaced it.
    pub edits: Vec<(u32, String, u32)>,
    /// In an executable, the hash of all the rest of it; see [`seal`](super::seal).
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

    /// With room for a seal.
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

    /// The comment.
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

/// A marker and where its comment stands.
#[derive(Clone, Debug)]
pub struct Found {
    /// What it says; nothing when it cannot be read or is not as we write it.
    pub marker: Option<Marker>,
    /// The comment.
    pub comment: Span,
}

/// Whether a file carries a comment of ours, readable or not.
pub fn occurs_in(bytes: &[u8]) -> bool {
    memmem::find(bytes, OPEN.as_bytes()).is_some()
}

/// Every comment of ours in a module, in order.
pub fn find(text: &str) -> Vec<Found> {
    let mut found = Vec::new();
    for start in memmem::find_iter(text.as_bytes(), OPEN) {
        let Some(length) = memmem::find(&text.as_bytes()[start..], CLOSE.as_bytes()) else { break };
        let comment = Span::new(start as u32, (start + length + CLOSE.len()) as u32);
        let json = &text[start + OPEN.len()..start + length];
        let marker = serde_json::from_str(json).ok().filter(|marker: &Marker| marker.comment() == text[comment.range()]);
        found.push(Found { marker, comment });
    }
    found
}

/// Where seals stand in these bytes of a module: after the comment's beginning, and before its end.
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

/// Takes everything out again that these markers say was put in. Nothing when they do not fit the text.
pub fn undo(text: &str, found: &[Found]) -> Option<String> {
    let mut places = Vec::new();
    for Found { marker, comment } in found {
        let marker = marker.as_ref()?;
        let length = (comment.hi - comment.lo).checked_add(marker.runtime.1)?;
        places.push((marker.runtime.0, length, "", Some((comment.lo, marker))));
        places.extend(marker.edits.iter().map(|(at, old, length)| (*at, *length, old.as_str(), None)));
    }
    // Stable: insertions at one place keep the order in which their comments stand.
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
        edits.push(Edit { span, text: (*old).to_owned() });
        shift += i64::from(*length) - old.len() as i64;
    }
    payloads_match(text, found, &edits, &places)?;
    splice(text, edits).ok()
}

type Place<'f> = (u32, u32, &'f str, Option<(u32, &'f Marker)>);

/// Whether each patch's inserted bytes are the ones that were inserted.
fn payloads_match(text: &str, found: &[Found], edits: &[Edit], places: &[Place<'_>]) -> Option<()> {
    for Found { marker, comment } in found {
        let marker = marker.as_ref()?;
        let runtime = Span::new(comment.hi, comment.hi.checked_add(marker.runtime.1)?);
        let mut inserted = text.get(runtime.range())?.to_owned();
        for (at, old, length) in &marker.edits {
            let wanted = |(place, _): &(&Place<'_>, &Edit)| {
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
