//! How far a private key goes that begins, or ends, somewhere: whatever its lines are shown with.
//!
//! Tools number lines (`     2→MIIE…`), name files, quote, indent, comment out and concatenate; so nothing is asked of what stands between the begin
//! and the end but that there is a key in it: documentation has both without one.

use std::ops::Range;

use super::value::Text;

const BEGIN: &str = "-----BEGIN ";
const END: &str = "-----END ";
const KEY: &str = "PRIVATE KEY";
/// Behind the kind of key.
const DASHES: &str = "-----";

/// Bytes of a key at most, with all that is between its lines: one of 16,384 bits has 12,700.
const LONGEST: usize = 24 << 10;

/// Characters in a row that a key has and documentation has not.
const SHORTEST_LINE: usize = 32;

/// The key behind, or before, a line with its kind: `marker` is the place of that line's dashes and words.
pub fn body(text: Text<'_>, marker: Range<usize>) -> Option<Range<usize>> {
    if text.text[marker.clone()].starts_with(BEGIN) { behind(text, marker.end) } else { before(text, marker.start) }
}

fn behind(text: Text<'_>, start: usize) -> Option<Range<usize>> {
    let limit = text.boundary(start + LONGEST);
    let end = string_end(text, start, limit);
    let window = &text.text[start..end];
    // What begins anew is another one.
    let window = &window[..window.find(BEGIN).unwrap_or(window.len())];
    if let Some(length) = end_of_key(window) {
        return has_key(&window[..length]).then(|| start..start + length);
    }
    // Its end was cut off. A line that goes on behind what is looked at is left.
    let is_cut = end == limit && end < text.text.len();
    let mut length = 0;
    let mut words_of_key = 0;
    for line in lines(window) {
        if is_cut && line.end == window.len() {
            break;
        }
        let said = &window[line.clone()];
        match has_key(said) {
            true => (words_of_key, length) = (words(said), line.end),
            // What stands before the first line is said of the key.
            false if words_of_key == 0 || words(said) == 0 => {}
            // The last one may be short.
            false => {
                if words(said) <= words_of_key {
                    length = line.end;
                }
                break;
            }
        }
    }
    (words_of_key > 0).then(|| start..start + length)
}

/// The lines of a key of which only the end is there.
fn before(text: Text<'_>, end: usize) -> Option<Range<usize>> {
    let begin = text.boundary(end.saturating_sub(LONGEST));
    let begin = string_begin(text, begin, end);
    let window = &text.text[begin..end];
    // Where its begin is, that was looked behind.
    if window.rfind(BEGIN).is_some_and(|at| !window[at..].contains(END)) {
        return None;
    }
    let mut start = None;
    let mut all: Vec<Range<usize>> = lines(window).collect();
    // The last one is what stands before the dashes; the one before that may be short.
    all.pop();
    all.retain(|line| words(&window[line.clone()]) > 0);
    let said = |at: usize| all.get(at).map_or("", |line| &window[line.clone()]);
    let last = all.len().saturating_sub(1);
    for at in (0..all.len()).rev() {
        let is_rest = || at == last && at > 0 && has_key(said(at - 1)) && words(said(at)) <= words(said(at - 1));
        match has_key(said(at)) {
            true => start = Some(all[at].start),
            false if is_rest() => {}
            false => break,
        }
    }
    start.map(|start| begin + start..end)
}

/// Where the string of a JSON text ends, at the latest; elsewhere, the limit.
fn string_end(text: Text<'_>, start: usize, limit: usize) -> usize {
    if !text.is_json() {
        return limit;
    }
    let bytes = text.text.as_bytes();
    let mut at = start;
    while at < limit {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at,
            _ => at += 1,
        }
    }
    limit
}

/// Where the string of a JSON text begins, at the earliest; elsewhere, the limit.
fn string_begin(text: Text<'_>, limit: usize, end: usize) -> usize {
    if !text.is_json() {
        return limit;
    }
    let bytes = &text.text.as_bytes()[..end];
    let is_escaped = |at: usize| bytes[..at].iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 1;
    (limit..end).rev().find(|at| bytes[*at] == b'"' && !is_escaped(*at)).map_or(limit, |quote| quote + 1)
}

/// Where the line begins that ends a key.
fn end_of_key(window: &str) -> Option<usize> {
    let at = window.find(END)?;
    let kind = &window[at + END.len()..];
    kind.split(DASHES).next().is_some_and(|kind| kind.contains(KEY)).then_some(at)
}

/// Lines, also where their ends are escaped.
fn lines(window: &str) -> impl Iterator<Item = Range<usize>> + '_ {
    let mut from = Some(0);
    std::iter::from_fn(move || {
        let start = from?;
        let bytes = window.as_bytes();
        let is_end = |at: usize| bytes[at] == b'\n' || (bytes[at] == b'\\' && matches!(bytes.get(at + 1), Some(b'n')));
        let end = (start..bytes.len()).find(|at| is_end(*at));
        from = end.map(|end| end + if bytes[end] == b'\n' { 1 } else { 2 });
        Some(start..end.unwrap_or(bytes.len()))
    })
}

fn has_key(text: &str) -> bool {
    runs(text).any(|run| run.len() >= SHORTEST_LINE)
}

fn runs(text: &str) -> impl Iterator<Item = &[u8]> {
    text.as_bytes().split(|byte| !(byte.is_ascii_alphanumeric() || b"+/=".contains(byte))).filter(|run| !run.is_empty())
}

/// Words of a line, besides its number. The last line of a key has as many as the others: what they are shown with, and itself.
fn words(line: &str) -> usize {
    runs(line).filter(|run| run.iter().any(u8::is_ascii_alphabetic)).count()
}
