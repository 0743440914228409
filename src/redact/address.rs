//! Passwords in addresses, `scheme://user:password@host`.

use std::ops::Range;

use super::value::{self, ScannedText};

/// Name of the rule for addresses.
pub const URL_RULE: &str = "url-password";

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
