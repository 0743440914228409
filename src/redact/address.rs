//! Passwords in addresses, `scheme://user:password@host`, and in connection strings, `server=…;pwd=…`.

use std::ops::Range;

use super::value::{self, ScannedText};

/// Name of the rule for addresses.
pub const URL_RULE: &str = "url-password";

/// Name of the rule for connection strings.
pub const CONNECTION_RULE: &str = "connection-password";

/// Keys that a connection string has beside its `pwd`.
const CONNECTION_KEYS: &[&str] = &["uid", "user id", "user", "server", "data source", "database", "initial catalog", "host"];

/// Maximum bytes of an address that are searched.
const MAX_ADDRESS_BYTES: usize = 2_048;

/// Minimum bytes of a token in place of a user name; names are shorter.
const MIN_TOKEN_BYTES: usize = 20;

/// The password in the address whose `://` ends at `at`.
pub fn in_url(text: ScannedText<'_>, at: usize) -> Option<(&'static str, Range<usize>)> {
    let ends = |byte: &u8| byte.is_ascii_whitespace() || byte.is_ascii_control() || b"/?#\"'`<>\\,;()|".contains(byte);
    let length = text.text.as_bytes()[at..].iter().take(MAX_ADDRESS_BYTES).take_while(|byte| !ends(byte)).count();
    let authority = text.text.get(at..at + length)?;
    let (user, host) = authority.rsplit_once('@')?;
    let Some(colon) = user.find(':') else {
        // What git and others take for a user may be a token of which only the server knows the form.
        let is_token = user.len() >= MIN_TOKEN_BYTES && value::looks_random(user);
        return secret(text, at..at + user.len()).filter(|_| is_token).map(|range| (URL_RULE, range));
    };
    let is_default = is_default_login(&user[..colon], &user[colon + 1..], host);
    secret(text, at + colon + 1..at + user.len()).filter(|_| !is_default).map(|range| (URL_RULE, range))
}

/// The password in the connection string whose `pwd=` is at a range. Another key has to be beside it, since `PWD` alone is where a
/// shell is.
pub fn in_connection(text: ScannedText<'_>, keyword: &Range<usize>) -> Option<Range<usize>> {
    const MAX_PASSWORD_BYTES: usize = 512;
    const SHORTEST: usize = 3;
    let start = keyword.end + usize::from(text.byte(keyword.end).is_ascii_whitespace());
    let bytes = text.text.as_bytes();
    let is_inner = |byte: &u8| !byte.is_ascii_whitespace() && !b";\"'\\".contains(byte);
    let length = bytes[start..].iter().take(MAX_PASSWORD_BYTES).take_while(|byte| is_inner(byte)).count();
    let secret = start..text.boundary(start + length);
    let is_variable = b"$<{[".contains(&text.byte(start));
    let is_part = is_of_word(bytes, keyword.start);
    let is_beside = || is_key_behind(text, secret.end) || is_key_before(text, keyword.start);
    (length >= SHORTEST && !is_variable && !is_part && is_beside()).then_some(secret)
}

/// `true` if another parameter of a connection is behind a password.
fn is_key_behind(text: ScannedText<'_>, at: usize) -> bool {
    const LONGEST: usize = 24;
    let rest = &text.text[at..text.boundary(at + LONGEST)];
    let parameter = rest.strip_prefix(';').and_then(|rest| rest.split_once('='));
    parameter.is_some_and(|(key, _)| CONNECTION_KEYS.iter().any(|known| known.eq_ignore_ascii_case(key.trim())))
}

/// `true` if another parameter of a connection is somewhere before `pwd`, on its line.
fn is_key_before(text: ScannedText<'_>, at: usize) -> bool {
    const FURTHEST: usize = 320;
    let before = &text.text[text.boundary(at.saturating_sub(FURTHEST))..at];
    let bytes = before.as_bytes();
    let start = memchr::memrchr3(b'"', b'\'', b'\n', bytes).max(memchr::memrchr(b'\r', bytes));
    let line = start.map_or(before, |start| &before[start + 1..]);
    let Some(parameters) = line.trim_end().strip_suffix(';') else { return false };
    let is_key = |sign: usize| {
        let key = parameters.as_bytes()[..sign].trim_ascii_end();
        CONNECTION_KEYS.iter().any(|known| {
            let start = key.len().checked_sub(known.len());
            start.is_some_and(|start| key[start..].eq_ignore_ascii_case(known.as_bytes()) && !is_of_word(key, start))
        })
    };
    memchr::memrchr_iter(b'=', parameters.as_bytes()).any(is_key)
}

/// `true` if a letter or digit is before a position.
fn is_of_word(bytes: &[u8], at: usize) -> bool {
    at.checked_sub(1).is_some_and(|before| bytes[before].is_ascii_alphanumeric())
}

/// `true` for the login that every container has at first, on a host that only its own machine can see.
fn is_default_login(user: &str, password: &str, host: &str) -> bool {
    const DEFAULTS: &[&str] =
        &["postgres", "root", "admin", "guest", "minioadmin", "docker", "dev", "rabbitmq", "mysql", "mongo", "redis"];
    let name = host.split(':').next().unwrap_or(host);
    let is_local = !name.contains('.') || name.starts_with("127.") || name == "0.0.0.0" || name.ends_with(".internal");
    is_local && (DEFAULTS.contains(&password) || (user == password && password.bytes().all(|byte| byte.is_ascii_lowercase())))
}

fn secret(text: ScannedText<'_>, range: Range<usize>) -> Option<Range<usize>> {
    (!value::is_placeholder(&text.text[range.clone()])).then_some(range)
}
