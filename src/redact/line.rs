/*!
Secrets in a line of a transcript: all bytes of the JSON except the secrets stay as they are.

Nothing is reformatted. The line is scanned once: each string is decoded and checked with the name of its key, and its
secrets are cut out of the bytes. Fields that the client relies on are never touched, nor are images and the like. A line
that is not JSON is treated as text.
*/

use std::borrow::Cow;
use std::ops::Range;

use super::names::{self, SecretKind};
use super::{MAX_PASSES, RedactionCounts, Redactor, SecretSpan, base64, marker};

/// Minimum bytes of a base64 string that is treated as an image or the like, and not as a key.
const MIN_BLOB_BYTES: usize = 512;
/// The same where such data is expected.
const MIN_DATA_BLOB_BYTES: usize = 64;

/// Keys of letters, digits and underscores that are shorter, in bytes, cannot contain a secret.
const MIN_SECRET_KEY_BYTES: usize = 16;

/// Maximum nesting of values. Parsers do not accept more.
const MAX_LINE_DEPTH: usize = 512;

/// Fields by which the client identifies and links lines.
const FIXED_LINE_FIELDS: &[&str] = &[
    "type",
    "subtype",
    "uuid",
    "parentUuid",
    "logicalParentUuid",
    "leafUuid",
    "sessionId",
    "session_id",
    "requestId",
    "request_id",
    "messageId",
    "promptId",
    "agentId",
    "timestamp",
    "toolUseID",
    "parentToolUseID",
    "parent_tool_use_id",
    "sourceToolUseID",
    "sourceToolAssistantUUID",
    "hash",
];
/// The same for a message, and for a block of it. Signatures are checked by the API.
const FIXED_MESSAGE_FIELDS: &[&str] = &["type", "role", "id", "stop_reason"];
const FIXED_BLOCK_FIELDS: &[&str] = &["type", "id", "tool_use_id", "signature"];
const FIXED_SOURCE_FIELDS: &[&str] = &["type", "media_type"];
const FIXED_RESULT_FIELDS: &[&str] = &["agentId"];

/// Position of a value in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LinePosition {
    /// The line itself.
    Line,
    /// The message.
    Message,
    /// The list of blocks of a message or of a block.
    Content,
    /// A block.
    Block,
    /// An image or a document.
    Source,
    /// The client's record of a tool's result.
    Result,
    /// Anything else.
    Other,
}

impl LinePosition {
    /// The position of a field's value.
    fn field(self, key: &str) -> Self {
        match (self, key) {
            (Self::Line, "message") => Self::Message,
            (Self::Line, "toolUseResult") => Self::Result,
            (Self::Message | Self::Block, "content") => Self::Content,
            (Self::Block, "source") => Self::Source,
            _ => Self::Other,
        }
    }

    /// The position of a list's items.
    fn item(self) -> Self {
        if self == Self::Content { Self::Block } else { Self::Other }
    }

    /// `true` if a field belongs to the client and is never redacted.
    fn is_fixed(self, key: &str) -> bool {
        let fixed = match self {
            Self::Line => FIXED_LINE_FIELDS,
            Self::Message => FIXED_MESSAGE_FIELDS,
            Self::Block => FIXED_BLOCK_FIELDS,
            Self::Source => FIXED_SOURCE_FIELDS,
            Self::Result => FIXED_RESULT_FIELDS,
            Self::Content | Self::Other => &[],
        };
        fixed.contains(&key)
    }
}

/// Context of a value, known before it is read.
#[derive(Clone, Copy, Debug)]
struct ValueContext {
    /// The kind of secret that its key announces, and the kind for each item if it is a list.
    name: Option<SecretKind>,
    of_items: Option<SecretKind>,
    place: LinePosition,
    /// `true` if it is never redacted.
    is_fixed: bool,
    /// `true` if it is likely to be base64.
    is_data: bool,
}

