//! A text as its reader sees it: without colors and invisible characters, with its escapes decoded, and with split literals joined.
//!
//! A secret that is colored, escaped or split is none of the forms that the rules know. They look at the view, and the map leads back.

use std::ops::Range;

/// Maximum bytes of a sequence of a terminal that has a text in it, such as a title or a link.
const MAX_SEQUENCE_BYTES: usize = 512;
/// Maximum bytes between the halves of a split literal and their `+`.
const MAX_JOINT_BYTES: usize = 24;
/// Characters that are not seen: zero width space, word joiner, byte order mark.
const INVISIBLE: [&str; 3] = ["\u{200b}", "\u{2060}", "\u{feff}"];
/// Spellings of the escape character.
const ESCAPES: [&[u8]; 7] = [b"\x1b", br"\u001b", br"\u001B", br"\x1b", br"\x1B", br"\033", br"\e"];

/// A run of the view: where it starts there, and the bytes of the text it stands for.
#[derive(Debug)]
struct ViewRun {
    start: usize,
    from: Range<usize>,
    /// `true` if the bytes are the same in both.
    is_same: bool,
}

/// A text as its reader sees it.
#[derive(Debug)]
pub struct View {
    /// The text that is seen.
    pub text: String,
    pieces: Vec<ViewRun>,
    /// `true` if literals were joined, so that the text is source code and no JSON.
    pub is_joined: bool,
}

/// A change at a position of the text: the bytes it is of, and the character that is seen in their place, if any.
struct Change {
    from: Range<usize>,
    seen: Option<char>,
    is_joint: bool,
}

impl View {
    /// The view of a text; `None` if it is the text itself.
    pub fn of(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        let mut view = Self { text: String::new(), pieces: Vec::new(), is_joined: false };
        let mut done = 0;
        let mut at = 0;
        let mut candidates = Candidates::of(text);
        while let Some(next) = candidates.next(bytes, at) {
            let Some(change) = change_at(text, next, done) else {
                at = next + 1;
                continue;
            };
            if view.pieces.is_empty() {
                view.text.reserve(text.len());
            }
            view.push(text, done..change.from.start);
            if let Some(seen) = change.seen {
                view.pieces.push(ViewRun { start: view.text.len(), from: change.from.clone(), is_same: false });
                view.text.push(seen);
            }
            view.is_joined |= change.is_joint;
            done = change.from.end;
            at = done;
        }
        (done > 0).then(|| {
            view.push(text, done..bytes.len());
            view
        })
    }

    fn push(&mut self, text: &str, from: Range<usize>) {
        if !from.is_empty() {
            let start = self.text.len();
            self.text.push_str(&text[from.clone()]);
            self.pieces.push(ViewRun { start, from, is_same: true });
        }
    }

    /// The bytes of the text that a range of the view stands for.
    pub fn original(&self, seen: &Range<usize>) -> Range<usize> {
        let piece = |at: usize| &self.pieces[self.pieces.partition_point(|piece| piece.start <= at).saturating_sub(1)];
        if seen.is_empty() || self.pieces.is_empty() {
            return 0..0;
        }
        let (first, last) = (piece(seen.start), piece(seen.end - 1));
        let start = if first.is_same { first.from.start + (seen.start - first.start) } else { first.from.start };
        let end = if last.is_same { last.from.start + (seen.end - last.start) } else { last.from.end };
        start..end
    }
}

/// Positions where a change may be. The next one of each sort is remembered, so that a sort that is rare is not searched for again
/// after each one of the other.
struct Candidates {
    escape: Option<usize>,
    invisible: Option<usize>,
}

impl Candidates {
    fn of(text: &str) -> Self {
        let has_invisible = !text.is_ascii() && INVISIBLE.iter().any(|unseen| text.contains(unseen));
        let bytes = text.as_bytes();
        Self { escape: next_escape(bytes, 0), invisible: if has_invisible { next_invisible(bytes, 0) } else { None } }
    }

    /// The next one from a position on.
    fn next(&mut self, bytes: &[u8], at: usize) -> Option<usize> {
        if self.escape.is_some_and(|next| next < at) {
            self.escape = next_escape(bytes, at);
        }
        if self.invisible.is_some_and(|next| next < at) {
            self.invisible = next_invisible(bytes, at);
        }
        self.escape.into_iter().chain(self.invisible).min()
    }
}

fn next_escape(bytes: &[u8], at: usize) -> Option<usize> {
    memchr::memchr3(0x1b, b'\\', b'+', &bytes[at..]).map(|next| at + next)
}

fn next_invisible(bytes: &[u8], at: usize) -> Option<usize> {
    memchr::memchr2(0xe2, 0xef, &bytes[at..]).map(|next| at + next)
}

