//! Secrets in the header `Authorization`, whose value has a scheme before the secret.

use std::ops::Range;

use super::strength;
use super::value::{self, ScannedText, VALUE_TERMINATORS};

/// Name of the rule for `Authorization` and `Bearer`.
pub const AUTHORIZATION_RULE: &str = "authorization";

/// Finds the token after `Bearer `, anywhere in a text.
pub fn bearer(text: ScannedText<'_>, at: usize) -> Option<Range<usize>> {
    const SHORTEST: usize = 16;
    let value = text.value(text.skip_blanks(at), VALUE_TERMINATORS);
    let said = &text.text[value.range.clone()];
    let is_secret = value.quote.is_none() && said.len() >= SHORTEST && value::looks_random(said) && !value::is_placeholder(said);
    is_secret.then_some(value.range)
}

/// `true` if a word is an authorization scheme, which only announces the secret after it.
pub fn is_scheme(word: &str) -> bool {
    const SCHEMES: &[&str] = &["bearer", "basic", "token", "digest", "apikey", "negotiate", "bot", "key"];
    SCHEMES.iter().any(|scheme| scheme.eq_ignore_ascii_case(word))
}

/// `true` for a word that may be a scheme of some service: `SSWS`, `Klaviyo-API-Key`.
pub fn may_be_scheme(word: &str) -> bool {
    has_form_of_scheme(word) && !is_random(word)
}

/// `true` for a word with the letters and signs of a scheme; a token may have no others.
pub fn has_form_of_scheme(word: &str) -> bool {
    const LONGEST: usize = 32;
    let is_of_scheme = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    word.starts_with(|c: char| c.is_ascii_alphabetic()) && word.len() <= LONGEST && word.bytes().all(is_of_scheme)
}

/// `true` for a word that is a secret itself.
pub fn is_random(word: &str) -> bool {
    strength::is_strong(word) || strength::is_long_random(word)
}

/// The secret after `Authorization:` and its scheme.
pub fn authorization(text: ScannedText<'_>, at: usize) -> Option<Range<usize>> {
    const SHORTEST: usize = 6;
    let mut at = at;
    let slashes = text.backslashes(at);
    let quote = text.byte(at + slashes);
    if matches!(quote, b'"' | b'\'' | b'`') {
        at += slashes + 1;
        // An empty value: the quote that ends it begins no other.
        if text.byte(at + text.backslashes(at)) == quote {
            return None;
        }
    }
    let first = text.value(at, b"<>,");
    let word = &text.text[first.range.clone()];
    let is_scheme = is_scheme(word);
    let behind = text.skip_blanks(first.range.end);
    let has_more = behind > first.range.end && first.quote.is_none() && !text.is_line_end(behind);
    let value = if is_scheme && has_more { text.value(behind, b"<>,") } else { first.clone() };
    let said = &text.text[value.range.clone()];
    let is_secret = said.len() >= SHORTEST
        && !value::is_placeholder(said)
        && !value::is_expression(said)
        && (is_scheme || !value::is_identifier(said) || value::looks_random(said));
    if is_secret && !(value.range == first.range && has_more) {
        return Some(value.range);
    }
    if !has_more || !may_be_scheme(word) {
        return (is_secret && is_random(said)).then_some(value.range);
    }
    // Some other scheme; or one with parameters, of which one is a secret, and only the server knows which.
    let next = text.value(behind, b"<>,");
    let said = &text.text[next.range.clone()];
    if next.quote.is_none() && has_parameters(said, text.byte(next.range.end)) {
        let rest = &text.text[behind..text.boundary(behind + MAX_PARAMETER_BYTES)];
        let end = rest.find(['\n', '\r', '\'']).unwrap_or(rest.len());
        let range = behind..behind + end;
        return (strength::has_random_part(&rest[..end]) && !text.crosses_string(range.clone()) && !rest[..end].contains('\\'))
            .then_some(range);
    }
    let is_secret = !value::is_placeholder(said) && is_random(said);
    (is_secret && next.quote.is_none()).then_some(next.range)
}

/// Maximum bytes of the parameters of a scheme.
const MAX_PARAMETER_BYTES: usize = 1_024;

/// `true` for the start of parameters, `name=…`, with the byte behind it.
fn has_parameters(said: &str, behind: u8) -> bool {
    let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    said.split_once('=').is_some_and(|(name, value)| {
        let has_value = !value.trim_end_matches('=').is_empty() || matches!(behind, b'"' | b'\'' | b'\\');
        !name.is_empty() && has_value && name.bytes().all(is_of_name)
    })
}
