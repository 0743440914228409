//! Secrets in JSON: strings as they are meant, and keys that name what is in them.

use std::borrow::Cow;

use serde_json::Value;

use super::names::Name;
use super::{EXTRA, Found, Redactor, Secret, assignment, mark, value};

/// Values that are nested deeper are left: nothing that comes from a parser is.
const DEEPEST: usize = 512;

impl Redactor {
    /// Redacts every string and number in a value, also one whose key says that it is a secret. Keys stay.
    pub fn redact_json(&self, value: &mut Value) -> Found {
        let mut found = Found::new();
        self.walk(value, None, DEEPEST, &mut found);
        found
    }

    fn walk(&self, value: &mut Value, key: Option<Name>, deeper: usize, found: &mut Found) {
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
                    self.walk(value, Name::of(key), deeper, found);
                }
            }
            Value::Number(number) => {
                if let Some(rule) = self.number(&number.to_string(), key) {
                    *found.entry(rule).or_default() += 1;
                    *value = Value::String(mark(rule));
                }
            }
            Value::Bool(_) | Value::Null => {}
        }
    }

    /// A string without its secrets, or none of it where its key says that it is one.
    fn string<'t>(&self, text: &'t str, key: Option<Name>, found: &mut Found) -> Cow<'t, str> {
        if let Some(Secret { rule, range }) = self.named(text, key) {
            *found.entry(rule).or_default() += 1;
            return Cow::Owned(format!("{}{}", &text[..range.start], mark(rule)));
        }
        let redacted = self.redact(text);
        for (rule, count) in redacted.found {
            *found.entry(rule).or_default() += count;
        }
        redacted.text
    }

    /// By which rule a number is a secret: a password of nothing but digits, or what a pattern of the user finds.
    pub(super) fn number(&self, digits: &str, key: Option<Name>) -> Option<&'static str> {
        let is_whole = digits.bytes().all(|byte| byte.is_ascii_digit());
        if let Some(secret) = self.named(digits, key.filter(|name| *name == Name::Password && is_whole)) {
            return Some(secret.rule);
        }
        let is_found = self.extra.iter().any(|pattern| pattern.is_match(digits));
        (is_found && !self.allow.iter().any(|allowed| allowed.is_match(digits))).then_some(EXTRA)
    }

    /// The secret that a string is, all of it, because of its key.
    pub(super) fn named(&self, text: &str, key: Option<Name>) -> Option<Secret> {
        let name = key?;
        let start = scheme(name, text);
        let said = &text[start..];
        let is_secret = !value::is_placeholder(said)
            && !value::is_prose(said)
            && assignment::is_secret_text(name, said)
            && !self.allow.iter().any(|allowed| allowed.is_match(said));
        let rule = if name == Name::Authorization { assignment::AUTHORIZATION } else { assignment::ID };
        is_secret.then_some(Secret { rule, range: start..text.len() })
    }
}

/// Where the secret begins: `Authorization` may have a scheme before it.
fn scheme(name: Name, text: &str) -> usize {
    let first = text.split_once(' ').filter(|(word, _)| name == Name::Authorization && assignment::is_scheme(word));
    first.map_or(0, |(word, _)| word.len() + 1)
}