/// The change that starts at a position, or around it for a joint, which must not begin before `done`.
fn change_at(text: &str, at: usize, done: usize) -> Option<Change> {
    let bytes = text.as_bytes();
    let gone = |from: Range<usize>| Some(Change { from, seen: None, is_joint: false });
    match bytes[at] {
        b'+' => joint(bytes, at).filter(|joint| joint.start >= done).map(|from| Change { from, seen: None, is_joint: true }),
        0xe2 | 0xef => INVISIBLE.iter().find(|unseen| text[at..].starts_with(**unseen)).and_then(|it| gone(at..at + it.len())),
        _ => {
            let is_escaped = bytes[at] == b'\\' && is_odd_run_before(bytes, at);
            if is_escaped {
                return None;
            }
            match sequence(bytes, at) {
                Some(end) => gone(at..end),
                None => unicode_escape(bytes, at).map(|seen| Change { from: at..at + 6, seen: Some(seen), is_joint: false }),
            }
        }
    }
}

/// `true` if an odd number of backslashes is before a position, of at most as many as a nested text has.
fn is_odd_run_before(bytes: &[u8], at: usize) -> bool {
    const DEEPEST: usize = 64;
    bytes[..at].iter().rev().take(DEEPEST).take_while(|byte| **byte == b'\\').count() % 2 == 1
}

/// The end of the terminal's sequence that starts there.
fn sequence(bytes: &[u8], at: usize) -> Option<usize> {
    let length = ESCAPES.iter().find(|escape| bytes[at..].starts_with(escape))?.len();
    let start = at + length + 1;
    let rest = bytes.get(start..)?;
    match bytes[at + length] {
        b'[' => {
            // A quote or a backslash, which hardly any sequence has, ends the string or begins the next escape.
            let is_parameter = |byte: &&u8| (0x20..0x40).contains(*byte) && **byte != b'"';
            let parameters = rest.iter().take(MAX_SEQUENCE_BYTES).take_while(is_parameter).count();
            let is_last = |byte: &u8| (0x40..0x7f).contains(byte) && *byte != b'\\';
            rest.get(parameters).is_some_and(is_last).then_some(start + parameters + 1)
        }
        // The title of a window, or where a link leads: up to a bell, or to the next escape with its backslash.
        b']' if length == 1 => {
            let inner = &rest[..rest.len().min(MAX_SEQUENCE_BYTES)];
            let end = memchr::memchr2(0x07, 0x1b, inner)?;
            if inner[end] == 0x07 {
                Some(start + end + 1)
            } else {
                (inner.get(end + 1) == Some(&b'\\')).then_some(start + end + 2)
            }
        }
        _ => None,
    }
}

/// The printable character of a `\u00XX` that starts there.
fn unicode_escape(bytes: &[u8], at: usize) -> Option<char> {
    let digits = bytes[at..].strip_prefix(br"\u00")?.get(..2)?;
    let code = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    (code.is_ascii_graphic() && !matches!(code, b'"' | b'\\')).then_some(char::from(code))
}

/// The bytes around a `+` that split one literal into two, with their quotes.
fn joint(bytes: &[u8], plus: usize) -> Option<Range<usize>> {
    let is_space = |byte: &&u8| byte.is_ascii_whitespace();
    let is_of_token = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
    let before = bytes[..plus].iter().rev().take(MAX_JOINT_BYTES).take_while(is_space).count();
    let after = bytes[plus + 1..].iter().take(MAX_JOINT_BYTES).take_while(is_space).count();
    let mut start = plus.checked_sub(before + 1)?;
    let mut end = plus + 1 + after;
    let quote = bytes[start];
    if !matches!(quote, b'"' | b'\'' | b'`') {
        return None;
    }
    let slashes = bytes[..start].iter().rev().take_while(|byte| **byte == b'\\').take(3).count();
    start -= slashes;
    if bytes.get(end..end + slashes)?.iter().any(|byte| *byte != b'\\') || bytes.get(end + slashes) != Some(&quote) {
        return None;
    }
    end += slashes + 1;
    (start > 0 && is_of_token(bytes.get(start - 1)) && is_of_token(bytes.get(end))).then_some(start..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_leads_back_to_its_text() {
        for (text, seen) in [
            ("\u{1b}[1;31mab\u{1b}[0m c", "ab c"),
            (r"x\u001b[32mab\u001b[0m", "xab"),
            (r"\u0067\u0068_x", "gh_x"),
            ("\u{1b}]8;;https://x\u{7}link\u{1b}]8;;\u{7}", "link"),
            ("'ab' +\n  'cd'", "'abcd'"),
            (r#"\"ab\" + \"cd\""#, r#"\"abcd\""#),
            ("a\u{200b}b", "ab"),
        ] {
            let view = View::of(text).unwrap();
            assert_eq!(view.text, seen, "{text:?}");
            for (start, character) in view.text.char_indices() {
                let from = view.original(&(start..start + character.len_utf8()));
                let of = &text[from];
                assert!(of == character.to_string() || of == format!("\\u{:04x}", character as u32), "{text:?}: {of:?}");
            }
        }
        for text in
            ["plain", "a + b", "1 + \"x\"", r"\n\t", r"\\u0067", "\u{1b}", r#""\u001b["}"#, r"\u001b[\n", "ü+ü", "'a' + b"]
        {
            assert!(View::of(text).is_none(), "{text:?}");
        }
    }
}
