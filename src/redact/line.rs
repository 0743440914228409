/*!
Secrets in a line of a transcript: bytes of JSON that stay as they are but for the secrets.

Nothing is printed anew. The line is gone through once; each string is seen as it is meant, with the name of its key, and what is a secret in
it is cut out of the bytes. What the client finds its way by is never touched, nor are images and the like. A line that is no JSON is a
text.
*/

use std::borrow::Cow;
use std::ops::Range;

use aho_corasick::AhoCorasick;

use super::names::{self, Name};
use super::{Found, MOST_PASSES, Redactor, Secret, mark};

/// Bytes of a string that is nothing but base64 from which on it is an image or the like, and no key.
const BLOB: usize = 512;
/// The same where such a thing is expected.
const SHORT_BLOB: usize = 64;

/// Bytes of a name that no secret is as short as, if it has only letters, digits and underscores.
const SHORT_KEY: usize = 16;

/// Values are nested no deeper in what any parser reads.
const DEEPEST: usize = 512;

/// Fields of a line by which the client knows what it is, and what belongs together.
const OF_A_LINE: &[&str] = &[
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
/// The same of a message, and of a block of it. Signatures are checked by the API.
const OF_A_MESSAGE: &[&str] = &["type", "role", "id", "stop_reason"];
const OF_A_BLOCK: &[&str] = &["type", "id", "tool_use_id", "signature"];
const OF_A_SOURCE: &[&str] = &["type", "media_type"];
const OF_A_RESULT: &[&str] = &["agentId"];

/// Where in a line a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// The line itself.
    Line,
    /// What is said.
    Message,
    /// Its blocks, or those of a block.
    Content,
    /// One of them.
    Block,
    /// An image or a document.
    Source,
    /// What the client notes down of a tool's result.
    Result,
    /// Anything else, of which nothing is known.
    Other,
}

impl Place {
    /// The place of the value of a field.
    fn field(self, key: &str) -> Self {
        match (self, key) {
            (Self::Line, "message") => Self::Message,
            (Self::Line, "toolUseResult") => Self::Result,
            (Self::Message | Self::Block, "content") => Self::Content,
            (Self::Block, "source") => Self::Source,
            _ => Self::Other,
        }
    }

    /// The place of the items of a list.
    fn item(self) -> Self {
        if self == Self::Content { Self::Block } else { Self::Other }
    }

    /// Whether a field is one of the client's own.
    fn is_fixed(self, key: &str) -> bool {
        let fixed = match self {
            Self::Line => OF_A_LINE,
            Self::Message => OF_A_MESSAGE,
            Self::Block => OF_A_BLOCK,
            Self::Source => OF_A_SOURCE,
            Self::Result => OF_A_RESULT,
            Self::Content | Self::Other => &[],
        };
        fixed.contains(&key)
    }
}

/// What is known of a value before it is read.
#[derive(Clone, Copy, Debug)]
struct About {
    /// What its key announces, and what it announces of each item, should it be a list.
    name: Option<Name>,
    of_items: Option<Name>,
    place: Place,
    /// Whether it stays as it is.
    is_fixed: bool,
    /// Whether it is likely to be base64.
    is_data: bool,
}

/// An object or a list that is open.
#[derive(Debug)]
struct Open {
    is_list: bool,
    place: Place,
    /// Of a list: what is known of its items.
    items: Option<Name>,
}

/// What comes out of the bytes.
#[derive(Debug)]
struct Cut {
    range: Range<usize>,
    rule: &'static str,
    /// Whether it is a number, in whose place a string has to be.
    is_bare: bool,
}