/// An object or a list that is open.
#[derive(Debug)]
struct OpenContainer {
    is_list: bool,
    place: LinePosition,
    /// The kind of secret that a list's items are.
    items: Option<SecretKind>,
}

/// A range of bytes to replace.
#[derive(Debug)]
struct SecretCut {
    range: Range<usize>,
    rule: &'static str,
    /// `true` for a number, whose replacement needs quotes.
    is_bare: bool,
}

impl Redactor {
    /// Replaces each secret in a transcript's line by `[redacted:RULE]`, and counts them by rule. The result is borrowed if there
    /// are none. JSON stays valid JSON, and every byte outside of secrets stays, including the line end.
    pub fn redact_line<'l>(&self, line: &'l [u8]) -> (Cow<'l, [u8]>, RedactionCounts) {
        let (redacted, marks) = self.mark_line(line);
        let mut found = RedactionCounts::new();
        for SecretSpan { rule, .. } in marks {
            *found.entry(rule).or_default() += 1;
        }
        (redacted, found)
    }

    /// The same, with the ranges of the new marks in the result, in order.
    pub(super) fn mark_line<'l>(&self, line: &'l [u8]) -> (Cow<'l, [u8]>, Vec<SecretSpan>) {
        let mut marks = Vec::new();
        let mut redacted = Cow::Borrowed(line);
        // What was beside a secret may be seen as one when that is gone.
        for _ in 0..MAX_PASSES {
            let mut scan = LineScanner::of(self, &redacted);
            let cuts = if scan.value().is_some() { scan.cuts } else { self.cuts_of_text(&redacted) };
            if cuts.is_empty() {
                break;
            }
            redacted = Cow::Owned(replace(&redacted, cuts, &mut marks));
        }
        (redacted, marks)
    }

    fn cuts_of_text(&self, bytes: &[u8]) -> Vec<SecretCut> {
        let secrets = self.secrets(&String::from_utf8_lossy(bytes));
        if secrets.is_empty() { Vec::new() } else { cuts(secrets, &OffsetMap::of_text(bytes), 0) }
    }
}

/// The bytes with a mark in place of each cut. The ranges of marks move along, and those of the new ones join them.
fn replace(bytes: &[u8], cuts: Vec<SecretCut>, marks: &mut Vec<SecretSpan>) -> Vec<u8> {
    let mut clean = Vec::with_capacity(bytes.len());
    let mut done = 0;
    let mut old = std::mem::take(marks).into_iter().peekable();
    let mut move_up_to = |limit: usize, done: usize, shifted: usize, marks: &mut Vec<SecretSpan>| {
        while let Some(SecretSpan { rule, range }) = old.next_if(|mark| mark.range.start < limit) {
            let start = range.start - done + shifted;
            marks.push(SecretSpan { rule, range: start..start + range.len() });
        }
    };
    for SecretCut { range, rule, is_bare } in cuts {
        let quote: &[u8] = if is_bare { b"\"" } else { b"" };
        move_up_to(range.start, done, clean.len(), marks);
        clean.extend_from_slice(&bytes[done..range.start]);
        clean.extend_from_slice(quote);
        let start = clean.len();
        clean.extend_from_slice(marker(rule).as_bytes());
        marks.push(SecretSpan { rule, range: start..clean.len() });
        clean.extend_from_slice(quote);
        done = range.end;
    }
    move_up_to(bytes.len(), done, clean.len(), marks);
    clean.extend_from_slice(&bytes[done..]);
    clean
}

fn cuts(secrets: Vec<SecretSpan>, map: &OffsetMap, start: usize) -> Vec<SecretCut> {
    let cut = |SecretSpan { rule, range }: SecretSpan| SecretCut {
        range: start + map.byte(range.start)..start + map.byte(range.end),
        rule,
        is_bare: false,
    };
    secrets.into_iter().map(cut).collect()
}

/// Scanner of a line.
struct LineScanner<'s> {
    redactor: &'s Redactor,
    bytes: &'s [u8],
    at: usize,
    cuts: Vec<SecretCut>,
}

