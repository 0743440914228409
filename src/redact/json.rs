//! Secrets in JSON: in decoded strings, and in values whose keys name a secret.

use std::borrow::Cow;

use serde_json::Value;

use super::names::SecretKind;
use super::{CUSTOM_RULE, RedactionCounts, Redactor, SecretSpan, assignment, authorization, marker, value};

/// Maximum nesting. Deeper values are left as they are; parsers do not produce them.
const MAX_VALUE_DEPTH: usize = 512;

impl Redactor {
    /// Redacts every string and number in a value, also by the name of its key. Keys stay.
    pub fn redact_json(&self, value: &mut Value) -> RedactionCounts {
        let mut found = RedactionCounts::new();
        self.walk(value, None, MAX_VALUE_DEPTH, &mut found);
        found
    }

    fn walk(&self, value: &mut Value, key: Option<SecretKind>, deeper: usize, found: &mut RedactionCounts) {
        let Some(deeper) = deeper.checked_sub(1) else { return };
        match value {
            Value::String(text) => {
                if let Cow::Owned(clean) = self.string(text, key, found) {
                    *text = clean;
                }
            }
            Value::Array(values) => values.iter_mut().for_each(|value| self.walk(value, key, deeper, found)),
            Value::Object(fields) => {
                for (key, value) in fields {
                    // A list of secrets has the name of one, in the plural.
                    let key = if value.is_array() { key.strip_suffix('s').unwrap_or(key) } else { key };
                    self.walk(value, SecretKind::of(key), deeper, found);
                }
            }
            Value::Number(number) => {
                if let Some(rule) = self.number(&number.to_string(), key) {
                    *found.entry(rule).or_default() += 1;
                    *value = Value::String(marker(rule));
                }
            }
            Value::Bool(_) | Value::Null => {}
        }
    }

    /// A string without its secrets. All of it is replaced where its key names a secret.
    fn string<'t>(&self, text: &'t str, key: Option<SecretKind>, found: &mut RedactionCounts) -> Cow<'t, str> {
        if let Some(SecretSpan { rule, range }) = self.named(text, key) {
            *found.entry(rule).or_default() += 1;
            return Cow::Owned(format!("{}{}", &text[..range.start], marker(rule)));
        }
        let redacted = self.redact(text);
        for (rule, count) in redacted.found {
            *found.entry(rule).or_default() += count;
        }
        redacted.text
    }

    /// The rule by which a number is a secret: a password of digits only, or a match of a user's pattern.
    pub(super) fn number(&self, digits: &str, key: Option<SecretKind>) -> Option<&'static str> {
        let is_whole = digits.bytes().all(|byte| byte.is_ascii_digit());
        if let Some(secret) = self.named(digits, key.filter(|name| *name == SecretKind::Password && is_whole)) {
            return Some(secret.rule);
        }
        let is_found = self.extra.iter().any(|pattern| pattern.is_match(digits));
        (is_found && !self.allow.iter().any(|allowed| allowed.is_match(digits))).then_some(CUSTOM_RULE)
    }

    /// The whole string as a secret, if its key says so.
    pub(super) fn named(&self, text: &str, key: Option<SecretKind>) -> Option<SecretSpan> {
        let name = key?;
        let start = scheme_length(name, text);
        let said = &text[start..];
        let is_allowed = |said: &str| self.allow.iter().any(|allowed| allowed.is_match(said));
        // A token may only look like a scheme.
        let before = text[..start].trim_end();
        let is_token = start > 0 && !is_allowed(before) && (authorization::is_random(before) || self.has_secret(before));
        let is_secret =
            !value::is_placeholder(said) && !value::is_prose(said) && assignment::is_secret_text(name, said) && !is_allowed(said);
        let rule =
            if name == SecretKind::Authorization { authorization::AUTHORIZATION_RULE } else { assignment::NAMED_SECRET_RULE };
        let start = if is_token { 0 } else { start };
        (is_secret || is_token).then_some(SecretSpan { rule, range: start..text.len() })
    }
}

/// Start of the secret in bytes: `Authorization` may have a scheme before it.
fn scheme_length(name: SecretKind, text: &str) -> usize {
    let first = text.split_once(' ').filter(|(word, secret)| {
        let is_scheme = || authorization::is_scheme(word) || (authorization::has_form_of_scheme(word) && !secret.contains(' '));
        name == SecretKind::Authorization && is_scheme()
    });
    first.map_or(0, |(word, _)| word.len() + 1)
}
