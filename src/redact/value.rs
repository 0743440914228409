//! The value of a name: its extent, and whether it is a secret or a placeholder.

use std::cell::Cell;
use std::ops::Range;

use super::MARKER_PREFIX;

/// Bytes that end a value without quotes.
pub const VALUE_TERMINATORS: &[u8] = b",;&|<>)}]";
/// Maximum bytes of a value.
const MAX_VALUE_BYTES: usize = 8_192;
/// Maximum bytes of a value by which its kind is told. No placeholder is longer, and all of many long values would take too long.
const MAX_SAMPLE_BYTES: usize = 96;

/// Number of sorts of values whose latest measurements are remembered: as many as there are lists of terminators.
const MAX_SORTS: usize = 6;

/// The last value of each sort that was measured: values within it end where it does. Names of several sorts may take turns.
#[derive(Debug, Default)]
pub struct LastValue(Cell<[(usize, usize, usize); MAX_SORTS]>);

impl LastValue {
    /// The end of a value of a sort, as measured before or now.
    fn end(&self, sort: usize, start: usize, measure: impl FnOnce() -> usize) -> usize {
        let mut all = self.0.get();
        let known = all.iter().position(|(.., of)| *of == sort);
        if let Some((_, end, _)) = known.map(|at| all[at]).filter(|(known, end, _)| *known <= start && start < *end) {
            return end;
        }
        let end = measure();
        // The oldest sort makes room.
        all[..=known.unwrap_or(MAX_SORTS - 1)].rotate_right(1);
        all[0] = (start, end, sort);
        self.0.set(all);
        end
    }
}

/// The latest measurements of a text: a value without quotes, by its terminators, and a word of a sentence.
pub type LastValues = (LastValue, LastValue);

/// A value in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueSpan {
    /// Its range, without its quotes.
    pub range: Range<usize>,
    /// Its quote, if it has one.
    pub quote: Option<u8>,
}

/// A text, with a flag for JSON: there, the end of a string ends every value.
#[derive(Clone, Copy, Debug)]
pub struct ScannedText<'t> {
    /// The text.
    pub text: &'t str,
    is_json: bool,
    last_bare: &'t LastValue,
    last_word: &'t LastValue,
}

impl<'t> ScannedText<'t> {
    pub fn new(text: &'t str, last: &'t LastValues) -> Self {
        Self { text, is_json: text.trim_start().starts_with(['{', '[', '"']), last_bare: &last.0, last_word: &last.1 }
    }

    /// `true` if the text is JSON and a string of it starts or ends within a range.
    pub fn crosses_string(&self, range: Range<usize>) -> bool {
        let bytes = &self.text.as_bytes()[range];
        let mut is_escaped = false;
        self.is_json
            && bytes.iter().any(|byte| {
                let is_quote = *byte == b'"' && !is_escaped;
                is_escaped = *byte == b'\\' && !is_escaped;
                is_quote
            })
    }

    /// The byte at a position; 0 after the end.
    pub fn byte(&self, at: usize) -> u8 {
        self.text.as_bytes().get(at).copied().unwrap_or(0)
    }

    /// `true` if the text is JSON and a string of it starts or ends there.
    pub fn is_string_quote(&self, at: usize) -> bool {
        self.is_json && self.byte(at) == b'"'
    }

    /// `true` if the text is JSON and a string of it has ended just before, so that the following is in no string.
    pub fn is_after_string(&self, at: usize) -> bool {
        let Some(quote) = at.checked_sub(1).filter(|quote| self.is_string_quote(*quote)) else { return false };
        let before = self.text[..quote].trim_end_matches([' ', '\t', '\n', '\r']).chars().next_back();
        // A string begins behind these, and an escaped quote is no end.
        before.is_some_and(|before| !":,[{\\".contains(before))
    }

    /// For each of some positions in order, if the text is JSON: whether it is in a string, and the start of the escape it is in,
    /// else itself.
    pub fn places_in_json(&self, positions: &[usize]) -> Vec<(bool, usize)> {
        let bytes = self.text.as_bytes();
        let (mut at, mut last, mut is_within) = (0, 0, false);
        let mut place = |position: usize| {
            while at < position {
                last = at;
                at += match bytes[at] {
                    b'\\' if is_within && self.byte(at + 1) == b'u' => 6,
                    b'\\' if is_within => 2,
                    _ => 1,
                };
                is_within ^= bytes[last] == b'"';
            }
            (is_within, if at > position { last } else { position })
        };
        positions.iter().map(|position| place(*position)).collect()
    }

