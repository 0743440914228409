//! The value of a name: how far it goes, and whether it is a secret or stands for one.

use std::ops::Range;

use super::MARK;

/// Bytes of a value at most.
const LONGEST: usize = 8_192;

/// A value, as it stands in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    /// Where, without its quotes.
    pub range: Range<usize>,
    /// Its quote; nothing where it has none.
    pub quote: Option<u8>,
}

/// A text and whether it is JSON as it stands: then, what ends a string of it ends every value.
#[derive(Clone, Copy, Debug)]
pub struct Text<'t> {
    /// The text.
    pub text: &'t str,
    is_json: bool,
}

impl<'t> Text<'t> {
    pub fn new(text: &'t str) -> Self {
        Self { text, is_json: text.trim_start().starts_with(['{', '[', '"']) }
    }

    /// The byte at a place; 0 behind the end.
    pub fn byte(&self, at: usize) -> u8 {
        self.text.as_bytes().get(at).copied().unwrap_or(0)
    }

    /// Whether a string of the JSON that this is ends, or begins, there.
    pub fn is_edge(&self, at: usize) -> bool {
        self.is_json && self.byte(at) == b'"'
    }

    /// Whether a string of the JSON that this is has ended just before: what follows is in none.
    pub fn is_behind_a_string(&self, at: usize) -> bool {
        let Some(quote) = at.checked_sub(1).filter(|quote| self.is_edge(*quote)) else { return false };
        let before = self.text[..quote].trim_end_matches([' ', '\t', '\n', '\r']).chars().next_back();
        // A string begins behind these, and an escaped quote is no end.
        before.is_some_and(|before| !":,[{\\".contains(before))
    }

    /// Whether it is JSON as it stands.
    pub fn is_json(&self) -> bool {
        self.is_json
    }

    /// How many backslashes are there.
    pub fn backslashes(&self, at: usize) -> usize {
        self.text.as_bytes()[at.min(self.text.len())..].iter().take_while(|byte| **byte == b'\\').count()
    }

    /// Behind blanks.
    pub fn skip_blanks(&self, mut at: usize) -> usize {
        while matches!(self.byte(at), b' ' | b'\t') {
            at += 1;
        }
        at
    }

    /// Whether a line ends there; in JSON, an escape ends one.
    pub fn line_ends(&self, at: usize) -> bool {
        match self.byte(at) {
            b'\n' | b'\r' | b'#' => true,
            0 => at >= self.text.len(),
            b'"' => self.is_json,
            b'\\' => matches!(self.byte(at + 1), b'n' | b'r'),
            _ => false,
        }
    }

    /// The value that begins there. `bare` says which bytes end one without quotes, besides white space and quotes.
    pub fn value(&self, at: usize, bare: &[u8]) -> Value {
        let slashes = self.backslashes(at);
        let quote = self.byte(at + slashes);
        if matches!(quote, b'"' | b'\'' | b'`') && (slashes == 0 || slashes % 2 == 1) {
            let start = at + slashes + 1;
            return Value { range: start..self.quoted_end(start, quote, slashes), quote: Some(quote) };
        }
        Value { range: at..self.bare_end(at, bare), quote: None }
    }

    /// Quotes in quotes are escaped; those of this depth end it. A value that is not closed ends with its line.
    fn quoted_end(&self, start: usize, quote: u8, depth: usize) -> usize {
        let mut at = start;
        let limit = start + LONGEST;
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
        let mut at = start;
        let limit = start + LONGEST;
        while at < self.text.len() && at < limit {
            match self.byte(at) {
                b'\\' if matches!(self.byte(at + 1), b'n' | b'r' | b't' | b'"' | b'\'' | b'\n' | b'\r' | 0) => return at,
                b'\\' => at += 1 + next_char(self.text, at + 1),
                byte if byte.is_ascii_whitespace() || byte.is_ascii_control() => return at,
                b'"' | b'\'' | b'`' => return at,
                byte if bare.contains(&byte) => return at,
                _ => at += 1,
            }
        }
        self.boundary(at)
    }

