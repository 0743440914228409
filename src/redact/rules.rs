//! Secrets with a known form: the table in `rules.toml`. Only needed regexes are compiled.

use std::ops::Range;
use std::sync::OnceLock;

use regex::Regex;
use serde::Deserialize;

use super::{strength, value};

/// Suffix of example keys in a service's documentation, which are no secrets.
const EXAMPLE_SUFFIX: &str = "EXAMPLE";

#[derive(Deserialize)]
struct RuleTable {
    rule: Vec<Rule>,
}

/// The form of a secret.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Its name, which is written in place of the secret.
    pub id: String,
    /// Words in lower case. Every match contains one.
    pub keywords: Vec<String>,
    regex: String,
    /// `true` if a keyword may be anywhere in a match, so that the whole text is searched; else a match starts with one.
    #[serde(default)]
    pub is_anywhere: bool,
    /// `true` if a match is the first or last line of a private key, and the secret is the text after or before it.
    #[serde(default)]
    pub is_key_marker: bool,
    /// `true` if people choose the secret, so that placeholders are no secrets.
    #[serde(default)]
    is_chosen: bool,
    /// `true` if the form says little, so that the secret has to look random.
    #[serde(default)]
    is_random: bool,
    #[serde(skip)]
    compiled: OnceLock<Option<Regex>>,
}

impl Rule {
    /// All rules.
    pub fn all() -> &'static [Self] {
        static RULES: OnceLock<Vec<Rule>> = OnceLock::new();
        // A test reads the table; without one, nothing would be found by its form.
        RULES
            .get_or_init(|| toml::from_str(include_str!("rules.toml")).map_or_else(|_| Vec::new(), |table: RuleTable| table.rule))
    }

    /// The regex, with the whole match in group 1. It is compiled when needed, since a hook runs for milliseconds.
    ///
    /// A match starts at a word boundary, or after the letter of a JSON escape. A regex for the whole text checks that itself:
    /// checking matches afterwards and restarting one character later would take quadratic time in a text with many starts in
    /// sequence.
    pub fn regex(&self) -> Option<&Regex> {
        let begin = match self.is_anywhere {
            true if self.is_key_marker => "",
            true => r"(?:(?-u:\b{start-half})|\\[nrtbf])",
            false => r"\A",
        };
        self.compiled.get_or_init(|| Regex::new(&format!("{begin}({})", self.regex)).ok()).as_ref()
    }

    /// The range of the secret whose keyword starts at a position.
    pub fn secret_at(&self, text: &str, at: usize) -> Option<Range<usize>> {
        let bytes = &text.as_bytes()[..at];
        let is_within_word = bytes.last().is_some_and(u8::is_ascii_alphanumeric) && text.as_bytes()[at].is_ascii_alphanumeric();
        let is_escape = || bytes.len() > 1 && bytes[bytes.len() - 2] == b'\\' && b"nrtbf".contains(&bytes[bytes.len() - 1]);
        if is_within_word && !is_escape() {
            return None;
        }
        let groups = self.regex()?.captures(&text[at..])?;
        let secret = groups.iter().skip(2).flatten().next().or_else(|| groups.get(1))?.range();
        Some(at + secret.start..at + secret.end)
    }

    /// `true` if a match of the regex is really a secret.
    pub fn is_secret(&self, found: &str) -> bool {
        !(found.ends_with(EXAMPLE_SUFFIX)
            || (self.is_chosen && value::is_placeholder(found))
            || (self.is_random && !strength::has_random_part(found)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Redactor;

    #[test]
    fn the_table_can_be_read_and_every_regex_compiled() {
        let mut ids = std::collections::BTreeSet::new();
        for rule in Rule::all() {
            assert!(rule.regex().is_some(), "{}", rule.id);
            assert!(!rule.keywords.is_empty(), "{}", rule.id);
            assert!(rule.keywords.iter().all(|keyword| *keyword == keyword.to_lowercase()), "{}", rule.id);
            assert!(ids.insert(&rule.id), "{} twice", rule.id);
        }
        assert!(ids.len() > 100);
    }

    #[test]
    fn every_rule_finds_its_secret_and_nothing_else() {
        let lines: Vec<&str> = include_str!("tests/rules.txt").lines().filter(|line| !line.starts_with('#')).collect();
        let examples: Vec<_> = lines.chunks(3).map(|of| (of[0], example(of[1]), example(of[2]))).collect();
        let ids: Vec<_> = examples.iter().map(|(id, ..)| *id).collect();
        assert_eq!(ids, Rule::all().iter().map(|rule| &*rule.id).collect::<Vec<_>>(), "each has examples, in order");
        for (id, secret, innocent) in &examples {
            let found = Redactor::standard().redact(secret).found;
            assert!(found.contains_key(*id), "{id}: {secret} {found:?}");
            assert_eq!(&Redactor::standard().redact(innocent).text, innocent, "{id}");
        }
    }

    /// A text with what its braces stand for.
    fn example(pattern: &str) -> String {
        let mut text = String::new();
        for (at, piece) in pattern.trim_start().replace("\\n", "\n").split('{').enumerate() {
            let made = piece.split_once('}').filter(|_| at > 0).and_then(|(made, rest)| Some((made.chars().next()?, made, rest)));
            let digits = made.and_then(|(of, ..)| alphabet(of));
            let Some(((_, made, rest), digits)) = made.zip(digits) else {
                text.push_str(if at > 0 { "{" } else { "" });
                text.push_str(piece);
                continue;
            };
            text.extend(digits.chars().cycle().take(made[1..].parse().unwrap_or(0)));
            text.push_str(rest);
        }
        text
    }

    fn alphabet(of: char) -> Option<&'static str> {
        Some(match of {
            'a' => "a8Kd03mXq9ZbL2wR7tYv",
            'h' => "0a1b2c3d4e5f6978",
            'u' => "Q2W3E4R5T6Y7UABC",
            'd' => "1234567890",
            'g' => "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L",
            'z' => "A",
            'e' => "",
            _ => return None,
        })
    }
}