    /// `true` if the text is JSON.
    pub fn is_json(&self) -> bool {
        self.is_json
    }

    /// Number of backslashes at a position.
    pub fn backslashes(&self, at: usize) -> usize {
        self.text.as_bytes()[at.min(self.text.len())..].iter().take_while(|byte| **byte == b'\\').count()
    }

    /// The position after blanks.
    pub fn skip_blanks(&self, mut at: usize) -> usize {
        while matches!(self.byte(at), b' ' | b'\t') {
            at += 1;
        }
        at
    }

    /// `true` if a line ends there; in JSON, an escape ends one.
    pub fn is_line_end(&self, at: usize) -> bool {
        match self.byte(at) {
            b'\n' | b'\r' | b'#' => true,
            0 => at >= self.text.len(),
            b'"' => self.is_json,
            b'\\' => matches!(self.byte(at + 1), b'n' | b'r'),
            _ => false,
        }
    }

    /// The value that starts there. A value without quotes ends at one of the bytes in `bare`, at white space or at a quote.
    pub fn value(&self, at: usize, bare: &[u8]) -> ValueSpan {
        self.quoted_value(at).unwrap_or_else(|| ValueSpan { range: at..self.bare_end(at, bare), quote: None })
    }

    /// The value in quotes that starts there, if one does.
    pub fn quoted_value(&self, at: usize) -> Option<ValueSpan> {
        let slashes = self.backslashes(at);
        let quote = self.byte(at + slashes);
        let is_quoted = matches!(quote, b'"' | b'\'' | b'`') && (slashes == 0 || slashes % 2 == 1);
        let start = at + slashes + 1;
        is_quoted.then(|| ValueSpan { range: start..self.quoted_end(start, quote, slashes), quote: Some(quote) })
    }

    /// End of a quoted value. Nested quotes are escaped; one of this depth ends the value. An unclosed value ends with its line.
    fn quoted_end(&self, start: usize, quote: u8, depth: usize) -> usize {
        let mut at = start;
        let limit = start + MAX_VALUE_BYTES;
        while at < self.text.len() && at < limit {
            match self.byte(at) {
                b'\n' | b'\r' => return at,
                b'\\' => {
                    let run = self.backslashes(at);
                    let next = self.byte(at + run);
                    let is_even = run.is_multiple_of(2);
                    match next {
                        // A quote that is escaped as the first one was ends the value; one that is escaped more is in it.
                        _ if next == quote && depth > 0 && run <= depth => return at,
                        _ if next == quote && depth == 0 && is_even => return at + run,
                        b'"' if is_even && (self.is_json || depth > 0) => return at + run,
                        0 => return at,
                        // An escape is taken as a whole.
                        _ => at += run + if is_even { 0 } else { next_char(self.text, at + run) },
                    }
                }
                byte if byte == quote => return at,
                b'"' if self.is_json || depth > 0 => return at,
                _ => at += 1,
            }
        }
        self.boundary(at)
    }

    fn bare_end(&self, start: usize, bare: &[u8]) -> usize {
        self.last_bare.end(bare.as_ptr() as usize, start, || self.measure_bare(start, bare))
    }

    /// The end of a word there, which `measure` finds: each is measured once.
    pub fn word_end(&self, start: usize, measure: impl FnOnce() -> usize) -> usize {
        self.last_word.end(1, start, measure)
    }

    fn measure_bare(&self, start: usize, bare: &[u8]) -> usize {
        let mut at = start;
        let limit = start + MAX_VALUE_BYTES;
        while at < self.text.len() && at < limit {
            match self.byte(at) {
                b'\\' if matches!(self.byte(at + 1), b'n' | b'r' | b't' | b'"' | b'\'' | b'\n' | b'\r' | 0) => return at,
                b'\\' => at += 1 + next_char(self.text, at + 1),
                byte if byte.is_ascii_whitespace() || byte.is_ascii_control() => return at,
                b'"' | b'\'' | b'`' => return at,
                b'&' if bare.contains(&b'&') && !self.is_end_of_parameter(at) => at += 1,
                byte if bare.contains(&byte) => return at,
                _ => at += 1,
            }
        }
        self.boundary(at)
    }

