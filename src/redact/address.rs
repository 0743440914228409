//! Passwords in addresses, `scheme://user:password@host`, and behind curl's `-u`.

use std::ops::Range;

use super::value::{self, Text};

/// The rule for addresses.
pub const URL: &str = "url-password";
/// The rule for curl.
pub const CURL: &str = "curl-user";

/// Bytes of an address, or of a command, that are looked at.
const LONGEST: usize = 2_048;

/// Bytes of a token that stands where a user's name does; names are shorter.
const SHORTEST_TOKEN: usize = 20;

/// The password in the address whose `://` ends here.
pub fn in_url(text: Text<'_>, at: usize) -> Option<(&'static str, Range<usize>)> {
    let ends = |byte: &u8| byte.is_ascii_whitespace() || byte.is_ascii_control() || b"/?#\"'`<>\\,;()|".contains(byte);
    let length = text.text.as_bytes()[at..].iter().take(LONGEST).take_while(|byte| !ends(byte)).count();
    let authority = text.text.get(at..at + length)?;
    let (user, _) = authority.rsplit_once('@')?;
    let Some(colon) = user.find(':') else {
        // What git and others take for a user may be a token of which only the server knows the form.
        let is_token = user.len() >= SHORTEST_TOKEN && value::looks_random(user);
        return secret(text, at..at + user.len()).filter(|_| is_token).map(|range| (URL, range));
    };
    secret(text, at + colon + 1..at + user.len()).map(|range| (URL, range))
}

/// The password of the curl command whose name ends here.
pub fn in_curl(text: Text<'_>, at: usize) -> Option<(&'static str, Range<usize>)> {
    let is_end = |(at, byte): (usize, &u8)| match byte {
        b'\n' => at == 0 || text.byte(at - 1) != b'\\',
        b';' | b'|' => true,
        _ => false,
    };
    let command = text.text.as_bytes()[at..].iter().enumerate().take(LONGEST);
    let length = command.take_while(|(index, byte)| !is_end((at + index, byte))).count();
    let command = &text.text.as_bytes()[at..at + length];
    let flag = |name: &[u8]| memchr::memmem::find(command, name).map(|found| at + found + name.len());
    let behind = flag(b" -u").or_else(|| flag(b" --user").filter(|at| matches!(text.byte(*at), b' ' | b'=')))?;
    let behind = text.skip_blanks(behind);
    let behind = behind + usize::from(text.byte(behind) == b'=');
    // An argument of its own, in a list of them: what is there is JSON's.
    if text.is_edge(behind) {
        return None;
    }
    let value = text.value(behind, b"<>|;&");
    let colon = text.text[value.range.clone()].find(':')?;
    secret(text, value.range.start + colon + 1..value.range.end).map(|range| (CURL, range))
}

fn secret(text: Text<'_>, range: Range<usize>) -> Option<Range<usize>> {
    (!value::is_placeholder(&text.text[range.clone()])).then_some(range)
}
