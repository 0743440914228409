//! Extent of a private key from its first or last line, whatever its lines are shown with.
//!
//! Tools number lines (`     2→MIIE…`), name files, quote, indent, comment out and concatenate. So the text between the first
//! and the last line only has to contain a key: documentation has both lines without one.

use std::ops::Range;

use super::value::ScannedText;

const BEGIN: &str = "-----BEGIN ";
const END: &str = "-----END ";
const KEY: &str = "PRIVATE KEY";
/// Dashes after the kind of key.
const DASHES: &str = "-----";

/// Maximum bytes of a key, including everything between its lines. A key of 16,384 bits has 12,700.
const MAX_KEY_BYTES: usize = 24 << 10;

/// Minimum length of a run of base64 characters in a key. Documentation has no such runs.
const MIN_KEY_RUN: usize = 32;

/// The keys after, or before, lines with their kind. `markers` are the ranges of those lines' dashes and words, in order.
///
/// A key ends at the next marker at the latest, so that each byte is looked at for one key only.
pub fn find_keys(text: ScannedText<'_>, markers: &[Range<usize>]) -> Vec<Range<usize>> {
    let key = |(at, marker): (usize, &Range<usize>)| {
        if text.text[marker.clone()].starts_with(BEGIN) {
            let limit = markers.get(at + 1).map_or(text.text.len(), |next| next.end);
            key_after(text, marker.end, limit)
        } else {
            key_before(text, at.checked_sub(1).map_or(0, |last| markers[last].start), marker.start)
        }
    };
    markers.iter().enumerate().filter_map(key).collect()
}

fn key_after(text: ScannedText<'_>, start: usize, next: usize) -> Option<Range<usize>> {
    let limit = text.boundary(next.min(start + MAX_KEY_BYTES));
    let end = string_end(text, start, limit);
    let window = &text.text[start..end];
    // What begins anew is another one.
    let window = &window[..window.find(BEGIN).unwrap_or(window.len())];
    if let Some(length) = end_of_key(window) {
        return has_key(&window[..length]).then(|| start..start + length);
    }
    // Its end was cut off. A line that goes on behind what is looked at is left.
    let is_cut = end == limit && end < text.text.len() && limit < next;
    let mut length = 0;
    let mut words_of_key = 0;
    for line in lines(window) {
        if is_cut && line.end == window.len() {
            break;
        }
        let said = &window[line.clone()];
        match has_key(said) {
            true => (words_of_key, length) = (count_words(said), line.end),
            // What stands before the first line is said of the key.
            false if words_of_key == 0 || count_words(said) == 0 => {}
            // The last one may be short.
            false => {
                if count_words(said) <= words_of_key {
                    length = line.end;
                }
                break;
            }
        }
    }
    (words_of_key > 0).then(|| start..start + length)
}

/// The lines of a key whose start is missing.
fn key_before(text: ScannedText<'_>, last: usize, end: usize) -> Option<Range<usize>> {
    let begin = text.boundary(end.saturating_sub(MAX_KEY_BYTES).max(last));
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
    all.retain(|line| count_words(&window[line.clone()]) > 0);
    let said = |at: usize| all.get(at).map_or("", |line| &window[line.clone()]);
    let last = all.len().saturating_sub(1);
    for at in (0..all.len()).rev() {
        let is_rest = || at == last && at > 0 && has_key(said(at - 1)) && count_words(said(at)) <= count_words(said(at - 1));
        match has_key(said(at)) {
            true => start = Some(all[at].start),
            false if is_rest() => {}
            false => break,
        }
    }
    start.map(|start| begin + start..end)
}

/// End of the string in a JSON text, at most `limit`; in other texts, `limit`.
fn string_end(text: ScannedText<'_>, start: usize, limit: usize) -> usize {
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

/// Start of the string in a JSON text, at least `limit`; in other texts, `limit`.
fn string_begin(text: ScannedText<'_>, limit: usize, end: usize) -> usize {
    if !text.is_json() {
        return limit;
    }
    let bytes = &text.text.as_bytes()[..end];
    let is_escaped = |at: usize| bytes[..at].iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 1;
    (limit..end).rev().find(|at| bytes[*at] == b'"' && !is_escaped(*at)).map_or(limit, |quote| quote + 1)
}

/// Start of the line that ends a key.
fn end_of_key(window: &str) -> Option<usize> {
    let at = window.find(END)?;
    let kind = &window[at + END.len()..];
    kind.split(DASHES).next().is_some_and(|kind| kind.contains(KEY)).then_some(at)
}

/// Ranges of lines, including those with escaped line ends.
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
    runs(text).any(|run| run.len() >= MIN_KEY_RUN)
}

fn runs(text: &str) -> impl Iterator<Item = &[u8]> {
    text.as_bytes().split(|byte| !(byte.is_ascii_alphanumeric() || b"+/=".contains(byte))).filter(|run| !run.is_empty())
}

/// Number of words of a line, without its number. Each line of a key has as many as the others: its decoration, and itself.
fn count_words(line: &str) -> usize {
    runs(line).filter(|run| run.iter().any(u8::is_ascii_alphabetic)).count()
}