    /// `true` if `&` ends a value: the next parameter follows, or another command. Passwords have it within as well.
    fn is_end_of_parameter(&self, at: usize) -> bool {
        const LONGEST_NAME: usize = 40;
        let rest = &self.text.as_bytes()[at + 1..];
        let is_of_name = |byte: &&u8| byte.is_ascii_alphanumeric() || b"_-.[]%;".contains(*byte);
        let name = rest.iter().take(LONGEST_NAME).take_while(is_of_name).count();
        let behind = rest.get(name).copied().unwrap_or(b' ');
        (name > 0 && behind == b'=')
            || (name == 0 && !behind.is_ascii_graphic())
            || rest.starts_with(b"&")
            || rest.starts_with(b"amp;")
            || (name == 0 && b"\"'>)".contains(&behind))
    }

    /// The start of the character at a position.
    pub fn boundary(&self, at: usize) -> usize {
        self.text.floor_char_boundary(at)
    }
}

fn next_char(text: &str, at: usize) -> usize {
    text.get(at..).and_then(|rest| rest.chars().next()).map_or(1, char::len_utf8)
}

/// Words that are placeholders for a secret, or mean that there is none.
const PLACEHOLDER_WORDS: &[&str] = &[
    "null",
    "none",
    "nil",
    "true",
    "false",
    "undefined",
    "changeme",
    "change_me",
    "change-me",
    "changeit",
    "replaceme",
    "example",
    "sample",
    "placeholder",
    "dummy",
    "fake",
    "todo",
    "tbd",
    "fixme",
    "required",
    "optional",
    "string",
    "text",
    "value",
    "password",
    "passwd",
    "passphrase",
    "pass",
    "secret",
    "token",
    "apikey",
    "api_key",
    "api-key",
    "key",
    "redacted",
    "hidden",
    "masked",
    "empty",
    "unset",
    "default",
    "passwort",
    "kennwort",
    "contraseña",
    "senha",
    "wachtwoord",
    "hasło",
    "пароль",
    "密码",
    "パスワード",
    "비밀번호",
    "username",
    "user",
    "test",
    "number",
    "integer",
    "boolean",
    "bool",
    "object",
    "array",
    "bytes",
    "any",
    "unknown",
    "never",
    "void",
    "str",
    "int",
    "char",
    "varchar",
    "bearer",
    "basic",
    "prompt",
    "stdin",
    "file",
    "env",
    "inherit",
    "yes",
    "no",
];

/// Prefixes of references to a value that is stored elsewhere.
const REFERENCE_PREFIXES: &[&str] = &[
    "process.env",
    "os.environ",
    "os.getenv",
    "import.meta.env",
    "std::env",
    "env::",
    "env.",
    "env(",
    "env[",
    "secrets.",
    "vars.",
    "vault:",
    "vault.",
    "secretkeyref",
    "op://",
    "http://",
    "https://",
    "file://",
    "ssm:",
    "arn:aws:",
    "!ref",
    "!sub",
    "!vault",
    "sha256:",
    "{{",
    "#{",
    "${{",
];

/// Prefixes and suffixes of text that a reader is to replace.
const FILL_IN_AFFIXES: (&[&str], &[&str]) = (
    &[
        "your", "<", "[", "(", "insert", "replace", "enter", "put_", "my_", "my-", "some_", "some-", "xxx", "...", "…", "***",
        "•", "todo",
    ],
    &["here", "example", "_name", "-name", "-stub", "-dummy", "-fake", "-placeholder", "..."],
);

/// The first of these words that a text starts with. Most differ in their first byte already.
pub fn start_among(text: &str, words: &'static [&'static str]) -> Option<&'static str> {
    let first = *text.as_bytes().first()?;
    words.iter().copied().find(|word| word.as_bytes()[0] == first && text.starts_with(word))
}

/// `true` if a text is one of these words. Most differ in their first byte already.
fn is_among(text: &str, words: &[&str]) -> bool {
    let first = text.as_bytes().first();
    words.iter().any(|word| word.as_bytes().first() == first && *word == text)
}

/// `true` if a text ends with one of these words. Most differ in their last byte already.
pub fn ends_among(text: &str, words: &[&str]) -> bool {
    let last = text.as_bytes().last();
    words.iter().any(|word| word.as_bytes().last() == last && text.ends_with(word))
}

/// `true` for a placeholder that is no secret: a variable, an example, a blank to be filled in.
pub fn is_placeholder(value: &str) -> bool {
    const SHORTEST: usize = 4;
    let value = sample(value).trim();
    if value.len() < SHORTEST || (value.contains('[') && value.contains(MARKER_PREFIX)) || is_variable(value) {
        return true;
    }
    let lower = value.to_lowercase();
    let bare = lower.trim_matches(|c: char| !c.is_alphanumeric());
    let mut characters = bare.chars();
    let first = characters.next();
    is_among(bare, PLACEHOLDER_WORDS)
        || characters.all(|character| Some(character) == first)
        || start_among(&lower, REFERENCE_PREFIXES).is_some()
        || start_among(&lower, FILL_IN_AFFIXES.0).is_some()
        || ends_among(&lower, FILL_IN_AFFIXES.1)
        || is_path(value)
}

