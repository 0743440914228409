//! Passwords in addresses, `scheme://user:password@host`, and after curl's `-u`.

use std::ops::Range;

use super::value::{self, ScannedText};

/// Name of the rule for addresses.
pub const URL_RULE: &str = "url-password";
/// Name of the rule for curl.
pub const CURL_RULE: &str = "curl-user";

/// Maximum bytes of an address, or of a command, that are searched.
const MAX_COMMAND_BYTES: usize = 2_048;

/// Minimum bytes of a token in place of a user name; names are shorter.
const MIN_TOKEN_BYTES: usize = 20;

/// The password in the address whose `://` ends at `at`.
pub fn in_url(text: ScannedText<'_>, at: usize) -> Option<(&'static str, Range<usize>)> {
    let ends = |byte: &u8| byte.is_ascii_whitespace() || byte.is_ascii_control() || b"/?#\"'`<>\\,;()|".contains(byte);
    let length = text.text.as_bytes()[at..].iter().take(MAX_COMMAND_BYTES).take_while(|byte| !ends(byte)).count();
    let authority = text.text.get(at..at + length)?;
    let (user, _) = authority.rsplit_once('@')?;
    let Some(colon) = user.find(':') else {
        // What git and others take for a user may be a token of which only the server knows the form.
        let is_token = user.len() >= MIN_TOKEN_BYTES && value::looks_random(user);
        return secret(text, at..at + user.len()).filter(|_| is_token).map(|range| (URL_RULE, range));
    };
    secret(text, at + colon + 1..at + user.len()).map(|range| (URL_RULE, range))
}

/// The password of the curl command whose name ends at `at`.
pub fn in_curl(text: ScannedText<'_>, at: usize) -> Option<(&'static str, Range<usize>)> {
    let is_end = |(at, byte): (usize, &u8)| match byte {
        b'\n' => at == 0 || text.byte(at - 1) != b'\\',
        b';' | b'|' => true,
        _ => false,
    };
    let command = text.text.as_bytes()[at..].iter().enumerate().take(MAX_COMMAND_BYTES);
    let length = command.take_while(|(index, byte)| !is_end((at + index, byte))).count();
    let command = &text.text.as_bytes()[at..at + length];
    let flag = |name: &[u8]| memchr::memmem::find(command, name).map(|found| at + found + name.len());
    let behind = flag(b" -u").or_else(|| flag(b" --user").filter(|at| matches!(text.byte(*at), b' ' | b'=')))?;
    let behind = text.skip_blanks(behind);
    let behind = behind + usize::from(text.byte(behind) == b'=');
    // An argument of its own, in a list of them: what is there is JSON's.
    if text.is_string_quote(behind) {
        return None;
    }
    let value = text.value(behind, b"<>|;&");
    let colon = text.text[value.range.clone()].find(':')?;
    secret(text, value.range.start + colon + 1..value.range.end).map(|range| (CURL_RULE, range))
}

fn secret(text: ScannedText<'_>, range: Range<usize>) -> Option<Range<usize>> {
    (!value::is_placeholder(&text.text[range.clone()])).then_some(range)
}