impl<'s> LineScanner<'s> {
    fn of(redactor: &'s Redactor, bytes: &'s [u8]) -> Self {
        Self { redactor, bytes, at: 0, cuts: Vec::new() }
    }

    /// Scans the line's value; `None` if it is not JSON.
    fn value(&mut self) -> Option<()> {
        let mut open: Vec<OpenContainer> = Vec::new();
        let mut about = ValueContext { name: None, of_items: None, place: LinePosition::Line, is_fixed: false, is_data: false };
        loop {
            // Here a value begins.
            self.skip_blanks();
            match *self.bytes.get(self.at)? {
                bracket @ (b'{' | b'[') if open.len() < MAX_LINE_DEPTH => {
                    self.at += 1;
                    open.push(OpenContainer { is_list: bracket == b'[', place: about.place, items: about.of_items });
                    self.skip_blanks();
                    if self.bytes.get(self.at) != Some(if bracket == b'[' { &b']' } else { &b'}' }) {
                        about = self.next(open.last()?)?;
                        continue;
                    }
                }
                b'"' => self.string(about)?,
                _ => self.literal(about)?,
            }
            // Here one has ended, or the brackets of an empty one are about to close.
            loop {
                self.skip_blanks();
                let Some(inner) = open.last() else { return (self.at == self.bytes.len()).then_some(()) };
                match *self.bytes.get(self.at)? {
                    b',' => {
                        self.at += 1;
                        about = self.next(inner)?;
                        break;
                    }
                    b']' if inner.is_list => self.at += 1,
                    b'}' if !inner.is_list => self.at += 1,
                    _ => return None,
                }
                open.pop();
            }
        }
    }

    /// The context of the next value in an open container. In an object, this reads its key.
    fn next(&mut self, inner: &OpenContainer) -> Option<ValueContext> {
        if inner.is_list {
            let name = inner.items;
            return Some(ValueContext { name, of_items: name, place: inner.place.item(), is_fixed: false, is_data: false });
        }
        self.skip_blanks();
        let range = self.quoted()?;
        let about = self.key(range, inner.place);
        self.skip_blanks();
        (self.bytes.get(self.at) == Some(&b':')).then_some(())?;
        self.at += 1;
        Some(about)
    }

    fn key(&mut self, range: Range<usize>, place: LinePosition) -> ValueContext {
        let raw = &self.bytes[range.clone()];
        let key = unescape(raw);
        let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        let is_known = place != LinePosition::Other && raw.iter().all(is_plain);
        let is_short = raw.len() < MIN_SECRET_KEY_BYTES && raw.iter().all(is_plain) && self.redactor.extra.is_empty();
        if !is_known && !is_short {
            let secrets = self.redactor.secrets(&key);
            if !secrets.is_empty() {
                self.cuts.extend(cuts(secrets, &OffsetMap::of_string(raw), range.start));
            }
        }
        let (name, of_items) = names::of_key(&key);
        ValueContext {
            name,
            of_items,
            place: place.field(&key),
            is_fixed: place.is_fixed(&key),
            is_data: matches!(place, LinePosition::Source | LinePosition::Block) && key == "data",
        }
    }

    fn string(&mut self, about: ValueContext) -> Option<()> {
        let range = self.quoted()?;
        let raw = &self.bytes[range.clone()];
        if about.is_fixed || (about.is_data && is_base64(raw, MIN_DATA_BLOB_BYTES)) {
            return Some(());
        }
        if about.name.is_none() && is_base64(raw, MIN_BLOB_BYTES) && !base64::is_text(raw) {
            return Some(());
        }
        let text = unescape(raw);
        let named = self.redactor.named(&text, about.name);
        let secrets = named.map_or_else(|| self.redactor.secrets(&text), |secret| vec![secret]);
        if !secrets.is_empty() {
            self.cuts.extend(cuts(secrets, &OffsetMap::of_string(raw), range.start));
        }
        Some(())
    }