/// The start of a value, by which its kind is told.
pub fn sample(value: &str) -> &str {
    &value[..value.floor_char_boundary(MAX_SAMPLE_BYTES)]
}

/// `true` for `$NAME`, `${…}`, `$(…)`, `%NAME%`, `{name}`, `%s`.
fn is_variable(value: &str) -> bool {
    let is_name = |name: &str| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b':' | b'-'))
    };
    if let Some(name) = value.strip_prefix('$') {
        let name = name.strip_prefix("env:").unwrap_or(name);
        return name.starts_with(['{', '(']) || is_name(name);
    }
    let within =
        |open: char, close: char| value.strip_prefix(open).and_then(|rest| rest.strip_suffix(close)).is_some_and(is_name);
    within('%', '%')
        || within('{', '}')
        || value.strip_prefix('%').is_some_and(|rest| rest.starts_with(['s', '(', 'd', 'v', 'q']))
        || value.contains("${")
        || value.contains("{{")
}

/// `true` for the path of a file, which may have the secret but is none.
fn is_path(value: &str) -> bool {
    let begins = value.starts_with("./") || value.starts_with("../") || value.starts_with("~/") || value.starts_with('/');
    let is_plain =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'-' | b'.' | b'/' | b'~');
    begins && value.bytes().all(is_plain) && value.bytes().filter(|byte| *byte == b'/').count() > 0
}

/// Words of sentences about secrets that are shown to people.
const PROSE_WORDS: &[&str] = &[
    "password",
    "passwords",
    "passphrase",
    "secret",
    "token",
    "key",
    "your",
    "enter",
    "must",
    "please",
    "is",
    "are",
    "the",
    "invalid",
    "required",
    "forgot",
    "confirm",
    "wrong",
    "incorrect",
    "reset",
    "new",
    "old",
    "repeat",
    "not",
    "use",
    "used",
    "for",
];

/// `true` if a value is text for people and not for a program.
pub fn is_prose(value: &str) -> bool {
    let value = sample(value);
    let mut words = value.split(|c: char| !c.is_alphabetic()).filter(|word| !word.is_empty());
    value.trim().contains(char::is_whitespace) && words.any(|word| PROSE_WORDS.contains(&word.to_lowercase().as_str()))
}

/// `true` if a value looks generated: letters and digits, or both cases without a pattern of words.
pub fn looks_random(value: &str) -> bool {
    let bytes = sample(value).as_bytes();
    let (digits, letters) = (count(bytes, u8::is_ascii_digit), count(bytes, u8::is_ascii_alphabetic));
    digits >= 2 && letters >= 2
        || digits + letters >= 12 && count(bytes, u8::is_ascii_uppercase) >= 3 && count(bytes, u8::is_ascii_lowercase) >= 3
}

/// Number of bytes of a kind in a sample. A sum of bytes takes a quarter of the time of a sum of words, and no sample overflows it.
pub fn count(sample: &[u8], is: impl Fn(&u8) -> bool) -> usize {
    const CHUNK: usize = u8::MAX as usize;
    sample.chunks(CHUNK).map(|part| usize::from(part.iter().map(|byte| u8::from(is(byte))).sum::<u8>())).sum()
}

/// `true` for a name or a path of names in code: `config.token`, `next_token`, `T::Token`.
pub fn is_identifier(value: &str) -> bool {
    let value = sample(value);
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b':' | b'?' | b'*' | b'&' | b'$');
    !value.starts_with(|c: char| c.is_ascii_digit()) && value.bytes().all(is_inner)
}

/// `true` if all of a value is a call: `get_token()`.
pub fn is_call(value: &str) -> bool {
    let name = || sample(value).find(['(', '[']).map(|at| &value[..at]);
    value.ends_with([')', ']']) && name().is_some_and(|name| !name.is_empty() && is_identifier(name))
}

/// `true` if a value contains a call or an index, or starts with an operator: `getpass()`, `tokens[0]`.
pub fn is_expression(value: &str) -> bool {
    let value = sample(value);
    memchr::memchr2(b'(', b'[', value.as_bytes()).is_some() || value.starts_with(['&', '*', '!', '{', '+', '=', '-', '/'])
}
