//! Lone surrogates: JavaScript may cut a text between the two halves of a surrogate pair. It writes the remaining half as an
//! escape that is valid JSON, but no text.

use std::borrow::Cow;

use memchr::{memchr, memmem};

/// Bytes of an escape such as `\ud83d`.
const ESCAPE: usize = 6;

/// Replacement for a lone surrogate; it has the same length as the escape.
const REPLACEMENT: &[u8; ESCAPE] = br"\ufffd";

/// Replaces each lone surrogate in a line by a replacement character; borrows the line if there is none.
pub fn replace_lone_surrogates(line: &[u8]) -> Cow<'_, [u8]> {
    if !memmem::find_iter(line, br"\u").any(|at| half(&line[at..]).is_some()) {
        return Cow::Borrowed(line);
    }
    let mut repaired = line.to_vec();
    let mut at = 0;
    while let Some(next) = memchr(b'\\', &line[at..]) {
        at += next;
        at += match (half(&line[at..]), line.get(at + ESCAPE..).and_then(half)) {
            (Some(Half::High), Some(Half::Low)) => 2 * ESCAPE,
            (Some(_), _) => {
                repaired[at..at + ESCAPE].copy_from_slice(REPLACEMENT);
                ESCAPE
            }
            // A backslash and what it escapes, which may be another one.
            (None, _) => 2,
        };
        if at >= line.len() {
            break;
        }
    }
    Cow::Owned(repaired)
}

/// Like [`replace_lone_surrogates`], for a text.
pub(super) fn replace_lone_surrogates_in_text(line: &str) -> Cow<'_, str> {
    match replace_lone_surrogates(line.as_bytes()) {
        Cow::Borrowed(_) => Cow::Borrowed(line),
        Cow::Owned(repaired) => Cow::Owned(String::from_utf8_lossy(&repaired).into_owned()),
    }
}

#[derive(Clone, Copy)]
enum Half {
    High,
    Low,
}

/// Returns the kind of the surrogate escape at the start, if there is one.
fn half(bytes: &[u8]) -> Option<Half> {
    let digits = bytes.get(..ESCAPE)?.strip_prefix(br"\u")?;
    match u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()? {
        0xd800..=0xdbff => Some(Half::High),
        0xdc00..=0xdfff => Some(Half::Low),
        _ => None,
    }
}