    /// The range of the string that starts here, without its quotes. Moves behind it.
    fn quoted(&mut self) -> Option<Range<usize>> {
        (self.bytes.get(self.at) == Some(&b'"')).then_some(())?;
        let start = self.at + 1;
        let mut at = start;
        loop {
            at += memchr::memchr2(b'"', b'\\', self.bytes.get(at..)?)?;
            if self.bytes[at] == b'"' {
                self.at = at + 1;
                return Some(start..at);
            }
            at += 2;
        }
    }

    /// A number, `true`, `false`, `null`.
    fn literal(&mut self, about: ValueContext) -> Option<()> {
        let is_part = |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.');
        let start = self.at;
        let literal = &self.bytes[start..];
        let literal = &literal[..literal.iter().take_while(is_part).count()];
        self.at += literal.len();
        let is_number = literal.first()?.is_ascii_digit() || literal.starts_with(b"-");
        if is_number && !about.is_fixed && (about.name.is_some() || !self.redactor.extra.is_empty()) {
            let number = std::str::from_utf8(literal).ok().and_then(|digits| self.redactor.number(digits, about.name));
            self.cuts.extend(number.map(|rule| SecretCut { range: start..self.at, rule, is_bare: true }));
        }
        Some(())
    }

    fn skip_blanks(&mut self) {
        while matches!(self.bytes.get(self.at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }
}

/// `true` if the bytes are only base64, of either alphabet, and at least `least` long.
fn is_base64(raw: &[u8], least: usize) -> bool {
    if raw.len() < least {
        return false;
    }
    let end = raw.iter().rposition(|byte| *byte != b'=').map_or(0, |last| last + 1);
    raw[..end].iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_'))
}

/// The decoded text of a string.
pub(super) fn unescape(raw: &[u8]) -> Cow<'_, str> {
    if memchr::memchr(b'\\', raw).is_none() {
        return std::str::from_utf8(raw).map_or_else(|_| String::from_utf8_lossy(raw), Cow::Borrowed);
    }
    let mut text = String::with_capacity(raw.len());
    for_each_piece(raw, true, |piece, _| text.push_str(piece));
    Cow::Owned(text)
}

/// Map from positions in a decoded text to positions in its original bytes.
#[derive(Debug, Default)]
struct OffsetMap(Vec<(usize, usize)>);

impl OffsetMap {
    fn of_string(raw: &[u8]) -> Self {
        Self::of(raw, true)
    }

    fn of_text(raw: &[u8]) -> Self {
        Self::of(raw, false)
    }

    fn of(raw: &[u8], has_escapes: bool) -> Self {
        let mut map = Self(vec![(0, 0)]);
        let (mut text, mut byte) = (0, 0);
        for_each_piece(raw, has_escapes, |piece, bytes| {
            map.0.push((text, byte));
            text += piece.len();
            byte += bytes;
        });
        map.0.push((text, byte));
        map
    }