impl Redactor {
    /// A line of a transcript with `[redacted:RULE]` for each secret, and how many there were by rule; borrowed where there were none. What is
    /// JSON stays JSON, and every byte that is no secret stays; so does a line end.
    pub fn redact_line<'l>(&self, line: &'l [u8]) -> (Cow<'l, [u8]>, Found) {
        let mut found = Found::new();
        let mut redacted = Cow::Borrowed(line);
        // What was beside a secret may be seen as one when that is gone.
        for _ in 0..MOST_PASSES {
            let mut scan = Scan::of(self, &redacted);
            let cuts = if scan.value().is_some() { scan.cuts } else { self.cuts_of_text(&redacted) };
            if cuts.is_empty() {
                break;
            }
            let mut clean = Vec::with_capacity(redacted.len());
            let mut done = 0;
            for Cut { range, rule, is_bare } in cuts {
                let quote: &[u8] = if is_bare { b"\"" } else { b"" };
                clean.extend_from_slice(&redacted[done..range.start]);
                clean.extend([quote, mark(rule).as_bytes(), quote].concat());
                done = range.end;
                *found.entry(rule).or_default() += 1;
            }
            clean.extend_from_slice(&redacted[done..]);
            redacted = Cow::Owned(clean);
        }
        (redacted, found)
    }

    fn cuts_of_text(&self, bytes: &[u8]) -> Vec<Cut> {
        let secrets = self.secrets(&String::from_utf8_lossy(bytes));
        if secrets.is_empty() { Vec::new() } else { cuts(secrets, &Map::of_text(bytes), 0) }
    }
}

fn cuts(secrets: Vec<Secret>, map: &Map, start: usize) -> Vec<Cut> {
    let cut = |Secret { rule, range }: Secret| Cut {
        range: start + map.byte(range.start)..start + map.byte(range.end),
        rule,
        is_bare: false,
    };
    secrets.into_iter().map(cut).collect()
}

/// Goes through a line.
struct Scan<'s> {
    redactor: &'s Redactor,
    automaton: &'s AhoCorasick,
    bytes: &'s [u8],
    at: usize,
    cuts: Vec<Cut>,
}

impl<'s> Scan<'s> {
    fn of(redactor: &'s Redactor, bytes: &'s [u8]) -> Self {
        Self { redactor, automaton: redactor.words.fast(), bytes, at: 0, cuts: Vec::new() }
    }