    /// The begin of a character there, or before.
    pub fn boundary(&self, at: usize) -> usize {
        let at = at.min(self.text.len());
        (0..=at).rev().find(|at| self.text.is_char_boundary(*at)).unwrap_or(0)
    }
}

fn next_char(text: &str, at: usize) -> usize {
    text.get(at..).and_then(|rest| rest.chars().next()).map_or(1, char::len_utf8)
}

/// Words that stand where a secret will be, or for none.
const STAND_INS: &[&str] = &[
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

/// Begins of what is read from elsewhere.
const REFERENCES: &[&str] = &[
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

/// Begins and ends of what a reader is to replace.
const REPLACE: (&[&str], &[&str]) = (
    &[
        "your", "<", "[", "(", "insert", "replace", "enter", "put_", "my_", "my-", "some_", "some-", "xxx", "...", "…", "***",
        "•", "todo",
    ],
    &["here", "example", "_name", "-name", "..."],
);

/// Whether it stands for a secret and is none: a variable, an example, a blank to be filled in.
pub fn is_placeholder(value: &str) -> bool {
    const SHORTEST: usize = 4;
    let value = value.trim();
    if value.len() < SHORTEST || value.contains(MARK) || is_variable(value) {
        return true;
    }
    let lower = value.to_lowercase();
    let bare = lower.trim_matches(|c: char| !c.is_alphanumeric());
    let mut characters = bare.chars();
    let first = characters.next();
    STAND_INS.contains(&bare)
        || characters.all(|character| Some(character) == first)
        || REFERENCES.iter().any(|begin| lower.starts_with(begin))
        || REPLACE.0.iter().any(|begin| lower.starts_with(begin))
        || REPLACE.1.iter().any(|end| lower.ends_with(end))
        || is_path(value)
}

/// `$NAME`, `${…}`, `$(…)`, `%NAME%`, `{name}`, `%s`, `@name`.
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

/// A file that has the secret is none.
fn is_path(value: &str) -> bool {
    let begins = value.starts_with("./") || value.starts_with("../") || value.starts_with("~/") || value.starts_with('/');
    let is_plain =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'-' | b'.' | b'/' | b'~');
    begins && value.bytes().all(is_plain) && value.bytes().filter(|byte| *byte == b'/').count() > 0
}

/// Words of a sentence about secrets, which is shown to people.
const TALK: &[&str] = &[
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

/// Whether people are to read it, rather than a program.
pub fn is_prose(value: &str) -> bool {
    let mut words = value.split(|c: char| !c.is_alphabetic()).filter(|word| !word.is_empty());
    value.trim().contains(char::is_whitespace) && words.any(|word| TALK.contains(&word.to_lowercase().as_str()))
}

/// Whether a machine made it: letters and digits, or both cases without a pattern of words.
pub fn looks_random(value: &str) -> bool {
    let count = |is: fn(&u8) -> bool| value.bytes().filter(is).count();
    let (digits, letters) = (count(u8::is_ascii_digit), count(u8::is_ascii_alphabetic));
    digits >= 2 && letters >= 2
        || digits + letters >= 12 && count(u8::is_ascii_uppercase) >= 3 && count(u8::is_ascii_lowercase) >= 3
}

/// A name or a path of names, as code has it: `config.token`, `next_token`, `T::Token`.
pub fn is_identifier(value: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b':' | b'?' | b'*' | b'&' | b'$');
    !value.starts_with(|c: char| c.is_ascii_digit()) && value.bytes().all(is_inner)
}

/// Whether all of it is a call: `get_token()`.
pub fn is_call(value: &str) -> bool {
    let name = value.find(['(', '[']).map(|at| &value[..at]);
    value.ends_with([')', ']']) && name.is_some_and(|name| !name.is_empty() && is_identifier(name))
}

/// Whether anything in it is called: `getpass()`, `tokens[0]`.
pub fn is_expression(value: &str) -> bool {
    value.contains(['(', '[']) || value.starts_with(['&', '*', '!', '{', '+', '=', '-', '/'])
}
