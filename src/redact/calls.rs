//! Secrets as arguments of calls: `login("ann", "…")`, `define('DB_PASSWORD', '…')`, and the values of a statement in SQL.

use std::ops::Range;

use super::names::SecretKind;
use super::strength;
use super::value::{self, ScannedText};

/// Names of calls, up to their parenthesis, whose last text is a password or a key.
pub const CALLS: &[&str] = &[
    "auth(",
    "auth=(",
    "auth = (",
    "auth=[",
    "auth: [",
    "connect(",
    "login(",
    "client(",
    "twilio(",
    "credential(",
    "credentials(",
    "authentication(",
    "authenticate(",
    "connection(",
    "getconnection(",
    "pdo(",
    "signin(",
    "sign_in(",
    "logon(",
    "session(",
    "sendkeys(",
    "encode_password(",
    "crypt(",
    "sha2(",
];
/// The same, where the text needs not look like a secret.
const LOGIN_CALLS: &[&str] = &["auth", "login", "credential", "credentials", "authentication", "signin", "sign_in", "pdo"];

/// The same, where it is the only text.
const HASHES: &[&str] = &["crypt", "sha2", "encode_password"];

/// Maximum bytes of the arguments of a call, maximum number of them, and maximum number of texts in all of them.
const MAX_CALL_BYTES: usize = 320;
const MAX_ARGUMENTS: usize = 12;
const MAX_LITERALS: usize = 2 * MAX_ARGUMENTS;

/// An argument: the range of its text, if it is one.
type Argument = Option<Range<usize>>;

/// The secret of the call whose parenthesis ends at a position.
pub fn find(text: ScannedText<'_>, call: &Range<usize>) -> Option<Range<usize>> {
    let (arguments, _) = arguments(text, call.end);
    let name = text.text[call.clone()].trim_end_matches(['(', '[', '=', ' ', ':']).to_ascii_lowercase();
    let is_login = LOGIN_CALLS.contains(&name.as_str());
    let is_only = HASHES.contains(&name.as_str());
    let is_secret = |range: &Range<usize>| {
        let said = &text.text[range.clone()];
        (strength::is_strong(said) || (is_login && strength::is_numbered_word(said))) && !value::is_placeholder(said)
    };
    // Behind it may be a database, before it is a user.
    arguments.into_iter().skip(usize::from(!is_only)).flatten().rfind(is_secret)
}

/// The value of a quoted name that is the argument before it: `define('DB_PASSWORD', '…')`.
pub fn named_argument(text: ScannedText<'_>, name: &Range<usize>) -> Option<Range<usize>> {
    let before = text.text[..name.start].trim_end_matches('\\');
    let quote = before.bytes().next_back().filter(|quote| matches!(quote, b'"' | b'\'' | b'`'))?;
    let before = before[..before.len() - 1].trim_end_matches('\\');
    let mut at = name.end + text.backslashes(name.end);
    if !before.trim_end_matches(' ').ends_with('(') || text.byte(at) != quote {
        return None;
    }
    at = text.skip_blanks(at + 1);
    if text.byte(at) != b',' {
        return None;
    }
    literal(text, text.skip_blanks(at + 1))
}

/// The values of `insert into t (…, password) values (…, '…')` in the columns with the names of secrets. `insert` is the range of
/// its first words.
pub fn inserted(text: ScannedText<'_>, insert: &Range<usize>) -> Vec<Range<usize>> {
    const FURTHEST: usize = 200;
    const VALUES: &str = "values";
    const MAX_ROWS: usize = 64;
    let mut found = Vec::new();
    let open = |from: usize| {
        memchr::memchr(b'(', &text.text.as_bytes()[from..(from + FURTHEST).min(text.text.len())]).map(|at| from + at + 1)
    };
    let Some(columns) = open(insert.end) else { return found };
    let rest = &text.text[columns..text.boundary(columns + MAX_CALL_BYTES)];
    let Some(end) = rest.find(')') else { return found };
    let is_secret = |column: &str| SecretKind::of(column.trim_matches(|c: char| c.is_whitespace() || "`\"[]\\".contains(c)));
    let secrets: Vec<usize> =
        rest[..end].split(',').enumerate().filter(|(_, column)| is_secret(column).is_some()).map(|(at, _)| at).collect();
    let Some(mut at) = open(columns + end) else { return found };
    let between = &text.text[columns + end + 1..at - 1];
    if secrets.is_empty() || !between.trim().eq_ignore_ascii_case(VALUES) {
        return found;
    }
    for _ in 0..MAX_ROWS {
        let (row, after) = arguments(text, at);
        let of_row = secrets.iter().filter_map(|column| row.get(*column).cloned().flatten());
        found.extend(of_row.filter(|range| !value::is_placeholder(&text.text[range.clone()])));
        let rest = text.text[after..].trim_start_matches([')', ' ', ',', '\n', '\r', '\t']);
        if !rest.starts_with('(') {
            break;
        }
        at = text.text.len() - rest.len() + 1;
    }
    found
}

/// The arguments from a position on, and where they end.
fn arguments(text: ScannedText<'_>, start: usize) -> (Vec<Argument>, usize) {
    let mut all: Vec<Argument> = vec![None];
    let mut depth = 0_usize;
    let mut at = start;
    let mut literals = 0;
    let limit = text.text.len().min(start + MAX_CALL_BYTES);
    while at < limit && all.len() <= MAX_ARGUMENTS && literals < MAX_LITERALS {
        match text.byte(at) {
            b')' | b']' if depth == 0 => break,
            b')' | b']' => depth -= 1,
            b'(' | b'[' => depth += 1,
            b',' if depth == 0 => all.push(None),
            b'"' | b'\'' | b'`' | b'\\' => {
                if let Some(range) = literal(text, at) {
                    literals += 1;
                    at = range.end + text.backslashes(range.end);
                    if let Some(last) = all.last_mut() {
                        *last = Some(range);
                    }
                } else if text.is_string_quote(at) {
                    break;
                }
            }
            _ => {}
        }
        at += 1;
    }
    (all, at.min(text.text.len()))
}

/// The range of the literal that starts there, without its quotes.
pub fn literal(text: ScannedText<'_>, at: usize) -> Option<Range<usize>> {
    if text.is_after_string(at + 1) {
        return None;
    }
    let value = text.quoted_value(at)?;
    let quote = value.quote?;
    let end = value.range.end + text.backslashes(value.range.end);
    (text.byte(end) == quote).then_some(value.range)
}