    /// The value that the line is; nothing when it is none.
    fn value(&mut self) -> Option<()> {
        let mut open: Vec<Open> = Vec::new();
        let mut about = About { name: None, of_items: None, place: Place::Line, is_fixed: false, is_data: false };
        loop {
            // Here a value begins.
            self.skip_blanks();
            match *self.bytes.get(self.at)? {
                bracket @ (b'{' | b'[') if open.len() < DEEPEST => {
                    self.at += 1;
                    open.push(Open { is_list: bracket == b'[', place: about.place, items: about.of_items });
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

    /// What is known of the next value in there; of an object, its key is read.
    fn next(&mut self, inner: &Open) -> Option<About> {
        if inner.is_list {
            let name = inner.items;
            return Some(About { name, of_items: name, place: inner.place.item(), is_fixed: false, is_data: false });
        }
        self.skip_blanks();
        let range = self.quoted()?;
        let about = self.key(range, inner.place);
        self.skip_blanks();
        (self.bytes.get(self.at) == Some(&b':')).then_some(())?;
        self.at += 1;
        Some(about)
    }

    fn key(&mut self, range: Range<usize>, place: Place) -> About {
        let raw = &self.bytes[range.clone()];
        let key = meant(raw);
        let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        let is_known = place != Place::Other && raw.iter().all(is_plain);
        let is_short = raw.len() < SHORT_KEY && raw.iter().all(is_plain) && self.redactor.extra.is_empty();
        if !is_known && !is_short {
            let secrets = self.redactor.secrets_by(self.automaton, &key);
            if !secrets.is_empty() {
                self.cuts.extend(cuts(secrets, &Map::of_string(raw), range.start));
            }
        }
        let (name, of_items) = names::of_key(&key);
        About {
            name,
            of_items,
            place: place.field(&key),
            is_fixed: place.is_fixed(&key),
            is_data: matches!(place, Place::Source | Place::Block) && key == "data",
        }
    }

    fn string(&mut self, about: About) -> Option<()> {
        let range = self.quoted()?;
        let raw = &self.bytes[range.clone()];
        if about.is_fixed || (about.is_data && is_base64(raw, SHORT_BLOB)) {
            return Some(());
        }
        if about.name.is_none() && is_base64(raw, BLOB) {
            return Some(());
        }
        let text = meant(raw);
        let named = self.redactor.named(&text, about.name);
        let secrets = named.map_or_else(|| self.redactor.secrets_by(self.automaton, &text), |secret| vec![secret]);
        if !secrets.is_empty() {
            self.cuts.extend(cuts(secrets, &Map::of_string(raw), range.start));
        }
        Some(())
    }

    /// Where the string is that begins here, without its quotes; goes on behind it.
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
    fn literal(&mut self, about: About) -> Option<()> {
        let is_part = |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.');
        let start = self.at;
        let literal = &self.bytes[start..];
        let literal = &literal[..literal.iter().take_while(is_part).count()];
        self.at += literal.len();
        let is_number = literal.first()?.is_ascii_digit() || literal.starts_with(b"-");
        if is_number && !about.is_fixed && (about.name.is_some() || !self.redactor.extra.is_empty()) {
            let number = std::str::from_utf8(literal).ok().and_then(|digits| self.redactor.number(digits, about.name));
            self.cuts.extend(number.map(|rule| Cut { range: start..self.at, rule, is_bare: true }));
        }
        Some(())
    }

    fn skip_blanks(&mut self) {
        while matches!(self.bytes.get(self.at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }
}

/// Whether it is nothing but so many characters of base64, of either alphabet.
fn is_base64(raw: &[u8], least: usize) -> bool {
    if raw.len() < least {
        return false;
    }
    let end = raw.iter().rposition(|byte| *byte != b'=').map_or(0, |last| last + 1);
    raw[..end].iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_'))
}

/// What a string means.
fn meant(raw: &[u8]) -> Cow<'_, str> {
    if memchr::memchr(b'\\', raw).is_none() {
        return std::str::from_utf8(raw).map_or_else(|_| String::from_utf8_lossy(raw), Cow::Borrowed);
    }
    let mut text = String::with_capacity(raw.len());
    pieces(raw, true, |piece, _| text.push_str(piece));
    Cow::Owned(text)
}

/// Where the characters of a text are in the bytes that it was read from.
#[derive(Debug, Default)]
struct Map(Vec<(usize, usize)>);

impl Map {
    fn of_string(raw: &[u8]) -> Self {
        Self::of(raw, true)
    }

    fn of_text(raw: &[u8]) -> Self {
        Self::of(raw, false)
    }

    fn of(raw: &[u8], has_escapes: bool) -> Self {
        let mut map = Self(vec![(0, 0)]);
        let (mut text, mut byte) = (0, 0);
        pieces(raw, has_escapes, |piece, bytes| {
            map.0.push((text, byte));
            text += piece.len();
            byte += bytes;
        });
        map.0.push((text, byte));
        map
    }

    /// The byte at which the character begins that is at a place of the text.
    fn byte(&self, place: usize) -> usize {
        let (text, byte) = self.0[self.0.partition_point(|(text, _)| *text <= place).saturating_sub(1)];
        byte + (place - text)
    }
}

/// Hands over what a string means piece by piece, each with the bytes that it takes: runs that stand for themselves, escapes, and what is no
/// UTF-8, as the replacement character.
fn pieces(raw: &[u8], has_escapes: bool, mut sink: impl FnMut(&str, usize)) {
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

/// The character of the escape that stands first, and its bytes. What is none stands for its backslash.
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
            let meant = meant(&text.as_bytes()[1..text.len() - 1]);
            assert_eq!(meant, serde_json::from_str::<String>(text).expect("JSON"), "{text}");
        }
        assert_eq!(meant(br"\ud83dx\q\u12"), "\u{fffd}x\\q\\u12");
        assert_eq!(meant(b"a\xffb\\"), "a\u{fffd}b\\");
    }

    proptest! {
        #[test]
        fn places_are_found_again(text in "[a-c\n\"\\\\\u{1}ü😀]{0,30}") {
            let json = serde_json::to_string(&text).expect("a string");
            let raw = &json.as_bytes()[1..json.len() - 1];
            prop_assert_eq!(meant(raw), &*text);
            let map = Map::of_string(raw);
            for (start, character) in text.char_indices() {
                let piece = &raw[map.byte(start)..map.byte(start + character.len_utf8())];
                prop_assert_eq!(meant(piece), character.to_string());
            }
            prop_assert_eq!((map.byte(0), map.byte(text.len())), (0, raw.len()));
        }

        #[test]
        fn what_is_json_is_gone_through(value in json(), spaced in any::<bool>()) {
            let text = if spaced { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) }.expect("JSON");
            let redactor = Redactor::standard();
            let mut scan = Scan::of(redactor, text.as_bytes());
            prop_assert_eq!(scan.value(), Some(()));
            for end in 1..text.len() {
                let cut = &text.as_bytes()[..end];
                let mut scan = Scan::of(redactor, cut);
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