    /// The offset in the bytes of the character at a position of the text.
    fn byte(&self, place: usize) -> usize {
        let (text, byte) = self.0[self.0.partition_point(|(text, _)| *text <= place).saturating_sub(1)];
        byte + (place - text)
    }
}

/// Decodes a string piece by piece, each with the number of its original bytes: plain runs, escapes, and invalid UTF-8, which
/// becomes the replacement character.
fn for_each_piece(raw: &[u8], has_escapes: bool, mut sink: impl FnMut(&str, usize)) {
    let whole = std::str::from_utf8(raw);
    let mut rest = raw;
    while !rest.is_empty() {
        let run = if has_escapes { memchr::memchr(b'\\', rest).unwrap_or(rest.len()) } else { rest.len() };
        let start = raw.len() - rest.len();
        if let Some(run) = whole.ok().and_then(|text| text.get(start..start + run)) {
            sink(run, run.len());
        } else {
            for chunk in rest[..run].utf8_chunks() {
                sink(chunk.valid(), chunk.valid().len());
                if !chunk.invalid().is_empty() {
                    sink("\u{fffd}", chunk.invalid().len());
                }
            }
        }
        rest = &rest[run..];
        if !rest.is_empty() {
            let (character, bytes) = escape(rest);
            sink(character.encode_utf8(&mut [0; 4]), bytes);
            rest = &rest[bytes..];
        }
    }
}

/// The character of the escape at the start, and the number of its bytes. An invalid escape is a backslash.
fn escape(raw: &[u8]) -> (char, usize) {
    const SHORT: usize = 2;
    const LONG: usize = 6;
    let unit = |at: usize| {
        let digits = raw.get(at..at + LONG)?.strip_prefix(br"\u").filter(|digits| digits.iter().all(u8::is_ascii_hexdigit))?;
        u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    };
    let simple = match raw.get(1) {
        Some(b'n') => '\n',
        Some(b't') => '\t',
        Some(b'r') => '\r',
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'"') => '"',
        Some(b'\\') => '\\',
        Some(b'/') => '/',
        Some(b'u') => match (unit(0), unit(LONG)) {
            (Some(high @ 0xd800..=0xdbff), Some(low @ 0xdc00..=0xdfff)) => {
                let character = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
                return (char::from_u32(character).unwrap_or(char::REPLACEMENT_CHARACTER), 2 * LONG);
            }
            // Half a character: JavaScript writes such.
            (Some(unit), _) => return (char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER), LONG),
            (None, _) => return ('\\', 1),
        },
        _ => return ('\\', 1),
    };
    (simple, SHORT)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn escapes_mean_what_json_says() {
        for text in [r#""a\n\t\"\\\/\b\f\r""#, r#""\u0041\u00e9\ud83d\ude00x""#, r#""plain ü""#, r#""""#] {
            let meant = unescape(&text.as_bytes()[1..text.len() - 1]);
            assert_eq!(meant, serde_json::from_str::<String>(text).expect("JSON"), "{text}");
        }
        assert_eq!(unescape(br"\ud83dx\q\u12"), "\u{fffd}x\\q\\u12");
        assert_eq!(unescape(b"a\xffb\\"), "a\u{fffd}b\\");
    }

    proptest! {
        #[test]
        fn places_are_found_again(text in "[a-c\n\"\\\\\u{1}ü😀]{0,30}") {
            let json = serde_json::to_string(&text).expect("a string");
            let raw = &json.as_bytes()[1..json.len() - 1];
            prop_assert_eq!(unescape(raw), &*text);
            let map = OffsetMap::of_string(raw);
            for (start, character) in text.char_indices() {
                let piece = &raw[map.byte(start)..map.byte(start + character.len_utf8())];
                prop_assert_eq!(unescape(piece), character.to_string());
            }
            prop_assert_eq!((map.byte(0), map.byte(text.len())), (0, raw.len()));
        }

        #[test]
        fn what_is_json_is_gone_through(value in json(), spaced in any::<bool>()) {
            let text = if spaced { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) }.expect("JSON");
            let redactor = Redactor::standard();
            let mut scan = LineScanner::of(redactor, text.as_bytes());
            prop_assert_eq!(scan.value(), Some(()));
            for end in 1..text.len() {
                let cut = &text.as_bytes()[..end];
                let mut scan = LineScanner::of(redactor, cut);
                if scan.value().is_some() {
                    // Only a number, or a word, may be one without its end.
                    let is_open = [b'{', b'[', b'"'].contains(&text.as_bytes()[0]);
                    prop_assert!(!is_open || serde_json::from_slice::<serde_json::Value>(cut).is_ok());
                }
            }
        }
    }

    fn json() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<f64>().prop_map(Into::into),
            "[a\"\\\\\n]{0,6}".prop_map(Into::into),
        ];
        leaf.prop_recursive(4, 20, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
                proptest::collection::btree_map("[a\"]{0,3}", inner, 0..4)
                    .prop_map(|fields| serde_json::Value::Object(fields.into_iter().collect())),
            ]
        })
    }
}
